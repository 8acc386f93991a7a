"""`python -m awesum` is the same as `awesum`."""

import sys

from awesum.cli import command

sys.exit(command())
