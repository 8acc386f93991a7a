"""The models that write: loading them, and writing with many prompts side by side."""
