"""How well a sentence of a summary is supported by its source."""
