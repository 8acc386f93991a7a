"""Support as a metric: the verifier's verdicts on the sentences of a summary."""

from __future__ import annotations

import pytest

from awesum.metrics import Sample, load
from awesum.metrics.support import Support
from awesum.verify import Verifier

DOCUMENT = "The bank has offered a loan of 10 million euros for 15 years. The offer is valid until 30 September."


def test_copies_are_supported_and_inventions_are_not() -> None:
    metric = Support(Verifier())
    assert metric.measure(Sample(DOCUMENT, document=DOCUMENT)) == {"support": 1.0, "supported": 1.0}
    half = metric.measure(Sample(f"{DOCUMENT.split('. ')[0]}. The loan of 99 years is from Mars.", document=DOCUMENT))
    assert half["supported"] == 0.5
    assert 0.5 <= half["support"] < 0.6


def test_shipped_verifier_is_the_default() -> None:
    found = load("support").measure(Sample("The bank has offered a loan for 30 years.", document=DOCUMENT))
    assert found["supported"] == 0.0
    assert found["support"] < 0.5


def test_exact_needs_no_model() -> None:
    assert load("support", model="exact").verifier.scorer is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("prediction", ["...", "国会は予算案を可決した。", "x" * 5000])
def test_any_summary_has_a_score(prediction: str) -> None:
    found = Support(Verifier()).measure(Sample(prediction, document=DOCUMENT))
    assert all(0 <= value <= 1 for value in found.values())
