"""The recall task: which systems still know a fact when another part of the document asks for it?

    python -m benchmarks.recall                                  every system, three seeds, then table and plot
    python -m benchmarks.recall --systems attentive se3 --seeds 0
    python -m benchmarks.recall --future                         facts that are stated later than they are asked for
    python -m benchmarks.recall --peaks                          peak memory of training, the budget, and what fits

A document states facts ("FACT key value") and asks for them in other segments ("ASK key"); the summary of a segment
that asks is the value, of any other it is empty. There are 64 values, so guessing is right in 1.6% of all cases. Each
model is a small BART from scratch. It first learns to answer within a segment, the same for all systems of a seed, then
from longer and longer documents, of up to 18 segments. It is tested on documents of up to 64 with pairs of key and
value that training never saw. At distance 0 the fact is in the segment that asks: the positive control.

Systems that go from segment to segment (`memories`) get the memory after the first stage; every memory has the same
number of slots. Salient memory and salient content are told how salient sentences are, as they are by an extractor:
statements of facts are, and so is a quarter of all other sentences, somewhat less.

Systems that read a document as one input (`whole`) write one summary of it. In training, a document asks once or, in
half of all cases, not at all; what asks nothing has an empty summary. So a system that does not see the question has no
reason to answer. Inputs are cut at what fits a budget of 2.4 times the peak memory of Se3 (`peaks`), as the paper cuts
them at 27 GB where Se3 takes 11.1.

Results are added to `--out` as each model is done; a model that is in there is not trained again.
"""
