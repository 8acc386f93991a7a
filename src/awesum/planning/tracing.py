"""Counting the memory of a step that is not run: tensors without values, and what a GPU's allocator would hold of them.

The step runs on torch's fake tensors, which have shapes and no contents, so that a model of any size is traced in
seconds. `Tracer` sees every operation, follows every storage from its first use to its end, and keeps the parts of the
highest sum. A storage counts as on a GPU: rounded up to 512 bytes.

The CPU build of torch takes other kernels than a GPU would. Where that changes what is held, the step runs as a GPU
runs it: dropout keeps one byte a number, and attention is either written out (`eager`) or keeps what a fused kernel
keeps (`fused`: queries, keys, values, output and one number a query), whatever kernel this machine would take. With
`attention="own"` everything is left to this machine's kernels and counted to the byte, to be compared with a step that
was really run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from awesum import compat
from awesum.memory import MemoryState

Kind = Literal["weights", "gradients", "optimizer", "activations", "memory states", "temporary"]
KINDS: tuple[Kind, ...] = ("weights", "gradients", "optimizer", "activations", "memory states", "temporary")
Attention = Literal["eager", "fused", "own"]
BLOCK = 512
"""A GPU's allocator gives out multiples of this many bytes."""
SMALL = 2**26
"""Up to this many numbers (a mask of 8,192 by 8,192), what depends on no weight is computed: models ask about it."""


@dataclass(frozen=True)
class Peak:
    """The highest sum of a traced step."""

    bytes: int
    parts: Mapping[Kind, int]
    place: str
    """Where in the model it occurs: the name of the module, and whether in its forward or backward pass."""


@dataclass
class _Storage:
    bytes: int
    kind: Kind


class Tracer:
    """Follows all storages while it is entered, of fake tensors and of real ones alike."""

    def __init__(self, block: int = BLOCK, run: Callable[[Any, Any, Any], Any] | None = None) -> None:
        self._block = block
        self._run = run or (lambda operation, args, kwargs: operation(*args, **kwargs))
        self._storages: dict[int, _Storage] = {}
        self._sums: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self._names: dict[int, str] = {}
        self._inside: list[str] = []
        self._backward_of: str | None = None
        self.total = 0
        """Bytes that are held now."""
        self.peak = Peak(0, dict(self._sums), "")

    def operate(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation of torch, and follow what it returns."""
        is_known = not any(map(compat.is_fake, compat.tensors_in((args, kwargs))))
        try:
            result = self._run(operation, args, kwargs)
            is_asked = is_known and self._has_values(result)
        except Exception as error:
            if not (is_known and compat.asks_for_contents(error)):
                raise
            is_asked = True
        if is_asked:
            with compat.real_tensors():
                result = operation(*args, **kwargs)
        for each in compat.tensors_in(result):
            self._see(each)
        return result

    def _has_values(self, result: Any) -> bool:
        """Whether a fake result should be computed: models look into masks, which no fake tensor allows."""
        made = compat.tensors_in(result)
        return any(map(compat.is_fake, made)) and all(each.numel() <= SMALL for each in made)

    def name(self, model: nn.Module) -> None:
        """Learn the names of a model's modules, and that its parameters and buffers are weights."""
        self._names.update({id(module): name for name, module in model.named_modules()})
        self.mark("weights", [*model.parameters(), *model.buffers()])

    def mark(self, kind: Kind, tensors: Iterable[torch.Tensor]) -> None:
        """From here on, the storages of these tensors are of this kind."""
        for tensor in tensors:
            self._see(tensor)
            if found := self._storages.get(compat.storage_key(tensor)):
                self._sums[found.kind] -= found.bytes
                self._sums[kind] += found.bytes
                found.kind = kind

    def restart(self) -> None:
        """Forget the peak so far; what is held stays counted."""
        self.peak = Peak(self.total, dict(self._sums), "")

    def keep(self, tensor: torch.Tensor) -> None:
        """A tensor that the backward pass will need."""
        found = self._storages.get(compat.storage_key(tensor))
        if found and found.kind == "temporary":
            self.mark("activations", [tensor])

    def enter_module(self, module: nn.Module, inputs: Any) -> None:
        """A forward pass through a module begins."""
        self._backward_of = None
        self._inside.append(self._names.get(id(module), "") or (self._inside[-1] if self._inside else ""))

    def leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """It ends; what a memory holds between two segments is known by its type."""
        if self._inside:
            self._inside.pop()
        for state in _memory_states(getattr(output, "memory", None)):
            self.mark("memory states", state.tensors().values())

    @property
    def place(self) -> str:
        """Where in the model the step is now."""
        return self._inside[-1] if self._inside else ""

    def go_back_to(self, place: str) -> None:
        """The backward pass has come to what was computed at `place`."""
        self._backward_of = place

    def _see(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = compat.storage_key(tensor)
        if key in self._storages:
            return
        size = -(-storage.nbytes() // self._block) * self._block
        self._storages[key] = _Storage(size, "temporary")
        self._sums["temporary"] += size
        self.total += size
        weakref.finalize(storage, self._end, key)
        if self.total > self.peak.bytes:
            back = self._backward_of
            place = f"{self.place or 'the loss'}, forward" if back is None else f"{back or 'the loss'}, backward"
            self.peak = Peak(self.total, dict(self._sums), place)

    def _end(self, key: int) -> None:
        if storage := self._storages.pop(key, None):
            self._sums[storage.kind] -= storage.bytes
            self.total -= storage.bytes


def _memory_states(found: Any) -> Iterator[MemoryState]:
    """The states in what a model or one of its halves returns as its memory."""
    if isinstance(found, MemoryState):
        yield found
    elif isinstance(found, Mapping):
        for each in found.values():
            yield from _memory_states(each)
    elif hasattr(found, "encoder") and hasattr(found, "decoder"):
        for name in ("encoder", "decoder", "ahead"):
            yield from _memory_states(getattr(found, name, None))


@contextmanager
def traced(fake: Any, attention: Attention = "fused", *, offload: bool = False) -> Iterator[Tracer]:
    """Trace what runs inside, on fake tensors (`compat.fake_tensors()`), or on real ones if that is None.

    `offload`: what the backward pass needs is kept outside the GPU, weights excepted.
    """
    tracer = Tracer(1 if attention == "own" else BLOCK, None if fake is None else compat.remembering(fake))
    with ExitStack() as stack:
        if fake is not None:
            stack.enter_context(fake)
        if attention != "own":
            stack.enter_context(_as_on_gpu(attention))
        stack.enter_context(_hooked(tracer))
        stack.enter_context(_Saved(tracer, offload))
        stack.enter_context(compat.dispatching(tracer.operate))
        yield tracer


@contextmanager
def _hooked(tracer: Tracer) -> Iterator[None]:
    handles = [
        register_module_forward_pre_hook(tracer.enter_module),
        register_module_forward_hook(tracer.leave_module, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Saved(saved_tensors_hooks):
    """Tells the tracer what is kept for the backward pass, and how far that has come."""

    def __init__(self, tracer: Tracer, offload: bool) -> None:
        def pack(tensor: torch.Tensor) -> Any:
            if offload and not isinstance(tensor, nn.Parameter) and not tensor.is_leaf:
                return tracer.place, tensor.shape, tensor.dtype
            tracer.keep(tensor)
            return tracer.place, tensor

        def unpack(packed: Any) -> torch.Tensor:
            place, *kept = packed
            tracer.go_back_to(place)
            return kept[0] if len(kept) == 1 else torch.empty(kept[0], dtype=kept[1])

        super().__init__(pack, unpack)


@contextmanager
def _as_on_gpu(attention: Attention) -> Iterator[None]:
    """Dropout and attention as a GPU computes them, also where a checkpoint computes again in the backward pass."""
    functions: Any = nn.functional
    before = functions.dropout, functions.scaled_dot_product_attention
    try:
        functions.dropout = _dropout
        functions.scaled_dot_product_attention = _eager if attention == "eager" else _fused
        yield
    finally:
        functions.dropout, functions.scaled_dot_product_attention = before


def _dropout(tensor: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    return torch.native_dropout(tensor, p, True)[0] if training and p else tensor


def _eager(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Scores, mask, softmax, dropout and product, one after the other, as the library's `eager` attention."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None or is_causal:
        added = scores.new_empty(scores.shape[-2:])
        scores = scores + (attn_mask if attn_mask is not None and attn_mask.is_floating_point() else added)
    weights = _dropout(torch.softmax(scores, -1), dropout_p, training=True)
    return weights @ value


def _fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
    """Mask, dropout and scale are computed inside the kernel, and hold nothing."""
    found: torch.Tensor = _FusedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return found


class _FusedAttention(torch.autograd.Function):
    """What a fused kernel holds, without its arithmetic."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        batch, heads, length, _ = query.shape
        output = query.new_empty(batch, length, heads, value.shape[-1]).transpose(1, 2)
        ctx.save_for_backward(query, key, value, output, query.new_empty(batch, heads, length, dtype=torch.float32))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        query, key, value, *_ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
