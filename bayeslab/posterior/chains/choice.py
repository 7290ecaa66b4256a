"""Choice of the number of states: each number is fitted by EM, and the one with the highest score is chosen.

=============  ==========================================================================================
``choose``     score, on the scale of a log likelihood
=============  ==========================================================================================
``bic``        log likelihood - ½ P log N at the mode of the posterior [1]_, N rows with an observed cell
``aic``        log likelihood - P
``held_out``   log likelihood of held-out data, in folds [2]_: whole sequences; for a single sequence
               blocks of rows, log p(block | all other rows)
``loo``        each sequence left out in turn; for a single sequence each row of its second half is
               predicted from the preceding rows, by fits to earlier rows only [3]_
``forward``    as held_out, but instead of refitting every number, the state that fits its rows worst is
               split in two until that no longer improves the score [4]_
=============  ==========================================================================================

P is the number of free parameters. At the mode, under weak priors, no state can collapse to a point, where the
likelihood is unbounded. Searches, folds and blocks are the same for every number and in every run.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
.. [2] Celeux, Durand (2008). Selecting hidden Markov model state number with cross-validated likelihood.
   Computational Statistics 23, 541-564 (also odd and even rows of a single sequence).
.. [3] Bürkner, Gabry, Vehtari (2020). Approximate leave-future-out cross-validation for Bayesian time series models.
   J. Statistical Computation and Simulation 90, 2499-2523.
.. [4] Ostendorf, Singer (1997). HMM topology design using maximum likelihood successive state splitting.
   Computer Speech and Language 11, 17-41.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bayeslab.errors import DataError, ModelError
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.expectation_maximisation import EMResult, maximise, restarted
from bayeslab.posterior.chains import expectation_maximisation
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.similar_rows import similar_rows

__all__ = ["CRITERIA", "RESTARTS", "choose_states"]

CRITERIA = ("bic", "aic", "held_out", "loo", "forward")

_FOLDS, _MOST_FOLDS, _BLOCKS, _ORIGINS = 5, 50, 50, 5
#: Number of searches by EM for each number of states.
RESTARTS = 4
# For forward search: number of worst-fitting states that are split, one at a time.
_SPLIT = 3

type Values = Mapping[str, np.ndarray]


def choose_states(candidates: Mapping[int, Hidden], criterion: str) -> NumberChoice:
    """Fit each number of states and score it.

    Parameters
    ----------
    candidates : mapping of int to Hidden
        The model with each number of states, in increasing order.
    criterion : str
        One of `CRITERIA`.

    Raises
    ------
    ModelError, DataError
        EM does not apply, or there are too few data to hold any out.
    """
    sizes = tuple(candidates)
    if criterion in ("bic", "aic"):
        return NumberChoice.penalised(criterion, sizes, [_penalised(one, criterion) for one in candidates.values()])
    splits, how = _splits(candidates[sizes[0]], criterion)
    if criterion == "forward":
        return _forward(candidates, splits, how)
    points = np.stack([_points(one, splits, near=criterion == "loo") for one in candidates.values()])
    return NumberChoice.held_out(criterion, sizes, points, how)


def _points(hidden: Hidden, recipes: list[tuple[str, Any]], *, near: bool) -> np.ndarray:
    """Log likelihoods of all held-out data; ``near``: for sequences, by searches from the fit to all of them."""
    begun = _fit(hidden).parameters if near and recipes[0][0] == "sequences" else None
    splits = [split_of(hidden, recipe) for recipe in recipes]
    return np.concatenate([split.score(_fit(split.train, begun).parameters) for split in splits])


@dataclass(frozen=True, eq=False)
class Split:
    """Training part of the data, and the score of the held-out part.

    Attributes
    ----------
    train : Hidden
    score : callable
        Returns log likelihoods of the held-out data at given parameters.
    """

    train: Hidden
    score: Callable[[Values], np.ndarray]


# --------------------------------------------------------------------------------- fits


def _problem(hidden: Hidden) -> Any:
    """EM's problem and starting points, with priors if their mode has a closed form."""
    plan = expectation_maximisation.plan(hidden)
    if isinstance(plan, str):
        raise ModelError(f"the number of states is chosen by fits with EM, which does not apply: {plan}",
                         path=("model", "states"), code="not-suited")  # fmt: skip
    try:
        return plan.problem(True), plan.start
    except ModelError:
        return plan.problem(False), plan.start


def _fit(hidden: Hidden, start: Values | None = None) -> EMResult:
    """The best of several searches, or the end of one search from ``start``."""
    problem, draw = _problem(hidden)
    if start is not None:
        return maximise(problem, start, variant="accelerated", tolerance=1e-4)
    rng = np.random.default_rng(0)
    return restarted(problem, draw, restarts=RESTARTS, rng=rng, variant="accelerated", tolerance=1e-4).best


def _penalised(hidden: Hidden, criterion: str) -> float:
    n = int((~np.isnan(hidden.rows)).any(axis=1).sum())
    penalty = hidden.n_free * (0.5 * np.log(n) if criterion == "bic" else 1.0)
    return _fit(hidden).log_likelihood - float(penalty)


# --------------------------------------------------------------------------------- held-out data


def _splits(hidden: Hidden, criterion: str) -> tuple[list[tuple[str, Any]], str]:
    """Recipes for :func:`split_of`, the same for every number of states, and a description of the held-out data."""
    if hidden.sequences.n_sequences > 1:
        folds = min(hidden.sequences.n_sequences, _MOST_FOLDS if criterion == "loo" else _FOLDS)
        fold = _folds(hidden, folds)
        alone = folds == hidden.sequences.n_sequences
        how = "each sequence left out in turn" if alone else f"sequences left out in {folds} groups"
        return [("sequences", fold == k) for k in range(folds)], how
    n = hidden.sequences.n_times
    if n < 20:
        raise DataError(
            f"one sequence of {n} rows is too short to leave rows out; choose by bic or aic", code="too-few"
        )
    if criterion == "loo":
        ends = np.linspace(n // 2, n, _ORIGINS + 1).astype(int)
        recipes = [("ahead", (int(a), int(b))) for a, b in pairwise(ends)]
        return recipes, f"rows from {n // 2 + 1} on predicted one step ahead by fits to earlier rows"
    block = np.arange(n) * min(n, _BLOCKS) // n
    how = f"{min(n, _BLOCKS)} blocks of rows left out in {_FOLDS} groups"
    return [("blocks", block % _FOLDS == k) for k in range(_FOLDS)], how


def _folds(hidden: Hidden, folds: int) -> np.ndarray:
    """The fold of each sequence; sequences of a class are spread evenly over folds."""
    n = hidden.sequences.n_sequences
    order = np.random.default_rng(n).permutation(n)
    if isinstance(hidden.chain, ClassChain):
        known = hidden.chain.known
        counts = np.bincount(known[known >= 0], minlength=1)
        if counts.min() < 2:
            raise DataError(
                "a class has a single sequence, which cannot be left out; choose by bic or aic", code="too-few"
            )
        order = order[np.argsort(known[order], kind="stable")]
    out = np.empty(n, dtype=int)
    out[order] = np.arange(n) % folds
    return out


def split_of(hidden: Hidden, recipe: tuple[str, Any]) -> Split:
    """Training part and score of one split."""
    kind, what = recipe
    if kind == "sequences":
        test = hidden.of_sequences(np.flatnonzero(what))
        return Split(hidden.of_sequences(np.flatnonzero(~what)), lambda values: test.law(values).log_likelihoods(True))
    if kind == "ahead":
        begin, end = what
        known = hidden.prefix(end)
        return Split(hidden.prefix(begin), lambda values: known.law(values).log_likelihoods(False)[begin:end])
    train = replace(hidden, rows=np.where(what[:, None], np.nan, hidden.rows))

    def score(values: Values) -> np.ndarray:
        """log p(rows left out | the others)."""
        return np.asarray(hidden.law(values).log_likelihoods(True) - train.law(values).log_likelihoods(True))

    return Split(train, score)


# --------------------------------------------------------------------------------- forward search


def _forward(candidates: Mapping[int, Hidden], recipes: list[tuple[str, Any]], how: str) -> NumberChoice:
    """Add one state at a time, each fold continuing from its own fit, until the held-out score no longer improves."""
    sizes = sorted(candidates)
    if isinstance(candidates[sizes[0]].chain, ClassChain):
        raise ModelError(
            "forward search is for one chain; with classes choose by another",
            path=("model", "choose"),
            code="unsupported",
        )
    splits = [split_of(candidates[sizes[0]], recipe) for recipe in recipes]
    fits = [_fit(split.train) for split in splits]
    points = [np.concatenate([s.score(fit.parameters) for s, fit in zip(splits, fits, strict=True)])]
    for n in sizes[1:]:
        larger = [split_of(candidates[n], recipe) for recipe in recipes]
        grown = [_grown(a.train, fit, b.train) for a, fit, b in zip(splits, fits, larger, strict=True)]
        points.append(np.concatenate([s.score(fit.parameters) for s, fit in zip(larger, grown, strict=True)]))
        if points[-1].sum() <= points[-2].sum():
            break
        splits, fits = larger, grown
    return NumberChoice.held_out("forward", sizes[: len(points)], np.stack(points), f"states split one by one, {how}")


def _grown(hidden: Hidden, fit: EMResult, larger: Hidden) -> EMResult:
    """The best fit with one more state, from splits of the states that fit their rows worst."""
    values = dict(fit.parameters)
    posterior = hidden.law(values).expected().posterior
    density = np.where(posterior > 0, hidden.log_emission(values), 0.0)
    mean = (posterior * density).sum(axis=0) / np.maximum(posterior.sum(axis=0), 1e-12)
    problem, _ = _problem(larger)
    starts = [_halved(hidden, posterior, int(state), larger) for state in np.argsort(mean)[:_SPLIT]]
    fits = [maximise(problem, start, variant="accelerated", tolerance=1e-4) for start in starts if start is not None]
    if not fits:
        raise DataError("no state has enough rows to be split; give fewer states", code="too-few")
    return max(fits, key=lambda end: end.log_posterior)


def _halved(hidden: Hidden, posterior: np.ndarray, state: int, larger: Hidden) -> dict[str, np.ndarray] | None:
    """Start of a search with one more state: the rows of a state in two groups of similar rows."""
    observed = ~np.isnan(hidden.rows).all(axis=1)
    mine = np.flatnonzero(observed & (posterior.argmax(axis=1) == state))
    if len(mine) < 4:
        return None
    second = np.full(len(posterior), 0.5)
    second[mine] = 0.1 + 0.8 * similar_rows(hidden.parts, hidden.rows[mine], 2, np.random.default_rng(0))
    weights = np.insert(posterior, state + 1, posterior[:, state] * second, axis=1)
    weights[:, state] *= 1 - second
    out = larger.emitting(larger.rows, weights + 1e-9)
    return out | larger.chain.start_values()
