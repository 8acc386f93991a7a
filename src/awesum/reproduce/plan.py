"""What `awesum reproduce` is asked to do: which rows, on which data, from which weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from awesum import files, systems
from awesum.datasets import is_public, splits
from awesum.errors import AwesumError
from awesum.reproduce import paper
from awesum.settings import EMBEDDED
from awesum.training import recipes
from awesum.training.settings import TrainingSettings, own_fields, read_settings

EXTRACTOR = "extractor"
"""The recipe of the extractor, and the name of its folder and of its base; and the setting of those that take it."""
FILE = "reproduce.json"
"""The file that makes a folder one of `awesum reproduce`, with its settings."""
COMMON = ("data", "output", "system", "base", "documents", "validation_documents")
"""Settings of a row that the plan itself decides."""


@dataclass(frozen=True)
class Plan:
    """One call of `awesum reproduce`. Making one checks everything that can be checked without loading a model."""

    dataset: str
    output: Path
    rows: tuple[str, ...] = ()
    """Rows of the table, or recipes such as `beyond/cached`; all rows of the table if none is named."""
    data: str = ""
    """A folder, or a public name; by default the dataset's own name."""
    split: str = "test"
    documents: int | None = None
    """The first N documents of each split."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Pretrained models instead of the recipes': by row, and under "" for every row whose system takes it."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Settings to change in every row whose system has them."""

    def __post_init__(self) -> None:
        table = paper.table(self.dataset)
        object.__setattr__(self, "rows", tuple(dict.fromkeys(self.rows)) or tuple(table.rows))
        object.__setattr__(self, "data", self.data or self.dataset)
        for row in self.rows:
            if row not in table.rows and (row not in recipes.names() or self._system(row) == EXTRACTOR):
                near = get_close_matches(row, [*table.rows, *recipes.names()], 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(table.rows)}"
                raise AwesumError(f"the table of {self.dataset} has no row {row!r}: {hint}")
        if self.documents is not None and self.documents < 1:
            raise AwesumError(f"--documents must be more than 0, not {self.documents}")
        self._check_names()
        self._check_bases()
        there = splits(self.data)
        for split in ("train", self.split):
            if there and split not in there:
                raise AwesumError(f"{self.data} has no split {split!r}: it has {', '.join(there)} (see --split)")
        if not there:
            raise AwesumError(f"there is no dataset {self.data}: give --data a folder with train.jsonl and test.jsonl")

    def _check_names(self) -> None:
        based = [*self.rows, *([EXTRACTOR] if self.trains_extractor else [])]
        for row in self.bases:
            if row and row not in based and row not in (*self.table.rows, EXTRACTOR):
                raise AwesumError(f"--base {row}=... names a row that there is not: choose from {', '.join(based)}")
        # Those of rows that are not asked for now are accepted, too: they may be, later, in the same folder.
        known = {name for row in (*self.table.rows, *self.rows) for name in self._known(row)}
        for name in self.changes:
            if name in COMMON:
                raise AwesumError(f"--set {name} is decided by `awesum reproduce` itself: see its other flags")
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}?" if near else "see `awesum train --help`"
                raise AwesumError(f"no row has a setting {name!r}: {hint}")

    def _check_bases(self) -> None:
        """Refuse models of a family that a row, or every row, does not take, if they are on this machine."""
        there = [*self.rows, *([EXTRACTOR] if self.trains_extractor else [])]
        for row, base in self.bases.items():
            kind = _local_type(base)
            if kind is None:
                continue
            if row in there:
                systems.find(self._system(row)).check_base(base, kind)
            elif not row and not any(kind in systems.find(self._system(each)).bases for each in there):
                raise AwesumError(
                    f"{base} is a {kind!r} model, and no row takes that: give another --base (the rows are "
                    f"{', '.join(self.rows)})"
                )

    def _known(self, row: str) -> set[str]:
        return {each.name for each in fields(TrainingSettings)} | {*own_fields(self._system(row))}

    def _system(self, row: str) -> str:
        return str(recipes.read(self.recipe(row))["system"])

    def selects(self, row: str) -> bool:
        """Whether a row is shown the sentences that an extractor selects."""
        values = {**recipes.read(self.recipe(row)), **self.changes}
        return values["system"] == "extract-abstract" or values.get("salient", "none") != "none"

    @property
    def trains_extractor(self) -> bool:
        """Whether the paper's extractor is trained first: a row takes one, and none is given."""
        return EXTRACTOR not in self.changes and any(map(self.selects, self.rows))

    @cached_property
    def table(self) -> paper.Table:
        """The paper's table."""
        return paper.table(self.dataset)

    def recipe(self, row: str) -> str:
        """The name of a row's recipe."""
        return row if "/" in row else f"{self.dataset}/{row}"

    def name(self, row: str) -> str:
        """The name of a row in tables."""
        if row == EXTRACTOR:
            return "the extractor"
        return self.table.rows[row].name if row in self.table.rows else row.rpartition("/")[2]

    def model(self, row: str) -> Path:
        """Where a row is trained."""
        return self.output / "models" / _file_name(row)

    def predictions(self, row: str) -> Path:
        """The file of a row's summaries."""
        return self.output / "predictions" / f"{_file_name(row)}.jsonl"

    @property
    def references(self) -> Path:
        """The documents to summarize, with their reference summaries."""
        return self.output / "test.jsonl"

    def settings(self, row: str) -> tuple[TrainingSettings, Any]:
        """The settings of a row's training run."""
        values: dict[str, Any] = {
            "data": self.data,
            "output": str(self.model(row)),
            "documents": self.documents,
            "validation_documents": self.documents,
            **{name: value for name, value in self.changes.items() if name in self._known(row)},
        }
        if base := self._base(row):
            values["base"] = base
        if row != EXTRACTOR and self.trains_extractor and self.selects(row):
            values[EXTRACTOR] = str(self.model(EXTRACTOR))
        return read_settings(self.recipe(row), values)

    def _base(self, row: str) -> str | None:
        if row in self.bases or "" not in self.bases:
            return self.bases.get(row)
        system = systems.find(self._system(row))
        return self.bases[""] if self._type_of_base in system.bases else None

    @cached_property
    def _type_of_base(self) -> str:
        """The kind of model that is given for all rows."""
        if known := _local_type(self.bases[""]):
            return known
        from awesum.loading import load_model_type

        return load_model_type(self.bases[""])

    def models(self, row: str) -> list[str]:
        """The models that a row loads, by name or folder."""
        values = {**recipes.read(self.recipe(row)), **self.changes}
        encoder = str(values.get("encoder") or "")
        return [self._base(row) or str(values["base"]), *([encoder] if encoder not in ("", EMBEDDED) else [])]

    @property
    def key(self) -> dict[str, Any]:
        """What a folder has to agree on, so that its rows can be compared. More rows may be asked for later."""
        return {
            "dataset": self.dataset,
            "data": self.data if is_public(self.data) else str(Path(self.data).expanduser().resolve()),
            "split": self.split,
            "documents": self.documents,
            "bases": {row: _place(base) for row, base in sorted(self.bases.items())},
            "settings": dict(sorted(self.changes.items())),
        }

    def check_folder(self) -> None:
        """Refuse a folder of other settings, or of something else."""
        path = self.output / FILE
        if not path.exists():
            if self.output.is_dir() and any(not path.name.startswith(".") for path in self.output.iterdir()):
                raise AwesumError(f"{self.output} has files that are not of `awesum reproduce`: give another --output")
            return
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            differing = next((name for name, value in self.key.items() if known[name] != value), None)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AwesumError(f"cannot read {path} ({error}): give another --output") from error
        if differing is not None:
            raise AwesumError(
                f"{self.output} was begun with {differing}={_shown(known[differing])}, not "
                f"{_shown(self.key[differing])}: repeat the command as it was, or give another --output; nothing was "
                "changed"
            )

    def write(self) -> None:
        """Begin the folder."""
        for folder in (self.output / "models", self.output / "predictions", self.output / "scores"):
            folder.mkdir(parents=True, exist_ok=True)
        files.write(self.output / FILE, json.dumps(self.key, indent=1) + "\n")


def _file_name(row: str) -> str:
    return row.replace("/", "-")


def _local_type(base: str) -> str | None:
    """The kind of model in a folder, if it is one, without the library of models: that is slow."""
    config = Path(base).expanduser() / "config.json"
    try:
        return str(json.loads(config.read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _place(base: str) -> str:
    path = Path(base).expanduser()
    return str(path.resolve()) if path.exists() else base


def _shown(value: object) -> str:
    return "all" if value is None else json.dumps(value)
