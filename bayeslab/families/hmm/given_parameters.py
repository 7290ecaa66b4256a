"""Emissions in a model file: the parts of the layout, and parameters given as numbers or priors."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, allowed, interval, never_learned, usable
from bayeslab.distributions import SCALARS as SCALAR_PRIORS
from bayeslab.distributions import log_density as scalar_density
from bayeslab.errors import ModelError, errors_at, hint, unknown_parameter
from bayeslab.language.column_distributions import column_distribution, is_distribution
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.posterior.observed.prior import ORDERS, PARAMETERS, Prior, standard_name

__all__ = [
    "WORDS",
    "check_shape",
    "check_sums",
    "check_together",
    "columns_of",
    "distribution_of",
    "given_of",
    "is_whole",
    "names_of",
    "numbers_of_shape",
    "parameter_names",
    "probabilities_of_shape",
]

WORDS = (
    "gaussian", "gaussian_mixture", "student_t", "categorical", "bernoulli", "binomial", "poisson", "exponential",
    "scores",
)  # fmt: skip
# Emissions of whole numbers or of category levels.
_WHOLE = frozenset(("categorical", "bernoulli", "binomial", "poisson", "urn"))
_POSITIVE = frozenset(("sd", "scale", "dof", "rate"))
# Distributions allowed as priors of positive parameters.
_ON_POSITIVE = frozenset(
    ("HalfNormal", "HalfCauchy", "HalfStudentT", "HalfFlat", "Exponential", "Gamma", "InverseGamma", "LogNormal",
     "Weibull", "ChiSquared", "TruncatedNormal", "Uniform")
)  # fmt: skip
_ON_UNIT = frozenset(("Beta", "Uniform", "Kumaraswamy", "LogitNormal", "TruncatedNormal"))


def columns_of(columns: Sequence[str], words: str | Mapping[str, str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The parts of a specification: (name, emission, columns) of each.

    Raises
    ------
    ModelError
        An emission or column is unknown, or a column has no emission.
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
    with errors_at(path):
        distribution, numbers = column_distribution(word)
        # `parameters` may give the parameters that must be known.
        allowed(distribution, numbers)


def is_whole(word: str) -> bool:
    """Whether the values of a column with this emission are whole numbers."""
    return DISTRIBUTIONS[column_distribution(word)[0]].discrete if is_distribution(word) else word in _WHOLE


def names_of(word: str, name: str, columns: tuple[str, ...]) -> dict[str, str]:
    """Parameters of a part, by their names in the posterior."""
    if not is_distribution(word):
        return {standard_name(p, name, columns): p for p in PARAMETERS[word]}
    distribution, numbers = column_distribution(word)
    return {f"{name}_{p}" if name else p: p for p in allowed(distribution, numbers) if p not in numbers}


def parameter_names(layout: Sequence[tuple[str, str, tuple[str, ...]]]) -> dict[str, tuple[str, str]]:
    """Parameter and emission, by the parameter's name in the posterior."""
    return {called: (p, word) for name, word, columns in layout for called, p in names_of(word, name, columns).items()}


def given_of(
    given: Mapping[str, Any], layout: Sequence[tuple[str, str, tuple[str, ...]]], n_states: int
) -> tuple[dict[str, np.ndarray], dict[str, Prior]]:
    """Read the parameters in a file, by posterior name: numbers are known values, distributions are priors.

    Raises
    ------
    ModelError
        A parameter is unknown, a shape is wrong, or a prior allows impossible values.
    """
    allowed = parameter_names(layout)
    known, priors = {}, {}
    for name, value in given.items():
        path = ("model", "parameters", name)
        if name not in allowed:
            raise unknown_parameter(name, allowed)
        parameter, word = allowed[name]
        flat = value if isinstance(value, list) else [value]
        if all(isinstance(v, str) for v in flat):
            priors[name] = _prior(flat, parameter, word, n_states, path)
        else:
            known[name] = _numbers(value, parameter, word, n_states, path)
    for name, word, columns in layout:
        if is_distribution(word):
            distribution, numbers = column_distribution(word)
            more = {p: known[called] for called, p in names_of(word, name, columns).items() if called in known}
            try:
                usable(distribution, numbers | more)
            except ModelError as error:
                where = ("model", "emission", name) if name else ("model", "emission")
                raise ModelError(error.message, path=where, code=error.code) from None
    return known, priors


def numbers_of_shape(
    value: Any, shape: tuple[int, ...], path: tuple[str, ...], why: str, *, positive: bool = False, scalar: bool = True
) -> np.ndarray:
    """Read a parameter that is known as finite numbers of a shape.

    Parameters
    ----------
    why : str
        The reason why it has no prior, for the message.
    positive : bool
        Whether the numbers are positive.
    scalar : bool
        Whether one number stands for all.

    Raises
    ------
    ModelError
        The value is no number, has another shape, or is outside the range.
    """
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"these must be numbers: {why}", path=path, code="wrong-type") from None
    numbers = np.full(shape, float(numbers)) if scalar and numbers.ndim == 0 else numbers
    check_shape(numbers, shape, path)
    if not np.all(np.isfinite(numbers)) or (positive and np.any(numbers <= 0)):
        raise ModelError(f"{'positive' if positive else 'finite'} numbers are needed", path=path, code="out-of-range")
    return numbers


def probabilities_of_shape(value: Any, shape: tuple[int, ...], path: tuple[str, ...]) -> np.ndarray:
    """Read probabilities of a shape, which sum to one along the last axis.

    Raises
    ------
    ModelError
        The value is no number, has another shape, or holds no probabilities.
    """
    try:
        out = np.asarray(value, dtype=float)
    except (ValueError, TypeError):
        text = "probabilities are numbers, in rows of equal length; their prior is Dirichlet, by pseudocount"
        raise ModelError(text, path=path, code="wrong-type") from None
    check_shape(out, shape, path)
    check_sums(out, path)
    return out


def check_together(given: Collection[str], names: Iterable[str], what: str) -> None:
    """Refuse parameters of which some are given and others are to be learned."""
    lost = next((name for name in names if name not in given), None)
    if given and lost is not None:
        raise ModelError(
            f"{what} are known together or learned together: '{lost}' is missing",
            path=("model", "parameters"),
            code="incomplete",
        )


def check_shape(numbers: np.ndarray, shape: tuple[int, ...], path: tuple[str, ...]) -> None:
    """Refuse numbers of another shape."""
    if numbers.shape != shape:
        wanted = " × ".join(map(str, shape)) or "1"
        raise ModelError(f"{wanted} numbers are needed, not {numbers.shape}", path=path, code="wrong-shape")


def check_sums(probabilities: np.ndarray, path: tuple[str, ...], what: str = "row") -> None:
    """Refuse negative probabilities, and those that do not sum to one along the last axis."""
    rows = probabilities.reshape(-1, probabilities.shape[-1])
    sums = rows.sum(axis=1)
    wrong = (rows < 0).any(axis=1) | (np.abs(sums - 1) > 1e-8)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ModelError(
            f"{what} {row + 1} sums to {sums[row]:g}, not to 1, or has negative numbers",
            path=path,
            code="not-probabilities",
        )


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
        with errors_at(path):
            allowed(column_distribution(word)[0], {parameter: array})
        return array
    if not np.all(np.isfinite(array)) or (parameter in _POSITIVE and np.any(array <= 0)):
        raise ModelError(
            f"{'positive' if parameter in _POSITIVE else 'finite'} numbers are needed", path=path, code="out-of-range"
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
            f"{call} is not a prior for '{parameter}', which is {'positive' if parameter in _POSITIVE else 'between 0'}"
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
    """Check that a prior has its support inside the parameter's range, in every state."""
    if prior.word not in SCALAR_PRIORS:
        raise ModelError(
            f"{prior.word} is not a prior for '{parameter}'; one of {', '.join(SCALAR_PRIORS)}",
            path=path,
            code="bad-prior",
        )
    low, high = interval(distribution, parameter)
    for call, numbers in read:
        with errors_at(path):
            _, least, greatest, _ = scalar_density(call, numbers)
        if least < low or greatest > high:
            what = DISTRIBUTIONS[distribution].domain.parameters[parameter].words(low, high)
            raise ModelError(
                f"{call} is not a prior for '{parameter}' of {distribution}, which is {what}: it allows numbers from"
                f" {least:g} to {greatest:g}",
                path=path,
                code="bad-prior",
            )


def _inside_order(text: str, path: tuple[str, ...]) -> str:
    """The prior inside an ordering prior such as Ordered(...)."""
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
    word, given = read_prior(texts[0], path)
    if word != "Dirichlet" or not has_numbers(given, lists=True) or "a" not in given:
        raise ModelError(meant, path=path, code="bad-prior")
    a = np.asarray(given["a"], dtype=float)
    if a.ndim > 1 or not np.all((a > 0) & np.isfinite(a)):
        raise ModelError("the numbers of a Dirichlet prior are positive", path=path, code="out-of-range")
    return Prior("Dirichlet", {"a": a}, texts[0])


def distribution_of(text: str, path: tuple[str, ...]) -> tuple[str, dict[str, float]]:
    """Read a distribution with numeric arguments: its name, and the arguments by PyMC's names."""
    word, numbers = read_prior(text, path)
    entry = DISTRIBUTIONS.get(str(word))
    if word is None or numbers is None or entry is None or entry.support or entry.discrete:
        raise ModelError(
            f"a prior is a distribution with numbers such as Normal(0, 1), not '{text}'",
            path=path,
            code="not-a-distribution",
        )
    odd = next((name for name, value in numbers.items() if not isinstance(value, int | float)), None)
    if odd is not None:
        raise ModelError(f"the {odd} of a prior is a number here, not '{numbers[odd]}'", path=path, code="not-a-number")
    return word, {name: float(value) for name, value in numbers.items()}
