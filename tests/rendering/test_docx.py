"""A summary as a Word document."""

from __future__ import annotations

import io
from dataclasses import replace

import docx as library

from awesum.rendering.docx import docx
from awesum.summary import Summary


def paragraphs(summary: Summary) -> list[str]:
    return [paragraph.text for paragraph in library.Document(io.BytesIO(docx(summary))).paragraphs]


def test_every_sentence_has_a_number_and_its_source(summary: Summary) -> None:
    shown = paragraphs(summary)
    sentences = [sentence for part in summary.parts for sentence in part.sentences]
    for number, sentence in enumerate(sentences, 1):
        assert any(" ".join(sentence.text.split()) in line and str(number) in line for line in shown)
        source = " ".join(sentence.source.text.split())
        assert [line for line in shown if line.startswith(f"{number}\u2002") and line.endswith(source)]


def test_what_xml_forbids_is_replaced_and_an_interruption_is_said(summary: Summary) -> None:
    document = replace(summary.document, path="bell\x07.txt")
    shown = paragraphs(replace(summary, document=document, complete=False, settings={"query": "why\x00?"}))
    assert shown[0] == "Summary of bell\ufffd.txt"
    assert shown[1] == "why\ufffd?"
    assert "Interrupted: the rest of the summary is missing." in shown
