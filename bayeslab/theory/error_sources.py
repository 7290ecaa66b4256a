r"""Decomposition of a learner's error: noise, approximation, estimation and search.

With squared loss the expected error on new rows is a sum of four parts [1]_, [2]_:

noise
    the variance of the outcome given the inputs, which no function can predict;
approximation
    the distance of the best function in the learner's space from the truth (unrealizability);
estimation
    the cost of fitting to a sample instead of the truth; mostly the variance of the fit between samples, which
    decreases with the sample size;
search
    the cost of not finding the function that fits the sample best.

The parts are estimated by simulation with a known truth.

References
----------
.. [1] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., section 18.4.2.
.. [2] Bottou, Bousquet (2008). The tradeoffs of large scale learning. NIPS 20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import count, number
from bayeslab.errors import DataError

__all__ = ["ErrorSources", "error_sources"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorSources:
    """Parts of the expected squared error on new rows.

    Attributes
    ----------
    noise, approximation, estimation, search : float
    variance : float
        Variance of the fit between samples, a part of ``estimation``.
    """

    noise: float
    approximation: float
    estimation: float
    search: float
    variance: float

    @property
    def total(self) -> float:
        """Total expected error."""
        return self.noise + self.approximation + self.estimation + self.search


def error_sources(
    learner: Any,
    draw: Callable[[np.random.Generator, int], Array],
    truth: Callable[[Array], Array],
    noise: float,
    n_examples: int,
    rng: np.random.Generator,
    *,
    exact: Any = None,
    n_samples: int = 200,
    n_new: int = 2000,
    n_many: int = 20_000,
) -> ErrorSources:
    """Return the parts of the error of a regression learner, by simulation.

    Parameters
    ----------
    learner
        A scikit-learn regressor.
    draw
        Function that draws inputs of shape (rows, columns), given a random generator and the number of rows.
    truth
        The true function of the inputs.
    noise
        Standard deviation of the outcomes around the truth.
    n_examples
        Number of examples in a training sample.
    exact
        A regressor that finds the least squares function in the learner's space; default: the learner itself, so that
        the search error is zero.
    n_samples
        Number of training samples.
    n_new
        Number of rows on which errors are measured.
    n_many
        Number of noise-free rows from which ``exact`` learns the best function of its space.
    """
    from sklearn.base import clone

    number(noise, "noise", 0)
    for name, n in (("n_examples", n_examples), ("n_samples", n_samples), ("n_new", n_new), ("n_many", n_many)):
        count(n, name, 1)
    new = draw(rng, n_new)
    goal = np.asarray(truth(new))
    if goal.shape != (n_new,):
        raise DataError(f"truth has one value for each of {n_new} rows, not the shape {goal.shape}", code="wrong-shape")
    many = draw(rng, n_many)
    best = clone(learner if exact is None else exact).fit(many, truth(many)).predict(new)
    chosen, learned = np.empty((n_samples, n_new)), np.empty((n_samples, n_new))
    for s in range(n_samples):
        x = draw(rng, n_examples)
        y = truth(x) + noise * rng.normal(size=n_examples)
        learned[s] = clone(learner).fit(x, y).predict(new)
        chosen[s] = learned[s] if exact is None else clone(exact).fit(x, y).predict(new)
    approximation = float(np.mean((best - goal) ** 2))
    excess, total = float(np.mean((chosen - goal) ** 2)), float(np.mean((learned - goal) ** 2))
    return ErrorSources(
        noise=float(noise) ** 2,
        approximation=approximation,
        estimation=excess - approximation,
        search=total - excess,
        variance=float(chosen.var(axis=0).mean()),
    )
