"""The outcome of engines with an approximation: draws, importance ratios, verdict.

The approximations are fitted to the compiled density that NUTS uses (:class:`Density`), which is
cached on disk. ``pymc.fit``, ``pymc_extras.fit_pathfinder`` and ``pymc_extras.fit_laplace`` are not
used, because they compile their own graphs in every process, which takes tens of seconds for models
that are approximated in less than one. The flat vector is that of ``Density``, so draws need no
mapping between two orders of variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.engines.toolbox.gaussians import Approximation
from bayeslab.engines.toolbox.modes import DRAWS, EVALUATIONS, Draws, elsewhere
from bayeslab.engines.toolbox.moments import moments_finding
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.errors import RunError
from bayeslab.job import Job, Outcome
from bayeslab.posterior.groups import posterior_groups, relabelled, remedies
from bayeslab.posterior.log_density import LogDensity
from bayeslab.results.checks import PARETO_FAIL, judge_approximation
from bayeslab.results.psis import pareto_smoothed
from bayeslab.results.verdict import Finding

__all__ = ["has_evidence", "outcome", "systematic"]

_FEW = 100  # effective sample size of weights below which resampling repeats a few points


def has_evidence(density: LogDensity) -> bool:
    """Whether the joint density integrates to the evidence.

    It does not with improper priors, nor with ordered ones, whose density PyMC restricts to ordered
    vectors without dividing by the probability of the order.
    """
    return not density.improper and not density.ordered


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
    modes: tuple[Finding, ...] = (),
    search: bool = False,
    timings: Mapping[str, float],
) -> Outcome:
    """Draws from an approximation, their importance ratios, and the verdict.

    Parameters
    ----------
    resample_from
        If not 0, the number of draws from which to resample with Pareto-smoothed importance weights.
    otherwise
        The approximation to draw from if the effective sample size of the weights is too small for resampling.
    log_evidence
        The log normalising constant of the approximation; kept only if the approximation is usable.
    modes
        Findings about modes that the approximation misses, used unless these are relabellings of this mode.
    search
        Whether to search for such modes.
    """
    chains, draws = job.options.chains, job.options.draws
    n = chains * draws
    points = approximation.draw(rng, max(n, resample_from))
    log_q = approximation.log_density(points)
    log_p = target.many(points)[0]
    if not np.isfinite(log_p).any():
        raise RunError("the approximation lies where the density is zero; sample with method nuts", code="degenerate")
    ratios = log_p - log_q
    if search:
        some = np.linspace(0, len(points) - 1, min(DRAWS, len(points))).astype(int)
        covered = float(np.logaddexp.reduce(ratios)) - math.log(len(ratios))
        modes = elsewhere(target, Draws(points[some], log_p[some], EVALUATIONS), covered, rng.spawn(1)[0])
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
        notes += moments_finding(groups["posterior"], np.exp(log_weights))
    if modes and not renamed:
        notes += modes
        log_evidence = None
    if renamed and log_evidence is not None:
        notes.append(_of_one_labelling(log_evidence))
        log_evidence = None
    bound = {} if resample_from or not np.isfinite(ratios).all() else {"elbo": float(ratios.mean())}
    if log_evidence is not None and k < PARETO_FAIL:
        bound["log_evidence"] = log_evidence
    groups["posterior"].attrs.update({"sampling": how, "pareto_k": k, **attrs, **bound})
    advice = remedies(job, target.density)("sample with method nuts")
    verdict = judge_approximation(
        ratios, resampled=bool(resample_from), log_evidence=log_evidence, notes=notes, advice=advice
    )
    return Outcome(groups, verdict, True, dict(timings))


def _of_one_labelling(log_evidence: float) -> Finding:
    """The finding that the evidence of one Gaussian omits the copies of the posterior under other labellings."""
    text = (
        f"log evidence {log_evidence:.4f} by the approximation's normaliser is of one labelling only: the other"
        " labellings of the exchangeable states contribute as much. It is not stored"
    )
    return Finding("warn", "evidence", "", log_evidence, text, "take method smc, or grid, for the evidence")


def systematic(weights: Array, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Systematic resampling: indices of ``n`` points by their weights, with one random number (Kitagawa 1996)."""
    edges = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(edges, (np.arange(n) + rng.random()) / n), len(weights) - 1)
