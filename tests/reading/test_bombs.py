"""Files made to exhaust a machine are refused for what they are, soon and in little memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from awesum.errors import AwesumError
from awesum.reading import read
from awesum.reading.limits import ReadLimits
from tests.reading.bombs import BOMBS, nested_forms


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_for_what_it_is(name: str, tmp_path: Path) -> None:
    make, words = BOMBS[name]
    (tmp_path / name).write_bytes(make())
    started = time.monotonic()
    with pytest.raises(AwesumError, match=words) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)
    assert time.monotonic() - started < 60, "20 seconds on a machine that has nothing else to do"


def test_forms_as_real_documents_have_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "forms.pdf").write_bytes(nested_forms(levels=3, times=4))
    with pytest.raises(AwesumError, match="scan without a text layer"):  # read, and found without text
        read(tmp_path / "forms.pdf")


def test_bomb_beyond_the_rules_ends_at_the_limit(tmp_path: Path) -> None:
    """A page that no rule knows: what is left is the limit of memory."""
    (tmp_path / "page.html").write_bytes(b"<html><body>" + b"<p>x" * 3_000_000)
    with pytest.raises(AwesumError, match=r"--read-memory|--read-timeout"):
        read(tmp_path / "page.html", ReadLimits(memory=250_000_000))
