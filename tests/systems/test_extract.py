"""The default: it needs the sentence encoder and nothing else, and says what it is not made for."""

from __future__ import annotations

import pytest

from awesum import Document, Summarizer
from tests.conftest import topical_text


@pytest.fixture(autouse=True)
def no_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the writer's weights nor a home to convert them in."""
    monkeypatch.setattr("awesum.weights.smollm2_folder", lambda **_: pytest.fail("the writer's weights were asked for"))
    monkeypatch.setenv("AWESUM_CACHE", "/proc/nowhere")


def test_extract_needs_no_weights_of_the_writer() -> None:
    assert len(Summarizer().summarize(text=topical_text(40), length="3s").parts) >= 1


def test_other_language_is_noted() -> None:
    german = (
        "Der Gemeinderat hat am Montag beschlossen, das alte Hallenbad nicht zu sanieren. Die Kosten werden auf 21 "
        "Millionen Euro geschätzt. Der Verein mit seinen 640 Mitgliedern begrüßte den Beschluss sehr. "
    ) * 4
    notes = " ".join(Summarizer().summarize(Document(german), length="2s").notes)
    assert "the document is in German" in notes
