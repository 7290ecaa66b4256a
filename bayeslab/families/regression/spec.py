"""Keys of the ``regression`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal
from unicodedata import normalize

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, field_validator

from bayeslab.errors import Flaw, ModelError, Reason, listed
from bayeslab.families.regression.folding import folding_of
from bayeslab.families.regression.formulas import Formulas, formulas_of
from bayeslab.families.regression.likelihoods import LIKELIHOODS, accepted, likelihood
from bayeslab.language.spec import ColumnName, Family, Folding

__all__ = ["PARTS", "Regression"]

# Names of nodes, columns and dimensions of regressions; a response of such a name is refused by those that have it.
PARTS = frozenset(
    (
        *("Intercept", "Intercept_centred", "alpha", "b", "contrasts", "cutpoint"),
        *("prior_location", "prior_scale", "prior_unit"),
        *("cutpoints", "design", "design_mean", "lower", "offset", "predictor", "sigma", "tau", "trials", "unit"),
        *("response_contrast", "response_level", "upper"),
    )
)


class _Schema:
    """JSON schema of a likelihood: a key word, a distribution, or a distribution with known parameters."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = accepted()
        called = {"type": "string", "pattern": rf"^({'|'.join(names)})\(.*\)$"}
        return {"anyOf": [{"enum": [*LIKELIHOODS, *names]}, called]}


def _letters(name: Any) -> Any:
    """A name as expressions have it, in which the micro sign is the letter mu."""
    return normalize("NFKC", name) if isinstance(name, str) and name.isidentifier() else name


def _checked(value: str) -> str:
    try:
        likelihood(value)
    except ModelError as error:
        raise Flaw(error.message, code=error.code) from None
    return value


class Regression(Family):
    """A regression given by a formula."""

    family: Literal["regression"] = "regression"
    formula: str | dict[str, str] = Field(
        description="Model formula, such as `y ~ x * z + C(k) + s(t) + (1 + x | group)`; `p(y, n) ~ ...` for"
        " binomial. Or formulas of several parameters: `{mu: y ~ x, sigma: ~ x}`, or a non-linear formula and those"
        " of its parameters: `{mu: y ~ a * exp(-b * x), a: ~ 1 + (1 | group), b: ~ 1}`."
    )
    likelihood: Annotated[str, AfterValidator(_checked), _Schema()] = Field(
        default="gaussian",
        description="Distribution of the response: a key word such as `poisson`, or a distribution such as"
        " `Weibull` or `AsymmetricLaplace(q=0.9)`.",
    )
    link: Literal["identity", "log", "logit", "probit", "cloglog"] | None = Field(
        default=None,
        description="Link function of the parameter that the linear predictor determines; default: the likelihood's"
        " first link.",
    )
    priors: dict[str, str | int | float | dict[str, str | int | float]] = Field(
        default_factory=dict,
        description="Prior of each parameter: a predictor, a term, `b` (all slopes), `Intercept`, `sigma` (or"
        " `sigma2`, `precision`), `sd_g`, ...; a number fixes the parameter. Any other name defines a"
        " hyperparameter. A parameter with a formula has a mapping: `sigma: {Intercept: ..., b: ...}`.",
    )
    shrinkage: Literal["ridge", "lasso", "horseshoe", "r2d2"] | None = Field(
        default=None,
        description="Joint shrinkage prior of the slopes, whose scale `tau` is inferred; with `r2d2` from the share"
        " `R2` of explained variance.",
    )
    weights: ColumnName | None = Field(
        default=None, description="Column of weights that multiply the rows' log likelihoods."
    )
    censored: ColumnName | None = Field(
        default=None,
        description="Column with `none`, `left` or `right`: the response of a censored row is the bound on the"
        " unobserved value.",
    )
    missing: dict[ColumnName, str] = Field(
        default_factory=dict,
        description="Distributions of predictors with missing cells, such as `age: Normal(mu_age, sd_age)`; rows"
        " with missing cells in other columns are dropped.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["regression"] = ...,
            formula: str | Mapping[str, str],
            likelihood: str = ...,
            link: Literal["identity", "log", "logit", "probit", "cloglog"] | None = ...,
            priors: Mapping[str, str | float | Mapping[str, str | float]] = ...,
            shrinkage: Literal["ridge", "lasso", "horseshoe", "r2d2"] | None = ...,
            weights: str | None = ...,
            censored: str | None = ...,
            missing: Mapping[str, str] = ...,
        ) -> None: ...

    @field_validator("formula", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        for parameter, text in value.items() if isinstance(value, Mapping) else ():
            if not isinstance(text, str):
                given = "nothing, ~ 1 makes it the same for all rows" if text is None else f"{text!r:.60}"
                raise Flaw(f"the formula of '{parameter}' is a text; given: {given}", parameter, code="wrong-type")
        return {_letters(name): text for name, text in value.items()} if isinstance(value, Mapping) else value

    @field_validator("priors", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        nested = {name: cls._names(entry) for name, entry in value.items()}
        return {_letters(name): entry for name, entry in nested.items()}

    @property
    def formulas(self) -> Formulas:
        """The parsed formulas."""
        return formulas_of(self.formula, likelihood(self.likelihood).auxiliary)

    def priors_of(self, parameter: str) -> dict[str, str]:
        """Priors of the coefficients of a parameter that has a formula; for "" all other priors."""
        if parameter:
            entry = self.priors.get(parameter, {})
            return {name: str(text) for name, text in entry.items()} if isinstance(entry, dict) else {}
        return {name: str(text) for name, text in self.priors.items() if not isinstance(text, dict)}

    def placed_priors(self) -> dict[tuple[str, ...], str]:
        """Every prior in the model, by its path within ``priors``."""
        out = {(name,): text for name, text in self.priors_of("").items()}
        nested = [name for name, entry in self.priors.items() if isinstance(entry, dict)]
        return out | {(name, inner): text for name in nested for inner, text in self.priors_of(name).items()}

    def factors(self, dims: Collection[str]) -> set[str]:
        """Grouping factors, and the dimensions that the file declares."""
        return self.formulas.factors() | set(dims)

    def distributions(self, outcome: str) -> set[str]:
        """The likelihood's name."""
        return {self.likelihood}

    def takes_gaps(self) -> bool:
        """Whether predictors may have missing cells: only if ``missing`` gives them distributions."""
        return bool(self.missing)

    def folding(self, columns: Set[str], numbers: Set[str]) -> Folding | Reason:
        """The columns that enter linearly, and those of which each distinct value counts."""
        if self.missing:
            text = f"{listed(self.missing)} has a model of its own, with a value for each row"
            return Reason(text, code="unsupported")
        chosen = likelihood(self.likelihood)
        normal = chosen.distribution == "Normal" and (self.link or "identity") == "identity" and not self.censored
        beside = {name for name in (self.weights, self.censored) if name}
        return folding_of(self.formulas, "normal" if normal else self.likelihood, numbers, beside)

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The response."""
        return (self.formulas.mean.outcome,)
