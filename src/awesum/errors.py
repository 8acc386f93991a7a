"""The one kind of error that is the user's to mend: shown as a single line, never as a traceback."""


class AwesumError(Exception):
    """What happened, why, and what to do next, in one line."""


INTERRUPTED = 130
"""The exit code that shells give to a command ended by Ctrl-C."""
