"""Variational Bayes of mixtures: conjugate factors of the parameters, and responsibilities of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import DataError, OptionError, Reason
from bayeslab.posterior.answer import Note, VariationalEnd, VariationalPlan
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.expectation_maximisation import first_guess
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.search import merging
from bayeslab.posterior.mixtures.starts import start_in_turn, starting_labels
from bayeslab.posterior.mixtures.variational import VariationalFit, climb, prepared
from bayeslab.posterior.mixtures.variational_process import StickFactor
from bayeslab.streams import place_among_spawned

__all__ = ["sticks", "variational"]

type Parameters = dict[str, Any]

# A component with fewer rows than this is not needed.
_UNUSED = 0.5
# Share of the last piece of the stick from which the truncation may matter.
_REMAINDER = 0.01


def variational(mixture: BoundMixture) -> VariationalPlan | str:
    """The plan, or the reason why there is none."""
    if mixture.no_conjugate_steps is not None:
        return mixture.no_conjugate_steps
    try:
        problem = prepared(mixture.problem)
        rows = problem.rows
        problem.emission.log_base(rows)
        problem.emission.log_marginal(
            problem.statistics(np.full((len(rows), mixture.n_components), 1 / mixture.n_components))
        )
    except (OptionError, DataError) as error:
        return Reason(error.message, code=error.code)
    mixing = "normal × " if problem.latent.inputs is not None else "Dirichlet × " if mixture.n_components > 1 else ""
    even = np.ndim(problem.latent.dirichlet) == 0 and mixture.by is not None
    return VariationalPlan(
        how=f"{mixing}{mixture.n_components} conjugate components × {len(rows):,} labels,"
        " as if independent of each other",
        search=lambda rng, tolerance, most, progress: _search(mixture, problem, rng, tolerance, most, progress),
        dims=mixture.dims,
        labels=mixture.labels,
        log_copies=float(gammaln(mixture.n_components + 1)) if even else 0.0,
        otherwise="sample with method nuts" + ("" if problem.latent.inputs is not None else " or gibbs"),
    )


def _search(
    mixture: BoundMixture,
    problem: MixtureProblem,
    rng: np.random.Generator,
    tolerance: float,
    max_iterations: int,
    progress: Callable[[int, float], None],
) -> VariationalEnd:
    k = place_among_spawned(rng)
    guess = None if k else first_guess(mixture)
    begin = starting_labels(problem, start_in_turn(k), rng) if guess is None else problem.responsibilities(guess)[1]
    fit: VariationalFit[Any] = climb(
        problem, begin, tolerance=tolerance, max_iterations=max_iterations, progress=progress
    )
    # The draws come from one mode, so that one order of the components serves all.
    order = mixture.ranking(mixture.values(fit.mode()))
    return _end(
        fit,
        lambda theta: mixture.renumbered(mixture.values(theta), order),
        mixture.dims,
        _notes(mixture, fit, order),
        fit.counts[order],
    )


def _end(
    fit: VariationalFit[Any],
    values: Callable[[dict[str, Any]], Mapping[str, np.ndarray]],
    dims: Mapping[str, tuple[str, ...]],
    notes: tuple[Note, ...],
    expected_rows: np.ndarray,
) -> VariationalEnd:
    """The end of a search, with the model's ``values`` of a draw, and the ``dims`` of those to keep, by name."""

    def stacked(thetas: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        each = [values(theta) for theta in thetas]
        return {name: np.stack([one[name] for one in each]) for name in dims}

    def draw(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        return stacked([fit.draw(generator) for _ in range(n)])

    def weighed(generator: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        thetas = [fit.draw(generator) for _ in range(n)]
        return stacked(thetas), np.array([fit.log_ratio(theta) for theta in thetas])

    groups: dict[str, Any] = {"variational": {"expected_rows": (("component",), expected_rows)}}
    return VariationalEnd(fit.trace, fit.converged, draw, weighed, groups, notes)


def sticks(mixture: BoundMixture) -> VariationalPlan | str:
    """The plan for a truncated process, or the reason why there is none."""
    assert mixture.process is not None
    prior = mixture.process
    if mixture.no_conjugate_steps is not None:
        return mixture.no_conjugate_steps
    if prior.discount and isinstance(prior.alpha, tuple):
        return Reason(
            "with a discount the concentration has no closed form here; give a number, or use gibbs or nuts",
            code="no-closed-form",
        )
    most, held = mixture.n_components, min(mixture.n_components, len(mixture.rows))
    try:
        # There may be more pieces than rows: a search starts with at most as many pieces as rows.
        problem = prepared(mixture.problem.sized(held))
        problem.emission.log_base(problem.rows)
    except (OptionError, DataError) as error:
        return Reason(error.message, code=error.code)
    if most < 2:
        return "a stick needs at least two pieces: raise `most`"
    dims = mixture.dims | ({"alpha": ()} if not isinstance(prior.alpha, float) else {})
    problem = problem.sized(most)
    named = replace(mixture, problem=problem)

    def search(
        rng: np.random.Generator, tolerance: float, max_iterations: int, progress: Callable[[int, float], None]
    ) -> VariationalEnd:
        begin = starting_labels(problem.sized(held), "k_means", rng)
        begin = np.pad(begin, ((0, 0), (0, most - held)))
        factor = StickFactor.of(prior, most)
        fit = climb(problem, begin, factor, tolerance=tolerance, max_iterations=max_iterations, progress=progress)

        def values(theta: dict[str, Any]) -> Mapping[str, np.ndarray]:
            rest = {name: value for name, value in theta.items() if name not in ("alpha", "sticks")}
            return named.values(rest) | {"alpha": np.asarray(theta["alpha"])}

        return _end(fit, values, dims, _stick_notes(fit), fit.counts)

    return VariationalPlan(
        how=f"a stick of {most} pieces × conjugate components × {len(mixture.rows):,} labels, as if independent",
        search=search,
        dims=dims,
        labels=mixture.labels,
        otherwise="sample with method gibbs, which truncates nothing, or nuts",
    )


def _stick_notes(fit: VariationalFit[StickFactor]) -> tuple[Note, ...]:
    used = int(np.sum(fit.counts >= _UNUSED))
    notes = [Note("pass", "clusters", f"{used} of {len(fit.counts)} components hold rows")]
    text = f"the last piece of the stick, which stands for all that follow, holds {fit.factor.remainder:.2g} of it"
    if fit.factor.remainder > _REMAINDER or used == len(fit.counts):
        notes.append(Note("warn", "truncation", text, f"raise `most`, to {2 * len(fit.counts)} or more"))
    else:
        notes.append(Note("pass", "truncation", text))
    alpha = fit.factor.alpha
    if isinstance(alpha, float) and fit.factor.prior.alpha == "empirical_bayes":
        notes.append(Note("pass", "concentration", f"the bound is highest at the concentration {alpha:.4g}"))
    return tuple(notes)


def _notes(mixture: BoundMixture, fit: VariationalFit[Any], order: np.ndarray) -> tuple[Note, ...]:
    notes = [Note("pass", "components", mixture.choice.described("component"))] if mixture.choice is not None else []
    empty = [str(mixture.names[i]) for i, k in enumerate(order) if fit.counts[k] < _UNUSED]
    if empty:
        text = f"{len(empty)} of {mixture.n_components} components hold no rows ({', '.join(empty)}): fewer would do"
        notes.append(Note("pass", "unused", text))
    place = np.argsort(order)
    pairs = merging(fit.problem, fit.mode()) if mixture.n_components > 1 else []
    for j, k in pairs:
        if min(fit.counts[[j, k]]) >= _UNUSED:
            pair = f"{mixture.names[place[j]]} and {mixture.names[place[k]]}"
            notes.append(Note("warn", "merged", f"two components ({pair}) coincide", "take fewer components"))
    return tuple(notes)
