"""A corpus: more documents than anybody wants to wait for, summarized into a folder of Parquet files.

`storage` finds and opens files anywhere, `source` reads documents from them, `worker` summarizes a batch of these,
`local` and `on_ray` run many workers, `results` keeps what they return, and `run` puts it all together.

Only the process that was started writes results, in whole files: whichever process is killed, each document has one
row, or none yet. A job can change its engine between two runs.
"""

from awesum.corpus.job import Columns, Job
from awesum.corpus.run import Totals, summarize_corpus

__all__ = ["Columns", "Job", "Totals", "summarize_corpus"]
