"""Averages over some of the posterior draws: how many are taken, and how that is worded."""

from __future__ import annotations

__all__ = ["AVERAGED", "averaging"]

# At so many draws, evenly spaced, probabilities are averaged: their Monte Carlo error is a fifteenth of the spread.
AVERAGED = 200


def averaging(n: int, most: int = AVERAGED) -> str:
    """What was averaged over: ``most`` of ``n`` posterior draws, or all of them where there are no more."""
    some = f"{most:,} of {n:,}" if n > most else f"all {n:,}"
    return f"averaged over {some} posterior draws"
