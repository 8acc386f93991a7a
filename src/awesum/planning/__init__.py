"""`awesum plan`: what a training step or a summary takes in memory, known before the run."""
