"""`awesum plan`: the memory of a run, known before it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from awesum.cli.flags import add_settings
from awesum.cli.parser import Parser, note
from awesum.errors import AwesumError

if TYPE_CHECKING:
    from awesum.planning.plan import Plan, Request

DESCRIPTION = (
    "Say how much memory a training step of a system takes on a GPU, without a GPU and without weights: the step is "
    "traced with tensors that have shapes and no contents. The flags of `awesum train` are accepted, so that its "
    "command line can be planned; those that change nothing of a step, such as --epochs, change nothing here."
)
EXAMPLES = """\
examples:
  awesum plan awesome --gpu-memory 24GB                                      does it fit?
  awesum plan awesome --memory-layers all --precision bfloat16 --optim adamw_8bit
  awesum plan longformer --input-tokens 8192 --gpu-memory 27GB               and the longest input that fits
  awesum plan pagesum --pages 20 --generate                                  for writing, not for training
  awesum plan mine.yaml                                                      a recipe
  awesum plan block-attention --plot growth.svg                              peak against length
  awesum plan --table memory                                                 the paper's GPU column, planned
  awesum plan --table truncation                                             its truncation thresholds at 27 GB
"""
OWN = (
    "what", "size", "input_tokens", "target_tokens", "segment_tokens", "segments", "attention", "gpu_memory", "gpus",
    "strategy", "generate", "json", "plot", "table", "dataset",
)  # fmt: skip
LENGTHS = (1, 2, 4, 8, 16)
"""Of a plot, in multiples of 1,024 tokens."""
ONLY_TRAINING = (
    "optim", "accumulation", "batch_size", "gradient_checkpointing", "offload", "step_in_backward", "lora_rank",
)  # fmt: skip
"""Settings without effect on a model that writes."""


def add_arguments(parser: Parser) -> None:
    """The flags of a plan, and those of `awesum train`."""
    parser.add_argument(
        "what", nargs="?", metavar="SYSTEM", help="a system that trains (see `awesum systems`), or a recipe"
    )
    plan = parser.add_argument_group("what to plan")
    plan.add_argument("--size", help="base or large: the configuration of --base's family in that size, as published")
    plan.add_argument("--input-tokens", type=int, metavar="N", help="tokens of a document (default: max_tokens)")
    plan.add_argument(
        "--target-tokens", type=int, metavar="N", help="tokens of a summary, or of a segment's part of it"
    )
    plan.add_argument("--segment-tokens", type=int, metavar="N", help="tokens of a segment (default: its upper limit)")
    plan.add_argument("--segments", type=int, metavar="N", help="segments of a document, instead of --input-tokens")
    plan.add_argument(
        "--attention",
        choices=("fused", "eager"),
        default="fused",
        help="fused kernels, or attention written out, which keeps all probabilities (default: fused)",
    )
    plan.add_argument("--gpu-memory", metavar="SIZE", help="memory of the GPU, for example 24GB: says whether it fits")
    plan.add_argument("--gpus", type=int, default=1, metavar="N", help="number of GPUs; the plan is for each of them")
    plan.add_argument("--strategy", choices=("ddp", "fsdp"), default="ddp", help="how several GPUs share the work")
    plan.add_argument("--generate", action="store_true", help="plan the writing of a summary, not training")
    plan.add_argument("--json", action="store_true", help="print JSON")
    plan.add_argument("--plot", metavar="FILE.svg", help="draw the peak against the length of the document")
    plan.add_argument("--table", choices=("memory", "truncation"), help="a table of the paper, planned")
    plan.add_argument("--dataset", help="one dataset of the table (default: all)")
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Print a plan, a table, or draw a plot."""
    from awesum.cli.parser import stay_offline_with

    stay_offline_with(None)
    _refuse_contradictions(options)
    if options.table:
        return _table(options)
    if not options.what:
        raise AwesumError("there is nothing to plan: name a system such as awesome (see `awesum systems`), or a recipe")
    request = _request(options)
    if options.plot:
        return _plot(request, Path(options.plot), Path(options.what))
    from awesum.planning.plan import make

    plan = make(request)
    print(plan.as_json() if options.json else described(plan, request))
    return 0


def _refuse_contradictions(options: argparse.Namespace) -> None:
    """Flags of which one would be without effect."""
    given = [name for name in vars(options) if name not in OWN]
    ignored = [name for name in given if name in ONLY_TRAINING] + ["gpus"] * (options.gpus != 1)
    unlike = _unlike_the_papers(options)
    has_length = options.segments is not None or options.input_tokens is not None
    refused = (
        (options.table and options.what, f"--table plans the paper's rows, not {options.what}: leave one of them out"),
        (options.table and options.plot, "--table prints a table and --plot draws one system: leave one of them out"),
        (
            options.table and (given or unlike),
            f"--table plans the paper's rows with one choice of settings: leave out {_flag([*given, *unlike, ''][0])}",
        ),
        (
            options.generate and ignored,
            f"{_flag([*ignored, ''][0])} is for training, --generate for writing: leave one out",
        ),
        (options.plot and has_length, "--plot draws several lengths: leave out --input-tokens and --segments"),
        (options.dataset and not options.table, "--dataset is one of the paper's: add --table memory or truncation"),
        (options.plot and options.json, "--plot writes a drawing and --json prints a plan: leave one of them out"),
        (options.strategy == "fsdp" and options.gpus == 1, "--strategy fsdp shares a model among GPUs: add --gpus N"),
        (
            options.segments is not None and options.input_tokens is not None,
            "--segments and --input-tokens both say how long the document is: leave one of them out",
        ),
    )
    for is_refused, message in refused:
        if is_refused:
            raise AwesumError(message)


def _unlike_the_papers(options: argparse.Namespace) -> list[str]:
    """What a table decides for itself, if it was given."""
    defaults = {"attention": "fused", "gpus": 1, "strategy": "ddp", "generate": False}
    lengths = ("input_tokens", "target_tokens", "segment_tokens", "segments", "size", "gpu_memory")
    return [name for name in (*defaults, *lengths) if getattr(options, name) != defaults.get(name)]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _request(options: argparse.Namespace) -> Request:
    from awesum import systems
    from awesum.planning.plan import TARGET, Request
    from awesum.training import recipes

    given = {name: value for name, value in vars(options).items() if name not in OWN}
    system = options.what
    if system in systems.names() and given.get("system", system) != system:
        raise AwesumError(f"{system} and --system {given['system']} are two systems: leave one of them out")
    if system not in systems.names() and ("/" in system or Path(system).suffix in (".yaml", ".yml")):
        recipe = recipes.read(system)
        given = {**{name: value for name, value in recipe.items() if name not in ("data", "output")}, **given}
        system = str(given.pop("system", "") or "awesome")
    return Request(
        system,
        given,
        options.size,
        options.input_tokens,
        TARGET if options.target_tokens is None else options.target_tokens,
        options.segment_tokens,
        options.segments,
        options.attention,
        _gpu_memory(options.gpu_memory),
        options.gpus,
        options.strategy,
        options.generate,
    )


def _gpu_memory(text: str | None) -> int | None:
    from awesum.footprint import parse_size

    if text is None:
        return None
    if text.strip().replace(".", "", 1).isdigit():
        raise AwesumError(f"--gpu-memory {text} has no unit: say {text.strip()}GB")
    return parse_size(text, "--gpu-memory")


def described(plan: Plan, request: Request) -> str:
    """A plan in words."""
    from awesum.footprint import format_size

    what = "writing" if request.generate else "training"
    trained = "" if request.generate else f", {plan.trained_parameters / 1e6:,.1f}M of them trained"
    lines = [
        f"{plan.system}: {what} takes {format_size(plan.peak_bytes)} at its peak, in {plan.place}",
        f"  {plan.parameters / 1e6:,.1f}M parameters{trained}; {plan.settings['input_tokens']:,} tokens in, "
        f"{plan.settings['target_tokens']:,} out; {plan.settings['precision']}, {request.attention} attention",
    ]
    width = max(map(len, plan.parts))
    lines += [f"  {kind:{width}}  {format_size(size):>8}" for kind, size in plan.parts.items() if size]
    if request.gpus > 1:
        lines.append(f"  on each of {request.gpus} GPUs ({request.strategy})")
    if plan.fits is not None and request.gpu_memory is not None:
        lines.append(f"{'fits' if plan.fits else 'does not fit'} {format_size(request.gpu_memory)}; {_longest(plan)}")
    for each in plan.advice:
        lines.append(
            f"  {each.flags}: {format_size(each.peak_bytes)}, {format_size(each.saves_bytes)} less"
            + (", fits" if each.fits else "")
        )
    return "\n".join([*lines, *(f"note: {each}" for each in plan.notes)])


def _longest(plan: Plan) -> str:
    if plan.longest_input_tokens is None:
        return "documents of any length fit: the peak does not grow with them"
    if not plan.longest_input_tokens:
        return "not even the shortest document fits"
    return f"the longest input that fits has {plan.longest_input_tokens:,} tokens"


def _table(options: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from awesum.planning import paper
    from awesum.reproduce import paper as numbers

    if options.dataset:
        numbers.table(options.dataset)  # refuses a name that the paper does not have
    cells = []
    for cell in getattr(paper, options.table)([options.dataset] if options.dataset else None):
        note(f"{cell.dataset}, {cell.name}: {round(cell.planned, 1):g} (paper: {cell.paper:g})")
        cells.append(cell)
    if options.json:
        print(json.dumps([asdict(cell) | {"residual": cell.residual} for cell in cells], indent=1))
    else:
        print(paper.as_markdown(options.table, cells))
        if options.table == "memory" and options.dataset in (None, "govreport"):
            print("\n| in the paper's words | paper | planned |\n|---|---|---|")
            for row in paper.comparisons():
                print(f"| {' | '.join(row)} |", flush=True)
    return 0


def _plot(request: Request, path: Path, recipe: Path) -> int:
    from awesum.files import check_output, write
    from awesum.planning.growth import drawn
    from awesum.planning.plan import STEP, longest_readable, make

    if path.suffix.lower() != ".svg":
        raise AwesumError(f"--plot {path}: the drawing is an SVG: say --plot {path.with_suffix('.svg')}")
    most = longest_readable(request)
    check_output(path, [recipe], flag="--plot")
    points = []
    for steps in LENGTHS:
        tokens = min(steps * STEP, most or steps * STEP)  # what is longer is cut
        plan = make(replace(request, input_tokens=tokens, gpu_memory=None))
        note(f"{steps * STEP:,} tokens: {plan.peak_bytes / 1e9:.2f} GB")
        points.append((steps * STEP, plan.peak_bytes))
    write(path, drawn(request.system, points, request.gpu_memory))
    print(path)
    return 0
