"""Scores of several numbers of components or states, and the numbers that they favour.

References
----------
.. [1] Breiman, Friedman, Olshen, Stone (1984). Classification and Regression Trees, section 3.4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["NumberChoice"]


@dataclass(frozen=True, eq=False)
class NumberChoice:
    """Scores of numbers of components or states.

    Attributes
    ----------
    criterion : str
    numbers : tuple of int
        The numbers that were tried.
    scores : ndarray
        The score of each number, on the scale of a log likelihood; higher is better. -inf: no fit succeeded.
    standard_errors : ndarray
        Standard error of each score's difference from the best; zero for criteria without held-out data.
    how : str
        A description of the held-out data.
    """

    criterion: str
    numbers: tuple[int, ...]
    scores: np.ndarray
    standard_errors: np.ndarray
    how: str = ""

    @classmethod
    def penalised(cls, criterion: str, numbers: Sequence[int], scores: Sequence[float]) -> NumberChoice:
        """A choice by scores without sampling error, such as BIC."""
        return cls(criterion, tuple(numbers), np.array(scores), np.zeros(len(scores)))

    @classmethod
    def held_out(cls, criterion: str, numbers: Sequence[int], points: np.ndarray, how: str = "") -> NumberChoice:
        """A choice by held-out log likelihoods.

        Parameters
        ----------
        points : ndarray
            Log likelihoods of the held-out parts, shape (numbers, parts); -inf where no fit succeeded.
        """
        scores = points.sum(axis=1)
        differences = np.zeros(points.shape)
        np.subtract(points, points[int(np.argmax(scores))], out=differences, where=np.isfinite(points))
        parts = points.shape[1]
        errors = np.sqrt(parts) * differences.std(axis=1, ddof=1) if parts > 1 else np.zeros(len(scores))
        return cls(criterion, tuple(numbers), scores, errors, how)

    @property
    def best(self) -> int:
        """The number with the highest score."""
        return self.numbers[int(np.argmax(self.scores))]

    @property
    def simplest(self) -> int:
        """The smallest number whose score is within one standard error of the best [1]_."""
        near = self.scores >= self.scores.max() - self.standard_errors
        return min(number for number, good in zip(self.numbers, near, strict=True) if good)

    def described(self, noun: str) -> str:
        """The choice in one line; ``noun`` is the singular of what is counted."""
        scores = ", ".join(f"{k}: {s:.1f}" for k, s in zip(self.numbers, self.scores, strict=True))
        how = f", {self.how}" if self.how else ""
        counted = noun if self.best == 1 else f"{noun}s"
        fewer = f"; {self.simplest} within one standard error of it" if self.simplest < self.best else ""
        return f"{self.best} {counted}, chosen by {self.criterion}{how} ({scores}; the highest is best{fewer})"
