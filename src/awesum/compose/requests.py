"""What a model is asked, in words. A model of 135 million parameters wants the request last, short, and with the points
to be made."""

from __future__ import annotations

from collections.abc import Sequence

from awesum.analysis.salience.text import NEXT, PREVIOUS

REQUEST = "Rewrite the following sentences"


def paraphrase_request(query: str | None, selected: Sequence[str]) -> str:
    """Asks for a paraphrase of selected sentences."""
    about = f" that answers the question {query.strip()!r}" if query else ""
    sentences = " ".join(" ".join(sentence.split()) for sentence in selected)
    return f"{REQUEST} as one short, clear paragraph{about}: {sentences}"


def request_after_segment(
    query: str | None, previous: Sequence[str] = (), following: Sequence[str] = (), selected: Sequence[str] = ()
) -> str:
    """What follows a segment in the prompt of a trained adapter: salient sentences of other segments, then the request,
    with the segment's own selected sentences if these are to be paraphrased.

    All of it comes after the segment, so that a causal model reads the segment once, whatever it is asked.
    """
    if selected:
        request = paraphrase_request(query, selected)
    elif query:
        request = f"Summarize what the text above says about this: {query.strip()}"
    else:
        request = "Summarize the text above."
    blocks = [(PREVIOUS, " ".join(previous)), (NEXT, " ".join(following))]
    context = [f"{heading} {text}" for heading, text in blocks if text]
    return "".join(f"\n\n{block}" for block in (*context, request))
