"""The verifier: defined for every input, the same in batches and alone, and right about known mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from awesum import compat
from awesum.analysis.embedding import SentenceEncoder
from awesum.errors import AwesumError
from awesum.verify import Verifier
from awesum.verify.cross_encoder import LONGEST, CrossEncoder
from awesum.verify.verifier import (
    LARGE,
    SHIPPED,
    Calibration,
    exact_support,
    is_english,
    is_large,
    load_file,
    untrained,
)
from tests.conftest import OTHER_SCRIPTS, topical_text

STUDY = (
    "Turbine 4 at the Lindau plant was commissioned in 1974 and has been in continuous service for 49 years.",
    "Option A is to repair the runner, which costs 2.1 million euros and takes seven months.",
    "Option B is a full replacement with a modern turbine, at a cost of 11.4 million euros.",
    "Option C is to retire the unit without replacement.",
    "The board should approve Option B at its next meeting in June.",
    "The municipal bank has offered a loan of 10 million euros at 3.2 percent for 15 years; the offer is valid until "
    "30 September.",
    "The board has ruled out a capital increase.",
    "The official Python website is www.python.org.",
    "Client grants Provider a non-exclusive licence to use Client Data solely to perform the Services.",
)
RIGHT_AND_WRONG = [
    ("The bank has offered a loan for 15 years.", "The bank has offered a loan for 30 years."),
    ("The board should approve Option B.", "The board has approved Option A."),
    ("The board should approve Option B.", "The board should approve Option A."),
    ("The official Python website is www.python.org.", "The official Python website is www.python.com."),
    ("Option A is to repair the runner.", "Option A is to retire the runner."),
    ("Option B is a full replacement with a modern turbine.", "Option A is a full replacement with a modern turbine."),
    ("The board has ruled out a capital increase.", "The board has not ruled out a capital increase."),
    ("Client grants Provider a licence to use Client Data.", "Provider grants Client a licence to use Client Data."),
    ("Turbine 4 was commissioned in 1974.", "Turbine 4 was commissioned in 49 years."),
]  # fmt: skip


@pytest.fixture(scope="module")
def shipped() -> Verifier:
    return Verifier.load()


class Counting:
    """A model that finds everything likely, and counts what it is asked."""

    name, english_only = "counting", True

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.pairs += pairs
        return [3.0] * len(pairs)

    def bytes(self) -> int:
        return 0


# -------------------------------------------------------------------------------------------------- the shipped weights


@pytest.mark.parametrize(("right", "wrong"), RIGHT_AND_WRONG)
def test_correct_sentence_is_better_supported_than_the_mistake(right: str, wrong: str, shipped: Verifier) -> None:
    good, bad = shipped.judge(STUDY, [right, wrong])
    assert good.support > bad.support
    assert not shipped.supports(bad)


def test_most_correct_sentences_are_kept(shipped: Verifier) -> None:
    """A verifier that refuses everything would pass the test above."""
    verdicts = shipped.judge(STUDY, [right for right, _ in RIGHT_AND_WRONG])
    assert sum(map(shipped.supports, verdicts)) >= len(RIGHT_AND_WRONG) // 2


def test_batch_changes_nothing(shipped: Verifier) -> None:
    statements = [statement for pair in RIGHT_AND_WRONG for statement in pair]
    together = shipped.judge(STUDY, statements)
    for statement, verdict in zip(statements, together, strict=True):
        [alone] = shipped.judge(STUDY, [statement])
        assert alone.sources == verdict.sources
        assert alone.support == pytest.approx(verdict.support, abs=1e-4)


def test_strict_keeps_no_more(shipped: Verifier) -> None:
    assert shipped.calibration.strict >= shipped.calibration.threshold


def test_more_of_what_a_large_model_wrote_is_kept_and_no_mistake(shipped: Verifier) -> None:
    right, wrong = (shipped.judge(STUDY, statements) for statements in zip(*RIGHT_AND_WRONG, strict=True))
    kept = {verdict for verdict in right if shipped.supports(verdict, by_large=True)}
    assert kept > {verdict for verdict in right if shipped.supports(verdict)}
    assert not any(shipped.supports(verdict, by_large=True) for verdict in wrong)
    strictly = [verdict for verdict in right if shipped.supports(verdict, strict=True, by_large=True)]
    assert strictly == [verdict for verdict in right if shipped.supports(verdict, strict=True)], "strict goes first"


def test_exact_checks_must_agree_with_what_a_large_model_wrote() -> None:
    verifier = Verifier(Counting(), Calibration(model=0.3, threshold=0.9, large=0.6))
    agrees, disagrees = verifier.judge(STUDY, ["The board should approve Option B.", "The board approved Option B."])
    assert agrees.support == disagrees.support
    assert verifier.supports(agrees, by_large=True)
    assert not verifier.supports(disagrees, by_large=True)
    assert not verifier.supports(agrees)
    other = Verifier(Counting(), Calibration(model=0.3))
    assert other.supports(disagrees, by_large=True) is other.supports(disagrees), "no threshold of its own"


def test_large_models() -> None:
    assert is_large(LARGE)
    assert is_large(None), "a server that does not say"
    assert not is_large(360_000_000)


# ------------------------------------------------------------------------------------------------- defined for anything


@pytest.mark.parametrize("verifier", [Verifier(), Verifier(Counting())], ids=["exact", "model"])
def test_copy_is_fully_supported_and_nothing_supports_nothing(verifier: Verifier) -> None:
    assert verifier.support(STUDY, STUDY[3]) == 1.0
    assert verifier.support(STUDY, f"  {STUDY[5]}\n") == 1.0
    assert verifier.support([], "The loan runs for 15 years.") == 0.0
    assert verifier.support(STUDY, "") == 0.0
    assert verifier.support(STUDY, "...") == 0.0
    assert verifier.judge(STUDY, []) == []


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_sentence_of_any_length_has_a_support(size: int, shipped: Verifier) -> None:
    long = ("The bank has offered a loan of 10 million euros. " * (size // 40))[:size]
    assert 0 <= shipped.support(STUDY, long) <= 1
    assert 0 <= shipped.support([long, *STUDY], "The bank has offered a loan.") <= 1


@pytest.mark.parametrize(
    "sentence",
    [
        "Die Bank hat ein Darlehen von 10 Millionen Euro für 15 Jahre angeboten.",
        "国会は予算案を可決した。",
        OTHER_SCRIPTS,
    ],
)
def test_other_languages_are_left_to_the_exact_checks(sentence: str) -> None:
    model = Counting()
    verifier = Verifier(model)
    sources = [f"{sentence[:-1]} 2015.", "Noch ein Satz ohne Sinn und Verstand."]
    [written, copied] = verifier.judge(sources, [sentence, sources[0]])
    assert not model.pairs
    assert 0 <= written.support <= 1
    assert not verifier.supports(written), "in other words than the source, and nobody can tell"
    assert verifier.supports(copied)
    assert verifier.supports(verifier.judge([sentence], [sentence])[0])
    exact = Verifier()
    assert exact.supports(exact.judge(sources, [sentence])[0]) is (written.support >= 0.5), "asked for by name"
    assert not verifier.can_judge(sentence)
    assert verifier.can_judge(STUDY[0])


def test_english_is_told_from_other_languages() -> None:
    assert all(map(is_english, STUDY[:7]))
    assert not is_english("")
    assert not is_english("Le conseil devrait approuver l'option B avant la fin de septembre.")


def test_figure_that_no_source_has_is_never_supported() -> None:
    verifier = Verifier(Counting(), Calibration())
    assert verifier.supports(verifier.judge(STUDY, ["The bank has offered a loan for 15 years."])[0])
    for wrong in ("The loan is for 17 years.", "Option D is better.", "See www.python.com.", "Ask Anna Weber."):
        assert not verifier.supports(verifier.judge(STUDY, [wrong])[0])


def test_only_the_nearest_sentences_are_compared() -> None:
    model = Counting()
    Verifier(model).support(STUDY, "The bank has offered a loan for 15 years.")
    [(source, _)] = model.pairs
    assert STUDY[5] in source
    assert STUDY[1] not in source


def test_statement_in_other_words_altogether_is_not_supported_by_exact_checks() -> None:
    assert Verifier().support(STUDY, "Cats purr loudly tonight.") == 0.0


@pytest.mark.parametrize("verifier", [Verifier(), Verifier(Counting())], ids=["exact", "model"])
def test_copy_with_mended_spaces_is_supported_as_well_as_anything_written(verifier: Verifier) -> None:
    source = "The summ ary tables ( P.L. 115-246 ) of 1 2 agencies are at https://example.com/tables/ ."
    mended = "The summary tables (P.L. 115-246) of 1 2 agencies are at https://example.com/tables/."
    assert verifier.judge([STUDY[0], source], [mended]) == [(0.999, (1,), True, 1.0)]
    assert verifier.support([STUDY[0], source], mended.replace("1 2", "12")) < 0.999  # another figure


def test_only_a_copy_is_fully_supported() -> None:
    sure = Verifier(Counting(), Calibration(model=100.0))
    assert 0.99 < sure.support(STUDY, "The bank has offered a loan of 10 million euros.") < 1.0


def test_exact_support_falls_with_each_disagreement() -> None:
    verifier = Verifier()
    good = verifier.support(STUDY, "The board should approve Option B.")
    assert good > 0.9
    assert verifier.support(STUDY, "The board should approve Option B in 1999.") < good
    assert verifier.support(STUDY, "The board approved Option B.") < good


# ---------------------------------------------------------------------------------------------------- the cross-encoder


@pytest.fixture
def tiny(tiny_encoder: SentenceEncoder) -> CrossEncoder:
    torch.manual_seed(3)
    model = BertModel(tiny_encoder.model.config, add_pooling_layer=False).eval()
    return CrossEncoder(model, tiny_encoder.tokenizer)


def test_low_rank_changes_of_full_rank_are_the_weights(tiny: CrossEncoder, tiny_encoder: SentenceEncoder) -> None:
    before = {name: weight.clone() for name, weight in tiny.encoder.state_dict().items()}
    with torch.no_grad():
        for weight in tiny.encoder.encoder.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    pairs = [(topical_text(3), topical_text(1, seed=5)), (topical_text(1), topical_text(1, seed=6))]
    expected = tiny.logits(pairs)
    full = {name: weight.float() for name, weight in tiny.changes(before, 64).items()}
    little = tiny.changes(before, 2)
    assert sum(weight.numel() for weight in little.values()) < sum(weight.numel() for weight in full.values()) / 2
    fresh = CrossEncoder(BertModel(tiny.encoder.config, add_pooling_layer=False).eval(), tiny.tokenizer)
    fresh.encoder.load_state_dict(before)
    assert fresh.logits(pairs) != pytest.approx(expected, abs=1e-2)
    fresh.load_changes(full)
    assert fresh.logits(pairs) == pytest.approx(expected, abs=1e-2)


def test_pieces_lose_nothing(tiny: CrossEncoder) -> None:
    source, statement = topical_text(60), topical_text(40, seed=4)
    read, said = tiny.tokenizer([source, statement], add_special_tokens=False)["input_ids"]
    pieces = [*tiny.tokens(source, statement)]
    assert all(len(ids) <= LONGEST for _, (ids, _) in pieces)
    firsts = {part: ids[begin:-1] for part, (ids, begin) in pieces}
    assert [token for part in sorted(firsts) for token in firsts[part]] == said
    of_first = [ids[1 : begin - 1] for part, (ids, begin) in pieces if part == pieces[0][0]]
    assert [token for piece in of_first for token in piece] == read


def test_worst_piece_of_a_statement_and_best_of_a_source_count(
    tiny: CrossEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {(0, 0): 1.0, (0, 1): 5.0, (1, 0): 2.0, (1, 1): -3.0}
    rows = [(part, ([part, piece], 1)) for part, piece in scores]
    monkeypatch.setattr(tiny, "tokens", lambda source, statement: iter(rows))
    monkeypatch.setattr(tiny, "pairs", lambda rows: [ids for ids, _ in rows])
    monkeypatch.setattr(
        tiny, "forward", lambda found: (torch.tensor([scores[part, piece] for part, piece in found]), None)
    )
    assert tiny.logits([("source", "statement")]) == [2.0]


# ----------------------------------------------------------------------------------------------------------- NLI models


@pytest.fixture
def nli_folder(tmp_path: Path, tiny_encoder: SentenceEncoder) -> Path:
    config = BertConfig(
        **tiny_encoder.model.config.to_dict()
        | {"id2label": {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, "num_labels": 3}
    )
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_encoder.tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_any_nli_model_judges(nli_folder: Path) -> None:
    verifier = Verifier.load(str(nli_folder))
    statements = [statement for pair in RIGHT_AND_WRONG for statement in pair]
    found = [verdict.support for verdict in verifier.judge(STUDY, statements)]
    assert all(0 <= support <= 1 for support in found)
    assert len(set(found)) > 4
    assert verifier.support(STUDY, "The bank has offered a loan. " * 400) >= 0


def test_entailment_is_what_counts(nli_folder: Path) -> None:
    verifier = Verifier.load(str(nli_folder))
    model = verifier.scorer.model  # type: ignore[union-attr]
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, 6.0]))
    assert verifier.support(STUDY, "The bank has offered a loan.") > 0.9
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([6.0, 0.0, 0.0]))
    assert verifier.support(STUDY, "The bank has offered a loan.") < 0.1


def test_model_of_another_kind_is_one_line(tmp_path: Path, nli_folder: Path, tiny_folder: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(nli_folder, num_labels=2, ignore_mismatched_sizes=True)
    model.config.id2label = {0: "POSITIVE", 1: "NEGATIVE"}
    model.save_pretrained(nli_folder)
    with pytest.raises(AwesumError, match=r"is not an NLI model: its labels \(POSITIVE, NEGATIVE\)"):
        Verifier.load(str(nli_folder))
    with pytest.raises(AwesumError, match=r"is not an NLI model|cannot load"):
        Verifier.load(str(tiny_folder))
    with pytest.raises(AwesumError, match="no folder"):
        Verifier.load(str(tmp_path / "none" / "here"))
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(AwesumError, match="is not a verifier"):
        Verifier.load(tmp_path / "text.safetensors")


def test_shipped_file_is_small() -> None:
    assert SHIPPED.stat().st_size < 25_000_000
    assert load_file(SHIPPED).name == Verifier.load().name


def test_exact_support_is_worst_times_words() -> None:
    from awesum.verify.claims import Agreement

    assert exact_support(Agreement()) == 1.0
    assert exact_support(Agreement(words=0.5)) == 0.75
    assert exact_support(Agreement(words=0.0)) == 0.0
    assert exact_support(Agreement(names=0.0)) == 0.0


def test_model_to_train_is_in_float32_where_bfloat16_is_fast_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "has_fast_bfloat16", lambda: True)
    assert {weight.dtype for weight in untrained().parameters()} == {torch.float32}
