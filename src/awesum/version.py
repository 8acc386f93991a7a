"""The version of awesum."""

__version__ = "0.1.0"
