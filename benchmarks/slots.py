"""How distinct the slots of an attentive memory are after 64 segments, with each part of the mend alone and together.

    python -m benchmarks.slots

128 slots, fresh weights. For each variant and each kind of hidden states: the effective rank of the memory after 64
segments (the exponential of the entropy of its singular values; 128 at most), the difference between the memories of
two documents after four segments, and the lowest and highest norm on the way, as shares of the norm. States are random,
random with a mean in common, the same with a spectrum that falls steeply, or real: those that an adapter writes in two
layers of SmolLM2, for the two halves of the sample, from the start again after the last segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from awesum.memory.attention import merged, split
from awesum.memory.attentive import INITIAL_SIZE, SHARPNESS, AttentiveMemory, normalized
from benchmarks import SAMPLE

SLOTS, SEGMENTS, LENGTH, EARLY = 128, 64, 400, 4
LAYERS = (18, 28)


@dataclass(frozen=True)
class Parts:
    """Which parts of the mend a variant has."""

    queries: bool = False
    orthogonal: bool = False
    sharp: bool = False
    identity: bool = False
    states: bool = False
    """Hidden states are normalized."""
    distinct: bool = False
    """Hidden states have the mean of their segment subtracted first."""
    centred: bool = False
    scaled: bool = False
    competing: bool = False
    """Slots compete for tokens: the softmax is over the slots, then each slot's weights are scaled to one."""
    own: bool = False
    """The write attention is a copy of the layer's self-attention."""


ALONE = {
    "literal": Parts(),
    "query per slot": Parts(queries=True),
    "orthogonal attention": Parts(orthogonal=True),
    "orthogonal and sharp": Parts(orthogonal=True, sharp=True),
    "W_u2 = identity, gate bias": Parts(identity=True),
    "normalized states": Parts(states=True),
    "states centred": Parts(distinct=True),
    "states centred and normalized": Parts(states=True, distinct=True),
    "S centred": Parts(centred=True),
    "S scaled": Parts(scaled=True),
    "S centred and scaled": Parts(centred=True, scaled=True),
    "slots compete": Parts(competing=True),
    "the layer's own attention": Parts(own=True),
}
WHOLE = Parts(True, True, True, True, True, True, True, True)
TOGETHER = {
    "**all of them** (`attentive`)": WHOLE,
    "... without query per slot": replace(WHOLE, queries=False),
    "... without orthogonal start": replace(WHOLE, orthogonal=False),
    "... not sharp": replace(WHOLE, sharp=False),
    "... without identity and gate bias": replace(WHOLE, identity=False),
    "... without normalized states": replace(WHOLE, states=False),
    "... without centred states": replace(WHOLE, distinct=False),
    "... S not centred": replace(WHOLE, centred=False),
    "... S not scaled": replace(WHOLE, scaled=False),
    "... and slots compete": replace(WHOLE, competing=True),
    "... with the layer's own attention": replace(WHOLE, own=True),
}


class Variant(AttentiveMemory):
    """An attentive memory with some parts of the mend; the others as in the literal variant."""

    def __init__(self, size: int, heads: int, parts: Parts, own: dict[str, torch.Tensor] | None) -> None:
        self.parts, self.own = parts, own
        super().__init__(size, heads, SLOTS)

    def starting_values(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Those of `attentive` where it has the part, small random ones elsewhere."""
        parts, writing = self.parts, self.writing
        kept: list[nn.Module] = []
        if parts.orthogonal:
            kept += [writing.q_proj, writing.k_proj, writing.v_proj, writing.out_proj]
        if parts.identity:
            kept += [self.u1, self.u2, self.g1, self.g2]
        given = {id(module.weight) for module in kept} | {id(self.initial), id(self.queries)}
        given |= {id(self.gate)} if parts.identity else set()
        for tensor, value in super().starting_values():
            if id(tensor) in given:
                factor = 1.0
                if tensor is writing.q_proj.weight and not parts.sharp:
                    factor = 1 / SHARPNESS
                if tensor is self.initial and parts == Parts():
                    factor = 1 / INITIAL_SIZE
                yield tensor, factor * value
            elif tensor.dim() == 2:
                yield tensor, 0.02 * torch.randn(tensor.shape)
        if parts.own and self.own is not None:
            for name, value in self.own.items():
                factor = SHARPNESS if parts.sharp and name == "q_proj" else 1.0
                yield getattr(writing, name).weight, factor * value

    def add_tensors(self) -> None:
        """The gate's bias and sharpness belong to how a slot starts to move."""
        super().add_tensors()
        if not self.parts.identity:
            self.gate, self.gate_sharpness = None, 1.0  # type: ignore[misc]

    def found(self, memory: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """S^t, with the parts that there are."""
        parts, writing = self.parts, self.writing
        hidden = hidden - hidden.mean(1, keepdim=True) if parts.distinct else hidden
        source = writing.source(normalized(hidden) if parts.states else hidden, mask)
        asking = memory + self.queries if parts.queries else memory
        if parts.competing:
            q = split(writing.q_proj(asking), writing.heads)
            weights = (q @ source.keys.transpose(2, 3) * q.shape[-1] ** -0.5).softmax(2)
            s = writing.out_proj(merged(weights / weights.sum(3, keepdim=True) @ source.values))
        else:
            s = writing(asking, source)
        s = s - s.mean(1, keepdim=True) if parts.centred else s
        return normalized(s) if parts.scaled else s


def effective_rank(memory: torch.Tensor) -> float:
    """How many directions the slots fill."""
    shares = torch.linalg.svdvals(memory)
    shares = shares / shares.sum()
    return float(torch.exp(-(shares * shares.clamp_min(1e-12).log()).sum()))


@torch.no_grad()
def measure(memory: AttentiveMemory, states: torch.Tensor) -> str:
    """Rank, difference, and the range of the norm, for two documents: (2, segments, tokens, size)."""
    mask = torch.ones(states.shape[0], states.shape[2], dtype=torch.bool)
    held = memory.start(2).memory
    first, difference, norms = float(held.norm()), 0.0, []
    for number in range(SEGMENTS):
        held = memory.update(held, states[:, number % states.shape[1]], mask)
        norms.append(float(held.norm()) / first)
        if number + 1 == EARLY:
            difference = float((held[0] - held[1]).norm() / held[0].norm())
    rank = min(effective_rank(each) for each in held)
    return f"{rank:.0f}, {difference:.2f}, {min(norms):.2f}-{max(norms):.2f}"


def random_states(mean: float, steepness: float = 0.0) -> torch.Tensor:
    """Two documents of normal random numbers with a vector in common. Their spectrum falls by a power of the number."""
    chance = torch.Generator().manual_seed(5)
    common = torch.randn(256, generator=chance)
    spectrum = torch.arange(1, 257).float() ** -steepness
    spectrum /= spectrum.square().mean().sqrt()
    return torch.randn(2, 8, LENGTH, 256, generator=chance) * spectrum + mean * common


@torch.no_grad()
def real_states() -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """For each layer: what an adapter writes for the two halves of the sample, and the layer's own attention."""
    from transformers import AutoModelForCausalLM

    from awesum.loading import load_tokenizer
    from awesum.weights import smollm2_folder

    folder = smollm2_folder()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = load_tokenizer("smollm2", folder)(SAMPLE.read_text(encoding="utf-8"), verbose=False)["input_ids"]
    count = len(tokens) // 2 // LENGTH
    ids = torch.tensor([tokens[: count * LENGTH], tokens[-count * LENGTH :]]).view(2 * count, LENGTH)
    seen: dict[int, list[torch.Tensor]] = {layer: [] for layer in LAYERS}
    for layer in LAYERS:
        norm = model.model.layers[layer].post_attention_layernorm
        norm.register_forward_hook(lambda _, given, output, layer=layer: seen[layer].append(output))
    for row in ids:
        model.model(row[None], use_cache=False)
    for layer in LAYERS:
        attention = model.model.layers[layer].self_attn
        groups = attention.num_key_value_groups
        own = {name: getattr(attention, name).weight for name in ("q_proj", "k_proj", "v_proj")}
        for name in ("k_proj", "v_proj"):  # one for each head, where several heads share one
            own[name] = (
                own[name].view(-1, attention.head_dim, own[name].shape[1]).repeat_interleave(groups, 0).flatten(0, 1)
            )
        yield torch.cat(seen[layer]).view(2, count, LENGTH, -1), own | {"out_proj": attention.o_proj.weight}


def main() -> int:
    """Print the table."""
    torch.set_flush_denormal(True)
    columns: list[tuple[torch.Tensor, int, dict[str, torch.Tensor] | None]] = [
        (random_states(0), 8, None),
        (random_states(2), 8, None),
        (random_states(2, 0.7), 8, None),
    ]
    columns += [(states, 9, own) for states, own in real_states()]
    names = [
        "random",
        "random with a mean in common",
        "steep spectrum",
        *(f"SmolLM2, layer {layer}" for layer in LAYERS),
    ]
    print("| variant | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for name, parts in (ALONE | TOGETHER).items():
        cells = []
        for states, heads, own in columns:
            if parts.own and own is None:
                cells.append("")
                continue
            torch.manual_seed(0)
            cells.append(measure(Variant(states.shape[3], heads, parts, own), states))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
