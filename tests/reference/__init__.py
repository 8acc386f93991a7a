"""Slow, obvious versions of what the package does fast, to compare with."""
