"""Our argument parser: an error is one line that says what is wrong, why, and what to do; it never prints the usage."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from awesum.errors import AwesumError

WRONG_CALL = 2
"""The exit code of a command line that makes no sense."""

_KINDS = {"int": "a whole number", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """`argparse` without abbreviations, with one-line errors that suggest the near miss, and epilogs as written."""

    def __init__(self, *, description: str = "", **options: Any) -> None:
        import shutil
        import textwrap

        # The formatter that leaves the examples alone leaves the description alone, too; so it is wrapped here.
        wrapped = textwrap.fill(description, max(40, min(100, shutil.get_terminal_size().columns - 2)))
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(description=wrapped, allow_abbrev=False, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse what is unknown: here, where the parser that knows the nearest flag is at hand."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse_unknown(unknown[0])
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print one line instead of the usage, and exit."""
        if match := re.fullmatch(r"argument (.+?): invalid choice: (.+?) \(choose from (.+)\)", message):
            name = "command" if match[1] == "COMMAND" else match[1]
            self.refuse_choice(name, match[2].strip("'\""), re.sub("['\"]", "", match[3]).split(", "))
        if match := re.fullmatch(r"the following arguments are required: (.+)", message):
            is_one = "," not in match[1]
            self._fail(f"missing {match[1]}", f"{self.prog} needs {'it' if is_one else 'them'}")
        if match := re.fullmatch(r"argument (.+?): expected (.+) arguments?", message):
            self._fail(f"{match[1]} has no value", f"it takes {match[2]}")
        if match := re.fullmatch(r"argument (.+?): invalid (\w+) value: (.+)", message):
            self._fail(f"{match[1]} cannot be {match[3]}", f"it takes {_KINDS.get(match[2], match[2])}")
        if match := re.fullmatch(r"argument (.+?): not allowed with argument (.+)", message):
            self._fail(f"{match[1]} and {match[2]} were both given", "only one is possible", "leave one of them out")
        self._fail(message.removeprefix("argument "), f"{self.prog} cannot be called like this")

    def refuse_choice(self, name: str, value: str, choices: Sequence[str]) -> NoReturn:
        """Refuse a value (of a flag, or a command) that is not one of the choices."""
        near = get_close_matches(value, choices, 1)
        what = f"unknown command {value!r}" if name == "command" else f"{name} cannot be {value!r}"
        self._fail(what, f"choose from {', '.join(choices)}", f"did you mean {near[0]}?" if near else "")

    def _refuse_unknown(self, argument: str) -> NoReturn:
        if not argument.startswith("-"):
            self._fail(f"unexpected argument {argument!r}", f"{self.prog} does not take it")
        flag = argument.split("=")[0]
        near = get_close_matches(flag, re.findall(r"(?<![\w-])--?[a-z][\w-]*", self.format_usage()), 1)
        self._fail(f"unknown flag {flag}", f"{self.prog} has no such flag", f"did you mean {near[0]}?" if near else "")

    def _fail(self, what: str, why: str, advice: str = "") -> NoReturn:
        self.exit(WRONG_CALL, f"awesum: error: {what} ({why}); {advice or f'see `{self.prog} --help`'}\n")


def check_positive(options: argparse.Namespace, *names: str) -> None:
    """Refuse numbers that are not above 0 (NaN included); an option that was not given is fine."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise AwesumError(f"--{name.replace('_', '-')} must be more than 0, not {value}")


def stay_offline_with(*models: str | None) -> None:
    """Keep the hub library from asking the network, if every model is embedded (or None), a local folder or file, or a
    server; one that is not this machine is named in a line, because text will go there.

    Call this before the library is imported: it looks at the environment only then.
    """
    from awesum.catalogue import resolve
    from awesum.models.address import Address, is_address
    from awesum.settings import AWESUM, EXACT, SMOLLM2

    addresses = [model for model in models if model and is_address(model)]
    for address in addresses:
        if warning := Address.parse(address).warning():
            note(warning)
    known = (AWESUM, SMOLLM2, EXACT, *addresses)
    if all(model is None or model in known or Path(resolve(model)).exists() for model in models):
        os.environ["HF_HUB_OFFLINE"] = "1"


def note(text: str) -> None:
    """A line on stderr."""
    print(f"awesum: {text}", file=sys.stderr, flush=True)
