"""Hypothesis spaces that can be written out: version spaces, the most probable hypothesis, approximate correctness.

With equally probable hypotheses and no noise the posterior of a hypothesis is one over the size of the version space if
it agrees with the data and zero if it does not, so that every consistent learner finds a most probable hypothesis.

References
----------
.. [1] Mitchell (1997). Machine Learning. McGraw-Hill, sections 2.5 and 6.3.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax, xlog1py, xlogy

from bayeslab.errors import DataError, OptionError

__all__ = ["HypothesisSpace", "boolean_inputs", "boolean_space"]

Array = NDArray[np.float64]


def boolean_inputs(n: int) -> np.ndarray:
    """All rows of a truth table, shape (2**n, n)."""
    return np.array(list(itertools.product([0, 1], repeat=n)), np.int8)


def boolean_space(n: int) -> HypothesisSpace:
    """All Boolean functions of n inputs, n ≤ 4, equally probable."""
    if not 1 <= n <= 4:
        raise OptionError(f"all functions are written out for 1 to 4 inputs, not {n!r}")
    rows = 2**n
    codes = np.arange(2**rows, dtype=np.uint32)
    tables = ((codes[:, None] >> np.arange(rows, dtype=np.uint32)) & 1).astype(np.int8)
    return HypothesisSpace(tables)


@dataclass(frozen=True, eq=False)
class HypothesisSpace:
    """Hypotheses by what each says of every input.

    Parameters
    ----------
    tables : ndarray, shape (hypotheses, inputs)
        The value of each hypothesis at each of the inputs there are.
    prior : ndarray or None
        Probabilities of the hypotheses; None: equal.
    """

    tables: np.ndarray
    prior: Array | None = None

    def __post_init__(self) -> None:
        if self.prior is not None and (
            np.shape(self.prior) != (len(self.tables),)
            or np.any(np.asarray(self.prior) < 0)
            or not np.isclose(np.sum(self.prior), 1)
        ):
            raise OptionError("the prior has one probability for each hypothesis, which add up to 1")

    @property
    def _prior(self) -> Array:
        return np.full(len(self.tables), 1 / len(self.tables)) if self.prior is None else np.asarray(self.prior, float)

    def consistent(self, inputs: Any, values: Any) -> NDArray[np.bool_]:
        """The version space: which hypotheses have these values at these inputs (by number)."""
        at, seen = np.asarray(inputs, int), np.asarray(values)
        return np.asarray((self.tables[:, at] == seen).all(axis=1))

    def realizes(self, truth: Any) -> bool:
        """Whether a hypothesis has the values of ``truth`` at all inputs: whether it can be learned without error."""
        return bool((self.tables == np.asarray(truth)).all(axis=1).any())

    def posterior(self, inputs: Any, values: Any, noise: float = 0.0) -> Array:
        """Probability of each hypothesis after noisy or noise-free values.

        Parameters
        ----------
        noise
            Probability that a value is reported wrong.

        Raises
        ------
        DataError
            No hypothesis is consistent.
        """
        if not 0 <= noise <= 1:
            raise OptionError(f"noise is a probability, not {noise!r}")
        at, seen = np.asarray(inputs, int), np.asarray(values)
        misses = (self.tables[:, at] != seen).sum(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(self._prior) + xlogy(misses, noise) + xlog1py(len(at) - misses, -noise)
        if np.isneginf(logs).all():
            raise DataError("no hypothesis of the space agrees with the data")
        return np.asarray(softmax(logs))

    def most_probable(self, inputs: Any, values: Any, noise: float = 0.0) -> int:
        """The number of a most probable hypothesis; of equals the first."""
        return int(self.posterior(inputs, values, noise).argmax())

    def probability(self, inputs: Any, values: Any) -> Array:
        """Posterior probability that the value is 1 at each input, averaged over the hypotheses."""
        return np.asarray(self.posterior(inputs, values) @ (self.tables == 1))

    def errors(self, truth: int, distribution: Array | None = None) -> Array:
        """The probability with which each hypothesis differs from hypothesis ``truth``."""
        weights = np.full(self.tables.shape[1], 1 / self.tables.shape[1]) if distribution is None else distribution
        return np.asarray((self.tables != self.tables[truth]) @ weights)

    def approximately_correct(self, truth: int, epsilon: float) -> int:
        """How many hypotheses differ from the truth with a probability of at most epsilon."""
        return int((self.errors(truth) <= epsilon + 1e-12).sum())
