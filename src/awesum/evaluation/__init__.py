"""Evaluation: score files of summaries, compare systems, and show the result.

from awesum.evaluation import evaluate
evaluation, _ = evaluate(Path("ours.jsonl"), Path("references.jsonl"), compare=[Path("theirs.jsonl")])
evaluation.table["theirs"]["rouge-1"].p
"""

from awesum.evaluation.pairs import Pairs
from awesum.evaluation.result import Cell, Evaluation, System
from awesum.evaluation.run import evaluate
from awesum.evaluation.significance import difference, interval
from awesum.evaluation.table import render

__all__ = ["Cell", "Evaluation", "Pairs", "System", "difference", "evaluate", "interval", "render"]
