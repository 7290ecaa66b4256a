"""Averages over a subset of the posterior draws: its size, and the text that describes it."""

from __future__ import annotations

__all__ = ["AVERAGED", "averaging"]

# Number of evenly spaced draws over which probabilities are averaged; the Monte Carlo error is 1/√200 of the spread.
AVERAGED = 200


def averaging(n: int, most: int = AVERAGED) -> str:
    """A text about the draws averaged over: ``most`` of ``n`` posterior draws, or all if there are no more."""
    some = f"{most:,} of {n:,}" if n > most else f"all {n:,}"
    return f"averaged over {some} posterior draws"
