"""Errors: each is one line with the place, what was given, what is allowed, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar, Self
from unicodedata import name as letter_name
from unicodedata import normalize

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
    "errors_at",
    "hint",
    "interrupted",
    "listed",
    "printable",
    "unknown_column",
    "unknown_parameter",
]

# Control characters, line separators and direction marks, which move the cursor, change colours, ring the bell or
# reverse the text. A name cannot contain line ends either.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


# Longer than names of files may be.
_LONG_NAME = re.compile(r"[^\s./:\\]{256,}")


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
        The kind of mistake, one of :data:`bayeslab.error_codes.KINDS`, or the full code of another error, of which
        the kind is kept.

    Attributes
    ----------
    code : str
        Area and kind, such as ``data.unknown-column``. Programs and tests tell errors apart by it: messages may
        change in any version, codes do not.
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
        place = where or ".".join(str(part) for part in path if part != "[key]")
        self.where = printable(_LONG_NAME.sub(lambda name: f"{name[0][:80]}…", place)) or None
        self.path, self.offset = path, offset
        super().__init__(f"{self.where}: {self.message}" if self.where else self.message)

    def located(self, where: str) -> Self:
        """The same error at a place in a file."""
        return type(self)(self.message, where=where, path=self.path, offset=self.offset, code=self.code)


class ModelError(BayeslabError):
    """The model file, or the model built in Python, is wrong."""

    area = "model"


class Flaw(ValueError):
    """A violated rule of a model's spec, raised during validation and turned into a :class:`ModelError`.

    Parameters
    ----------
    message
        One line: what was given, what is allowed, what to do.
    *path
        Path of the value inside the validated spec.
    code
        The kind of mistake, one of :data:`bayeslab.error_codes.KINDS`.
    """

    def __init__(self, message: str, *path: Any, code: str) -> None:
        super().__init__(message)
        self.path, self.code = path, code


class NothingToFit(ModelError):
    """The model is valid but has nothing to fit; another command answers its question."""


class DataError(BayeslabError):
    """The data are wrong, or do not fit the model."""

    area = "data"


class EvidenceError(BayeslabError):
    """The evidence is impossible: an unknown variable or state, or a combination of probability zero."""

    area = "evidence"


class OptionError(BayeslabError):
    """An option of an engine or of a call is unknown or out of range."""

    area = "option"


class EngineRefusal(BayeslabError):
    """An engine refuses a model for which its answer would be wrong or meaningless; the message says why."""

    area = "engine.refused"


class RunError(BayeslabError):
    """A run folder is missing, damaged, or belongs to another model or other data."""


class Stopped(RunError):
    """A run was stopped before there was a result; it can be resumed."""


@contextmanager
def errors_at(path: tuple[Any, ...]) -> Iterator[None]:
    """Errors of a model or of options, as errors of the model at this path."""
    try:
        yield
    except (ModelError, OptionError) as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None


def interrupted(error: BaseException) -> bool:
    """Whether an exception is Ctrl-C. Compiled code that is interrupted reports it as a ``SystemError``."""
    before: BaseException | None = error
    while isinstance(before, SystemError):
        before = before.__cause__ or before.__context__
    return isinstance(before, KeyboardInterrupt)


class Reason(str):
    """Why an engine does not apply to a model: a string with an error code.

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
    """A message with long words shortened and, if it is very long, its middle cut."""
    message = re.sub(r"\S{200,}", lambda word: f"{word[0][:80]}…{word[0][-1]}", message)
    return message if len(message) <= 1_500 else f"{message[:1_000]} … {message[-300:]}"


def printable(text: str, keep: str = "") -> str:
    """Text for a terminal or a picture, with control characters escaped, such as ``\\x1b``.

    Parameters
    ----------
    keep
        Characters that are not escaped, such as line ends.
    """
    return _CONTROLS.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), text)


def listed(names: Iterable[object], limit: int = 12) -> str:
    """Names for an error message: sorted, quoted, and cut when there are many."""
    words = sorted(str(name) for name in names)
    shown = ", ".join(f"'{word}'" for word in words[:limit])
    return shown + (f" and {len(words) - limit} more" if len(words) > limit else "") if words else "nothing"


def _latin(text: str) -> str:
    """Greek letters by their names, as most parameters are called: ``sigma`` for the letter."""
    letters = normalize("NFKC", text)
    return "".join(
        letter_name(c, c).split()[-1].lower() if letter_name(c, "").startswith("GREEK") else c for c in letters
    )


def hint(given: object, allowed: Iterable[object]) -> str:
    """``; did you mean 'x'?`` when an allowed name is similar, else the allowed names."""
    words = [str(name) for name in allowed]
    near = get_close_matches(str(given), words, n=1, cutoff=0.6)
    if not near:
        folded = {word.lower(): word for word in words}
        near = [folded[latin] for latin in (str(given).lower(), _latin(str(given))) if latin in folded][:1]
    return f"; did you mean '{near[0]}'?" if near else f"; known: {listed(words)}"


def unknown_column(name: str, columns: Iterable[object], path: tuple[Any, ...], advice: str = "") -> ModelError:
    """The error of a model that names a column which the data lack."""
    text = f"the data have no column '{name}'{hint(name, columns)}{advice}"
    return ModelError(text, path=path, code="unknown-column")


def unknown_parameter(name: str, allowed: Iterable[object]) -> ModelError:
    """The error of a model that gives a parameter which it does not have."""
    text = f"no parameter is called '{name}'{hint(name, allowed)}"
    return ModelError(text, path=("model", "parameters", name), code="unknown-parameter")
