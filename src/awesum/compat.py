"""Every use of a library's private names, in one place: what to look at when a library is upgraded.

Each is a small function, or a mixin that turns a private hook of the library into a public method. Importing this
module imports no library: mixins go before the library's class in the list of bases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware (AMX or AVX-512 BF16). Emulated, it is 100 times slower."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


@cache
def has_amx() -> bool:
    """Whether the processor multiplies tiles of bfloat16, which torch's fused attention uses."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported())


def attention_implementation(config: PreTrainedConfig) -> str | None:
    """The name of the attention that a model runs with, such as `sdpa`; set by `set_attn_implementation`."""
    return config._attn_implementation


def takes_attention_backend(model: PreTrainedModel) -> bool:
    """Whether a model runs with an attention that was registered with the library, as ours is."""
    return bool(model._supports_attention_backend)


def is_stateful(model: PreTrainedModel) -> bool:
    """Whether a model keeps a state besides keys and values, as Mamba does, which cannot be rolled back."""
    return bool(model._is_stateful)


def architecture_of(config: PreTrainedConfig) -> dict[str, Any]:
    """The settings on which a model's output depends: not its name, the library's version or the number format."""
    settings: dict[str, Any] = config.to_dict()
    for name in ("_name_or_path", "transformers_version", "architectures", "dtype"):
        settings.pop(name, None)
    return settings


class ModelHooks:
    """For a `PreTrainedModel`: how new weights start, and which modules stay on one device."""

    undivided: Sequence[str] = ()
    """Names of the module classes that are not split over several devices."""
    _no_split_modules: Sequence[str] = ()
    _supports_flash_attn = False  # our attention has masks and keys that neither of the two takes
    _supports_flex_attn = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._no_split_modules = tuple(cls.undivided)

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[misc]
        self.start_weights(module)

    def start_weights(self, module: nn.Module) -> None:
        """Set the starting values of a module, after the library has set its own.

        Use `transformers.initialization`, which leaves weights alone that were loaded.
        """


class TrainerHooks:
    """For a `Trainer`: where checkpoints are written and read. Each method may call the library's way of doing it."""

    args: Any  # the library's

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self.save_checkpoint(partial(super()._save_checkpoint, *args, **kwargs))  # type: ignore[misc]

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = output_dir or self.args.output_dir
        self.save_weights(folder, partial(super()._save, output_dir, state_dict))  # type: ignore[misc]

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load = partial(super()._load_from_checkpoint, resume_from_checkpoint, model)  # type: ignore[misc]
        self.load_weights(resume_from_checkpoint, load)

    def save_checkpoint(self, save: Callable[[], None]) -> None:
        """Save all that resuming needs: weights, optimizer, schedule, random numbers."""
        save()

    def save_weights(self, folder: str, save: Callable[[], None]) -> None:
        """Save the model."""
        save()

    def load_weights(self, folder: str, load: Callable[[], None]) -> None:
        """Load the model from a checkpoint."""
        load()


class BeamHooks:
    """For a model that generates: which of its inputs are repeated for each beam."""

    undivided_inputs: Sequence[str] = ()
    """Inputs that beams share: these keep one row per document."""

    def _expand_inputs_for_generation(
        self, expand_size: int = 1, is_encoder_decoder: bool = False, input_ids: Any = None, **inputs: Any
    ) -> Any:
        shared = {name: inputs.pop(name) for name in self.undivided_inputs if name in inputs}
        # As for a decoder alone: the library would ask for the encoder's output, which is not to be repeated.
        expand = super()._expand_inputs_for_generation  # type: ignore[misc]
        input_ids, inputs = expand(expand_size, False, input_ids, **inputs)
        return input_ids, {**inputs, **shared}


def dispatching(handle: Callable[[Any, Any, Any], Any]) -> Any:
    """A context in which every operation of torch goes through `handle(operation, args, kwargs)`.

    Except the question for a fake tensor's device, which autograd asks twice for each operation.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    device_of = torch.ops.prim.device.default

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is device_of and isinstance(args[0], FakeTensor):
                return args[0].fake_device
            return handle(func, args, kwargs or {})

    return Mode()  # type: ignore[no-untyped-call]


def fake_tensors() -> Any:
    """A context in which tensors have shapes and no contents; real ones may join them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


_MADE: dict[Any, Any] = {}
"""What operations made of fake tensors: see `remembering`."""


def remembering(fake: Any) -> Callable[[Any, Any, Any], Any]:
    """A faster way to run an operation on fake tensors: what it made of tensors like these is made again.

    The library works out the shape of every result anew, at half a millisecond each. A model repeats itself: its
    layers, its segments and its backward pass are the same few hundred operations. Sizes, strides and the storages
    that results share with arguments are remembered; whatever is unusual goes to the library each time.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

    def plain(value: Any, tensors: list[Any]) -> Any:
        """What can be compared of an argument; its tensors are collected."""
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return isinstance(value, FakeTensor), value.shape, value.stride(), value.storage_offset(), value.dtype
        if isinstance(value, (list, tuple)):
            return tuple([plain(each, tensors) for each in value])
        return value, type(value)

    def recipe(result: Any, tensors: Sequence[Any]) -> Any:
        """How to make `result` again; None if it is unusual."""
        if isinstance(result, (list, tuple)):
            parts = [recipe(each, tensors) for each in result]
            new = [storage_key(each) for each in tensors_in(list(result))]
            is_usual = type(result) in (list, tuple) and None not in parts and len(set(new)) == len(new)
            return (type(result), parts) if is_usual else None
        if not isinstance(result, FakeTensor):
            return None
        layout = tuple(result.shape), result.stride()
        for number, each in enumerate(tensors):
            if result is each:
                return number, None
            if storage_key(each) == storage_key(result):
                is_alike = isinstance(each, FakeTensor) and each.dtype == result.dtype
                return (number, (*layout, result.storage_offset())) if is_alike else None
        made = torch.empty_strided(*layout, dtype=result.dtype)
        if result.storage_offset() or made.untyped_storage().nbytes() != result.untyped_storage().nbytes():
            return None
        return None, (*layout, result.dtype, result.fake_device)

    def again(how: Any, tensors: Sequence[Any]) -> Any:
        kind, rest = how
        if isinstance(kind, type):
            return kind([again(each, tensors) for each in rest])
        if kind is None:
            size, stride, dtype, device = rest
            made = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        elif rest is None:
            return tensors[kind]
        else:
            made, device = torch.as_strided(tensors[kind], *rest), tensors[kind].fake_device
        return FakeTensor(fake, made, device)

    def run(operation: Any, args: Any, kwargs: Any) -> Any:
        tensors: list[Any] = []
        try:
            key = operation, torch.get_default_dtype(), plain(args, tensors), plain(tuple(kwargs.items()), tensors)
            how = _MADE.get(key)
        except TypeError:  # an argument that cannot be compared
            return operation(*args, **kwargs)
        if how is not None:
            with in_kernel_invocation_manager(fake):
                return again(how, tensors)
        result = operation(*args, **kwargs)
        if not tensors or any(map(is_fake, tensors)):  # of real ones alone, a result may have contents
            _MADE[key] = recipe(result, tensors)
        return result

    return run


def real_tensors() -> Any:
    """A context inside `fake_tensors` in which tensors have contents again."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


def copy_of_module(module: Any) -> Any:
    """A deep copy, also of a module with fake tensors: torch crashes after their storages were copied."""
    from copy import deepcopy

    import torch

    held = [*module.parameters(), *module.buffers()]
    copies: dict[int, Any] = {}
    if any(map(is_fake, held)):
        for each in held:
            made: Any = torch.empty_like(each)
            is_parameter = isinstance(each, torch.nn.Parameter)
            copies[id(each)] = torch.nn.Parameter(made, each.requires_grad) if is_parameter else made
    return deepcopy(module, copies)


def is_fake(tensor: Any) -> bool:
    """Whether it has no contents."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def asks_for_contents(error: Exception) -> bool:
    """Whether an operation failed because a fake tensor has none."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    return isinstance(error, (DataDependentOutputException, DynamicOutputShapeException))


def tensors_in(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for each in value for tensor in tensors_in(each)]


def storage_key(tensor: Any) -> int:
    """The same for all tensors that share their storage."""
    return int(tensor.untyped_storage()._cdata)
