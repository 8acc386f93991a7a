"""The systems that read a document as one input: the time of writing, and how the memory of training grows.

    python -m benchmarks.long_inputs                 both; `--time` or `--memory` for one of them

`--time`: block attention and Unlimiformer read 4,096 tokens and write 64 with four beams, against the library's BART,
which reads the first 1,024 of them: BART-large's size, random weights, one thread. Time is processor time, which does
not count what other processes take. Encoding happens once a document, so it is not part of the time per token;
`--encoding` measures it besides.
`--memory`: training steps of a small model (weights, gradients and Adam included; 256 target tokens) at growing
lengths, each system in a process of its own: its peak resident memory, less what it had before there was a model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import SMALL_BART, given_back, report

TIMED = ("truncated", "block-attention", "unlimiformer")
READ, WRITTEN, BEAMS = 4096, 64, 4
BAR = 1.5
LENGTHS = (1024, 2048, 4096, 8192)
TARGET = 256
SMALL_T5: dict[str, Any] = {
    "d_model": 256,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 3,
    "num_heads": 4,
    "vocab_size": 8000,
    "encoder_attention_type": "transient-global",
    "feed_forward_proj": "gated-gelu",
}
CUT = ("truncated", "extract-abstract")
"""Systems that read no more than BART's positions."""
MEASURED = (
    "truncated", "extract-abstract", "block-attention", "longformer", "long-t5", "unlimiformer", "pagesum", "cached",
)  # fmt: skip


def measure_time(system: str, with_encoding: bool, rounds: int) -> None:
    """In a process of its own: write and print the seconds of encoding, and of each token."""
    import torch
    from transformers import BartConfig
    from transformers.modeling_outputs import BaseModelOutput

    from awesum import systems

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    kind: Any = systems.find(system)
    own = {} if system == "truncated" else kind.settings_class().model_config
    config = kind.model_kind().config_class(**BartConfig().to_diff_dict() | own)
    with torch.device("meta"):
        model = kind.model_kind()(config)
    model = model.to_empty(device="cpu")
    for weight in model.parameters():
        torch.nn.init.uniform_(weight, -0.03, 0.03)
    for buffer in model.buffers():
        buffer.zero_()
    model.tie_weights()
    model.eval()
    if system == "block-attention":
        model.extend_positions(READ)
    read = READ if system != "truncated" else config.max_position_embeddings
    ids = torch.randint(4, config.vocab_size, (1, read))
    states = torch.randn(1, read, config.d_model)  # what the encoder found does not matter
    options: dict[str, Any] = {"num_beams": BEAMS, "use_cache": True, "forced_eos_token_id": None}
    encoding, writing = 0.0, []
    with torch.inference_mode():
        if with_encoding:
            started = time.process_time()
            model.get_encoder()(ids, attention_mask=torch.ones_like(ids))
            encoding = time.process_time() - started
        for _ in range(rounds):
            started = time.process_time()
            model.generate(
                encoder_outputs=BaseModelOutput(last_hidden_state=states.clone()),
                attention_mask=torch.ones_like(ids),
                min_length=WRITTEN,
                max_length=WRITTEN,
                **options,
            )
            writing.append((time.process_time() - started) / (WRITTEN - 1))
    print(json.dumps([encoding, min(writing)]))


def measure_memory(system: str) -> None:
    """In a process of its own: train on random documents, each longer than the one before, and print the peaks."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration, LongT5Config, LongT5ForConditionalGeneration

    from awesum import systems
    from awesum.footprint import peak_memory
    from awesum.loading import hide_progress_bars
    from awesum.recurrence import DocumentInputs
    from awesum.training.trainable import make

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    hide_progress_bars()
    kind: Any = systems.find(system)
    with tempfile.TemporaryDirectory() as folder:
        if system == "long-t5":
            LongT5ForConditionalGeneration(LongT5Config(**SMALL_T5)).save_pretrained(folder)
        else:
            BartForConditionalGeneration(BartConfig(**SMALL_BART)).save_pretrained(folder)
        before = peak_memory()
        training: Any = make(system, folder, kind.settings_class())
        model = training.model.train()
    if system == "block-attention":
        model.extend_positions(max(LENGTHS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
    peaks = []
    for length in (256, *LENGTHS):  # those after the first start with gradients and both moments allocated
        if system in CUT and length > LENGTHS[0]:
            break
        ids = torch.randint(4, 8000, (length,)).tolist()
        pages = -(-length // 1024) if system == "pagesum" else 0
        segments = [ids[page::pages] for page in range(pages)] if pages else [ids]
        training.loss([DocumentInputs("random", segments, [ids[:TARGET]], is_paged=bool(pages))], torch.Tensor.backward)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        peaks.append(peak_memory() - before)
    print(json.dumps(peaks[1:]))


def _child(*arguments: object) -> Any:
    command = [sys.executable, "-m", "benchmarks.long_inputs", *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=given_back())
    return json.loads(done.stdout)


def times(with_encoding: bool, rounds: int) -> bool:
    """Each against the library's BART."""
    found = {}
    for system in TIMED:
        encoding, token = found[system] = _child(
            "--measure-time", system, "--rounds", rounds, *(["--encoding"] * with_encoding)
        )
        after = f", after {encoding:.1f} s of encoding" if with_encoding else ""
        print(f"{system}: {token * 1000:,.0f} ms a token{after}", flush=True)
    plain = found["truncated"][1]
    reached = [report(f"{system}, time per token", found[system][1] / plain, BAR) for system in TIMED[1:]]
    return all(reached)


def memory() -> None:
    """A table of peaks."""
    print("| peak memory of a training step, MB | " + " | ".join(f"{length:,} tokens" for length in LENGTHS) + " |")
    print("|---|" + "---:|" * len(LENGTHS))
    for system in MEASURED:
        cells = [f"{peak / 1e6:,.0f}" for peak in _child("--measure-memory", system)]
        cells += ["as with 1,024"] * (len(LENGTHS) - len(cells))
        print(f"| {system} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--measure-time", help=argparse.SUPPRESS)
    parser.add_argument("--encoding", action="store_true", help="measure encoding too")
    parser.add_argument("--rounds", type=int, default=2, help="the fastest of so many")
    parser.add_argument("--measure-memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_time:
        measure_time(options.measure_time, options.encoding, options.rounds)
        return 0
    if options.measure_memory:
        measure_memory(options.measure_memory)
        return 0
    both = options.time == options.memory
    if both or options.memory:
        memory()
    return 0 if not (both or options.time) or times(options.encoding, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
