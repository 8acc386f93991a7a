"""The wording of a request may change; it must carry the query and the sentences."""

from __future__ import annotations

from awesum.analysis.salience.text import NEXT, PREVIOUS
from awesum.compose.requests import paraphrase_request, request_after_segment


def test_request_carries_the_sentences_and_the_query() -> None:
    request = paraphrase_request(" Who paid? ", ["The crane\nbroke.", "The quay sank."])
    assert "The crane broke." in request
    assert "The quay sank." in request
    assert "Who paid?" in request
    assert "None" not in paraphrase_request(None, ["The crane broke."])


def test_request_after_a_segment_carries_the_query_and_is_the_last_thing_read() -> None:
    for query in (None, " Who paid? "):
        for selected in ([], ["The crane\nbroke."]):
            request = request_after_segment(query, ["The past."], ["The future."], selected)
            assert request.startswith("\n\n")
            past, future, last = request.strip().split("\n\n")
            assert past == f"{PREVIOUS} The past."
            assert future == f"{NEXT} The future."
            assert ("Who paid?" in last) == (query is not None)
            assert ("The crane broke." in last) == bool(selected)
            assert "None" not in request


def test_request_after_a_segment_has_no_heading_without_sentences() -> None:
    assert PREVIOUS not in request_after_segment(None)
    assert NEXT not in request_after_segment(None, ["The past."])
    assert request_after_segment(None, selected=["The crane broke."]).strip() == paraphrase_request(
        None, ["The crane broke."]
    )
