"""The flags of training settings, for the commands that take them."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

from awesum import systems
from awesum.cli.parser import Parser
from awesum.training.settings import TrainingSettings, own_fields, owners, trainable

WIDEST = 76
"""Characters of a heading in the help."""


def add_settings(parser: Parser) -> None:
    """A flag for each setting of every system, and of each system that trains."""
    common = parser.add_argument_group("settings of every system")
    own: dict[tuple[str, ...], list[Field[Any]]] = {}
    for system in trainable():
        for name, field in own_fields(system).items():
            if system == owners(name)[0]:
                own.setdefault(tuple(owners(name)), []).append(field)
    flags: list[tuple[argparse.Action, Sequence[str]]] = []
    for field in fields(TrainingSettings):
        _add(common, field, _help(field), **({"action": _Choose, "flags": flags} if field.name == "system" else {}))
    for names, those in own.items():
        group = parser.add_argument_group(*_heading(names))
        flags += [(_add(group, field, _own_help(field.name, names)), names) for field in those]


def _heading(names: Sequence[str]) -> tuple[str, str | None]:
    """The title of a group of flags, and below it the systems that have them if there are too many for a title."""
    title = f"settings of {' and '.join(names)}"
    if len(title) <= WIDEST:
        return title, None
    return f"settings of {len(names)} systems", textwrap.fill(", ".join(names), WIDEST)


class _Choose(argparse.Action):
    """`--system`: from here on, the help shows the flags of this system only."""

    def __init__(self, *args: Any, flags: list[tuple[argparse.Action, Sequence[str]]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.flags = flags

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        systems.find(values)
        for flag, owned_by in self.flags:
            flag.help = _own_help(flag.dest, [values]) if values in owned_by else argparse.SUPPRESS
        setattr(namespace, self.dest, values)


def _add(group: Any, field: Field[Any], text: str, **options: Any) -> argparse.Action:
    # A switch can be given alone: `--freeze-trunk` is `--freeze-trunk true`.
    alone: dict[str, Any] = {"nargs": "?", "const": "true"} if isinstance(field.default, bool) else {}
    flag: argparse.Action = group.add_argument(
        f"--{field.name.replace('_', '-')}",
        default=argparse.SUPPRESS,
        metavar="VALUE",
        help=text.replace("%", "%%"),
        **alone,
        **options,
    )
    return flag


def _help(field: Field[Any]) -> str:
    is_told = field.default == "" or "(default: " in field.metadata["help"]
    shown = "" if is_told else f" (default: {'all' if field.default is None else field.default})"
    return str(field.metadata["help"]) + shown


def _own_help(name: str, names: Sequence[str]) -> str:
    """The text for a setting of some systems; where these differ, of each of them."""
    texts = {system: _help(own_fields(system)[name]) for system in names}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{system}: {text}" for system, text in texts.items())
