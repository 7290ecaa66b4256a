"""Supports of parameters and their unconstrained coordinates: one table for every search.

========  =====================================================================================
kind      values, and their coordinates
========  =====================================================================================
real      any numbers, themselves
positive  logarithms
unit      between 0 and 1: logits
simplex   rows along the last axis that sum to one: logarithms, up to a constant
matrix    positive definite: the Cholesky factor with logarithms along its diagonal
dof       degrees of freedom: see :mod:`bayeslab.distributions.toolbox.degrees_of_freedom`
========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from bayeslab.distributions.toolbox.degrees_of_freedom import dof_from_real, dof_to_real

__all__ = ["BIJECTORS", "Bijector"]

# Limits within which logarithms and exponentials are finite.
_TINY, _FAR, _FAR_DIAGONAL = 1e-300, 690.0, 300.0
# Small increments of -700 vanish in the exponential, so that structural zeros stay zero.
_NOTHING = 1e-290


class Bijector(NamedTuple):
    """A map to unconstrained coordinates and its inverse.

    Attributes
    ----------
    to_real, from_real : callable
    """

    to_real: Callable[[np.ndarray], np.ndarray]
    from_real: Callable[[np.ndarray], np.ndarray]


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _log(value: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(value, _TINY))


def _exp(x: np.ndarray) -> np.ndarray:
    return np.exp(np.clip(x, -_FAR, _FAR))


def _logit(value: np.ndarray) -> np.ndarray:
    return _log(value) - _log(1 - value)


def _expit(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -_FAR, _FAR)))


def _softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    p = np.where(p < _NOTHING, 0.0, p)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def _factor(value: np.ndarray) -> np.ndarray:
    lower, at = np.linalg.cholesky(value), np.arange(value.shape[-1])
    lower[..., at, at] = np.log(lower[..., at, at])
    return lower


def _squared(x: np.ndarray) -> np.ndarray:
    lower, at = np.tril(x), np.arange(x.shape[-1])
    lower[..., at, at] = np.exp(np.clip(lower[..., at, at], -_FAR_DIAGONAL, _FAR_DIAGONAL))
    return np.asarray(lower @ np.swapaxes(lower, -1, -2))


BIJECTORS: Mapping[str, Bijector] = {
    "real": Bijector(_same, _same),
    "positive": Bijector(_log, _exp),
    "unit": Bijector(_logit, _expit),
    "simplex": Bijector(_log, _softmax),
    "matrix": Bijector(_factor, _squared),
    "dof": Bijector(dof_to_real, dof_from_real),
}
