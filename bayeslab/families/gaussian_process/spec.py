"""The words of Gaussian processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayeslab.errors import Flaw, ModelError, listed
from bayeslab.language.formula import Formula, parse_formula
from bayeslab.language.spec import ColumnName, Family
from bayeslab.latents.gaussian_process.covariance import Kernel

__all__ = ["GaussianProcess", "columns_read", "kernel_of", "mean_formula", "target_of"]

type LikelihoodName = Literal["gaussian", "student_t", "bernoulli", "binomial", "poisson", "negative_binomial"]


def _pair(given: Any) -> Any:
    """Files and Python write two numbers as a list."""
    return tuple(given) if isinstance(given, list) else given


Range = Annotated[tuple[float, float], BeforeValidator(_pair)]

_LINKED = {
    "bernoulli": ("logit", "probit"),
    "binomial": ("logit", "probit"),
    "poisson": ("log",),
    "negative_binomial": ("log",),
}


class GaussianProcess(Family):
    """A Gaussian process."""

    family: Literal["gaussian_process"] = "gaussian_process"
    target: ColumnName | None = Field(
        default=None, description="The outcome; left out: the one column that is nothing else."
    )
    kernel: str = Field(description="The covariance function: `Matern52(x) + Periodic(x, 365) * Linear(t)`.")
    likelihood: LikelihoodName = Field(
        default="gaussian", description="Distribution of the outcome given the function."
    )
    link: Literal["identity", "log", "logit", "probit"] | None = Field(
        default=None, description="Link of the mean; default the likelihood's own."
    )
    mean: str = Field(
        default="1", description="What the function varies about: `0`, `1` (a constant), or a formula: `1 + t`."
    )
    errors: ColumnName | None = Field(
        default=None, description="Column with known standard deviations of the outcome, besides the noise."
    )
    trials: int | ColumnName | None = Field(
        default=None, description="Trials of a binomial outcome: a number, or a column."
    )
    priors: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Prior by parameter; a number fixes it. Names used in the kernel need one; further names are"
        " hyperparameters of priors.",
    )
    jitter: float | None = Field(
        default=None,
        ge=0,
        le=1e-2,
        description="Share of the mean variance added to the diagonal of the covariance; default 0 for gaussian"
        " outcomes and 1e-8 for others.",
    )
    approximation: Literal["state_space", "sparse", "fitc", "hsgp", "laplace"] | None = Field(
        default=None,
        description="Instead of the covariance of all rows: the `state_space` form of one-dimensional kernels (exact"
        " for Matérn), inducing points (`sparse`: Titsias's bound, or `fitc`), basis functions (`hsgp`), or for other"
        " than gaussian outcomes the function integrated out by `laplace`.",
    )
    inducing: int | None = Field(
        default=None, ge=1, le=20_000, description="How many inducing points (sparse, fitc); default 100."
    )
    functions: int | None = Field(
        default=None,
        ge=1,
        description="How many basis functions for each column (hsgp); default by lengthscales' priors.",
    )
    domain: dict[str, Range] | None = Field(
        default=None,
        description="By column, where predictions are wanted (hsgp): its functions serve there only; default the inputs"
        " with 5 % of their range on either side.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> GaussianProcess:
        if (self.likelihood == "binomial") != (self.trials is not None):
            raise Flaw("likelihood: binomial and `trials` go together", code="incomplete")
        if self.errors is not None and self.likelihood != "gaussian":
            raise Flaw("known `errors` go with likelihood: gaussian", code="conflict")
        if self.link is not None and self.link not in _LINKED.get(self.likelihood, ("identity",)):
            shown = " or ".join(_LINKED.get(self.likelihood, ("identity",)))
            raise Flaw(f"{self.likelihood} has the link {shown}, not {self.link}", code="unknown-word")
        if self.inducing is not None and self.approximation not in ("sparse", "fitc"):
            raise Flaw("`inducing` goes with approximation: sparse or fitc", code="conflict")
        if self.functions is not None and self.approximation != "hsgp":
            raise Flaw("`functions` goes with approximation: hsgp", code="conflict")
        if self.domain is not None and self.approximation != "hsgp":
            raise Flaw("`domain` goes with approximation: hsgp", code="conflict")
        for name, (low, high) in (self.domain or {}).items():
            if not low < high:
                raise Flaw(f"domain of {name}: [low, high], not [{low:g}, {high:g}]", code="out-of-range")
        return self

    def factors(self, dims: Collection[str]) -> set[str]:
        """Columns of categories, and dimensions that the file declares."""
        return set(kernel_of(self).categorical) | set(dims)

    def chosen_outcome(self) -> str | None:
        """The target."""
        return self.target

    def distributions(self, outcome: str) -> set[str]:
        """The likelihood."""
        return {self.likelihood}

    def takes_gaps(self) -> bool:
        """Inputs have no missing cells."""
        return False

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The outcome."""
        return (target_of(self, columns),)


def kernel_of(
    spec: GaussianProcess, columns: set[str] | None = None, levels: Mapping[str, Sequence[str]] | None = None
) -> Kernel:
    """The covariance function; errors point into the file."""
    try:
        return Kernel.parse(spec.kernel, columns, spec.priors.keys(), levels)
    except ModelError as error:
        raise ModelError(error.message, path=("model", "kernel"), offset=error.offset, code=error.code) from None


def mean_formula(spec: GaussianProcess, target: str) -> Formula | None:
    """The formula of the mean; None where the mean is zero."""
    if spec.mean.strip() == "0":
        return None
    try:
        formula = parse_formula(f"`{target}` ~ {spec.mean}")
    except ModelError as error:
        raise ModelError(error.message, path=("model", "mean"), code=error.code) from None
    if formula.groups:
        raise ModelError(
            "the mean has no group effects; a covariance does that: Coregion(group) or a further term",
            path=("model", "mean"),
            code="unsupported",
        )
    return formula


def columns_read(spec: GaussianProcess) -> set[str]:
    """Columns that are no outcome."""
    formula = mean_formula(spec, "y")
    out = set(kernel_of(spec).columns) | (formula.predictor_columns() if formula else set())
    return out | {name for name in (spec.errors, spec.trials) if isinstance(name, str)}


def target_of(spec: GaussianProcess, columns: Set[str] | None) -> str:
    """The outcome: as the file says, or the one column that is nothing else."""
    if spec.target is not None:
        return spec.target
    if not columns:
        return "y"
    rest = columns - columns_read(spec)
    if len(rest) != 1:
        shown = f"; {listed(rest)} might be" if rest else ""
        raise ModelError(
            f"say which column is the outcome: target: name{shown}", path=("model", "target"), code="incomplete"
        )
    return next(iter(rest))
