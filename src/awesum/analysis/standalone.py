"""Whether a sentence can stand alone in a summary: without the sentence before it, and without a table beside it.

Judged by its words alone, in English. A sentence that continues the one before ("However, ...", "These grants ...")
needs it; one that points to a table, a figure or another page has lost what it points to.
"""

from __future__ import annotations

import re

_CONNECTIVE = re.compile(
    r"""(however|therefore|thus|hence|moreover|furthermore|in\ addition|additionally|also|similarly|likewise|conversely
    |in\ contrast|by\ contrast|on\ the\ other\ hand|nevertheless|nonetheless|consequently|as\ a\ result|accordingly
    |for\ (example|instance)|instead|otherwise|meanwhile|still|yet|but|and|or|nor|so|then|further|rather|indeed
    |in\ (fact|particular|turn|other\ words|that\ case|such\ cases|so\ doing|response)|specifically|that\ is|as\ such
    |to\ (this|that|these)\ ends?|at\ the\ same\ time|even\ so|regardless|subsequently|afterwards?|later
    |by\ doing\ so|doing\ so|if\ so|if\ not|again|second|third|fourth|fifth|finally|lastly|next|secondly|thirdly)\b
    (?!-|\ (of|as\ the|to\ the|half|quarter|year|largest))""",
    re.VERBOSE | re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"""(they|he|she|his|her|their|its|theirs|the\ (latter|former)|others|another|such
    |(some|most|many|all|each|both|several|none|one|two|three|few|either|neither|part)\ of\ (these|those|them|which)
    |(these|those)(?!\ (who|that|which|with|in|of)\b)
    |(this|that)(?!\ (report|testimony|statement|review|study|paper|article|document|book|guide|policy|agreement
       |contract|work|year|month|week|morning|century|decade|country|nation|is\ because)\b)
    |(?-i:[Ii]t)(?!\ (is|was|will\ be|would\ be|may\ be|remains|appears|seems)\ [^.]*\b(that|to|whether|if|how|when)\b)
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
_POINTING_BACK = re.compile(
    r"(\w+[,]? ){1,4}?(these|those|such|this)\b (?!report|testimony|statement|review|study|paper|article|document"
    r"|year|month|week|morning|century|decade|country|nation|time|point|a\b|an\b|as\b|the\b|are\b|is\b|was\b|were\b"
    r"|have\b|has\b|had\b|will\b|would\b|can\b|could\b|may\b|might\b|should\b|who\b|which\b|it\b|they\b|we\b|he\b|she\b"
    r"|there\b|in\b|of\b|for\b|to\b|with\b)",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"(?P<opening>(?:^|(?<=[\s(\[—–-]))[\"“”])|(?P<closing>(?<!\d)[\"”])")
_BEGINNING = 5
"""The first words, in which "in these cases" points to the sentence before. Later ones mostly point within."""
_ELSEWHERE = re.compile(
    r"""\b(tables?|figures?|figs?\.|appendix|appendices|exhibits?|box|annex|footnotes?|slides?|enclosures?)\ +
        ([\divx]+|(?-i:[A-Z]))\b
    |\b(in|to|see|per)\ schedule\ +([\divx]+|(?-i:[A-Z]))\b
    |\b(the|this|following|see)\ (following\ )?(table|figure|chart|graph|map|box|diagram|list|equation)\b
    |\b(table|figure|chart|graph|map|box|list|section|sections|discussion)\ (above|below)\b
    |\b(shown|discussed|noted|described|mentioned|stated|listed|explained|outlined|seen|presented|summarized|defined)\ 
        (in\ (more|further|greater)\ detail\ )?(above|below|earlier|later|previously|elsewhere|here)\b
    |\bas\ follows\b|\bthe\ following\ (sections?|pages?|chapters?|subsections?)\b|\(see\b|^\W*see\b""",
    re.VERBOSE | re.IGNORECASE,
)


def needs_previous(text: str) -> bool:
    """Whether a sentence continues the one before it, or ends a quotation that began there."""
    quote = _QUOTE.search(text)
    if quote and quote["closing"]:
        return True
    start = text.lstrip("\"'“‘(*•-– \n\t")
    if _CONNECTIVE.match(start) or _PRONOUN.match(start):
        return True
    return _POINTING_BACK.match(" ".join(start.split()[: _BEGINNING + 1])) is not None


def points_elsewhere(text: str) -> bool:
    """Whether a sentence points to a table, a figure or another place of the document."""
    return _ELSEWHERE.search(" ".join(text.split())) is not None
