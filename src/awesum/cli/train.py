"""`awesum train`: a system, trained on documents with reference summaries."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from awesum import systems
from awesum.cli.parser import Parser, stay_offline_with
from awesum.errors import AwesumError
from awesum.files import check_output
from awesum.training.settings import TrainingSettings, own_fields, owners, read_settings, trainable

DESCRIPTION = (
    "Train a system on documents with reference summaries, in memory that does not grow with the length of the "
    "documents. After an interruption, the same command resumes from the last checkpoint. What was set, the loss and "
    "the figures are in run.json in the output folder."
)
EXAMPLES = """\
examples:
  awesum recipes                                                           list the packaged recipes
  awesum train govreport/awesome --data govreport/ --output model/         the paper's best model on GovReport
  awesum train govreport/se3 --data govreport/ --output se3/ --epochs 5    its baseline, with a setting changed
  awesum train mine.yaml --data mine/ --output model/                      a recipe of your own
  awesum train --base facebook/bart-base --data mine/ --output model/ --memory compressive
  awesum train smollm2/adapter --data prepared/ --output adapter/          an adapter for the embedded model
  awesum train --system adapter --help                                     the flags of one system
  torchrun --nproc-per-node 2 -m awesum train qmsum/awesome --data qmsum/ --output model/
  awesum summarize report.pdf --model model/                               use the trained model
"""

WIDEST = 76
"""Characters of a heading in the help."""


def add_arguments(parser: Parser) -> None:
    """A flag for each setting: those of every system, and those of each system that trains."""
    parser.add_argument(
        "recipe",
        nargs="?",
        metavar="RECIPE",
        help="a recipe (see `awesum recipes`), or a YAML file of settings; command-line flags override it",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress bar")
    parser.add_argument("--model", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # renamed, which is reported
    add_settings(parser)


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


def run(options: argparse.Namespace) -> int:
    """Train, and print the folder of the trained model."""
    given = {name: value for name, value in vars(options).items() if name not in ("recipe", "quiet")}
    if "model" in given:
        raise AwesumError("--model of `awesum train` was renamed: say --base NAME_OR_PATH")
    settings, own = read_settings(options.recipe, given)
    inputs = [Path(name).expanduser() for name in (settings.data, settings.base, options.recipe) if name]
    check_output(Path(settings.output).expanduser(), inputs, is_folder=True, flag="--output")
    from awesum.datasets import is_public

    if not is_public(settings.data):
        stay_offline_with(settings.base, settings.encoder or None)
    from awesum.loading import hide_progress_bars
    from awesum.training.run import is_first_process, train
    from awesum.training.trainer import OfThisProcess

    hide_progress_bars()  # of loading and saving; training shows its own
    try:
        folder = train(settings, own, quiet=options.quiet)
    except AwesumError as error:
        if is_first_process() or isinstance(error, OfThisProcess):
            raise
        return 1  # the first process says the same
    if is_first_process():
        print(folder)
    return 0
