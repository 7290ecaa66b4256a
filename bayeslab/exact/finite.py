"""Bayes' theorem for a finite set of hypotheses.

The prior and the log likelihood of each observation under each hypothesis determine the posterior after every
observation, the most probable hypothesis (MAP), the best-fitting one (ML), and the predictions of each of them and of
their posterior-weighted average. Minus the base-2 logarithms of prior and likelihood are the code lengths, in bits, of
the hypothesis and of the data given it; the hypothesis with the shortest description is the MAP hypothesis.

References
----------
.. [1] Russell, Norvig (2003). Artificial Intelligence: A Modern Approach, 2nd ed., section 20.1.
.. [2] Mitchell (1997). Machine Learning, sections 6.2-6.7.
.. [3] Rissanen (1978). Modeling by shortest data description. Automatica 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, softmax

__all__ = ["Hypotheses"]


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypotheses with their prior and the observations' likelihoods.

    Attributes
    ----------
    prior : ndarray (H,)
        Prior probabilities, which sum to one.
    log_likelihood : ndarray (N, H)
        Log likelihood of each observation under each hypothesis, in order of observation.
    """

    prior: np.ndarray
    log_likelihood: np.ndarray

    @cached_property
    def log_likelihoods(self) -> np.ndarray:
        """Log likelihoods of the first n observations jointly, n = 0 … N: shape (N + 1, H)."""
        return np.concatenate([np.zeros((1, len(self.prior))), np.cumsum(self.log_likelihood, axis=0)])

    @cached_property
    def _log_joint(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.prior) + self.log_likelihoods

    @property
    def posterior(self) -> np.ndarray:
        """Posterior after each number of observations: shape (N + 1, H). NaN once every hypothesis is ruled out."""
        with np.errstate(invalid="ignore"):
            return np.asarray(softmax(self._log_joint, axis=1))

    @property
    def log_evidence(self) -> np.ndarray:
        """Log probability of the first n observations: shape (N + 1,)."""
        return np.asarray(logsumexp(self._log_joint, axis=1))

    @property
    def most_probable(self) -> np.ndarray:
        """Index of the MAP hypothesis after each number of observations; the first one of ties."""
        return self._log_joint.argmax(axis=1)

    @property
    def best_fitting(self) -> np.ndarray:
        """Index of the maximum-likelihood hypothesis after each number of observations; the first one of ties."""
        return self.log_likelihoods.argmax(axis=1)

    @property
    def bits(self) -> np.ndarray:
        """Description length of hypothesis and data in bits: shape (N + 1, H)."""
        return -self._log_joint / np.log(2)

    def predictive(self, probabilities: np.ndarray) -> np.ndarray:
        """Posterior-weighted probabilities of the next outcome, (N + 1, S), given those of each hypothesis (H, S)."""
        return self.posterior @ probabilities
