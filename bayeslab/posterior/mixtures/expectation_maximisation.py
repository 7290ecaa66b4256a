"""EM for mixtures: starts, searches that repair bad components, and remarks on the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import Parameters
from bayeslab.errors import BayeslabError, EngineRefusal, ModelError, OptionError
from bayeslab.latents.expectation_maximisation import EMResult, Restarts, maximise
from bayeslab.posterior.answer import EMPlan, Note, Searched
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.problem import Collapse, MixtureProblem, StreamedMixtureProblem
from bayeslab.posterior.mixtures.search import MixtureOptions, fit_mixture, merging, search
from bayeslab.posterior.mixtures.starts import start_from_labels, starting_labels
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.student_t import StudentT

__all__ = ["em", "first_guess", "maximum_likelihood"]


def first_guess(mixture: BoundMixture) -> Parameters | None:
    """Start of the first search; labels that may be wrong still identify the components."""
    if "label" not in mixture.parts:
        return None
    codes = mixture.rows[:, mixture.columns.index(mixture.parts["label"].columns[0])]
    labelled = ~np.isnan(codes)
    guess = np.full((len(codes), mixture.n_components), 1 / mixture.n_components)
    guess[labelled] = np.eye(mixture.n_components)[codes[labelled].astype(int)]
    return start_from_labels(mixture.problem, guess)


def em(mixture: BoundMixture) -> EMPlan:
    """Plan of EM for the posterior mode or the maximum likelihood."""
    problem = mixture.problem
    kinds = {name: problem.latent.kind(name) for name in problem.latent.learned}
    kinds |= {name: part.kind(name) for part in mixture.parts.values() for name in part.results}

    def start(rng: np.random.Generator) -> Mapping[str, Any]:
        return problem.update(problem.statistics(starting_labels(problem, "k_means", rng)))

    def whole(prior: bool) -> MixtureProblem:
        chosen = _with_priors(mixture) if prior else problem.without_prior()
        return chosen if mixture.stream is None else StreamedMixtureProblem.of_sample(chosen, mixture.stream.batches)

    return EMPlan(
        how=f"{mixture.n_components} components, summed out for {problem.n_effective:,.0f} rows",
        problem=whole,
        start=start,
        values=lambda theta: mixture.numbered(mixture.values(theta)),
        dims=mixture.dims,
        placed=lambda theta, given: _placed(mixture, theta, given),
        labels=mixture.labels,
        kinds=kinds,
        search=lambda prior, restarts, rng, progress, how: _search(mixture, prior, restarts, rng, progress, how),
        bounds={n: (0.0, 1.0) for n, kind in kinds.items() if kind in ("simplex", "unit")},
    )


def _with_priors(mixture: BoundMixture) -> MixtureProblem:
    if not mixture.conjugate:
        raise ModelError("EM with priors needs conjugate ones: use nuts", code="not-conjugate")
    return mixture.problem


def _placed(mixture: BoundMixture, theta: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    """Parameters with given values, by their names in results, substituted."""
    for name in given:
        for spread, matrix in (("sd", "covariance"), ("scale", "scale_matrix")):
            if name.endswith(spread) and name.removesuffix(spread) + matrix in mixture.dims:
                whole = name.removesuffix(spread) + matrix
                raise OptionError(
                    f"initvals: '{name}' follows from '{whole}'; give that",
                    path=("inference", "initvals", name),
                    code="conflict",
                )
    values = {**mixture.values(theta), **given}
    if "gate" in given:
        # Relative to the first component, as elsewhere.
        values["gate"] = values["gate"] - values["gate"][0]
    return mixture.theta(values)


def _search(
    mixture: BoundMixture, prior: bool, restarts: int, rng: np.random.Generator, progress: Any, how: Mapping[str, Any]
) -> Searched:
    """Searches from k-means and from varied starts; components that collapse or merge are re-initialised."""
    hard = how["variant"] == "hard"
    if hard and mixture.stream is not None:
        raise EngineRefusal(
            "variant hard gives each row a component, and rows are read in batches: take accelerated or em",
            code="not-suited",
        )
    options = MixtureOptions(
        method="hard" if hard else "map" if prior else "em",
        variant="em" if hard else how["variant"],
        restarts=restarts,
        tolerance=how["tolerance"],
        max_iterations=how["max_iterations"],
        unlike=True,
    )
    problem = mixture.problem if prior else mixture.problem.without_prior()
    begin: Any = how.get("begin")
    first = first_guess(mixture)

    def start(generator: np.random.Generator) -> Parameters:
        assert begin is not None
        guess = starting_labels(problem, "k_means", generator)
        return dict(begin(problem.update(problem.statistics(guess))))

    problem, searches = search(problem, options, rng=rng, start=first if begin is None else start, progress=progress)
    ends = tuple(s.result for s in searches if s.result is not None)
    if not ends:
        raise EngineRefusal(
            f"in each of {restarts} searches a component collapsed on a few equal rows, where the likelihood has no"
            " bound; take prior: use, fewer components, or covariance: tied",
            code="degenerate",
        )
    best = max(ends, key=lambda end: end.log_posterior)
    chosen = next(s for s in searches if s.result is best)
    notes = _repairs(chosen.repaired)
    if not notes and (lost := sum(any("collapsed" in text for text in s.repaired) for s in searches)):
        text = (
            f"in {lost} of {len(searches)} searches a component collapsed on a few equal rows and was restarted"
            " elsewhere"
        )
        notes.append(Note("pass", "repaired", text))
    if (failed := len(searches) - len(ends)) > 0:
        text = f"{failed} of {len(searches)} searches ended with a component of zero variance"
        notes.append(Note("warn", "collapse", text, "take prior: use, or fewer components"))
    if mixture.stream is not None:
        best, note = _on_all_rows(mixture, problem, options, best)
        ends = (best,)
        notes.append(note)
    place = np.argsort(mixture.ranking(mixture.values(best.parameters)))
    for j, k in merging(problem, best.parameters) if problem.n_components > 1 else []:
        pair = " and ".join(str(mixture.names[i]) for i in sorted(place[[j, k]]))
        notes.append(Note("warn", "merged", f"two components ({pair}) coincide", "take fewer components"))
    notes += _alike(mixture, problem, best.parameters)
    if mixture.choice is not None:
        notes.append(Note("pass", "components", mixture.choice.described("component")))
    return Searched(Restarts(best, ends, searches[-1].interrupted), tuple(notes))


def _on_all_rows(
    mixture: BoundMixture, problem: MixtureProblem, options: MixtureOptions, best: EMResult
) -> tuple[EMResult, Note]:
    """The maximum for all rows, from that for a sample of them, and a note of both."""
    assert mixture.stream is not None
    whole = StreamedMixtureProblem.of_sample(problem, mixture.stream.batches)
    try:
        climbed = maximise(
            whole,
            best.parameters,
            variant="em" if options.variant == "stochastic" else options.variant,
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
        )
    except Collapse:
        raise EngineRefusal(
            "with all rows a component collapsed, which the sample had not shown; take prior: use, or fewer components",
            code="degenerate",
        ) from None
    text = (
        f"searches on a sample of {len(problem.rows):,} rows; from the best of them {climbed.iterations} steps on all"
        f" {problem.n_effective:,.0f}"
    )
    return climbed, Note("pass", "sample", text)


def _repairs(texts: list[str]) -> list[Note]:
    """Remarks on repairs during the search, without component numbers, which were valid only then."""
    out = []
    for word, what in (("collapsed", "collapsed on a few equal rows"), ("merged", "coincided with another")):
        times = sum(word in text for text in texts)
        if times:
            often = "once" if times == 1 else f"{times} times"
            out.append(Note("pass", "repaired", f"{often} a component {what} and was restarted elsewhere"))
    return out


def _alike(mixture: BoundMixture, problem: MixtureProblem, theta: Parameters) -> list[Note]:
    """Components whose rows are all equal, so that their spread comes from the prior."""
    positions = [
        mixture.columns.index(c)
        for part in mixture.parts.values()
        if isinstance(part, Normal | JointNormal | StudentT)
        for c in part.columns
    ]
    if not positions or problem.n_components == 1:
        return []
    labels = problem.responsibilities(theta)[1].argmax(axis=1)
    order, out = mixture.ranking(mixture.values(theta)), []
    for place, k in enumerate(order):
        rows = problem.rows[labels == k][:, positions]
        if len(rows) > 1 and not np.any(rows != rows[0]):
            text = f"all {len(rows)} rows of component {mixture.names[place]} are the same: its spread is the prior's"
            out.append(Note("warn", "equal rows", text, "remove duplicates if they are mistakes, or say what is known"))
    return out


def maximum_likelihood(mixture: BoundMixture) -> tuple[float, int]:
    """The highest log likelihood of several searches without priors, and the number of free parameters."""
    problem = mixture.problem.without_prior()
    try:
        fit = fit_mixture(problem, MixtureOptions(tolerance=1e-8), rng=np.random.default_rng(0))
    except BayeslabError:
        return float("nan"), problem.n_free
    return fit.log_likelihood, problem.n_free
