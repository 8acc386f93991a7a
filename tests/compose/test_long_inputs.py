"""What a system that reads a document as one input reads of it: the beginning, an extract or pages; and what is cut."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import BartConfig

from awesum import Document, Settings, systems
from awesum.analysis.analysis import Analyst
from awesum.compose.long_inputs import Extracted, FirstWindow, LongLayout, Pages
from awesum.errors import AwesumError
from tests.conftest import topical_text


def layout(
    kind: type[LongLayout], tokenizer: Any, max_tokens: int | None = None, **config: Any
) -> tuple[Any, list[str]]:
    notes: list[str] = []
    made = kind(tokenizer, BartConfig(max_position_embeddings=128, **config), max_tokens, notes.append, may_cut=False)
    return made, notes


def test_everything_extracted_is_barts_input(tiny_bart_tokenizer: Any, analyst: Analyst) -> None:
    """The very token ids: of a text that there is room for, whatever the oracle would select, and in writing."""
    text = topical_text(3)
    extracted, notes = layout(Extracted, tiny_bart_tokenizer)
    first, _ = layout(FirstWindow, tiny_bart_tokenizer)
    system: Any = systems.load("extract-abstract", analyst=analyst)
    system.tokenizer = tiny_bart_tokenizer
    analysis = system.analyse(Document(text), Settings())
    plain = tiny_bart_tokenizer(text.strip())["input_ids"]
    assert len(plain) <= 128
    first_sentence = text.split(". ")[0]
    assert extracted.example("a", text.strip(), None, text).segments == [plain]
    assert extracted.example("a", text.strip(), None, first_sentence).segments == [plain]
    assert extracted.analysed(analysis).segments == first.analysed(analysis).segments == [plain]
    assert not notes


def test_extracted_sentences_are_in_order_and_fit(tiny_bart_tokenizer: Any, analyst: Analyst) -> None:
    text = topical_text(30)
    extracted, notes = layout(Extracted, tiny_bart_tokenizer)
    system: Any = systems.load("extract-abstract", analyst=analyst)
    system.tokenizer = tiny_bart_tokenizer
    analysis = system.analyse(Document(text, path="r.txt"), Settings())
    ids = extracted.analysed(analysis).segments[0]
    shown = tiny_bart_tokenizer.decode(ids, skip_special_tokens=True)
    places = [text.find(sentence.strip()) for sentence in shown.split(". ")]
    assert places == sorted(places)
    assert places[0] >= 0
    assert 64 < len(ids) <= 128
    assert "r.txt" in notes[-1]
    assert f"{len(ids)} of {analysis.tokens:,} tokens" in notes[-1]


def test_training_reads_the_oracles_sentences_or_else_the_beginning(tiny_bart_tokenizer: Any) -> None:
    extracted, _ = layout(Extracted, tiny_bart_tokenizer)
    text = topical_text(30).strip()
    ids = tiny_bart_tokenizer(text)["input_ids"]
    assert extracted.example("a", text, None, "???").segments == [[*ids[:127], 2]]
    sentence = text.split(". ")[7] + "."
    assert extracted.example("a", text, None, sentence).segments == [tiny_bart_tokenizer(sentence)["input_ids"]]


def test_truncation_is_reported_and_ends_like_a_text(tiny_bart_tokenizer: Any) -> None:
    text = topical_text(30).strip()
    whole = tiny_bart_tokenizer(text)["input_ids"]
    first, notes = layout(FirstWindow, tiny_bart_tokenizer, 1024)
    assert first.example("a", text, None, "x").segments == [[*whole[:127], 2]]
    assert notes == [f"a: the first 128 of {len(whole):,} tokens are read (the model's 128 positions)"]
    shorter, notes = layout(LongLayout, tiny_bart_tokenizer, 50)
    assert (
        shorter.example("a", text, "why", "x").segments[0][:-1] == tiny_bart_tokenizer(f"why {text}")["input_ids"][:49]
    )
    assert "max_tokens=50" in notes[0]
    whole_one, notes = layout(LongLayout, tiny_bart_tokenizer)
    assert whole_one.example("a", text, None, "x").segments == [whole]
    assert not notes


def test_long_target_is_cut_and_reported(tiny_bart_tokenizer: Any) -> None:
    first, notes = layout(FirstWindow, tiny_bart_tokenizer)
    inputs = first.example("a", "Short.", None, topical_text(30))
    assert len(inputs.targets[0]) == 128
    assert "of its summary" in notes[0]


def test_document_beyond_the_positions_is_refused_unless_the_recipe_says_so(tiny_bart_tokenizer: Any) -> None:
    text = topical_text(30)
    for limit in (None, 500):
        refused, _ = layout(LongLayout, tiny_bart_tokenizer, limit, encoder_positions=100)
        with pytest.raises(AwesumError, match="--max-tokens 100") as error:
            refused.example("a", text, None, "x")
        assert "\n" not in str(error.value)
    allowed, notes = layout(LongLayout, tiny_bart_tokenizer, 100, encoder_positions=100)
    assert len(allowed.example("a", text, None, "x").segments[0]) == 100
    assert notes


@pytest.mark.parametrize(("sentences", "pages"), [(7, 3), (6, 3), (2, 4), (1, 1)])
def test_pages_split_sentences_evenly(tiny_bart_tokenizer: Any, sentences: int, pages: int) -> None:
    text = topical_text(sentences, paragraph=100).strip()
    made, notes = layout(Pages, tiny_bart_tokenizer, pages=pages, page_size=128)
    shown = [
        tiny_bart_tokenizer.decode(page, skip_special_tokens=True)
        for page in made.example("a", text, None, "x").segments
    ]
    assert len(shown) == pages
    counts = [page.count("dollars.") for page in shown]
    assert sum(counts) == sentences
    assert max(counts) - min(counts) <= 1
    assert all(page == "." for page, count in zip(shown, counts, strict=True) if not count)
    assert " ".join(page for page in shown if page != ".") == text
    assert not notes


def test_page_that_is_too_long_is_cut_and_reported(tiny_bart_tokenizer: Any) -> None:
    text = topical_text(20).strip()
    made, notes = layout(Pages, tiny_bart_tokenizer, pages=2, page_size=50)
    assert [len(page) for page in made.example("a", text, None, "x").segments] == [50, 50]
    total = len(tiny_bart_tokenizer(text)["input_ids"])
    assert notes == [f"a: 98 of {total:,} tokens are read (2 pages of at most 50)"]
    made, notes = layout(Pages, tiny_bart_tokenizer, 60, pages=2, page_size=128)
    read = made.example("a", text, None, "x").segments
    assert sum(len(page) - 2 for page in read) <= 60
    assert "max_tokens=60" in notes[0]
