"""QMSum: meeting transcripts, with queries about them and the answers.

A hub row has the query in the first line of `input` and the transcript in the others, as in SCROLLS; this is according
to its public pages and to code that reads it (not verified by download).
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _rows(row: Row) -> Iterable[Row]:
    """Split the query from the document. Any other row is returned unchanged, for the row checks to report."""
    text = row.get("input")
    if not isinstance(text, str):
        return (row,)
    query, _, transcript = text.partition("\n")
    fields = {"id": row.get("id"), "query": query.strip(), "document": transcript.strip(), "summary": row.get("output")}
    return (fields,)


DATASET = Dataset(
    name="qmsum",
    repository="pszemraj/qmsum-cleaned",
    configuration="default",
    paper=Figures(train=1_257, validation=272, test=279, document_words=9_070, summary_words=70),
    note="MIT (QMSum), Apache-2.0 (this copy); the transcripts were cleaned, so figures are not quite comparable with "
    "those of the original; derived from SCROLLS, whose test split is published without summaries: if they are missing "
    "here too, those rows are skipped and counted",
    rows=_rows,
)
