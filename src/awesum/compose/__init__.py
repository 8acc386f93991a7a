"""From an analysis to a summary: prompts, budgets, checked parts, and the session that ties them together.

Nothing here runs a model; `engine` does.
"""
