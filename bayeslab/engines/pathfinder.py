"""Engine ``pathfinder``: Gaussians found along quasi-Newton paths, reweighted towards the posterior.

Each path climbs from its own start towards a mode; half of the starts are around the centres of the priors, the others
are prior draws that lead to different modes. At each step L-BFGS has an approximate curvature, hence
a Gaussian; the one with the highest evidence lower bound (ELBO) is kept. Draws from all paths are
then resampled with Pareto-smoothed importance weights. The weights compare the posterior with the
mixture of all paths' Gaussians (the balance heuristic of Veach and Guibas 1995), not with each
draw's own Gaussian: this is no less accurate, and an unlikely draw of one path gets no extreme weight.

References
----------
Zhang, Carpenter, Gelman, Vehtari (2022). Pathfinder: parallel quasi-Newton variational inference.
Journal of Machine Learning Research 23(306), 1-49.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.approximate import outcome
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.gaussians import Mixture
from bayeslab.engines.toolbox.paths import Path, pathfinder
from bayeslab.engines.toolbox.scouts import starts
from bayeslab.engines.toolbox.target import Target
from bayeslab.errors import RunError
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior import density as posterior_density
from bayeslab.results.verdict import Finding

__all__ = ["ENGINE", "Options", "run"]


class Options(Spec):
    """Options named as in ``pymc_extras.fit_pathfinder``."""

    draws: int = Field(1000, ge=1, description="Draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    num_paths: int = Field(8, ge=1, le=1000, description="Number of paths, each from its own start.")
    num_draws_per_path: int = Field(2000, ge=1, description="Draws of each path before resampling.")
    num_elbo_draws: int = Field(25, ge=1, description="Draws to estimate the ELBO at each step.")
    maxcor: int = Field(10, ge=1, le=100, description="Steps stored by L-BFGS.")
    maxiter: int = Field(1000, ge=1, description="Maximum number of steps per path.")
    jitter: float = Field(
        2.0, ge=0, description="Starts around the centre are jittered by U(-jitter, jitter), unconstrained scale."
    )
    importance_sampling: Literal["psis", "none"] = Field(
        "psis",
        description="psis: resample with Pareto-smoothed importance weights; none: the paths' draws as they are.",
    )
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()


def ready(job: Job) -> None:
    """Check that starting values belong to parameters, and that the draws of the paths fit into memory."""
    posterior_density.ready(job)
    posterior_density.check_together(job, job.options.num_elbo_draws, "num_elbo_draws")
    posterior_density.check_together(job, job.options.num_paths * job.options.num_draws_per_path, "num_draws_per_path")


def run(job: Job) -> Outcome:
    """Follow the paths and draw."""
    options: Options = job.options
    begun = time.perf_counter()
    density = density_of(job)
    target = Target(density)
    compiled = time.perf_counter()
    rng = np.random.default_rng(job.seed)
    paths = _paths(job, target, rng)
    timings = {"compile": compiled - begun, "paths": time.perf_counter() - compiled}
    resampled = options.importance_sampling == "psis"
    chosen = "draws from their mixture chosen by importance weights" if resampled else "independent draws from them"
    return outcome(
        job,
        target,
        Mixture(tuple(path.approximation for path in paths)),
        rng,
        how=f"{len(paths)} Gaussians along L-BFGS paths; {chosen}",
        resample_from=options.num_paths * options.num_draws_per_path if resampled else 0,
        otherwise=max(paths, key=lambda path: path.elbo).approximation,
        attrs={"approximation": "pathfinder", "path_elbo": [path.elbo for path in paths]},
        findings=tuple(_lost(options.num_paths, len(paths))),
        search=True,
        timings=timings,
    )


def _paths(job: Job, target: Target, rng: np.random.Generator) -> list[Path]:
    options: Options = job.options
    paths = []
    for start in starts(target, rng, options.num_paths, options.initvals, options.jitter, at_end=False):
        path = pathfinder(
            target,
            start,
            rng,
            maxiter=options.maxiter,
            maxcor=options.maxcor,
            num_elbo_draws=options.num_elbo_draws,
        )
        if path is not None:
            paths.append(path)
    if not paths:
        raise RunError(
            "no path found a Gaussian with a finite ELBO; give initvals, or sample with method nuts",
            code="not-converged",
        )
    bounds = [path.elbo for path in paths]
    job.progress.note(f"{len(paths)} paths: best ELBO {max(bounds):.6g}, worst {min(bounds):.6g}")
    return paths


def _lost(wanted: int, n_paths: int) -> list[Finding]:
    if n_paths == wanted:
        return []
    text = f"{wanted - n_paths} of {wanted} paths failed"
    advice = "give initvals, or a smaller jitter"
    return [Finding("warn", "paths", "", wanted - n_paths, text, advice)]


ENGINE = Engine(Options, run, ready=ready)
