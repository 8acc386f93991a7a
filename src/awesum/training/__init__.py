"""Training: settings and recipes, what a system offers (`trainable`), the inputs, the trainer, and the run itself."""
