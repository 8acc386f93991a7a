from __future__ import annotations

from awesum.analysis.salience.text import augment


def test_headings_are_those_of_the_paper() -> None:
    assert augment("Now.", ["Once.", "Then."], ["Later."]).split("\n\n") == [
        "Previous important sentences: Once. Then.",
        "Current chunk: Now.",
        "Next important sentences: Later.",
    ]


def test_empty_block_has_no_heading() -> None:
    assert augment("Now.") == "Current chunk: Now."
    assert augment("Now.", previous=["Once."]) == "Previous important sentences: Once.\n\nCurrent chunk: Now."
    assert augment("Now.", following=["Later."]) == "Current chunk: Now.\n\nNext important sentences: Later."
