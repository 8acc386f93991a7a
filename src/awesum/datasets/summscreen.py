"""SummScreen, its TVMegaSite part: transcripts of television series and recaps by their audience.

The repository's main branch has a loading script; the hub's own conversion of it to Parquet has the folder `tms`.
Known from its public pages and from code that reads it, not fetched: `Transcript` and `Recap` are lists of lines.
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _text(value: object) -> object:
    """Lines as one text. What is not a list of lines is left as it is, for the checks to name."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _rows(row: Row) -> Iterable[Row]:
    return ({"document": _text(row.get("Transcript")), "summary": _text(row.get("Recap"))},)


SUMMSCREEN = Dataset(
    name="summscreen",
    repository="YuanPJ/summ_screen",
    folder="tms",
    revision="refs/convert/parquet",
    paper=Figures(train=18_915, validation=1_795, test=1_793, document_words=6_421, summary_words=381),
    note="no licence is stated, so for research; whether the text is tokenized, as the paper's count of words may be, "
    "is not known; an episode has no id of its own, so rows are known by their number",
    rows=_rows,
)
