"""Measured claims, one script each: `python -m benchmarks.NAME` prints the figure and the bar it has to reach."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "samples" / "commercial-crew.txt"
SMALL_BART = {
    "d_model": 256,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "vocab_size": 8000,
}
"""Large enough for weights and states to show in the memory of a process, and small enough to train here."""


def report(claim: str, figure: float, bar: float, unit: str = "", at_most: bool = True) -> bool:
    """Print a figure beside its bar; true if it is reached."""
    reached = figure <= bar if at_most else figure >= bar
    sign = "at most" if at_most else "at least"
    print(f"{claim}: {figure:.2f}{unit} ({sign} {bar:g}{unit}: {'reached' if reached else 'MISSED'})")
    return reached


def given_back() -> dict[str, str]:
    """An environment in which freed memory goes back to the system at once: for a process whose peak is measured, which
    shall be what is in use, not what the allocator hoards."""
    return os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
