"""A causal model gets its adapter: from data to a folder that summarizes, interrupted or not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as library_logging

import awesum.models.causal
import awesum.training.run
from awesum import Document, Settings, Summarizer
from awesum.analysis.embedding import SentenceEncoder
from awesum.cli import main
from awesum.errors import AwesumError
from awesum.length import Length
from awesum.models.adapter import WEIGHTS, AwesomeCausal, read_config
from awesum.models.causal import ChatModel, Prompt
from awesum.recurrent import CausalRecurrentRun, RewritingRun
from awesum.settings import ADAPTER
from awesum.summarizer import Run
from awesum.training.run import train
from awesum.training.settings import TrainingSettings
from awesum.training.trainer import last_checkpoint
from tests.conftest import tiny_llama, topical_text
from tests.training.test_run import Interrupted, history, steps, stopping_after, told_in_one_line, write

ROOT = Path(__file__).parents[2]
Go = Callable[..., Path]
SHAPE = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library shows a bar for each file that it writes; and what is prepared belongs to the test."""
    monkeypatch.setenv("AWESUM_CACHE", str(tmp_path / "cache"))
    library_logging.disable_progress_bar()
    yield
    library_logging.enable_progress_bar()


@pytest.fixture(autouse=True)
def _float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine is fast with, so that results can be compared."""
    for module in (awesum.models.causal, awesum.training.run):
        monkeypatch.setattr(module, "choose_device", lambda: (torch.device("cpu"), torch.float32, "in tests"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_llama(tiny_tokenizer, **SHAPE, max_position_embeddings=640).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def rows(count: int) -> list[dict[str, str]]:
    """Documents of one to four segments, whose summaries are sentences like their own."""
    return [
        {
            "id": f"report {number}",
            "document": topical_text(8 + 9 * number, seed=number),
            "summary": " ".join(topical_text(3, seed=number).split()),
        }
        for number in range(count)
    ]


@pytest.fixture
def settings(tmp_path: Path, base: Path) -> TrainingSettings:
    """Three documents, one a step; a checkpoint after each step."""
    write(tmp_path / "data" / "train.jsonl", rows(3))
    return TrainingSettings(
        data=str(tmp_path / "data"),
        output=str(tmp_path / "out"),
        base=str(base),
        memory_layers=2,
        memory_size=8,
        rank=4,
        learning_rate=3e-3,
        epochs=1,
        warmup_steps=0,
        accumulation=1,
        save_steps=1,
        keep=100,
        log_steps=1,
        precision="float32",
    )


@pytest.fixture
def go(tiny_encoder: SentenceEncoder) -> Go:
    def run(settings: TrainingSettings, **options: Any) -> Path:
        return train(settings, encoder=tiny_encoder, quiet=True, **{"say": lambda note: None, **options})

    return run


# ---------------------------------------------------------------------------------------------------------- to the end


def test_from_data_to_a_folder_that_holds_the_adapter_alone(settings: TrainingSettings, go: Go, tmp_path: Path) -> None:
    write(tmp_path / "data" / "validation.jsonl", rows(2))
    said: list[str] = []
    settings = replace(settings, epochs=5, batch_size=2, save_steps=100, learning_rate=2e-2)
    output = go(settings, say=said.append)
    losses = [loss for _, loss, _, _ in history(output)]
    assert len(losses) == 10
    assert sum(losses[-3:]) < 0.95 * sum(losses[:3])
    assert any("memory: attentive, salient content: none, float32 (as asked for)" in note for note in said)
    config = read_config(output)
    assert (config.base, config.memory, config.memory_layers, config.memory_size) == (
        settings.base,
        "attentive",
        2,
        8,
    )
    assert not (output / "model.safetensors").exists()
    saved = load_file(output / WEIGHTS)
    assert not any("prompted" in name or "original" in name for name in saved)
    assert saved["3.memory.source.reading.out_proj.weight"].abs().max() > 0  # it has learned to read
    last = last_checkpoint(output)
    assert last is not None
    assert (last / ADAPTER).is_file()
    # A second time there is nothing to do: the same adapter is there.
    before = (output / WEIGHTS).read_bytes()
    go(settings, say=said.append)
    assert f"going on from {last}" in said
    assert (output / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "none"},
        {"memory": "compressive", "update": "none", "freeze_trunk": True},
        {"memory": "attentive", "update": "full", "salient": "text", "salient_size": 40, "precision": "bfloat16"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_variant_trains(settings: TrainingSettings, go: Go, options: dict[str, Any]) -> None:
    settings = replace(settings, save_steps=100, label_smoothing=0.1, empty_targets=False, **options)
    output = go(settings)
    config = read_config(output)
    for name in ("memory", "salient", "update"):
        assert getattr(config, name) == getattr(settings, name)
    assert all(torch.isfinite(weight).all() for weight in load_file(output / WEIGHTS).values())
    assert len(history(output)) == 3


def test_machine_that_is_fast_with_bfloat16_trains_in_it(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch, tiny_encoder: SentenceEncoder
) -> None:
    for module in (awesum.models.causal, awesum.training.run):
        monkeypatch.setattr(module, "choose_device", lambda: (torch.device("cpu"), torch.bfloat16, "in tests"))
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 4)
    output = go(replace(settings, precision="auto", save_steps=100, documents=2))
    saved = load_file(output / WEIGHTS)
    assert all(torch.isfinite(weight).all() for weight in saved.values())
    assert saved["3.memory.source.reading.out_proj.weight"].abs().max() > 0
    summary = Summarizer(str(output), encoder=tiny_encoder).start(Document(topical_text(12)), Settings()).finish()
    assert summary.complete


def test_trunk_is_kept_and_gives_the_same_losses(
    settings: TrainingSettings, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings, documents=2, save_steps=100)
    go(settings)
    said: list[str] = []
    looks: list[int] = []
    real = AwesomeCausal.trunk

    def counting(self: AwesomeCausal, input_ids: torch.Tensor, *args: Any) -> torch.Tensor:
        looks.append(input_ids.shape[1])
        return real(self, input_ids, *args)

    monkeypatch.setattr(AwesomeCausal, "trunk", counting)
    frozen = replace(settings, output=str(tmp_path / "frozen"), freeze_trunk=True)
    go(frozen, say=said.append)
    assert any("the frozen layers read" in note for note in said)
    assert any(str(tmp_path / "cache" / "trunk") in note for note in said)
    found, expected = history(frozen.output), history(settings.output)
    assert [loss for _, loss, _, _ in found[:1]] == pytest.approx([expected[0][1]], rel=1e-3)
    first = len(looks)
    assert first > 0
    go(replace(frozen, output=str(tmp_path / "again"), memory="none"))
    assert len(looks) - first <= 3  # the trial
    kept = list((tmp_path / "cache" / "trunk").rglob("*.npy"))
    assert kept
    go(replace(frozen, output=str(tmp_path / "third"), memory="compressive"))
    further = set((tmp_path / "cache" / "trunk").rglob("*.npy")).difference(kept)
    assert 0 < len(further) < len(kept) / 2  # what this memory takes of the segments; the rest is shared


# ------------------------------------------------------------------------------------------------ killed and resumed


@pytest.mark.parametrize("freeze", [False, True])
def test_interrupted_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    settings: TrainingSettings, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freeze: bool
) -> None:
    settings = replace(settings, documents=2, epochs=2, freeze_trunk=freeze)
    whole = replace(settings, output=str(tmp_path / "whole"))
    go(whole)
    expected = history(whole.output)
    assert [step for step, *_ in expected] == [1, 2, 3, 4]
    with monkeypatch.context() as patch:
        stopping_after(3, patch)
        with pytest.raises(Interrupted):
            go(settings)
    assert steps(settings.output) == [1, 2, 3]
    said: list[str] = []
    go(settings, say=said.append)
    assert said[0].endswith("checkpoint-3")
    assert history(settings.output) == [pytest.approx(line, rel=1e-5) for line in expected]
    ours, theirs = (load_file(Path(each.output) / WEIGHTS) for each in (settings, whole))
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, msg=lambda text, name=name: f"{name}: {text}")


def drive(settings: dict[str, Any], encoder: str) -> None:
    """What the process that is killed does."""
    torch.set_num_threads(1)
    train(TrainingSettings(**settings), encoder=SentenceEncoder.load(encoder), quiet=True)


@pytest.mark.slow
def test_killed_and_resumed_gives_the_losses_of_an_uninterrupted_run(
    settings: TrainingSettings, go: Go, tiny_encoder: SentenceEncoder, tmp_path: Path
) -> None:
    settings = replace(settings, epochs=4, freeze_trunk=True)
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    whole = replace(settings, output=str(tmp_path / "whole"))
    go(whole)
    expected = history(whole.output)
    code = (
        f"from tests.training.test_adapter_run import drive; drive({asdict(settings)!r}, {str(tmp_path / 'encoder')!r})"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 240
        while not (tmp_path / "out" / "checkpoint-2" / "trainer_state.json").exists():
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.005)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert running.returncode == -signal.SIGKILL
    reached = last_checkpoint(tmp_path / "out")
    assert reached is not None
    said: list[str] = []
    go(settings, say=said.append)
    assert said[0] == f"going on from {reached}"
    assert history(settings.output) == [pytest.approx(line, rel=1e-5) for line in expected]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory", "compressive", "memory='attentive', not 'compressive'"),
        ("memory_size", 6, "memory_size=8, not 6"),
        ("memory_layers", 1, "memory_layers=2, not 1"),
        ("salient", "text", "salient='none', not 'text'"),
        ("update", "full", "update='low-rank', not 'full'"),
        ("rank", 5, "rank=4, not 5"),
    ],
)
def test_resuming_with_other_equipment_is_refused(
    settings: TrainingSettings, go: Go, tmp_path: Path, name: str, value: Any, text: str
) -> None:
    folder = tmp_path / "out" / "checkpoint-1"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    (folder / ADAPTER).write_text(json.dumps(settings.adapter))
    with pytest.raises(AwesumError, match=text) as error:
        go(replace(settings, **{name: value}))
    assert str(folder) in told_in_one_line(error)


def test_checkpoint_without_its_adapter(settings: TrainingSettings, go: Go, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "checkpoint-1"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    with pytest.raises(AwesumError, match=r"no readable adapter\.json") as error:
        go(settings)
    told_in_one_line(error)


# --------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    "change",
    [
        {"num_beams": 3},
        {"no_repeat_ngram": 4},
        {"max_part": 50},
        {"trunk_batch": 2},
        {"gradient_checkpointing": True},
        {"memory_direction": "both"},
        {"model": "some/bart"},
    ],
    ids=str,
)
def test_setting_that_would_do_nothing_with_a_causal_model_is_refused(
    settings: TrainingSettings, change: dict[str, Any]
) -> None:
    with pytest.raises(AwesumError, match=f"{next(iter(change))} is not for a causal model") as error:
        replace(settings, **change)
    told_in_one_line(error)


@pytest.mark.parametrize("change", [{"freeze_trunk": True}, {"update": "full"}, {"rank": 8}], ids=str)
def test_setting_that_would_do_nothing_with_a_bart_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AwesumError, match=f"{next(iter(change))} is not for a BART") as error:
        TrainingSettings(data="data", output="out", **change)
    told_in_one_line(error)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"base": "no/such/model"}, "no folder"),
        ({"memory": "atentive"}, "did you mean 'attentive'"),
        ({"salient": "key-value"}, "is not one of none, text, rewrite for a causal model"),
        ({"update": "lowrank"}, "did you mean 'low-rank'"),
        ({"memory_layers": 9}, "there are 4 layers"),
        ({"update_layers": 9}, "there are 4 layers"),
        ({"memory": "compressive", "memory_size": 7}, "odd"),
        ({"memory": "none", "update": "none"}, "nothing"),
    ],
    ids=str,
)
def test_bad_settings_are_told_in_one_line(
    settings: TrainingSettings, go: Go, change: dict[str, Any], text: str
) -> None:
    with pytest.raises(AwesumError, match=text) as error:
        go(replace(settings, **change))
    told_in_one_line(error)


def test_full_disk_leaves_the_earlier_checkpoint(
    settings: TrainingSettings, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = AwesomeCausal.save_pretrained, []

    def failing(self: AwesomeCausal, *args: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(AwesomeCausal, "save_pretrained", failing)
        with pytest.raises(AwesumError, match=r"cannot save the checkpoint .*checkpoint-2") as error:
            go(settings)
    assert f"{Path(settings.output) / 'checkpoint-1'} is whole" in told_in_one_line(error)
    assert steps(settings.output) == [1]
    go(settings)
    assert [step for step, *_ in history(settings.output)] == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------- summarizing


@pytest.fixture(scope="module", params=["attentive", "compressive-text", "none"])
def folder(
    request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory, tiny_encoder: SentenceEncoder
) -> Path:
    """What a short training leaves."""
    return trained(request.param, base, tmp_path_factory.mktemp("trained"), tiny_encoder)


def trained(kind: str, base: Path, there: Path, tiny_encoder: SentenceEncoder) -> Path:
    write(there / "data" / "train.jsonl", rows(2))
    memory, _, salient = kind.partition("-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWESUM_CACHE", str(there / "cache"))
        settings = TrainingSettings(
            data=str(there / "data"),
            output=str(there / "out"),
            base=str(base),
            memory=memory,
            salient=salient or "none",
            salient_size=40,
            memory_layers=2,
            memory_size=8,
            learning_rate=3e-3,
            epochs=1,
            warmup_steps=0,
            accumulation=1,
            precision="float32",
        )
        return train(settings, encoder=tiny_encoder, quiet=True, say=lambda note: None)


@pytest.fixture
def summarizer(folder: Path, tiny_encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> Summarizer:
    """It writes nonsense, which nothing bears out: here it may."""
    monkeypatch.setattr("awesum.recurrent.Facts.bear_out", lambda facts, sentence: True)
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 20)
    return Summarizer(str(folder), encoder=tiny_encoder)


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(topical_text(50), path="short.txt")


def test_every_segment_passes_through(summarizer: Summarizer, document: Document) -> None:
    run = summarizer.start(document, Settings())
    assert isinstance(run, CausalRecurrentRun)
    seen: list[tuple[str, int, int]] = []
    run.progress = lambda stage, done, total: seen.append((stage, done, total))
    summary = run.finish()
    segments = len(summary.segments)
    assert segments > 2
    assert seen[-1] == ("writing", segments, segments)
    assert summary.complete
    assert summary.parts
    assert {part.segment for part in summary.parts} <= set(range(segments))
    for part in summary.parts:
        for sentence in part.sentences:
            assert part.start <= sentence.source.start < sentence.source.end <= part.end


def test_parts_come_as_they_are_written(summarizer: Summarizer, document: Document) -> None:
    run = summarizer.start(document, Settings())
    next(iter(run))
    assert run._reached < len(run.segments) - 1


def test_length_is_kept_to_and_segments_without_a_share_are_only_remembered(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = all_noted(monkeypatch)
    run = summarizer.start(document, Settings(length="1s"))
    short = run.finish()
    assert len(asked) == len(run.segments)
    written = [number for number, prompt in enumerate(asked) if prompt.known is None]
    assert [number for number, prompt in enumerate(asked) if prompt.known == ()] == [
        number for number in range(len(asked)) if number not in written
    ]
    assert written
    assert len(written) < len(asked)
    assert sum(len(part.sentences) for part in short.parts) <= 2


def test_length_is_asked_for_from_a_model_that_would_end_sooner(
    summarizer: Summarizer, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts end where they are long enough, not where the model would."""
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 200)
    chat = summarizer.chat
    assert chat.memory
    monkeypatch.setattr(chat.memory, "adapter", replace(chat.memory.adapter, ending=1e-9))
    assert not summarizer.start(document, Settings()).finish().text
    run = summarizer.start(document, Settings(length="60w"))
    assert isinstance(run, CausalRecurrentRun)
    run.read()
    asked = []
    for _, number, answer in chat.follow([noting(run.prompts(), asked)]):
        least = asked[number].least
        assert len(answer.tokens) >= least if asked[number].known is None else not answer.tokens
        run.take(number, answer)
    assert max(prompt.least for prompt in asked) > 10


def all_noted(monkeypatch: pytest.MonkeyPatch) -> list[Prompt]:
    """Will hold what a model is asked."""
    asked: list[Prompt] = []
    follow = ChatModel.follow
    monkeypatch.setattr(
        ChatModel,
        "follow",
        lambda self, documents, count=8: follow(self, (noting(each, asked) for each in documents), count),
    )
    return asked


def noting(prompts: Iterable[Prompt], asked: list[Prompt]) -> Iterator[Prompt]:
    for prompt in prompts:
        asked.append(prompt)
        yield prompt


@pytest.mark.parametrize("length", ["1w", "5w", "1s", "4s", "30w", "500w"])
def test_what_is_left_of_a_length_says_how_much_is_written(
    summarizer: Summarizer, document: Document, length: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 60)
    run = summarizer.start(document, Settings(length=length))
    assert isinstance(run, CausalRecurrentRun)
    run.read()
    asked = list(run.prompts())  # nothing is taken, so that all is left
    assert len(asked) == len(run.segments)
    written = [prompt for prompt in asked if prompt.known is None]
    assert written, "no summary is empty because it is to be short"
    assert all(prompt.known == () for prompt in asked if prompt not in written)
    assert all(prompt.least > 9 for prompt in written)
    assert all(24 < prompt.limit <= min(120, summarizer.chat.window // 5) for prompt in written)
    if length == "4s":
        sentence = "The number {} crane of the quay was painted. "
        said = "".join(sentence.format(word) for word in ("first", "second", "third", "fourth"))
        assert not written[-1].enough(said)  # whether the fourth is at its end is not known yet
        assert written[-1].enough(said + "The")


def test_what_is_not_kept_is_not_enough(summarizer: Summarizer, document: Document) -> None:
    run = summarizer.start(document, Settings(length="20w"))
    assert isinstance(run, CausalRecurrentRun)
    run.read()
    prompt = [prompt for prompt in run.prompts() if prompt.known is None][-1]
    text = "The crane of the old quay was painted green by nine men of the port in one long summer. "
    assert prompt.enough(text + "The")
    run._before.add(text)
    assert not prompt.enough(text + "The")


def test_interrupted_run_goes_on_behind_its_parts(summarizer: Summarizer, document: Document) -> None:
    whole = summarizer.start(document, Settings()).finish()
    first = whole.parts[:1]
    again = summarizer.start(document, Settings(), written=first).finish()
    assert again.parts[:1] == first
    assert again.complete
    assert [part.segment for part in again.parts[1:]] == sorted({part.segment for part in again.parts[1:]})
    assert all(part.segment > first[-1].segment for part in again.parts[1:])
    everything = summarizer.start(document, Settings(), written=whole.parts).finish()
    assert everything.parts[: len(whole.parts)] == whole.parts


def test_what_the_source_does_not_bear_out_is_left_out(
    folder: Path, tiny_encoder: SentenceEncoder, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 30)
    monkeypatch.setattr("awesum.recurrent.Facts.bear_out", lambda facts, sentence: False)
    summary = Summarizer(str(folder), encoder=tiny_encoder).start(document, Settings()).finish()
    assert not summary.parts
    assert any("not borne out by the source" in note for note in summary.notes)


def test_part_that_ended_at_its_limit_is_said(summarizer: Summarizer, document: Document, monkeypatch: Any) -> None:
    monkeypatch.setattr("awesum.recurrent.LONGEST_PART", 3)
    summary = summarizer.start(document, Settings()).finish()
    assert any("ended at 3 tokens, before the model ended" in note for note in summary.notes)


def test_extract_needs_no_weights(summarizer: Summarizer, document: Document) -> None:
    summary = summarizer.start(document, Settings(style="extract", length="3s")).finish()
    assert len([sentence for part in summary.parts for sentence in part.sentences]) == 3
    assert "chat" not in vars(summarizer)


def test_command_line(folder: Path, document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    report.write_text(document.text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("awesum.recurrent.LONGEST_PART", 20)
        assert main(["summarize", str(report), "--model", str(folder), "--json", "--quiet", "--length", "20w"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["settings"]["length"] == "20w"
    assert result["settings"]["dtype"]


def test_adapter_of_other_weights_is_refused(
    settings: TrainingSettings, go: Go, tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    """With other weights than those it was trained with it would be wrong in silence."""
    base = tmp_path / "base"
    model = tiny_llama(tiny_tokenizer, **SHAPE, max_position_embeddings=640)
    model.save_pretrained(base)
    tiny_tokenizer.save_pretrained(base)
    output = go(replace(settings, base=str(base), documents=1))
    assert read_config(output).base_sha256
    ChatModel.load(str(output))
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[0, 0] += 1
    model.save_pretrained(base)
    with pytest.raises(AwesumError) as error:
        ChatModel.load(str(output))
    assert str(base) in told_in_one_line(error)


@pytest.mark.parametrize("side_by_side", [1, 2, 8])
def test_documents_side_by_side_are_those_one_by_one(
    side_by_side: int, summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awesum.summarizer.SIDE_BY_SIDE", side_by_side)
    texts = [topical_text(50), "One short sentence about a rocket.", topical_text(20, seed=3), topical_text(35, seed=4)]
    documents = [Document(text, path=f"{number}.txt") for number, text in enumerate(texts)]
    alone = [summarizer.summarize(document) for document in documents]
    together = list(summarizer.summarize_all(iter(documents)))
    assert [summary.text for summary in together] == [summary.text for summary in alone]
    assert [summary.document.path for summary in together] == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert all(summary.complete for summary in together)
    assert [summary.notes for summary in together] == [summary.notes for summary in alone]


def test_documents_are_asked_for_when_there_is_room(summarizer: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awesum.summarizer.SIDE_BY_SIDE", 2)
    asked: list[int] = []

    def coming() -> Any:
        for number in range(6):
            asked.append(number)
            yield Document(topical_text(12, seed=number), path=str(number))

    next(summarizer.summarize_all(coming()))
    assert asked[:2] == [0, 1]
    assert len(asked) < 6


def test_no_documents_are_no_summaries(summarizer: Summarizer) -> None:
    assert list(summarizer.summarize_all([])) == []


def test_switch_can_be_given_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "--base", str(tmp_path / "nothing"), "--freeze-trunk", "--data", str(tmp_path)]
    assert main([*command, "--output", str(tmp_path / "out")]) == 1
    assert "freeze_trunk" not in capsys.readouterr().err


def test_folder_is_written_side_by_side(
    summarizer: Summarizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("awesum.summarizer.Summarizer", lambda model: summarizer)
    folder = tmp_path / "reports"
    folder.mkdir()
    texts = {
        "a.txt": topical_text(50),
        "b.txt": "One short sentence about a rocket.",
        "c.txt": topical_text(30, seed=5),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "d.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    command = ["summarize", str(folder), "--model", summarizer.model, "-o", str(tmp_path / "out")]
    assert main(command) == 1
    told = capsys.readouterr()
    assert "1 of 4 documents could not be summarized" in told.err
    assert "d.pdf" in told.err
    for name, text in texts.items():
        expected = summarizer.summarize(Document(text, path=name)).text
        assert (tmp_path / "out" / f"{name}.txt").read_text(encoding="utf-8").strip() == expected.strip()
    (folder / "d.pdf").unlink()
    assert main(command) == 0
    assert "3 of 3 are done already" in capsys.readouterr().err


def test_folder_interrupted_keeps_all_parts_and_goes_on(
    summarizer: Summarizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("awesum.summarizer.Summarizer", lambda model: summarizer)
    folder = tmp_path / "reports"
    folder.mkdir()
    texts = {f"{number}.txt": topical_text(40, seed=number) for number in range(3)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = ["summarize", str(folder), "--model", summarizer.model, "-o", str(tmp_path / "out"), "--quiet"]
    taken: list[int] = []
    take = CausalRecurrentRun.take

    def interrupting(run: CausalRecurrentRun, number: int, answer: Any) -> Any:
        if len(taken) == 4:
            raise KeyboardInterrupt
        taken.append(number)
        return take(run, number, answer)

    with monkeypatch.context() as patch:
        patch.setattr(CausalRecurrentRun, "take", interrupting)
        assert main(command) == 130
    assert main(command) == 0
    for name in texts:
        assert (tmp_path / "out" / f"{name}.txt").read_text(encoding="utf-8").strip()
    assert not list((tmp_path / "out").glob("*.partial*"))


# --------------------------------------------------------------------------------------------------------- rewriting


@pytest.fixture(scope="module", params=["none-rewrite", "attentive-rewrite"])
def rewriting(
    request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory, tiny_encoder: SentenceEncoder
) -> Path:
    """What a short training with points leaves."""
    return trained(request.param, base, tmp_path_factory.mktemp("trained"), tiny_encoder)


@pytest.fixture
def rewriter(rewriting: Path, tiny_encoder: SentenceEncoder) -> Summarizer:
    return Summarizer(str(rewriting), encoder=tiny_encoder)


@pytest.fixture(scope="module")
def report() -> Document:
    return Document(topical_text(120), path="long.txt")


def test_only_segments_with_points_are_asked(
    rewriter: Summarizer, report: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = all_noted(monkeypatch)
    run = rewriter.start(report, Settings(length="60w"))
    assert isinstance(run, RewritingRun)
    summary = run.finish()
    assert summary.complete
    written = [prompt for prompt in asked if prompt.known is None]
    with_points = [number for number, share in enumerate(run._shares) if share]
    assert 0 < len(with_points) < len(run.segments)
    assert len(written) == len(with_points)
    for number, prompt in zip(with_points, written, strict=True):
        words = "".join(rewriter.tokenizer.decode(prompt.tokens).split())
        assert all("".join(run._quote(index).text.split()) in words for index in run._shares[number])
    assert {part.segment for part in summary.parts} <= set(with_points)


def test_salient_sentences_stand_in_for_what_is_not_borne_out(rewriter: Summarizer, report: Document) -> None:
    """A model of a few hundred steps writes nonsense: the summary is then what it was to put in other words."""
    summary = rewriter.start(report, Settings(length="60w")).finish()
    extract = rewriter.start(report, Settings(length="60w", style="extract")).finish()
    words = len(summary.text.split())
    assert 40 <= words <= 80
    assert any("taken from the source as it stands" in note for note in summary.notes)
    assert {sentence.text for part in summary.parts for sentence in part.sentences} & {
        sentence.text for part in extract.parts for sentence in part.sentences
    }


def test_without_a_length_it_is_the_default_s(rewriter: Summarizer, report: Document) -> None:
    run = rewriter.start(report, Settings())
    assert run.length == Length.parse(Run.default_length)


@pytest.mark.parametrize("length", ["60w", "4s"])
def test_rewriting_interrupted_goes_on(rewriter: Summarizer, report: Document, length: str) -> None:
    whole = rewriter.start(report, Settings(length=length)).finish()
    assert len(whole.parts) > 1
    again = rewriter.start(report, Settings(length=length), written=whole.parts[:1]).finish()
    assert [part.segment for part in again.parts] == [part.segment for part in whole.parts]
    assert again.parts[0] == whole.parts[0]


def test_rewriting_side_by_side_is_rewriting_one_by_one(rewriter: Summarizer) -> None:
    documents = [Document(topical_text(30 + 25 * number, seed=number), path=f"{number}") for number in range(4)]
    alone = [rewriter.start(document, Settings(length="50w")).finish().text for document in documents]
    assert [summary.text for summary in rewriter.summarize_all(documents, length="50w")] == alone
