"""Choice of the number of components of a mixture, from one fit per number.

=============  ==========================================================================
criterion      score, the highest wins
=============  ==========================================================================
``bic``        log likelihood - ½ P log N [1]_
``aic``        log likelihood - P
``icl``        BIC - entropy of the responsibilities: favours well-separated clusters [2]_
``held_out``   cross-validated log likelihood, in folds
``evidence``   variational bound of the log evidence, + log K!
=============  ==========================================================================

P counts free parameters. For the posterior over the number of components see `component_number`.

References
----------
.. [1] Schwarz (1978). Estimating the dimension of a model. Annals of Statistics 6, 461-464.
.. [2] Biernacki, Celeux, Govaert (2000). Assessing a mixture model for clustering with the integrated completed
   likelihood. IEEE PAMI 22, 719-725.
.. [3] Smyth (2000). Model selection for probabilistic clustering using cross-validated likelihood.
   Statistics and Computing 10, 63-72.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from scipy.special import xlogy

from bayeslab.errors import OptionError, hint
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.search import AllCollapsed, MixtureFit, MixtureOptions, fit_mixture
from bayeslab.posterior.mixtures.variational import VariationalFit, fit_variational
from bayeslab.posterior.mixtures.variational_weights import WeightsFactor
from bayeslab.posterior.number_choice import NumberChoice

__all__ = ["CRITERIA", "Criterion", "aic", "bic", "choose_components", "held_out", "icl"]

Criterion = Literal["bic", "aic", "icl", "held_out", "evidence"]
CRITERIA = ("bic", "aic", "icl", "held_out", "evidence")


def bic(fit: MixtureFit) -> float:
    """Log likelihood minus ½ P log N."""
    return fit.log_likelihood - 0.5 * fit.problem.n_free * np.log(fit.problem.n_effective)


def aic(fit: MixtureFit) -> float:
    """Log likelihood minus P."""
    return fit.log_likelihood - fit.problem.n_free


def icl(fit: MixtureFit) -> float:
    """BIC minus the entropy of the responsibilities."""
    r = fit.responsibilities
    weights = 1.0 if fit.problem.latent.row_weights is None else fit.problem.latent.row_weights[:, None]
    return bic(fit) + float(np.sum(weights * xlogy(r, r)))


def choose_components(
    problem: MixtureProblem | Callable[[int], MixtureProblem],
    numbers: Sequence[int],
    *,
    criterion: Criterion = "bic",
    rng: np.random.Generator,
    options: MixtureOptions | None = None,
    folds: int = 10,
) -> tuple[NumberChoice, MixtureFit | VariationalFit[WeightsFactor]]:
    """Fit each number of components and keep the best.

    Parameters
    ----------
    problem : MixtureProblem, or callable
        The problem, whose ``n_components`` is ignored; or a function from the number to the problem, if priors depend
        on the number. For ``evidence`` an emission without a prior gets the weak prior for its number of components.
    numbers : sequence of int
        Candidate numbers of components.
    folds : int
        Number of folds of ``held_out``.

    Returns
    -------
    NumberChoice
        The scores, -inf for numbers with which components collapsed in every search.
    MixtureFit or VariationalFit
        The fit with the best number, on all rows.
    """
    if criterion not in CRITERIA:
        raise OptionError(f"unknown criterion '{criterion}'{hint(criterion, CRITERIA)}", code="unknown-word")
    if not numbers:
        raise OptionError("no numbers of components to choose from; give at least one", code="incomplete")
    options = options or MixtureOptions()
    made = problem if callable(problem) else lambda number: problem.sized(int(number))
    candidates = [made(int(number)) for number in numbers]
    for one in candidates:
        labels = one.latent
        if labels.allowed is not None or np.ndim(labels.dirichlet) or labels.fixed_weights is not None:
            raise OptionError(
                "allowed components and weights fixed one by one belong to one number of components", code="conflict"
            )
    chosen_from: tuple[int, ...] = tuple(candidate.n_components for candidate in candidates)
    if criterion == "held_out":
        by_row = np.stack([held_out(candidate, options, folds, rng) for candidate in candidates])
        choice = NumberChoice.held_out(criterion, chosen_from, by_row)
        return choice, fit_mixture(candidates[chosen_from.index(choice.best)], options, rng=rng)
    scored = [_scored(candidate, criterion, options, rng) for candidate in candidates]
    choice = NumberChoice.penalised(criterion, chosen_from, [score for score, _ in scored])
    fit = scored[chosen_from.index(choice.best)][1]
    if fit is None:
        raise AllCollapsed(
            "with each number of components one collapsed on a few equal rows; use method: map", code="degenerate"
        )
    return choice, fit


def _scored(
    problem: MixtureProblem, criterion: Criterion, options: MixtureOptions, rng: np.random.Generator
) -> tuple[float, MixtureFit | VariationalFit[WeightsFactor] | None]:
    """The score and the fit; -inf and None if components collapse in every search."""
    if criterion == "evidence":
        variational = fit_variational(problem, rng=rng, restarts=options.restarts)
        return variational.log_evidence, variational
    try:
        fit = fit_mixture(problem, options, rng=rng)
    except AllCollapsed:
        return -np.inf, None
    return {"bic": bic, "aic": aic, "icl": icl}[criterion](fit), fit


def held_out(problem: MixtureProblem, options: MixtureOptions, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Log density of each row (times its weight) under the fit without its fold, shape (N,).

    The folds are the same for every number of components.
    """
    n_rows = len(problem.rows)
    if not 2 <= folds <= n_rows:
        raise OptionError(f"{n_rows} rows can be split into 2 to {n_rows} folds, not {folds}", code="out-of-range")
    fold = np.random.default_rng(n_rows).permutation(n_rows) % folds
    density = np.empty(n_rows)

    for k in range(folds):
        kept = fold != k
        try:
            fit = fit_mixture(problem.at(kept), options, rng=rng)
        except AllCollapsed:
            return np.full(n_rows, -np.inf)
        density[~kept] = fit.log_evidence(problem.rows[~kept], problem.at(~kept).latent.inputs)
    weights = problem.latent.row_weights
    return density if weights is None else weights * density
