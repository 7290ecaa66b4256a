"""The words of regressions."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetJsonSchemaHandler

from bayeslab.errors import Flaw, ModelError
from bayeslab.families.regression.likelihoods import LIKELIHOODS, accepted, likelihood
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import ColumnName, Family

__all__ = ["Regression"]


class _Schema:
    """The JSON schema of a likelihood: the words, the distributions, and these with known parameters."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = accepted()
        called = {"type": "string", "pattern": rf"^({'|'.join(names)})\(.*\)$"}
        return {"anyOf": [{"enum": [*LIKELIHOODS, *names]}, called]}


def _checked(value: str) -> str:
    try:
        likelihood(value)
    except ModelError as error:
        raise Flaw(error.message, code=error.code) from None
    return value


class Regression(Family):
    """A regression by formula."""

    family: Literal["regression"] = "regression"
    formula: str = Field(
        description="`y ~ x * z + C(k) + bs(t, df=5) + (1 + x | group)`; `p(y, n) ~ ...` for binomial."
    )
    likelihood: Annotated[str, AfterValidator(_checked), _Schema()] = Field(
        default="gaussian",
        description="Distribution of the response: a word such as `poisson`, or a distribution such as `Weibull` or"
        " `AsymmetricLaplace(q=0.9)`.",
    )
    link: Literal["identity", "log", "logit", "probit", "cloglog"] | None = Field(
        default=None, description="Link of what the likelihood is driven by; default the likelihood's first."
    )
    priors: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Prior by parameter: a predictor, a term, `b` (all slopes), `Intercept`, `sigma` (or `sigma2`, "
        "`precision`), `sd_g`, ...; a number fixes it. Further names are hyperparameters.",
    )
    shrinkage: Literal["ridge", "lasso", "horseshoe"] | None = Field(
        default=None,
        description="Joint prior of the slopes without one of their own, with a scale `tau` that is inferred.",
    )
    weights: ColumnName | None = Field(default=None, description="Column of weights of the rows' log likelihoods.")
    censored: ColumnName | None = Field(
        default=None, description="Column with `none`, `left` or `right`: the response is a bound of what was not seen."
    )
    missing: dict[ColumnName, str] = Field(
        default_factory=dict,
        description="Models of predictors with missing cells, such as `age: Normal(mu_age, sd_age)`; rows with "
        "other missing cells are dropped.",
    )

    def factors(self, dims: Collection[str]) -> set[str]:
        """Grouping factors, and dimensions that the file declares."""
        return {name for group in parse_formula(self.formula).groups for name in group.factors} | set(dims)

    def distributions(self, outcome: str) -> set[str]:
        """The likelihood."""
        return {self.likelihood}

    def takes_gaps(self) -> bool:
        """Only of predictors with a model of what is missing."""
        return bool(self.missing)

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The response."""
        return (parse_formula(self.formula).outcome,)
