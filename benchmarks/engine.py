"""The built-in engine against llama.cpp and against the arithmetic limit, in one run: ratios, not seconds.

    python -m benchmarks.engine [--prompts 22] [--tokens 580] [--written 48] [--formats Q4_0 Q8_0 BF16]

The same weights (SmolLM2), the same prompts, as many tokens written to each. llama.cpp runs each format with parallel
slots and the best of some batch sizes. The limit is the arithmetic of the weights alone at the speed that this machine
multiplies large matrices with, in its number format. Processor time is printed beside the time on the clock: on a
machine with other work to do, only its ratios mean anything. Needs `awesum[gguf]`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from awesum.engine.causal import write_answers
from awesum.engine.llamacpp import require_xllamacpp
from awesum.loading import choose_device
from awesum.models.prompt import Prompt
from awesum.systems.smollm2 import SmolLM2
from awesum.weights import SMOLLM2_WHEEL
from benchmarks import SAMPLE, report

SLOTS = 8


class Spent(NamedTuple):
    """Seconds on the clock, and of the processor."""

    clock: float
    processor: float


def spent(call: Callable[[], object]) -> Spent:
    """The time that a call takes."""
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return Spent(time.perf_counter() - clock, time.process_time() - processor)


def convert(source: Path, target: Path, form: str) -> None:
    """The embedded weights in another number format; what is not a matrix stays in float32."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize, quantize

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.get_field("general.architecture").contents())  # type: ignore[union-attr]
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    kind = GGMLQuantizationType[form]
    for tensor in reader.tensors:
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if values.ndim < 2:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp(path: Path, prompts: list[list[int]], written: int, batch: int) -> Spent:
    """Side by side, in parallel slots, each answer as long as asked for."""
    xllamacpp = require_xllamacpp()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_parallel = SLOTS
    parameters.n_ctx = SLOTS * (max(map(len, prompts)) + written + 64)
    parameters.n_batch = parameters.n_ubatch = batch
    parameters.cache_ram_mib, parameters.warmup, parameters.verbosity = 0, True, -1
    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server: Any = xllamacpp.Server(parameters)

    def ask(tokens: list[int]) -> None:
        request = {"prompt": tokens, "max_tokens": written, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        answer = server.handle_completions(request)
        assert answer["usage"]["completion_tokens"] == written, answer

    with ThreadPoolExecutor(SLOTS) as pool:
        return spent(lambda: list(pool.map(ask, prompts)))


def speed() -> float:
    """Multiplications and additions a second, of a layer of the model's size in this machine's number format."""
    _, dtype, _ = choose_device()
    states, weights = torch.randn(576, 576, dtype=dtype), torch.randn(1536, 576, dtype=dtype)
    best = min(spent(lambda: [torch.nn.functional.linear(states, weights) for _ in range(40)]).clock for _ in range(9))
    return 40 * 2 * 576 * 576 * 1536 / best


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=22)
    parser.add_argument("--tokens", type=int, default=580, help="of each prompt")
    parser.add_argument("--written", type=int, default=48)
    parser.add_argument("--formats", nargs="+", default=["Q4_0", "Q8_0", "BF16"])
    parser.add_argument("--batches", nargs="+", type=int, default=[512, 2048])
    options = parser.parse_args()
    system = SmolLM2()
    chat = system.writer
    ids = chat.chat.ids(SAMPLE.read_text(encoding="utf-8"))
    starts = [number * options.tokens % max(len(ids) - options.tokens, 1) for number in range(options.prompts)]
    prompts = [ids[start : start + options.tokens] for start in starts]

    def never(text: str) -> bool:
        return False

    def built_in() -> None:
        asked = [Prompt(tokens, never, options.written, least=options.written) for tokens in prompts]
        assert all(len(answer.tokens) == options.written for answer in write_answers(chat, asked))

    list(write_answers(chat, [Prompt(prompts[0], never, 4)]))  # warm
    ours = spent(built_in)
    _, dtype, reason = choose_device()
    form = str(dtype).removeprefix("torch.")
    read = sum(map(len, prompts))
    print(f"{len(prompts)} prompts, {read:,} tokens, {options.written} written to each; {form}: {reason}")
    print(f"{'built-in ' + form:22} {ours.clock:7.1f} s  {ours.processor:7.1f} s of the processor", flush=True)
    opponents: dict[str, Spent] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.formats:
            path = Path(folder, f"{name}.gguf")
            convert(SMOLLM2_WHEEL.path(), path, name)
            for batch in options.batches:
                label = f"llama.cpp {name} {batch}"
                opponents[label] = found = llama_cpp(path, prompts, options.written, batch)
                print(f"{label:22} {found.clock:7.1f} s  {found.processor:7.1f} s of the processor", flush=True)
    model = chat.model
    body = sum(each.numel() for name, each in model.named_parameters() if "embed_tokens" not in name)
    head = model.config.vocab_size * model.config.hidden_size
    written = len(prompts) * options.written
    body -= 0 if model.config.tie_word_embeddings else head
    fastest = speed()
    limit = 2 * (body * (sum(map(len, prompts)) + written) + head * written) / fastest
    print(f"{'arithmetic, ' + form:22} {limit:7.1f} s  ({fastest / 1e9:.0f} GFLOPS)")
    best = min(opponents.values(), key=lambda each: each.clock)
    cheapest = min(opponents.values(), key=lambda each: each.processor)
    print(f"against llama.cpp by processor time: {cheapest.processor / ours.processor:.2f} times as fast")
    note = "" if dtype == torch.bfloat16 else " (float32: there is no bfloat16 arithmetic here)"
    reached = [
        report("against the fastest llama.cpp", best.clock / ours.clock, 4, " times as fast", at_most=False),
        report(f"against the arithmetic limit{note}", ours.clock / limit, 1.7, " times the time"),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
