"""What hidden states emit: the words of a file as distributions, for exact kernels and for PyMC.

A :class:`Part` is a group of columns with one kind of distribution in every state. It knows its
parameters by the names they have in the posterior (``mean``, ``sd``, ``probability``; with several parts
``mean_height``), the same numbers as :mod:`bayeslab.exact.emissions` wants them, their priors, and the log
density as a PyTensor expression. Mixtures call the states ``component``, hidden Markov models ``state``.

Priors that a file does not write are weak and scaled by the data, and the same for every engine: normal and
inverse gamma for means and variances, Dirichlet and beta for probabilities, gamma for rates.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy.special import gammaln

from bayeslab.data.dataset import Data
from bayeslab.data.weak_priors import refuse_constant, scaled
from bayeslab.distributions import DISTRIBUTIONS, pymc_class
from bayeslab.distributions import SCALARS as SCALAR_PRIORS
from bayeslab.distributions import log_density as scalar_density
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.exact import emissions as exact
from bayeslab.exact.emissions.any_distribution import allowed, interval, never_learned, usable
from bayeslab.families.bayes_net.local_distributions import constant
from bayeslab.language.column_distributions import column_distribution, is_distribution
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = [
    "WORDS",
    "Part",
    "Prior",
    "columns_of",
    "distribution_of",
    "drawn",
    "given_of",
    "independent_normals",
    "internal",
    "is_whole",
    "log_density",
    "names_of",
    "normal_parameters",
    "parameter_names",
    "parameters",
    "parts_of",
    "starting",
]

WORDS = (
    "gaussian", "gaussian_mixture", "student_t", "categorical", "bernoulli", "binomial", "poisson", "exponential",
    "scores",
)  # fmt: skip
# The parameters of each word.
_PARAMETERS = {
    "gaussian": ("mean", "sd"),
    "gaussian_mixture": ("weight", "mean", "sd"),
    "scores": ("prior",),
    "student_t": ("location", "scale", "dof"),
    "categorical": ("p",),
    "bernoulli": ("probability",),
    "binomial": ("probability",),
    "poisson": ("rate",),
    "exponential": ("rate",),
}
# Whose values are whole numbers, or the levels of categories.
_WHOLE = frozenset(("categorical", "bernoulli", "binomial", "poisson", "urn"))
_POSITIVE = frozenset(("sd", "scale", "dof", "rate"))
# Priors a positive parameter can have.
_ON_POSITIVE = frozenset(
    (
        "HalfNormal",
        "HalfCauchy",
        "HalfStudentT",
        "HalfFlat",
        "Exponential",
        "Gamma",
        "InverseGamma",
        "LogNormal",
        "Weibull",
        "ChiSquared",
        "TruncatedNormal",
        "Uniform",
    )
)
# Priors that put states in order.
ORDERS = ("Ordered", "PositiveOrdered")
_ON_UNIT = frozenset(("Beta", "Uniform", "Kumaraswamy", "LogitNormal", "TruncatedNormal"))


@dataclass(frozen=True, eq=False)
class Prior:
    """A distribution of PyMC with numbers, one for each state where they differ; ``ordered``: states in its order."""

    word: str
    arguments: Mapping[str, np.ndarray]
    text: str
    ordered: bool = False

    @property
    def support(self) -> tuple[float, float]:
        """The least and the greatest value, of priors that :mod:`bayeslab.distributions` knows."""
        _, lower, upper, _ = scalar_density(self.word, {a: float(np.ravel(v)[0]) for a, v in self.arguments.items()})
        return lower, upper


@dataclass(frozen=True, eq=False)
class Part:
    """Columns with one kind of distribution.

    Attributes
    ----------
    name : str
        Column, where there are several parts; else empty.
    word : str
        One of `WORDS`.
    columns : tuple of str
    at : tuple of int
        Their positions in the rows.
    emission : Emission
        The exact one, with its weak prior.
    levels : ndarray
        Of a categorical column.
    known : mapping of str to ndarray
        Parameters given as numbers, by posterior name.
    priors : mapping of str to Prior
        Priors the file writes, by posterior name.
    start : mapping of str to ndarray
        Where searches can begin: parameters of groups of similar rows.
    suffix : str
        Of all names, where several chains have parameters of the same kind.
    """

    name: str
    word: str
    columns: tuple[str, ...]
    at: tuple[int, ...]
    n_states: int
    emission: Any
    levels: np.ndarray
    known: Mapping[str, np.ndarray]
    priors: Mapping[str, Prior]
    start: Mapping[str, np.ndarray] = field(default_factory=dict)
    spread: np.ndarray = field(default_factory=lambda: np.ones(1))
    suffix: str = ""

    def called(self, parameter: str) -> str:
        """The posterior's name of a parameter."""
        return _called(parameter, self.name, self.columns) + self.suffix

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters in the posterior."""
        return tuple(self.called(p) for p in _PARAMETERS[self.word] if not (p == "dof" and self.fixed_dof))

    @property
    def fixed_dof(self) -> bool:
        return self.word == "student_t" and self.emission.dof is not None

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(n for n in self.names if n not in self.known)

    @property
    def spherical(self) -> bool:
        return getattr(self.emission, "covariance", "") == "spherical"

    @property
    def symmetric(self) -> bool:
        """Whether nothing here tells one state from another."""
        same = [np.ptp(v, axis=0).max(initial=0) == 0 for v in self.known.values()]
        return all(same) and self.even and not self.in_order

    @property
    def even(self) -> bool:
        """Whether the priors of all states have the same numbers."""
        return all(np.size(a) == 1 for p in self.priors.values() for a in p.arguments.values())

    @property
    def in_order(self) -> tuple[str, ...]:
        """Parameters by which states are in order."""
        return tuple(name for name, prior in self.priors.items() if prior.ordered)

    def shape(self, name: str) -> tuple[int, ...]:
        if self.word == "categorical":
            return (self.n_states, len(self.levels))
        wide = len(self.columns) > 1 and not (self.spherical and name == self.called("sd"))
        return (self.n_states, len(self.columns)) if wide else (self.n_states,)

    def dims(self, name: str, state: str) -> tuple[str, ...]:
        """Dimensions of a parameter; ``state`` is what states are called."""
        if self.word == "categorical":
            return (state, f"{self.columns[0]}_state")
        return (state, "feature") if len(self.shape(name)) == 2 else (state,)

    def labels(self) -> dict[str, np.ndarray]:
        if self.word == "categorical":
            return {f"{self.columns[0]}_state": self.levels}
        return {"feature": np.array(self.columns)} if len(self.columns) > 1 else {}

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Parameters as the exact emission takes them."""
        get = {p: np.asarray({**values, **self.known}[self.called(p)], float) for p in self._asked()}
        k, d = self.n_states, len(self.columns)
        match self.word:
            case "gaussian":
                variance = get["sd"] ** 2
                return {
                    "mean": get["mean"].reshape(k, d),
                    "variance": variance if self.spherical else variance.reshape(k, d),
                }
            case "student_t":
                dof = np.full(k, float(self.emission.dof)) if self.fixed_dof else get["dof"]
                return {"mean": get["location"][:, None], "scale": get["scale"][:, None, None] ** 2, "dof": dof}
            case "categorical":
                return {"probability": get["p"][:, None, :]}
        return {name: value.reshape(k, d) for name, value in get.items()}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inverse of :meth:`to_exact`."""
        match self.word:
            case "gaussian":
                out = {"mean": theta["mean"], "sd": np.sqrt(theta["variance"])}
            case "student_t":
                out = {"location": theta["mean"], "scale": np.sqrt(theta["scale"][:, 0, 0]), "dof": theta["dof"]}
            case "categorical":
                out = {"p": theta["probability"]}
            case _:
                out = dict(theta)
        named = {self.called(p): out[p] for p in self._asked()}
        return {n: v.reshape(self.shape(n)) for n, v in named.items()}

    def parameter(self, name: str) -> str:
        """The parameter that the posterior calls so."""
        return next(p for p in _PARAMETERS[self.word] if self.called(p) == name)

    def _asked(self) -> tuple[str, ...]:
        return tuple(p for p in _PARAMETERS[self.word] if not (p == "dof" and self.fixed_dof))

    def default_prior(self, name: str) -> str:
        """The prior of a parameter, for people."""
        if name in self.priors:
            return self.priors[name].text
        parameter, prior = self.parameter(name), self.emission.prior
        match self.word, parameter:
            case "gaussian" | "student_t", "mean" | "location":
                spread = "sd" if self.word == "gaussian" else "scale"
                return f"Normal({_shown(prior.mean)}, {self.called(spread)} / {np.sqrt(prior.kappa):.4g})"
            case "gaussian" | "student_t", "sd" | "scale":
                half = 0.5 * np.ravel(_diagonal(prior.scale))
                return f"sqrt(InverseGamma({prior.nu / 2:.4g}, {_shown(half)}))"
            case "student_t", "dof":
                return "Gamma(2, 0.1), between 0.5 and 200"
            case "categorical", _:
                a = np.broadcast_to(prior, (1, len(self.levels)))[0]
                return f"Dirichlet([{', '.join(f'{x:g}' for x in a)}]) in every row"
            case "bernoulli" | "binomial", _:
                return f"Beta({_shown(prior[0])}, {_shown(prior[1])})"
        return f"Gamma({_shown(prior[0])}, {_shown(prior[1])})"


def _called(parameter: str, name: str, columns: tuple[str, ...]) -> str:
    if parameter == "p":
        return f"p_{columns[0]}"
    return f"{name}_{parameter}" if name else parameter


def _shown(values: Any) -> str:
    values = np.unique(np.ravel(values))
    return f"{values[0]:.4g}" if len(values) == 1 else "[" + ", ".join(f"{v:.4g}" for v in values) + "]"


def _diagonal(scale: np.ndarray) -> np.ndarray:
    return np.diag(scale) if np.ndim(scale) == 2 else np.asarray(scale)


# --------------------------------------------------------------------------------- reading the spec


def columns_of(columns: Sequence[str], words: str | Mapping[str, str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The parts of a spec: (name, word, columns).

    Raises
    ------
    ModelError
        An unknown word or column; a column without a word.
    """
    if isinstance(words, str):
        _known_word(words, ("model", "emission"))
        if len(columns) == 1 or words not in ("categorical", "student_t"):
            return [("", words, tuple(columns))]
        return [(column, words, (column,)) for column in columns]
    for column, word in words.items():
        if column not in columns:
            raise ModelError(
                f"'{column}' is not among the columns{hint(column, columns)}",
                path=("model", "emission"),
                code="unknown-column",
            )
        _known_word(word, ("model", "emission", column))
    for column in columns:
        if column not in words:
            raise ModelError(
                f"no distribution is given for the column '{column}': one of {', '.join(WORDS)}, or one of the language"
                " such as Gamma",
                path=("model", "emission"),
                code="incomplete",
            )
    return [(column if len(columns) > 1 else "", words[column], (column,)) for column in columns]


def _known_word(word: str, path: tuple[str, ...]) -> None:
    if word in WORDS:
        return
    if not is_distribution(word):
        near = hint(word, (*WORDS, *DISTRIBUTIONS))
        raise ModelError(f"unknown distribution '{word}'{near}", path=path, code="not-a-distribution")
    try:
        distribution, numbers = column_distribution(word)
        # What else has to be known `parameters` may give.
        allowed(distribution, numbers)
    except ModelError as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None


def is_whole(word: str) -> bool:
    """Whether the values of a column with this word are whole numbers."""
    return DISTRIBUTIONS[column_distribution(word)[0]].discrete if is_distribution(word) else word in _WHOLE


def names_of(word: str, name: str, columns: tuple[str, ...]) -> dict[str, str]:
    """Parameters of a part by their names in the posterior."""
    if not is_distribution(word):
        return {_called(p, name, columns): p for p in _PARAMETERS[word]}
    distribution, numbers = column_distribution(word)
    return {f"{name}_{p}" if name else p: p for p in allowed(distribution, numbers) if p not in numbers}


def parameter_names(layout: Sequence[tuple[str, str, tuple[str, ...]]]) -> dict[str, tuple[str, str]]:
    """Parameter and word by the posterior's name."""
    return {called: (p, word) for name, word, own in layout for called, p in names_of(word, name, own).items()}


def given_of(
    given: Mapping[str, Any], layout: Sequence[tuple[str, str, tuple[str, ...]]], n_states: int
) -> tuple[dict[str, np.ndarray], dict[str, Prior]]:
    """Parameters that a file gives: numbers are known, distributions are priors; by posterior name.

    Raises
    ------
    ModelError
        An unknown parameter; shapes that do not fit; a prior that allows impossible values.
    """
    allowed = parameter_names(layout)
    known, priors = {}, {}
    for name, value in given.items():
        path = ("model", "parameters", name)
        if name not in allowed:
            raise ModelError(
                f"no parameter is called '{name}'{hint(name, allowed)}", path=path, code="unknown-parameter"
            )
        parameter, word = allowed[name]
        flat = value if isinstance(value, list) else [value]
        if all(isinstance(v, str) for v in flat):
            priors[name] = _prior(flat, parameter, word, n_states, path)
        else:
            known[name] = _numbers(value, parameter, word, n_states, path)
    for name, word, own in layout:
        if is_distribution(word):
            distribution, numbers = column_distribution(word)
            more = {p: known[called] for called, p in names_of(word, name, own).items() if called in known}
            try:
                usable(distribution, numbers | more)
            except ModelError as error:
                where = ("model", "emission", name) if name else ("model", "emission")
                raise ModelError(error.message, path=where, code=error.code) from None
    return known, priors


def _numbers(value: Any, parameter: str, word: str, n_states: int, path: tuple[str, ...]) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(
            "numbers, one for each state, or distributions, not both", path=path, code="wrong-type"
        ) from None
    if array.ndim == 0:
        array = np.full(n_states, float(array))
    if len(array) != n_states:
        raise ModelError(
            f"{len(array)} values for {n_states} states; give one for each", path=path, code="wrong-length"
        )
    if is_distribution(word):
        try:
            allowed(column_distribution(word)[0], {parameter: array})
        except ModelError as error:
            raise ModelError(error.message, path=path, code=error.code) from None
        return array
    if not np.all(np.isfinite(array)) or (parameter in _POSITIVE and np.any(array <= 0)):
        raise ModelError(
            f"{'positive' if parameter in _POSITIVE else 'finite'} numbers are meant", path=path, code="out-of-range"
        )
    if parameter in ("p", "probability", "weight", "prior") and (np.any(array < 0) or np.any(array > 1)):
        raise ModelError("probabilities lie between 0 and 1", path=path, code="out-of-range")
    return array


def _prior(texts: list[str], parameter: str, word: str, n_states: int, path: tuple[str, ...]) -> Prior:
    if len(texts) not in (1, n_states):
        raise ModelError(
            f"{len(texts)} priors for {n_states} states; give one, or one for each", path=path, code="wrong-length"
        )
    if word == "categorical":
        return _concentration(texts, path)
    if word == "gaussian_mixture":
        raise ModelError(
            "the parts of a gaussian_mixture have their default priors: leave it out", path=path, code="conflict"
        )
    if word == "scores":
        raise ModelError(
            "the prior of scores is numbers, one for each state: those of the classifier", path=path, code="wrong-type"
        )
    if is_distribution(word) and parameter in never_learned(column_distribution(word)[0]):
        raise ModelError(
            f"'{parameter}' of {column_distribution(word)[0]} is known, not learned: give it as a number",
            path=path,
            code="wrong-type",
        )
    ordered = any(text.strip().startswith(tuple(f"{word}(" for word in ORDERS)) for text in texts)
    if ordered and len(texts) > 1:
        raise ModelError(
            "an order is of all states: give one Ordered(...), not one for each", path=path, code="wrong-length"
        )
    read = [distribution_of(_inside_order(text, path) if ordered else text, path) for text in texts]
    if len({(call, *numbers) for call, numbers in read}) > 1:
        raise ModelError(
            "the priors of the states are one distribution with different numbers", path=path, code="unsupported"
        )
    call = read[0][0]
    right = _ON_POSITIVE if parameter in _POSITIVE else _ON_UNIT if parameter == "probability" else None
    if right is not None and call not in right:
        raise ModelError(
            f"{call} is no prior for '{parameter}', which is {'positive' if parameter in _POSITIVE else 'between 0'}"
            f"{'' if parameter in _POSITIVE else ' and 1'}; one of {', '.join(sorted(right))}",
            path=path,
            code="bad-prior",
        )
    arguments = {a: np.array([numbers[a] for _, numbers in read]) for a in read[0][1]}
    arguments = {a: v[0] if np.ptp(v) == 0 else v for a, v in arguments.items()}
    prior = Prior(call, arguments, ", ".join(texts), ordered)
    if is_distribution(word):
        _check_inside(prior, column_distribution(word)[0], parameter, read, path)
    if ordered and call not in SCALAR_PRIORS:
        raise ModelError(
            f"an order of {call} is not known here; of {', '.join(sorted(SCALAR_PRIORS))}",
            path=path,
            code="not-a-distribution",
        )
    if ordered and texts[0].strip().startswith("PositiveOrdered") and prior.support[0] < 0:
        raise ModelError(
            f"PositiveOrdered is for positive priors, and {call} is not; write Ordered(...)",
            path=path,
            code="bad-prior",
        )
    return prior


def _check_inside(
    prior: Prior, distribution: str, parameter: str, read: list[tuple[str, dict[str, float]]], path: tuple[str, ...]
) -> None:
    """A prior is of numbers that the parameter can be, in every state."""
    if prior.word not in SCALAR_PRIORS:
        raise ModelError(
            f"{prior.word} is no prior for '{parameter}'; one of {', '.join(SCALAR_PRIORS)}",
            path=path,
            code="bad-prior",
        )
    low, high = interval(distribution, parameter)
    for call, numbers in read:
        try:
            _, least, greatest, _ = scalar_density(call, numbers)
        except ModelError as error:
            raise ModelError(error.message, path=path, code=error.code) from None
        if least < low or greatest > high:
            what = DISTRIBUTIONS[distribution].domain.parameters[parameter].words(low, high)
            raise ModelError(
                f"{call} is no prior for '{parameter}' of {distribution}, which is {what}: it allows numbers from"
                f" {least:g} to {greatest:g}",
                path=path,
                code="bad-prior",
            )


def _inside_order(text: str, path: tuple[str, ...]) -> str:
    """The prior that is put in order."""
    try:
        tree = parse(text).tree
        return ast.unparse(bound_arguments(cast(ast.Call, tree), str(call_name(tree)))["dist"])
    except ModelError as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None
    except KeyError:
        raise ModelError(
            f"{text} needs the distribution that it puts in order", path=path, code="wrong-arguments"
        ) from None


def _concentration(texts: list[str], path: tuple[str, ...]) -> Prior:
    """A Dirichlet prior, the same for every state: one number for all levels, or one for each."""
    meant = f"the prior of probabilities is Dirichlet(2), or Dirichlet([2, 1]) with a number a level, not {texts[0]}"
    if len(set(texts)) > 1:
        raise ModelError("the states have the same Dirichlet prior: give one", path=path, code="wrong-length")
    try:
        tree = parse(texts[0]).tree
        if call_name(tree) != "Dirichlet":
            raise ModelError(meant, code="bad-prior")
        a = np.asarray(ast.literal_eval(bound_arguments(cast(ast.Call, tree), "Dirichlet")["a"]), dtype=float)
    except ModelError as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None
    except (KeyError, TypeError, ValueError):
        raise ModelError(meant, path=path, code="bad-prior") from None
    if a.ndim > 1 or not np.all((a > 0) & np.isfinite(a)):
        raise ModelError("the numbers of a Dirichlet prior are positive", path=path, code="out-of-range")
    return Prior("Dirichlet", {"a": a}, texts[0])


def distribution_of(text: str, path: tuple[str, ...]) -> tuple[str, dict[str, float]]:
    """A distribution written with numbers: its name and its arguments by PyMC's names."""
    try:
        tree = parse(text).tree
        call = call_name(tree)
        if call is None or call not in DISTRIBUTIONS or DISTRIBUTIONS[call].support or DISTRIBUTIONS[call].discrete:
            raise ModelError(
                f"a prior is a distribution with numbers such as Normal(0, 1), not '{text}'", code="not-a-distribution"
            )
        found = bound_arguments(cast(ast.Call, tree), call)
        numbers = {name: constant(parse(ast.unparse(value)), {}) for name, value in found.items()}
    except ModelError as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None
    odd = [name for name, value in numbers.items() if value is None]
    if odd:
        raise ModelError(
            f"the {odd[0]} of a prior is a number here, not '{ast.unparse(found[odd[0]])}'",
            path=path,
            code="not-a-number",
        )
    return call, cast(dict[str, float], numbers)


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
) -> tuple[Part, ...]:
    """The parts of a model on its data.

    Parameters
    ----------
    rows : ndarray (N, D)
        All columns, in order; level codes for categories; NaN for missing cells.
    scaled_by : ndarray
        Rows that the weak priors are scaled by: those of the fit.

    Raises
    ------
    ModelError, DataError
        What does not fit, with the column's name.
    """
    known, priors = given_of(given, layout, n_states)
    order = [column for _, _, own in layout for column in own]
    out: list[Any] = []
    for name, word, own in layout:
        at = tuple(order.index(column) for column in own)
        if word == "scores":
            out.append(_scored(own, at, rows[:, list(at)], scaled_by[:, list(at)], known.get("prior")))
            continue
        if word == "gaussian_mixture":
            mine = {n: known[n] for n in names_of(word, name, own) if n in known}
            out.append(_mixed(name, own, at, scaled_by[:, list(at)], n_states, mixtures, mine))
            continue
        if is_distribution(word):
            out.append(
                _distributed(name, word, own, at, rows[:, list(at)], scaled_by[:, list(at)], n_states, known, priors)
            )
            continue
        levels = np.asarray(data.labels.get(own[0], ())) if word == "categorical" else np.array([])
        emission = _emission(word, own, levels, covariance, trials, dof)
        base = scaled_by[:, list(at)]
        written = known.keys() | priors.keys()
        if word in ("gaussian", "student_t") and any(
            _called(p, name, own) not in written for p in _PARAMETERS[word][:2]
        ):
            refuse_constant(base, own)
        emission = emission.with_prior(base, n_states)
        _check_rows(emission, rows[:, list(at)], own)
        named = list(names_of(word, name, own))
        if word == "categorical" and named[0] in priors:
            emission = replace(emission, prior=_per_level(priors.pop(named[0]), named[0], len(levels)))
        part = Part(
            name,
            word,
            own,
            at,
            n_states,
            emission,
            levels,
            {n: _shaped(known[n], n, word, len(own), len(levels), n_states) for n in named if n in known},
            {n: _of_one_number(priors[n], n, own) for n in named if n in priors},
            spread=np.sqrt(exact.column_variances(base)),
        )
        out.append(part)
    return tuple(out)


def _of_one_number(prior: Prior, name: str, columns: tuple[str, ...]) -> Prior:
    """The prior; an order is of one number a state."""
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
            return exact.gaussian(len(columns), cast(Any, covariance))
        case "student_t":
            return exact.StudentT(1, dof)
        case "categorical":
            return exact.Categorical((len(levels),))
        case "bernoulli":
            return exact.Bernoulli(len(columns))
        case "poisson":
            return exact.Poisson(len(columns))
        case "exponential":
            return exact.Exponential(len(columns))
    if trials is None:
        raise ModelError(
            "a binomial column needs `trials`, the number of trials", path=("model", "trials"), code="incomplete"
        )
    return exact.Binomial(len(columns), trials)


def _mixed(
    name: str,
    columns: tuple[str, ...],
    at: tuple[int, ...],
    base: np.ndarray,
    n_states: int,
    n_parts: int | None,
    known: Mapping[str, np.ndarray],
) -> Any:
    from bayeslab.families.hmm.gaussian_mixture import mixed_of

    if n_parts is None:
        raise ModelError(
            "a gaussian_mixture needs `mixtures`, the number of parts", path=("model", "mixtures"), code="incomplete"
        )
    return mixed_of(name, columns, at, base, n_states, n_parts, known)


def _distributed(
    name: str,
    word: str,
    columns: tuple[str, ...],
    at: tuple[int, ...],
    rows: np.ndarray,
    base: np.ndarray,
    n_states: int,
    known: Mapping[str, np.ndarray],
    priors: Mapping[str, Prior],
) -> Any:
    """The part; ``known`` and ``priors`` are of all parts.

    Raises
    ------
    ModelError, DataError
        See :func:`bayeslab.exact.emissions.any_distribution.usable`; values that the distribution does not take; a
        constant column that weak priors would be scaled by.
    """
    from bayeslab.families.hmm.any_distribution import DistributedPart

    distribution, numbers = column_distribution(word)
    mine = names_of(word, name, columns)
    given = {n: _by_column(known[n], n, len(columns), n_states) for n in mine if n in known}
    laws = {n: _of_one_number(priors[n], n, columns) for n in mine if n in priors}
    full = (n_states, len(columns))
    emission = exact.AnyDistribution(
        distribution,
        len(columns),
        {k: np.asarray(v) for k, v in numbers.items()} | {mine[n]: v.reshape(full) for n, v in given.items()},
        {mine[n]: exact.Law(p.word, {a: _by_state(v) for a, v in p.arguments.items()}) for n, p in laws.items()},
    )
    if any(word not in (emission.prior or {}) for word in emission.learned):
        refuse_constant(base, columns)
    _check_rows(emission, rows, columns)
    try:
        emission = emission.with_prior(base, n_states)
    except ModelError as error:
        raise ModelError(error.message, path=("model", "emission"), code=error.code) from None
    spread = np.sqrt(exact.column_variances(base))
    return DistributedPart(name, word, columns, at, n_states, emission, given, laws, spread=spread)


def _by_state(value: np.ndarray) -> np.ndarray:
    value = np.asarray(value, float)
    return value[:, None] if value.ndim else value


def _scored(
    columns: tuple[str, ...], at: tuple[int, ...], rows: np.ndarray, base: np.ndarray, prior: np.ndarray | None
) -> Any:
    from bayeslab.families.hmm.scores import scored_of

    return scored_of(columns, at, rows, base, prior)


def refuse_dependent(rows: np.ndarray, columns: Sequence[str], cure: str) -> None:
    """No column under a matrix follows from others: matrices, and priors on the scale of the data, are singular."""
    if found := exact.dependent_columns(rows):
        named = ", ".join(columns[j] for j in found)
        raise DataError(
            f"columns {named} depend on each other linearly: every covariance would be singular; {cure}",
            code="dependent-columns",
        )


def _check_rows(emission: Any, rows: np.ndarray, columns: tuple[str, ...]) -> None:
    """The emission's own check, with our names and rows counted from one."""
    try:
        emission.check(rows)
    except DataError as error:
        words = error.message.split(", column ")
        if len(words) == 2 and words[0].startswith("row "):
            number, _, rest = words[1].partition(" ")
            row = int(words[0].removeprefix("row ")) + 1
            raise DataError(
                f"column '{columns[int(number)]}', row {row}: {rest.removeprefix('is ')}", code=error.code
            ) from None
        raise


def _shaped(value: np.ndarray, name: str, word: str, d: int, n_levels: int, n_states: int) -> np.ndarray:
    path = ("model", "parameters", name)
    if word == "categorical":
        if value.shape != (n_states, n_levels):
            raise ModelError(
                f"one row a state of {n_levels} probabilities is meant, not {value.shape}",
                path=path,
                code="wrong-shape",
            )
        if np.any(np.abs(value.sum(axis=1) - 1) > 1e-8):
            row = int(np.argmax(np.abs(value.sum(axis=1) - 1)))
            raise ModelError(
                f"row {row + 1} sums to {value[row].sum():g}, not to 1", path=path, code="not-probabilities"
            )
        return value
    return _by_column(value, name, d, n_states)


def _by_column(value: np.ndarray, name: str, d: int, n_states: int) -> np.ndarray:
    """Numbers for each state, and for each of d columns where there are several."""
    if d > 1 and value.ndim == 1:
        value = np.repeat(value[:, None], d, axis=1)
    shape = (n_states, d) if d > 1 else (n_states,)
    if value.shape != shape:
        raise ModelError(
            f"{' × '.join(map(str, shape))} numbers are meant, not {value.shape}",
            path=("model", "parameters", name),
            code="wrong-shape",
        )
    return value


# --------------------------------------------------------------------------------- PyMC


def parameters(built: Any, parts: Sequence[Part], state: str, *, dims: bool = True) -> dict[str, Any]:
    """Every parameter in a PyMC model: random variables with their priors, or constants.

    Parameters
    ----------
    state : str
        The dimension of the states.
    dims : bool
        Whether dimensions are named.
    """
    import pytensor.tensor as pt

    out: dict[str, Any] = {}
    with built:
        for part in parts:
            for dim, labels in part.labels().items():
                if dims and dim not in built.coords:
                    built.add_coord(dim, labels.tolist())
            if hasattr(part, "variables"):  # a regression makes its own
                out |= part.variables(state)
                continue
            for name in reversed(part.names):  # a mean's prior needs the sd
                if name in part.known:
                    out[name] = pt.as_tensor_variable(part.known[name])
                    continue
                along = {"dims": part.dims(name, state)} if dims else {"shape": part.shape(name)}
                out[name] = _variable(part, name, along, out)
    return out


def _variable(part: Part, name: str, along: dict[str, Any], made: Mapping[str, Any]) -> Any:
    import pymc as pm

    shape, start = part.shape(name), part.start.get(name)
    parameter = part.parameter(name)
    if name in part.priors:
        return _written(part.priors[name], name, shape, along, start)
    if hasattr(part, "variable"):
        return part.variable(name, along)
    prior = part.emission.prior
    match part.word, parameter:
        case ("gaussian", "sd") | ("student_t", "scale"):
            half = 0.5 * (np.mean(prior.scale) if part.spherical else _diagonal(prior.scale))
            own = {"initval": np.maximum(start, 1e-12) ** 2} if start is not None else {}
            variance = pm.InverseGamma(
                f"_{part.called('variance')}", prior.nu / 2, _across(half, shape, last=True), shape=shape,
                **own,
            )  # fmt: skip
            named = {"dims": along["dims"]} if "dims" in along else {}
            return pm.Deterministic(name, pm.math.sqrt(variance), **named)
        case ("gaussian", "mean") | ("student_t", "location"):
            spread = made[part.called("sd" if part.word == "gaussian" else "scale")]
            centre = _across(prior.mean, shape, last=True)
            spread = spread[:, None] if np.ndim(centre) == 2 and spread.ndim == 1 else spread
            step = _across(np.maximum(part.spread, 1e-300) / part.n_states, shape, last=True)
            own = {"initval": start} if start is not None else {}
            return pm.Normal(
                name, centre, spread / np.sqrt(prior.kappa), default_transform=scaled(centre, step), **along, **own
            )
        case "student_t", "dof":
            return pm.Truncated(name, pm.Gamma.dist(2, 0.1), 0.5, 200, **along)
        case "categorical", _:
            own = {"initval": _inside(start)} if start is not None else {}
            return pm.Dirichlet(name, np.broadcast_to(prior, shape), **along, **own)
        case (("bernoulli" | "binomial"), _):
            own = {"initval": np.clip(start, 0.02, 0.98)} if start is not None else {}
            return pm.Beta(name, prior[0], prior[1], **along, **own)
    own = {"initval": np.maximum(start, 1e-12)} if start is not None else {}
    return pm.Gamma(name, prior[0], _across(prior[1], shape, last=True), **along, **own)


def _written(prior: Prior, name: str, shape: tuple[int, ...], along: dict[str, Any], start: np.ndarray | None) -> Any:
    """A parameter with the prior that a file writes."""
    if prior.ordered:
        return _ordered(prior, name, shape, along, start)
    arguments = {a: _across(v, shape) for a, v in prior.arguments.items()}
    return pymc_class(prior.word)(name, **arguments, **along)


def _ordered(prior: Prior, name: str, shape: tuple[int, ...], along: dict[str, Any], start: np.ndarray | None) -> Any:
    """A parameter that rises from state to state; without a start (to simulate) draws in their order."""
    import pymc as pm

    distribution = pymc_class(prior.word)
    if start is None:
        free = distribution(f"{name}_unordered", **prior.arguments, shape=shape)
        named = {"dims": along["dims"]} if "dims" in along else {}
        return pm.Deterministic(name, free.sort(), **named)
    lower, upper = prior.support
    transforms = pm.distributions.transforms
    if np.isinf(lower) and np.isinf(upper):
        transform: Any = transforms.ordered
    else:
        low, high = (None if np.isinf(bound) else bound for bound in (lower, upper))
        transform = transforms.Chain([transforms.Interval(low, high), transforms.ordered])
    own = {"initval": _rising(start, lower, upper)}
    return distribution(name, **prior.arguments, **along, **own, transform=transform, default_transform=None)


def _rising(start: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Numbers near a start that rise strictly inside a support."""
    out, n = np.sort(np.asarray(start, float)), len(start)
    gap = 1e-3 * (float(np.ptp(out)) or max(1.0, abs(float(out[0]))))
    if np.isfinite(lower) and np.isfinite(upper):
        gap = min(gap, (upper - lower) / (4 * n))
        out = np.clip(out, lower + gap, upper - 2 * n * gap)
    elif np.isfinite(lower):
        out = np.maximum(out, lower + gap)
    elif np.isfinite(upper):
        out = np.minimum(out, upper - 2 * n * gap)
    return np.asarray(np.maximum.accumulate(out) + gap * np.arange(n))


def _inside(p: np.ndarray) -> np.ndarray:
    """Probabilities away from zero."""
    p = 0.95 * p + 0.05 / p.shape[-1]
    return p / p.sum(axis=-1, keepdims=True)


def _across(value: Any, shape: tuple[int, ...], *, last: bool = False) -> np.ndarray:
    """Numbers for each state (or, ``last``, each column) in the shape of a parameter."""
    value = np.asarray(value, float)
    if value.ndim == 1 and len(shape) == 2 and not last:
        value = value[:, None]
    if value.ndim == 1 and len(shape) == 1 and last:
        value = value[0]
    return np.broadcast_to(value, shape).copy()


def log_density(parts: Sequence[Part], values: Mapping[str, Any], rows: np.ndarray) -> Any:
    """log p(row | state), (N, K), as a PyTensor expression; missing cells say nothing."""
    import pytensor.tensor as pt

    total = pt.zeros((len(rows), parts[0].n_states))
    for part in parts:
        if hasattr(part, "density"):
            total = total + part.density(values, rows)
            continue
        own = {p: values[part.called(p)] for p in part._asked()}
        if part.word == "categorical":
            total = total + _categorical(own["p"], rows[:, part.at[0]])
            continue
        for j, at in enumerate(part.at):
            column = {p: v[:, j] if v.ndim == 2 else v for p, v in own.items()}
            total = total + _column(part, column, rows[:, at])
    return total


def independent_normals(parts: Sequence[Any]) -> bool:
    """Whether all columns are normal and independent given the state."""
    return all(isinstance(part, Part) and part.word == "gaussian" for part in parts)


def normal_parameters(parts: Sequence[Part], values: Mapping[str, Any]) -> tuple[Any, Any, list[int]]:
    """Means and standard deviations (K, D) of independent normal columns as expressions, and where the columns are."""
    import pytensor.tensor as pt

    def table(part: Part, parameter: str) -> Any:
        own = values[part.called(parameter)]
        shape = (part.n_states, len(part.columns))
        return pt.broadcast_to(own if own.ndim == 2 else own[:, None], shape)

    mean, deviation = (pt.concatenate([table(part, p) for part in parts], axis=1) for p in ("mean", "sd"))
    return mean, deviation, [at for part in parts for at in part.at]


def _categorical(probability: Any, codes: np.ndarray) -> Any:
    import pytensor.tensor as pt

    seen = ~np.isnan(codes)
    picked = pt.log(probability).T[np.where(seen, codes, 0).astype(np.int64)]
    return picked if seen.all() else pt.where(seen[:, None], picked, 0.0)


def _column(part: Part, own: Mapping[str, Any], values: np.ndarray) -> Any:
    """log p(cell | state), (N, K)."""
    import pytensor.tensor as pt

    seen = ~np.isnan(values)
    filled = np.where(seen, values, np.nanmin(values) if seen.any() else 0.0)
    x = filled[:, None]
    match part.word:
        case "gaussian":
            z = (x - own["mean"]) / own["sd"]
            out = -0.5 * z**2 - pt.log(own["sd"]) - 0.5 * np.log(2 * np.pi)
        case "student_t":
            dof = own["dof"] if "dof" in own else pt.constant(float(part.emission.dof))
            z = (x - own["location"]) / own["scale"]
            constant_ = pt.gammaln((dof + 1) / 2) - pt.gammaln(dof / 2) - 0.5 * pt.log(dof * np.pi)
            out = constant_ - pt.log(own["scale"]) - 0.5 * (dof + 1) * pt.log1p(z**2 / dof)
        case "bernoulli":
            out = x * pt.log(own["probability"]) + (1 - x) * pt.log1p(-own["probability"])
        case "binomial":
            n = float(part.emission.trials)
            base = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
            out = base + x * pt.log(own["probability"]) + (n - x) * pt.log1p(-own["probability"])
        case "poisson":
            out = x * pt.log(own["rate"]) - own["rate"] - gammaln(x + 1)
        case _:
            out = pt.log(own["rate"]) - own["rate"] * x
    return out if seen.all() else pt.where(seen[:, None], out, 0.0)


def internal(part: Any, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the variables behind parameters, whose names begin with _, from those of the parameters."""
    if hasattr(part, "internal"):
        return dict(part.internal(values))
    spread = part.called({"gaussian": "sd", "student_t": "scale"}.get(part.word, part.word))
    if spread not in part.learned or spread in part.priors:
        return {}
    return {f"_{part.called('variance')}": np.asarray(values[spread]) ** 2}


# --------------------------------------------------------------------------------- starting, drawing


def starting(part: Part, values: Mapping[str, np.ndarray]) -> Part:
    """The part with places where searches begin."""
    return replace(part, start={name: values[name] for name in part.learned if name in values})


def drawn(part: Part, values: Mapping[str, Any], states: Any, n_rows: int) -> dict[str, Any]:
    """A random variable for each column, given the rows' states."""
    import pymc as pm
    import pytensor.tensor as pt

    out: dict[str, Any] = {}
    for j, column in enumerate(part.columns):
        own = {p: pt.as_tensor_variable(values[part.called(p)]) for p in part._asked()}
        if part.word == "categorical":
            out[column] = pm.Categorical.dist(p=own["p"][states], shape=n_rows)
            continue
        at = {p: (v[:, j] if v.ndim == 2 else v)[states] for p, v in own.items()}
        match part.word:
            case "gaussian":
                out[column] = pm.Normal.dist(at["mean"], at["sd"], shape=n_rows)
            case "student_t":
                dof = at.get("dof", part.emission.dof)
                out[column] = pm.StudentT.dist(dof, at["location"], at["scale"], shape=n_rows)
            case "bernoulli":
                out[column] = pm.Bernoulli.dist(p=at["probability"], shape=n_rows)
            case "binomial":
                out[column] = pm.Binomial.dist(part.emission.trials, at["probability"], shape=n_rows)
            case "poisson":
                out[column] = pm.Poisson.dist(at["rate"], shape=n_rows)
            case _:
                out[column] = pm.Exponential.dist(at["rate"], shape=n_rows)
    return out
