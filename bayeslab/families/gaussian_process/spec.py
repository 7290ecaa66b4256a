"""Keys of the ``gaussian_process`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayeslab.errors import Flaw, ModelError, errors_at, listed
from bayeslab.language.formula import Formula, parse_formula
from bayeslab.language.spec import ColumnName, Family
from bayeslab.latents.gaussian_process.covariance import Kernel

__all__ = ["GaussianProcess", "columns_read", "kernel_of", "mean_formula", "target_of"]

type LikelihoodName = Literal["gaussian", "student_t", "bernoulli", "binomial", "poisson", "negative_binomial"]


def _pair(given: Any) -> Any:
    """Convert a list of two numbers, as files and Python give it, to a tuple."""
    return tuple(given) if isinstance(given, list) else given


Range = Annotated[tuple[float, float], BeforeValidator(_pair)]

_LINKED = {
    "bernoulli": ("logit", "probit"),
    "binomial": ("logit", "probit"),
    "poisson": ("log",),
    "negative_binomial": ("log",),
}


class GaussianProcess(Family):
    """A Gaussian process regression or classification."""

    family: Literal["gaussian_process"] = "gaussian_process"
    target: ColumnName | None = Field(
        default=None, description="The outcome; if left out, the only column with no other role."
    )
    kernel: str = Field(description="Covariance function, such as `Matern52(x) + Periodic(x, 365) * Linear(t)`.")
    likelihood: LikelihoodName = Field(
        default="gaussian", description="Distribution of the outcome given the function."
    )
    link: Literal["identity", "log", "logit", "probit"] | None = Field(
        default=None, description="Link function of the mean; default: the first link of the likelihood."
    )
    mean: str = Field(default="1", description="Mean function: `0`, `1` (a constant), or a formula such as `1 + t`.")
    errors: ColumnName | None = Field(
        default=None, description="Column of known standard deviations of the outcome, in addition to the noise."
    )
    trials: int | ColumnName | None = Field(
        default=None, description="Number of trials of a binomial outcome: a number or the name of a column."
    )
    priors: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Prior of each parameter; a number fixes it. Every name used in the kernel needs one; any other"
        " name defines a hyperparameter.",
    )
    jitter: float | None = Field(
        default=None,
        ge=0,
        le=1e-2,
        description="Added to the diagonal of the covariance matrix, as a share of the mean variance; default: 0"
        " for gaussian outcomes and 1e-8 for others.",
    )
    approximation: Literal["state_space", "sparse", "fitc", "hsgp", "laplace"] | None = Field(
        default=None,
        description="Replaces the dense covariance matrix of all rows: `state_space` form of one-dimensional"
        " kernels (exact for Matérn), inducing points (`sparse`: Titsias's bound; or `fitc`), basis"
        " functions (`hsgp`), or for non-gaussian outcomes the `laplace` approximation of the integral"
        " over the function.",
    )
    inducing: int | None = Field(
        default=None, ge=1, le=20_000, description="Number of inducing points (sparse, fitc); default 100."
    )
    functions: int | None = Field(
        default=None,
        ge=1,
        description="Number of basis functions for each column (hsgp); the default follows from the priors of the"
        " lengthscales.",
    )
    domain: dict[str, Range] | None = Field(
        default=None,
        description="For each column the range `[low, high]` of predictions (hsgp); the approximation holds only"
        " there. Default: the range of the inputs, extended by 5 % on either side.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["gaussian_process"] = ...,
            target: str | None = ...,
            kernel: str,
            likelihood: LikelihoodName = ...,
            link: Literal["identity", "log", "logit", "probit"] | None = ...,
            mean: str = ...,
            errors: str | None = ...,
            trials: int | str | None = ...,
            priors: Mapping[str, str | float] = ...,
            jitter: float | None = ...,
            approximation: Literal["state_space", "sparse", "fitc", "hsgp", "laplace"] | None = ...,
            inducing: int | None = ...,
            functions: int | None = ...,
            domain: Mapping[str, Sequence[float]] | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _consistent(self) -> GaussianProcess:
        if (self.likelihood == "binomial") != (self.trials is not None):
            raise Flaw("likelihood: binomial and `trials` go together", code="incomplete")
        if self.errors is not None and self.likelihood != "gaussian":
            raise Flaw("known `errors` need likelihood: gaussian", code="conflict")
        if self.link is not None and self.link not in _LINKED.get(self.likelihood, ("identity",)):
            shown = " or ".join(_LINKED.get(self.likelihood, ("identity",)))
            raise Flaw(f"{self.likelihood} has the link {shown}, not {self.link}", code="unknown-word")
        if self.inducing is not None and self.approximation not in ("sparse", "fitc"):
            raise Flaw("`inducing` needs approximation: sparse or fitc", code="conflict")
        if self.functions is not None and self.approximation != "hsgp":
            raise Flaw("`functions` needs approximation: hsgp", code="conflict")
        if self.domain is not None and self.approximation != "hsgp":
            raise Flaw("`domain` needs approximation: hsgp", code="conflict")
        for name, (low, high) in (self.domain or {}).items():
            if not low < high:
                raise Flaw(f"domain of {name}: [low, high], not [{low:g}, {high:g}]", code="out-of-range")
        return self

    def factors(self, dims: Collection[str]) -> set[str]:
        """Categorical columns, and the dimensions that the file declares."""
        return set(kernel_of(self).categorical) | set(dims)

    def chosen_outcome(self) -> str | None:
        """The target."""
        return self.target

    def distributions(self, outcome: str) -> set[str]:
        """The likelihood's name."""
        return {self.likelihood}

    def takes_gaps(self) -> bool:
        """False: inputs have no missing cells."""
        return False

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The outcome."""
        return (target_of(self, columns),)


def kernel_of(
    spec: GaussianProcess, columns: set[str] | None = None, levels: Mapping[str, Sequence[str]] | None = None
) -> Kernel:
    """Read the covariance function; errors point to its place in the file."""
    with errors_at(("model", "kernel")):
        return Kernel.parse(spec.kernel, columns, spec.priors.keys(), levels)


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
    """Columns that are not the outcome."""
    formula = mean_formula(spec, "y")
    out = set(kernel_of(spec).columns) | (formula.predictor_columns() if formula else set())
    return out | {name for name in (spec.errors, spec.trials) if isinstance(name, str)}


def target_of(spec: GaussianProcess, columns: Set[str] | None) -> str:
    """The outcome: the column that the file names, or the only column with no other role."""
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
