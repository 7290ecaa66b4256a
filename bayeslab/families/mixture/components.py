"""Components of a mixture, bound to data: parts of the emission with their priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.design import Design
from bayeslab.distributions import emissions
from bayeslab.errors import DataError, ModelError, errors_at
from bayeslab.families.mixture.prior_numbers import beta_or_gamma, concentration, gaussian_prior, given_law, lkj
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.column_distributions import column_distribution
from bayeslab.language.formula import parse_formula
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.categories import Categories
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.one_parameter import OneParameter
from bayeslab.posterior.observed.part import COMPONENTS, StatePart
from bayeslab.posterior.observed.prior import Prior
from bayeslab.posterior.observed.regression import RegressionPart
from bayeslab.posterior.observed.student_t import StudentT

__all__ = ["component_parts", "design_of", "regression_part"]

# Prior pseudocount of a correct label, in addition to 1 for every label.
_TRUST = 1.0

# --------------------------------------------------------------------------------- regressions


def design_of(spec: Mixture, data: Data) -> Design:
    """The design matrix of the regressions on the data of the fit.

    Raises
    ------
    ModelError
        The formula has parts that these regressions do not support: group effects, an offset or trials.
    """
    assert spec.regression is not None
    formula = parse_formula(spec.regression)
    design = Design.of(formula, data, np.arange(len(data.labels.get(data.dataset.rows, ()))))
    beyond = [
        (bool(formula.groups), "group effects such as (1 | g)"),
        (design.offset is not None, "offset(...)"),
        (formula.trials is not None, "p(successes, trials)"),
    ]
    for there, what in beyond:
        if there:
            raise ModelError(
                f"components that are regressions have no {what}: leave it out, or take the family regression",
                path=("model", "regression"),
                code="unsupported",
            )
    return design


def regression_part(
    spec: Mixture, data: Data, design: Design, known: RegressionPart | None
) -> tuple[RegressionPart, np.ndarray]:
    """Build the part, and rows of standardised inputs and the outcome; ``known`` is the part of the fit.

    Raises
    ------
    DataError
        The outcome is text, or columns are constant.
    """
    assert spec.regression is not None
    n = len(data.labels.get(data.dataset.rows, ()))
    design = design if known is None else design.on(parse_formula(spec.regression), data, np.arange(n))
    x, ones = design.matrix, np.ones((n, int(design.intercept)))
    outcome = spec.modelled[0]
    y = np.full(n, np.nan)
    if data.has(outcome):
        term = data.term(outcome, missing=True)
        if term.value is None:
            raise DataError(
                f"column '{outcome}' holds words; the outcome is a number, of two levels 0 and 1", code="not-numbers"
            )
        y = np.asarray(term.value, float)
    if known is None:
        observed = y[~np.isnan(y)]
        gaussian = spec.component == "gaussian"
        centre = x.mean(axis=0) if design.intercept else np.zeros(x.shape[1])
        scale = x.std(axis=0)
        if not (scale > 0).all():
            name = design.names[int(np.argmin(scale > 0))]
            raise DataError(f"'{name}' is constant: leave it out of the regression", code="constant")
        if gaussian and (not len(observed) or np.ptp(observed) == 0):
            raise DataError(f"column '{outcome}' is constant or empty: there is nothing to explain", code="constant")
        middle = float(observed.mean()) if gaussian and design.intercept else 0.0
        size = x.shape[1] + int(design.intercept)
        emission = emissions.Regression(size, spec.component)  # type: ignore[arg-type]
        known = RegressionPart(
            word=str(spec.component), columns=(outcome,), at=tuple(range(size + 1)), n_states=1, emission=emission,
            style=COMPONENTS, inputs=tuple(design.names), intercept=design.intercept, centre=centre, scale=scale,
            middle=middle,
        )  # fmt: skip
        rows = np.column_stack([ones, (x - centre) / scale, y - middle])
        return replace(known, emission=emission.with_prior(rows, 1)), rows
    return known, np.column_stack([ones, (x - known.centre) / known.scale, y - known.middle])


# --------------------------------------------------------------------------------- parts


def component_parts(
    spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], n_components: int
) -> dict[str, StatePart]:
    """Build the parts, by their names in the model.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns of the rows.
    n_components : int
        Number of components, on which weak priors depend.

    Raises
    ------
    ModelError, DataError
        A column does not suit its component distribution.
    """
    out: dict[str, StatePart] = {}
    for name, part_columns in spec.parts().items():
        at = tuple(columns.index(c) for c in part_columns)
        make, prefix = _MAKERS.get(spec.word(part_columns[0]), _any), spec.prefix(name)
        common = {
            "name": prefix.removesuffix("_"),
            "columns": part_columns,
            "at": at,
            "n_states": n_components,
            "style": replace(COMPONENTS, feature=f"{prefix}feature"),
        }
        with emissions.renumbered(list(at)):
            out[name] = make(spec, data, rows[:, list(at)], columns, common)
    if spec.labels and spec.label_noise:
        out["label"] = _label_part(spec, data, columns, n_components)
    return out


def _gaussian(
    spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], common: dict[str, Any]
) -> StatePart:
    part_columns: tuple[str, ...] = common["columns"]
    free: dict[str, str] = {n: str(spec.priors[n]) for n in ("mean", "sd") if n in spec.priors}
    # For a single column each of these is a variance.
    one = len(part_columns) == 1 and spec.covariance in ("full", "spherical")
    covariance = "diagonal" if one else spec.covariance
    eta = lkj(spec)
    if eta is not None and covariance != "full":
        text = "the prior of correlations needs several gaussian columns and covariance: full"
        raise ModelError(text, path=("model", "priors", "correlation"), code="unsupported")
    if (free or eta is not None) and "components" in spec.priors:
        text = "priors of components are conjugate ones; give them, or mean, sd and correlation"
        raise ModelError(text, path=("model", "priors"), code="conflict")
    if free and (len(free) < 2 or (covariance not in ("diagonal", "spherical") and eta is None)):
        raise ModelError(
            "priors of mean and sd go together, and with covariance: diagonal or spherical (or a single column); with"
            " full also give correlation: LKJ(2)",
            path=("model", "priors"),
            code="incomplete",
        )
    with errors_at(("model", "covariance")):
        emission: Any = emissions.gaussian(len(part_columns), covariance, known=spec.known)
    if covariance in ("full", "tied") and eta is None:
        _refuse_dependent(spec, rows, part_columns)
    if free and not len(rows):
        prior = emissions.NormalPrior(np.zeros(len(part_columns)), 0.01, 3.0, np.ones(len(part_columns)))
    else:
        prior = gaussian_prior(spec, emission, rows, common["n_states"])
    emission = replace(emission, prior=prior)
    if isinstance(emission, emissions.DiagonalGaussian):
        return Normal(**common, emission=emission, free=free)
    return JointNormal(**common, emission=emission, free=free, lkj=eta)


def _refuse_dependent(spec: Mixture, rows: np.ndarray, columns: tuple[str, ...]) -> None:
    """Refuse columns for which the weak prior on the data's scale is singular; a prior from the file need not be."""
    given = spec.priors.get("components")
    if not (isinstance(given, Mapping) and "scale" in given):
        emissions.refuse_dependent(rows, columns, "leave one out, or give priors: {components: {scale: ..}}")


def _student(
    spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], common: dict[str, Any]
) -> StatePart:
    emission = emissions.StudentT(len(common["columns"]), spec.dof)
    _refuse_dependent(spec, rows, common["columns"])
    prior = gaussian_prior(spec, emission, rows, common["n_states"])
    return StudentT(**common, emission=replace(emission, prior=prior))


def _one(make: Callable[[Mixture, int], emissions.OneParameter]) -> Callable[..., StatePart]:
    def maker(
        spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], common: dict[str, Any]
    ) -> StatePart:
        part_columns: tuple[str, ...] = common["columns"]
        emission = make(spec, len(part_columns))
        word = spec.word(part_columns[0])
        if (prior := beta_or_gamma(spec, emission)) is not None:
            emission = replace(emission, prior=prior)
        elif not len(rows) and emission.pair.uniform is None:
            raise ModelError(
                "the prior of the rates is on the scale of the data, and there are none; give"
                " priors: {rate: Gamma(a, b)}",
                path=("model", "priors"),
                code="no-data",
            )
        else:
            emission = emission.with_prior(rows, common["n_states"])
        of_rows = word == "binomial" and isinstance(spec.trials, str)
        at = (*common["at"], columns.index(str(spec.trials))) if of_rows else common["at"]
        return OneParameter(**common | {"at": at}, word=word, emission=emission)

    return maker


def _binomial(spec: Mixture, n: int) -> emissions.OneParameter:
    if isinstance(spec.trials, str) and n > 1:
        raise ModelError(
            "one column of trials serves one binomial column; give trials as a number",
            path=("model", "trials"),
            code="unsupported",
        )
    known = {"n": spec.trials} if isinstance(spec.trials, int) else {}
    return emissions.OneParameter("Binomial", n, known=known)


def _categories(
    spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], common: dict[str, Any]
) -> StatePart:
    part_columns: tuple[str, ...] = common["columns"]
    states = tuple(np.asarray(data.labels.get(c, ())) for c in part_columns)
    for c, s in zip(part_columns, states, strict=True):
        if not len(s):
            raise ModelError(
                f"the states of '{c}' are not known without data; give them: dims: {{{c}: [..]}}", code="incomplete"
            )
        if len(s) < 2:
            raise DataError(
                f"column '{c}' is constant: it cannot tell components apart; leave it out of columns", code="constant"
            )
    prior = concentration(spec, 1, "probability")
    return Categories(**common, emission=emissions.Categorical(tuple(map(len, states)), prior), states=states)


def _any(spec: Mixture, data: Data, rows: np.ndarray, columns: tuple[str, ...], common: dict[str, Any]) -> StatePart:
    part_columns: tuple[str, ...] = common["columns"]
    prefix = f"{common['name']}_" if common["name"] else ""
    each = [column_distribution(spec.word(c)) for c in part_columns]
    name = each[0][0]
    known = {word: np.array([[given[word] for _, given in each]]) for word in each[0][1]}
    written = {word: key for key, (part, word) in spec.parameter_priors().items() if part_columns == spec.parts()[part]}
    written = {word: key for word, key in written.items() if key in spec.priors}
    laws = {
        word: given_law(str(spec.priors[key]), name, word, ("model", "priors", key)) for word, key in written.items()
    }
    emission = emissions.AnyDistribution(name, len(part_columns), known, laws or None)
    if len(rows):
        emission.check(rows)
        emission = emission.with_prior(rows, common["n_states"])
    elif lacking := [word for word in emission.learned if word not in laws]:
        raise ModelError(
            f"the prior of {name}'s {lacking[0]} is on the scale of the data, and there are none; give priors:"
            f" {{{prefix}{lacking[0]}: ..}}",
            path=("model", "priors"),
            code="no-data",
        )
    priors = {
        f"{prefix}{word}": Prior(law.name, law.given, str(spec.priors[written[word]])) for word, law in laws.items()
    }
    return DistributedPart(**common, word=spec.word(part_columns[0]), emission=emission, priors=priors)


def _label_part(spec: Mixture, data: Data, columns: tuple[str, ...], n_components: int) -> StatePart:
    """Reported labels: a categorical column whose table is the confusion matrix; the prior favours correct labels."""
    assert spec.labels is not None
    states = np.array([str(x) for x in data.labels.get(spec.labels, ())])
    n = len(states)
    prior = 1.0 + _TRUST * n * np.eye(n_components, n)
    return Categories(
        columns=(spec.labels,), at=(columns.index(spec.labels),), n_states=n_components, style=COMPONENTS,
        emission=emissions.Categorical((n,), prior[:, None, :]), states=(states,),
    )  # fmt: skip


_MAKERS: dict[str, Callable[..., StatePart]] = {
    "gaussian": _gaussian,
    "student_t": _student,
    "poisson": _one(lambda spec, n: emissions.OneParameter("Poisson", n)),
    "exponential": _one(lambda spec, n: emissions.OneParameter("Exponential", n)),
    "bernoulli": _one(lambda spec, n: emissions.OneParameter("Bernoulli", n)),
    "binomial": _one(_binomial),
    "categorical": _categories,
}
