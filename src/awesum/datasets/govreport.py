"""GovReport: reports of two research offices of the United States, with summaries by their authors.

The authors' own `launch/gov_report` needs a loading script, which the library no longer runs; this copy is Parquet.
According to its public pages (not verified by download), the configuration `document` has the columns `report` and
`summary`.
"""

from awesum.datasets.dataset import Dataset, Figures

DATASET = Dataset(
    name="govreport",
    repository="ccdv/govreport-summarization",
    configuration="document",
    paper=Figures(train=17_516, validation=974, test=973, document_words=9_409, summary_words=553),
    note="CC-BY 4.0 (the dataset), public domain (the reports); without ids, so rows are identified by their number; "
    "train may have one document more, and validation one fewer, than in the paper",
)
