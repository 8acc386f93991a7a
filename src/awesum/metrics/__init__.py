"""Metrics of summaries, one per file, behind one small protocol: see `metric.Metric`.

    from awesum.metrics import Sample, load
    load("rouge").measure(Sample("The summary.", ("The reference.",)))     {"rouge-1": 0.5, ...}

`awesum evaluate` and `awesum.evaluation.evaluate` score whole files. To add a metric, write a module with its class and
add a line to `METRICS`; a metric with a model also declares its `options`, from which the command line makes flags.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from awesum.errors import AwesumError
from awesum.metrics.metric import Better, Metric, Need, Option, Sample, Score

__all__ = [
    "METRICS",
    "Better",
    "Metric",
    "Need",
    "Option",
    "Sample",
    "Score",
    "load",
    "needs",
    "options",
    "parse_options",
]

METRICS = {
    "rouge": "rouge:Rouge",
    "entity-precision": "entity_precision:EntityPrecision",
    "summac": "summac:Summac",
    "support": "support:Support",
    "discoscore": "discoscore:DiscoScore",
    "entity-graph": "entity_graph:EntityGraph",
    "coverage": "coverage:Coverage",
    "repetition": "repetition:Repetition",
    "length": "length:LengthRatio",
}
"""Name to module and class, in the order of the columns. A module is imported when its metric is first used."""


def load(name: str, **options: Any) -> Metric:
    """Load a metric by name. One with a model takes `model`, a folder or a hub name."""
    kind = _kind(name)
    return kind.load(**options) if "model" in kind.needs else kind(**options)


def needs(name: str) -> frozenset[Need]:
    """The needs of a metric, without loading it."""
    return _kind(name).needs


def options() -> dict[str, tuple[Option, ...]]:
    """The options of every metric that has any, by name of the metric. Imports their modules, but not torch."""
    return {name: found for name in METRICS if (found := getattr(_kind(name), "options", ()))}


def parse_options(values: Mapping[str, str | None], metrics: Collection[str]) -> dict[str, dict[str, Any]]:
    """Parse flags for the chosen metrics into the `options` of `awesum.evaluation.evaluate`.

    `values` maps each flag, such as `--nli-model`, to its value on the command line, or None if it was not given.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for metric, declared in options().items():
        for option in declared:
            value = values.get(option.flag)
            if metric in metrics:
                parsed.setdefault(metric, {})[option.name] = _parse(metric, option, value)
            elif value is not None:
                raise AwesumError(f"{option.flag} is for {metric}, which was not chosen: add {metric} to --metrics")
    return parsed


def _parse(metric: str, option: Option, value: str | None) -> Any:
    value = option.default if value is None else value
    if value is None:
        what = "a model" if option.is_model else f"a value for {option.name!r}"
        raise AwesumError(f"{metric} needs {what}: name one with {option.flag} (see --help)")
    return option.parse(value)


def _kind(name: str) -> Any:
    if name not in METRICS:
        near = get_close_matches(name.lower(), METRICS, 1, 0.5)
        advice = f"did you mean {near[0]!r}? Choose" if near else "choose"
        raise AwesumError(f"there is no metric {name!r}: {advice} from {', '.join(METRICS)}")
    module, _, kind = METRICS[name].partition(":")
    return getattr(import_module(f"awesum.metrics.{module}"), kind)
