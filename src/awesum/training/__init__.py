"""Training AWESOME models: the settings of a run, the trainer, and the run itself."""
