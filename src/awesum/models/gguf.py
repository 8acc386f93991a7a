"""What a GGUF file says about itself, read without loading it: enough to refuse what could not be run.

Only the header is read. Nothing is trusted: a length beyond the file's end is a truncated or damaged file.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
from dataclasses import dataclass, field, replace
from errno import ENOMEM
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError
from awesum.footprint import format_size

MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MARKS = (3, 4)
"""Types of token: control marks, and those that a user has defined. Neither may be read out of a document."""
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_SAMPLES, _SAMPLE_BYTES = 64, 65_536


class _Damaged(Exception):
    """The header makes no sense."""


@dataclass(frozen=True)
class GGUF:
    """The header of a GGUF file."""

    path: Path
    values: dict[str, Any]
    """The metadata by name; arrays only where they are needed."""
    size: int
    """Bytes of all its files."""
    marks: frozenset[str] = field(default=frozenset(), repr=False)
    """Tokens that stand for the chat template's marks."""
    parameters: int = 0
    """Of all its files."""

    @property
    def architecture(self) -> str:
        """The kind of model, as `llama` or `qwen2`."""
        return str(self.values.get("general.architecture", ""))

    def _of_model(self, name: str) -> int | None:
        value = self.values.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    @property
    def name(self) -> str:
        """What its makers call it."""
        return str(self.values.get("general.name") or self.path.stem)

    @property
    def window(self) -> int:
        """How many tokens it can look at."""
        return self._of_model("context_length") or 2048

    @property
    def bytes_per_token(self) -> int:
        """What one token of a prompt takes while its answer is written: keys and values in every layer, in 16 bits."""
        heads = self._of_model("attention.head_count_kv") or self._of_model("attention.head_count") or 32
        size = self._of_model("attention.key_length")
        if size is None:
            size = (self._of_model("embedding_length") or 4096) // (self._of_model("attention.head_count") or 32)
        return 2 * 2 * (self._of_model("block_count") or 64) * heads * size

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever the file does: of its size, its header and samples of its weights. All of it would take
        longer than loading it."""
        digest = hashlib.sha256(str(self.size).encode())
        length = self.path.stat().st_size
        with self.path.open("rb") as file:
            for sample in range(_SAMPLES):
                file.seek(sample * max(length - _SAMPLE_BYTES, 0) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def require_chat(self) -> None:
        """Refuse what is not a chat model."""
        kind = self.values.get("general.type")
        if kind == "adapter":
            raise AwesumError(f"{self.path} is an adapter, not a model: give the GGUF of a chat model")
        if self.architecture == "clip" or kind == "mmproj":
            raise AwesumError(f"{self.path} is the image part of a model: give the GGUF of its language model")
        template = self.values.get("tokenizer.chat_template")
        if self._of_model("pooling_type") or not isinstance(template, str) or not template.strip():
            what = f"{self.architecture} model" if self.architecture else "model"
            raise AwesumError(
                f"{self.path} is not a chat model (a {what} without a chat template): give an instruct or chat version"
            )


def is_gguf(path: str | Path) -> bool:
    """Whether a path is meant as a GGUF file: by its name, or by what it begins with."""
    path = Path(path)
    if str(path).lower().endswith(".gguf"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except (OSError, ValueError):
        return False


def read_gguf(path: str | Path) -> GGUF:
    """The header of a file, checked against the file's size."""
    path = Path(path)
    found = _read_file(path)
    parts = found.values.get("split.count")
    if not isinstance(parts, int) or parts < 2:
        return found
    name = _PART.search(path.name)
    if name is None or int(name[1]) != 1:
        raise AwesumError(
            f"{path} is one of {parts} parts of a model: give the first, which ends in 00001-of-{parts:05}.gguf"
        )
    others = [path.with_name(_PART.sub(f"-{part:05}-of-{name[2]}.gguf", path.name)) for part in range(2, parts + 1)]
    for other in others:
        if not other.is_file():
            raise AwesumError(f"{path} is one of {parts} parts of a model, and {other.name} is missing: fetch it too")
    files = [found, *map(_read_file, others)]
    size, parameters = sum(file.size for file in files), sum(file.parameters for file in files)
    return replace(found, size=size, parameters=parameters)


def _read_file(path: Path) -> GGUF:
    if not path.exists():
        raise AwesumError(f"there is no file {path}: give the path of a GGUF file")
    if not path.is_file():
        raise AwesumError(f"{path} is not a file: give the path of a GGUF file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise AwesumError(f"{path} is not a GGUF file (it does not begin with GGUF): fetch the model again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                values, marks, needed, parameters = _Header(data).read()
    except OSError as error:
        advice = (
            "free some RAM, or raise the limit of this process" if error.errno == ENOMEM else "check its permissions"
        )
        raise AwesumError(f"cannot read {path} ({error.strerror or error}): {advice}") from error
    except (_Damaged, struct.error, UnicodeDecodeError) as error:
        raise AwesumError(f"{path} is truncated or damaged ({error}): fetch it again") from error
    if needed > size:
        raise AwesumError(
            f"{path} is truncated ({format_size(size)} of {format_size(needed)} are there): fetch it again"
        )
    return GGUF(path, values, size, marks, parameters)


class _Header:
    """Reads a header from the beginning of a file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at, self.end = data, 4, len(data)

    def read(self) -> tuple[dict[str, Any], frozenset[str], int, int]:
        """The metadata, the marks, the bytes that the file must have, and the parameters of its model."""
        version = self._number("I")
        if version not in (2, 3):
            raise _Damaged(f"version {version} of the format, not 2 or 3")
        tensors, pairs = self._number("Q"), self._number("Q")
        values: dict[str, Any] = {}
        for _ in range(self._sane(pairs, 12)):
            name = self._text()
            values[name] = self._value(self._number("I"), name.startswith("tokenizer.ggml.token"))
        tokens, types = values.pop("tokenizer.ggml.tokens", ()), values.pop("tokenizer.ggml.token_type", ())
        marks = frozenset(
            token for token, kind in zip(tokens, types, strict=False) if kind in _MARKS and len(token.strip()) > 2
        )
        last = parameters = 0
        for _ in range(self._sane(tensors, 24)):
            self._text()
            shape = [self._number("Q") for _ in range(self._sane(self._number("I"), 8))]
            kind, offset = self._number("I"), self._number("Q")
            last = max(last, offset + _tensor_bytes(kind, shape))
            parameters += prod(shape)
        alignment = values.get("general.alignment")
        alignment = alignment if isinstance(alignment, int) and alignment > 0 else 32
        return values, marks, -(-self.at // alignment) * alignment + last, parameters

    def _sane(self, count: int, least: int) -> int:
        """A number of things that take at least that many bytes each; more than there is room for is damage."""
        if count * least > self.end - self.at:
            raise _Damaged("the file ends within its header")
        return count

    def _number(self, form: str) -> Any:
        [value] = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return value

    def _raw(self) -> bytes:
        length = self._sane(self._number("Q"), 1)
        self.at += length
        return self.data[self.at - length : self.at]

    def _text(self) -> str:
        return self._raw().decode("utf-8", "replace")

    def _skip_texts(self, count: int) -> None:
        """Vocabularies have a hundred thousand: nothing is done for each that need not be."""
        unpack, data, at = struct.Struct("<Q").unpack_from, self.data, self.at
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self.at = at
        self._sane(0 if at <= self.end else 1, self.end)

    def _value(self, kind: int, keep: bool) -> Any:
        """A value; of an array that is not needed, nothing."""
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            if kind not in _NUMBERS:
                raise _Damaged(f"unknown type {kind} of a value")
            return self._number(_NUMBERS[kind])
        of, count = self._number("I"), self._number("Q")
        if of == _STRING:
            self._sane(count, 8)
            if keep:
                return [self._text() for _ in range(count)]
            self._skip_texts(count)
            return None
        if of not in _NUMBERS:
            raise _Damaged(f"unknown type {of} of an array")
        form = f"<{self._sane(count, struct.calcsize(_NUMBERS[of]))}{_NUMBERS[of]}"
        found = struct.unpack_from(form, self.data, self.at) if keep else None
        self.at += struct.calcsize(form)
        return found


def _tensor_bytes(kind: int, shape: list[int]) -> int:
    """The bytes of a tensor; 0 for a type that is not known here."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return 0
    return prod(shape) // block * size
