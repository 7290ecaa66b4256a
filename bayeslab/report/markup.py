"""HTML and SVG elements. All text is escaped here, so that no name in a run can become markup.

There is no template engine: Jinja2 would be an extra dependency, and a page of a dozen sections is as short in Python.
The type :class:`Markup` distinguishes markup from text that must be escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bayeslab.errors import printable

__all__ = ["EMPTY", "Markup", "details", "element", "fits_page", "joined", "paragraph", "table", "text"]

type Attribute = str | float | bool | None


class Markup(str):
    """HTML or SVG, as opposed to text that must be escaped."""

    __slots__ = ()


EMPTY = Markup("")
# Maximum size of the large part of a page in bytes, so that the page stays below 3 MB.
_BYTES = 2_900_000
_VOID = frozenset({"br", "img", "input", "meta"})


def text(value: object) -> Markup:
    """A value as escaped text; control characters are shown as escapes, such as ``\\x1b``."""
    if isinstance(value, Markup):
        return value
    line = printable(str(value), keep="\n\t").encode("utf-8", "replace").decode()
    return Markup(escape(line))


def joined(parts: Iterable[object], by: str = "") -> Markup:
    """Concatenated parts; parts that are not markup are escaped."""
    return Markup(text(by).join(text(part) for part in parts))


def fits_page(content: Markup, share: float = 1.0) -> bool:
    """Whether content takes at most a share of the size of a page."""
    return len(content.encode()) <= share * _BYTES


def element(name: str, /, *inside: object, **attributes: Attribute) -> Markup:
    """An element of HTML or SVG.

    Parameters
    ----------
    name
        The name of the element.
    *inside
        Its content; parts that are not markup are escaped.
    **attributes
        Its attributes. Values are escaped, and numbers have at most two decimals. Underscores in names become hyphens;
        a trailing one is removed (``class_``). None and False omit the attribute, True writes it without a value.
    """
    listed = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{listed}>")
    return Markup(f"<{name}{listed}>{joined(inside)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = text(value) if isinstance(value, str) else f"{round(float(value), 2) + 0.0:.7g}"
    return f' {name}="{shown}"'


def paragraph(*inside: object, class_: str | None = None) -> Markup:
    return element("p", *inside, class_=class_)


def details(heading: object, *inside: object, open_: bool = False, class_: str | None = None) -> Markup:
    """Content that is folded under a heading; with the class ``long`` it stays so on paper."""
    return element("details", element("summary", heading), *inside, open=open_, class_=class_)


def table(
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: object = "",
    class_: str | None = None,
) -> Markup:
    """A table that scrolls horizontally; the first cell of each row is the row's heading.

    Parameters
    ----------
    headings, rows
        Texts or markup.
    caption
        The caption of the table.
    class_
        A class of the table: ``words`` for cells of text, which are left-aligned and wrapped, and on phones lie below
        one another, each beside its heading.
    """
    labels = [str(cell) if class_ == "words" and len(headings) > 2 else None for cell in headings[1:]]
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in headings)))
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell, data_label=label) for cell, label in zip(rest, labels, strict=True)),
        )
        for first, *rest in rows
    ]
    parts = [element("caption", caption)] if caption else []
    made = element("table", *parts, head, element("tbody", *body), class_=class_)
    return element("div", made, class_="scroll", tabindex=0, role="group", aria_label=str(caption) or "table")
