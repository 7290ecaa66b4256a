"""Arguments of network queries: the target variables and the evidence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from bayeslab.errors import EvidenceError

__all__ = ["check_evidence", "names_of"]


def names_of(given: Any, name: str = "targets") -> list[str]:
    """One name or several names as a list.

    Raises
    ------
    EvidenceError
        The argument is neither a name nor a collection of names.
    """
    if isinstance(given, str):
        return [given]
    names = list(given) if isinstance(given, Iterable) else None
    if names is None or not all(isinstance(one, Hashable) for one in names):
        raise EvidenceError(f"{name} is a variable or a list of them; given: {given!r:.60}", code="wrong-type")
    return names


def check_evidence(given: Any, name: str = "given", values: str = "states") -> None:
    """Refuse evidence that is not a mapping of variables; None is no evidence.

    Raises
    ------
    EvidenceError
    """
    if given is not None and not isinstance(given, Mapping):
        raise EvidenceError(f"{name} is a mapping of variables to {values}; given: {given!r:.60}", code="wrong-type")
