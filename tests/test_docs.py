"""Every command and Python block of README, CONTRIBUTING and docs is run, or listed in docs_blocks.toml with a reason.

The blocks of a page run in order, in one temporary folder that has `samples/` and the small files that they name:

- as they stand, in `make test`: every sh and python block that is not listed;
- listed with `stand_ins`: the same, with a tiny local folder for each model or dataset that is too large here;
- listed as `slow`: the same, in `make test-slow`;
- lines that begin as a listed `line` does (`make`, `pip install`): what they name has to exist; they are not run.

A block whose first line is `# src/awesum/...` is a file (or a line of one) that is added to a copy of the package; the
commands of its page then run with that copy.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml

from tests import docs_stand_ins
from tests.docs_stand_ins import FILES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("samples/*.md")])
LISTED = tomllib.loads((ROOT / "tests" / "docs_blocks.toml").read_text(encoding="utf-8"))
NEW_FILE = re.compile(r"# (src/awesum/\S+\.(?:py|yaml))(?:, in (\w+))?\n")
SHELL = re.compile(r"[|<>;&{}*$`]")
"""What only a shell understands."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line without the comment at its end, which identifies it."""
        return re.split(r"\s+#", self.text.splitlines()[0])[0].rstrip(" \\") or self.text.splitlines()[0]

    @property
    def key(self) -> tuple[str, str]:
        return self.page, self.first

    @property
    def listed(self) -> dict[str, object]:
        """Its entry in docs_blocks.toml."""
        return next((entry for entry in LISTED["block"] if (entry["page"], entry["first"]) == self.key), {})

    @property
    def is_slow(self) -> bool:
        return "slow" in self.listed

    @property
    def stand_ins(self) -> list[str]:
        names = self.listed.get("stand_ins", [])
        assert isinstance(names, list)
        return names


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^(`{3,})([^\n]*)\n(.*?)^\1`*$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [Block(str(page.relative_to(ROOT)), language, text) for _, language, text in found]


ALL = {str(page.relative_to(ROOT)): blocks(page) for page in PAGES}
RUN = {
    page: [block for block in found if block.language in ("sh", "python") or NEW_FILE.match(block.text)]
    for page, found in ALL.items()
}
FAST = [page for page, found in RUN.items() if any(not block.is_slow for block in found)]
SLOW = [page for page, found in RUN.items() if any(block.is_slow for block in found)]


def commands(block: Block) -> list[str]:
    """The commands of a sh block without comments, each on one line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := re.split(r"(?:^|\s+)#", line)[0].strip())]


def not_run(command: str) -> str | None:
    """What to check of a command that is not run: `target` or `package`."""
    return next((line["check"] for line in LISTED["line"] if command.startswith(line["starts"])), None)


# What needs no running


def test_every_block_has_a_language_that_says_what_to_do_with_it() -> None:
    for found in ALL.values():
        for block in found:
            assert block.language in ("sh", "python", "yaml", "json", "text") or block.language.startswith("{"), block


def test_every_entry_of_the_list_belongs_to_one_block() -> None:
    known = Counter(block.key for found in RUN.values() for block in found)
    for entry in LISTED["block"]:
        key = entry["page"], entry["first"]
        assert known[key] == 1, f"{key} is the beginning of {known[key]} blocks: correct docs_blocks.toml"
        assert entry.get("slow") or entry.get("stand_ins"), f"{key} needs no entry: it runs as it stands"
        assert set(entry) <= {"page", "first", "slow", "stand_ins"}
    names = [(entry["page"], entry["first"]) for entry in LISTED["block"]]
    assert len(names) == len(set(names))
    assert all(line["reason"] for line in LISTED["line"])


def test_data_blocks_parse() -> None:
    for found in ALL.values():
        for block in found:
            if block.language == "json":
                json.loads(block.text)
            elif block.language == "yaml":
                assert yaml.safe_load(block.text)


def test_lines_that_are_not_run_name_things_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [
        command for page in RUN.values() for block in page if block.language == "sh" for command in commands(block)
    ]
    checked = [(command, check) for command in found if (check := not_run(command))]
    assert checked
    for command, check in checked:
        words = shlex.split(command)
        if check == "target":
            wanted = [word for word in words[1:] if "=" not in word]
            assert set(wanted) <= targets, command
        else:
            package = words[-1]
            named = re.fullmatch(r"(?:dist/)?awesum(?:\[([\w,]+)\]|-([\d.]+)-py3-none-any\.whl)?", package)
            assert named, command
            assert set((named[1] or "").split(",")) - {""} <= set(project["optional-dependencies"]), command
            assert named[2] in (None, _version()), command


def _version() -> str:
    import awesum

    return awesum.__version__


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_benchmarks_that_are_named_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"benchmarks\.(\w+)", page.read_text(encoding="utf-8")):
            places = [ROOT / "benchmarks" / f"{name}.py", ROOT / "benchmarks" / name / "__main__.py"]
            assert name == "md" or any(place.exists() for place in places), f"{page.name} names benchmarks.{name}"


def test_the_readme_has_at_most_five_figures() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|(?!-)[^|]+\|[^|]*\d[^|]*\|$", readme, re.M)
    assert 1 <= len(rows) <= 5


def test_citation_names_this_version_and_the_paper() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert str(cited["cff-version"]) == "1.2.0"
    assert cited["version"] == _version()
    assert cited["license"] == "Apache-2.0"
    (paper,) = cited["references"]
    assert paper["title"].startswith("AWESOME: GPU Memory-constrained Long Document Summarization")
    assert [author["family-names"] for author in paper["authors"]] == ["Cao", "Wang"]


# Running


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Path]:
    """A tiny folder for each name of a model or dataset, made once."""
    made = tmp_path_factory.mktemp("stand-ins")
    bart = made / "bart"
    _terse(request.getfixturevalue("tiny_bart_folder"), bart)
    chat: Path = request.getfixturevalue("tiny_folder")
    docs_stand_ins.dataset(made / "dataset")
    docs_stand_ins.dataset(made / "questions", query="What about the schedule?")
    _bert(made / "bert")
    _trained(bart, made / "model")
    return {
        "facebook/bart-large": bart,
        "facebook/bart-base": bart,
        "HuggingFaceTB/SmolLM2-1.7B-Instruct": chat,
        "bert-base-uncased": made / "bert",
        "roberta-base": made / "bert",
        "sentence-transformers/all-roberta-large-v1": made / "bert",
        "model": made / "model",
        "govreport": made / "dataset",
        "billsum": made / "dataset",
        "reports": made / "dataset",
        "pagesum": made / "dataset",
        "qmsum": made / "questions",
    }


def _bert(folder: Path) -> None:
    """A random BERT with eight layers, which is what DiscoScore looks at."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,"
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=8, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(folder)


def _terse(bart: Path, folder: Path) -> None:
    """The tiny BART, which now ends what it writes soon: random weights would go on to the last token."""
    from transformers import AutoTokenizer, BartForConditionalGeneration

    model = BartForConditionalGeneration.from_pretrained(bart)
    model.final_logits_bias[0, model.config.eos_token_id] = 4.0
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(bart).save_pretrained(folder)


def _trained(bart: Path, folder: Path) -> None:
    """What `awesum train` saves, without the training."""
    from transformers import AutoTokenizer

    from awesum.models.bart import AwesomeBart

    model = AwesomeBart.from_pretrained(str(bart), memory="attentive", memory_size=8)
    model.generation_config.update(num_beams=1, max_length=32)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(bart).save_pretrained(folder)


class Runner:
    """Runs the blocks of a page in a folder."""

    def __init__(self, folder: Path, stand_ins: dict[str, Path]) -> None:
        self.folder, self.stand_ins = folder, stand_ins
        self.package: Path | None = None
        """The copy of the package that blocks add files to."""
        (folder / "samples").symlink_to(ROOT / "samples")

    def __call__(self, block: Block) -> None:
        """Run a block, with its stand-ins there for as long as it runs."""
        if adding := NEW_FILE.match(block.text):
            self._add(block, adding)
            return
        links = [self._link(name) for name in block.stand_ins]
        self._make_files(block)
        try:
            if block.language == "python":
                with chdir(self.folder), redirect_stdout(io.StringIO()):
                    exec(compile(block.text, f"{block.page}: {block.first}", "exec"), {"__name__": "docs"})
            else:
                for command in commands(block):
                    if not not_run(command):
                        self._run(command, block)
        finally:
            for link in links:
                link.unlink()

    def _make_files(self, block: Block) -> None:
        for name, make in FILES.items():
            path, plain = self.folder / name, re.escape(name)
            is_named = re.search(rf"(?<![\w/.-]){plain}(?![\w.-])", block.text)
            is_written = re.search(rf"(?:-o|--out|--output) {plain}(?![\w.-])", block.text)
            if is_named and not is_written and not path.exists():
                make(path)

    def _link(self, name: str) -> Path:
        link = self.folder / name
        assert not link.exists(), f"there is a {name} already: remove it from the block's stand-ins"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(self.stand_ins[name], target_is_directory=True)
        return link

    def _run(self, command: str, block: Block) -> None:
        what, before = f"{block.page}: {command}", set(self.folder.rglob("*"))
        if self.package is None and command.startswith("awesum ") and not SHELL.search(command):
            from awesum.cli import main

            out, err = io.StringIO(), io.StringIO()
            with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
                try:
                    code = main(shlex.split(command)[1:])
                except SystemExit as end:
                    code = int(str(end.code))
            printed, complaints = out.getvalue(), err.getvalue()
        else:
            source = [str(self.package), str(ROOT)] if self.package else [str(ROOT)]
            environment = os.environ | {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join(source),
                "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait leave a busy machine to the others
            }
            shell = ["bash", "-euo", "pipefail", "-c", command]
            done = subprocess.run(shell, cwd=self.folder, env=environment, capture_output=True, text=True)
            code, printed, complaints = done.returncode, done.stdout, done.stderr
        assert code == 0, f"{what}\n{printed}\n{complaints}"
        did = printed.strip() or complaints.strip() or set(self.folder.rglob("*")) - before
        assert did, f"{what} did nothing"  # a tiny model may write nothing; its figures are on stderr

    def _add(self, block: Block, adding: re.Match[str]) -> None:
        """Add a file, or a line of one, to the copy of the package."""
        if self.package is None:
            self.package = self.folder / "package"
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / "src", self.package, ignore=ignored)
        path, body = self.package / adding[1].removeprefix("src/"), block.text[adding.end() :]
        if adding[2]:
            text, number = re.subn(
                rf"^{adding[2]}\b[^\n]*[({{]\n", lambda found: found[0] + body, path.read_text(), count=1, flags=re.M
            )
            assert number == 1, f"{path} has no {adding[2]}"
            path.write_text(text)
        else:
            assert not path.exists(), f"{adding[1]} is there already"
            path.write_text(body)


@pytest.fixture
def run(tmp_path: Path, stand_ins: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A runner in an empty folder, with a cache that has the embedded model and nothing else."""
    from awesum.weights import smollm2_folder

    cache = tmp_path / "cache"
    cache.mkdir()
    converted = smollm2_folder()
    (cache / converted.name).symlink_to(converted)
    monkeypatch.setenv("AWESUM_CACHE", str(cache))
    # In one process: to start others takes longer than the few documents here, and is tested elsewhere.
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    (tmp_path / "here").mkdir()
    return Runner(tmp_path / "here", stand_ins)


@pytest.mark.parametrize("page", FAST)
def test_blocks_run(page: str, run: Runner) -> None:
    for block in RUN[page]:
        if not block.is_slow or NEW_FILE.match(block.text):
            run(block)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_slow_blocks_run(page: str, run: Runner) -> None:
    """All blocks of the page, because they build on each other."""
    for block in RUN[page]:
        run(block)
