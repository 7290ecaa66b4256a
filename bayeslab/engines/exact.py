"""Engine ``exact``: the posterior in closed form, or by quadrature over one or two scales.

Nothing is compiled and no chain is run. The group ``exact_posterior`` holds means, sds and quantiles,
exact up to rounding. The group ``posterior`` holds independent draws from the same distribution, so
that everything that uses draws (predictions, ArviZ) works as after any other engine.
"""

from __future__ import annotations

import math
import time
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.plans import Planned, numbers_of
from bayeslab.errors import OptionError
from bayeslab.job import Job, Outcome
from bayeslab.labelled import grouped, of_dataset
from bayeslab.language.spec import Spec
from bayeslab.memory import check_draws
from bayeslab.posterior.answer import Answer, Grouped, Plan, Structured
from bayeslab.posterior.groups import attributes, labelled, observed_groups
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "QUANTILES", "Options", "run"]

# Probabilities of the 89 % and 95 % equal-tailed intervals, the quartiles and the median.
QUANTILES = (0.025, 0.055, 0.25, 0.5, 0.75, 0.945, 0.975)


_NO_SCALES = "scales: maximise needs a model with a scale parameter; this one has none"


class Options(Spec):
    """Options of the independent draws, and of scale parameters."""

    draws: int = Field(1000, ge=1, description="Independent draws per chain.")
    chains: int = Field(4, ge=1, le=1024, description="Chains: the draws are split among them.")
    scales: Literal["integrate", "maximise"] = Field(
        "integrate",
        description="Treatment of scale parameters: integrate over them, or maximise the marginal likelihood (empirical"
        " Bayes, without their priors).",
    )


_PLANS = Planned[Plan]("exact", lambda posterior: posterior.exact_plan, code="no-closed-form")


def solved_as(plan: Plan, scales: str) -> Answer:
    """The answer with scale parameters treated according to the option."""
    if scales == "integrate":
        return plan.solve()
    if plan.empirical is None:
        raise OptionError(_NO_SCALES, code="not-applicable")
    return plan.empirical()


def ready(job: Job) -> None:
    """Refuse an improper or degenerate posterior, and to maximise over scale parameters in a model without any."""
    plan = _PLANS.of(job)
    if job.options.scales == "maximise" and plan.empirical is None:
        raise OptionError(_NO_SCALES, path=("inference", "scales"), code="not-applicable")
    if job.options.scales == "integrate" and plan.probe is not None:
        plan.probe()


def run(job: Job) -> Outcome:
    """Solve the model and draw from the solution."""
    begun = time.perf_counter()
    plan = _PLANS.of(job)
    answer = solved_as(plan, job.options.scales)
    solved = time.perf_counter()
    chains, draws = job.options.chains, job.options.draws
    if not isinstance(answer, Structured):
        # If the plan does not know the size of a draw, its answer does, before any draw is made.
        check_draws(draws, 0, chains, numbers_of(answer, job.data), ("inference",))
    if isinstance(answer, Structured):
        groups = _structures(job, answer, plan)
        timings = {"solve": solved - begun, "draw": time.perf_counter() - solved}
        return Outcome(groups, Verdict(_findings(answer, plan, job.options.scales)), True, timings)
    drawn = answer.draws(np.random.default_rng(job.seed), chains * draws)
    labels = {**job.data.labels, **job.posterior.bound_data().labels, **answer.labels}
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how}
    lead = {"chain": np.arange(chains), "draw": np.arange(draws)}
    shaped = {name: v.reshape(chains, draws, *v.shape[1:]) for name, v in drawn.items()}
    note = {"sampling": "independent draws from the exact posterior"}
    groups = {
        "posterior": labelled(shaped, answer.dims, labels, lead, attrs | note),
        "exact_posterior": _statistics(answer, labels, attrs),
        **observed_groups(job.posterior, attributes(job)),
    }
    for name, content in answer.groups().items() if isinstance(answer, Grouped) else ():
        arrays = {n: array for n, (_, array) in content.items()}
        dims = {n: names for n, (names, _) in content.items()}
        groups[name] = labelled(arrays, dims, labels, {}, attrs)
    timings = {"solve": solved - begun, "draw": time.perf_counter() - solved}
    return Outcome(groups, Verdict(_findings(answer, plan, job.options.scales)), True, timings)


def _structures(job: Job, answer: Any, plan: Plan) -> dict[str, Any]:
    """Independent draws of structures, and the probabilities of their edges and paths."""
    from bayeslab.engines.toolbox.structure_groups import structure_groups

    chains, draws = job.options.chains, job.options.draws
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how}
    numbers = answer.choices(np.random.default_rng(job.seed), chains * draws).reshape(chains, draws, -1)
    extra = attrs | {"score_options": answer.score_options}
    stats = {"sampling": "independent draws from the exact posterior"}
    made = structure_groups(answer.table, numbers, prior=answer.draws_of, attrs=extra, stats=stats)
    groups = {name: of_dataset(group) for name, group in made.items()}
    evidence = {} if math.isnan(answer.log_evidence) else {"log_evidence": float(answer.log_evidence)}
    known = attrs | evidence | {"log_sum": float(answer.posterior.log_sum), "draws_of": answer.draws_of}
    groups["exact_posterior"] = grouped(answer.probabilities(), answer.labels, known)
    return groups | observed_groups(job.posterior, attributes(job))


def _statistics(answer: Answer, labels: Any, attrs: dict[str, Any]) -> Any:
    """Mean, sd and quantiles along the dimension ``statistic``."""
    parts = [answer.mean(), answer.sd(), *(answer.quantile(q) for q in QUANTILES)]
    names = ["mean", "sd", *(f"q{100 * q:g}" for q in QUANTILES)]
    arrays = {name: np.stack([np.asarray(part[name], float) for part in parts]) for name in parts[0]}
    evidence = {} if math.isnan(answer.log_evidence) else {"log_evidence": float(answer.log_evidence)}
    return labelled(arrays, answer.dims, labels, {"statistic": np.array(names)}, attrs | evidence)


def _findings(answer: Answer, plan: Plan, scales: str) -> tuple[Finding, ...]:
    out = [Finding("pass", "exact", "", None, f"solved exactly: {plan.how}; the draws are independent")]
    if not math.isnan(answer.log_evidence):
        out.append(Finding("pass", "evidence", "", answer.log_evidence, f"log evidence {answer.log_evidence:.4f}"))
    if scales == "maximise":
        message = "the scales are where the marginal likelihood is largest: intervals leave their uncertainty out"
        out.append(
            Finding("warn", "scales", "", None, message, "integrate over them (the default) for honest intervals")
        )
    return tuple(out)


ENGINE = Engine(Options, run, refuse=_PLANS.refuse, ready=ready, draw_size=_PLANS.size, uses_graph=False)
