"""`awesum train`: a system, trained on documents with reference summaries."""

from __future__ import annotations

import argparse
from pathlib import Path

from awesum.cli.flags import add_settings
from awesum.cli.parser import Parser, stay_offline_with
from awesum.errors import AwesumError
from awesum.files import check_output
from awesum.training.settings import read_settings

DESCRIPTION = (
    "Train a system on documents with reference summaries. Those that go from segment to segment (awesome, se3, "
    "adapter) take memory that does not grow with the document. After an interruption, the same command resumes from "
    "the last checkpoint. run.json in the output folder records the settings, the losses and the figures."
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


def add_arguments(parser: Parser) -> None:
    """A flag for each setting: those of every system, and those of each system that trains."""
    parser.add_argument(
        "recipe",
        nargs="?",
        metavar="RECIPE",
        help="a recipe (see `awesum recipes`), or a YAML file of settings; command-line flags override it",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress bar")
    parser.add_argument(
        "--force", action="store_true", help="train even if the planned peak is more than the GPU has free"
    )
    parser.add_argument("--model", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # renamed, which is reported
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Train, and print the folder of the trained model."""
    given = {name: value for name, value in vars(options).items() if name not in ("recipe", "quiet", "force")}
    if "model" in given:
        raise AwesumError("--model of `awesum train` was renamed: say --base NAME_OR_PATH")
    settings, own = read_settings(options.recipe, given)
    inputs = [Path(name).expanduser() for name in (settings.data, settings.base, options.recipe) if name]
    check_output(Path(settings.output).expanduser(), inputs, is_folder=True, flag="--output")
    from awesum.datasets import is_public

    if not is_public(settings.data):
        stay_offline_with(settings.base, settings.encoder or None)
    from functools import partial

    from awesum.loading import hide_progress_bars
    from awesum.planning.before import before_training
    from awesum.training.run import is_first_process, train
    from awesum.training.trainer import OfThisProcess

    hide_progress_bars()  # of loading and saving; training shows its own
    try:
        folder = train(settings, own, quiet=options.quiet, planner=partial(before_training, force=options.force))
    except AwesumError as error:
        if is_first_process() or isinstance(error, OfThisProcess):
            raise
        return 1  # the first process says the same
    if is_first_process():
        print(folder)
    return 0
