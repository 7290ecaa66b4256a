"""XML as a tree of elements with line numbers.

The module uses expat directly, because :mod:`xml.etree` does not keep line numbers. Entity declarations
are refused, so that entities cannot expand; nothing outside the file is ever fetched.
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
        """The text, stripped of surrounding white space unless ``xml:space`` preserves it."""
        return self.raw if self.attributes.get("xml:space") == "preserve" else self.raw.strip()

    def all(self, *tags: str) -> list[Element]:
        return [child for child in self.children if child.tag in tags]

    def first(self, *tags: str) -> Element | None:
        return next((child for child in self.children if child.tag in tags), None)

    def only(self, file: File, tag: str) -> Element | None:
        """Return the child with this tag, if there is one; an error if there are several."""
        children = self.all(tag)
        if len(children) > 1:
            raise file.error(f"a <{self.tag}> has <{tag}> {len(children)} times", children[1].line, code="duplicate")
        return children[0] if children else None

    def words(self, file: File, tag: str) -> list[str]:
        """Return the words in the child with this tag."""
        child = self.only(file, tag)
        return child.raw.split() if child else []

    def walk(self) -> Iterator[Element]:
        """Yield this element and its descendants, in the order of the file."""
        todo = [self]
        while todo:
            element = todo.pop()
            yield element
            todo += reversed(element.children)


def parse(file: File) -> Element:
    """Return the root element of an XML file."""
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
    """Replace characters that XML 1.0 forbids (most control characters, lone surrogates) by U+FFFD."""
    text = storable(text)
    return "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)


def content(tag: str, text: str) -> str:
    """Return an element with a text, preserving outer white space."""
    kept = ' xml:space="preserve"' if text != text.strip() else ""
    return f"<{tag}{kept}>{''.join(_TEXT.get(c, c) for c in holdable(text))}</{tag}>"


def attribute(text: str) -> str:
    """Return a quoted attribute value."""
    return '"' + "".join(_ATTRIBUTE.get(c, c) for c in holdable(text)) + '"'
