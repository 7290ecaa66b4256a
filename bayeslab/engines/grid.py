"""Engine ``grid``: the posterior of at most three parameters, evaluated on a grid.

For any model with a graph and few parameters. The grid is on the unconstrained scale, rotated and
scaled by the curvature at the mode, so that strong correlations need no extra points; its steps are
halved until the integral does not change. Each parameter has its own grid with it as the first
coordinate, from which its marginal is read directly; the grids must agree on the evidence.
Modes are searched for from all over the priors, so that distant ones
are inside the grid.

References
----------
Gelman et al. (2013). Bayesian Data Analysis, 3rd ed., section 10.1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from bayeslab.engines.exact import QUANTILES
from bayeslab.engines.toolbox.approximate import has_evidence
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.optimiser import Optimum, hessian, maxima, newton
from bayeslab.engines.toolbox.scouts import starts
from bayeslab.engines.toolbox.target import Target
from bayeslab.errors import BayeslabError, EngineRefusal, ModelError, Reason
from bayeslab.exact import quadrature
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior import density as posterior_density
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.groups import attributes, dataset, posterior_groups, relabelled
from bayeslab.posterior.log_density import LogDensity
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.results.verdict import Finding, Verdict

if TYPE_CHECKING:
    import pymc

__all__ = ["ENGINE", "MAX_PARAMETERS", "Options", "run"]

MAX_PARAMETERS = 3
# Initial number of points per axis, by the number of axes.
_POINTS = {1: 65, 2: 33, 3: 17}
# Depth to which the density is followed, and tolerance of the log integral: with heavy tails in three
# dimensions, full precision would need millions of points.
_DEPTH = {1: 36.0, 2: 36.0, 3: 20.0}
_TOLERANCE = {1: 1e-9, 2: 1e-7, 3: 1e-6}
# Largest grid, in standard deviations at the mode; initial points per standard deviation of the narrowest mode.
_WIDEST = {1: 200_000.0, 2: 1_000.0, 3: 400.0}
_DENSE = 0.5
# Maximum number of modes besides the highest.
_MODES = 8
# Searches that end closer to each other, relative to the size of the coordinates, found the same mode.
_ONE_MODE = 1e-3
# Points below this share of the highest weight form the ends of the grid, which must contribute little to a moment.
_NO_WEIGHT, _MOST_OF_ENDS = 1e-6, 0.05


class Options(Spec):
    """Options of the draws and of the search for modes."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    restarts: int = Field(4, ge=1, le=1000, description="Number of starting points of the search for modes.")
    maxeval: int = Field(5000, ge=1, description="Maximum number of evaluations per start.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()


def refuse(posterior: Posterior) -> Reason | None:
    """Refuse more than three parameters."""
    try:
        size = posterior.machine_model().program.n_dim
    except (NotLowered, BayeslabError):
        size = _size(posterior.graph())
    return _too_many(size)


def _size(graph: pymc.Model) -> int:
    """Number of parameters of a graph."""
    return sum(int(np.size(value)) for value in graph.initial_point().values())


def _too_many(size: int) -> Reason | None:
    if size <= MAX_PARAMETERS:
        return None
    text = f"the model has {size} parameters; a grid is for at most {MAX_PARAMETERS}"
    return Reason(text, code="too-costly")


@dataclass(frozen=True, eq=False)
class _Grid:
    """A grid with one parameter first: unconstrained point = mode + factor @ u, in this order."""

    order: list[int]
    mode: np.ndarray
    factor: np.ndarray
    axes: list[np.ndarray]
    log_mass: np.ndarray

    @property
    def log_evidence(self) -> float:
        return float(np.logaddexp.reduce(self.log_mass, axis=None))

    def points(self, u: np.ndarray) -> np.ndarray:
        """Unconstrained points (n, d), in the model's order, for coordinates (n, d)."""
        out = np.empty_like(u)
        out[:, self.order] = self.mode[self.order] + u @ self.factor.T
        return out

    def everywhere(self) -> np.ndarray:
        return np.stack([a.ravel() for a in np.meshgrid(*self.axes, indexing="ij")], axis=1)

    def quantile(self, probability: float) -> float:
        """Quantile of the first parameter, on the unconstrained scale."""
        u = quadrature.quantile(self.axes[0], quadrature.marginal(self.log_mass, 0), probability)
        return float(self.mode[self.order[0]] + self.factor[0, 0] * u)


def ready(job: Job) -> None:
    """Check that there are few parameters, and that starting values belong to them."""
    posterior_density.ready(job)
    reason = _too_many(_size(job.graph) if job.machine is None else job.machine.program.n_dim)
    if reason is not None:
        raise EngineRefusal(reason, code=reason.code)


def run(job: Job) -> Outcome:
    """Evaluate the density on grids, and draw from the first."""
    options: Options = job.options
    begun = time.perf_counter()
    density = density_of(job)
    target = Target(density)
    compiled = time.perf_counter()
    rng = np.random.default_rng(job.seed)
    points = starts(target, rng, options.restarts, options.initvals, more=_MODES)
    modes = maxima(target, points, options.maxeval, job.progress.note)
    grids = [_grid(target, modes, first) for first in range(density.n_dim)]
    log_evidence = grids[0].log_evidence
    apart = max(abs(grid.log_evidence - log_evidence) for grid in grids)
    drawn = quadrature.grid_draws(grids[0].axes, grids[0].log_mass, rng, options.chains * options.draws)
    flat = grids[0].points(drawn).reshape(options.chains, options.draws, -1)
    groups = posterior_groups(job, density, flat, {}, sampler="bayeslab", chains=list(range(options.chains)))
    shown, renamed = relabelled(job, groups)
    moved = {
        name
        for name, drawn in groups["posterior"].data_vars.items()
        if name not in shown["posterior"] or not np.array_equal(drawn.values, shown["posterior"][name].values, True)
    }
    groups = shown
    groups["posterior"].attrs["sampling"] = "independent draws from the grid"
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": "quadrature on a grid"}
    if has_evidence(density):
        attrs["log_evidence"] = log_evidence
    statistics = _statistics(density, grids, attrs)
    kept = {name: variable for name, variable in statistics.data_vars.items() if name not in moved}
    groups["exact_posterior"] = replace(statistics, data_vars=kept)
    del groups["sample_stats"]
    timings = {"compile": compiled - begun, "grid": time.perf_counter() - compiled}
    return Outcome(groups, Verdict((*_findings(grids, apart, attrs), *renamed)), True, timings)


def _grid(target: Target, modes: list[Optimum], first: int) -> _Grid:
    """The grid with one parameter as its first coordinate."""
    d = target.n_dim
    peak = newton(target, modes[0].point)
    order = [first, *(i for i in range(d) if i != first)]
    factor = _factor(peak.curvature[np.ix_(order, order)])
    empty = np.zeros(0)
    frame = _Grid(order, peak.point, factor, [empty] * d, empty)

    def log_density(*axes: np.ndarray) -> np.ndarray:
        u = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
        return target.many(frame.points(u))[0].reshape([len(a) for a in axes])

    # The initial grid includes the other modes.
    modes = [o for o in _apart(modes) if o.value > modes[0].value - _DEPTH[d]]
    others = np.array([np.linalg.solve(factor, (o.point - peak.point)[order]) for o in modes])
    start = [
        (min(-9.0, low - 9.0), max(9.0, high + 9.0)) for low, high in zip(others.min(0), others.max(0), strict=True)
    ]
    names = target.density.parameter_names()
    n, many = _POINTS[d], len(modes) > 1
    known: dict[str, Any] = {} if target.density.improper else {"endless": _spread(_WIDEST[d])}
    if many:
        known["peaks"] = others
    try:
        ends = quadrature.box(
            log_density, start, [names[i] for i in order], n=n, depth=_DEPTH[d], widest=_WIDEST[d], **known
        )
        sizes = [n] * d
        if many or d == 1:
            lengths = _lengths(target, modes, order, factor) if many else np.ones(d)
            steps = [_DENSE * (high - low) / length for (low, high), length in zip(ends, lengths, strict=True)]
            sizes = [max(n, int(np.ceil(step)) + 1) for step in steps]
        axes, log_mass = quadrature.converged(log_density, ends, n=sizes, tolerance=_TOLERANCE[d])
    except ModelError as error:
        raise EngineRefusal(error.message, code=error.code) from None
    return _Grid(order, peak.point, factor, axes, log_mass + np.log(np.diagonal(factor)).sum())


def _apart(optima: list[Optimum]) -> list[Optimum]:
    """The distinct modes, highest first."""
    kept: list[Optimum] = []
    for optimum in optima:
        places = [np.max(np.abs(optimum.point - other.point) / (1.0 + np.abs(other.point))) for other in kept]
        if all(place > _ONE_MODE for place in places):
            kept.append(optimum)
    return kept[: 1 + _MODES]


def _lengths(target: Target, modes: list[Optimum], order: list[int], factor: np.ndarray) -> np.ndarray:
    """The conditional standard deviation of the narrowest mode along each axis of a grid."""
    out = np.ones(len(order))
    for optimum in modes:
        curved = -np.diagonal(factor.T @ hessian(target, optimum.point)[np.ix_(order, order)] @ factor)
        bends = np.isfinite(curved) & (curved > 1.0)
        out[bends] = np.minimum(out[bends], 1.0 / np.sqrt(curved[bends]))
    return out


def _spread(widest: float) -> str:
    """The error message for a posterior with proper priors that is too wide for a grid."""
    return (
        f"the posterior of '{{name}}' spreads over more than {widest:,.0f} times the length of its highest mode: no"
        f" grid holds both; sample with method smc"
    )


def _factor(curvature: np.ndarray) -> np.ndarray:
    """Lower triangular root of the inverse curvature; of its diagonal if the curvature is not positive definite."""
    if np.all(np.isfinite(curvature)):
        values, vectors = np.linalg.eigh(-curvature)
        if values[-1] > 0:
            # A direction without curvature at the mode gets a separate length.
            values = np.maximum(values, max(1e-12 * values[-1], 1e-6))
            return np.linalg.cholesky((vectors / values) @ vectors.T)
    return np.eye(len(curvature))


def _statistics(density: LogDensity, grids: list[_Grid], attrs: dict[str, Any]) -> Any:
    """Weighted moments; quantiles of parameters from their own grids, through their monotone transforms."""
    grid = grids[0]
    weights = np.exp(grid.log_mass.ravel() - grid.log_evidence)
    kept = weights > 1e-15
    values = density.constrained(density.split(grid.points(grid.everywhere()[kept])))
    free_names = density.parameters
    mean = {name: np.tensordot(weights[kept], values[name], axes=1) for name in free_names}
    sd = {n: np.sqrt(np.tensordot(weights[kept], (values[n] - mean[n]) ** 2, axes=1)) for n in free_names}
    for n in free_names:
        # A moment that keeps growing towards the ends of the grid does not exist, or cannot be computed from it.
        meanless = _of_ends(weights[kept], np.abs(values[n]))
        sd[n] = np.where(meanless | _of_ends(weights[kept], (values[n] - mean[n]) ** 2), np.nan, sd[n])
        mean[n] = np.where(meanless, np.nan, mean[n])
    parts, names = [mean, sd], ["mean", "sd"]
    for probability in QUANTILES:
        # The second point is for decreasing transforms.
        both = np.array([[g.quantile(p) for g in grids] for p in (probability, 1 - probability)])
        at = density.constrained(density.split(both))
        parts.append({name: (at[name].min if probability < 0.5 else at[name].max)(axis=0) for name in free_names})
        names.append(f"q{100 * probability:g}")
    separate = [name for name in free_names if name in density.separate]
    arrays = {name: np.stack([np.asarray(part[name], float) for part in parts]) for name in separate}
    return dataset(arrays, density, {"statistic": np.array(names)}, attrs)


def _of_ends(weights: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Whether points of negligible weight contribute much to a sum of non-negative terms."""
    ends = weights < _NO_WEIGHT * weights.max()
    whole = np.tensordot(weights, terms, axes=1)
    return np.asarray(np.tensordot(weights[ends], terms[ends], axes=1) > _MOST_OF_ENDS * whole)


def _findings(grids: list[_Grid], apart: float, attrs: dict[str, Any]) -> tuple[Finding, ...]:
    sizes = " × ".join(str(len(axis)) for axis in grids[0].axes)
    text = f"the posterior on a grid of {sizes} points; the draws are independent"
    out = [Finding("pass", "grid", "", None, text)]
    if apart > 1e-4:
        advice = "sample with method nuts and compare"
        out.append(Finding("warn", "grid", "", apart, f"grids turned differently disagree by {apart:.2g}", advice))
    if "log_evidence" in attrs:
        evidence = float(attrs["log_evidence"])
        out.append(Finding("pass", "evidence", "", evidence, f"log evidence {evidence:.4f}"))
    return tuple(out)


ENGINE = Engine(Options, run, refuse=refuse, ready=ready)
