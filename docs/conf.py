"""Sphinx: the pages of this folder and an API reference from docstrings. `make docs` builds it, without a network."""

from __future__ import annotations

import awesum

project = "awesum"
author = "The awesum authors"
copyright = author
version = release = awesum.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
default_role = "code"  # docstrings mark code with single backticks
html_theme = "alabaster"
html_theme_options = {"description": "Summaries of documents of any length", "page_width": "1100px"}
html_copy_source = False

myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True

# Annotations are names without a module, and two classes are called System: one summarizes, one is a column of a table.
suppress_warnings = ["ref.python"]
