"""Shapes of components, averaged over draws: ellipses over two columns, densities over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.posterior.draws import each_draw
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.regression import RegressionPart
from bayeslab.posterior.observed.student_t import StudentT

__all__ = ["Shapes", "shapes"]

# Number of draws over which densities are averaged.
_DRAWS = 100
_WITH_ELLIPSES = (Normal, JointNormal, StudentT)


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes of components over one or two columns.

    Attributes
    ----------
    columns : tuple of str
    points : ndarray (N, 1 or 2)
    ellipses : (ndarray (K, 2), ndarray (K, 2, 2)) or None
        Means and covariances over two columns.
    densities : (ndarray (G,), ndarray (K, G))
        Grid points, and densities times weights, over one column.
    discrete : bool
    """

    columns: tuple[str, ...]
    points: np.ndarray
    ellipses: tuple[np.ndarray, np.ndarray] | None
    densities: tuple[np.ndarray, np.ndarray]
    discrete: bool


def shapes(mixture: BoundMixture, draws: Mapping[str, np.ndarray], columns: Sequence[str] | None) -> Shapes:
    """Shapes over the requested columns, otherwise over the first two normal columns, or the first column."""
    modelled = mixture.modelled
    normal = [c for part in mixture.parts.values() if isinstance(part, _WITH_ELLIPSES) for c in part.columns]
    for name in columns or ():
        if name not in modelled:
            raise OptionError(f"no column '{name}' is modelled{hint(name, modelled)}", code="unknown-column")
    if any(isinstance(part, RegressionPart) for part in mixture.parts.values()):
        raise OptionError("components of regressions have no shape; take responsibilities", code="not-applicable")
    wanted = tuple(columns or (normal[:2] if len(normal) > 1 else modelled[:1]))
    if len(wanted) > 2 or (len(wanted) == 2 and not set(wanted) <= set(normal)):
        raise OptionError(
            "components are shown over one column, or over two normal ones; name these in columns",
            code="not-applicable",
        )
    at = [mixture.columns.index(c) for c in wanted]
    points = mixture.rows[:, at]
    if len(wanted) == 2:
        return Shapes(wanted, points, _ellipses(mixture, draws, wanted), (np.empty(0), np.empty((0, 0))), False)
    part = next(part for part in mixture.parts.values() if wanted[0] in part.columns)
    values = points[~np.isnan(points[:, 0]), 0]
    low, high = values.min(), values.max()
    places = np.arange(low, high + 1) if part.discrete else np.linspace(low, high, 300)
    for atom in part.atoms:
        # A probability is not a density.
        places = places[places != atom]
    rows = np.full((len(places), len(mixture.columns)), np.nan)
    rows[:, at[0]] = places
    for k in part.given_at:
        # Numbers of trials differ between rows; use their middle.
        rows[:, k] = np.nanmedian(mixture.rows[:, k])
    problem, n = replace(mixture.problem, rows=rows, latent=mixture.problem.latent.on()), 0
    total = np.zeros((mixture.n_components, len(places)))
    for values_at in each_draw(draws, mixture.dims, _DRAWS):
        theta, n = mixture.theta(values_at), n + 1
        parameters = {k: v for k, v in theta.items() if k not in ("weights", "gate")}
        weights = theta.get("weights", np.full(mixture.n_components, 1 / mixture.n_components))
        total += weights[:, None] * np.exp(problem.emission.log_density(parameters, rows).T)
    return Shapes(wanted, values[:, None], None, (places, total / n), part.discrete)


def _ellipses(
    mixture: BoundMixture, draws: Mapping[str, np.ndarray], columns: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    parts = [next(part for part in mixture.parts.values() if c in part.columns) for c in columns]
    k = mixture.n_components
    means, covariances = np.empty((k, 2)), np.zeros((k, 2, 2))
    for j, (part, column) in enumerate(zip(parts, columns, strict=True)):
        assert isinstance(part, _WITH_ELLIPSES)
        theta = part.to_emission({name: draws[name].mean(axis=0) for name in part.results})
        axis = part.columns.index(column)
        means[:, j] = theta["mean"][:, axis]
        for i, (other, name) in enumerate(zip(parts, columns, strict=True)):
            if other is part:
                covariances[:, j, i] = part.covariances(theta)[:, axis, part.columns.index(name)]
    return means, covariances
