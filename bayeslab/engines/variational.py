"""Engine ``variational``: the posterior as a product of conjugate factors, by coordinate ascent; nothing is compiled.

The latent variables of each row and the parameters are treated as independent given the data. Each factor in turn is
set to its optimum given the others (variational EM), so the evidence lower bound, ELBO, never falls. Means are good.
Standard deviations are too small if the data do not determine the latent variables, because the dependence is ignored.
Pareto's k of importance ratios against the posterior with latent variables summed out measures how much, and the
ratios give the means and standard deviations that the draws ought to have.

References
----------
.. [1] Attias (2000). A variational Bayesian framework for graphical models. NIPS 12, 209-215.
.. [2] Bishop (2006). Pattern Recognition and Machine Learning, sections 10.1 and 10.2.
.. [3] Yao, Vehtari, Simpson, Gelman (2018). Yes, but did it work?: Evaluating variational inference. ICML, PMLR 80.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.moments import moments_finding
from bayeslab.engines.toolbox.plans import Planned
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.answer import VariationalEnd, VariationalPlan
from bayeslab.posterior.groups import attributes, labelled, observed_groups
from bayeslab.results.checks import PARETO_FAIL, judge_approximation
from bayeslab.results.psis import pareto_smoothed
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "Options", "run"]

# Searches whose ELBO is this close to the best ended at the same optimum.
_SAME = 1e-2
# Relative decrease of the bound that counts as rounding.
_ROUNDING = 1e-7
# Number of draws of two ends that are compared.
_COMPARED = 100
# Shares of the posterior in other modes from which on they are reported, and from which on the answer must not be used.
_WARN, _FAIL = 0.01, 0.1
# Each importance ratio costs a pass over the rows, so there are fewer with many rows. Pareto k of 1,000 varies by 0.3.
_RATIOS, _FEWEST, _ROWS = 20_000, 1000, 40_000_000
# Seconds between notes on a search.
_EVERY = 2.0


class Options(Spec):
    """Options of the searches and of the draws."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    restarts: int = Field(8, ge=1, le=10_000, description="Number of starting points.")
    max_iterations: int = Field(2000, ge=3, description="Maximum number of iterations per search.")
    tolerance: float = Field(1e-5, ge=0, description="Stop when the ELBO rises by less than this.")


_PLANS = Planned[VariationalPlan]("variational", lambda posterior: posterior.variational_plan, code="not-suited")


def run(job: Job) -> Outcome:
    """Search from several starts, and draw from the best approximation."""
    begun = time.perf_counter()
    options: Options = job.options
    plan = _PLANS.of(job)
    job.progress.note(f"variational EM: {plan.how}")
    rng = np.random.default_rng(job.seed)
    ends, interrupted = _searched(job, plan, rng)
    best = max(ends, key=lambda end: end.elbo)
    searched = time.perf_counter()
    drawn = best.draw(rng, options.chains * options.draws)
    weighed = None if best.weighed is None else best.weighed(rng, _ratios(job))
    labels = {**job.data.labels, **plan.labels}
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how, "elbo": best.elbo}
    extra: dict[str, Any] = {"sampling": f"independent draws from a product of factors: {plan.how}"}
    log_weights, k = (None, math.nan) if weighed is None else pareto_smoothed(weighed[1])
    extra |= {} if weighed is None else {"pareto_k": k}
    lead = {"chain": np.arange(options.chains), "draw": np.arange(options.draws)}
    shaped = {name: v.reshape(options.chains, options.draws, *v.shape[1:]) for name, v in drawn.items()}
    more = {name: dict(content) for name, content in best.groups.items()}
    groups = {
        "posterior": labelled(shaped, plan.dims, labels, lead, attrs | extra),
        **observed_groups(job.posterior, attributes(job)),
        "variational": _traces(ends, more.pop("variational", {}), labels, attrs),
    }
    for name, content in more.items():
        groups[name] = labelled(*_apart(content), labels, {}, attrs)
    notes = [Finding(note.status, note.check, "", None, note.message, note.advice) for note in best.notes]
    findings = [*_findings(ends, plan), *notes]
    if weighed is not None and log_weights is not None and k < PARETO_FAIL and np.isfinite(weighed[1]).all():
        one = {"chain": np.arange(1), "draw": np.arange(len(log_weights))}
        sample = labelled({name: v[None] for name, v in weighed[0].items()}, plan.dims, labels, one, {})
        findings += moments_finding(sample, np.exp(log_weights), plan.otherwise)
    if interrupted:
        text = f"interrupted: {len(ends)} of {options.restarts} searches ended; the best so far is reported"
        findings.append(Finding("warn", "interrupted", "", None, text, "run again for all of them"))
    verdict = (
        Verdict(tuple(findings))
        if weighed is None
        else judge_approximation(weighed[1], notes=findings, advice=plan.otherwise)
    )
    timings = {"optimise": searched - begun, "draw": time.perf_counter() - searched}
    return Outcome(groups, verdict, not interrupted, timings)


def _ratios(job: Job) -> int:
    """The number of importance ratios, by the number of rows."""
    n_rows = len(job.data.labels.get(job.data.dataset.rows, ()))
    return int(np.clip(_ROWS // max(n_rows, 1), _FEWEST, _RATIOS))


def _searched(job: Job, plan: VariationalPlan, rng: np.random.Generator) -> tuple[list[VariationalEnd], bool]:
    """The finished searches, and whether others were interrupted."""
    options: Options = job.options
    ends: list[VariationalEnd] = []
    last = time.monotonic()

    def progress(iteration: int, value: float) -> None:
        nonlocal last
        if time.monotonic() - last > _EVERY:
            last = time.monotonic()
            job.progress.note(f"start {len(ends) + 1} of {options.restarts}, iteration {iteration}: ELBO {value:.6f}")

    for generator in rng.spawn(options.restarts):
        try:
            ends.append(plan.search(generator, options.tolerance, options.max_iterations, progress))
        except KeyboardInterrupt:
            if not ends:
                raise
            return ends, True
    return ends, False


def _apart(content: Any) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]]]:
    return {n: values for n, (_, values) in content.items()}, {n: dims for n, (dims, _) in content.items()}


def _traces(ends: list[VariationalEnd], more: Any, labels: Any, attrs: dict[str, Any]) -> Any:
    """The bound of each search by iteration, NaN after its end, and traces added by the family."""
    longest = max(len(end.trace) for end in ends)
    padded = [np.pad(end.trace, (0, longest - len(end.trace)), constant_values=np.nan) for end in ends]
    arrays, dims = _apart(more)
    arrays |= {
        "elbo": np.stack(padded),
        "final_elbo": np.array([end.elbo for end in ends]),
        "converged": np.array([end.converged for end in ends]),
    }
    dims |= {"elbo": ("restart", "iteration"), "final_elbo": ("restart",), "converged": ("restart",)}
    places = {"restart": np.arange(len(ends)), "iteration": np.arange(1, longest + 1)}
    return labelled(arrays, dims, labels | places, {}, attrs)


def _findings(ends: list[VariationalEnd], plan: VariationalPlan) -> list[Finding]:
    best = max(ends, key=lambda end: end.elbo)
    text = f"an approximation; the log evidence is at least {best.elbo:.4f} (ELBO after {len(best.trace)} iterations)"
    if plan.log_copies:
        text += f", about {best.elbo + plan.log_copies:.4f} with every numbering"
    if best.converged:
        out = [Finding("pass", "ELBO", "", best.elbo, text)]
    else:
        out = [Finding("warn", "ELBO", "", best.elbo, f"{text}, still rising", "allow more with max_iterations")]
    falls = [float(np.min(np.diff(end.trace), initial=0.0)) for end in ends]
    if min(falls) < -_ROUNDING * max(1.0, abs(best.elbo)):
        text = f"the bound fell by {-min(falls):.2g} in an iteration, which it never should"
        out.append(Finding("fail", "monotone", "", min(falls), text, "sample with method nuts or gibbs"))
    if len(ends) > 1:
        reached = sum(end.elbo > best.elbo - _SAME for end in ends)
        text = f"{reached} of {len(ends)} starts led to the highest bound found"
        if reached > 1:
            out.append(Finding("pass", "restarts", "", reached, text))
        else:
            text += ": there may be higher ones"
            out.append(Finding("warn", "restarts", "", reached, text, "raise restarts until several agree"))
    return [*out, *_other_modes(ends, best, plan)]


def _apart_from(one: VariationalEnd, other: VariationalEnd) -> bool:
    """Whether the draws of two ends are disjoint along some coordinate."""
    draws = [end.draw(np.random.default_rng(0), _COMPARED) for end in (one, other)]
    for name in draws[0]:
        a, b = (each[name].reshape(_COMPARED, -1) for each in draws)
        if (np.abs(a.mean(axis=0) - b.mean(axis=0)) > 3 * np.hypot(a.std(axis=0), b.std(axis=0))).any():
            return True
    return False


def _other_modes(ends: list[VariationalEnd], best: VariationalEnd, plan: VariationalPlan) -> list[Finding]:
    """Findings about other searches whose mode has substantial mass; the bound approximates the mode's log mass."""
    modes = [best]
    for end in sorted((end for end in ends if end.converged), key=lambda end: -end.elbo):
        # With exchangeable components, equal bounds are relabellings of the same mode.
        if all(
            abs(end.elbo - other.elbo) > _SAME or (not plan.log_copies and _apart_from(end, other)) for other in modes
        ):
            modes.append(end)
    odds = float(np.exp([end.elbo - best.elbo for end in modes[1:]]).sum())
    share = odds / (1 + odds)
    if share < _WARN:
        return []
    text = f"other searches ended in modes with about {share:.0%} of the posterior, which the approximation leaves out"
    return [Finding("fail" if share > _FAIL else "warn", "modes", "", share, text, plan.otherwise)]


ENGINE = Engine(Options, run, refuse=_PLANS.refuse, draw_size=_PLANS.size, uses_graph=False)
