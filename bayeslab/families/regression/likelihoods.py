"""Likelihoods of a regression: univariate distributions that declare the quantity a linear predictor determines.

Each likelihood is written once, as a call of the model language in the distribution's file
(:class:`bayeslab.distributions.Response`). The call builds the graph; evaluated on arrays it gives pointwise log
likelihoods and predictive draws without compilation. Tests check that the two agree.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from scipy import special

from bayeslab.distributions import DISTRIBUTIONS, Distribution, Interval, Maths, Response, closed_moments, maths
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.posterior.generative import outside_domain

__all__ = [
    "INVERSE_LINKS",
    "LIKELIHOODS",
    "LINKS",
    "Likelihood",
    "accepted",
    "forward_link",
    "inverse_link",
    "likelihood",
]

type Arrays = Mapping[str, np.ndarray]

# Inverse links in the model language; for arrays see inverse_link.
INVERSE_LINKS = {
    "identity": "{eta}",
    "log": "exp({eta})",
    "logit": "sigmoid({eta})",
    "probit": "Phi({eta})",
    "cloglog": "1 - exp(-exp({eta}))",
}


# Links of further parameters in the model language.
LINKS = {"identity": "{value}", "log": "log({value})", "logit": "logit({value})"}


def inverse_link(link: str, eta: np.ndarray) -> np.ndarray:
    """Means of linear predictors."""
    match link:
        case "log":
            return np.exp(eta)
        case "logit":
            return np.asarray(special.expit(eta))
        case "probit":
            return np.asarray(special.ndtr(eta))
        case "cloglog":
            return -np.expm1(-np.exp(eta))
        case _:
            return eta


# Distributions of the key words, and the key words' names of the other parameters.
_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "gaussian": ("Normal", {}),
    "student_t": ("StudentT", {}),
    "bernoulli": ("Bernoulli", {}),
    "binomial": ("Binomial", {}),
    "categorical": ("Categorical", {}),
    "ordered": ("OrderedLogistic", {}),
    "poisson": ("Poisson", {}),
    "negative_binomial": ("NegativeBinomial", {}),
    "beta": ("Beta", {"nu": "phi"}),
    "gamma": ("Gamma", {"alpha": "shape"}),
}
# Likelihoods of levels, whose probabilities are a vector for each row.
_OF_LEVELS = {
    "Categorical": Response("logits of the levels", "Categorical(logit_p={eta})", ("logit",)),
    "OrderedLogistic": Response("location of the scale that is cut", "OrderedLogistic({eta}, cutpoints)", ("logit",)),
    "OrderedProbit": Response("location of the scale that is cut", "OrderedProbit({eta}, cutpoints)", ("probit",)),
}
# Placeholders for values that vary by row, in a call that is evaluated on arrays.
_DRIVEN, _TRIALS = "driven", "trials"
# A parameter that is not an argument by itself is positive.
_POSITIVE = Interval(0.0, open_low=True)
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def forward_link(link: str, value: np.ndarray) -> np.ndarray:
    """Values of a further parameter on the scale of its linear predictor."""
    with np.errstate(divide="ignore"):
        match link:
            case "log":
                return np.log(value)
            case "logit":
                return np.asarray(special.logit(value))
            case _:
                return value


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A distribution of the response given its linear predictor.

    Attributes
    ----------
    name : str
        Name in the model, without the known parameters.
    distribution : str
        PyMC's name.
    links : tuple of str
        Allowed links; the first is the default.
    text : str
        The distribution in the model language: ``{mu}`` is the predicted quantity, ``{eta}`` the linear predictor,
        ``{trials}`` the numbers of trials.
    special : mapping of str to str
        The text for links under which the distribution takes the linear predictor itself.
    auxiliary : mapping of str to str
        Further parameters and their default priors; ``{sd}`` stands for the sd of the response, ``{rate}`` for 1 / sd.
    fixed : mapping of str to float
        Values of the known parameters.
    constants : mapping of str to float
        Numbers that are not parameters: ends of the support.
    """

    name: str
    distribution: str
    response: Response
    links: tuple[str, ...]
    text: str
    auxiliary: Mapping[str, str]
    special: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def levels(self) -> Literal["categorical", "ordered"] | None:
        """The kind of a response of levels; empty for numbers."""
        if self.distribution not in _OF_LEVELS:
            return None
        return "categorical" if self.distribution == "Categorical" else "ordered"

    @property
    def coded(self) -> bool:
        """Whether the response may be text."""
        return self.levels is not None or self.distribution == "Bernoulli"

    @property
    def declaration(self) -> Distribution:
        return DISTRIBUTIONS[self.distribution]

    @property
    def discrete(self) -> bool:
        return self.declaration.discrete

    @property
    def located(self) -> bool:
        """Whether the predicted quantity is a location on the real line in the response's unit."""
        return self.response.working == "identity" and "identity" in self.links

    @property
    def counts_trials(self) -> bool:
        """Whether the response is successes among trials."""
        return "{trials}" in self.text

    @cached_property
    def _maths(self) -> Maths:
        functions = maths(self.distribution)
        assert functions is not None
        return functions

    # ---------------------------------------------------------------------------------- the response

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The lower and the upper end of the support; NaN for the number of trials."""
        values, defaults = self.declaration.domain.values, self.declaration.domain.defaults
        usual = {"lower": -np.inf, "upper": np.inf} | dict(defaults) | dict(self.constants)
        low, high = (usual.get(end, np.nan) if isinstance(end, str) else end for end in (values.low, values.high))
        return float(low), float(high)

    @property
    def _open(self) -> tuple[bool, bool]:
        """Whether each end is excluded because the density there is zero or infinite."""
        domain = self.declaration.domain
        bounded = domain.bounded_by
        return domain.values.open_low or "low" in bounded, domain.values.open_high or "high" in bounded

    def impossible(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        """Which numbers are outside the response's support."""
        bad = ~np.isfinite(y)
        if self.levels is not None:
            return bad
        low, high = self._ends
        above = trials if self.counts_trials else high
        open_low, open_high = self._open
        with np.errstate(invalid="ignore"):
            bad |= (y <= low) if open_low else (y < low)
            bad |= (y >= above) if open_high else (y > above)
            if self.discrete:
                bad |= y != np.floor(y)
        return bad

    @property
    def support(self) -> str:
        """Description of the response's support."""
        if self.levels is not None:
            return "text or whole numbers"
        if self.distribution == "Bernoulli":
            return "0 or 1, or text of two levels"
        if self.counts_trials:
            return "counts between 0 and the number of trials"
        low, high = self._ends
        open_low, _ = self._open
        if np.isinf(low) and np.isinf(high):
            return "numbers"
        if self.discrete:
            return "counts" if low == 0 else f"whole numbers from {low:g}"
        if np.isinf(high) and low == 0:
            return "positive numbers" if open_low else "numbers from 0"
        if (low, high) == (0, 1):
            return "numbers strictly between 0 and 1"
        return f"numbers {self.declaration.domain.values.words(low, high)}"

    def _interval(self, name: str) -> Interval | None:
        """The domain of a further parameter; None if it is the real line."""
        of = [word for word, tree in self._arguments.items() if isinstance(tree, ast.Name) and tree.id == name]
        intervals = self.declaration.domain.parameters
        return next((intervals[word] for word in of if word in intervals), None if of else _POSITIVE)

    def link_of(self, name: str) -> Literal["identity", "log", "logit"]:
        """The link of a further parameter that has a formula: log if positive, logit if a probability."""
        interval = self._interval(name)
        if interval is None:
            return "identity"
        assert (interval.low, interval.high) in ((0.0, np.inf), (0.0, 1.0)), name
        return "log" if interval.high == np.inf else "logit"

    def domain_of(self, name: str) -> Interval:
        """The domain of a further parameter."""
        return self._interval(name) or Interval()

    def working(self, y: np.ndarray) -> np.ndarray:
        """The response on the scale of the predicted quantity, whose spread scales default priors."""
        if self.response.positive_part:
            y = y[y > 0] if np.any(y > 0) else np.ones(1)
        match self.response.working:
            case "log":
                return np.log(y)
            case "logit":
                return np.log(y) - np.log1p(-y)
            case _:
                return y

    # ------------------------------------------------------------------------------------- on arrays

    @cached_property
    def _arguments(self) -> dict[str, ast.expr]:
        """The distribution's arguments, by PyMC's names."""
        tree = parse(self.text.format(mu=_DRIVEN, eta=_DRIVEN, trials=_TRIALS)).tree
        assert isinstance(tree, ast.Call)
        return bound_arguments(tree, self.distribution)

    def parameters(self, driven: np.ndarray, auxiliary: Arrays, data: Arrays) -> tuple[Any, ...]:
        """The parameters of the distribution's log density."""
        names = {**data, **self.fixed, **auxiliary, _DRIVEN: driven}
        with np.errstate(all="ignore"):
            given = {word: _value(tree, names) for word, tree in self._arguments.items()}
            return self._maths.canonical(**given)

    def log_density(self, y: np.ndarray, driven: np.ndarray, auxiliary: Arrays, data: Arrays) -> np.ndarray:
        """Log densities of responses, draws first, rows last. For levels ``driven`` holds their probabilities."""
        if self.levels is not None:
            index = np.broadcast_to(y.astype(int), driven.shape[:-1])[..., None]
            with np.errstate(divide="ignore"):
                return np.log(np.take_along_axis(driven, index, axis=-1)[..., 0])
        with np.errstate(all="ignore"):
            return np.asarray(self._maths.log_density(y, *self.parameters(driven, auxiliary, data)))

    def moments(self, driven: np.ndarray, auxiliary: Arrays, data: Arrays) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and variance of the response; None if they have no closed form, or if the response has levels."""
        closed = closed_moments(self.distribution)
        if closed is None or self.levels is not None:
            return None
        with np.errstate(all="ignore"):
            mean, variance = closed(*self.parameters(driven, auxiliary, data))
        return np.asarray(mean), np.asarray(variance)

    def draw(self, rng: np.random.Generator, driven: np.ndarray, auxiliary: Arrays, data: Arrays) -> np.ndarray:
        """Draws of responses."""
        if self.levels is not None:
            return (rng.random(driven.shape[:-1])[..., None] > np.cumsum(driven[..., :-1], axis=-1)).sum(axis=-1)
        try:
            return np.asarray(self._maths.draw(rng, driven.shape, *self.parameters(driven, auxiliary, data)))
        except ValueError as error:
            if not outside_domain(error):
                raise
            raise _beyond(driven, self.distribution) from error


def _beyond(driven: np.ndarray, distribution: str) -> DataError:
    """The error for a row whose predicted quantity is too large or too small to draw from."""
    size = np.nan_to_num(np.abs(driven), nan=np.inf)
    with np.errstate(divide="ignore"):
        # Some counts have a mean of 0, but none has one that 64 bits do not hold.
        far = np.where(size > np.iinfo(np.int64).max, np.inf, np.minimum(np.abs(np.log(size)), 1e3))
    place = np.unravel_index(np.argmax(far), driven.shape)
    return DataError(
        f"no response can be drawn in row {place[-1] + 1}: what the formula predicts for {distribution} is"
        f" {driven[place]:.3g} there at one of the draws; look for a predictor in another unit, far from those of the"
        " fit, and at the verdict of the fit",
        code="impossible-value",
    )


def _value(tree: ast.expr, names: Mapping[str, Any]) -> Any:
    """An argument of a declared call: names, numbers and the four operations."""
    match tree:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case _:
            raise TypeError(ast.unparse(tree))


def accepted() -> tuple[str, ...]:
    """The distributions that can be the likelihood of a regression."""
    return (
        *(name for name, entry in DISTRIBUTIONS.items() if entry.response is not None and entry.name == name),
        *_OF_LEVELS,
    )


@cache
def likelihood(text: str) -> Likelihood:
    """The likelihood that a model names: a key word, a distribution, or one with some known parameters.

    Raises
    ------
    ModelError
        The key word or distribution is unknown, or is not a likelihood of regressions; or a parameter is unknown, not a
        number, outside its domain, or required and missing.
    """
    if text in _WORDS:
        name, renamed = _WORDS[text]
        return _made(text, name, renamed, {})
    try:
        tree = parse(text).tree
    except ModelError:
        tree = ast.Constant(text)
    name = tree.id if isinstance(tree, ast.Name) else call_name(tree) or ""
    if name not in DISTRIBUTIONS:
        raise ModelError(f"unknown likelihood '{text}'{_nearest(name or text)}", code="unknown-word")
    if name not in _OF_LEVELS and DISTRIBUTIONS[name].response is None:
        raise ModelError(
            f"{name} is not a likelihood of a regression: none of its parameters is what a linear predictor drives;"
            f" those that are: {', '.join(accepted())}",
            code="unsupported",
        )
    return _made(name, name, {}, bound_arguments(tree, name) if isinstance(tree, ast.Call) else {})


def _nearest(word: str) -> str:
    """Suggest the nearest distribution or key word; without a near one, list the key words of regressions."""
    near = hint(word, (*_WORDS, *accepted()))
    return near if "did you mean" in near else f"{hint(word, _WORDS)}, or a distribution such as Weibull"


def _made(word: str, name: str, renamed: Mapping[str, str], given: Mapping[str, ast.expr]) -> Likelihood:
    response = _OF_LEVELS.get(name) or DISTRIBUTIONS[name].response
    assert response is not None
    text = response.call
    for old, new in renamed.items():
        text = re.sub(rf"\b{old}\b(?!=)", new, text)
    auxiliary = {renamed.get(key, key): prior for key, prior in response.priors.items()}
    special, links = {}, response.links
    if response.logits:
        special["logit"] = _with(text, response.logits)
    if word == "ordered":
        links, special = ("logit", "probit"), {"probit": _OF_LEVELS["OrderedProbit"].call}
    fixed, constants = _known(name, response, given)
    for parameter in response.needed:
        if parameter not in constants:
            raise ModelError(
                f"{name} needs its '{parameter}' as a number, {name}({parameter}=...): the likelihood has no slope"
                " along it",
                code="incomplete",
            )
    for parameter, number in constants.items():
        text = f"{text[:-1]}, {parameter}={number!r})"
    return Likelihood(word, DISTRIBUTIONS[name].name, response, links, text, auxiliary, special, fixed, constants)


def _with(text: str, logits: str) -> str:
    """The call with the linear predictor itself as a parameter."""
    return text.replace("{mu}", f"{logits}={{eta}}")


def _known(name: str, response: Response, given: Mapping[str, ast.expr]) -> tuple[dict[str, float], dict[str, float]]:
    """The parameters in a call: those that can be learned, and those that never are."""
    if not given:
        return {}, {}
    numbers = {*response.needed, *response.optional}
    tree = parse(response.call.format(mu=_DRIVEN, eta=_DRIVEN, trials=_TRIALS)).tree
    assert isinstance(tree, ast.Call)
    learned = {
        word: value.id
        for word, value in bound_arguments(tree, name).items()
        if isinstance(value, ast.Name) and value.id in response.priors
    }
    fixed, constants = {}, {}
    for word, value in given.items():
        if word not in learned and word not in numbers:
            can = [*learned, *response.needed, *response.optional]
            what = f"what may be given is {listed(can)}" if can else "nothing of it may be given"
            raise ModelError(
                f"'{word}' of {name} is not given in a likelihood: {what}; the {response.quantity} is what the formula"
                " predicts",
                code="unknown-parameter",
            )
        number = _number(name, word, value)
        if word in learned:
            fixed[learned[word]] = number
        else:
            constants[word] = number
    return fixed, constants


def _number(name: str, word: str, tree: ast.expr) -> float:
    """A value inside a parameter's domain."""
    try:
        value = float(ast.literal_eval(tree))
    except (ValueError, TypeError, SyntaxError):
        raise ModelError(
            f"{name}'s {word} is a number in a likelihood, not '{ast.unparse(tree)}'; a prior of it is given under"
            " priors",
            code="not-a-number",
        ) from None
    interval = DISTRIBUTIONS[name].domain.parameters.get(word)
    low, high = (-np.inf, np.inf) if interval is None else (interval.low, interval.high)
    assert not isinstance(low, str)
    assert not isinstance(high, str)
    if np.isnan(value) or (interval is not None and interval.outside(np.asarray(value), low, high)):
        what = "a number" if interval is None else interval.words(low, high)
        raise ModelError(f"{name}'s {word} is {what}, not {value:g}", code="out-of-range")
    return value


LIKELIHOODS: dict[str, Likelihood] = {word: likelihood(word) for word in _WORDS}


def category_probabilities(kind: str, link: str, eta: np.ndarray, cutpoints: Any = None) -> np.ndarray:
    """Probabilities of the categories, on a new last axis (for ``categorical`` eta has it already)."""
    if kind == "categorical":
        return np.asarray(special.softmax(eta, axis=-1))
    inner = cutpoints[..., None, :] - eta[..., None]
    ends = np.full((*inner.shape[:-1], 1), np.inf)
    low, high = np.concatenate([-ends, inner], axis=-1), np.concatenate([inner, ends], axis=-1)
    # Both links are symmetric: compute a difference in the right tail as one in the left tail, for precision.
    flip = low > 0
    first, second = np.where(flip, -high, low), np.where(flip, -low, high)
    return inverse_link(link, second) - inverse_link(link, first)
