"""A chat with a causal model as tokens: what its template puts around the user's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PLACE = "\u2063"  # an invisible character that no chat template holds: marks where the user's text goes


class Chat:
    """One message of a user, and the beginning of the answer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.before, self.behind = self._frame()
        """The tokens before and behind the user's text."""

    def _frame(self) -> tuple[list[int], list[int]]:
        if self.tokenizer.chat_template is None:
            return self.ids(""), self.ids("\n\n")
        system = {"role": "system", "content": "You summarize documents."}
        user = {"role": "user", "content": _PLACE}
        try:
            text = self.tokenizer.apply_chat_template([system, user], add_generation_prompt=True, tokenize=False)
        except Exception:  # some templates refuse a system message
            text = self.tokenizer.apply_chat_template([user], add_generation_prompt=True, tokenize=False)
        before, behind = text.split(_PLACE)
        return tuple(self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, behind))

    def ids(self, text: str) -> list[int]:
        """The tokens of a text. It may hold the very marks of the chat template: they are text there, not marks."""
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]

    def prompt(self, text: str) -> list[int]:
        """The tokens of a chat in which the user says `text` and the model is about to answer."""
        return [*self.before, *self.ids(text), *self.behind]
