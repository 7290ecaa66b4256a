"""HTML and SVG elements. Text is escaped here and nowhere else, so that no name in a run can become markup.

Jinja2 is not used: nothing that bayeslab requires brings it, and a page of a dozen sections is as short in Python. A
template would also have to mark by hand what is markup; here the type :class:`Markup` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bayeslab.errors import printable

__all__ = ["EMPTY", "Markup", "details", "element", "joined", "paragraph", "table", "text"]

type Attribute = str | float | bool | None


class Markup(str):
    """HTML or SVG, as opposed to text that is still to be escaped."""

    __slots__ = ()


EMPTY = Markup("")
_VOID = frozenset({"br", "img", "input", "meta"})


def text(value: object) -> Markup:
    """Any value as escaped text; control characters are written out, such as ``\\x1b``."""
    if isinstance(value, Markup):
        return value
    line = printable(str(value), keep="\n\t").encode("utf-8", "replace").decode()
    return Markup(escape(line))


def joined(parts: Iterable[object], by: str = "") -> Markup:
    """Parts in a row; those that are not markup are escaped."""
    return Markup(text(by).join(text(part) for part in parts))


def element(name: str, /, *inside: object, **attributes: Attribute) -> Markup:
    """An element of HTML or SVG.

    Parameters
    ----------
    name
        The name of the element.
    *inside
        Its content; what is not markup is escaped.
    **attributes
        Values are escaped, numbers have at most two decimals. Underscores in names become hyphens; one at the end is
        left out (``class_``). None and False leave the attribute out, True writes it without a value.
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


def details(heading: object, *inside: object, open_: bool = False) -> Markup:
    """Content that is folded away under a heading."""
    return element("details", element("summary", heading), *inside, open=open_)


def table(
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: object = "",
    class_: str | None = None,
) -> Markup:
    """A table in a box that scrolls sideways; the first cell of each row is the row's heading.

    Parameters
    ----------
    headings, rows
        Texts or markup.
    caption
        What the table shows.
    class_
        A class of the table: ``words`` for cells of text, which are left-aligned and wrapped.
    """
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in headings)))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    ]
    parts = [element("caption", caption)] if caption else []
    made = element("table", *parts, head, element("tbody", *body), class_=class_)
    return element("div", made, class_="scroll", tabindex=0, role="group", aria_label=str(caption) or "table")
