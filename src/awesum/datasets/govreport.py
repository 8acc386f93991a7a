"""GovReport: reports of two research offices of the United States, with the summaries that their authors wrote.

The authors' own `launch/gov_report` has a loading script, which is no longer run by anyone; this copy is Parquet.
Known from its public pages, not fetched: the configuration `document` with the columns `report` and `summary`.
"""

from awesum.datasets.dataset import Dataset, Figures

GOVREPORT = Dataset(
    name="govreport",
    repository="ccdv/govreport-summarization",
    configuration="document",
    paper=Figures(train=17_516, validation=974, test=973, document_words=9_409, summary_words=553),
    note="CC-BY 4.0 (the dataset), public domain (the reports); without ids, so rows are known by their number; "
    "one more document may be in train and one fewer in validation than in the paper",
)
