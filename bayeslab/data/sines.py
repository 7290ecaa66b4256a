"""Gaussian processes of one predictor in the sines of a Hilbert space.

On the interval [-L, L] about the middle of the predictor, a process with the squared exponential covariance
``sd^2 exp(-(x - x')^2 / (2 l^2))`` is nearly ``sum of u[m] sin(w[m] (x + L)) / sqrt(L)`` with ``w[m] = pi m / (2 L)``
and independent normal u of variance ``sd^2 sqrt(2 pi) l exp(-(l w[m])^2 / 2)``, the spectral density at w [1]_. The k
sines suffice for l from 1.75 L / k to L / 3.2 [2]_.

References
----------
.. [1] Solin, Särkkä (2020). Hilbert space methods for reduced-rank Gaussian process regression. Statistics and
   Computing 30.
.. [2] Riutort-Mayol, Bürkner, Andersen, Solin, Vehtari (2023). Practical Hilbert space approximate Bayesian Gaussian
   processes for probabilistic programming. Statistics and Computing 33.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeslab.errors import DataError

__all__ = ["DEFAULT_MARGIN", "DEFAULT_SINES", "Sines"]

#: Number of sines, and half width L of their domain in ranges of the predictor, which is that of brms.
DEFAULT_SINES, DEFAULT_MARGIN = 50, 1.25


@dataclass(eq=False)
class Sines:
    """The basis of a process, learnt from the rows of a fit.

    Attributes
    ----------
    name : str
        The term, for errors.
    middle, reach : float
        Middle of the predictor, and L.
    range : float
        Largest difference of two values.
    frequencies : ndarray (k,)
        w, per unit of the predictor.
    means : ndarray (k,)
        Means of the sines over the rows of the fit, which are subtracted: the level of the curve is the intercept's.
    """

    name: str
    middle: float
    reach: float
    range: float
    frequencies: np.ndarray
    means: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, size: int, margin: float, name: str) -> Sines:
        """Learn the basis from the rows of a fit.

        Raises
        ------
        DataError
            The predictor is constant.
        """
        low, high = float(x.min()), float(x.max())
        if not high > low:
            raise DataError(
                f"{name}: the predictor is constant ({low:g}), and a curve needs two different values at least",
                path=("model", "formula"),
                code="constant",
            )
        middle, reach = low + (high - low) / 2, margin * (high - low)
        frequencies = np.pi * np.arange(1, size + 1) / (2 * reach)
        out = cls(name, middle, reach, high - low, frequencies, np.zeros(size))
        out.means = out.waves(x).mean(axis=0)
        return out

    @property
    def served(self) -> tuple[float, float]:
        """The least and the largest length that the sines serve [2]_."""
        return 1.75 * self.reach / len(self.frequencies), self.reach / 3.2

    def waves(self, x: np.ndarray) -> np.ndarray:
        """The sines at rows, less their means, shape (n, k).

        Raises
        ------
        DataError
            A value is beyond the domain, where the sines are none of the process.
        """
        beyond = np.abs(x - self.middle) > self.reach
        if np.any(beyond):
            row = int(np.flatnonzero(beyond)[0])
            low, high = self.middle - self.reach, self.middle + self.reach
            raise DataError(
                f"{self.name}: {x[row]:g} is beyond the domain of its sines, {low:g} to {high:g}: stay within it,"
                " or fit with a larger c",
                path=("model", "formula"),
                code="out-of-range",
            )
        sines = np.sin(self.frequencies * (x[:, None] - (self.middle - self.reach)))
        return np.asarray(sines / np.sqrt(self.reach) - self.means)
