"""Two systems' predictions and their references, in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.samples import NUMBER, document, prediction, reference, rows


@pytest.fixture
def references(tmp_path: Path) -> Path:
    objects = [{"id": f"d{n}", "document": document(n), "summary": reference(n)} for n in range(NUMBER)]
    return rows(tmp_path / "references.jsonl", objects)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return rows(tmp_path / "ours.jsonl", [{"id": f"d{n}", "summary": prediction(n)} for n in range(NUMBER)])


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return rows(tmp_path / "theirs.jsonl", [{"id": f"d{n}", "summary": prediction(n, 1)} for n in range(NUMBER)])
