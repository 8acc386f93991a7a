"""SummScreen, its TVMegaSite part: transcripts of television series, with recaps by their audience.

The repository's main branch needs a loading script; the hub's own Parquet conversion has the folder `tms`. According to
its public pages and to code that reads it (not verified by download), `Transcript` and `Recap` are lists of lines.
"""

from collections.abc import Iterable

from awesum.datasets.dataset import Dataset, Figures, Row


def _text(value: object) -> object:
    """Join lines into one text. Anything else is returned unchanged, for the row checks to report."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _rows(row: Row) -> Iterable[Row]:
    return ({"document": _text(row.get("Transcript")), "summary": _text(row.get("Recap"))},)


DATASET = Dataset(
    name="summscreen",
    repository="YuanPJ/summ_screen",
    folder="tms",
    revision="refs/convert/parquet",
    paper=Figures(train=18_915, validation=1_795, test=1_793, document_words=6_421, summary_words=381),
    note="no licence is stated, so for research only; whether the text is tokenized, as the paper's word counts may "
    "assume, is not known; episodes have no ids, so rows are identified by their number",
    rows=_rows,
)
