"""`run.json`: what a training run was started with, how its loss went, and whether it has finished.

A run is resumed, or found to be finished, only if its settings are those of the record.
"""

from __future__ import annotations

import json
import time
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from awesum import files
from awesum.datasets import is_public
from awesum.errors import AwesumError
from awesum.training.settings import TrainingSettings, as_dict
from awesum.training.validation import BEST
from awesum.version import __version__

FILE = "run.json"
RUNNING, FINISHED = "running", "finished"
SPEEDS = ("tokens_per_second", "batches_per_second")
PEAKS = ("peak_memory_bytes", "peak_memory_reserved_bytes")
SCORES = ("rouge-1", "rouge-2", "rouge-l", BEST)
"""Of a validation, beside the loss."""
_PLACES = ("data", "base", "encoder", "extractor")
"""Settings that name a file or a folder: the same one, however its path is written."""


def read(folder: Path) -> dict[str, Any] | None:
    """The record of an earlier run in a folder, if there is one."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("settings"), dict):
            return found
        reason = "it has no settings"
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = str(error)
    raise AwesumError(f"cannot read {path} ({reason}): give another --output, or delete {folder} to start again")


def is_finished(record: dict[str, Any]) -> bool:
    """Whether the run has finished."""
    return record.get("state") == FINISHED


def check_same(folder: Path, record: dict[str, Any], settings: TrainingSettings, options: Any) -> None:
    """Refuse to resume a run with other settings, except those that change no result, and more epochs."""
    before, now = _current(record["settings"]), recorded(settings, options)
    defaults = {field.name: field.default for each in (settings, options) for field in fields(each)}
    changeable = {*settings.changeable, *options.changeable}
    for name in ("system", *(name for name in now if name != "system")):
        was, value = before.get(name, defaults[name]), now[name]  # an older run did without what it does not name
        if was == value or name in changeable or (name == "epochs" and isinstance(was, float) and value > was):
            continue
        more = ", with at least as many epochs" if name == "epochs" else ""
        raise AwesumError(
            f"{folder} was trained with {name}={was!r}, not {value!r}: give another --output, delete that folder to "
            f"train anew, or repeat the command as it was{more}"
        )


def _current(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run as this version names them: before there was a depth, `attentive` was the literal kind."""
    is_older = "memory_depth" not in settings and settings.get("memory") == "attentive"
    return settings | {"memory": "attentive-literal"} if is_older else settings


def check_base(folder: Path, record: dict[str, Any], base: str, fingerprint: str) -> None:
    """Refuse to resume a run whose pretrained model has changed since."""
    known = record.get("base_fingerprint")
    if base not in (known, fingerprint) and known != fingerprint:  # the name stands for a model that is not there
        raise AwesumError(
            f"the weights of {base} are not those that {folder} was trained from: give another --output, or delete "
            "that folder to train anew"
        )


def recorded(settings: TrainingSettings, options: Any) -> dict[str, Any]:
    """All settings of a run as JSON has them, with absolute paths."""
    values = as_dict(settings, options)
    for name in _PLACES:
        path = Path(values[name]).expanduser()
        if values[name] and path.exists() and not (name == "data" and is_public(values[name])):
            values[name] = str(path.resolve())
    values["output"] = str(Path(settings.output).expanduser().resolve())
    made: dict[str, Any] = json.loads(json.dumps(values))
    return made


def note_rows_at_once(folder: Path, number: int) -> None:
    """Record how many rows of `awesum reproduce` were trained side by side, which their speed depends on."""
    content = read(folder)
    if content is not None and "rows_at_once" not in content:
        files.write(folder / FILE, json.dumps(content | {"rows_at_once": number}, indent=1) + "\n")


class Record(TrainerCallback):
    """Keeps `run.json` up to date: written when training begins, whenever something is logged, and at the end."""

    def __init__(
        self,
        folder: Path,
        settings: TrainingSettings,
        options: Any,
        *,
        base_fingerprint: str,
        documents: int,
        validation_documents: int,
        precision: str,
        device: str,
        earlier: dict[str, Any] | None = None,
        resumed_at: int = 0,
        planned: int | None = None,
    ) -> None:
        earlier = earlier or {}
        self.path = folder / FILE
        self._before = float(earlier.get("seconds") or 0.0)
        self._started = time.perf_counter()
        self._resumed_at = resumed_at
        self._earlier = {name: earlier.get(name) or [] for name in ("history", "validation")}
        self.content: dict[str, Any] = {
            "state": RUNNING,
            "system": settings.system,
            "base": settings.base,
            "base_fingerprint": base_fingerprint,
            "settings": recorded(settings, options),
            "versions": {
                "awesum": __version__,
                **{name: version(name) for name in ("torch", "transformers")},
            },
            "data": {
                "source": settings.data,
                "documents": documents,
                "validation_documents": validation_documents,
            },
            "precision": precision,
            "device": device,
            "threads": torch.get_num_threads(),
            "seconds": self._before,
            **{name: earlier.get(name) for name in (*SPEEDS, *PEAKS)},
            "planned_peak_memory_bytes": planned if planned is not None else earlier.get("planned_peak_memory_bytes"),
            "best": earlier.get("best"),
            "history": [],
            "validation": [],
        }

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write what is known before the first step."""
        self._update(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Add the loss."""
        self._update(state)

    def finish(self, state: Any) -> None:
        """Write that the model is trained and saved."""
        self._update(state, FINISHED)

    def _update(self, state: Any, run_state: str = RUNNING) -> None:
        if not state.is_world_process_zero:
            return
        lines = state.log_history
        self.content |= {
            "state": run_state,
            "seconds": round(self._before + time.perf_counter() - self._started, 1),
            "history": self._merged("history", lines, "loss", ("learning_rate",)),
            "validation": self._merged("validation", lines, "eval_loss", tuple(f"eval_{name}" for name in SCORES)),
        }
        if scored := [entry for entry in self.content["validation"] if BEST in entry]:
            best = max(scored, key=lambda entry: entry[BEST])
            self.content["best"] = {"step": best["step"], BEST: best[BEST]}
        for line in lines:
            self.content |= {name: line[name] for name in SPEEDS if name in line}
            for name in PEAKS:
                if name in line:
                    self.content[name] = max(line[name], self.content[name] or 0)
        try:
            files.write(self.path, json.dumps(self.content, indent=1) + "\n")
        except OSError as error:
            raise AwesumError(
                f"cannot write {self.path} ({error.strerror or error}): make room and run the same command again"
            ) from error

    def _merged(
        self, kind: str, lines: list[dict[str, Any]], loss: str, further: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        """One entry a step: those of the earlier run up to the checkpoint, and those of the trainer's own log.

        The trainer's log starts with what its checkpoint had, which lacks a validation after that checkpoint.
        """
        found = {entry["step"]: entry for entry in self._earlier[kind] if entry["step"] <= self._resumed_at}
        for line in lines:
            if loss in line:
                entry = {"step": line["step"], "epoch": round(line["epoch"], 4), "loss": line[loss]}
                known = {name.removeprefix("eval_"): line[name] for name in further if name in line}
                found[line["step"]] = entry | known
        return [found[step] for step in sorted(found)]
