"""Web pages: the main content without menus, advertisements and comments; failing that, all visible text.

Parses the given bytes and never fetches anything.
"""

from __future__ import annotations

import re
from typing import Any

from awesum.document import Block, Document, Kind
from awesum.errors import AwesumError
from awesum.reading.source import Source
from awesum.reading.text import decode

MAIN_CONTENT_LIMIT = 5_000_000
"""Characters. Finding the main content of a larger page takes minutes; such a page is a book, and is read whole."""

MOST_ATTRIBUTES = 1000
"""Of one tag. The parser compares each with all others, and real tags have a dozen."""

_LONG_TAG = re.compile(r"<[A-Za-z][^<>]{4000,}")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_PERMALINK = re.compile(
    r"<a\b[^<>]*\bclass\s*=\s*[\"'][^\"'<>]*\b(?:headerlink|header-anchor|anchorjs-link|permalink|heading-link)\b"
    r"[^<>]*>[^<]{0,3}</a>",
    re.I,
)
_PILCROW = re.compile(r"[^\S\n]*¶[^\S\n]*$", re.M)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^>]{0,200}encoding=["']([\w.:-]+)""", re.I
)
_XML_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")  # lxml refuses a str that declares an encoding
_STRUCTURE = re.compile(r"<(?!!|\?|/?(?:html|head|title|body|script|style|template|noscript|br)\b)/?[a-z][^<>]*>", re.I)
_PREFORMATTED = re.compile(r"(<(?:pre|textarea)\b.*?</(?:pre|textarea)\s*>)", re.I | re.S)
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r" *\n *(?:\n *)+")
_INVISIBLE = {
    "head",
    "script",
    "style",
    "template",
    "noscript",
    "iframe",
    "object",
    "svg",
    "select",
    "textarea",
    "rp",
    "rt",
}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none", re.I)
_INLINE = {
    "a",
    "abbr",
    "acronym",
    "b",
    "bdi",
    "bdo",
    "big",
    "button",
    "cite",
    "code",
    "data",
    "dfn",
    "em",
    "font",
    "i",
    "img",
    "input",
    "ins",
    "kbd",
    "label",
    "mark",
    "meter",
    "nobr",
    "output",
    "progress",
    "q",
    "ruby",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "time",
    "tt",
    "u",
    "var",
    "wbr",
}


def read(source: Source) -> Document:
    """Read the main content of a page."""
    page, notes = decode_page(source.data, source.charset)
    refuse_attributes(source, page)
    page, marks = _PERMALINK.subn("", page)
    tree = parse(page)
    visible, more = _PILCROW.subn("", visible_text(tree))
    if marks or more:
        notes = (*notes, f"{marks + more:,} link marks (¶) were left out")
    levels = heading_levels(tree)
    if not visible:
        raise AwesumError(
            f"{source.path} is a web page without text: if a script builds it, save it from a browser as text or PDF."
        )
    main = _main_content(page)
    if not main:
        notes = (*notes, "no main content was found in the page: all of its visible text was read, menus included")
        return Document(visible, path=source.path, notes=notes, blocks=tuple(find_blocks(visible, levels)))
    kept = min(1.0, _letters(main) / max(1, _letters(visible)))
    if kept < 0.99:
        notes = (*notes, f"only the main content of the page was read, {kept:.0%} of its visible text")
    return Document(main, path=source.path, notes=notes, blocks=tuple(find_blocks(main, levels)))


def refuse_attributes(source: Source, page: str) -> None:
    """Refuse a page with a tag of thousands of attributes, which takes the parser minutes."""
    for tag in _LONG_TAG.finditer(page):
        if (number := len(_QUOTED.sub("", tag[0]).split()) - 1) > MOST_ATTRIBUTES:
            raise AwesumError(
                f"{source.path} has a tag with {number:,} attributes, made to exhaust whoever reads it: "
                "save the page from a browser as text or PDF."
            )


def heading_levels(tree: Any) -> dict[str, int]:
    """The headings of a parsed page, each as one line, with their levels."""
    if tree is None:
        return {}
    found: dict[str, int] = {}
    for node in tree.iter():
        tag = _tag(node)
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            found.setdefault(" ".join("".join(node.itertext()).replace("¶", " ").split()), int(tag[1]))
    return found


def find_blocks(text: str, levels: dict[str, int], offset: int = 0) -> list[Block]:
    """The headings, list items and table rows among the lines of a page's text."""
    found: list[Block] = []
    for match in re.finditer(r"\S[^\n]*", text):
        line = match[0].rstrip()
        kind: Kind | None = None
        level = levels.get(" ".join(line.split()), 0)
        if level:
            kind = "heading"
        elif line.startswith("- "):
            kind, level = "list", 1
        elif " | " in line:
            kind = "table"
        if kind:
            found.append(Block(offset + match.start(), offset + match.start() + len(line), kind, level))
    return found


def decode_page(data: bytes, charset: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Decode a page by its byte order mark, else the server's charset, else the one the page declares."""
    declared = _DECLARED.search(data, 0, 4096)
    if charset is None and declared:
        charset = (declared[1] or declared[2]).decode()
    page, notes = decode(data, charset)
    return _XML_DECLARATION.sub("", page, count=1), notes


def parse(page: str) -> Any:
    """Parse a page; None if it is empty."""
    from lxml import etree

    # huge_tree: a book on one page is deeper and longer than lxml allows by default.
    parser = etree.HTMLParser(no_network=True, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        tree = etree.fromstring(page.replace("\0", ""), parser)
    except etree.XMLSyntaxError:
        tree = None
    if any(error.type_name == "ERR_NO_MEMORY" for error in parser.error_log):
        raise MemoryError  # what was parsed until then must not pass for the page
    if tree is None:
        return None
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        # Unclosed elements nest until lxml gives up and drops the rest. Flatten the page instead.
        flat = _STRUCTURE.sub("<br>", page)
        return parse(flat) if flat != page else tree
    return tree


def visible_text(tree: Any) -> str:
    """All visible text of a parsed page, in order: blocks separated by a blank line, table cells by a bar."""
    from lxml import etree

    if tree is None:
        return ""
    parts: list[str] = []
    walk = etree.iterwalk(tree, events=("start", "end"))
    preformatted = 0
    for event, node in walk:
        tag = _tag(node)
        if event == "start":
            if _is_invisible(node, tag):
                walk.skip_subtree()
                continue
            preformatted += tag == "pre"
            parts.append(_boundary(node, tag) + _flow(node.text, preformatted))
        else:
            if not _is_invisible(node, tag):
                preformatted -= tag == "pre"
                parts.append("" if tag in ("br", "td", "th") else _boundary(node, tag))
            if node is not tree:
                parts.append(_flow(node.tail, preformatted))
    return _BLANK_LINES.sub("\n\n", _SPACES.sub(" ", "".join(parts))).strip()


def _main_content(page: str) -> str:
    import logging

    import trafilatura

    if len(page) > MAIN_CONTENT_LIMIT:
        return ""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # we report problems ourselves
    try:
        found = (
            trafilatura.extract(_on_one_line(page), include_comments=False, include_tables=True, include_links=False)
            or ""
        )
        # A blank line between blocks: a heading must not run into the sentence after it.
        lines = (line.rstrip() for line in _PILCROW.sub("", found).splitlines())
        return "\n\n".join(line for line in lines if line.strip()).strip()
    except MemoryError:
        raise
    except Exception:  # a page that breaks the heuristics still has visible text
        return ""


def _on_one_line(page: str) -> str:
    """A page without the line breaks that a browser shows as spaces; trafilatura would keep them."""
    last = max(page.lower().rfind(end) for end in ("</pre", "</textarea"))  # after it, the search would be in vain
    rest = page.find(">", last) + 1 if last >= 0 else 0
    parts = [*_PREFORMATTED.split(page[:rest]), "", page[rest:]] if rest else [page]
    return "".join(part if number % 2 else part.replace("\n", " ") for number, part in enumerate(parts))


def _tag(node: Any) -> str:
    return node.tag.rpartition("}")[2].lower() if isinstance(node.tag, str) else ""


def _is_invisible(node: Any, tag: str) -> bool:
    if not tag or tag in _INVISIBLE or node.get("hidden") is not None:
        return True
    return bool(_HIDDEN_STYLE.search(node.get("style") or ""))


def _boundary(node: Any, tag: str) -> str:
    if tag in ("td", "th"):
        return " " if node.getprevious() is None else " | "
    if tag == "br":
        return "\n"
    return "" if tag in _INLINE else "\n\n"


def _flow(text: str | None, preformatted: int) -> str:
    """Text as a browser shows it: outside `<pre>`, a line break is a space."""
    if not text:
        return ""
    return text if preformatted else text.replace("\n", " ")


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))
