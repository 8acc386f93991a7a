"""BookSum: whole novels, each with summaries from several sources.

The paper used a reproduction by the authors of Unlimiformer; this is another one, whose card reports the same 314, 45
and 46 summaries. According to that card (not verified by download), the configuration `books` has `bid`, `text` and
`summary`, a list of `source` and `text`. The better known `kmfoda/booksum` has chapters only.
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _text(value: object) -> object:
    """Join paragraphs into one text. Anything else is returned unchanged, for the row checks to report."""
    if isinstance(value, list) and all(isinstance(paragraph, str) for paragraph in value):
        return "\n".join(value)
    return value


def _rows(row: Row) -> Iterable[Row]:
    """One row per summary, as in the paper. A book without summaries stays one row, for the row checks to report."""
    summaries = row.get("summary")
    if not isinstance(summaries, list) or not summaries:
        yield {"id": row.get("bid"), "document": row.get("text"), "summary": summaries or None}
        return
    for number, summary in enumerate(summaries, 1):
        fields = summary if isinstance(summary, dict) else {"text": summary}
        yield {
            "id": f"{row.get('bid')}/{fields.get('source') or number}",
            "document": row.get("text"),
            "summary": _text(fields.get("text")),
        }


DATASET = Dataset(
    name="booksum",
    repository="ubaada/booksum-complete-cleaned",
    configuration="books",
    paper=Figures(train=314, validation=45, test=46, document_words=143_301, summary_words=1_294),
    note="for research only; the summaries belong to their publishers; an example is a summary, so a novel appears "
    "once for each of its summaries",
    rows=_rows,
)
