"""Engine ``map``: the mode of the posterior, by L-BFGS from several starts.

The density is maximised on the parameters' own scale, without the Jacobian of the transforms, as
``pymc.find_MAP`` does. A mode is a point: it has no intervals, it changes when the model is
reparametrised, and in a hierarchy it can be a spike at zero variance. Starts that lead to
different modes are reported.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab import registry
from bayeslab.dataset import Data
from bayeslab.engines._density import Density, start_values
from bayeslab.engines._groups import posterior_groups
from bayeslab.engines._job import Job, Outcome
from bayeslab.results.checks import point_verdict
from bayeslab.spec import Model, Spec

__all__ = ["Options", "refuse", "run"]


class Options(Spec):
    """Options of the optimiser, named as in ``pymc.find_MAP`` where it has them."""

    optimizer: Literal["L-BFGS-B", "BFGS"] = Field("L-BFGS-B", description="scipy's name of the algorithm.")
    maxeval: int = Field(5000, ge=1, description="At most so many evaluations a start.")
    restarts: int = Field(4, ge=1, le=1000, description="Number of starting points.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")


def refuse(model: Model, data: Data) -> str | None:
    """A mode of the parameters says nothing about discrete nodes that were summed out."""
    latent = registry.load("families", model.model.family).summed_out(model, data.names())
    if latent:
        return (
            f"the discrete nodes {', '.join(latent)} are summed out, and their values at a point estimate would be"
            f" draws, not a mode; use method nuts"
        )
    return None


def run(job: Job) -> Outcome:
    """Maximise the posterior density."""
    from scipy.optimize import minimize

    options: Options = job.options
    begun = time.perf_counter()
    density = Density.of(job.graph, jacobian=False)
    job.progress.note(f"compiling the model ({density.n_dim} parameters)")
    rng = np.random.default_rng(job.seed)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(point)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return 1e300, np.zeros_like(point)
        return -value, -gradient

    found = []
    for k in range(options.restarts):
        start = start_values(density, rng, options.initvals)
        limits = {"maxfun": options.maxeval, "maxiter": options.maxeval, "ftol": 1e-14, "gtol": 1e-8}
        if options.optimizer == "BFGS":
            limits = {"maxiter": options.maxeval, "gtol": 1e-8}
        found.append(minimize(objective, start, jac=True, method=options.optimizer, options=limits))
        job.progress.note(f"start {k + 1} of {options.restarts}: log density {-found[-1].fun:.6g}")
    best = min(found, key=lambda result: result.fun)
    slope = float(np.max(np.abs(best.jac)))
    # A slope is small against the curvature it could have: the change of the log density that one
    # more Newton step would bring is what counts; L-BFGS's own approximation of it is enough.
    gain = float(0.5 * best.jac @ _inverse_hessian(best) @ best.jac)
    agree = all(abs(result.fun - best.fun) < 1e-3 for result in found)
    converged = bool(np.isfinite(best.fun) and best.fun < 1e299 and gain < 1e-4)
    flat = best.x[None, None, :]
    groups = posterior_groups(job, density, flat, {"lp": np.array([[-best.fun]])}, sampler="scipy", chains=[0])
    verdict = point_verdict(converged=converged, gradient_norm=slope, message=str(best.message), restarts_agree=agree)
    return Outcome(groups, verdict, True, {"optimise": time.perf_counter() - begun})


def _inverse_hessian(result: Any) -> np.ndarray:
    inverse = result.hess_inv
    return inverse if isinstance(inverse, np.ndarray) else inverse.todense()
