"""The systems of the recall task: what each is shown of a document, that its real model learns from it, and what of it
fits into the budget."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from benchmarks.recall import memories, peaks
from benchmarks.recall.__main__ import means, table
from benchmarks.recall.memories import SLOTS, WINDOW
from benchmarks.recall.task import ASK, DISTANCES, END, FACT, START, VALUE, document, to_test_on, to_train_on
from benchmarks.recall.whole import SETTINGS, Reader, WholeDocuments

from awesum.recurrence import DocumentInputs


def far_fact(distance: int = 16) -> DocumentInputs:
    return to_test_on(random.Random(3), distance, future=False)


def test_half_of_the_documents_ask_once_and_half_never() -> None:
    chance = random.Random(0)
    documents = [one for _ in range(20) for one in to_train_on(chance, 18, False, questions=1, silent=0.5)]
    questions = [sum(ASK in tokens for tokens in each.segments) for each in documents]
    assert set(questions) == {0, 1}
    assert 0.4 < sum(questions) / len(questions) < 0.6
    for each, asked in zip(documents, questions, strict=True):
        read = Reader("truncated", None).read(each, training=True)
        assert (read.targets == [[END]]) == (not asked)


@pytest.mark.parametrize("system", ["truncated", "block-attention", "cached"])
def test_a_document_is_cut_at_its_end(system: str) -> None:
    made = far_fact()
    words = [word for tokens in made.segments for word in tokens[1:-1]]
    assert Reader(system, 20).read(made, training=False).segments == [[START, *words[:18], END]]
    assert Reader(system, None).read(made, training=False).segments == [[START, *words, END]]
    assert Reader(system, 20).read(made, training=False).targets == [made.targets[-1]]


def test_pages_share_the_segments_evenly_and_are_cut() -> None:
    made = far_fact(4)  # 5 segments of 8 words; four of them fit into three pages of 12 tokens
    words = [tokens[1:-1] for tokens in made.segments]
    read = Reader("pagesum", 12).read(made, training=False)
    assert read.is_paged
    assert [page[1:-1] for page in read.segments] == [words[0], words[1], [*words[2], *words[3][:2]]]
    alone = Reader("pagesum", 12).read(far_fact(0), training=False).segments
    assert [len(page) for page in alone] == [2, 2, 10]


def test_the_abstractor_learns_from_the_oracle_and_is_tested_with_the_extractor() -> None:
    made, reader = far_fact(), Reader("extract-abstract", WINDOW)
    statement = made.segments[0][1:4]
    assert statement[0] == FACT
    assert reader.read(made, training=True).segments == [[START, *statement, END]]
    chosen = reader.read(made, training=False).segments[0]
    assert list(chosen[1:4]) == list(statement)
    assert 5 < len(chosen) <= WINDOW
    short = far_fact(0)
    assert all(reader.read(short, training=training).segments == short.segments for training in (False, True))


@pytest.mark.parametrize("future", [False, True])
def test_salient_text_is_around_each_segment_and_within_the_window(future: bool) -> None:
    made = to_test_on(random.Random(3), 6, future)
    shown = memories.shown(memories.SYSTEMS["text"], [made])[0]
    asking = 0 if future else 6
    answer = made.targets[asking][0]
    tokens = shown.segments[asking]
    assert len(tokens) <= WINDOW
    assert answer in tokens
    assert (tokens.index(answer) > tokens.index(ASK)) == future
    assert all(len(how) == len(its) for how, its in zip(shown.salience, shown.segments, strict=True))
    assert memories.shown(memories.SYSTEMS["se3"], [made]) == [made]


def test_salient_vectors_are_those_of_other_segments() -> None:
    made = far_fact(6)
    shown = memories.shown(memories.SYSTEMS["key-value"], [made])[0]
    assert len(shown.salient) == len(shown.segments)
    for number, attended in enumerate(shown.salient):
        spans = [shown.spans[at] for at in attended]
        assert all(of != number for of, _, _ in spans)
        assert sum(end - start for _, start, end in spans) <= SLOTS
    of, start, end = shown.spans[shown.salient[6][0]]
    assert VALUE <= made.segments[of][start:end][2] == made.targets[6][0]


@pytest.mark.parametrize("system", SETTINGS)
def test_every_system_has_the_size_of_se3_learns_and_writes(system: str) -> None:
    torch.manual_seed(0)
    tokens = 12 if system == "pagesum" else 24
    made = WholeDocuments(system, 0, WINDOW if system in peaks.IN_WINDOW else tokens, is_taught=False)
    se3 = sum(weight.numel() for weight in memories.make(memories.SYSTEMS["se3"], 0).parameters())
    if system != "longformer":  # its global projections are a fifth more
        assert 0.95 < made.parameters / se3 < 1.05
    batch = [document([(key, key), None], [None, key], random.Random(key)) for key in range(4)]
    before = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
    losses = list(memories.steps_on(made.model, (), made.loss, [batch] * 12, 12, (3e-3, 3e-3)))
    assert losses[-1] < losses[0]
    assert any(not torch.equal(before[name], weight) for name, weight in made.model.named_parameters())
    assert 0 <= made.accuracy(3, tested=4) <= 1


def test_peaks_of_systems_that_go_from_segment_to_segment_do_not_grow() -> None:
    for name in ("se3", "attentive"):
        short, long = (peaks.segmented(memories.SYSTEMS[name], segments) for segments in (4, 12))
        assert long <= 1.02 * short


def test_peaks_of_cached_chunks_grow_more_slowly_than_those_of_blocks() -> None:
    sizes = {name: [peaks.whole(name, tokens) for tokens in (32, 96)] for name in ("cached", "block-attention")}
    growth = {name: long - short for name, (short, long) in sizes.items()}
    assert 0 < growth["cached"] < growth["block-attention"] / 2


def test_the_largest_number_that_fits() -> None:
    for limit in range(3, 40):
        assert peaks._largest(lambda number, limit=limit: number <= limit, 3, 30) == min(limit, 30)
    assert all(first < second for first, second in pairwise(peaks.LENGTHS))


def test_results_of_both_directions_and_all_seeds_are_kept_apart() -> None:
    def result(share: float) -> dict[str, Any]:
        return {"accuracy": {str(distance): share for distance in DISTANCES}, "tokens": 30, "parameters": 126208}

    results = {
        "cached/0": result(1.0),
        "cached/1": result(0.5),
        "cached/0/future": result(0.25),
        "cached-4/0": result(0.0),
    }
    assert means(results, ["cached", "se3"], False)["cached"][8] == (0.75, 0.5, 1.0)
    assert means(results, ["cached"], True)["cached"][63] == (0.25, 0.25, 0.25)
    assert "se3" not in means(results, ["cached", "se3"], False)
    row = table(means(results, ["cached"], False), results, False).splitlines()[-1]
    assert row.startswith("| cached | 2 | 30 tokens | 126,208 | 75.0% (50% to 100%) |")
