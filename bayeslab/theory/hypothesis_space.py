"""Enumerable hypothesis spaces: version spaces, most probable hypotheses, approximate correctness.

With a uniform prior and no noise, the posterior probability of a hypothesis is one over the size of the version space
if it is consistent with the data and zero otherwise, so that every consistent learner finds a most probable hypothesis.

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

from bayeslab.arrays import comparable, count, distributions, number, positions
from bayeslab.errors import DataError, OptionError

__all__ = ["HypothesisSpace", "boolean_inputs", "boolean_space"]

# Largest number of inputs whose truth table is listed.
_ROWS = 20

Array = NDArray[np.float64]


def boolean_inputs(n: int) -> np.ndarray:
    """Return all rows of a truth table, shape (2**n, n)."""
    return np.array(list(itertools.product([0, 1], repeat=count(n, "n, the number of inputs,", 1, _ROWS))), np.int8)


def boolean_space(n: int) -> HypothesisSpace:
    """Return the space of all Boolean functions of n ≤ 4 inputs, with a uniform prior."""
    rows = 2 ** count(n, "n, the number of inputs whose functions are written out,", 1, 4)
    codes = np.arange(2**rows, dtype=np.uint32)
    tables = ((codes[:, None] >> np.arange(rows, dtype=np.uint32)) & 1).astype(np.int8)
    return HypothesisSpace(tables)


@dataclass(frozen=True, eq=False)
class HypothesisSpace:
    """A hypothesis space given by the value of each hypothesis at every input.

    Parameters
    ----------
    tables : ndarray, shape (hypotheses, inputs)
        The value of each hypothesis at each input.
    prior : ndarray or None
        Prior probabilities of the hypotheses; None: uniform.
    """

    tables: np.ndarray
    prior: Array | None = None

    def __post_init__(self) -> None:
        tables = np.asarray(self.tables)
        if tables.ndim != 2 or not tables.size or (tables.dtype.kind == "f" and np.isnan(tables).any()):
            raise OptionError(
                f"tables have the shape (hypotheses, inputs), without missing cells; given {tables.shape}",
                code="wrong-shape",
            )
        object.__setattr__(self, "tables", tables)
        if self.prior is not None:
            prior = distributions(self.prior, "the prior", ndim=1)
            if len(prior) != len(tables):
                raise OptionError(
                    f"the prior has one probability for each of {len(tables)} hypotheses, not {len(prior)}",
                    code="wrong-length",
                )
            object.__setattr__(self, "prior", prior)

    @property
    def _prior(self) -> Array:
        return np.full(len(self.tables), 1 / len(self.tables)) if self.prior is None else np.asarray(self.prior, float)

    def consistent(self, inputs: Any, values: Any) -> NDArray[np.bool_]:
        """Return the version space: which hypotheses have these values at these inputs (given by number)."""
        at, given = self._examples(inputs, values)
        return np.asarray((self.tables[:, at] == given).all(axis=1))

    def _examples(self, inputs: Any, values: Any) -> tuple[NDArray[np.int64], np.ndarray]:
        """Return the input numbers and their values, checked."""
        at, given = (
            positions(inputs, "inputs", self.tables.shape[1]),
            comparable(values, self.tables, ("values", "tables"))[0],
        )
        if at.ndim != 1 or given.shape not in (at.shape, ()):
            raise OptionError(
                f"inputs are numbers of inputs, with one value each; given {at.shape} and {given.shape}",
                code="wrong-shape",
            )
        return at, given

    def realizes(self, truth: Any) -> bool:
        """Return whether some hypothesis has the values of ``truth`` at all inputs (realizability)."""
        given, _ = comparable(truth, self.tables, ("the values of truth", "tables"))
        if given.shape != self.tables.shape[1:]:
            raise OptionError(
                f"truth has one value for each of {self.tables.shape[1]} inputs, not the shape {given.shape}",
                code="wrong-shape",
            )
        return bool((self.tables == given).all(axis=1).any())

    def posterior(self, inputs: Any, values: Any, noise: float = 0.0) -> Array:
        """Return the posterior probability of each hypothesis, given noisy or noise-free values.

        Parameters
        ----------
        noise
            Probability that an observed value is wrong.

        Raises
        ------
        DataError
            No hypothesis is consistent.
        """
        number(noise, "noise", 0, 1)
        at, given = self._examples(inputs, values)
        misses = (self.tables[:, at] != given).sum(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(self._prior) + xlogy(misses, noise) + xlog1py(len(at) - misses, -noise)
        if np.isneginf(logs).all():
            raise DataError("no hypothesis of the space agrees with the data", code="probability-zero")
        return np.asarray(softmax(logs))

    def most_probable(self, inputs: Any, values: Any, noise: float = 0.0) -> int:
        """Return the number of a most probable hypothesis; the first on a tie."""
        return int(self.posterior(inputs, values, noise).argmax())

    def probability(self, inputs: Any, values: Any) -> Array:
        """Return the posterior probability of value 1 at each input, averaged over the hypotheses."""
        return np.asarray(self.posterior(inputs, values) @ (self.tables == 1))

    def errors(self, truth: int, distribution: Array | None = None) -> Array:
        """Return the error of each hypothesis: the probability that it differs from hypothesis ``truth``."""
        n_inputs = self.tables.shape[1]
        weights = np.full(n_inputs, 1 / n_inputs)
        if distribution is not None:
            weights = distributions(distribution, "distribution", ndim=1)
            if len(weights) != n_inputs:
                raise OptionError(
                    f"distribution has one probability for each of {n_inputs} inputs, not {len(weights)}",
                    code="wrong-length",
                )
        at = positions(truth, "truth", len(self.tables))
        return np.asarray((self.tables != self.tables[at]) @ weights)

    def approximately_correct(self, truth: int, epsilon: float) -> int:
        """Return the number of hypotheses with an error of at most epsilon."""
        number(epsilon, "epsilon", 0, 1)
        return int((self.errors(truth) <= epsilon + 1e-12).sum())
