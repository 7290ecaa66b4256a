"""What the mark `slow` says: why a test is slow, in one of the words of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

WORDS = "why is one of:"


def reasons(registered: Iterable[str]) -> list[str]:
    """The allowed words, in the order in which the mark is registered with them."""
    line = next(line for line in registered if line.startswith("slow("))
    return [word.strip() for word in line.partition(WORDS)[2].split(",")]


def complaint(mark: pytest.Mark, allowed: list[str]) -> str | None:
    """What is wrong with a mark `slow`, or None."""
    if mark.args or set(mark.kwargs) != {"why"} or mark.kwargs["why"] not in allowed:
        given = ", ".join([*map(repr, mark.args), *(f"{k}={v!r}" for k, v in mark.kwargs.items())])
        return f"slow({given}): write slow(why=...) with one of {', '.join(allowed)}"
    return None
