"""Systems: everything that turns a document into a summary, each in one file behind one protocol.

from awesum import systems
system = systems.load("extract")

A file of this package is a system; its name with hyphens is the system's name. Nothing is imported before it is named.
"""

from __future__ import annotations

from awesum.systems.registry import find, kind_of, load, names
from awesum.systems.system import System

__all__ = ["System", "find", "kind_of", "load", "names"]
