"""Scanner for the words of BIF, NET, DSC, DSL and UAI files, with quoted strings and comments."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from bayeslab.errors import ModelError
from bayeslab.formats.nodes import File, as_numbers, is_number, storable

__all__ = ["C_COMMENTS", "HASH_COMMENTS", "NET_COMMENTS", "Scanner", "unquoted"]

# An unclosed comment extends to the end, where it is an error.
C_COMMENTS = r"//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)"
NET_COMMENTS = r"%[^\n]*+"
HASH_COMMENTS = r"\#[^\n]*+"

_STRING = r'"(?:[^"\\]|\\.)*+"'
# An unclosed quote is searched to the end of the text.
_MOST_OPEN = 100
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_MEANT = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def unquoted(word: str) -> str:
    """Return the name without quotes and escapes."""
    if len(word) < 2 or not word.startswith('"'):
        return word
    inner = word[1:-1]
    return storable(_ESCAPED.sub(_meant, inner)) if "\\" in inner else inner


def _meant(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _MEANT.get(code, match[0])


class Scanner:
    """A text as a sequence of words that are read one after the other.

    Parameters
    ----------
    file : File
    symbols : str
        Characters that are words by themselves.
    comments : str
        Pattern of the text to skip.
    """

    def __init__(self, file: File, symbols: str, comments: str) -> None:
        self.file, self._symbols = file, set(symbols)
        inside = rf'[^\s"{re.escape(symbols)}]'
        symbol = f"[{re.escape(symbols)}]|" if symbols else ""
        # Comments also begin inside a word, as in `0.1// first`; a single slash is part of it: `Asy/Patch`.
        words = rf"(?:(?!{comments}){inside})++"
        # Any other character, such as an unclosed quote, is a symbol.
        pattern = re.compile(rf"(?:\s++|{comments})*+(?:({_STRING}|{symbol}{words}|(?s:.))|\Z)")
        self._words: list[str] = []
        self._starts: list[int] = []
        self._at = n_open = 0
        for match in pattern.finditer(file.text):
            if match[1] is None:
                self._refuse_open_comment(match, comments)
                continue
            self._words.append(match[1])
            self._starts.append(match.start(1))
            n_open += match[1] == '"'
            if n_open > _MOST_OPEN:
                raise file.error(
                    "quotes are opened and never closed", *self._position(match.start(1)), code="malformed"
                )

    def _refuse_open_comment(self, end: re.Match[str], comments: str) -> None:
        """Raise an error if the text ends inside a comment."""
        for comment in re.finditer(comments, end[0]):
            text = comment[0]
            if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")):
                place = self._position(end.start() + comment.start())
                raise self.file.error("a comment is opened and never closed", *place, code="malformed")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(m.end() for m in re.finditer("\n", self.file.text))]

    @property
    def done(self) -> bool:
        return self._at >= len(self._words)

    @property
    def line(self) -> int:
        """The line of the last word read."""
        return self._place(max(self._at - 1, 0))[0]

    def _place(self, at: int) -> tuple[int, int]:
        return self._position(self._starts[at] if at < len(self._starts) else len(self.file.text))

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def error(self, message: str, back: int = 1, *, code: str) -> ModelError:
        """Return an error at the last word read (or ``back`` words ago; 0 is the next word)."""
        return self.file.error(message, *self._place(self._at - back), code=code)

    def peek(self) -> str:
        """Return the next word without consuming it; empty at the end."""
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, what: str = "more text") -> str:
        if self.done:
            raise self.error(f"the file ends where {what} should be", back=0, code="malformed")
        self._at += 1
        return self._words[self._at - 1]

    def accept(self, symbol: str) -> bool:
        """Consume the next word if it is this symbol."""
        if self.peek() != symbol:
            return False
        self._at += 1
        return True

    def expect(self, *symbols: str) -> str:
        shown = " or ".join(f"'{symbol}'" for symbol in symbols)
        word = self.take(shown)
        if word not in symbols:
            raise self.error(f"'{word[:40]}' stands where {shown} should be", code="malformed")
        return word

    def name(self, what: str) -> str:
        """Read a name, with or without quotes."""
        word = self.take(what)
        if word in self._symbols:
            raise self.error(f"'{word}' stands where {what} should be", code="malformed")
        if word == '"':
            raise self.error("a quote is opened and never closed", code="malformed")
        return unquoted(word)

    def until(self, symbol: str) -> list[str]:
        """Read the words up to this symbol, which is consumed."""
        try:
            end = self._words.index(symbol, self._at)
        except ValueError:
            raise self.error(f"the file ends before '{symbol}'", back=0, code="malformed") from None
        words = self._words[self._at : end]
        self._at = end + 1
        return words

    def raw_until(self, symbol: str) -> str:
        """Read the verbatim text up to this symbol, for content that is kept but not interpreted."""
        begun = self._at
        words = self.until(symbol)
        if len(words) < 2:
            return unquoted(words[0]) if words else ""
        return self.file.text[self._starts[begun] : self._starts[self._at - 1]].strip()

    def numbers(self, symbol: str, what: str) -> list[float]:
        """Read numbers up to this symbol, ignoring commas."""
        begun = self._at
        words = self.until(symbol)
        try:
            return as_numbers([word for word in words if word != ","])
        except ValueError:
            for i, word in enumerate(words):
                if word != "," and not is_number(word):
                    self._at = begun + i + 1
                    break
            raise self.error(
                f"'{self._words[self._at - 1][:40]}', in {what}, is not a number", code="not-a-number"
            ) from None

    def some_numbers(self, count: int, what: str) -> list[float]:
        """Read ``count`` numbers."""
        words = self._words[self._at : self._at + count]
        try:
            values = as_numbers(words)
        except ValueError:
            self._at += next(i for i, word in enumerate(words) if not is_number(word)) + 1
            raise self.error(
                f"'{self._words[self._at - 1][:40]}', in {what}, is not a number", code="not-a-number"
            ) from None
        self._at += len(values)
        if len(values) < count:
            raise self.error(
                f"the file ends after {len(values)} of {count} numbers of {what}", back=0, code="malformed"
            )
        return values

    def skip_block(self) -> None:
        """Skip a block in braces with any content."""
        self.expect("{")
        depth = 1
        while depth:
            word = self.take("'}'")
            depth += (word == "{") - (word == "}")
