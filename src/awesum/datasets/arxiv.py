"""arXiv: papers and their abstracts.

The paper used `scientific_papers`, which needs a loading script; this copy of the same data is Parquet. According to
its public pages (not verified by download), the configuration `document` has the columns `article` and `abstract`.
"""

from awesum.datasets.dataset import Dataset, Figures

DATASET = Dataset(
    name="arxiv",
    repository="ccdv/arxiv-summarization",
    configuration="document",
    paper=Figures(train=203_037, validation=6_436, test=6_440, document_words=6_030, summary_words=273),
    note="no licence is stated, each paper has its own; in lower case, with mathematics as @xmath; without ids, so "
    "rows are identified by their number",
)
