"""Printed outputs compared with those of a run: word for word, numbers up to Monte Carlo error and rounding."""

from __future__ import annotations

import re
from statistics import median

__all__ = ["LABEL", "missing", "same"]

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Which of many quantities is the worst, and how far an optimiser went and from which start, hang on the last digits. The
# largest of many Pareto k is the most variable of them: that it passes is compared.
CHANCE = re.compile(r"\((?:worst|least|gradient norm)[^)]*\)+|after [\d,]+ steps|Pareto k at most 0\.\d+")
# Numbers in what a quantity is called, as in ``theta[3]``, are letters.
LABEL = re.compile(r"\w\[[^\[\]]*\]")
LETTERS = str.maketrans("0123456789", "ⓞⓐⓑⓒⓓⓔⓕⓖⓗⓘ")
# A row with so many numbers is a row of statistics, whose whole numbers are rounded ones.
_TABLE = 6
# Words at the head of a table of statistics; a wide table goes on below, under further ones.
_STATISTICS = {"mean", "sd", "ess_bulk", "ess_tail", "r_hat", "mcse_mean", "mcse_sd"}
# Probabilities that an optimiser drives to zero end anywhere below.
_NOTHING = 1e-6


def same(shown: str, found: str, columns: list[str] | None = None) -> bool:
    """Whether a line that is shown is a line of the output; three points at its end stand for the rest.

    ``columns`` are the words at the head of a table of means and standard deviations, if it is a row of one.
    """
    if columns and len(shown.split()) > len(columns):
        return _same_row(shown, found, columns)
    shown, cut = (shown.rstrip()[:-3], True) if shown.rstrip().endswith("...") else (shown, False)
    words, others = (_words(line) for line in (shown, found))
    numbers, other_numbers = NUMBER.findall(words), NUMBER.findall(others)
    pieces, other_pieces = NUMBER.split(words), NUMBER.split(others)
    if cut:
        n = len(numbers)
        if len(other_numbers) < n:
            return False
        other_numbers = other_numbers[:n]
        other_pieces = [*other_pieces[:n], other_pieces[n][: len(pieces[n])]]
    if pieces != other_pieces or (numbers and not pieces[0] and numbers[0] != other_numbers[0]):
        return False  # a row's number is its name
    # Means near zero are compared on the scale of the numbers beside them, such as their standard deviations.
    scale = median(map(_value, numbers)) if numbers else 0.0
    table = len(numbers) >= _TABLE
    return all(_close(a, b, scale, table) for a, b in zip(numbers, other_numbers, strict=True))


def _same_row(shown: str, found: str, columns: list[str]) -> bool:
    """Rows of a table of a posterior: what Monte Carlo error does is counted in standard deviations."""
    cells, others = shown.split(), found.split()
    n = len(columns)
    if len(cells) != len(others) or cells[:-n] != others[:-n]:
        return False
    row, other = dict(zip(columns, cells[-n:], strict=True)), dict(zip(columns, others[-n:], strict=True))
    sd = _value(row["sd"]) if NUMBER.fullmatch(row.get("sd", "")) else 0.0
    for column, a in row.items():
        b = other[column]
        if not (NUMBER.fullmatch(a) and NUMBER.fullmatch(b)):
            if a != b:
                return False
            continue
        far, large = abs(_signed(a) - _signed(b)), max(_value(a), _value(b))
        allowed = {"sd": 0.15 * large, "r_hat": 0.01}.get(
            column, 0.5 * large if column[:3] in ("ess", "mcs") else 0.25 * sd
        )
        if far > allowed + 2 * _unit(a):
            return False
    return True


def _untimed(lines: list[str]) -> list[str]:
    """Lines of tables whose last column is ``seconds`` without that column."""
    kept, timed = [], False
    for line in lines:
        timed = line.endswith(" seconds") or (timed and bool(line.strip()))
        kept.append(line.rpartition(" ")[0].rstrip() if timed else line)
    return kept


def _words(line: str) -> str:
    """A line with single spaces, without what is left to chance."""
    line = LABEL.sub(lambda label: label[0].translate(LETTERS), CHANCE.sub("", line))
    return re.sub(r"\s+", " ", line).strip()


def _signed(word: str) -> float:
    return float(word.replace(",", ""))


def _value(word: str) -> float:
    return abs(_signed(word))


def _unit(word: str) -> float:
    """What one more in the last digit is."""
    mantissa, _, exponent = word.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _close(shown: str, found: str, scale: float, table: bool) -> bool:
    a, b = _signed(shown), _signed(found)
    large = max(abs(a), abs(b))
    if large < _NOTHING:
        return True
    if shown.lstrip("+-").replace(",", "").isdigit():
        small = 0.07 * scale if table else 0.0
        return abs(a - b) <= (0.3 * large if abs(a) >= 100 else small)
    # So many digits are printed of what is computed rather than drawn.
    digits = len(re.sub(r"\D", "", shown.partition("e")[0]).lstrip("0"))
    return abs(a - b) <= 2.0 * _unit(shown) + (1e-3 * large if digits > 5 else 0.07 * max(large, scale))


def missing(shown: list[str], *streams: list[str]) -> list[str]:
    """Lines that are shown and that no stream has, in its order; three points stand for lines left out."""
    shown, streams = _untimed(shown), tuple(map(_untimed, streams))
    lost, at, columns = [], [0] * len(streams), None
    for line in shown:
        words = line.rstrip().removesuffix("\\").split()
        head = len(set(words) & _STATISTICS) >= 2 and not any(map(NUMBER.fullmatch, words))
        if head:  # left of the first statistic are the names of the rows' labels
            columns = words[min(words.index(word) for word in _STATISTICS & set(words)) :]
        elif not words or words[0] in ("PASS", "WARN", "FAIL"):
            columns = None
        if line.strip() in ("", "...", "…"):
            continue
        for number, stream in enumerate(streams):
            place = next(
                (k for k in range(at[number], len(stream)) if same(line, stream[k], None if head else columns)),
                None,
            )
            if place is not None:
                at[number] = place + 1
                break
        else:
            lost.append(line)
    return lost
