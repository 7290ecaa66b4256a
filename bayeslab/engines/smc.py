"""Engine ``smc``: sequential Monte Carlo from the prior to the posterior by tempering, with the evidence.

A population of points starts as draws from the prior. The likelihood is raised to a power that grows
from 0 to 1, in steps that keep the effective sample size above a share of the population (``threshold``).
After each step points are resampled by weight and moved by Hamiltonian trajectories that leave the
tempered posterior invariant. The product of the mean weights is an unbiased estimate of the evidence.
Every chain is a separate population, so disagreement between chains about the evidence or the
posterior shows that the result is unreliable. As it starts at the prior, the method can find several modes.

References
----------
.. [1] Del Moral, Doucet, Jasra (2006). Sequential Monte Carlo samplers. Journal of the Royal
   Statistical Society B 68, 411-436.
.. [2] Jasra, Stephens, Doucet, Tsagaris (2011). Inference for Lévy-driven stochastic volatility
   models via adaptive sequential Monte Carlo. Scandinavian Journal of Statistics 38, 1-22
   (the powers from the effective size).
.. [3] Buchholz, Chopin, Jacob (2021). Adaptive tuning of Hamiltonian Monte Carlo within sequential
   Monte Carlo. Bayesian Analysis 16(3), 745-771.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.approximate import systematic
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.errors import EngineRefusal, RunError
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior import density as posterior_density
from bayeslab.posterior import graph_model
from bayeslab.posterior.groups import on_the_way, posterior_groups, relabelled, remedies
from bayeslab.posterior.log_density import LogDensity
from bayeslab.results.checks import judge_mcmc
from bayeslab.results.verdict import Finding

__all__ = ["ENGINE", "Options", "run"]

# Sd of the log evidence over runs: half a nat is small compared with a Bayes factor of 3, two are not (ours).
_SPREAD_WARN, _SPREAD_FAIL = 0.5, 2.0
_ACCEPT = 0.8  # target acceptance rate ([3] finds little difference between 0.65 and 0.9)


class Options(Spec):
    """Options named as in ``pymc.sample_smc``."""

    draws: int = Field(1000, ge=50, description="Number of points in each population.")
    chains: int = Field(4, ge=1, le=1024, description="Independent populations.")
    threshold: float = Field(0.5, gt=0, lt=1, description="Effective sample size to keep, as a share.")
    correlation_threshold: float = Field(
        0.1, gt=0, lt=1, description="Points are moved until their correlation with the previous ones is below this."
    )
    max_moves: int = Field(20, ge=1, description="Maximum number of trajectories per stage.")
    backend: Backend = backend()


def ready(job: Job) -> None:
    """Refuse improper priors."""
    posterior_density.ready(job)
    flat = graph_model.improper(job.graph) if job.machine is None else job.machine.improper
    if flat:
        raise EngineRefusal(
            f"method smc does not apply: the priors of {', '.join(flat)} have no integral, so there is nothing to start"
            f" from and no evidence; give them proper priors, or use method nuts",
            code="improper",
        )


def run(job: Job) -> Outcome:
    """Run the populations one after another."""
    options: Options = job.options
    begun = time.perf_counter()
    joint = density_of(job)
    tempered = _Tempered(Target(density_of(job, ("prior", "jacobian"))), Target(joint))
    compiled = time.perf_counter()
    wanted = [k for k in range(options.chains) if k not in job.store.finished()]
    for k, rng in enumerate(np.random.default_rng(job.seed).spawn(options.chains)):
        if k in wanted:
            start = _prior_draws(job, joint, options.draws, rng)
            job.store.write(k, _population(tempered, start, rng, options, _noting(job, k)))
    chains = [job.store.read(k) for k in range(options.chains)]
    sampled = time.perf_counter()
    flat_draws = np.stack([chain["draws"] for chain in chains])
    stats = {"lp": np.stack([chain["lp"] for chain in chains])}
    groups = posterior_groups(job, joint, flat_draws, stats, sampler="bayeslab", chains=list(range(options.chains)))
    groups, renamed = relabelled(job, groups)
    evidences = np.array([float(chain["log_evidence"][0]) for chain in chains])
    combined = float(np.logaddexp.reduce(evidences) - math.log(len(evidences)))
    spread = float(evidences.std(ddof=1)) if len(evidences) > 1 else math.nan
    groups["posterior"].attrs.update(
        {
            "approximation": "smc",
            "sampling": "populations tempered from the prior to the posterior, one a chain",
            "log_evidence": combined,
            "log_evidence_runs": evidences.tolist(),
        }
        | ({"log_evidence_sd": spread} if len(evidences) > 1 else {})
    )
    verdict = judge_mcmc(
        {name: groups[name] for name in ("posterior", "sample_stats")},
        notes=(_evidence(combined, spread, len(evidences)), *renamed),
        aside=on_the_way(job, joint),
        remedies=remedies(job, joint),
    )
    return Outcome(groups, verdict, True, {"compile": compiled - begun, "sample": sampled - compiled})


def _noting(job: Job, chain: int) -> Callable[[str], None]:
    return lambda text: job.progress.note(f"chain {chain}: {text}")


def _evidence(combined: float, spread: float, n: int) -> Finding:
    if n == 1:
        text = f"log evidence {combined:.3f} from a single run: its error is not known"
        return Finding("warn", "evidence", "", combined, text, "run at least 4 chains")
    text = f"log evidence {combined:.3f} ± {spread / math.sqrt(n):.2g} ({n} runs, sd {spread:.2g})"
    if spread < _SPREAD_WARN:
        return Finding("pass", "evidence", "", combined, text)
    advice = "more draws, or a larger threshold (more stages)"
    return Finding(
        "warn" if spread < _SPREAD_FAIL else "fail", "evidence", "", combined, f"{text}: the runs disagree", advice
    )


# ---------------------------------------------------------------------------------- the start


def _prior_draws(job: Job, density: LogDensity, n: int, rng: np.random.Generator) -> Array:
    """Draws from the prior on the unconstrained scale, shape (n, n_dim).

    Ordered priors (``Ordered``) are drawn until the order holds.
    """
    seed = int(rng.integers(2**31))
    points = density.prior_points(seed, n, 100 * n)
    if not points and job.machine is not None:  # the graph can draw from more priors
        points = graph_model.prior_points(job.graph, density.names, seed, n, 100 * n)
    if len(points) == n:
        return np.array(points)
    raise RunError("draws from the prior are hardly ever in its support; sample with method nuts", code="no-start")


# -------------------------------------------------------------------------------- a population


@dataclass(frozen=True)
class _Tempered:
    """prior^(1 - power) joint^power, with values and gradients of both parts."""

    prior: Target
    joint: Target

    def at(self, points: Array) -> _Points:
        prior, prior_slope = self.prior.many(points)
        joint, joint_slope = self.joint.many(points)
        with np.errstate(invalid="ignore"):
            likelihood = joint - prior
        likelihood[~np.isfinite(likelihood)] = -np.inf
        return _Points(points, prior, prior_slope, likelihood, joint_slope - prior_slope)


@dataclass(frozen=True)
class _Points:
    at: Array
    prior: Array
    prior_slope: Array
    likelihood: Array
    likelihood_slope: Array

    def height(self, power: float) -> Array:
        return self.prior + power * self.likelihood if power else self.prior

    def slope(self, power: float) -> Array:
        return self.prior_slope + power * self.likelihood_slope

    def take(self, which: Any) -> _Points:
        return _Points(
            self.at[which],
            self.prior[which],
            self.prior_slope[which],
            self.likelihood[which],
            self.likelihood_slope[which],
        )

    def where(self, condition: Array, other: _Points) -> _Points:
        """These points where the condition holds, else the others."""
        wide = condition[:, None]
        return _Points(
            np.where(wide, self.at, other.at),
            np.where(condition, self.prior, other.prior),
            np.where(wide, self.prior_slope, other.prior_slope),
            np.where(condition, self.likelihood, other.likelihood),
            np.where(wide, self.likelihood_slope, other.likelihood_slope),
        )


def _population(
    tempered: _Tempered, start: Array, rng: np.random.Generator, options: Options, note: Callable[[str], None]
) -> dict[str, Array]:
    points = tempered.at(start)
    power, log_evidence, stages, step = 0.0, 0.0, 0, 1.0
    while power < 1.0:
        if np.isfinite(points.likelihood).sum() < 2:
            raise RunError(
                "no draw from the prior can produce the data: check the priors against the data",
                code="probability-zero",
            )
        increase = _increase(points.likelihood, 1.0 - power, options.threshold)
        log_weights = increase * points.likelihood
        log_evidence += float(np.logaddexp.reduce(log_weights)) - math.log(len(log_weights))
        power = 1.0 if increase >= 1.0 - power else power + increase
        weights = np.exp(log_weights - log_weights.max())
        points = points.take(systematic(weights, len(weights), rng))
        points, step = _moved(tempered, points, power, step, rng, options)
        stages += 1
    note(f"{stages} stages, log evidence {log_evidence:.4f}")
    points = points.take(rng.permutation(len(start)))
    return {"draws": points.at, "lp": points.height(1.0), "log_evidence": np.array([log_evidence])}


def _increase(likelihood: Array, most: float, threshold: float) -> float:
    """The largest increase of the power that keeps the effective sample size above the threshold [2]_."""

    def size(increase: float) -> float:
        weights = np.exp(increase * (likelihood - likelihood.max()))
        return float(weights.sum() ** 2 / (weights**2).sum()) / len(weights)

    if size(most) >= threshold:
        return most
    # If part of the population has likelihood zero, the size cannot be kept; then half of it is.
    wanted = threshold * min(1.0, size(0.0) if np.isfinite(likelihood).all() else np.isfinite(likelihood).mean())
    low, high = math.log(1e-12 * most), math.log(most)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if size(math.exp(middle)) > wanted else (low, middle)
    return math.exp(low)


def _moved(
    tempered: _Tempered, points: _Points, power: float, step: float, rng: np.random.Generator, options: Options
) -> tuple[_Points, float]:
    """Hamiltonian moves, with the population's covariance as metric, until points have decorrelated."""
    start = points.at
    factor = _factor(start)
    for _ in range(options.max_moves):
        points, rate = _trajectory(tempered, points, power, step, factor, rng)
        step = float(np.clip(step * math.exp(rate - _ACCEPT), 1e-3, 1.5))
        if _correlation(start, points.at) < options.correlation_threshold:
            break
    return points, step


def _factor(points: Array) -> Array:
    """Triangular factor of the covariance, shrunk towards its diagonal if there are few points."""
    n, d = points.shape
    covariance = np.atleast_2d(np.cov(points, rowvar=False))
    diagonal = np.diag(np.diag(covariance) + 1e-10)
    share = d / (d + n)
    return np.asarray(np.linalg.cholesky((1 - share) * covariance + share * diagonal))


def _trajectory(
    tempered: _Tempered, points: _Points, power: float, step: float, factor: Array, rng: np.random.Generator
) -> tuple[_Points, float]:
    """One Hamiltonian trajectory of about a quarter period, accepted or not for each point."""
    n, d = points.at.shape
    length = step * d**-0.25
    n_steps = max(1, round(rng.uniform(0.5, 1.5) * min(math.pi / 2 / length, 30)))
    momentum = rng.standard_normal((n, d))
    energy = points.height(power) - 0.5 * (momentum**2).sum(axis=1)
    end = points
    with np.errstate(all="ignore"):
        for _ in range(n_steps):
            momentum = momentum + 0.5 * length * end.slope(power) @ factor
            end = tempered.at(end.at + length * momentum @ factor.T)
            momentum = momentum + 0.5 * length * end.slope(power) @ factor
        change = end.height(power) - 0.5 * (momentum**2).sum(axis=1) - energy
    change = np.where(np.isfinite(change), change, -np.inf)
    accepted = np.log(rng.random(n)) < change
    return end.where(accepted, points), float(np.exp(np.minimum(change, 0.0)).mean())


def _correlation(before: Array, after: Array) -> float:
    """The largest correlation of an element with its value before."""
    a, b = before - before.mean(axis=0), after - after.mean(axis=0)
    with np.errstate(all="ignore"):
        each = (a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return float(np.nanmax(np.abs(each), initial=0.0))


ENGINE = Engine(Options, run, ready=ready)
