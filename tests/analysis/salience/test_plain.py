"""The extractor in numpy is the one in torch, and the default summary needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from awesum.analysis.salience import calibration, plain, trained
from awesum.analysis.salience.calibration import Calibration, Mixture
from awesum.analysis.salience.extractor import Extractor, Shape
from awesum.analysis.salience.plain import PlainSalience
from awesum.analysis.salience.ratings import Query
from awesum.analysis.salience.trained import TrainedSalience
from awesum.analysis.sentences import sentence_spans
from awesum.analysis.tokens import PlainTokenizer
from awesum.errors import AwesumError
from awesum.loading import load_tokenizer
from awesum.weights import minilm_folder
from tests.conftest import OTHER_SCRIPTS, topical_text

SAMPLE = Path("samples/commercial-crew.txt")
TEXTS = {
    "sample": SAMPLE.read_text(encoding="utf-8")[:20_000],
    "headings": "Findings\n\nThe crane is slow. It broke twice in 2019.\n\nCosts\n\nIt cost 12 dollars. All is well.\n",
    "short": "The crane is slow and old.",
    "topics": topical_text(60),
}


@pytest.fixture(params=["shipped", "two layers"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[PlainSalience, TrainedSalience]:
    if request.param == "shipped":
        return PlainSalience.load(), TrainedSalience.load()
    torch.manual_seed(0)
    extractor = Extractor(Shape(stem=8, pair=4, size=24, heads=3, layers=2, inner=20, concept=6))
    torch.nn.init.uniform_(extractor.rarity, 0.2, 3)
    mixture = Calibration(Mixture(central=0.1), Mixture(central=0.1, query=1.0))
    TrainedSalience(extractor, mixture).save(tmp_path / "extractor.safetensors")
    return tuple(kind.load(tmp_path / "extractor.safetensors") for kind in (PlainSalience, TrainedSalience))  # type: ignore[return-value]


@pytest.mark.parametrize("together", [2048, 7])
@pytest.mark.parametrize("query", [None, "How slow is the crane?"])
@pytest.mark.parametrize("text", TEXTS)
def test_numpy_rates_as_torch(
    text: str,
    query: str | None,
    together: int,
    both: tuple[PlainSalience, TrainedSalience],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (calibration, plain, trained):
        monkeypatch.setattr(module, "TOGETHER", together)
    ours, theirs = both
    sentences = [TEXTS[text][start:end] for start, end in sentence_spans(TEXTS[text])]
    chance = np.random.default_rng(0)
    vectors = chance.normal(size=(len(sentences), 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = Query(query, vectors[0]) if query else None
    found, expected = ours.rate(sentences, vectors, asked), theirs.rate(sentences, vectors, asked)
    np.testing.assert_allclose(found.scores, expected.scores, atol=2e-6)
    assert found.usual_words == pytest.approx(expected.usual_words, rel=1e-5)
    assert found.coverage is not None
    assert expected.coverage is not None
    np.testing.assert_allclose(found.coverage.weights, expected.coverage.weights, atol=2e-6)
    np.testing.assert_array_equal(found.coverage.concepts, expected.coverage.concepts)
    np.testing.assert_array_equal(found.coverage.sentences, expected.coverage.sentences)
    mine, its = ours.own_vectors(sentences), theirs.own_vectors(sentences)
    assert (mine is None) == (its is None)
    if mine is not None and its is not None:
        np.testing.assert_allclose(mine, its, atol=1e-6)


def test_another_script_is_left_to_centrality() -> None:
    sentences = ["国会は予算案を可決した。", "首相は会見で説明した。"]
    vectors = np.eye(2, dtype=np.float32)
    found, expected = (kind.load().rate(sentences, vectors) for kind in (PlainSalience, TrainedSalience))
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert PlainSalience.load().own_vectors(sentences) is None


def test_error_function() -> None:
    values = np.concatenate([np.linspace(-8, 8, 5001), [0.0, 1e-9, 5.999999, 6.0, 6.000001]]).astype(np.float32)
    expected = torch.erf(torch.from_numpy(values).double()).numpy()
    np.testing.assert_allclose(plain._erf(values), expected, atol=1e-10)


def test_file_that_is_no_extractor(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nonsense")
    for path in (tmp_path / "x.safetensors", tmp_path / "nowhere.safetensors"):
        with pytest.raises(AwesumError, match="is not an extractor"):
            PlainSalience.load(path)


def test_tokens_are_those_of_the_library() -> None:
    plainly, library = PlainTokenizer.load(minilm_folder()), load_tokenizer("MiniLM", minilm_folder())
    long = "word " * 700
    texts = [*TEXTS.values(), OTHER_SCRIPTS, "", "[CLS] and [SEP] and [MASK]", long]
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "split_special_tokens": True}
    expected = library(texts, **options, verbose=False)
    found = plainly(texts, **options)
    assert found["input_ids"] == expected["input_ids"]
    assert [[*map(tuple, each)] for each in found["offset_mapping"]] == [
        [*map(tuple, each)] for each in expected["offset_mapping"]
    ]
    assert plainly(long)["input_ids"] == expected["input_ids"][-1]


def test_default_summary_loads_neither_torch_nor_the_library_of_models() -> None:
    program = (
        "import sys\n"
        "from awesum.cli import main\n"
        f"code = main(['summarize', {str(SAMPLE)!r}, '--quiet'])\n"
        "print(code, sorted({'torch', 'transformers'} & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"
    assert len(done.stdout.split()) > 100
