"""Latent features by EM: factor analysis, principal components, and binary patterns summed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, Reason
from bayeslab.families.latent_features.model import Resolved, Written, refused_patterns
from bayeslab.latents.expectation_maximisation import restarted
from bayeslab.latents.features.binary_em import BinaryModes, BinaryProblem
from bayeslab.latents.features.factor_analysis import FLOOR, FactorPrior, FactorProblem, Patterns, principal_components
from bayeslab.latents.features.feature_matching import principal_axes
from bayeslab.posterior.answer import EMPlan

__all__ = ["em", "factor_problem", "maximum_likelihood"]

# Share of a column's sd below which noise counts as zero: the density hardly depends on it there.
_NO_NOISE = 0.01


def em(resolved: Resolved) -> EMPlan | str:
    """Plan of EM for the posterior mode or the maximum likelihood, or the reason why it does not apply."""
    if resolved.binary and (why := refused_patterns(resolved)) is not None:
        return Reason(f"{why}; use gibbs", code=why.code)
    made: Any = _binary if resolved.binary else factor_problem
    what = "patterns of features summed out" if resolved.binary else "scores integrated out"
    likelihood = made(resolved, False)
    return EMPlan(
        how=f"{resolved.features} features, their {what} for {len(resolved.rows):,} rows",
        problem=lambda prior: made(resolved, prior),
        start=likelihood.start,
        values=lambda theta: _values(resolved, theta),
        dims={n: d for n, d in resolved.dims.items() if n != "scale"},
        placed=lambda theta, given: {
            **theta,
            **{name: value.reshape(np.shape(theta[name])) for name, value in given.items()},
        },
        labels=resolved.labels,
        kinds={"noise": "positive", "probability": "unit"},
        bounds=_bounds(resolved, likelihood),
    )


def _bounds(resolved: Resolved, likelihood: Any) -> dict[str, tuple[Any, float]]:
    if resolved.binary:
        return {"probability": (0.0, 1.0)}
    if isinstance(likelihood, FactorProblem) and likelihood.known_noise is None:
        floor = _NO_NOISE / FLOOR * likelihood.floor
        return {"noise": (float(floor[0]) if likelihood.shared else floor, np.inf)}
    return {}


def _values(resolved: Resolved, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values by name in results: normal factors along principal axes, binary ones by size of their loadings."""
    out = {n: np.asarray(theta[n]) for n in resolved.dims if n in theta}
    loading = out["loading"]
    if resolved.binary:
        order = np.argsort(-(loading**2).sum(axis=0), kind="stable")
        out["loading"], out["probability"] = loading[:, order], out["probability"][order]
    else:
        out["loading"] = principal_axes(loading, np.broadcast_to(theta["noise"], (len(loading),)))
    if resolved.dims["noise"] == ():
        out["noise"] = theta["noise"][0]
    return out


def _known(resolved: Resolved) -> float | None:
    return resolved.noise[0] if isinstance(resolved.noise[0], float) else None


def _half_normal(resolved: Resolved) -> np.ndarray:
    """Scales of the half-normal priors of the noise."""
    out = []
    for given in resolved.noise:
        if isinstance(given, Written) and given.word == "HalfNormal" and "sigma" in given.arguments:
            out.append(given.arguments["sigma"])
        elif isinstance(given, Written):
            path = ("model", "priors", "noise")
            raise ModelError(
                f"the steps of EM need the prior HalfNormal(sigma) of noise, not {given}", path=path, code="bad-prior"
            )
        else:
            out.append(1.0)
    return np.array(out)


def _scale(resolved: Resolved) -> np.ndarray:
    if any(isinstance(s, Written) for s in resolved.scale):
        raise ModelError(
            "loadings and their scale have no joint mode (all of them at zero); give priors: {scale: a number}",
            path=("model", "priors", "scale"),
            code="no-mode",
        )
    return np.broadcast_to(np.array([s for s in resolved.scale if isinstance(s, float)]), (len(resolved.columns),))


def factor_problem(resolved: Resolved, prior: bool) -> FactorProblem:
    """The EM problem of normal factors, with or without the model's priors."""
    assert resolved.features is not None
    factor_prior = None
    if prior:
        factor_prior = FactorPrior(_scale(resolved), _half_normal(resolved), resolved.centre, resolved.offset_scale)
    return FactorProblem(
        Patterns.of(resolved.rows),
        resolved.features,
        len(resolved.noise) == 1,
        resolved.centre,
        resolved.spread,
        resolved.offset,
        factor_prior,
        _known(resolved),
    )


def _binary(resolved: Resolved, prior: bool) -> BinaryProblem:
    assert resolved.features is not None
    priors = None
    if prior:
        if min(resolved.probability) < 1:
            raise ModelError(
                "the prior of the probabilities has no mode inside",
                path=("model", "priors", "probability"),
                code="no-mode",
            )
        priors = BinaryModes(
            float(_scale(resolved)[0]),
            float(_half_normal(resolved)[0]),
            resolved.probability,
            float(resolved.offset_scale[0]),
        )
    return BinaryProblem(
        np.ascontiguousarray(resolved.rows), resolved.features, resolved.offset, _known(resolved), priors
    )


def maximum_likelihood(resolved: Resolved) -> tuple[float, int]:
    """The highest log likelihood, in closed form or from several searches, and the number of free parameters."""
    if resolved.features is None or (resolved.binary and refused_patterns(resolved) is not None):
        return float("nan"), 0
    problem: Any = _binary(resolved, False) if resolved.binary else factor_problem(resolved, False)
    closed = isinstance(problem, FactorProblem) and problem.shared and problem.known_noise is None
    if closed and not np.isnan(resolved.rows).any():
        theta = principal_components(resolved.rows, resolved.features, with_mean=resolved.offset)
        return float(problem.expect(theta)[0]), problem.n_free
    result = restarted(
        problem, problem.start, restarts=4, rng=np.random.default_rng(0), variant="accelerated", tolerance=1e-7
    )
    return result.best.log_likelihood, problem.n_free
