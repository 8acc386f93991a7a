"""`awesum train` in two processes, as `torchrun` and `accelerate launch` start them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from awesum.analysis.embedding import SentenceEncoder
from awesum.models.bart import AwesomeBart
from tests.conftest import topical_text
from tests.training.runs import history, steps, write

FSDP = ["--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"]


@pytest.fixture
def flags(tmp_path: Path, tiny_bart_folder: Path, tiny_encoder: SentenceEncoder) -> list[str]:
    """Six documents of unequal length, one epoch; no dropout, so that losses can be compared."""
    config = BartConfig.from_pretrained(tiny_bart_folder)
    config.dropout = 0.0
    model = BartForConditionalGeneration.from_pretrained(tiny_bart_folder, config=config)
    model.save_pretrained(tmp_path / "base")
    for path in tiny_bart_folder.glob("token*"):
        (tmp_path / "base" / path.name).write_bytes(path.read_bytes())
    tiny_encoder.model.save_pretrained(tmp_path / "encoder")
    tiny_encoder.tokenizer.save_pretrained(tmp_path / "encoder")
    texts = [topical_text(length, seed=seed) for seed, length in enumerate((6, 20, 4, 9, 14, 5))]
    write(tmp_path / "data" / "train.jsonl", [{"document": text, "summary": text[:150]} for text in texts])
    return [
        *["--base", str(tmp_path / "base"), "--data", str(tmp_path / "data"), "--encoder", str(tmp_path / "encoder")],
        *["--extractor", "centrality", "--memory-size", "8", "--epochs", "2", "--batch-size", "1"],
        *["--save-steps", "1", "--log-steps", "1", "--keep", "9", "--warmup-steps", "0", "--learning-rate", "0.001"],
        *["--precision", "auto" if torch.cuda.is_available() else "float32", "--quiet"],
    ]


def start_two(arguments: list[str]) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "awesum", "train", *arguments],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


@pytest.mark.slow
def test_killed_process_ends_the_run_with_one_line_and_it_resumes(tmp_path: Path, flags: list[str]) -> None:
    two = [*flags, "--accumulation", "1", "--output", str(tmp_path / "two")]
    first, second = start_two(two)
    while not (tmp_path / "two" / "checkpoint-2" / "trainer_state.json").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.005)
    second.send_signal(signal.SIGKILL)
    second.communicate()
    _, errors = first.communicate(timeout=300)
    ours = [line for line in errors.splitlines() if line.startswith("awesum: error")]
    assert len(ours) == 1, errors
    assert "another of the 2 processes of this run has ended" in ours[0]
    assert "Traceback" not in errors
    assert first.returncode == 1
    reached = max(steps(tmp_path / "two"))
    assert 2 <= reached < 6

    outputs = [process.communicate(timeout=600) for process in start_two(two)]
    assert outputs[0][0].strip() == str(tmp_path / "two")
    assert f"resuming from {tmp_path / 'two'}" in outputs[0][1]
    assert outputs[1][0] == ""
    assert "awesum" not in outputs[1][1], "only the first process prints"

    one = [*flags, "--accumulation", "2", "--output", str(tmp_path / "one")]
    subprocess.run([sys.executable, "-m", "awesum", "train", *one], check=True, capture_output=True)
    ours, theirs = history(tmp_path / "two"), history(tmp_path / "one")
    assert len(ours) == len(theirs) == 6
    for found, expected in zip(ours, theirs, strict=True):
        assert found[0] == expected[0]
        assert found[1] == pytest.approx(expected[1], rel=1e-4)  # logged with four or five digits
        assert found[2] == pytest.approx(expected[2], rel=1e-3)


LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"],
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launchers(tmp_path: Path, flags: list[str], launcher: str) -> None:
    """Both start two processes that share the work; one prints, and what they train can be loaded."""
    output = tmp_path / "model"
    module, *options = LAUNCHERS[launcher]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    port_option = "--master-port" if launcher == "torchrun" else "--main_process_port"
    command = [sys.executable, "-m", module, *options, port_option, port, "-m", "awesum", "train", *flags]
    done = subprocess.run(
        [*command, "--accumulation", "1", "--epochs", "1", "--output", str(output)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(output)], "only the first process prints"
    assert steps(output)[-1] == 3, "six documents, two at a time"
    assert AwesomeBart.from_pretrained(output).config.memory == "attentive"


# What needs GPUs


def launch(arguments: list[str], processes: int, *options: str) -> None:
    command = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", str(processes), *options]
    done = subprocess.run([*command, "-m", "awesum", "train", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("memory", ["none", "attentive", "compressive"])
@pytest.mark.parametrize("salient", ["none", "key-value"])
def test_trainer_with_fsdp_equals_one_process(tmp_path: Path, flags: list[str], memory: str, salient: str) -> None:
    """The Trainer's own path, which shards on GPUs only: all that there are, with shards, whole, and one of them."""
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip("needs two GPUs")
    flags = [*flags, "--memory", memory, "--salient", salient, "--precision", "float32"]
    launch([*flags, "--accumulation", "1", "--output", str(tmp_path / "fsdp")], 2, *FSDP)
    launch([*flags, "--accumulation", "1", "--output", str(tmp_path / "ddp")], 2, "--multi_gpu")
    launch([*flags, "--accumulation", "2", "--output", str(tmp_path / "one")], 1)
    found = {name: history(tmp_path / name) for name in ("fsdp", "ddp", "one")}
    for way in ("fsdp", "ddp"):
        for ours, theirs in zip(found[way], found["one"], strict=True):
            assert ours[1] == pytest.approx(theirs[1], rel=1e-3), way
    weights = [AwesomeBart.from_pretrained(tmp_path / name).state_dict() for name in ("fsdp", "one")]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.gpu
def test_fsdp_checkpoint_resumes_and_loads_in_one_process(tmp_path: Path, flags: list[str]) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    flags = [*flags, "--memory", "attentive", "--accumulation", "1", "--precision", "float32"]
    launch([*flags, "--output", str(tmp_path / "whole")], 2, *FSDP)
    launch([*flags, "--epochs", "1", "--output", str(tmp_path / "parts")], 2, *FSDP)
    launch([*flags, "--output", str(tmp_path / "parts")], 2, *FSDP)
    for ours, theirs in zip(history(tmp_path / "parts"), history(tmp_path / "whole"), strict=True):
        assert ours[1] == pytest.approx(theirs[1], rel=1e-3)
    assert AwesomeBart.from_pretrained(tmp_path / "parts" / "checkpoint-3").config.memory == "attentive"


@pytest.mark.gpu
def test_one_gpu_trains_and_summarizes(tmp_path: Path, flags: list[str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "awesum", "train", *flags, "--output", str(tmp_path / "model")],
        check=True,
        capture_output=True,
    )
    text = tmp_path / "report.txt"
    text.write_text(topical_text(30))
    command = ["summarize", str(text), "--model", str(tmp_path / "model"), "--style", "abstract", "--json"]
    done = subprocess.run([sys.executable, "-m", "awesum", *command], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["complete"]


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_corpus_uses_the_gpu(tmp_path: Path, tiny_folder: Path, engine: str) -> None:
    from awesum.corpus.results import read

    rows = [{"id": str(number), "text": topical_text(20, seed=number)} for number in range(8)]
    write(tmp_path / "a.jsonl", rows)
    command = ["corpus", str(tmp_path / "a.jsonl"), "--model", str(tiny_folder), "--engine", engine, "--length", "30w"]
    subprocess.run([sys.executable, "-m", "awesum", *command, "-o", str(tmp_path / "out")], check=True)
    found = list(read(str(tmp_path / "out")))
    assert len(found) == 8
    assert not any(row["error"] for row in found)
