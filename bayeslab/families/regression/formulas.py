"""Formulas of a regression: one of the predicted quantity, and one of each further parameter that varies by row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from bayeslab.errors import BayeslabError, ModelError
from bayeslab.families.regression.nonlinear import NonLinear, non_linear
from bayeslab.language.formula import Formula, parse_formula

__all__ = ["PREDICTED", "Formulas", "Names", "formulas_of", "placed"]

# The key of the predicted quantity among several formulas.
PREDICTED = "mu"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the nodes and dimensions of one linear predictor.

    Attributes
    ----------
    parameter : str
        The parameter of the likelihood; "" for the predicted quantity, whose names have no suffix.
    """

    parameter: str = ""

    def of(self, word: str) -> str:
        """A name such as ``b``, or ``b_sigma``."""
        return f"{word}_{self.parameter}" if self.parameter else word

    def group(self, name: str) -> str:
        """The label of a grouping factor in names, such as ``g`` in ``u_g``, or ``sigma_g`` in ``u_sigma_g``."""
        return f"{self.parameter}_{name}" if self.parameter else name

    @property
    def centred(self) -> str:
        """The node with the default prior of the intercept, which refers to average predictors."""
        return f"{self.parameter}_centred" if self.parameter else "Intercept_centred"


@dataclass(frozen=True, slots=True)
class Formulas:
    """The formulas of a regression.

    Attributes
    ----------
    mean : Formula
        Formula of the response, which determines the predicted quantity.
    further : mapping of str to Formula
        Formulas of further parameters, by parameter: of the likelihood, or of a non-linear formula of the response.
    several : bool
        Whether the model has a mapping of formulas.
    """

    mean: Formula
    further: Mapping[str, Formula]
    several: bool

    @property
    def all(self) -> dict[str, Formula]:
        """Every formula by parameter; "" is the predicted quantity."""
        return {"": self.mean, **self.further}

    @property
    def inner(self) -> tuple[str, ...]:
        """The parameters of a non-linear formula of the response."""
        return self.mean.parameters if isinstance(self.mean, NonLinear) else ()

    def predictor_columns(self) -> set[str]:
        """Columns that any right-hand side reads."""
        return {name for formula in self.all.values() for name in formula.predictor_columns()}

    def quantities(self) -> set[str]:
        """Columns that any right-hand side uses as numbers."""
        return {name for formula in self.all.values() for name in formula.quantities()}

    def factors(self) -> set[str]:
        """Grouping factors, and columns of areas."""
        return {name for formula in self.all.values() for name in formula.factors()}

    def path(self, parameter: str) -> tuple[str, ...]:
        """The place of a formula in the model."""
        return ("model", "formula", parameter or PREDICTED) if self.several else ("model", "formula")


@contextmanager
def placed(path: tuple[str, ...]) -> Iterator[None]:
    """Context that gives errors about a formula the place of this formula."""
    try:
        yield
    except BayeslabError as error:
        if error.path != ("model", "formula"):
            raise
        raise type(error)(error.message, path=path, offset=error.offset, code=error.code) from error.__cause__


def formulas_of(formula: str | Mapping[str, str], auxiliary: Collection[str]) -> Formulas:
    """Parse the formula or formulas of a regression.

    Parameters
    ----------
    auxiliary
        The likelihood's further parameters. Other parameters with formulas are those of a non-linear formula.

    Raises
    ------
    ModelError
        A formula is not valid, the formula of the response is missing, or another one has a left-hand side.
    """
    if isinstance(formula, str):
        return Formulas(parse_formula(formula), {}, several=False)
    return _several(tuple(formula.items()), frozenset(auxiliary))


@lru_cache(maxsize=64)
def _several(given: tuple[tuple[str, str], ...], auxiliary: frozenset[str]) -> Formulas:
    texts = dict(given)
    others = [name for name in texts if name != PREDICTED and name not in auxiliary]
    if PREDICTED not in texts:
        key = next((name for name, text in texts.items() if text.partition("~")[0].strip()), None)
        instead = f", not '{key}'" if key is not None else ""
        raise ModelError(
            f"formulas of several parameters have the key '{PREDICTED}'{instead}, for the formula of the response:"
            f" {{{PREDICTED}: y ~ x, sigma: ~ x}}",
            path=("model", "formula"),
            code="missing-key",
        )
    with placed(("model", "formula", PREDICTED)):
        text = texts.pop(PREDICTED)
        mean = non_linear(text, others) or parse_formula(text)
    further: dict[str, Formula] = {}
    for parameter, text in texts.items():
        path = ("model", "formula", parameter)
        if not parameter.isidentifier():
            raise ModelError(f"'{parameter}' is no name of a parameter", path=path, code="unknown-parameter")
        left, sign, right = text.partition("~")
        if not sign or left.strip():
            raise ModelError(
                f"the formula of '{parameter}' begins with ~, such as '~ x': only that of '{PREDICTED}' has the"
                f" response on its left; given: {text!r:.80}",
                path=path,
                code="syntax",
            )
        with placed(path):
            further[parameter] = parse_formula(f"{parameter} ~{right}")
    return Formulas(mean, further, several=True)
