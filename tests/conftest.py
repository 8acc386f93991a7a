"""Tiny random models that run in milliseconds, and text in several topics to run them on. Nothing is fetched."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the library is imported: nothing here may ask the network

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # in threads, the tiny tokenizers come out different each time

import numpy as np
import pytest
import torch
from benchmarks.tiny_models import BART_TEMPLATE, BART_TOKENS, byte_level_tokenizer, save_both, tiny_bart, tiny_llama
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from awesum import Summarizer, compat
from awesum.analysis.analysis import Analyst
from awesum.analysis.embedding import SentenceEncoder
from awesum.analysis.salience.centrality import Centrality
from awesum.analysis.salience.text import CURRENT, NEXT, PREVIOUS
from awesum.document import Document
from awesum.engine.causal import CausalEngine
from awesum.models.causal import ChatModel
from awesum.models.prompt import Answer, Prompt
from awesum.systems.chat import Chat

settings.register_profile(
    "awesum",
    deadline=None,
    max_examples=60,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("awesum")
torch.set_num_threads(1)  # the models are too small for two threads to help

TOPICS = {
    "rocket": "capsule launch orbit booster docking crew abort telemetry engine hatch parachute spacecraft station pad",
    "harbour": "crane container tide quay pilot vessel freight dredging customs berth anchor lighthouse ferry cargo",
    "orchard": "apple blossom pruning harvest grafting frost bees cider irrigation rootstock ladder basket pollen soil",
    "clinic": "nurse vaccine diagnosis ward surgery patient dosage therapy ambulance symptom recovery doctor fever",
    "library": "manuscript catalogue shelf reader archive loan librarian binding index folio chapter scholar atlas",
    "budget": "tax deficit revenue audit pension treasury expenditure bond interest ledger subsidy grant invoice",
}
OTHER_SCRIPTS = (
    "国会は予算案を可決した。首相は会見で説明した。 قررت اللجنة تأجيل الاجتماع. هل وافق المجلس؟ Комитет принял решение."
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Iterator[None]:
    """What a fixture draws must not depend on which tests ran before it: files are spread over processes."""
    _seed()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Nor what a test draws."""
    _seed()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Tiny models run in float32 on every machine, so that texts and vectors can be compared exactly: in bfloat16, rows
    of another batch round differently. The slow tests run the real weights in the machine's own number format."""
    with pytest.MonkeyPatch.context() as patch:
        if not item.get_closest_marker("slow"):
            patch.setattr(compat, "has_fast_bfloat16", lambda: False)
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="record the golden summaries anew")


def topical_text(sentences: int, seed: int = 0, paragraph: int = 10) -> str:
    """Sentences of 10 to 17 words that keep to a topic for a while; each has a figure, and no two are alike."""
    chance = random.Random(seed)
    topics = list(TOPICS)
    written = []
    for number in range(sentences):
        topic = topics[number // 12 % len(topics)]
        words = chance.sample(TOPICS[topic].split(), chance.randint(6, 11))
        end = "\n\n" if number % paragraph == paragraph - 1 else " "
        written.append(f"The {topic} report {' '.join(words)} cost {1000 + number * 7} dollars.{end}")
    return "".join(written).rstrip() + "\n"


@pytest.fixture(scope="session")
def short_text() -> str:
    """About three segments of the tiny tokenizer."""
    return topical_text(70)


@pytest.fixture(scope="session")
def long_text() -> str:
    """More segments than are written side by side."""
    return topical_text(520, seed=1)


@pytest.fixture(scope="session")
def short_document(short_text: str) -> Document:
    return Document(short_text, path="short.txt")


@pytest.fixture(scope="session")
def long_document(long_text: str) -> Document:
    return Document(long_text, path="long.txt")


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, like that of SmolLM2, trained on the topics."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    return byte_level_tokenizer(
        [topical_text(200, seed=2)],
        special,
        700,
        unk_token="<|endoftext|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        chat_template=CHAT_TEMPLATE,
    )


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    """What `--model FOLDER` takes."""
    return save_both(tiny_llama(tiny_tokenizer), tiny_tokenizer, tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture(scope="session")
def tiny_chat(tiny_tokenizer: PreTrainedTokenizerFast) -> ChatModel:
    """On the CPU in float32 whatever the machine has, so that results can be compared exactly."""
    return ChatModel(tiny_llama(tiny_tokenizer), tiny_tokenizer, "tiny")


@pytest.fixture(scope="session")
def tiny_encoder() -> SentenceEncoder:
    """A random BERT whose vectors are nearly bags of words: sentences with other words are other vectors."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # Words and letters, in order: a trained vocabulary would be another one in each process.
    text = f"{topical_text(200, seed=2)} {OTHER_SCRIPTS}".lower()
    letters = sorted({letter for letter in text if not letter.isspace()} | set("0123456789abcdefghijklmnopqrstuvwxyz"))
    words = sorted({word for words in TOPICS.values() for word in words.split()} | {"the", "report", "cost", "dollars"})
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], special, strict=True))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(fast),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=320,
    )
    model = BertModel(config, add_pooling_layer=False)
    torch.nn.init.normal_(model.embeddings.word_embeddings.weight)
    return SentenceEncoder(model, fast)


@pytest.fixture
def analyst(tiny_encoder: SentenceEncoder) -> Analyst:
    """The tiny encoder, with an extractor that fits any."""
    return Analyst(tiny_encoder, Centrality())


@pytest.fixture
def summarizer(analyst: Analyst, tiny_chat: ChatModel) -> Summarizer:
    """Ready to use, with the tiny models."""
    return Summarizer(system=Chat(writer=tiny_chat, analyst=analyst))


class Calls(list[Prompt]):
    """The prompts that were read, in order, and how many rows there were at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Records what every causal engine reads and writes while the test runs."""
    recorded = Calls()
    read, step = ChatModel.read, CausalEngine._write_a_step

    def reading(self: ChatModel, prompt: Prompt, *args: Any) -> Any:
        recorded.append(prompt)
        return read(self, prompt, *args)

    def stepping(self: CausalEngine) -> None:
        recorded.rows.append(len(self._rows))
        step(self)

    monkeypatch.setattr(ChatModel, "read", reading)
    monkeypatch.setattr(CausalEngine, "_write_a_step", stepping)
    return recorded


Answering = Callable[[Callable[[Prompt], str]], None]


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Lets a function answer prompts in the place of every causal model."""

    def install(write: Callable[[Prompt], str]) -> None:
        def advance(self: CausalEngine) -> list[Any]:
            news: list[Any] = []
            if following := self._next_prompt(news):
                session, prompt = following
                news += self._accept(session, prompt.number, Answer(write(prompt)))
            return news

        monkeypatch.setattr(CausalEngine, "_advance", advance)

    return install


@pytest.fixture(scope="session")
def tiny_bart_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with BART's four special tokens in their places, trained on the topics and on our headings."""
    texts = [topical_text(200, seed=2), f"{PREVIOUS} {CURRENT} {NEXT} " * 200]
    return byte_level_tokenizer(texts, BART_TOKENS, 500, BART_TEMPLATE)


@pytest.fixture(scope="session")
def tiny_bart_folder(tmp_path_factory: pytest.TempPathFactory, tiny_bart_tokenizer: PreTrainedTokenizerFast) -> Path:
    """A plain BART to equip."""
    return save_both(tiny_bart(tiny_bart_tokenizer), tiny_bart_tokenizer, tmp_path_factory.mktemp("tiny-bart"))


@pytest.fixture
def nothing_older() -> Iterator[None]:
    """What was there before the test is not looked through: that would take longer than the test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
