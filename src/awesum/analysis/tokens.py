"""The encoder's tokenizer without the library of models, which takes seconds to import: for measuring sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from awesum.errors import AwesumError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class PlainTokenizer:
    """A `tokenizer.json`, called as the library's tokenizers are; special tokens in a text are text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path) -> PlainTokenizer:
        """From a model's folder."""
        from tokenizers import Tokenizer

        path = folder / "tokenizer.json"
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises nothing more exact
            raise AwesumError(f"cannot read {path} ({error}): run `awesum setup`") from error

    def __call__(self, texts: str | Sequence[str], **options: Any) -> dict[str, Any]:
        """Tokens and their places, without special tokens, whatever `options` say."""
        if isinstance(texts, str):
            encoding = self._tokenizer.encode(texts, add_special_tokens=False)
            return {"input_ids": encoding.ids, "offset_mapping": encoding.offsets}
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return {
            "input_ids": [encoding.ids for encoding in encodings],
            "offset_mapping": [encoding.offsets for encoding in encodings],
        }
