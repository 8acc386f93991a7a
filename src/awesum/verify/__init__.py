"""How well a sentence of a summary is supported by its source.

from awesum.verify import Verifier
Verifier.load().support(["The bank offers a loan for 15 years."], "The loan runs for 30 years.")     0.01
"""

from awesum.verify.verifier import Verdict, Verifier

__all__ = ["Verdict", "Verifier"]
