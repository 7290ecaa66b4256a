"""Keys of the ``regressions`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from bayeslab.errors import Flaw, ModelError
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regressions.written_formulas import plain
from bayeslab.language.spec import Family, Identifier

__all__ = ["Regressions"]


class Regressions(Family):
    """Regressions of several responses of the same rows, as one model."""

    family: Literal["regressions"] = "regressions"
    responses: dict[Identifier, Regression] = Field(
        min_length=2,
        description="A regression for each response, by its name: `y: {formula: y ~ x + (1 | p | g)}`, with all keys of"
        " the family regression. Group effects with the same id are correlated across responses. A response may be a"
        " predictor of others, and `mi(x)` one with missing cells.",
    )
    residuals: list[Identifier] = Field(
        default_factory=list,
        description="Normal (or Student t) responses whose residuals are correlated, such as `[y, z]`.",
    )
    priors: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Priors of what responses share: `corr_residuals` and `corr_g_p`, the numbers of LKJ priors of"
        " correlations, and `nu_residuals`, the degrees of freedom of Student t residuals that are correlated.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["regressions"] = ...,
            responses: Mapping[str, Regression | Mapping[str, Any]],
            residuals: Collection[str] = ...,
            priors: Mapping[str, str | float] = ...,
        ) -> None: ...

    @field_validator("responses", mode="before")
    @classmethod
    def _each(cls, value: Any) -> Any:
        """Regressions of mappings, so that their errors have the places and words of the family regression."""
        if not isinstance(value, Mapping):
            return value
        out = {}
        for name, entry in value.items():
            out[name] = entry
            if isinstance(entry, Mapping) and all(isinstance(key, str) for key in entry):
                try:
                    out[name] = Regression(**entry)
                except ModelError as error:
                    raise Flaw(error.message, name, *error.path[1:], code=error.code) from None
        return out

    @property
    def weights(self) -> str | None:
        """A column of weights, if a response has one."""
        return next((each.weights for each in self.responses.values() if each.weights), None)

    @property
    def censored(self) -> str | None:
        """The column that says which values of a response are censored, if there is one."""
        return next((each.censored for each in self.responses.values() if each.censored), None)

    @property
    def shared_priors(self) -> dict[str, str]:
        """Priors of what responses share, as text."""
        return {name: str(text) for name, text in self.priors.items()}

    def regressions(self) -> dict[str, Regression]:
        """The regression of each response as one of its own: without ids and imputed predictors."""
        return {name: plain(each) for name, each in self.responses.items()}

    def factors(self, dims: Collection[str]) -> set[str]:
        """Grouping factors, and the dimensions that the file declares."""
        return set(dims).union(*(each.formulas.factors() for each in self.regressions().values()))

    def distributions(self, outcome: str) -> set[str]:
        """The likelihood's name."""
        each = self.responses.get(outcome)
        return set() if each is None else {each.likelihood}

    def takes_gaps(self) -> bool:
        """Whether cells may be missing: only if predictors have distributions or are responses with ``mi(x)``."""
        return any(each.takes_gaps() for each in self.regressions().values())

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The responses."""
        return tuple(self.responses)
