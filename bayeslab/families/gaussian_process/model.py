"""Arrays of a Gaussian process and its data: inputs, outcome, design matrix of the mean, priors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.design import Design
from bayeslab.data.trials import check_trials
from bayeslab.digits import check_size, located
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families.gaussian_process.hyperpriors import Scales, default_prior, refuse_negative
from bayeslab.families.gaussian_process.spec import GaussianProcess, kernel_of, mean_formula, target_of
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula
from bayeslab.language.spec import Model
from bayeslab.latents.gaussian_process.covariance import Kernel

__all__ = ["AUXILIARY", "Resolved", "resolved"]

type Remark = tuple[str, str, float | None, str, str]

# Further parameters of likelihoods.
AUXILIARY: dict[str, tuple[str, ...]] = {
    "gaussian": ("sigma",),
    "student_t": ("sigma", "nu"),
    "negative_binomial": ("alpha",),
}
# Default scale of the function's standard deviation on the scale of the link.
_LINK_SPREAD = {"logit": 2.0, "probit": 1.0, "log": 1.0}
# Roles of columns other than the outcome, for messages.
_ROLES = {
    "inputs": "an input of a Gaussian process",
    "errors": "the error of an outcome",
    "trials": "a number of trials",
}
_LINKS = {"bernoulli": "logit", "binomial": "logit", "poisson": "log", "negative_binomial": "log"}


@dataclass(frozen=True, eq=False)
class Resolved:
    """A Gaussian process on its data.

    Attributes
    ----------
    kernel : Kernel
    target, rows : str
        The outcome and the dimension of the rows.
    kept : ndarray of int
        Positions of the rows with an outcome.
    x : ndarray (n, columns)
    y : ndarray (n,) or None
        None if the data have no outcome.
    design : ndarray (n, p)
        Design matrix of the mean: the intercept first, then ``predictors``, centred at ``middle`` if there is one.
    known : ndarray (n,)
        Known variances of the observations.
    trials : ndarray (n,) or None
    middle : pair of ndarray (p,), or None
        Means of the predictors, each the sum of two doubles. The intercept refers to centred predictors, unless its
        prior is for the intercept at predictors of zero.
    nodes : dict of str to str
        Parameters to infer: ``name`` or ``name[dim]``, with its prior.
    fixed : dict of str to float
        Parameters whose prior is a number.
    """

    spec: GaussianProcess
    kernel: Kernel
    target: str
    rows: str
    kept: np.ndarray
    x: np.ndarray
    y: np.ndarray | None
    design: np.ndarray
    known: np.ndarray
    trials: np.ndarray | None
    levels: tuple[str, ...]
    intercept: bool
    predictors: tuple[str, ...]
    nodes: Mapping[str, str]
    fixed: Mapping[str, float]
    labels: Mapping[str, np.ndarray]
    row_labels: np.ndarray
    remarks: tuple[Remark, ...] = ()
    coding: Design | None = field(default=None, repr=False)
    middle: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def link(self) -> str:
        return self.spec.link or _LINKS.get(self.spec.likelihood, "identity")

    @property
    def gaussian(self) -> bool:
        """Whether the function can be integrated out in closed form."""
        return self.spec.likelihood == "gaussian"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the parameters to infer."""
        out = {}
        for key in self.nodes:
            name, _, rest = key.partition("[")
            out[name] = tuple(part.strip() for part in rest.rstrip("]").split(",") if part.strip())
        return out

    @property
    def nugget(self) -> float:
        """Jitter added to the diagonal of the function's covariance, as a share of the mean variance."""
        if self.spec.jitter is not None:
            return self.spec.jitter
        return 0.0 if self.gaussian else 1e-8

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct inputs (m, columns), and the index (n,) of each row among them."""
        inputs, place = np.unique(self.x, axis=0, return_inverse=True)
        return inputs, place.reshape(-1).astype(np.int64)

    def theta(self, values: Mapping[str, Any]) -> np.ndarray:
        """Hyperparameters of the kernel, from values by name."""
        return np.array([self.value(name, values) for name in self.kernel.names], float)

    def value(self, name: str, values: Mapping[str, Any]) -> float:
        """The value of one parameter, inferred or fixed."""
        return float(self.fixed[name]) if name in self.fixed else float(values[name])

    def noise_sd(self, values: Mapping[str, Any]) -> float:
        """Standard deviation of the noise."""
        for name, power in (("sigma2", 0.5), ("precision", -0.5)):
            if name in self.dims or name in self.fixed:
                return float(self.value(name, values) ** power)
        return self.value("sigma", values)

    def coefficients(self, values: Mapping[str, Any]) -> np.ndarray:
        """Coefficients of the mean, (p,)."""
        start = [self.value(self.level, values)] if self.intercept else []
        return np.array([*start, *np.atleast_1d(values["b"] if self.predictors else [])], float)

    @property
    def level(self) -> str:
        """Name of the intercept parameter."""
        return "Intercept" if self.middle is None else "Intercept_centred"

    @property
    def at_zero(self) -> np.ndarray:
        """Row of the centred design at predictors of zero, which gives the raw intercept, (1 + p,)."""
        assert self.middle is not None
        return np.array([1.0, *(-(self.middle[0] + self.middle[1]))])


def resolved(model: Model, data: Data, origin: Resolved | None = None) -> Resolved:
    """Resolve the model on its data.

    Parameters
    ----------
    origin
        The model resolved on the data of the fit, if the model's data are others; None: computed from the model.
    """
    spec: GaussianProcess = model.model  # type: ignore[assignment]
    base = resolved(model, data.origin) if data.origin is not None and origin is None else origin
    rows = data.dataset.rows
    if rows not in data.labels:
        raise DataError("a Gaussian process needs a table of rows", path=("data",), code="no-data")
    if base is not None:
        target, kernel = base.target, base.kernel
    else:
        target = target_of(spec, data.names())
        named = {name: data.labels[name] for name in kernel_of(spec).categorical if name in data.labels}
        levels = {name: tuple(str(level) for level in labels) for name, labels in named.items()}
        kernel = kernel_of(spec, data.names() - {target}, levels)
    n_rows = len(data.labels[rows])
    if base is not None:
        _complete(base, data)
    y, names = _outcome(spec, data, target, base)
    there = np.arange(n_rows) if y is None or not data.fitted else np.flatnonzero(~np.isnan(y))
    x = _inputs(kernel, data)[there]
    formula = mean_formula(spec, target)
    design, coding, predictors, intercept, middle = _mean(spec, formula, data, there, base)
    known = np.zeros(n_rows) if spec.errors is None else _known_errors(data, spec.errors) ** 2
    trials = _trials(spec, data, n_rows)
    y = None if y is None else y[there]
    trials = None if trials is None else trials[there]
    if y is not None and base is None:
        _possible(spec, target, y, trials)
    if base is not None:
        nodes, fixed, labels = base.nodes, base.fixed, base.labels
    else:
        level = ("Intercept" if middle is None else "Intercept_centred") if intercept else None
        nodes, fixed = _parameters(spec, kernel, x, y, design, level, predictors)
        _varied(spec, kernel, x, nodes)
        labels = {"predictor": np.array(predictors)} if predictors else {}
    remarks = []
    if len(there) < n_rows:
        text = f"{n_rows - len(there)} of {n_rows} rows have no {target} and are left out"
        remarks.append(("rows", target, float(n_rows - len(there)), text, "predict says what it may have been"))
    return Resolved(
        spec, kernel, target, rows, there, x, y, design, known[there], trials, names, intercept, predictors, nodes,
        fixed, labels, data.labels[rows][there], tuple(remarks), coding, middle,
    )  # fmt: skip


def _complete(base: Resolved, data: Data) -> None:
    """Check that new data have the columns of the function and its mean."""
    formula, there = mean_formula(base.spec, base.target), set(data.dataset.columns)
    wanted = dict.fromkeys((*base.kernel.columns, *sorted(formula.predictor_columns() if formula else ())))
    lacking = [name for name in wanted if name not in there]
    if lacking:
        raise DataError(
            f"the new data have no column {listed(lacking)}; kernel and mean are of {listed(list(wanted))}"
            f"{hint(lacking[0], there)}",
            code="unknown-column",
        )


def _varied(spec: GaussianProcess, kernel: Kernel, x: np.ndarray, nodes: Mapping[str, str]) -> None:
    """Check that nothing is inferred from a constant column."""
    if len(x) < 2:
        return
    constant = {name for name, values in zip(kernel.columns, x.T, strict=True) if np.ptp(values) == 0.0}
    for name in kernel.columns:
        of = [p.name for p in kernel.parameters if p.name in nodes and name in p.columns and constant >= set(p.columns)]
        if name in constant and of:
            value = kernel.levels[name][0] if name in kernel.levels else f"{x[0, kernel.columns.index(name)]:g}"
            place = re.search(rf"\b{re.escape(name)}\b", spec.kernel)
            raise ModelError(
                f"column '{name}' is {value} in all {len(x):,} rows: nothing can be learned of {listed(of)}; leave it"
                " out of the kernel",
                path=("model", "kernel"),
                offset=place.start() if place else 0,
                code="constant",
            )


def _numbers(data: Data, name: str, what: str) -> np.ndarray:
    term = data.term(name, role=_ROLES[what])
    if term.value is None:
        raise DataError(f"'{name}' is text; {what} are numbers", path=("model", what), code="not-numbers")
    if term.dims not in ((data.dataset.rows,), ()):
        raise DataError(f"'{name}' is not a column of the table", code="not-a-column")
    return np.array(np.broadcast_to(np.asarray(term.value, float), (len(data.labels[data.dataset.rows]),)))


def _known_errors(data: Data, name: str) -> np.ndarray:
    """Known standard deviations of the outcomes."""
    errors = _numbers(data, name, "errors")
    if np.any(wrong := ~((errors >= 0) & (errors < np.inf))):
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"column '{name}', row {row + 1}: {errors[row]:g} is not a standard deviation; known errors are 0 or more:"
            f" correct the cell, or leave the row out",
            path=("model", "errors"),
            code="impossible-value",
        )
    return errors


def _inputs(kernel: Kernel, data: Data) -> np.ndarray:
    n = len(data.labels[data.dataset.rows])
    out = np.empty((n, len(kernel.columns)))
    for j, name in enumerate(kernel.columns):
        if name not in kernel.categorical:
            out[:, j] = _numbers(data, name, "inputs")
            if data.origin is None:
                check_size(out[:, j], f"the input '{name}'")
            continue
        codes = data.term(name, role=_ROLES["inputs"]).codes
        if codes is None:
            raise DataError(
                f"Coregion({name}): '{name}' is not a column of categories", path=("model", "kernel"), code="not-states"
            )
        out[:, j] = codes
    if not np.isfinite(out).all():
        row, column = np.argwhere(~np.isfinite(out))[0]
        raise DataError(
            f"column '{kernel.columns[column]}', row {row + 1}: an input is a finite number", code="not-finite"
        )
    for leaf in kernel.root.leaves():
        if leaf.word == "Brownian" and n and out[:, kernel.columns.index(leaf.columns[0])].min() < 0:
            raise DataError(
                f"Brownian({leaf.columns[0]}) starts at zero, and '{leaf.columns[0]}' has negative values: there"
                " min(x, z) is not a covariance; shift the column",
                path=("model", "kernel"),
                code="impossible-value",
            )
    return out


def _outcome(
    spec: GaussianProcess, data: Data, target: str, base: Resolved | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Outcomes, NaN where missing, and the names of the two levels of a text column."""
    known = base.levels if base is not None else ()
    if not data.has(target):
        return None, known
    column = data.column(target) if target in data.dataset.columns else None
    if column is not None and column.text:
        present = ~column.absent()
        levels = known or tuple(str(v) for v in data.labels.get(target, np.unique(column.values[present])))
        if spec.likelihood != "bernoulli" or len(levels) != 2:
            raise DataError(
                f"'{target}' is text with {len(levels)} levels; only likelihood bernoulli takes text, of two levels",
                code="not-numbers",
            )
        return np.where(present, (column.values == levels[1]).astype(float), np.nan), levels
    term = data.term(target, missing=True)
    if (term.value is None and term.codes is None) or term.dims != (data.dataset.rows,):
        raise DataError(f"'{target}' is not a column of numbers", code="not-a-column")
    values = np.array(term.value if term.value is not None else term.codes, float)
    if data.origin is None:
        check_size(values, f"the outcome '{target}'")
        if (word := spec.approximation) not in (None, "state_space"):
            # Their terms are products of several variances.
            check_size(values, f"the outcome '{target}'", smallest=1e-60, largest=1e60, by=f"approximation: {word}")
    return values, known


def _mean(
    spec: GaussianProcess, formula: Formula | None, data: Data, there: np.ndarray, base: Resolved | None
) -> tuple[np.ndarray, Design | None, tuple[str, ...], bool, tuple[np.ndarray, np.ndarray] | None]:
    """Design matrix and its coding, predictors, whether there is an intercept, and the centres of the predictors."""
    if formula is None:
        return np.empty((len(there), 0)), None, (), False, None
    if not formula.common.terms and formula.common.intercept:
        return np.ones((len(there), 1)), None, (), True, None
    try:
        coding = base.coding.on(formula, data, there) if base and base.coding else Design.of(formula, data, there)
    except ModelError as error:
        raise type(error)(error.message, path=("model", "mean"), code=error.code) from None
    names, intercept_prior = tuple(coding.names), str(spec.priors.get("Intercept", "Flat()"))
    middle = base.middle if base is not None else None
    if base is None and coding.intercept and names and intercept_prior.replace(" ", "").startswith("Flat("):
        middle = coding.means
    if middle is not None:
        return coding.about(*middle), coding, names, True, middle
    parts = [np.ones((len(there), 1))] if coding.intercept else []
    return np.hstack([*parts, coding.matrix]), coding, names, coding.intercept, None


def _trials(spec: GaussianProcess, data: Data, n: int) -> np.ndarray | None:
    if spec.trials is None:
        return None
    if isinstance(spec.trials, int):
        return np.full(n, float(spec.trials))
    if not data.has(spec.trials):
        return None
    trials = _numbers(data, spec.trials, "trials")
    check_trials(spec.trials, trials)
    return trials


def _possible(spec: GaussianProcess, target: str, y: np.ndarray, trials: np.ndarray | None) -> None:
    """Check that the likelihood allows the outcomes."""
    if not len(y):
        raise DataError(f"'{target}' has no values", code="no-values")
    whole, low = bool((y == np.floor(y)).all()), float(y.min())
    allowed = {
        "bernoulli": ("0 or 1", bool(np.isin(y, (0, 1)).all())),
        "poisson": ("a count", whole and low >= 0),
        "negative_binomial": ("a count", whole and low >= 0),
        "binomial": ("a count of the trials", whole and low >= 0 and (trials is None or bool((y <= trials).all()))),
    }
    text, good = allowed.get(spec.likelihood, ("a finite number", bool(np.isfinite(y).all())))
    if not good:
        raise DataError(
            f"'{target}' has values that likelihood {spec.likelihood} does not allow: each is {text}",
            code="impossible-value",
        )


def _parameters(
    spec: GaussianProcess, kernel: Kernel, x: np.ndarray, y: np.ndarray | None, design: np.ndarray, level: str | None,
    predictors: tuple[str, ...],
) -> tuple[dict[str, str], dict[str, float]]:  # fmt: skip
    """Priors of the parameters to infer, and values of the fixed ones; ``level`` is the name of the intercept."""
    link = spec.link or _LINKS.get(spec.likelihood, "identity")
    spread, middle = _LINK_SPREAD.get(link, 1.0), 0.0
    if link == "identity" and y is not None and len(y):
        spread, middle = (float(np.std(y)) or abs(float(np.mean(y))) or 1.0), float(np.mean(y))
    elif link == "log" and y is not None and len(y):
        middle = float(np.log(max(float(np.mean(y)), 0.5 / len(y))))
    scales = Scales(x, kernel.columns, spread, _finest(spec, kernel))
    degrees = {leaf.word: leaf.option for leaf in kernel.root.leaves()}
    defaults = {p.name: default_prior(p, scales, degrees.get(p.word, 1)) for p in kernel.parameters}
    positive = {p.name: f"the {p.role} of {p.word or 'a term'}" for p in kernel.parameters if p.support == "positive"}
    for name in AUXILIARY.get(spec.likelihood, ()):
        if name == "sigma" and (given := {"sigma2", "precision"} & spec.priors.keys()):
            name = given.pop()
        prior = {"nu": "Gamma(2, 0.1)", "alpha": "InverseGamma(0.4, 0.3)"}.get(name, f"HalfNormal({_number(spread)})")
        defaults[name], positive[name] = prior, "a parameter of the likelihood"
    if level is not None:
        defaults[level] = f"Normal({located(middle, spread)}, {_number(2.5 * spread)})"
    if predictors:
        widths = [2.5 * spread / (float(np.std(column)) or 1.0) for column in design[:, int(level is not None) :].T]
        defaults["b"] = f"Normal(0, [{', '.join(_number(w) for w in widths)}])"
    priors = dict(spec.priors)
    if level == "Intercept_centred" and "Intercept" in priors:
        # A flat prior does not depend on where the predictors are centred.
        priors.setdefault(level, priors.pop("Intercept"))
    return _written(priors, defaults, positive)


def _finest(spec: GaussianProcess, kernel: Kernel) -> float:
    """Resolution limit of the basis functions, as a share of an input's range; 0 for exact processes."""
    if spec.approximation != "hsgp":
        return 0.0
    return 1 / 50 if len(kernel.columns) == 1 else 1 / 10


def _written(
    priors: Mapping[str, str | int | float], defaults: Mapping[str, str], positive: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, float]]:
    """Defaults overridden by the file's priors; hyperparameters of priors come first."""
    nodes: dict[str, str] = {}
    fixed: dict[str, float] = {}
    used = {name for text in priors.values() if isinstance(text, str) for name in parse(text).names}
    for name, given in priors.items():
        path = ("model", "priors", name)
        if name not in defaults and name not in used:
            raise ModelError(
                f"'{name}' is not a parameter of this model{hint(name, defaults)}", path=path, code="unknown-parameter"
            )
        if name not in defaults:
            nodes[name] = str(given)
    for name, default in defaults.items():
        prior = priors.get(name, default)
        number = _as_number(prior)
        if number is None:
            if name in positive:
                refuse_negative(name, positive[name], str(prior))
            nodes["b[predictor]" if name == "b" else name] = str(prior)
            continue
        if name == "b":
            raise ModelError("'b' has a prior, not a number", path=("model", "priors", name), code="bad-prior")
        if name in positive and number < 0:
            raise ModelError(
                f"'{name}' is positive, not {number:g}", path=("model", "priors", name), code="out-of-range"
            )
        fixed[name] = number
    return nodes, fixed


def _as_number(given: str | int | float) -> float | None:
    try:
        return float(given)
    except ValueError:
        return None


def _number(value: float) -> str:
    return repr(float(f"{value:.6g}"))
