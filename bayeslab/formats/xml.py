"""XML as a tree of elements that know their lines.

Expat directly: :mod:`xml.etree` forgets where an element stood. Entities are refused when they are
declared, so none can grow; nothing outside the file is ever fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from bayeslab.errors import ModelError
from bayeslab.formats.nodes import File, storable

__all__ = ["Element", "attribute", "content", "holdable", "parse"]


@dataclass
class Element:
    """One element: its tag in lower case, attributes, children, own text and line."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def raw(self) -> str:
        return "".join(self.pieces)

    @property
    def text(self) -> str:
        """The text without white space around it, unless ``xml:space`` keeps it."""
        return self.raw if self.attributes.get("xml:space") == "preserve" else self.raw.strip()

    def all(self, *tags: str) -> list[Element]:
        return [child for child in self.children if child.tag in tags]

    def first(self, *tags: str) -> Element | None:
        return next((child for child in self.children if child.tag in tags), None)

    def words(self, tag: str) -> list[str]:
        """The words in the first child with this tag."""
        child = self.first(tag)
        return child.raw.split() if child else []

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the file."""
        todo = [self]
        while todo:
            element = todo.pop()
            yield element
            todo += reversed(element.children)


def parse(file: File) -> Element:
    """The root of an XML file."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag.lower(), attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def text(words: str) -> None:
        if stack:
            stack[-1].pieces.append(words)

    def entity(*_: object) -> None:
        raise file.error("entities are not allowed in a network's file", parser.CurrentLineNumber, code="malformed")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = text, entity
    try:
        parser.Parse(file.raw, True)
    except expat.ExpatError as error:
        raise _explained(file, error) from None
    except (LookupError, ValueError) as error:
        raise file.error(f"not valid XML: {error}", parser.CurrentLineNumber, code="malformed") from None
    return roots[0]


def _explained(file: File, error: expat.ExpatError) -> ModelError:
    if not file.raw.strip():
        return file.error("the file is empty", code="malformed")
    reason = expat.errors.messages.get(error.code, "malformed")
    return file.error(f"not valid XML: {reason}", error.lineno, error.offset + 1, code="malformed")


_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE = _TEXT | {'"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


def holdable(text: str) -> str:
    """The text with U+FFFD for what XML 1.0 cannot hold: most control characters, lone surrogates."""
    text = storable(text)
    return "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)


def content(tag: str, text: str) -> str:
    """An element with a text, its outer white space kept."""
    kept = ' xml:space="preserve"' if text != text.strip() else ""
    return f"<{tag}{kept}>{''.join(_TEXT.get(c, c) for c in holdable(text))}</{tag}>"


def attribute(text: str) -> str:
    """A quoted attribute value."""
    return '"' + "".join(_ATTRIBUTE.get(c, c) for c in holdable(text)) + '"'
