"""arXiv: papers and their abstracts.

The paper took `scientific_papers`, which has a loading script; this copy of the same data is Parquet. Known from its
public pages, not fetched: the configuration `document` with the columns `article` and `abstract`.
"""

from awesum.datasets.dataset import Dataset, Figures

ARXIV = Dataset(
    name="arxiv",
    repository="ccdv/arxiv-summarization",
    configuration="document",
    paper=Figures(train=203_037, validation=6_436, test=6_440, document_words=6_030, summary_words=273),
    note="no licence is stated, each paper has its own; in lower case, with mathematics as @xmath; without ids, so "
    "rows are known by their number",
)
