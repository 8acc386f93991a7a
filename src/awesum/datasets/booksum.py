"""BookSum: whole novels, each with summaries from several places.

The paper took a reproduction by the authors of Unlimiformer; this one is another, whose card counts the same 314, 45
and 46 summaries. Known from that card, not fetched: the configuration `books` has `bid`, `text`, and `summary`, a list
of `source` and `text`. `kmfoda/booksum`, the better known one, has chapters only.
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _text(value: object) -> object:
    """Paragraphs as one text. What is neither is left as it is, for the checks to name."""
    if isinstance(value, list) and all(isinstance(paragraph, str) for paragraph in value):
        return "\n".join(value)
    return value


def _rows(row: Row) -> Iterable[Row]:
    """A row for each summary, as the paper counts them. A book without any stays one row, for the checks to name."""
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


BOOKSUM = Dataset(
    name="booksum",
    repository="ubaada/booksum-complete-cleaned",
    configuration="books",
    paper=Figures(train=314, validation=45, test=46, document_words=143_301, summary_words=1_294),
    note="for research only; the summaries belong to those who published them; an example is a summary, so a novel "
    "comes as often as it has summaries",
    rows=_rows,
)
