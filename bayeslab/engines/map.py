"""Engine ``map``: the mode of the posterior, by L-BFGS from several starts.

With ``prior: ignore`` it is the maximum of the likelihood. If the family sums out latent variables, this is the
marginal likelihood of the remaining parameters (type-II maximum likelihood, empirical Bayes).

The density is maximised on the parameters' own scale, without the Jacobian of the transforms, as
``pymc.find_MAP`` does. A mode is a point: it has no intervals, it changes under reparametrisation,
and in a hierarchical model it can be a singularity at zero variance. Starts that lead to
different modes are reported.

Parameters with a prior ``Laplace(0, b)`` of known ``b`` have modes that are exactly zero: the lasso
(Tibshirani 1996). The density has a kink there, where an optimiser for smooth functions does not
converge. So such a parameter is written x = u - v with u, v ≥ 0, and |x| becomes u + v: a smooth
problem with bounds, whose solutions can lie exactly on the bounds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.optimiser import newton, search
from bayeslab.engines.toolbox.scouts import starts
from bayeslab.engines.toolbox.target import WALL, Array, Target
from bayeslab.errors import Reason
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.answer import PointEstimate
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.density import Density, ready
from bayeslab.posterior.groups import posterior_groups
from bayeslab.posterior.machine.arrays import Part
from bayeslab.posterior.transforms import unconstrained
from bayeslab.results.checks import point_verdict
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "Options", "run"]

# Newton steps cost a few gradients per parameter; with more parameters the optimiser's result is used as it is.
_NEWTON = 2000
# Tolerance of the log density at the maximum.
_GAIN = 1e-4


class Options(Spec):
    """Options of the optimiser, named as in ``pymc.find_MAP`` where it has them."""

    optimizer: Literal["L-BFGS-B", "BFGS"] = Field(
        "L-BFGS-B", description="SciPy's name of the algorithm; with Laplace(0, b) priors always L-BFGS-B."
    )
    maxeval: int = Field(5000, ge=1, description="Maximum number of evaluations per start.")
    restarts: int = Field(4, ge=1, le=1000, description="Number of starting points.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()
    prior: Literal["use", "ignore"] = Field("use", description="Mode of the posterior, or maximum of the likelihood.")


def refuse(posterior: Posterior) -> Reason | None:
    """Refuse models for which a mode misleads, and discrete nodes that are summed out, which have no mode here."""
    if (reason := posterior.no_mode()) is not None:
        return Reason(reason, code="no-mode")
    decodable = {*posterior.hidden_paths(), *posterior.integrated()}
    latent = [name for name in posterior.latent if name not in decodable]
    if latent:
        return Reason(
            f"the discrete nodes {', '.join(latent)} are summed out, and their values at a point estimate would be"
            f" draws, not a mode; use method nuts",
            code="discrete",
        )
    return None


def run(job: Job) -> Outcome:
    """Maximise the posterior density."""
    options: Options = job.options
    begun = time.perf_counter()
    if options.initvals is None:
        rng = np.random.default_rng(job.seed)
        known = job.posterior.optimum(options.prior == "use", options.restarts, rng)
        if known is not None:
            return _reported(job, known, begun)
    parts: tuple[Part, ...] = ("prior", "likelihood") if options.prior == "use" else ("likelihood",)
    density = density_of(job, parts)
    kinks = density.lasso() if options.prior == "use" else {}
    places, rates = np.array(list(kinks), dtype=np.intp), np.array(list(kinks.values()), dtype=float)
    problem = _Problem(Target(density), places, rates)
    rng = np.random.default_rng(job.seed)
    ends = []
    for k, start in enumerate(starts(problem.target, rng, options.restarts, options.initvals)):
        ends.append(_optimised(problem, start, options))
        job.progress.note(f"start {k + 1} of {options.restarts}: log density {ends[-1].value:.6g}")
    best = _polished(problem, max(ends, key=lambda end: end.value))
    agree = all(best.value - end.value < 1e-3 for end in ends)
    converged = bool(np.isfinite(best.value) and best.value > -0.1 * WALL and best.gain < _GAIN)
    flat = best.point[None, None, :]
    groups = posterior_groups(
        job, density, flat, {"lp": np.array([[best.value]])}, sampler="scipy", chains=[0], recover=False
    )
    verdict = point_verdict(converged=converged, gradient_norm=best.slope, message=best.message, restarts_agree=agree)
    verdict = Verdict((*verdict.findings, *_sparsity(problem, best), *_without_priors(options)))
    return Outcome(groups, verdict, True, {"optimise": time.perf_counter() - begun})


def _reported(job: Job, estimate: PointEstimate, begun: float) -> Outcome:
    """The outcome from a point estimate that the family computed without compiling its graph."""
    drawn = {name: np.asarray(value)[None] for name, value in estimate.values.items()}
    values = unconstrained(job.graph, drawn)
    shapes = tuple(value.shape[1:] for value in values.values())
    density = Density(job.graph, tuple(values), shapes, None, ())
    flat = density.flat({name: value[0] for name, value in values.items()})[None, None, :]
    stats = {"lp": np.array([[estimate.log_density]])}
    groups = posterior_groups(job, density, flat, stats, sampler="bayeslab", chains=[0])
    verdict = point_verdict(
        converged=estimate.converged, gradient_norm=estimate.slope, message="", restarts_agree=estimate.agree
    )
    verdict = Verdict((*verdict.findings, *_without_priors(job.options)))
    return Outcome(groups, verdict, True, {"optimise": time.perf_counter() - begun})


@dataclass(frozen=True, eq=False)
class _Problem:
    """Minus the log density as a function of (x with u in place of its kinked elements, v).

    ``kinked`` are the elements with a prior Laplace(0, 1/rate).
    """

    target: Target
    kinked: NDArray[np.intp]
    rates: Array

    def point(self, w: Array) -> Array:
        x = w[: self.target.n_dim].copy()
        x[self.kinked] -= w[self.target.n_dim :]
        return x

    def start(self, x: Array) -> Array:
        w = np.concatenate((x, np.maximum(-x[self.kinked], 0.0)))
        w[self.kinked] = np.maximum(x[self.kinked], 0.0)
        return w

    def bounds(self) -> list[tuple[float | None, float | None]] | None:
        if not self.kinked.size:
            return None
        below: list[float | None] = [None] * self.target.n_dim + [0.0] * self.kinked.size
        for i in self.kinked:
            below[i] = 0.0
        return [(b, None) for b in below]

    def __call__(self, w: Array) -> tuple[float, Array]:
        x = self.point(w)
        value, slope = self.target.falling(x)
        if value >= 0.1 * WALL or not self.kinked.size:
            return value, np.concatenate((slope, np.zeros(self.kinked.size)))
        there, u, v = x[self.kinked], w[self.kinked], w[self.target.n_dim :]
        value += float(self.rates @ (u + v - np.abs(there)))
        smooth = slope[self.kinked] - self.rates * np.sign(there)
        slope = np.concatenate((slope, self.rates - smooth))
        slope[self.kinked] = self.rates + smooth
        return value, slope


@dataclass(frozen=True, eq=False)
class _Mode:
    """The end of an optimisation; ``gain`` estimates what another Newton step would add."""

    point: Array
    value: float
    slope: float
    gain: float
    message: str


def _optimised(problem: _Problem, start: Array, options: Options) -> _Mode:
    limits: dict[str, Any] = {"maxfun": options.maxeval, "maxiter": options.maxeval, "ftol": 1e-14, "gtol": 1e-8}
    method = "L-BFGS-B" if problem.kinked.size else options.optimizer
    if method == "BFGS":
        limits = {"maxiter": options.maxeval, "gtol": 1e-8}
    end = search(problem, problem.start(start), limits, method=method, bounds=problem.bounds())
    return _Mode(problem.point(end.point), end.value, float(np.max(np.abs(end.slope))), end.gain, end.message)


def _polished(problem: _Problem, end: _Mode) -> _Mode:
    """The same maximum refined to rounding error, with exact zeros kept."""
    zero = problem.kinked[end.point[problem.kinked] == 0]
    free = np.setdiff1d(np.arange(end.point.size), zero)
    if not (end.gain < _GAIN and 0 < free.size <= _NEWTON):
        return end
    peak = newton(problem.target, end.point, free)
    same_signs = np.array_equal(np.sign(peak.point[problem.kinked]), np.sign(end.point[problem.kinked]))
    if not (same_signs and peak.value >= end.value - 1e-9 * max(1.0, abs(end.value)) and peak.gain < _GAIN):
        return end
    slope = problem.target.one(peak.point)[1][free]
    return _Mode(peak.point, peak.value, float(np.abs(slope).max()), peak.gain, end.message)


def _without_priors(options: Options) -> list[Finding]:
    if options.prior == "use":
        return []
    return [Finding("pass", "prior", "", None, "priors are left out: the maximum of the (marginal) likelihood")]


def _sparsity(problem: _Problem, best: _Mode) -> list[Finding]:
    if not problem.kinked.size:
        return []
    n = int((best.point[problem.kinked] == 0).sum())
    text = f"{n} of {problem.kinked.size} parameters with a Laplace prior are exactly zero"
    return [Finding("pass", "sparsity", "", n, text)]


ENGINE = Engine(Options, run, refuse=refuse, ready=ready)
