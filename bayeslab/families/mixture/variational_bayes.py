"""Variational Bayes of mixtures: conjugate factors of the parameters, and responsibilities of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import DataError, OptionError, Reason
from bayeslab.families.mixture.expectation_maximisation import first_guess
from bayeslab.families.mixture.model import Resolved
from bayeslab.posterior.answer import Note, VariationalEnd, VariationalPlan
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.search import merging
from bayeslab.posterior.mixtures.starts import Start, starting_labels
from bayeslab.posterior.mixtures.variational import VariationalFit, climb, prepared
from bayeslab.posterior.mixtures.variational_process import StickFit, climb_sticks
from bayeslab.streams import place_among_spawned

__all__ = ["sticks", "variational"]

# Starts of searches, in turn.
_STARTS: tuple[Start, ...] = ("k_means", "random", "k_means++")
# A component with fewer rows than this is not needed.
_UNUSED = 0.5
# Share of the last piece of the stick from which the truncation may matter.
_REMAINDER = 0.01


def variational(resolved: Resolved) -> VariationalPlan | str:
    """The plan, or the reason why there is none."""
    if resolved.searched is not None:
        return resolved.searched
    if not resolved.conjugate:
        return Reason("the priors of mean, sd or correlation are not conjugate; use nuts", code="not-conjugate")
    if resolved.tied is not None:
        return resolved.tied
    try:
        problem = prepared(resolved.problem)
        rows = problem.rows
        problem.emission.log_base(rows)
        problem.emission.log_marginal(
            problem.statistics(np.full((len(rows), resolved.n_components), 1 / resolved.n_components))
        )
    except (OptionError, DataError) as error:
        return Reason(error.message, code=error.code)
    mixing = "normal × " if problem.latent.inputs is not None else "Dirichlet × " if resolved.n_components > 1 else ""
    even = np.ndim(problem.latent.dirichlet) == 0 and resolved.by is not None
    return VariationalPlan(
        how=f"{mixing}{resolved.n_components} conjugate components × {len(rows):,} labels,"
        " as if independent of each other",
        search=lambda rng, tolerance, most, progress: _search(resolved, problem, rng, tolerance, most, progress),
        dims=resolved.dims,
        labels=resolved.labels,
        log_copies=float(gammaln(resolved.n_components + 1)) if even else 0.0,
        otherwise="sample with method nuts" + ("" if problem.latent.inputs is not None else " or gibbs"),
    )


def _search(
    resolved: Resolved,
    problem: MixtureProblem,
    rng: np.random.Generator,
    tolerance: float,
    max_iterations: int,
    progress: Callable[[int, float], None],
) -> VariationalEnd:
    k = place_among_spawned(rng)
    guess = None if k else first_guess(resolved)
    begin = (
        starting_labels(problem, _STARTS[k % len(_STARTS)], rng)
        if guess is None
        else problem.responsibilities(guess)[1]
    )
    fit = climb(problem, begin, tolerance=tolerance, max_iterations=max_iterations, progress=progress)
    # The draws come from one mode, so that one order of the components serves all.
    order = resolved.ranking(resolved.values(fit.mode()))

    def draw(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        each = [resolved.renumbered(resolved.values(fit.draw(generator)), order) for _ in range(n)]
        return {name: np.stack([values[name] for values in each]) for name in resolved.dims}

    def log_ratios(generator: np.random.Generator, n: int) -> np.ndarray:
        return np.array([fit.log_ratio(fit.draw(generator)) for _ in range(n)])

    return VariationalEnd(fit.trace, fit.converged, draw, log_ratios, _groups(fit, order), _notes(resolved, fit, order))


def sticks(resolved: Resolved) -> VariationalPlan | str:
    """The plan for a truncated process, or the reason why there is none."""
    assert resolved.process is not None
    prior = resolved.process
    if resolved.searched is not None:
        return resolved.searched
    if not resolved.conjugate:
        return Reason("the priors of mean, sd or correlation are not conjugate; use nuts", code="not-conjugate")
    if resolved.tied is not None:
        return resolved.tied
    if prior.discount and isinstance(prior.alpha, tuple):
        return Reason(
            "with a discount the concentration has no closed form here; give a number, or use gibbs or nuts",
            code="no-closed-form",
        )
    most, held = resolved.n_components, min(resolved.n_components, len(resolved.rows))
    try:
        # There may be more pieces than rows: a search starts with at most as many pieces as rows.
        problem = prepared(resolved.problem.sized(held))
        problem.emission.log_base(problem.rows)
    except (OptionError, DataError) as error:
        return Reason(error.message, code=error.code)
    if most < 2:
        return "a stick needs at least two pieces: raise `most`"
    dims = resolved.dims | ({"alpha": ()} if not isinstance(prior.alpha, float) else {})
    problem = problem.sized(most)
    named = replace(resolved, problem=problem)

    def search(
        rng: np.random.Generator, tolerance: float, max_iterations: int, progress: Callable[[int, float], None]
    ) -> VariationalEnd:
        begin = starting_labels(problem.sized(held), "k_means", rng)
        begin = np.pad(begin, ((0, 0), (0, most - held)))
        fit = climb_sticks(problem, prior, begin, tolerance=tolerance, max_iterations=max_iterations, progress=progress)

        def draw(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
            each = []
            for _ in range(n):
                theta = fit.draw(generator)
                more = {"alpha": np.asarray(theta.pop("alpha"))}
                theta.pop("sticks")
                each.append(named.values(theta) | more)
            return {name: np.stack([values[name] for values in each]) for name in dims}

        def log_ratios(generator: np.random.Generator, n: int) -> np.ndarray:
            return np.array([fit.log_ratio(fit.draw(generator)) for _ in range(n)])

        groups: dict[str, Any] = {"variational": {"expected_rows": (("component",), fit.counts)}}
        return VariationalEnd(fit.trace, fit.converged, draw, log_ratios, groups, _stick_notes(fit))

    return VariationalPlan(
        how=f"a stick of {most} pieces × conjugate components × {len(resolved.rows):,} labels, as if independent",
        search=search,
        dims=dims,
        labels=resolved.labels,
        otherwise="sample with method gibbs, which truncates nothing, or nuts",
    )


def _stick_notes(fit: StickFit) -> tuple[Note, ...]:
    used = int(np.sum(fit.counts >= _UNUSED))
    notes = [Note("pass", "clusters", f"{used} of {len(fit.counts)} components hold rows")]
    text = f"the last piece of the stick, which stands for all that follow, holds {fit.remainder:.2g} of it"
    if fit.remainder > _REMAINDER or used == len(fit.counts):
        notes.append(Note("warn", "truncation", text, f"raise `most`, to {2 * len(fit.counts)} or more"))
    else:
        notes.append(Note("pass", "truncation", text))
    if isinstance(fit.alpha, float) and fit.prior.alpha == "empirical_bayes":
        notes.append(Note("pass", "concentration", f"the bound is highest at the concentration {fit.alpha:.4g}"))
    return tuple(notes)


def _groups(fit: VariationalFit, order: np.ndarray) -> dict[str, dict[str, Any]]:
    return {"variational": {"expected_rows": (("component",), fit.counts[order])}}


def _notes(resolved: Resolved, fit: VariationalFit, order: np.ndarray) -> tuple[Note, ...]:
    notes = [Note("pass", "components", resolved.choice.described("component"))] if resolved.choice is not None else []
    empty = [str(resolved.names[i]) for i, k in enumerate(order) if fit.counts[k] < _UNUSED]
    if empty:
        text = f"{len(empty)} of {resolved.n_components} components hold no rows ({', '.join(empty)}): fewer would do"
        notes.append(Note("pass", "unused", text))
    place = np.argsort(order)
    pairs = merging(fit.problem, fit.mode()) if resolved.n_components > 1 else []
    for j, k in pairs:
        if min(fit.counts[[j, k]]) >= _UNUSED:
            pair = f"{resolved.names[place[j]]} and {resolved.names[place[k]]}"
            notes.append(Note("warn", "merged", f"two components ({pair}) say the same", "take fewer components"))
    return tuple(notes)
