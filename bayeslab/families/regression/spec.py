"""The words of regressions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bayeslab.language.spec import ColumnName, Family

__all__ = ["Regression"]

type LikelihoodName = Literal[
    "gaussian", "student_t", "bernoulli", "binomial", "categorical", "ordered", "poisson", "negative_binomial",
    "beta", "gamma",
]  # fmt: skip


class Regression(Family):
    """A regression by formula."""

    family: Literal["regression"] = "regression"
    formula: str = Field(
        description="`y ~ x * z + C(k) + bs(t, df=5) + (1 + x | group)`; `p(y, n) ~ ...` for binomial."
    )
    likelihood: LikelihoodName = Field(default="gaussian", description="Distribution of the response.")
    link: Literal["identity", "log", "logit", "probit", "cloglog"] | None = Field(
        default=None, description="Link of the mean; default the likelihood's first."
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
