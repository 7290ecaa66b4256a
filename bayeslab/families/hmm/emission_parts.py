"""The parts of a hidden Markov model's emission, bound to data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.weak_priors import refuse_constant
from bayeslab.distributions import Law, emissions
from bayeslab.errors import DataError, ModelError, errors_at
from bayeslab.families.hmm.given_parameters import check_shape, check_sums, check_together, given_of, names_of
from bayeslab.families.hmm.spec import HMM
from bayeslab.language.column_distributions import column_distribution, is_distribution
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.categories import Categories
from bayeslab.posterior.observed.gaussian_mixture import MixedPart
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.one_parameter import OneParameter
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import PARAMETERS, Prior, standard_name
from bayeslab.posterior.observed.scores import ScoredPart, Scores
from bayeslab.posterior.observed.student_t import StudentT

__all__ = ["joint_of", "parts_of"]

# Tolerated deviation from one of the sum of a row of probabilities.
_ROUNDED = 0.02


def parts_of(
    data: Data,
    layout: Sequence[tuple[str, str, tuple[str, ...]]],
    rows: np.ndarray,
    scaled_by: np.ndarray,
    n_states: int,
    given: Mapping[str, Any],
    *,
    covariance: str = "diagonal",
    trials: int | None = None,
    dof: float | None = None,
    mixtures: int | None = None,
) -> tuple[StatePart, ...]:
    """Build the parts of the emission for the data.

    Parameters
    ----------
    rows : ndarray (N, D)
        All columns, in order; level codes for categories; NaN for missing cells.
    scaled_by : ndarray
        Rows that set the scale of the weak priors: those of the fit.

    Raises
    ------
    ModelError, DataError
        A column does not suit its emission; the message names the column.
    """
    known, priors = given_of(given, layout, n_states)
    order = [column for _, _, columns in layout for column in columns]
    out: list[StatePart] = []
    for name, word, columns in layout:
        at = [order.index(column) for column in columns]
        cells, base, names = rows[:, at], scaled_by[:, at], names_of(word, name, columns)
        known_here = {n: known[n] for n in names if n in known}
        priors_here = {n: _of_one_number(priors[n], n, columns) for n in names if n in priors}
        common: dict[str, Any] = {"name": name, "columns": columns, "at": tuple(at), "n_states": n_states}
        if word == "scores":
            out.append(_scored(common, cells, base, known.get("prior")))
            continue
        common["spread"] = np.sqrt(emissions.column_variances(base))
        if word == "gaussian_mixture":
            if mixtures is None:
                raise ModelError(
                    "a gaussian_mixture needs `mixtures`, the number of parts",
                    path=("model", "mixtures"),
                    code="incomplete",
                )
            out.append(_mixed(common, base, mixtures, known_here))
            continue
        if is_distribution(word):
            out.append(_distributed(common, word, cells, base, known_here, priors_here))
            continue
        levels = np.asarray(data.labels.get(columns[0], ())) if word == "categorical" else np.array([])
        emission = _emission(word, columns, levels, covariance, trials, dof)
        if word in ("gaussian", "student_t") and any(
            standard_name(p, name, columns) not in known_here | priors_here for p in PARAMETERS[word][:2]
        ):
            refuse_constant(base, columns)
        emission = emission.with_prior(base, n_states)
        with emissions.with_names(columns):
            emission.check(cells)
        if word == "categorical":
            called = standard_name("p", name, columns)
            if called in priors_here:
                emission = replace(emission, prior=_per_level(priors_here.pop(called), called, len(levels)))
            common["states"] = (levels,)
        common |= {
            "emission": emission,
            "known": {n: _shaped(v, n, word, len(columns), len(levels), n_states) for n, v in known_here.items()},
            "priors": priors_here,
        }
        match word:
            case "gaussian":
                out.append(Normal(**common))
            case "student_t":
                out.append(StudentT(**common))
            case "categorical":
                out.append(Categories(**common))
            case _:
                out.append(OneParameter(**common, word=word))
    return tuple(out)


def _of_one_number(prior: Prior, name: str, columns: tuple[str, ...]) -> Prior:
    """Check that a prior that orders the states belongs to a parameter with one number for each state."""
    if prior.ordered and len(columns) > 1:
        raise ModelError(
            f"an order is of one number a state, and '{name}' has {len(columns)}; give each column a word of its own in"
            " `emission`, and order one of them",
            path=("model", "parameters", name),
            code="bad-dimensions",
        )
    return prior


def _per_level(prior: Prior, name: str, n_levels: int) -> np.ndarray:
    """Concentrations (1, n_levels)."""
    a = prior.arguments["a"]
    if a.ndim and n_levels and len(a) != n_levels:
        path = ("model", "parameters", name)
        raise ModelError(f"{len(a)} numbers for {n_levels} levels; give one for each", path=path, code="wrong-length")
    return np.broadcast_to(a, (1, n_levels))


def _emission(
    word: str, columns: tuple[str, ...], levels: np.ndarray, covariance: str, trials: int | None, dof: float | None
) -> Any:
    match word:
        case "gaussian":
            return emissions.gaussian(len(columns), cast(Any, covariance))
        case "student_t":
            return emissions.StudentT(1, dof)
        case "categorical":
            return emissions.Categorical((len(levels),))
        case "bernoulli" | "poisson" | "exponential":
            return emissions.OneParameter(word.capitalize(), len(columns))
    if trials is None:
        raise ModelError(
            "a binomial column needs `trials`, the number of trials", path=("model", "trials"), code="incomplete"
        )
    return emissions.OneParameter("Binomial", len(columns), known={"n": trials})


def _distributed(
    common: Mapping[str, Any],
    word: str,
    rows: np.ndarray,
    base: np.ndarray,
    known: Mapping[str, np.ndarray],
    priors: Mapping[str, Prior],
) -> DistributedPart:
    """Build a part with a general distribution.

    Raises
    ------
    ModelError, DataError
        See :func:`bayeslab.distributions.usable`; values outside the support; or a constant column, which cannot set
        the scale of weak priors.
    """
    distribution, numbers = column_distribution(word)
    columns, n_states = common["columns"], common["n_states"]
    mine, full = names_of(word, common["name"], columns), (n_states, len(columns))
    given = {n: _by_column(v, n, len(columns), n_states) for n, v in known.items()}
    emission = emissions.AnyDistribution(
        distribution,
        len(columns),
        {k: np.asarray(v) for k, v in numbers.items()} | {mine[n]: v.reshape(full) for n, v in given.items()},
        {mine[n]: Law(p.word, {a: _by_state(v) for a, v in p.arguments.items()}) for n, p in priors.items()},
    )
    if any(word not in (emission.prior or {}) for word in emission.learned):
        refuse_constant(base, columns)
    with emissions.with_names(columns):
        emission.check(rows)
    with errors_at(("model", "emission")):
        emission = emission.with_prior(base, n_states)
    return DistributedPart(**common, word=word, emission=emission, known=given, priors=priors)


def _by_state(value: np.ndarray) -> np.ndarray:
    value = np.asarray(value, float)
    return value[:, None] if value.ndim else value


def _shaped(value: np.ndarray, name: str, word: str, d: int, n_levels: int, n_states: int) -> np.ndarray:
    path = ("model", "parameters", name)
    if word == "categorical":
        check_shape(value, (n_states, n_levels), path)
        check_sums(value, path)
        return value
    return _by_column(value, name, d, n_states)


def _by_column(value: np.ndarray, name: str, d: int, n_states: int) -> np.ndarray:
    """Numbers for each state, and for each of the d columns if there are several."""
    if d > 1 and value.ndim == 1:
        value = np.repeat(value[:, None], d, axis=1)
    check_shape(value, (n_states, d) if d > 1 else (n_states,), ("model", "parameters", name))
    return value


def _mixed(common: Mapping[str, Any], base: np.ndarray, n_parts: int, known: Mapping[str, np.ndarray]) -> MixedPart:
    """Build a part of normal mixtures; ``known`` has all its parameters as numbers, or none.

    Raises
    ------
    ModelError, DataError
        Some parameters are given but not all; shapes are wrong; or a column is constant.
    """
    emission = emissions.GaussianMixture(len(common["columns"]), n_parts)
    part = MixedPart(**common, emission=emission, known=known)
    if not known:
        refuse_constant(base, part.columns)
    check_together(known, part.names, "the parameters of a gaussian_mixture")
    for parameter, value in known.items():
        path = ("model", "parameters", parameter)
        check_shape(value, part.shape(parameter), path)
        if part.parameter(parameter) == "weight":
            check_sums(value, path, "the weights of state")
    return replace(part, emission=emission.with_prior(base, part.n_states))


def _scored(common: dict[str, Any], rows: np.ndarray, base: np.ndarray, prior: np.ndarray | None) -> ScoredPart:
    """Build the part of classifier scores: rows (n_rows, n_states) of P(state); ``base`` estimates P(state) by default.

    Raises
    ------
    DataError, ModelError
        Scores are not probabilities; rows have some but not all cells missing; or a prior probability is zero.
    """
    columns = common["columns"]
    for j, column in enumerate(columns):
        odd = np.flatnonzero((rows[:, j] < 0) | (rows[:, j] > 1))
        if len(odd):
            raise DataError(
                f"column '{column}', row {odd[0] + 1}: {rows[odd[0], j]:g}; a score is a probability",
                code="impossible-value",
            )
    lost = np.isnan(rows)
    if len(half := np.flatnonzero(lost.any(axis=1) & ~lost.all(axis=1))):
        raise DataError(f"row {half[0] + 1}: some scores are missing; give all of a row, or none", code="missing")
    sums = rows.sum(axis=1)
    if len(odd := np.flatnonzero(np.abs(sums - 1) > _ROUNDED)):
        raise DataError(
            f"row {odd[0] + 1}: the scores of the states sum to {sums[odd[0]]:g}, not to 1", code="not-probabilities"
        )
    path = ("model", "parameters", "prior")
    if prior is None:
        complete = base[~np.isnan(base).any(axis=1)]
        prior = complete.mean(axis=0) if len(complete) else np.full(len(columns), 1 / len(columns))
    elif abs(prior.sum() - 1) > _ROUNDED:
        raise ModelError(
            f"the probabilities of the states sum to {prior.sum():g}, not to 1", path=path, code="not-probabilities"
        )
    if len(zero := np.flatnonzero(prior <= 0)):
        raise ModelError(
            f"the state of '{columns[zero[0]]}' has prior probability 0: leave it out",
            path=path,
            code="not-probabilities",
        )
    return ScoredPart(**common, emission=Scores(prior / prior.sum()))


def joint_of(
    spec: HMM, rows: np.ndarray, scaled_by: np.ndarray, n_states: int, given: Mapping[str, Any]
) -> JointNormal:
    """Build the part for the data.

    Raises
    ------
    ModelError, DataError
        An emission is not gaussian; parameters are known; or a column is constant or a linear function of others.
    """
    if spec.emission != "gaussian":
        raise ModelError(
            f"covariance: {spec.covariance} needs emission: gaussian for all columns",
            path=("model", "covariance"),
            code="unsupported",
        )
    if given:
        raise ModelError(
            f"with covariance: {spec.covariance} all parameters are learned",
            path=("model", "parameters"),
            code="conflict",
        )
    columns = tuple(spec.columns)
    refuse_constant(scaled_by, columns)
    emissions.refuse_dependent(scaled_by, columns, "leave one out")
    emission = emissions.FullGaussian(len(columns), cast(Any, spec.covariance)).with_prior(scaled_by, n_states)
    emission.check(rows)
    return JointNormal(
        columns=columns, at=tuple(range(len(columns))), n_states=n_states, emission=emission,
        spread=np.sqrt(emissions.column_variances(scaled_by)),
    )  # fmt: skip
