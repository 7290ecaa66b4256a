"""Engine ``loopy``: marginal probabilities of discrete variables by loopy belief propagation; nothing is compiled.

Variables and potentials exchange messages until none changes. Without loops the beliefs are the exact marginals. With
loops they are an approximation, usually too certain, of a size that the messages do not tell; fixed points are the
stationary points of the Bethe free energy [1]_, and there may be several or none. The group ``beliefs`` has the
marginal probabilities. The group ``posterior`` has draws that are independent from variable to variable.

References
----------
.. [1] Yedidia, Freeman, Weiss (2005). Constructing free-energy approximations and generalized belief propagation
   algorithms. IEEE Transactions on Information Theory 51, 2282-2312.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.plans import Planned
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.answer import BeliefPlan, Beliefs
from bayeslab.posterior.groups import attributes, labelled, observed_groups
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "Options", "run"]


class Options(Spec):
    """Options of the messages and of the draws."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    damping: float | None = Field(
        None, ge=0, lt=1, description="Weight of the old message; default: 0.5 with loops, 0 without."
    )
    tolerance: float = Field(1e-8, gt=0, description="Stop when no message changes by more than this.")
    max_sweeps: int = Field(1000, ge=1, description="Maximum number of sweeps over all variables.")
    schedule: Literal["sequential", "residual"] = Field(
        "sequential", description="Order of messages: breadth first, or the largest change first."
    )


_PLANS = Planned[BeliefPlan]("loopy", lambda posterior: posterior.belief_plan, code="not-suited")


def run(job: Job) -> Outcome:
    """Pass messages to convergence, and draw from the beliefs."""
    begun = time.perf_counter()
    options: Options = job.options
    plan = _PLANS.of(job)
    job.progress.note(f"loopy belief propagation: {plan.how}")
    messages = {name: getattr(options, name) for name in ("damping", "tolerance", "max_sweeps", "schedule")}
    end, more, beliefs = plan.solve(**messages)
    solved = time.perf_counter()
    rng, shape = np.random.default_rng(job.seed), (options.chains, options.draws)
    drawn = {}
    for name, p in beliefs.items():
        cuts = np.cumsum(p, axis=-1)[..., :-1]
        codes = (rng.random((*shape, *p.shape[:-1], 1)) > cuts).sum(axis=-1)
        drawn[name] = (codes[..., None] == np.arange(p.shape[-1])).astype(np.int8)
    labels = {**job.data.labels, **plan.labels}
    estimate = end.bethe_log_evidence + plan.log_scale
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how, "bethe_log_partition": estimate}
    note = {"sampling": "independent draws of each variable from its belief"}
    lead = {"chain": np.arange(options.chains), "draw": np.arange(options.draws)}
    groups = {
        "posterior": labelled(drawn, plan.dims, labels, lead, attrs | note),
        "beliefs": labelled(beliefs, plan.dims, labels, {}, attrs),
        **observed_groups(job.posterior, attributes(job)),
    }
    for name, content in more.items():
        arrays = {n: values for n, (_, values) in content.items()}
        groups[name] = labelled(arrays, {n: dims for n, (dims, _) in content.items()}, labels, {}, attrs)
    timings = {"solve": solved - begun, "draw": time.perf_counter() - solved}
    return Outcome(groups, Verdict(_findings(end, estimate)), True, timings)


def _findings(end: Beliefs, estimate: float) -> tuple[Finding, ...]:
    if not end.converged:
        text = f"messages still change by {end.largest_change:.2g} after {end.n_sweeps} sweeps: do not use the beliefs"
        advice = "raise damping or max_sweeps, or take method gibbs"
        return (Finding("fail", "messages", "", end.largest_change, text, advice),)
    out = [Finding("pass", "messages", "", end.n_sweeps, f"messages converged after {end.n_sweeps} sweeps")]
    if end.has_loops:
        text = f"an approximation of unknown error, since there are loops; Bethe log partition {estimate:.4f}"
        out.append(Finding("warn", "loops", "", None, text, "compare with method exact where it fits, or gibbs"))
    else:
        text = f"no loops: the beliefs are exact; log partition {estimate:.4f}"
        out.append(Finding("pass", "loops", "", estimate, text))
    return tuple(out)


ENGINE = Engine(Options, run, refuse=_PLANS.refuse, draw_size=_PLANS.size, uses_graph=False)
