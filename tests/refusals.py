"""Refusals in tests: an error by its code, the thing it names and the place it points to, not by its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bayeslab.errors import BayeslabError

__all__ = ["refused"]


@contextmanager
def refused(
    code: str, match: str = "", *, where: str | None = None, kind: type[BaseException] = BayeslabError
) -> Iterator[pytest.ExceptionInfo[BayeslabError]]:
    """What is done inside is refused with this code, in one line.

    Parameters
    ----------
    code
        The whole code, such as ``model.unknown-column``.
    match
        A pattern for the thing the message names, such as a column in quotes.
    where
        What the place begins with, such as ``model.nodes.mu`` or a file.
    kind
        The class of the error, where more than its area matters.
    """
    with pytest.raises(BayeslabError) as caught:
        yield caught
    error = caught.value
    assert isinstance(error, kind), f"{type(error).__name__}: {error}"
    assert "\n" not in str(error), f"not one line: {error}"
    assert error.code == code, f"{error.code}: {error}"
    assert re.search(match, str(error)), f"{match!r} is not in: {error}"
    assert where is None or (error.where or "").startswith(where), f"{error.where!r}: {error}"
