"""Engine ``laplace``: a Gaussian with the curvature of the log density at the posterior's mode.

The mode is that of the density on the unconstrained scale (with the Jacobian of the transforms),
where a Gaussian fits best. The approximation is exact for a Gaussian posterior, and good if there are
many observations per parameter; it covers one mode only and has no skewness. Other modes with a
substantial part of the posterior mass, including mirror images, fail the verdict. The normalising
constant of the Gaussian approximates the evidence.

References
----------
Tierney, Kadane (1986). Accurate approximations for posterior moments and marginal densities.
Journal of the American Statistical Association 81, 82-86.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from pydantic import Field

from bayeslab.constants import LOG_2PI
from bayeslab.engines.toolbox.approximate import has_evidence, outcome
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.gaussians import Gaussian
from bayeslab.engines.toolbox.modes import DRAWS, EVALUATIONS, SHARE, Draws, apart, left_out, log_mass, suspects
from bayeslab.engines.toolbox.optimiser import Optimum, Peak, maxima, newton
from bayeslab.engines.toolbox.scouts import starts
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.errors import RunError
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.density import ready
from bayeslab.results.verdict import Finding

__all__ = ["ENGINE", "Options", "run"]


class Options(Spec):
    """Options of the optimiser (as of method map) and of the draws."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    restarts: int = Field(4, ge=1, le=1000, description="Number of starting points.")
    maxeval: int = Field(5000, ge=1, description="Maximum number of evaluations per start.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()


def run(job: Job) -> Outcome:
    """Find the mode and its curvature, and draw from the Gaussian."""
    options: Options = job.options
    begun = time.perf_counter()
    density = density_of(job)
    target = Target(density)
    compiled = time.perf_counter()
    rng = np.random.default_rng(job.seed)
    points = starts(target, rng, options.restarts, options.initvals)
    optima = maxima(target, points, options.maxeval, job.progress.note)
    best = newton(target, optima[0].point)
    covariance = _inverse(target, best)
    gaussian = Gaussian(best.point, np.linalg.cholesky(covariance))
    timings = {"compile": compiled - begun, "optimise": time.perf_counter() - compiled}
    log_evidence = best.value + 0.5 * density.n_dim * LOG_2PI + float(np.log(gaussian.diagonal).sum())
    return outcome(
        job,
        target,
        gaussian,
        rng,
        how="independent draws from a Gaussian at the mode, with the curvature there (unconstrained scale)",
        log_evidence=log_evidence if has_evidence(density) else None,
        attrs={"approximation": "laplace"},
        findings=(_heights(optima),),
        modes=_left_out(target, best, optima, gaussian, rng.spawn(1)[0]),
        timings=timings,
    )


def _inverse(target: Target, mode: Peak) -> Array:
    """The covariance at the mode; refuses a parameter without curvature."""
    names, curvature = target.density.parameter_names(), mode.curvature
    if not np.isfinite(curvature).all():
        # The search followed a spike until the density overflowed: along the parameter that is farthest out.
        raise _spike(names[int(np.argmax(np.abs(mode.point)))])
    bend = -np.diagonal(curvature)
    # Parameters are scaled to unit curvature, so that flatness does not depend on their units.
    unit = 1 / np.sqrt(np.where(bend > 0, bend, 1.0))
    values, vectors = np.linalg.eigh(-curvature * unit * unit[:, None])
    if values[0] <= 1e-10 * max(float(values[-1]), 0.0):
        raise _spike(names[int(np.argmax(np.abs(vectors[:, 0])))])
    return ((vectors / values) @ vectors.T) * unit * unit[:, None]


def _spike(parameter: str) -> RunError:
    return RunError(
        f"the log density does not bend downwards along '{parameter}' at its highest point: there is no Gaussian there"
        f" (a spike at zero variance, or nothing that informs it); sample with method nuts",
        code="degenerate",
    )


def _heights(optima: list[Optimum]) -> Finding:
    best, other = optima[0].value, optima[-1].value
    if best - other < 1e-3:
        return Finding("pass", "restarts", "", None, "all starting points led to modes of the same height")
    text = f"starting points led to different modes (log density {best:.4g} and {other:.4g}); only the highest is seen"
    advice = "sample with method smc, or order interchangeable components with Ordered(...)"
    return Finding("warn", "restarts", "", best - other, text, advice)


def _left_out(
    target: Target, best: Peak, optima: list[Optimum], gaussian: Gaussian, rng: np.random.Generator
) -> tuple[Finding, ...]:
    """Findings about other modes, including mirror images, whose normal approximation has substantial mass."""
    points = gaussian.draw(rng, DRAWS)
    draws = Draws(points, target.many(points)[0], EVALUATIONS)
    ends = [optimum.point for optimum in optima[1:]] + suspects(target, draws, rng, best.point)
    modes: list[Peak] = []
    for point in ends:
        known = (best, *modes)
        if not all(apart(mode, point) for mode in known):
            continue
        mode = newton(target, point)
        if all(apart(other, mode.point) for other in known) and log_mass(mode) > log_mass(best) + np.log(SHARE):
            modes.append(mode)
    gap = np.sqrt(np.maximum(-np.diagonal(best.curvature), 0.0))
    return left_out(target, modes, log_mass(best), best.point, gap)


ENGINE = Engine(Options, run, ready=ready)
