"""The file of scores: its own lines only, and never those of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from awesum.errors import AwesumError
from awesum.evaluation.scores import ScoresFile


@pytest.mark.parametrize("content", ["one precious line without an end", '{"key": "other"}\n', "[1, 2]\n"])
def test_file_of_somebody_else_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(content)
    with pytest.raises(AwesumError, match="something other than the scores"):
        ScoresFile(path, "ours").read(["a"], ["system"], ["rouge-1"])
    assert path.read_text() == content


def test_first_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text('{"key": "ou')
    assert ScoresFile(path, "ours").read(["a"], ["system"], ["rouge-1"]) == []
    assert path.read_text() == '{"key": "ours"}\n'
