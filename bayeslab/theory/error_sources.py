r"""Where the error of a learner comes from: noise, what its space lacks, too few examples, and its search.

With squared loss the expected error on new rows is a sum of four parts [1]_, [2]_:

noise
    the variance of the outcome given the inputs, which no function can predict;
approximation
    how far the best function of the learner's space is from the truth: unrealizability;
estimation
    what it costs to choose by a sample and not by the truth; mostly the variance of the choice from sample to sample,
    which falls with their size;
search
    what it costs not to find the function that fits the sample best.

They are told apart by simulation, where the truth is known.

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
        Of the choice from sample to sample, a part of ``estimation``.
    """

    noise: float
    approximation: float
    estimation: float
    search: float
    variance: float

    @property
    def total(self) -> float:
        """The expected error."""
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
    """Parts of the error of a regression learner.

    Parameters
    ----------
    learner
        A scikit-learn regressor.
    draw
        Inputs, shape (rows, columns), from a random generator and their number.
    truth
        What is to be learned, by inputs.
    noise
        Standard deviation of outcomes around it.
    n_examples
        Examples of a sample.
    exact
        A regressor that finds the function of the learner's space with the least squared error; left out: the learner
        does, and its search costs nothing.
    n_samples
        Samples that are learned from.
    n_new
        Rows on which errors are measured.
    n_many
        Rows without noise that stand for the truth, from which ``exact`` learns the best function of its space.
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
