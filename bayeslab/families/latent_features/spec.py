"""Keys of the ``latent_features`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayeslab.errors import (
    Flaw,
    hint,
)
from bayeslab.language.spec import ColumnName, Family

__all__ = ["LatentFeatures"]

# Names reserved for results.
_TAKEN = {
    "active",
    "alpha",
    "column",
    "communality",
    "evidence",
    "explained",
    "feature",
    "loading",
    "loading_sd",
    "log_likelihood",
    "mean",
    "n_features",
    "noise",
    "present",
    "probability",
    "reconstruction",
    "row",
    "scale",
    "score",
    "score_sd",
    "slot",
    "z",
}


def _as_features(value: Any) -> Any:
    if value == "ibp":
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise Flaw(f"a number of features, or ibp: as many as there are; not {value!r}", code="wrong-type")
    if not 1 <= value <= 1000:
        raise Flaw(f"a model has 1 to 1,000 features, not {value}", code="out-of-range")
    return value


class LatentFeatures(Family):
    """Factor analysis, probabilistic principal component analysis, and binary latent features."""

    family: Literal["latent_features"] = "latent_features"
    columns: list[ColumnName] = Field(min_length=1, max_length=1000, description="Columns to model.")
    features: Annotated[int | Literal["ibp"], BeforeValidator(_as_features)] = Field(
        description="Number of features, or `ibp` for an unbounded number from an Indian buffet process (kind: binary)."
    )
    kind: Literal["gaussian", "binary"] = Field(
        default="gaussian", description="Value of a feature in a row: gaussian, any real number; binary, 0 or 1."
    )
    noise: Literal["shared", "own"] = Field(
        default="shared",
        description="Noise variance. shared: one for all columns (probabilistic principal components); own: one for"
        " each column (factor analysis).",
    )
    mean: Literal["own", "zero"] | None = Field(
        default=None,
        description="Mean of the columns apart from the features; if left out, own for gaussian features and zero"
        " for binary ones.",
    )
    priors: dict[str, Any] = Field(
        default_factory=dict,
        description="Priors by name. noise, and scale (the standard deviation of the loadings): a known number, or"
        " a prior such as HalfNormal(1); probability of binary features: Beta(a, b); alpha of ibp:"
        " Gamma(a, b) or a number.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> LatentFeatures:
        if len(set(self.columns)) < len(self.columns):
            raise Flaw("a column is given twice", code="duplicate")
        for name in self.columns:
            if name in _TAKEN:
                raise Flaw(
                    f"a column called '{name}' cannot be modelled: results use that name; rename it",
                    code="reserved-name",
                )
        known = ["noise", "scale"]
        if self.kind == "binary":
            known.append("alpha" if self.features == "ibp" else "probability")
            if self.noise == "own":
                raise Flaw(
                    "binary features have one noise for all columns; standardise columns, or noise: shared",
                    code="unsupported",
                )
        else:
            self._gaussian()
        for name in self.priors:
            if name not in known:
                raise Flaw(f"unknown prior '{name}'{hint(name, known)}", code="unknown-parameter")
        return self

    def _gaussian(self) -> None:
        if self.features == "ibp":
            raise Flaw("a buffet brings binary features: kind: binary", code="conflict")
        k, d = int(self.features), len(self.columns)
        if self.noise == "shared" and k >= d:
            raise Flaw(
                f"{d} columns have at most {d - 1} principal components beside noise, not {k}", code="out-of-range"
            )
        # A covariance matrix does not determine as many numbers as it has itself (Ledermann 1937).
        if self.noise == "own" and (d - k) ** 2 < d + k:
            most = max((j for j in range(d) if (d - j) ** 2 >= d + j), default=0)
            raise Flaw(f"the covariances of {d} columns determine at most {most} factors, not {k}", code="out-of-range")

    def factors(self, dims: Collection[str]) -> set[str]:
        """The empty set: no column is categorical."""
        return set()

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.columns)

    @property
    def with_mean(self) -> bool:
        """Whether the columns have means to estimate."""
        return self.mean == "own" or (self.mean is None and self.kind == "gaussian")
