"""The posterior mode of a Gaussian process's hyperparameters without a PyMC graph: nothing is compiled per model.

Priors with numeric parameters are evaluated on arrays (:mod:`bayeslab.distributions`). With many rows the search starts
from every starting point on a subset of the rows, and only the best result is refined on all rows
(:mod:`bayeslab.latents.gaussian_process.gp_hyperparameters`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.distributions import SCALARS, log_density, log_size
from bayeslab.families.gaussian_process.approximations import regression_of
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.latents.gaussian_process.gp_hyperparameters import Maximum, maximise
from bayeslab.posterior.answer import PointEstimate

__all__ = ["optimum"]

# Size of the subset of rows; up to this many rows a maximum is computed to rounding.
_SOME = 700
# Length of the first stretch of a longer time series.
_STRETCH = 20_000

_NORMAL = re.compile(r"Normal\(([-+.\deE]+),([-+.\deE]+)\)")

type Density = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Exact:
    """The log marginal likelihood as a function of hyperparameters, noise and coefficients."""

    resolved: Resolved
    rows: np.ndarray

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        resolved, rows = self.resolved, self.rows
        assert resolved.y is not None
        inputs, share = np.ascontiguousarray(resolved.x[rows].T), np.array([resolved.nugget])
        vector = np.ascontiguousarray(parameters, float)
        design = np.ascontiguousarray(resolved.design[rows])
        value, gradient = kernels.log_marginal(
            vector, *resolved.kernel.program, inputs, resolved.y[rows], design, resolved.known[rows], share
        )
        return float(value), gradient


@dataclass(frozen=True, eq=False)
class _Penalised:
    """A log likelihood plus the log density of the priors."""

    likelihood: Any
    priors: tuple[Density | None, ...]

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.likelihood.log_marginal(parameters)
        gradient = np.array(gradient, float)
        for k, prior in enumerate(self.priors):
            if prior is None:
                continue
            at = parameters[k]
            step = 1e-5 * (abs(at) if at != 0 else 1.0)
            below, here, above = prior(np.array([at - step, at, at + step]))
            value += float(here)
            gradient[k] += float(above - below) / (2 * step)
        return value, gradient


def optimum(resolved: Resolved, with_priors: bool, restarts: int, rng: np.random.Generator) -> PointEstimate | None:
    """The highest maximum; None if the priors need a PyMC graph."""
    if (
        not resolved.gaussian
        or resolved.y is None
        or not resolved.dims
        or "sigma" not in resolved.dims.keys() | resolved.fixed.keys()
    ):
        return None
    given, (resolved, level) = resolved, _levelled(resolved)
    names = _names(resolved)
    if {n.partition("[")[0] for n in names} != resolved.dims.keys() | resolved.fixed.keys():
        return None  # priors have parameters of their own
    priors = [_prior(resolved, name) for name in names]
    if any(prior is None for prior in priors):
        return None
    fixed = np.array([name in resolved.fixed for name in names])
    positive = np.array([name == "sigma" or name in _positive(resolved) for name in names])
    centre, width = np.array([prior[1:] for prior in priors if prior is not None]).T
    densities = tuple(prior[0] if with_priors and prior is not None else None for prior in priors)
    starts = [np.where(fixed, centre, _moved(centre, width, positive, rng)) for _ in range(restarts)]
    whole = _Penalised(likelihood_of(resolved), densities)
    ends = _searched(resolved, whole, starts, positive, fixed, width, densities)
    best = max(ends, key=lambda end: end.log_evidence)
    unit = np.where(positive, best.parameters, np.where(width > 0, width, 1.0))
    slope = np.where(fixed, 0.0, whole.log_marginal(best.parameters)[1] * unit)
    values = {name: best.parameters[k] for k, name in enumerate(names) if name in resolved.dims}
    if resolved.level in values:
        values[resolved.level] += level
    if resolved.predictors:
        values["b"] = best.parameters[len(best.parameters) - len(resolved.predictors) :]
    if resolved.middle is not None:
        values["Intercept"] = given.coefficients(values) @ given.at_zero
    return PointEstimate(
        {name: np.asarray(value) for name, value in values.items()},
        best.log_evidence,
        best.converged,
        float(np.abs(slope).max()),
        all(best.log_evidence - end.log_evidence < 1e-2 for end in ends),
    )


def _levelled(resolved: Resolved) -> tuple[Resolved, float]:
    """The problem with outcomes shifted to about zero, and the shift, if they are far from zero."""
    assert resolved.y is not None
    level = float(np.mean(resolved.y))
    text = resolved.nodes.get(resolved.level, "")
    known = resolved.fixed.get(resolved.level)
    written = _NORMAL.fullmatch(text.replace(" ", ""))
    if not resolved.intercept or abs(level) < 10 * float(np.std(resolved.y)) or (known is None and written is None):
        return resolved, 0.0
    nodes, fixed = dict(resolved.nodes), dict(resolved.fixed)
    if written is not None:
        nodes[resolved.level] = f"Normal({float(written[1]) - level!r}, {written[2]})"
    if known is not None:
        fixed[resolved.level] = known - level
    return replace(resolved, y=resolved.y - level, nodes=nodes, fixed=fixed), level


def likelihood_of(resolved: Resolved) -> Any:
    """The exact likelihood, or the approximation that the model names."""
    if resolved.spec.approximation is not None:
        return regression_of(resolved)
    return Exact(resolved, np.arange(resolved.n))


def _names(resolved: Resolved) -> list[str]:
    """Names of the elements of the parameter vector: hyperparameters, noise, coefficients."""
    start = [resolved.level] if resolved.intercept else []
    return [*resolved.kernel.names, "sigma", *start, *(f"b[{k}]" for k in range(len(resolved.predictors)))]


def _positive(resolved: Resolved) -> set[str]:
    return {p.name for p in resolved.kernel.parameters if p.support == "positive"}


def _prior(resolved: Resolved, name: str) -> tuple[Density, float, float] | None:
    """Log density, median and half the interquartile range of a prior; for a fixed parameter None and its value."""
    if name in resolved.fixed:
        return (lambda values: np.zeros(len(values))), resolved.fixed[name], 0.0
    bare, _, rest = name.partition("[")
    text = resolved.nodes["b[predictor]" if rest else bare]
    word, given = read_prior(text)
    if word is None or word not in SCALARS or not has_numbers(given, lists=True):
        return None
    at = int(rest.rstrip("]")) if rest else 0
    arguments = {key: float(value[at] if isinstance(value, list) else value) for key, value in given.items()}
    density, low, high, proper = log_density(word, arguments)
    if np.isfinite(high) or low not in (0.0, -np.inf):
        return None  # a bounded parameter: the graph's transform keeps it inside
    below, middle, above = _quartiles(density, low)
    return density, middle, 0.5 * (above - below) if proper else 1.0


def _quartiles(density: Density, low: float) -> np.ndarray:
    """The quartiles of a density, by summation over a grid around its bulk."""
    with np.errstate(all="ignore"):
        middle = log_size(density, low)
        grid = np.exp(middle + np.linspace(-30.0, 30.0, 6001))
        grid = grid if low == 0.0 else np.concatenate([-grid[::-1], grid])
        heights = np.exp(density(grid) + middle)
        heights = np.where(np.isfinite(heights), heights, 0.0)
    steps = np.diff(grid * np.exp(-middle))
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * steps)])
    return np.interp(np.array([0.25, 0.5, 0.75]) * mass[-1], mass, grid)


def _moved(centre: np.ndarray, width: np.ndarray, positive: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random starting point: the priors' centres times a factor of up to e, or a point between the quartiles.

    Weights with arbitrary signs have a saddle at the centre, which no search would leave.
    """
    u = rng.uniform(-1.0, 1.0, len(centre))
    return np.where(positive, centre * np.exp(u), centre + width * u)


def _searched(
    resolved: Resolved,
    whole: _Penalised,
    starts: list[np.ndarray],
    positive: np.ndarray,
    fixed: np.ndarray,
    width: np.ndarray,
    densities: tuple[Density | None, ...],
) -> list[Maximum]:
    long = resolved.spec.approximation == "state_space" and resolved.n > _STRETCH
    if not long and (resolved.n <= _SOME or resolved.spec.approximation is not None):
        ends = [maximise(whole, start, positive, fixed=fixed, width=width) for start in starts]
        top = int(np.argmax([end.log_evidence for end in ends]))
        if resolved.n <= _SOME:
            ends[top] = _finished(whole, ends[top], positive, fixed, width)
        return ends
    if long:  # a stretch of consecutive rows shows how neighbours are correlated
        share = 0.05
        part = _Penalised(regression_of(resolved).stretch(share), densities)
    else:
        share = _SOME / resolved.n
        rows = np.sort(np.random.default_rng(0).choice(resolved.n, _SOME, replace=False))
        part = _Penalised(Exact(resolved, rows), densities)
    first = [maximise(part, start, positive, fixed=fixed, width=width) for start in starts]
    best = max(first, key=lambda end: end.log_evidence)
    agree = [end for end in first if best.log_evidence - end.log_evidence >= 1e-2]
    last = maximise(whole, best.parameters, positive, part=part, share=share, fixed=fixed, width=width)
    # Report the starts that ended elsewhere on the subset of rows with their deficit of log evidence.
    worse = (last.log_evidence - (best.log_evidence - end.log_evidence) for end in agree)
    return [last, *(Maximum(last.parameters, value, last.converged, 0) for value in worse)]


def _finished(whole: _Penalised, end: Maximum, positive: np.ndarray, fixed: np.ndarray, width: np.ndarray) -> Maximum:
    """Refine the maximum to rounding."""
    from scipy.optimize import minimize

    free = ~fixed
    # Scale steps by the width of the prior.
    unit = np.where(width > 0, width, 1.0)

    def natural(u: np.ndarray) -> np.ndarray:
        out = end.parameters.copy()
        # Too long a step overflows or underflows here and is rejected below.
        with np.errstate(over="ignore"):
            out[free] = np.where(
                positive[free], end.parameters[free] * np.exp(u), end.parameters[free] + unit[free] * u
            )
        return out

    def falling(u: np.ndarray) -> tuple[float, np.ndarray]:
        at = natural(u)
        if not np.isfinite(at).all() or (at[free & positive] <= 0).any():
            return 1e300, np.zeros(len(u))
        value, gradient = whole.log_marginal(at)
        if not np.isfinite(value):
            return 1e300, np.zeros(len(u))
        return -value, -(gradient * np.where(positive, at, unit))[free]

    start = np.zeros(int(free.sum()))
    limits = {"ftol": 1e-14, "gtol": 1e-7, "maxiter": 200}
    result = minimize(falling, start, jac=True, method="L-BFGS-B", options=limits)
    if not -result.fun >= end.log_evidence:
        return end
    return Maximum(natural(result.x), -float(result.fun), end.converged, end.evaluations + int(result.nfev))
