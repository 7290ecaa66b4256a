"""Engine ``em``: the most probable parameters by expectation maximisation, what is hidden summed out exactly.

The result is a point estimate: the mode of the posterior density with the model's priors, the maximum of the
likelihood without them. It has no uncertainty, unless standard errors from the curvature at the maximum are
requested. Several random starts show whether there are other maxima.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.plans import Planned
from bayeslab.errors import EngineRefusal, ModelError, OptionError, Reason, hint
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.latents.expectation_maximisation import Problem, Restarts, Smooth, Variant, restarted, standard_errors
from bayeslab.posterior.answer import EMPlan
from bayeslab.posterior.groups import attributes, labelled, observed_groups
from bayeslab.posterior.latent_problem import LatentProblem
from bayeslab.results.verdict import Finding, Verdict

__all__ = ["ENGINE", "Options", "run"]

# Searches whose log posterior is this close to the best ended at the same maximum.
_SAME = 1e-2
# A maximum reached by a smaller share of the starts, or by one start only, may not be the global one.
_FEW = 0.1
# An estimate closer to a bound than this counts as being at the bound.
_AT_BOUND = 1e-6
# Seconds between notes on a search.
_EVERY = 2.0


class Options(Spec):
    """Options of the searches."""

    restarts: int = Field(4, ge=1, le=10_000, description="Number of random starting points.")
    max_iterations: int = Field(2000, ge=1, description="Maximum number of steps per search.")
    tolerance: float = Field(
        1e-5, ge=0, description="Stop when the remaining gain in log posterior is estimated to be smaller."
    )
    variant: Variant | Literal["hard"] = Field(
        "accelerated",
        description="em: plain; accelerated: SQUAREM; newton: EM, then BFGS; gradient: projected gradient ascent;"
        " stochastic: latent variables are drawn, not summed out; hard: they are set to their mode (mixtures).",
    )
    prior: Literal["use", "ignore"] = Field("use", description="Mode of the posterior, or maximum of the likelihood.")
    standard_errors: bool = Field(False, description="Compute standard errors from the curvature at the maximum.")
    cores: int = Field(1, ge=1, le=1024, description="Searches in parallel; results do not depend on it.")
    initvals: dict[str, Any] | None = Field(
        None, description="Start values of searches, with the names and shapes of the results; others are random."
    )

    @field_validator("initvals", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Arrays converted to lists, which a run folder can store."""
        if not isinstance(value, Mapping):
            return value
        return {str(name): np.asarray(values).tolist() for name, values in value.items()}


_PLANS = Planned[EMPlan]("em", lambda posterior: posterior.em_plan, code="not-suited")


def ready(job: Job) -> None:
    """Check that priors have a mode, that the family has the variant, and that start values are valid."""
    plan = _PLANS.of(job)
    if job.options.variant == "hard" and plan.search is None:
        raise EngineRefusal("variant hard is for mixtures; take accelerated, em or stochastic", code="not-suited")
    if job.options.variant == "gradient" and plan.search is not None:
        raise EngineRefusal(
            "variant gradient is not offered for mixtures; take accelerated, newton, em or hard", code="not-suited"
        )
    _problem(plan, job.options)
    _initvals(plan, job.options)


def run(job: Job) -> Outcome:
    """Search from several starts and report the best maximum."""
    begun = time.perf_counter()
    options: Options = job.options
    plan = _PLANS.of(job)
    job.progress.note(f"EM: {plan.how}")
    problem = _problem(plan, options)
    searches, notes = _searched(job, plan, problem)
    searched = time.perf_counter()
    best = searches.best
    values = plan.values(best.parameters)
    labels = {**job.data.labels, **plan.labels}
    attrs = attributes(job) | {"inference_library": "bayeslab", "how": plan.how, "log_likelihood": best.log_likelihood}
    lead = {"chain": np.arange(1), "draw": np.arange(1)}
    groups = {
        "posterior": labelled(
            {n: np.asarray(v)[None, None] for n, v in values.items()}, plan.dims, labels, lead, attrs
        ),
        "sample_stats": labelled({"lp": np.array([[best.log_posterior]])}, {"lp": ()}, {}, lead, attrs),
        "em": _traces(searches, attrs),
        **observed_groups(job.posterior, attributes(job)),
    }
    findings = [*_findings(searches, plan, problem, values, options), *notes]
    if options.standard_errors:
        errors, more = _errors(problem, best.parameters, plan)
        groups["standard_errors"] = labelled(errors, plan.dims, labels, {}, attrs)
        findings.append(more)
    timings = {"optimise": searched - begun, "report": time.perf_counter() - searched}
    return Outcome(groups, Verdict(tuple(findings)), not searches.interrupted, timings)


def _problem(plan: EMPlan, options: Options) -> Problem:
    try:
        return plan.problem(options.prior == "use")
    except ModelError as error:
        raise EngineRefusal(f"{error.message}; or leave the priors out with prior: ignore", code=error.code) from None


def _searched(job: Job, plan: EMPlan, problem: Problem) -> tuple[Restarts, list[Finding]]:
    """The results of the searches, by the family's own search if it has one, and findings about them."""
    options: Options = job.options
    rng, notes = np.random.default_rng(job.seed), Notes(job, options.restarts)
    how: dict[str, Any] = {k: getattr(options, k) for k in ("variant", "tolerance", "max_iterations")}
    given = _initvals(plan, options)
    # Without random start values all searches would be the same.
    restarts = 1 if given and given.keys() == plan.dims.keys() else options.restarts

    def begin(theta: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return plan.placed(theta, given) if given else theta

    if plan.search is not None:
        done = plan.search(options.prior == "use", restarts, rng, notes, how | {"begin": begin if given else None})
        findings = [Finding(note.status, note.check, "", None, note.message, note.advice) for note in done.notes]
        return done.searches, findings
    searches = restarted(
        problem,
        lambda generator: begin(plan.start(generator)),
        restarts=restarts,
        rng=rng,
        cores=options.cores,
        progress=notes,
        **how,
    )
    return searches, []


# Tolerance for given probabilities to sum to one.
_ROUNDED = 1e-6


def _initvals(plan: EMPlan, options: Options) -> dict[str, np.ndarray]:
    """The start values given by the user, checked.

    Raises
    ------
    OptionError
        A name is not a quantity of the results, or a value has a wrong shape or is outside the support.
    """
    given = options.initvals or {}
    if not given:
        return {}
    example, out = plan.values(plan.start(np.random.default_rng(0))), {}
    for name, value in given.items():
        path = ("inference", "initvals", name)
        if name not in plan.dims:
            raise OptionError(
                f"initvals: no parameter '{name}'{hint(name, plan.dims)}", path=path, code="unknown-parameter"
            )
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise OptionError(
                f"initvals: '{name}' is a number, or rows of numbers", path=path, code="wrong-type"
            ) from None
        shape = np.shape(example[name])
        if array.shape != shape:
            wanted = f"has the shape {shape}" if shape else "is a single number"
            raise OptionError(f"initvals: '{name}' {wanted}, not {array.shape}", path=path, code="wrong-shape")
        if (why := _impossible(array, plan.kinds.get(name, "real"))) is not None:
            raise OptionError(f"initvals: '{name}' {why}", path=path, code=why.code)
        out[name] = array
    return out


def _impossible(value: np.ndarray, kind: str) -> Reason | None:
    """Why these values are invalid for a quantity, or None."""
    if not np.isfinite(value).all():
        return Reason("has values that are not finite", code="not-finite")
    if kind == "simplex" and (np.any(value < 0) or np.any(np.abs(value.sum(axis=-1) - 1) > _ROUNDED)):
        return Reason("holds probabilities: at least 0, each row with the sum 1", code="not-probabilities")
    if kind == "unit" and (np.any(value < 0) or np.any(value > 1)):
        return Reason("lies between 0 and 1", code="not-probabilities")
    if kind == "positive" and np.any(value <= 0):
        return Reason("is positive", code="out-of-range")
    if kind == "matrix" and not _positive_definite(value):
        return Reason("is symmetric and positive definite", code="not-a-covariance")
    return None


def _positive_definite(value: np.ndarray) -> bool:
    symmetric = np.allclose(value, np.swapaxes(value, -1, -2), rtol=1e-9, atol=0)
    return bool(symmetric and np.all(np.linalg.eigvalsh(value) > 0))


class Notes:
    """Report the progress of the searches, at most every few seconds."""

    def __init__(self, job: Job, restarts: int) -> None:
        self._job, self._restarts, self._last = job, restarts, time.monotonic()

    def __call__(self, search: int, iteration: int, theta: Any, value: float) -> None:
        now = time.monotonic()
        if now - self._last > _EVERY:
            self._last = now
            text = f"start {search + 1} of {self._restarts}, step {iteration}: log posterior {value:.6f}"
            self._job.progress.note(text)


def _traces(searches: Restarts, attrs: dict[str, Any]) -> Any:
    """Both traces of each search, NaN after its end, and its outcome."""
    longest = max(len(end.trace) for end in searches.ends)

    def padded(traces: list[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(t, (0, longest - len(t)), constant_values=np.nan) for t in traces])

    arrays = {
        "log_likelihood": padded([end.trace for end in searches.ends]),
        "log_posterior": padded([end.posterior_trace for end in searches.ends]),
        "final_log_likelihood": np.array([end.log_likelihood for end in searches.ends]),
        "final_log_posterior": np.array([end.log_posterior for end in searches.ends]),
        "converged": np.array([end.converged for end in searches.ends]),
        "passes": np.array([end.evaluations for end in searches.ends]),
    }
    dims: dict[str, tuple[str, ...]] = {name: ("iteration",) if a.ndim == 2 else () for name, a in arrays.items()}
    lead = {"restart": np.arange(len(searches.ends))}
    return labelled(arrays, dims, {"iteration": np.arange(longest)}, lead, attrs)


def _findings(searches: Restarts, plan: EMPlan, problem: Problem, values: Any, options: Options) -> list[Finding]:
    best = searches.best
    what = "maximum of the likelihood" if options.prior == "ignore" else "mode of the posterior"
    text = f"a point, not a posterior ({what}); log likelihood {best.log_likelihood:.4f} after {best.iterations} steps"
    if best.converged:
        out = [Finding("pass", "optimum", "", best.log_likelihood, text)]
    else:
        advice = "allow more with max_iterations" if options.variant == "accelerated" else "try variant: accelerated"
        out = [Finding("warn", "optimum", "", best.log_likelihood, f"{text}, not converged: {best.reason}", advice)]
    if len(searches.ends) > 1:
        out.append(agreement(searches))
    out += _boundary(plan, values)
    if isinstance(problem, LatentProblem):
        for name, number in problem.at_limits(best.parameters).items():
            which = "it is" if number == 1 else f"{number} of them are"
            text = (
                f"{name}: the likelihood is as high where {which} ten times larger or smaller and the others follow: a"
                " limit, no estimate"
            )
            advice = "give a prior that keeps it away, or take the distribution that the limit is"
            out.append(Finding("warn", "boundary", name, number, text, advice))
    if options.prior == "ignore" and plan.unbounded is not None and plan.unbounded(best.parameters):
        text = "a state has collapsed onto equal rows, where the likelihood is unbounded: the estimate is meaningless"
        out.append(Finding("fail", "collapse", "", None, text, "take prior: use, fewer states, or another topology"))
    if options.prior == "ignore" and plan.vanishing is not None:
        for name, number in plan.vanishing(best.parameters).items():
            text = f"{name}: the likelihood is highest where {'it is' if number == 1 else f'{number} of them are'} zero"
            advice = "take prior: use, or leave that part out of the model"
            out.append(Finding("warn", "boundary", name, number, text, advice))
    if plan.exchangeable:
        text = f"the states of {plan.exchangeable} are exchangeable: their labels are arbitrary"
        out.append(Finding("pass", "labels", plan.exchangeable, None, text))
    if searches.interrupted:
        text = (
            f"interrupted: {len(searches.ends)} of {options.restarts} searches were started; the best one is reported"
        )
        out.append(Finding("warn", "interrupted", "", None, text, "run again to complete them"))
    return out


def agreement(searches: Restarts) -> Finding:
    reached, n = searches.reaching(_SAME), len(searches.ends)
    if reached == n:
        return Finding("pass", "restarts", "", reached, f"all {n} random starts led to the same log posterior")
    text = f"{reached} of {n} random starts led to the highest log posterior found"
    if reached >= max(2, _FEW * n):
        return Finding("pass", "restarts", "", reached, f"{text}; the others to lower maxima")
    return Finding(
        "warn",
        "restarts",
        "",
        reached,
        f"{text}: there may be a higher maximum",
        "raise restarts until several searches agree",
    )


def _boundary(plan: EMPlan, values: Any) -> list[Finding]:
    there: dict[str, int] = {}
    for name, (low, high) in plan.bounds.items():
        value = np.asarray(values[name])
        if plan.kinds.get(name) == "simplex" and value.shape[-1:] == (1,):
            continue  # a single share is always 1, not an estimate
        # The distance to a one-sided bound is in the units of the data.
        near = _AT_BOUND if math.isfinite(high) else 0.0
        there[name] = int(((value - low <= near) | (high - value < _AT_BOUND)).sum())
    total = sum(there.values())
    if not total:
        return []
    worst = max(there, key=lambda name: there[name])
    text = (
        f"{total} estimates are at the edge of what is possible, such as probabilities 0 or 1, or noise 0 (most in"
        f" {worst})"
    )
    return [Finding("warn", "boundary", worst, total, text, "give priors that keep them away, or more data")]


def _errors(problem: Any, theta: Any, plan: EMPlan) -> tuple[dict[str, np.ndarray], Finding]:
    if not isinstance(problem, Smooth):
        raise EngineRefusal(
            "standard errors need the slope of the log posterior, which this model does not give", code="not-suited"
        )
    errors = {name: np.asarray(e) for name, e in standard_errors(problem, theta, plan.values).items()}
    every = np.concatenate([np.ravel(e) for e in errors.values()])
    if np.isnan(every).any():
        text = "no standard errors: the point is not a maximum"
        return errors, Finding("warn", "standard errors", "", None, text, "restart, or allow more steps")
    if np.isinf(every).any():
        n = int(np.isinf(every).sum())
        text = f"the data do not determine {n} of {every.size} estimates: their standard errors are infinite"
        return errors, Finding("warn", "standard errors", "", n, text, "give priors, or fix parameters")
    return errors, Finding("pass", "standard errors", "", None, "from the observed information at the maximum")


ENGINE = Engine(Options, run, refuse=_PLANS.refuse, ready=ready, uses_graph=False)
