"""What can go wrong, said in one line: where, what was given, what is allowed, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar, Self

__all__ = [
    "BayeslabError",
    "DataError",
    "EngineRefusal",
    "EvidenceError",
    "Flaw",
    "ModelError",
    "NothingToFit",
    "OptionError",
    "Reason",
    "RunError",
    "Stopped",
    "hint",
    "interrupted",
    "listed",
    "printable",
]

# What moves the cursor, colours, rings or turns the direction of writing: controls, separators of lines, marks of
# direction. A line's end is no part of a name either.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class BayeslabError(Exception):
    """Base of every error bayeslab raises on purpose.

    Parameters
    ----------
    message
        One line: what was given, what is allowed, what to do.
    where
        The place to look at, such as ``file:line:column``.
    path
        The path of the value in the model, such as ``("model", "nodes", "mu")``. It stands in for
        ``where`` until a file's place is known.
    offset
        Column inside the value, counted from zero.
    code
        The kind of mistake, one of :data:`bayeslab.error_codes.KINDS`. Of the code of another error, which this
        one passes on, the kind is kept.

    Attributes
    ----------
    code : str
        Area and kind, such as ``data.unknown-column``: what programs and tests tell errors apart by. Messages may
        be put better in any version; codes stay.
    """

    area: ClassVar[str] = "run"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        path: tuple[Any, ...] = (),
        offset: int = 0,
        code: str = "other",
    ) -> None:
        self.code = f"{self.area}.{code.rpartition('.')[2]}"
        self.message = _short(printable(" ".join(message.split())))
        self.where = printable(where or ".".join(str(part) for part in path if part != "[key]")) or None
        self.path, self.offset = path, offset
        super().__init__(f"{self.where}: {self.message}" if self.where else self.message)

    def located(self, where: str) -> Self:
        """The same error at a place in a file."""
        return type(self)(self.message, where=where, path=self.path, offset=self.offset, code=self.code)


class ModelError(BayeslabError):
    """The model file, or the model built in Python, is wrong."""

    area = "model"


class Flaw(ValueError):
    """A rule of a model's spec that what is written breaks; of it, a :class:`ModelError` is made.

    Parameters
    ----------
    message
        One line: what was given, what is allowed, what to do.
    *path
        Where it is, inside what is validated.
    code
        The kind of mistake, one of :data:`bayeslab.error_codes.KINDS`.
    """

    def __init__(self, message: str, *path: Any, code: str) -> None:
        super().__init__(message)
        self.path, self.code = path, code


class NothingToFit(ModelError):
    """The model is right, but there is nothing in it to fit: another command answers its question."""


class DataError(BayeslabError):
    """The data are wrong, or do not fit the model."""

    area = "data"


class EvidenceError(BayeslabError):
    """What is given cannot be: an unknown variable or state, or a combination of probability zero."""

    area = "evidence"


class OptionError(BayeslabError):
    """An option of an engine or of a call is unknown or out of range."""

    area = "option"


class EngineRefusal(BayeslabError):
    """An engine would give a wrong or meaningless answer and says why."""

    area = "engine.refused"


class RunError(BayeslabError):
    """A run folder is missing, damaged, or belongs to another model or other data."""


class Stopped(RunError):
    """A run was stopped before there was anything to report; it can be gone on with."""


def interrupted(error: BaseException) -> bool:
    """Whether an exception is Ctrl-C, also where it reached compiled code, which reports it as a ``SystemError``."""
    before: BaseException | None = error
    while isinstance(before, SystemError):
        before = before.__cause__ or before.__context__
    return isinstance(before, KeyboardInterrupt)


class Reason(str):
    """Why an engine does not apply to a model: a text with the kind of mistake.

    Parameters
    ----------
    text
        The reason, as the end of a sentence.
    code
        One of :data:`bayeslab.error_codes.KINDS`.
    """

    def __new__(cls, text: str, *, code: str) -> Self:
        out = super().__new__(cls, text)
        out.code = code
        return out

    code: str


def _short(message: str) -> str:
    """A message with what it repeats of a long value cut."""
    message = re.sub(r"\S{200,}", lambda word: f"{word[0][:80]}…{word[0][-1]}", message)
    return message if len(message) <= 1_500 else f"{message[:1_000]} … {message[-300:]}"


def printable(text: str, keep: str = "") -> str:
    """Text for a terminal or a picture: control characters, which names from files may have, written out as ``\\x1b``.

    Parameters
    ----------
    keep
        Characters left as they are, such as line ends.
    """
    return _CONTROLS.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), text)


def listed(names: Iterable[object], limit: int = 12) -> str:
    """Names for an error message: sorted, quoted, and cut when there are many."""
    words = sorted(str(name) for name in names)
    shown = ", ".join(f"'{word}'" for word in words[:limit])
    return shown + (f" and {len(words) - limit} more" if len(words) > limit else "") if words else "nothing"


def hint(given: object, allowed: Iterable[object]) -> str:
    """``; did you mean 'x'?`` when a known name is near, else the names there are."""
    words = [str(name) for name in allowed]
    near = get_close_matches(str(given), words, n=1, cutoff=0.6)
    if not near:
        folded = {word.lower(): word for word in words}
        near = [folded[str(given).lower()]] if str(given).lower() in folded else []
    return f"; did you mean '{near[0]}'?" if near else f"; known: {listed(words)}"
