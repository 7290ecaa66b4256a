"""Engine ``advi``: the Gaussian on the unconstrained scale that is nearest to the posterior.

The Gaussian q minimises the Kullback-Leibler divergence KL(q ‖ posterior), that is, it maximises the
evidence lower bound, ELBO = E_q[log p(data, θ) - log q(θ)] ≤ log p(data). The means of a good fit
are accurate; a mean-field q ignores correlations and so understates uncertainty.

The optimiser is Adam (Kingma and Ba 2015) on reparametrised gradients, with mirrored pairs of
draws, in coordinates scaled by the best Gaussian of one Pathfinder path, so that the learning rate
does not depend on the units of the data.

References
----------
Kucukelbir, Tran, Ranganath, Gelman, Blei (2017). Automatic differentiation variational inference.
Journal of Machine Learning Research 18(14), 1-45.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab.constants import LOG_2PI
from bayeslab.engines.toolbox.approximate import outcome
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.gaussians import Gaussian
from bayeslab.engines.toolbox.paths import Path, pathfinder
from bayeslab.engines.toolbox.scouts import starts
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.errors import RunError
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior import density as posterior_density
from bayeslab.results.verdict import Finding

__all__ = ["ENGINE", "Options", "run"]

_WINDOW = 10  # the ELBO trace is stored as means of ten times this many parts of the run
_AROUND = 10  # starts: half around the centres of the priors (the first valid one is used), half from the priors
_APART, _COMPARABLE = 6.0, 7.0  # modes are reported at this distance (sds) if the lower is at most so many nats worse
_SETTLED = 0.1  # allowed rise of the ELBO over the last tenth, in nats


class Options(Spec):
    """Options named as in ``pymc.fit``."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    fit: Literal["mean_field", "full_rank"] = Field("mean_field", description="Covariance of the Gaussian.")
    n: int = Field(10_000, ge=100, description="Iterations of the optimiser.")
    obj_n_mc: int = Field(2, ge=1, description="Antithetic pairs of draws per gradient.")
    learning_rate: float = Field(0.02, gt=0, description="Adam's step in posterior sds; decays to zero.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()


def ready(job: Job) -> None:
    """Check that starting values belong to parameters, and that the draws of a gradient fit into memory."""
    posterior_density.ready(job)
    posterior_density.check_together(job, 2 * job.options.obj_n_mc, "obj_n_mc")


def run(job: Job) -> Outcome:
    """Maximise the ELBO and draw."""
    options: Options = job.options
    begun = time.perf_counter()
    density = density_of(job)
    target = Target(density)
    compiled = time.perf_counter()
    rng = np.random.default_rng(job.seed)
    origin, scale, elsewhere = _coordinates(target, options, rng)
    gaussian, trace = _ascend(job, target, origin, scale, rng)
    timings = {"compile": compiled - begun, "optimise": time.perf_counter() - compiled}
    kind = "uncorrelated" if options.fit == "mean_field" else "correlated"
    return outcome(
        job,
        target,
        gaussian,
        rng,
        how=f"independent draws from the {kind} Gaussian with the highest ELBO (unconstrained scale)",
        attrs={"approximation": options.fit, "elbo_trace": trace.tolist()},
        findings=(_settled(trace), *elsewhere),
        search=True,
        timings=timings,
    )


def _coordinates(target: Target, options: Options, rng: np.random.Generator) -> tuple[Array, Array, list[Finding]]:
    """The starting point, the scale of each direction there, and findings about starts that led elsewhere."""
    around = starts(target, rng, _AROUND, options.initvals, at_end=False)
    paths: list[Path] = []
    for k, start in enumerate(around):
        if paths and k < _AROUND // 2:
            continue  # one start around the centre suffices
        path = pathfinder(target, start, rng, maxiter=1000, maxcor=10, num_elbo_draws=10)
        paths += [] if path is None else [path]
    if not paths:
        raise RunError(
            "the density is zero or undefined around every start; give initvals, or sample with method nuts",
            code="no-start",
        )
    best = max(paths, key=lambda path: path.elbo)
    return best.approximation.mean, best.approximation.sd(), _elsewhere(best, paths)


def _elsewhere(best: Path, paths: list[Path]) -> list[Finding]:
    """Findings about paths that ended far from the best one but not much lower: possible modes of similar mass."""
    mean, sd = best.approximation.mean, best.approximation.sd()
    for path in paths:
        apart = np.abs(path.approximation.mean - mean) / np.maximum(sd, path.approximation.sd())
        if apart.max() > _APART and best.elbo - path.elbo < _COMPARABLE:
            where = f"at ELBO {path.elbo:.4g}, this one at {best.elbo:.4g}"
            text = f"starting points led to different modes (the other {where}); only one is seen"
            advice = "sample with method smc, or order interchangeable components with Ordered(...)"
            return [Finding("warn", "restarts", "", best.elbo - path.elbo, text, advice)]
    return []


@dataclass(slots=True)
class _Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) for maximisation."""

    first: Array
    second: Array
    t: int = 0

    def step(self, gradient: Array, rate: float) -> Array:
        self.t += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.t), self.second / (1 - 0.999**self.t)
        result: Array = rate * first / (np.sqrt(second) + 1e-8)
        return result


def _ascend(job: Job, target: Target, origin: Array, scale: Array, rng: np.random.Generator) -> tuple[Gaussian, Array]:
    """The Gaussian and the trace of the ELBO (means of hundredths of the run)."""
    options: Options = job.options
    d, full = target.n_dim, options.fit == "full_rank"
    below = np.tril_indices(d, -1)
    state = np.zeros(2 * d + (len(below[0]) if full else 0))  # mean, log diagonal, below the diagonal
    adam = _Adam(np.zeros_like(state), np.zeros_like(state))
    average, weight = np.zeros_like(state), 0.0
    parts: list[list[float]] = [[] for _ in range(10 * _WINDOW)]
    constant = 0.5 * d * (1 + LOG_2PI) + float(np.log(scale).sum())
    for t in range(options.n):
        z = rng.standard_normal((options.obj_n_mc, d))
        z = np.concatenate((z, -z))
        factor = np.diag(np.exp(state[d : 2 * d]))
        if full:
            factor[below] = state[2 * d :]
        values, slopes = target.many(origin + scale * (state[:d] + z @ factor.T))
        slopes = slopes * scale
        usable = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
        if usable.any():
            outer = slopes[usable].T @ z[usable] / usable.sum()
            gradient = np.concatenate(
                (slopes[usable].mean(axis=0), np.diag(outer) * np.diag(factor) + 1, outer[below] if full else [])
            )
            state = state + adam.step(gradient, options.learning_rate * (1 - t / options.n))
            parts[t * len(parts) // options.n].append(float(values[usable].mean() + constant + state[d : 2 * d].sum()))
        if t >= options.n // 2:
            average, weight = average + state, weight + 1
        if (t + 1) % max(options.n // 4, 1) == 0:
            job.progress.note(
                f"iteration {t + 1:,} of {options.n:,}: ELBO {np.mean(parts[t * len(parts) // options.n]):.6g}"
            )
    state = average / weight
    factor = np.diag(np.exp(state[d : 2 * d]))
    if full:
        factor[below] = state[2 * d :]
    trace = np.array([np.mean(part) if part else -np.inf for part in parts])
    whole = scale[:, None] * factor
    return Gaussian(origin + scale * state[:d], whole if full else np.diag(whole)), trace


def _settled(trace: Array) -> Finding:
    """The finding about convergence: whether the ELBO still rises."""
    last, before = trace[-_WINDOW:], trace[-2 * _WINDOW : -_WINDOW]
    if not (np.isfinite(last).all() and np.isfinite(before).all()):
        text = "the density was zero or infinite at all draws for part of the run"
        return Finding("fail", "ELBO", "", None, text, "give tighter priors, or sample with method nuts")
    rise = float(last.mean() - before.mean())
    error = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / _WINDOW)
    if rise <= _SETTLED + 3 * error:
        return Finding(
            "pass", "ELBO", "", rise, f"settled at {last.mean():.4g} (changed by {rise:.2g} over the last tenth)"
        )
    text = f"still rising: by {rise:.2g} over the last tenth, to {last.mean():.4g}"
    return Finding("warn", "ELBO", "", rise, text, "more iterations (n), or a larger learning_rate")


ENGINE = Engine(Options, run, ready=ready)
