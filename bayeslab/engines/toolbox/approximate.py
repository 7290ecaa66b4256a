"""What the approximate engines share: Gaussian approximations, and the outcome they hand back.

The approximations are fitted to the compiled density that NUTS uses (:class:`Density`), which is
cached on disk, rather than through ``pymc.fit``, ``pymc_extras.fit_pathfinder`` and
``pymc_extras.fit_laplace``: these compile graphs of their own in every process, which takes tens of
seconds for models that are approximated in less than one. The flat vector is that of ``Density``,
so draws need no mapping between two orders of variables.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, RunError
from bayeslab.job import Job, Outcome
from bayeslab.posterior.density import Density
from bayeslab.posterior.groups import posterior_groups, relabelled, remedies
from bayeslab.results.checks import PARETO_FAIL, judge_approximation
from bayeslab.results.convergence import blocks
from bayeslab.results.psis import pareto_smoothed
from bayeslab.results.verdict import Finding

if TYPE_CHECKING:
    import pymc
    import xarray as xr

__all__ = [
    "Approximation",
    "Gaussian",
    "LowRank",
    "Mixture",
    "Optimum",
    "Path",
    "Peak",
    "Target",
    "has_evidence",
    "hessian",
    "improper",
    "maxima",
    "newton",
    "outcome",
    "pathfinder",
    "systematic",
]

Array = NDArray[np.float64]
LOG_2_PI = math.log(2 * math.pi)
# Steps of the search for how far a parameter reaches, each of at most a thousandfold; a reach within this factor of 1
# needs no unit of its own.
_SEARCH, _ORDINARY, _AGAIN = 60, 1e3, 5
_EQUAL = 1e-7  # share of a log density that is rounding where two searches ended
_FEW = 100  # draws' worth of weights below which resampling repeats a handful of points


@dataclass(frozen=True, eq=False)
class Target:
    """The log density, made to be called very often.

    Calling ``Density`` spends most of its time on preparing addresses; here they are prepared once.
    """

    density: Density
    _function: Any = field(init=False)
    _data: int = field(init=False)

    def __post_init__(self) -> None:
        pointers = [ctypes.c_uint64, *[ctypes.c_void_p] * 4]
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *pointers)
        object.__setattr__(self, "_function", kind(self.density.callback.address))
        object.__setattr__(self, "_data", self.density.callback_arguments.ctypes.data)

    @property
    def n_dim(self) -> int:
        return self.density.n_dim

    def many(self, points: Array) -> tuple[Array, Array]:
        """Values (n,) and gradients (n, n_dim) at points (n, n_dim).

        Where there is no density the value is -inf; where there is no gradient it is NaN.
        """
        points = np.ascontiguousarray(points, dtype=np.float64)
        n, d = points.shape
        values, gradients = np.full(n, -np.inf), np.full((n, d), np.nan)
        x, g, v = points.ctypes.data, gradients.ctypes.data, values.ctypes.data
        call, data = self._function, self._data
        for i in range(n):
            call(d, x + 8 * d * i, g + 8 * d * i, v + 8 * i, data)
        values[np.isnan(values)] = -np.inf
        return values, gradients

    def one(self, point: Array) -> tuple[float, Array]:
        values, gradients = self.many(point[None])
        return float(values[0]), gradients[0]

    def falling(self, point: Array) -> tuple[float, Array]:
        """Minus the log density and its gradient; a wall where there is none, for a minimiser."""
        value, gradient = self.one(point)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return 1e300, np.zeros_like(point)
        return -value, -gradient


# --------------------------------------------------------------------------------- Gaussians


class Approximation(Protocol):
    """A distribution that can be drawn from and has a density."""

    def draw(self, rng: np.random.Generator, n: int) -> Array: ...
    def log_density(self, points: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A normal distribution: ``mean + factor @ z``, ``factor`` lower triangular or the standard deviations."""

    mean: Array
    factor: Array

    @property
    def diagonal(self) -> Array:
        return self.factor if self.factor.ndim == 1 else np.diag(self.factor)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        return self.mean + (z * self.factor if self.factor.ndim == 1 else z @ self.factor.T)

    def log_density(self, points: Array) -> Array:
        from scipy.linalg import solve_triangular

        centred = points - self.mean
        if self.factor.ndim == 1:
            z = centred / self.factor
        else:
            z = solve_triangular(self.factor, centred.T, lower=True).T
        scale = float(np.log(np.abs(self.diagonal)).sum())
        result: Array = -0.5 * (z**2).sum(axis=1) - scale - 0.5 * self.mean.size * LOG_2_PI
        return result


@dataclass(frozen=True, eq=False)
class LowRank:
    """A normal distribution, covariance ``D (I + Q (L L' - I) Q') D``: ``D`` diagonal, ``Q`` orthonormal columns."""

    mean: Array
    scale: Array  # the diagonal of D
    basis: Array  # Q, (n_dim, rank)
    factor: Array  # L, lower triangular, (rank, rank)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        inside = z @ self.basis
        return self.mean + self.scale * (z + (inside @ self.factor.T - inside) @ self.basis.T)

    def log_density(self, points: Array) -> Array:
        from scipy.linalg import solve_triangular

        z = (points - self.mean) / self.scale
        inside = z @ self.basis
        white = solve_triangular(self.factor, inside.T, lower=True)
        squares = (z**2).sum(axis=1) - (inside**2).sum(axis=1) + (white**2).sum(axis=0)
        volume = float(np.log(np.diag(self.factor)).sum() + np.log(self.scale).sum())
        result: Array = -0.5 * squares - volume - 0.5 * self.mean.size * LOG_2_PI
        return result

    def sd(self) -> Array:
        """Standard deviations of the elements."""
        inside = self.basis @ self.factor
        result: Array = self.scale * np.sqrt(1 + (inside**2).sum(axis=1) - (self.basis**2).sum(axis=1))
        return result


@dataclass(frozen=True, eq=False)
class Mixture:
    """Equal parts of several approximations."""

    parts: tuple[Approximation, ...]

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        share = -(-n // len(self.parts))
        drawn = np.concatenate([part.draw(rng, share) for part in self.parts])
        return rng.permutation(drawn)[:n]

    def log_density(self, points: Array) -> Array:
        each = np.stack([part.log_density(points) for part in self.parts])
        result: Array = np.logaddexp.reduce(each, axis=0) - math.log(len(self.parts))
        return result


# --------------------------------------------------------------------------------- Pathfinder


@dataclass(frozen=True, eq=False)
class Path:
    """The best Gaussian along one optimisation path."""

    approximation: LowRank
    elbo: float
    n_steps: int


def pathfinder(
    target: Target, start: Array, rng: np.random.Generator, *, maxiter: int, maxcor: int, num_elbo_draws: int
) -> Path | None:
    """One path of Pathfinder: L-BFGS towards the mode, and of its Gaussians the one with the highest ELBO.

    Returns None where the path has no step from which a Gaussian can be made.

    References
    ----------
    Zhang, Carpenter, Gelman, Vehtari (2022). Pathfinder: parallel quasi-Newton variational inference.
    Journal of Machine Learning Research 23(306), algorithms 1, 3 and 4.
    """
    from scipy.optimize import minimize

    points = [start]
    limits = {"maxiter": maxiter, "maxcor": maxcor, "ftol": 1e-9, "gtol": 1e-8, "maxls": 100}
    minimize(
        target.falling, start, jac=True, method="L-BFGS-B", options=limits, callback=lambda x: points.append(np.copy(x))
    )
    best: Path | None = None
    for gaussian in _gaussians(np.array(points), -target.many(np.array(points))[1], maxcor):
        drawn = gaussian.draw(rng, num_elbo_draws)
        ratios = target.many(drawn)[0] - gaussian.log_density(drawn)
        elbo = float(ratios.mean())
        if math.isfinite(elbo) and (best is None or elbo > best.elbo):
            best = Path(gaussian, elbo, len(points) - 1)
    return best


def _gaussians(points: Array, slopes: Array, maxcor: int) -> Iterator[LowRank]:
    """The Gaussian of L-BFGS at each step of a path (algorithms 3 and 4); ``slopes`` of minus the log density."""
    alpha = np.ones(points.shape[1])
    moves: list[Array] = []
    changes: list[Array] = []
    for i in range(1, len(points)):
        s, z = points[i] - points[i - 1], slopes[i] - slopes[i - 1]
        if not np.isfinite(z).all():
            return
        if s @ z > 1e-12 * (z @ z):
            alpha = _diagonal(alpha, s, z)
            moves, changes = [*moves, s][-maxcor:], [*changes, z][-maxcor:]
        if moves:
            gaussian = _low_rank(points[i], slopes[i], alpha, np.array(moves).T, np.array(changes).T)
            if gaussian is not None:
                yield gaussian


def _diagonal(alpha: Array, s: Array, z: Array) -> Array:
    """The diagonal part of the inverse Hessian after one more step (algorithm 3; Gilbert and Lemaréchal 1989)."""
    a, b, c = alpha @ z**2, z @ s, s @ (s / alpha)
    inverse = a / (b * alpha) + z**2 / b - a * s**2 / (b * c * alpha**2)
    usable = np.isfinite(inverse).all() and (inverse > 0).all()
    return 1 / inverse if usable else alpha


def _low_rank(x: Array, slope: Array, alpha: Array, s: Array, z: Array) -> LowRank | None:
    """Algorithm 4, with the QR decomposition for every size."""
    from scipy.linalg import solve_triangular

    upper = np.triu(s.T @ z)
    n = len(upper)
    inverse = solve_triangular(upper, np.eye(n))
    corner = inverse.T @ (np.diag(np.diag(upper)) + z.T @ (alpha[:, None] * z)) @ inverse
    gamma = np.block([[np.zeros((n, n)), -inverse], [-inverse.T, corner]])
    beta = np.concatenate([alpha[:, None] * z, s], axis=1)
    scale = np.sqrt(alpha)
    basis, r = np.linalg.qr(beta / scale[:, None])
    try:
        factor = np.linalg.cholesky(np.eye(len(r)) + r @ gamma @ r.T)
    except np.linalg.LinAlgError:
        return None
    mean = x - alpha * slope - beta @ (gamma @ (beta.T @ slope))
    return LowRank(mean, scale, basis, factor) if np.isfinite(mean).all() else None


# ---------------------------------------------------------------------------- modes, curvature


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where an optimiser ended."""

    point: Array
    value: float
    message: str


def maxima(target: Target, points: list[Array], maxeval: int, note: Callable[[str], None]) -> list[Optimum]:
    """Local maxima of the density, the highest first; of equally high ones (mirror images) the one found first.

    Equal is up to rounding: which of two mirror images is a digit higher depends on the machine.
    """
    limits: dict[str, Any] = {"maxfun": maxeval, "maxiter": maxeval, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
    found = []
    for k, start in enumerate(points):
        best = _climbed(target, start, limits)
        if best is not None:
            found.append(best)
            note(f"start {k + 1} of {len(points)}: log density {found[-1].value:.6g}")
    if not found:
        raise ModelError(
            "the density is zero or undefined wherever the optimiser looked; check data, bounds and priors",
            code="no-start",
        )
    highest = max(optimum.value for optimum in found)
    equal = highest - _EQUAL * max(1.0, abs(highest))
    return sorted(found, key=lambda optimum: -highest if optimum.value >= equal else -optimum.value)


def _climbed(target: Target, start: Array, limits: dict[str, Any]) -> Optimum | None:
    """A local maximum from one start; None where there is no density on the way.

    Far out units are those of the tail. Where parameters need some the search goes on from its end, in units of there.
    """
    from scipy.optimize import minimize

    best: Optimum | None = None
    for _ in range(_AGAIN):
        unit = _units(target, start)

        def falling(z: Array, unit: Array = unit) -> tuple[float, Array]:
            value, slope = target.falling(z * unit)
            return value, slope * unit

        result = minimize(falling, start / unit, jac=True, method="L-BFGS-B", options=limits)
        if result.fun >= 1e299:
            break
        start = np.asarray(result.x) * unit
        gain = math.inf if best is None else -float(result.fun) - best.value
        if gain >= 0:
            best = Optimum(start, -float(result.fun), str(result.message))
        if gain < 1e-9 or np.all(unit == 1):
            break
    return best


def _units(target: Target, start: Array) -> Array:
    """What to measure parameters in while looking for a mode: 1, but for those of another order of magnitude."""
    reach = _reaches(target, start, np.arange(start.size))
    return np.where((reach < 1 / _ORDINARY) | (reach > _ORDINARY), reach, 1.0)


def hessian(target: Target, point: Array, free: NDArray[np.intp] | None = None) -> Array:
    """Second derivatives of the log density: gradients differenced, with one Richardson extrapolation.

    The step is a thousandth of how far each element reaches, whatever its unit: the error of
    differencing is of fourth order, about 1e-12 of the curvature, and rounding about the same.

    Parameters
    ----------
    free
        Only for these elements; the others are held.
    """
    free = np.arange(point.size) if free is None else free
    steps = 1e-3 * _reaches(target, point, free)
    fine, coarse = (_differences(target, point, free, h) for h in (steps / 2, steps))
    result = (4 * fine - coarse) / 3
    return (result + result.T) / 2


def _reaches(target: Target, point: Array, free: NDArray[np.intp]) -> Array:
    """How far from a point, either way, each element takes the log density down (or bends it) by about a half.

    In the units of the parameters, which may be of any size; 1 where nothing bends.
    """
    out, open_ = np.ones(free.size), np.ones(free.size, bool)
    here = target.one(point)[0]
    noise = 1e-12 * max(1.0, abs(here))
    for _ in range(_SEARCH):
        at = np.flatnonzero(open_)
        around = np.repeat(point[None], 2 * at.size, axis=0)
        around[np.arange(at.size), free[at]] += out[at]
        around[at.size + np.arange(at.size), free[at]] -= out[at]
        heights = target.many(around)[0]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            bend = np.abs(heights[: at.size] + heights[at.size :] - 2 * here) / 2
            # A parabola's way to a half, not too far at once; a step out of the support was too long.
            by = np.where(bend > noise, np.sqrt(0.5 / bend), 1e3)
        out[at] *= np.where(np.isfinite(bend), np.clip(by, 1e-3, 1e3), 1e-3)
        open_[at] = ~((bend > 0.05) & (bend < 5.0))
        if not open_.any():
            break
    return np.where(open_, 1.0, out)


def _differences(target: Target, point: Array, free: NDArray[np.intp], steps: Array) -> Array:
    out = np.empty((free.size, free.size))
    for i, (element, step) in enumerate(zip(free, steps, strict=True)):
        around = np.stack((point, point))
        around[:, element] += [step, -step]
        slopes = target.many(around)[1]
        out[i] = (slopes[0, free] - slopes[1, free]) / (around[0, element] - around[1, element])
    return out


@dataclass(frozen=True, eq=False)
class Peak:
    """A maximum after Newton steps.

    Attributes
    ----------
    curvature : ndarray
        The Hessian of the log density there, of the free elements.
    gain : float
        What one more Newton step would add to the log density; NaN where it does not bend downwards.
    """

    point: Array
    value: float
    curvature: Array
    gain: float


def newton(target: Target, point: Array, free: NDArray[np.intp] | None = None) -> Peak:
    """A maximum made exact to rounding, by a few Newton steps that do not descend."""
    free = np.arange(point.size) if free is None else free
    value, slope = target.one(point)
    curvature = hessian(target, point, free)
    gain = math.nan
    for _ in range(5):
        step, gain = _newton_step(curvature, slope[free])
        there = point.copy()
        there[free] += step
        height, new_slope = target.one(there)
        if not (gain > 0 and height >= value - 1e-12 * max(1.0, abs(value))):
            break
        smaller = np.abs(new_slope[free]).max() < np.abs(slope[free]).max()
        if not (height > value or smaller):
            break
        point, value, slope = there, height, new_slope
        curvature = hessian(target, point, free)
        gain = _newton_step(curvature, slope[free])[1]
        if gain < 1e-20:
            break
    return Peak(point, value, curvature, gain)


def _newton_step(curvature: Array, slope: Array) -> tuple[Array, float]:
    """The step, and what it adds; none where the density does not bend downwards."""
    try:
        factor = np.linalg.cholesky(-curvature) if np.isfinite(curvature).all() else None
    except np.linalg.LinAlgError:
        factor = None
    if factor is None:
        return np.zeros_like(slope), math.nan
    from scipy.linalg import cho_solve

    step: Array = cho_solve((factor, True), slope)
    return step, 0.5 * float(step @ slope)


# ----------------------------------------------------------------------------------- outcome


def improper(model: pymc.Model) -> list[str]:
    """Parameters whose prior has no integral: then the evidence means nothing."""
    # Vector distributions such as LKJCholeskyCov bear no name.
    names = {rv.name: rv.owner.op.name or "" for rv in model.free_RVs}
    return [name for name, distribution in names.items() if distribution.lower() in ("flat", "halfflat")]


def has_evidence(density: Density) -> bool:
    """Whether the joint density integrates to the evidence.

    Not with improper priors, and not with ordered ones: PyMC restricts their density to the ordered
    vectors without dividing by the probability of the order.
    """
    transforms = [density.model.rvs_to_transforms[rv] for rv in density.model.free_RVs]
    each = [part for t in transforms for part in getattr(t, "transform_list", [t])]
    return not improper(density.model) and not any(type(part).__name__ == "Ordered" for part in each)


def outcome(
    job: Job,
    target: Target,
    approximation: Approximation,
    rng: np.random.Generator,
    *,
    how: str,
    resample_from: int = 0,
    otherwise: Approximation | None = None,
    log_evidence: float | None = None,
    attrs: Mapping[str, Any],
    findings: tuple[Finding, ...] = (),
    timings: Mapping[str, float],
) -> Outcome:
    """Draws from an approximation, their importance ratios, and the verdict.

    Parameters
    ----------
    resample_from
        If not 0, draw so many and choose among them with Pareto-smoothed importance weights.
    otherwise
        What to draw from instead when the weights rest on so few draws that choosing would be worse.
    log_evidence
        As the approximation's normaliser has it; kept only where the approximation is usable.
    """
    chains, draws = job.options.chains, job.options.draws
    n = chains * draws
    points = approximation.draw(rng, max(n, resample_from))
    log_q = approximation.log_density(points)
    log_p = target.many(points)[0]
    if not np.isfinite(log_p).any():
        raise RunError("the approximation lies where the density is zero; sample with method nuts", code="degenerate")
    ratios = log_p - log_q
    log_weights, k = pareto_smoothed(ratios)
    worth = 1 / float((np.exp(log_weights) ** 2).sum())
    notes = list(findings)
    if resample_from and worth < _FEW and otherwise is not None:
        points = otherwise.draw(rng, n)
        log_q, log_p = otherwise.log_density(points), target.many(points)[0]
        how = f"{how.partition(';')[0]}; the best one's own draws"
        text = f"the weights rest on about {worth:.0f} draws; shown are the best Gaussian's own draws, not reweighted"
        notes.append(Finding("warn", "reweighting", "", worth, text))
    elif resample_from:
        chosen = rng.permutation(systematic(np.exp(log_weights), n, rng))
        points, log_q, log_p = points[chosen], log_q[chosen], log_p[chosen]
    shape = (chains, draws)
    stats = {"lp": log_p.reshape(shape), "log_q": log_q.reshape(shape)}
    flat = points.reshape(*shape, -1)
    groups = posterior_groups(job, target.density, flat, stats, sampler="bayeslab", chains=list(range(chains)))
    groups, renamed = relabelled(job, groups)
    notes += renamed
    if not resample_from and np.isfinite(ratios).all() and k < PARETO_FAIL:
        notes += _moments(groups["posterior"], np.exp(log_weights))
    if renamed and log_evidence is not None:
        notes.append(_of_one_labelling(log_evidence))
        log_evidence = None
    bound = {} if resample_from or not np.isfinite(ratios).all() else {"elbo": float(ratios.mean())}
    if log_evidence is not None and k < PARETO_FAIL:
        bound["log_evidence"] = log_evidence
    groups["posterior"].attrs |= {"sampling": how, "pareto_k": k, **attrs, **bound}
    advice = remedies(job, target.density.model)("sample with method nuts")
    verdict = judge_approximation(
        ratios, resampled=bool(resample_from), log_evidence=log_evidence, notes=notes, advice=advice
    )
    return Outcome(groups, verdict, True, dict(timings))


# Means that are off by more posterior sds, and sds by a larger factor, are told.
_OFF, _FACTOR = 0.25, 4 / 3
# So many elements of a variable are looked at together.
_COLUMNS = 1000


def _moments(posterior: xr.Dataset, weights: Array) -> list[Finding]:
    """Means and sds that importance weights move far: of the parameter that is worst."""
    worst = Finding("pass", "moments", "", 1.0, "")
    for block in blocks(posterior):
        if block.name.startswith("_") or block.values.dtype.kind != "f":
            continue
        values = block.values.reshape(len(weights), -1)
        for first in range(0, block.size, _COLUMNS):
            x = values[:, first : first + _COLUMNS]
            mean, sd, moved = x.mean(axis=0), x.std(axis=0), weights @ x
            spread = np.sqrt(weights @ (x - moved) ** 2)
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.exp(np.abs(np.log(sd / spread)))
                far = np.nan_to_num(np.maximum(np.abs(mean - moved) / spread / _OFF, (factor - 1) / (_FACTOR - 1)))
            k = int(far.argmax())
            if worst.value is not None and far[k] > worst.value:
                text = (
                    f"mean {mean[k]:.3g} and sd {sd[k]:.3g}; by importance weights {moved[k]:.3g} and {spread[k]:.3g}"
                )
                advice = "compare with method nuts before relying on them"
                worst = Finding("warn", "moments", block.label(first + k), float(far[k]), text, advice)
    return [worst] if worst.status == "warn" else []


def _of_one_labelling(log_evidence: float) -> Finding:
    """The normaliser of one Gaussian leaves out the copies of the posterior that other labellings are."""
    text = (
        f"log evidence {log_evidence:.4f} by the approximation's normaliser is that of one labelling: the others, which"
        f" count as much, are left out, and it is not kept"
    )
    return Finding("warn", "evidence", "", log_evidence, text, "take method smc, or grid, for the evidence")


def systematic(weights: Array, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of ``n`` points in proportion to their weights, with one random number (Kitagawa 1996)."""
    edges = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(edges, (np.arange(n) + rng.random()) / n), len(weights) - 1)
