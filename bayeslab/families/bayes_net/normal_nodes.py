"""Continuous variables of a declared net: normal, linear in the continuous parents, for each row of the discrete ones.

Intercept, slopes and standard deviation that are not given have a normal-inverse-gamma prior on the scale of the data
in every row. With s_y, s_x the standard deviations of the columns and m their means,

    sd² ~ InverseGamma(1.5, s_y² / 100),   slope | sd ~ Normal(0, 2.5 sd / s_x),
    intercept + slopes · m_x | sd ~ Normal(m_y, 2.5 sd),

a weak prior: 2.5 standard deviations of the response for one standard deviation of the predictor.

References
----------
.. [1] Geiger, Heckerman (1994). Learning Gaussian networks. UAI 10, 235-243.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.families.bayes_net.local_distributions.place import Place
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.latents.networks.mixed_network import LinearGaussian

__all__ = ["Linear", "centred", "linears", "prior_of", "values_of"]

_WIDTH = 2.5
_SHAPE = 1.5
# The prior adds 2 % of s_y² to the sum of squared residuals: little, even if the fit is close.
_SCALE = 100


@dataclass(frozen=True, eq=False)
class Linear:
    """A continuous variable.

    Attributes
    ----------
    discrete, continuous : tuple of str
        Its parents.
    known : LinearGaussian or None
    """

    variable: str
    discrete: tuple[str, ...]
    continuous: tuple[str, ...]
    shape: tuple[int, ...]
    known: LinearGaussian | None

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of intercept, slopes and sd in a posterior."""
        word = self.variable.replace("/", "_")
        return f"intercept_{word}", f"slope_{word}", f"sd_{word}"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        intercept, slope, sd = self.names
        out = {intercept: self.discrete, sd: self.discrete}
        return out | ({slope: (*self.discrete, f"parent_of_{self.variable}")} if self.continuous else {})

    def at(self, values: Mapping[str, np.ndarray]) -> LinearGaussian:
        """The distribution at the given parameter values."""
        if self.known is not None:
            return self.known
        intercept, slope, sd = self.names
        empty = np.zeros((*self.shape, 0))
        return LinearGaussian(
            (*self.discrete, *self.continuous), values[intercept], values.get(slope, empty), values[sd]
        )


def linears(spec: BayesNet) -> dict[str, Linear]:
    """The continuous variables of a specification.

    Raises
    ------
    ModelError
        The specification has an error; carries its path.
    """
    states = {v: tuple(one.states) for v, one in spec.variables.items() if one.states}
    out = {}
    for v, one in spec.variables.items():
        if one.linear_gaussian is None:
            continue
        # In a classifier the class is the parent: each column is normal within each class.
        above = tuple(one.parents)
        if spec.structure in ("naive_bayes", "tan") and spec.target is not None and v != spec.target:
            above = (spec.target,)
        discrete = tuple(p for p in above if p in states)
        continuous = tuple(p for p in above if p not in states)
        place = Place(v, (), discrete, states, frozenset())
        place.require_memory(4 * 8 * (2 + len(continuous)))  # with prior, statistics and posterior
        given = one.linear_gaussian
        for word in given.slopes:
            if word not in continuous:
                raise place.error(
                    f"'{word}' is not a continuous parent of '{v}'{hint(word, continuous)}",
                    "linear_gaussian",
                    "slopes",
                    word,
                    code="unknown-variable",
                )
        parts = [given.intercept, given.sd, *(given.slopes.get(p) for p in continuous)]
        known = None
        if all(part is not None for part in parts):
            known = _known(place, given, continuous)
        elif any(part is not None for part in parts):
            raise place.error(
                f"'{v}': give intercept, sd and a slope for each continuous parent"
                f" ({', '.join(continuous) or 'it has none'}), or none of them to learn all",
                "linear_gaussian",
                code="incomplete",
            )
        out[v] = Linear(v, discrete, continuous, place.sizes, known)
    return out


def _known(place: Place, given: Any, continuous: tuple[str, ...]) -> LinearGaussian:
    def array(value: Any, key: tuple[str, ...], low: float) -> np.ndarray:
        if isinstance(value, int | float):
            return np.full(place.sizes, place.number(value, ("linear_gaussian", *key), low, np.inf))
        entries = place.by_row(value, "linear_gaussian", *key)
        return np.array([place.number(e, path, low, np.inf) for e, path in entries]).reshape(place.sizes)

    slopes = [array(given.slopes[p], ("slopes", p), -np.inf) for p in continuous]
    return LinearGaussian(
        (*place.parents, *continuous),
        array(given.intercept, ("intercept",), -np.inf),
        np.stack(slopes, axis=-1) if slopes else np.zeros((*place.sizes, 0)),
        array(given.sd, ("sd",), 0.0),
    )


def values_of(spec: BayesNet, nodes: Mapping[str, Linear], data: Data) -> np.ndarray:
    """Columns of the continuous variables, (rows, variables), NaN where nothing was observed."""
    n_rows = len(data.labels.get(data.dataset.rows, ()))
    out = np.full((n_rows, len(nodes)), np.nan)
    for k, v in enumerate(nodes):
        if v in spec.hidden or not data.has(v):
            continue
        value = data.term(v, missing=True).value
        if value is None or np.shape(value) != (n_rows,):
            raise DataError(f"column '{v}' does not hold one number a row", code="not-a-column")
        out[:, k] = value
    return out


def prior_of(node: Linear, nodes: Mapping[str, Linear], values: np.ndarray) -> NormalInverseGamma:
    """The prior of (intercept, slopes) and of the variance, on the scale of the columns ``values``."""
    place = {v: k for k, v in enumerate(nodes)}
    column = values[:, place[node.variable]]
    if not np.any(np.isfinite(column)):
        raise ModelError(
            f"'{node.variable}' is continuous, has no data, and its distribution is unknown: its scale is arbitrary",
            path=("model", "variables", node.variable),
            code="not-identified",
        )
    mean, spread = _scale(column)
    above = [_scale(values[:, place[p]]) for p in node.continuous]
    precision = np.diag([1.0, *(s**2 for _, s in above)]) / _WIDTH**2
    return NormalInverseGamma.about(
        np.array([m for m, _ in above]), np.array([mean, *(0.0 for _ in above)]), precision, _SHAPE, spread**2 / _SCALE
    )


def centred(prior: NormalInverseGamma) -> tuple[np.ndarray, np.ndarray]:
    """The prior with centred predictors: sd of (level at the centre, slopes) in units of sd, and the centres."""
    assert prior.root is not None
    widths = np.diagonal(prior.root)
    return widths, -prior.root[0, 1:] / widths[1:]


def _scale(column: np.ndarray) -> tuple[float, float]:
    observed = column[np.isfinite(column)]
    if not observed.size:
        return 0.0, 1.0
    spread = float(observed.std())
    return float(observed.mean()), spread if spread > 0 else max(abs(float(observed.mean())), 1.0)
