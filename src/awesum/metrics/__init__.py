"""Measures of summaries, each in a file of its own, behind one small protocol: see `metric.Metric`.

    from awesum.metrics import Sample, load
    load("rouge").measure(Sample("The summary.", ("The reference.",)))     {"rouge-1": 0.5, ...}

`awesum evaluate` measures files of them; so does `awesum.evaluation.evaluate`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from awesum.errors import AwesumError
from awesum.metrics.metric import Better, Metric, Need, Sample, Score

__all__ = ["METRICS", "Better", "Metric", "Need", "Sample", "Score", "load"]

METRICS = {
    "rouge": "rouge:Rouge",
    "entity-precision": "entity_precision:EntityPrecision",
    "summac": "summac:Summac",
    "discoscore": "discoscore:DiscoScore",
    "entity-graph": "entity_graph:EntityGraph",
    "coverage": "coverage:Coverage",
    "repetition": "repetition:Repetition",
    "length": "length:LengthRatio",
}
"""By name, in the order of the columns. A file is imported when its measure is first asked for."""


def load(name: str, **options: Any) -> Metric:
    """A measure by its name. One with a model takes `model`, a folder or a name on the hub."""
    kind = _kind(name)
    return kind.load(**options) if "model" in kind.needs else kind(**options)


def needs(name: str) -> frozenset[Need]:
    """What a measure needs, without loading it."""
    return _kind(name).needs


def _kind(name: str) -> Any:
    if name not in METRICS:
        near = get_close_matches(name.lower(), METRICS, 1, 0.5)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise AwesumError(f"there is no measure {name!r}: {meant}There are {', '.join(METRICS)}")
    module, _, kind = METRICS[name].partition(":")
    return getattr(import_module(f"awesum.metrics.{module}"), kind)
