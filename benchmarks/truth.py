"""How many sentences of the written style are true: counts of labelled sentences, and support against truth.

    python -m benchmarks.truth [--labels docs/labels.jsonl] [--plot docs/support.svg]

Each line of the labels is a sentence that a version of the written style gave for a document: where in the document its
source is, whether it was copied, its support, and what a reader who did not know the version found: true, false or
unclear. A copied sentence is true by definition and was not read. `1.5B` and `writer` are two models on the same
documents, read with the version known; the lines of `1.5B drafts` are everything the larger one wrote in its own words,
and name the verifiers that keep the sentence: `shipped` as for a small writer, `large` as for a large one, or `exact`.
`held out` are other documents than those on which the threshold for large writers was fixed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import ROOT, report

BARS = {"false sentences against before": 0.2, "false sentences": 0.02, "written sentences": 0.5}
BINS = 5


def interval(count: int, total: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    spread = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(centre - spread, 0.0), min(centre + spread, 1.0)


def show(name: str, rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Print the counts of one version; the share that is false, and the share that is written."""
    assert rows, f"there are no labels of {name}"
    labels = Counter(row["label"] for row in rows)
    written = sum(not row["copied"] for row in rows)
    low, high = interval(labels["false"], len(rows))
    print(
        f"{name}: {len(rows)} sentences, {written} written; {labels['true']} true, {labels['false']} false, "
        f"{labels['unclear']} unclear; false {labels['false'] / len(rows):.1%} (95% interval {low:.1%} to {high:.1%})"
    )
    return labels["false"] / len(rows), written / len(rows)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the share of true sentences for sentences of similar support, with intervals."""
    rows = sorted(
        (row for row in rows if not row["copied"] and row["label"] != "unclear"), key=lambda row: row["support"]
    )
    size = max(1, -(-len(rows) // BINS))
    width, height, left, top = 420, 300, 60, 20
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 370" font-family="sans-serif" font-size="12">',
        '<rect width="520" height="370" fill="white"/>',
        f'<text x="{left}" y="14">share of written sentences that are true</text>',
        f'<text x="{left + width / 2}" y="360" text-anchor="middle">support</text>',
        f'<line x1="{left}" y1="{top + height}" x2="{left + width}" y2="{top}" stroke="#bbbbbb" stroke-dasharray="4"/>',
    ]
    for tick in range(6):
        x, y = left + width * tick / 5, top + height * (1 - tick / 5)
        lines += [
            f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#eeeeee"/>',
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{tick / 5:.1f}</text>',
            f'<text x="{x}" y="{top + height + 18}" text-anchor="middle">{tick / 5:.1f}</text>',
        ]
    for at in range(0, len(rows), size):
        here = rows[at : at + size]
        true = sum(row["label"] == "true" for row in here)
        x = left + width * sum(row["support"] for row in here) / len(here)
        low, high = (top + height * (1 - bound) for bound in interval(true, len(here)))
        y = top + height * (1 - true / len(here))
        lines += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="#0067a5"/>',
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#0067a5"/>',
            f'<text x="{x + 6:.1f}" y="{y - 6:.1f}" fill="#0067a5">{len(here)}</text>',
        ]
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")
    print(path)


def main() -> int:
    """Print the counts beside their bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, default=ROOT / "docs" / "labels.jsonl")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.labels.read_text(encoding="utf-8").splitlines()]
    versions = {row["version"]: [each for each in rows if each["version"] == row["version"]] for row in rows}
    shares = {version: show(version, of_version) for version, of_version in versions.items()}
    for version, drafts in versions.items():
        for verifier in sorted({name for draft in drafts for name in draft.get("kept", ())}):
            kept = [draft for draft in drafts if verifier in draft["kept"]]
            show(f"{version}, kept by the verifier `{verifier}`", kept)
    before, (false, written) = shares["before"][0], shares["now"]
    if options.plot:
        plot([*versions["before"], *versions["now"]], options.plot)
    report("false sentences against before", false / max(before, 1e-9), BARS["false sentences against before"])
    report("false sentences", false, BARS["false sentences"])
    report("written sentences", written, BARS["written sentences"], at_most=False)
    return 0  # the labels are what they are: a bar that is missed is reported, and no failure of the script


if __name__ == "__main__":
    sys.exit(main())
