"""QMSum: meetings, and what people asked about them.

A row of the hub has the query in the first line of `input` and the transcript in the others, as in SCROLLS. Known from
its public pages and from code that reads it, not fetched.
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _rows(row: Row) -> Iterable[Row]:
    """The query out of the document. A row that is otherwise is left as it is, for the checks to name."""
    text = row.get("input")
    if not isinstance(text, str):
        return (row,)
    query, _, transcript = text.partition("\n")
    fields = {"id": row.get("id"), "query": query.strip(), "document": transcript.strip(), "summary": row.get("output")}
    return (fields,)


QMSUM = Dataset(
    name="qmsum",
    repository="pszemraj/qmsum-cleaned",
    configuration="default",
    paper=Figures(train=1_257, validation=272, test=279, document_words=9_070, summary_words=70),
    note="MIT (QMSum), Apache-2.0 (this copy); the transcripts were cleaned, so figures are not quite comparable with "
    "those of the original; made from SCROLLS, whose test split is published without summaries: if they are missing "
    "here too, those rows are skipped and counted",
    rows=_rows,
)
