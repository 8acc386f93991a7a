"""The network on small documents: what it is given, what each part of it sees, and that every weight can learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from awesum.analysis.salience.extractor import SCORES, Concepts, Extractor, Inputs, Outputs, Shape, concept_ids
from awesum.analysis.salience.features import DOCUMENT_NAMES, NAMES
from awesum.analysis.salience.words import BUCKETS, Words, pair_rows, stem_ids, stem_rows
from tests.conftest import topical_text
from tests.reference import salience as reference

TINY = Shape(stem=6, pair=4, size=16, heads=4, layers=2, inner=24, concept=5, dropout=0.3)
TEXTS = [
    "Budget Office\n",
    "The crane and the tide of the crane. ",
    "The crane and a vessel at the quay.\n",
    "Costs\n",
    "Nobody paid the pilot of the vessel. ",
    "国会は予算案を可決した。",
    "The tide was late.",
]
SELECTABLE = np.array([False, True, True, False, True, True, False])


def extractor(seed: int = 0) -> Extractor:
    torch.manual_seed(seed)
    return Extractor(TINY).eval()


def rarity() -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 5, BUCKETS).astype(np.float32)


def inputs(texts: list[str] = TEXTS, selectable: np.ndarray | None = None, query: str | None = None) -> Inputs:
    words = Words.of(texts)
    may = np.ones(len(texts), dtype=bool) if selectable is None else selectable
    return Inputs.of(words, may, rarity(), None if query is None else stem_ids(query))


def sentences(count: int) -> list[str]:
    return [f"{line}. " for line in topical_text(count).replace("\n", " ").split(". ")[:count]]


def parts(outputs: Outputs) -> list[torch.Tensor]:
    return [outputs.scores, outputs.stems, outputs.pairs, outputs.length]


# ------------------------------------------------------------------------------------------------------ what it reads


def test_inputs_are_the_words_of_the_document() -> None:
    found, slow = inputs(), reference.words(TEXTS, 12)
    stems = [stem % BUCKETS for one in slow.stems for stem in one]
    assert found.stems.tolist() == stems
    assert found.stem_starts.tolist() == [sum(map(len, slow.stems[:index])) for index in range(len(TEXTS))]
    pairs = np.array([pair for one in slow.pairs for pair in one], dtype=np.uint64)
    assert found.pairs.tolist() == pair_rows(pairs).tolist()
    assert found.pair_starts.tolist() == [sum(map(len, slow.pairs[:index])) for index in range(len(TEXTS))]
    assert found.headings.tolist() == slow.heading_before
    assert found.features.shape == (len(TEXTS), len(NAMES))
    assert found.document.shape == (len(DOCUMENT_NAMES),)
    assert found.query.tolist() == []
    asked = inputs(query="Which cranes?")
    assert asked.query.tolist() == stem_rows(stem_ids("which cranes")).tolist()
    assert asked.document[-1] == 1


def occurrences(slow: list[list[int]]) -> list[tuple[int, int]]:
    """The concept and the sentence of each occurrence in the selectable sentences."""
    return [(concept, index) for index, own in enumerate(slow) if SELECTABLE[index] for concept in own]


@pytest.mark.parametrize("kind", [0, 1], ids=["stems", "pairs"])
def test_concepts_are_those_of_the_selectable_sentences(kind: int) -> None:
    words, slow = Words.of(TEXTS), reference.words(TEXTS, 12)
    expected = occurrences((slow.stems, slow.pairs)[kind])
    of_document = (words.ids, words.owners) if kind == 0 else words.pairs
    found, counts, place, owner = concept_ids(*of_document, SELECTABLE)
    assert [(int(found[at]), sentence) for at, sentence in zip(place, owner.tolist(), strict=True)] == expected
    assert len(set(found.tolist())) == len(found)
    concepts = [concept for concept, _ in expected]
    assert counts.tolist() == [concepts.count(concept) for concept in found.tolist()]

    seen: Concepts = inputs(selectable=SELECTABLE).concepts[kind]
    assert (seen.place.tolist(), seen.owner.tolist()) == (place.tolist(), owner.tolist())
    rare = rarity()
    for row, features, concept in zip(seen.rows.tolist(), seen.features, found.tolist(), strict=True):
        first, second = (concept, concept) if kind == 0 else divmod(concept, 2**32)
        assert row == (concept % BUCKETS if kind == 0 else pair_rows(np.array([concept], dtype=np.uint64))[0])
        expected_features = [
            np.log(concepts.count(concept)),
            rare[first % BUCKETS] / 5,
            rare[second % BUCKETS] / 5,
        ]
        np.testing.assert_allclose(features, expected_features, atol=1e-6)


def test_document_without_words_has_no_concepts() -> None:
    for texts in (["国会は予算案を可決した。"], ["One. "], [" "]):
        stems, pairs = inputs(texts).concepts
        assert len(pairs.rows) == 0
        assert len(stems.rows) == len(stem_ids(texts[0]))


# --------------------------------------------------------------------------------------------------- what it computes


@torch.inference_mode()
def test_outputs_have_one_value_per_sentence_and_concept() -> None:
    found = inputs(selectable=SELECTABLE)
    outputs = extractor()(found)
    assert outputs.scores.shape == (len(TEXTS), len(SCORES))
    assert outputs.stems.shape == (len(found.concepts[0].rows),)
    assert outputs.pairs.shape == (len(found.concepts[1].rows),)
    assert outputs.length.shape == ()


@torch.inference_mode()
def test_concepts_are_scored_as_by_a_loop() -> None:
    network, found = extractor(), inputs(selectable=SELECTABLE)
    told: list[torch.Tensor] = []
    network.tell.register_forward_hook(lambda _, __, output: told.append(output))
    outputs = network(found)
    (both,) = told
    kinds = [
        (found.concepts[0], network.stem, network.stem_scorer, both[:, : TINY.concept], outputs.stems),
        (found.concepts[1], network.pair, network.pair_scorer, both[:, TINY.concept :], outputs.pairs),
    ]
    for concepts, table, scorer, tells, scores in kinds:
        assert len(scores) > 5
        for number, score in enumerate(scores):
            here = concepts.owner[concepts.place == number]
            row = torch.cat(
                [
                    table.weight[concepts.rows[number]],
                    concepts.features[number],
                    torch.stack([tells[at] for at in here]).mean(0),
                    torch.stack([tells[at] for at in here]).amax(0),
                    torch.stack([outputs.scores[at, :3] for at in here]).amax(0),
                ]
            )
            torch.testing.assert_close(scorer(row)[0], score, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("together", [7, 8, 2048])
def test_document_of_one_chunk_is_read_as_a_whole(together: int) -> None:
    network, found = extractor(), inputs()
    for whole, chunked in zip(parts(network(found)), parts(network(found, together)), strict=True):
        torch.testing.assert_close(whole, chunked, rtol=0, atol=0)


@torch.inference_mode()
@pytest.mark.parametrize(("count", "together"), [(30, 15), (30, 29), (31, 15), (30, 1), (7, 3)])
def test_longer_document_is_read_in_chunks_of_equal_size(count: int, together: int) -> None:
    network, found = extractor(), inputs(sentences(count))
    chunks: list[int] = []
    network.context.register_forward_pre_hook(lambda _, given: chunks.append(given[0].shape[1]))
    outputs = network(found, together)
    assert sum(chunks) == count == len(outputs.scores)
    assert len(chunks) == -(-count // together)
    assert max(chunks) <= together
    assert max(chunks) - min(chunks) < len(chunks)
    assert not torch.allclose(outputs.scores, network(found).scores), "the chunks do not attend to each other"
    assert all(torch.isfinite(part).all() for part in parts(outputs))


@torch.inference_mode()
def test_sentences_attend_to_each_other() -> None:
    """A feature of the last sentence changes the scores of all: the convolution alone reaches two sentences."""
    network, found = extractor(), inputs(sentences(20))
    features = found.features.clone()
    features[-1] += 1
    other = network(Inputs(**vars(found) | {"features": features}))
    assert ((network(found).scores - other.scores).abs().amax(1) > 1e-6).all()
    chunked = [network(Inputs(**vars(found) | {"features": each}), 10).scores for each in (found.features, features)]
    torch.testing.assert_close(chunked[0][:10], chunked[1][:10], rtol=0, atol=0)  # not beyond their chunk


@torch.inference_mode()
def test_query_changes_scores_and_length() -> None:
    network = extractor()
    plain, asked, other = (network(inputs(query=query)) for query in (None, "the vessel", "a budget"))
    for one, two in ((plain, asked), (asked, other)):
        assert ((one.scores - two.scores).abs().amax(1) > 1e-6).all()
        assert one.length != two.length
    nothing = network(inputs(query="国会？"))
    torch.testing.assert_close(nothing.scores, plain.scores, rtol=0, atol=0)


@torch.inference_mode()
def test_heading_above_a_sentence_matters() -> None:
    network, found = extractor(), inputs()
    without = network(Inputs(**vars(found) | {"headings": torch.full((len(TEXTS),), -1)}))
    assert found.headings.tolist() == [-1, 0, 0, 0, 3, 3, 3]
    assert not torch.allclose(without.scores, network(found).scores)


@torch.inference_mode()
@pytest.mark.parametrize(
    "texts",
    [
        ["word"],
        ["One two three."],
        ["国会は予算案を可決した。"] * 3,
        ["\x00\x1b[31m", " ", "1 2 3"],
        ["the " * 3000],
        ["word. "] * 40,
        [""],
    ],
    ids=["word", "sentence", "other script", "control", "one word", "repeated", "empty"],
)
def test_any_text_has_finite_outputs(texts: list[str]) -> None:
    for query in (None, "Which word?", "国会？"):
        for together in (None, 2):
            assert all(torch.isfinite(part).all() for part in parts(extractor()(inputs(texts, query=query), together)))


# ------------------------------------------------------------------------------------------------------------ learning


def test_gradient_reaches_every_weight() -> None:
    network, found = extractor(), inputs(query="the vessel of nobody")
    sum(part.square().sum() for part in parts(network(found))).backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name
    for table, rows in ((network.stem, found.stems), (network.pair, found.pairs)):
        used = torch.zeros(BUCKETS, dtype=torch.bool)
        used[rows] = True
        used[found.query] |= table is network.stem
        assert torch.equal(table.weight.grad.abs().amax(1) > 0, used), "every row that occurs, and no other"
    useful = found.features.abs().amax(0) > 0
    of_features = network.embed.weight.grad.abs().amax(0)[-len(NAMES) :]
    assert torch.equal(of_features > 0, useful)
    assert useful.float().mean() > 0.9


def test_each_output_has_a_gradient_of_its_own() -> None:
    heads = {"scores": "scorer", "stems": "stem_scorer", "pairs": "pair_scorer", "length": "length"}
    for output, module in heads.items():
        network = extractor()
        getattr(network(inputs()), output).sum().backward()
        others = {head for head in heads.values() if head != module}
        for name, weight in network.named_parameters():
            if (head := name.split(".")[0]) in others:
                assert weight.grad is None or not weight.grad.any(), f"{output} must not teach {name}"
            elif head == module:
                assert weight.grad.any(), name


def test_dropout_is_for_training_only() -> None:
    network, found = extractor(), inputs()
    with torch.no_grad():
        torch.testing.assert_close(network(found).scores, network(found).scores, rtol=0, atol=0)
        network.train()
        assert not torch.equal(network(found).scores, network(found).scores)


@pytest.mark.parametrize("change", [{"layers": 1}, {"size": 8}, {"inner": 8}, {"stem": 4}, {"pair": 2}, {"concept": 3}])
def test_extractor_is_built_to_its_shape(change: dict[str, int]) -> None:
    shape = Shape(**TINY.to_json() | change)
    assert shape == Shape(**shape.to_json())
    sizes = [sum(weight.numel() for weight in Extractor(of).parameters()) for of in (shape, TINY)]
    assert sizes[0] < sizes[1]
