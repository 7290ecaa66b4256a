"""Printed outputs compared with those of a run: word for word, numbers up to Monte Carlo error and rounding."""

from __future__ import annotations

import re
from statistics import median

__all__ = ["missing", "same"]

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Which of many quantities is the worst, and how far an optimiser went, hang on the last digits.
CHANCE = re.compile(r"\((?:worst|least|gradient norm)[^)]*\)+")


def same(shown: str, found: str) -> bool:
    """Whether a line that is shown is a line of the output; three points at its end stand for the rest."""
    shown, cut = (shown.rstrip()[:-3], True) if shown.rstrip().endswith("...") else (shown, False)
    words, others = (re.sub(r"\s+", " ", CHANCE.sub("", line)).strip() for line in (shown, found))
    numbers, other_numbers = NUMBER.findall(words), NUMBER.findall(others)
    pieces, other_pieces = NUMBER.split(words), NUMBER.split(others)
    if cut:
        n = len(numbers)
        if len(other_numbers) < n:
            return False
        other_numbers = other_numbers[:n]
        other_pieces = [*other_pieces[:n], other_pieces[n][: len(pieces[n])]]
    if pieces != other_pieces:
        return False
    # Means near zero are compared on the scale of the numbers beside them, such as their standard deviations.
    scale = median(map(_value, numbers)) if numbers else 0.0
    return all(_close(a, b, abs(scale)) for a, b in zip(numbers, other_numbers, strict=True))


def _value(word: str) -> float:
    return abs(float(word.replace(",", "")))


def _close(shown: str, found: str, scale: float) -> bool:
    a, b = (float(word.replace(",", "")) for word in (shown, found))
    if shown.lstrip("+-").replace(",", "").isdigit():
        return abs(a - b) <= (0.3 * max(abs(a), abs(b)) if abs(a) >= 100 else 0)
    mantissa, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(a - b) <= 2.0 * unit + 0.07 * max(abs(a), abs(b), scale)


def missing(shown: list[str], *streams: list[str]) -> list[str]:
    """Lines that are shown and that no stream has, in its order; three points stand for lines left out."""
    lost, at = [], [0] * len(streams)
    for line in shown:
        if line.strip() in ("", "...", "…"):
            continue
        for number, stream in enumerate(streams):
            place = next((k for k in range(at[number], len(stream)) if same(line, stream[k])), None)
            if place is not None:
                at[number] = place + 1
                break
        else:
            lost.append(line)
    return lost
