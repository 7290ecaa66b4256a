"""Engine ``gibbs``: Gibbs sampling, in which each block is drawn given the others; nothing is compiled.

For models with conjugate parts: the labels of a mixture and its parameters in turn; or, with the parameters integrated
out, partitions of the rows and so the number of components; or the paths of a hidden Markov model and its parameters.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.plans import Planned
from bayeslab.engines.toolbox.stepped import stepped
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.answer import GibbsPlan
from bayeslab.posterior.groups import attributes, labelled, observed_groups, relabelled
from bayeslab.results.checks import judge_mcmc
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "Options", "run"]


class Options(Spec):
    """Options of the chains, named as PyMC names them."""

    draws: int = Field(1000, ge=1, description="Draws per chain after warm-up.")
    tune: int = Field(500, ge=0, description="Warm-up draws per chain, discarded.")
    chains: int = Field(4, ge=1, le=1024, description="Number of chains.")
    cores: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Chains in parallel, in threads; the draws do not depend on it.",
    )


_PLANS = Planned[GibbsPlan]("gibbs", lambda posterior: posterior.gibbs_plan, code="not-suited")


def run(job: Job) -> Outcome:
    """Draw the chains and compute the verdict."""
    begun = time.perf_counter()
    plan = _PLANS.of(job)
    options: Options = job.options
    job.progress.note(f"Gibbs steps: {plan.how}")
    ends, complete = stepped(job, plan.chains, cores=options.cores)
    drawn = plan.chains.finish(ends)
    sampled = time.perf_counter()
    labels = {**job.data.labels, **plan.labels}
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how}
    n_chains, n_draws = next(iter(drawn.draws.values())).shape[:2]
    lead = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    groups = {
        "posterior": labelled(drawn.draws, plan.dims, labels, lead, attrs),
        "sample_stats": labelled(drawn.stats, dict.fromkeys(drawn.stats, ()), {}, lead, attrs),
        **observed_groups(job.posterior, attributes(job)),
    }
    groups, notes = relabelled(job, groups)
    notes += [Finding(note.status, note.check, "", None, note.message, note.advice) for note in drawn.notes]
    if not complete:
        text = (
            f"interrupted: {n_chains} of {options.chains} chains with {n_draws:,} of {options.draws:,} draws are kept"
        )
        notes.append(Finding("warn", "interrupted", "run", None, text, "continue it with `bayeslab fit --resume RUN`"))
    for name, content in drawn.groups.items():
        arrays = {n: values for n, (_, values) in content.items()}
        groups[name] = labelled(arrays, {n: dims for n, (dims, _) in content.items()}, labels | lead, {}, attrs)
    judgement = judge_mcmc(groups, notes=notes, rejects=False)
    verdict = Verdict(tuple(_advised(finding) for finding in judgement.findings))
    timings = {"sample": sampled - begun, "report": time.perf_counter() - sampled}
    return Outcome(groups, verdict, complete, timings)


def _advised(finding: Finding) -> Finding:
    """The finding with advice for Gibbs sampling, which has no step size or parametrisation to change."""
    if not finding.advice or finding.check not in ("R-hat", "bulk ESS", "tail ESS", "movement"):
        return finding
    if finding.check == "R-hat":
        return replace(finding, advice="run longer (tune and draws): Gibbs steps leave a mode only slowly")
    if finding.check == "movement":
        return replace(finding, advice="run longer, or begin elsewhere with another seed")
    longer, reparametrise, _ = finding.advice.partition(", or reparametrise")
    if reparametrise:
        return replace(finding, advice=longer)
    if "reparametrise" in finding.advice:
        return replace(finding, advice="many more draws: these steps mix slowly here")
    return finding


ENGINE = Engine(Options, run, refuse=_PLANS.refuse, draw_size=_PLANS.size, uses_graph=False)
