"""Keys of the ``mixture`` family in a model file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from bayeslab.distributions import DISTRIBUTIONS, usable
from bayeslab.distributions.emissions import AnyDistribution
from bayeslab.errors import Flaw, ModelError, Reason, hint, listed
from bayeslab.language.column_distributions import column_distribution, is_distribution
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import ColumnName, Family, Folding, columns_once, plain_name

__all__ = ["KINDS", "Mixture"]

KINDS = ("gaussian", "student_t", "poisson", "binomial", "exponential", "bernoulli", "categorical")


# Names reserved for results.
_TAKEN = {"weights", "gate", "label", "component", "feature", "input", "evidence"}


_PARAMETERS = {"mean", "sd", "covariance", "location", "scale", "scale_matrix", "dof", "rate", "probability"}


_NUMBERS = "a number, a list of numbers to choose from, sampled, or dirichlet_process"


def _as_components(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | list | str):
        raise Flaw(f"{_NUMBERS}; not {value!r}", code="wrong-type")
    if isinstance(value, str):
        if value not in ("sampled", "dirichlet_process"):
            raise Flaw(f"{_NUMBERS}; not '{value}'{hint(value, ('sampled', 'dirichlet_process'))}", code="unknown-word")
        return value
    each = value if isinstance(value, list) else [value]
    if not each:
        raise Flaw("a list to choose from needs at least one number", code="incomplete")
    for k in each:
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 1000:
            bound = "at most 1,000 components" if isinstance(k, int) and k > 1000 else "at least 1 component"
            raise Flaw(f"a mixture has {bound}, not {k!r}", code="out-of-range")
    if isinstance(value, list) and len(set(value)) < len(value):
        raise Flaw("a number of components is given twice", code="duplicate")
    return value


def _as_kinds(value: Any) -> Any:
    each = list(columns_once(value).values()) if isinstance(value, Mapping) else [value]
    for word in each:
        if isinstance(word, str) and is_distribution(word):
            _check_distribution(word)
        elif word not in KINDS:
            raise Flaw(f"unknown component '{word}'{_nearest(word)}", code="unknown-word")
    return value


def _nearest(word: Any) -> str:
    """Suggest the nearest distribution or key word; without a near one, list the key words of this family."""
    near = hint(word, (*KINDS, *DISTRIBUTIONS))
    return near if "did you mean" in near else f"{hint(word, KINDS)}, or a distribution such as Gamma"


def _check_distribution(word: str) -> None:
    try:
        name, known = column_distribution(word)
        names = usable(name, known)
    except ModelError as error:
        raise Flaw(error.message, code=error.code) from None
    if not _learned(word):
        raise Flaw(
            f"nothing of {word} is left to learn, so that all components would be alike; leave out one of"
            f" {listed(names)}",
            code="conflict",
        )


def _learned(word: str) -> tuple[str, ...]:
    """Names of the parameters of a distribution that are not known."""
    name, known = column_distribution(word)
    return AnyDistribution(name, 1, {parameter: np.asarray(value) for parameter, value in known.items()}).learned


def _reserved(name: str) -> str:
    return f"a column called '{name}' cannot be modelled: results use that name; rename it"


class Mixture(Family):
    """A mixture model: finite, with a posterior over the number of components, or a Dirichlet process."""

    family: Literal["mixture"] = "mixture"
    columns: list[ColumnName] = Field(default_factory=list, max_length=1000, description="Columns to model.")
    regression: str | None = Field(
        default=None,
        description="Instead of columns: a formula `y ~ x`; each component has its own regression coefficients.",
    )
    components: Annotated[
        int | list[int] | Literal["sampled", "dirichlet_process"], BeforeValidator(_as_components)
    ] = Field(
        description="Number of components; a list of numbers from which `choose` selects one; `sampled` for a"
        " posterior over the number; or `dirichlet_process` for an unbounded number."
    )
    concentration: float | int | str = Field(
        default="Gamma(1, 1)",
        description="Concentration α of the process: a number; a prior Gamma(shape, rate); or `empirical_bayes`,"
        " which maximises the marginal likelihood.",
    )
    discount: float | int = Field(
        default=0,
        ge=0,
        lt=1,
        description="Discount of the process: a value above 0 makes it a Pitman-Yor process, which has more small"
        " clusters.",
    )
    choose: Literal["bic", "aic", "icl", "evidence", "held_out"] = Field(
        default="bic", description="Criterion that selects the number of components from a list."
    )
    most: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="For a sampled number: the largest number of components. For a process: where `nuts` and"
        " `variational` truncate the stick-breaking representation.",
    )
    component: Annotated[str | dict[ColumnName, str], BeforeValidator(_as_kinds)] = Field(
        default="gaussian",
        description="Distribution of each component: gaussian, student_t, poisson, binomial, exponential, bernoulli"
        " or categorical; any univariate distribution, such as Gamma, or Pareto(m=1) with its known"
        " parameters; or a mapping with one for each column (columns are then independent given the"
        " component).",
    )
    covariance: Literal["full", "tied", "diagonal", "spherical", "known"] = Field(
        default="full",
        description="Covariance of gaussian components; `tied` is one matrix for all components; `known` takes the"
        " value of the key `known`.",
    )
    known: Any = Field(
        default=None, description="The known covariance: one variance, a variance for each column, or a matrix."
    )
    dof: float | int | None = Field(
        default=None, gt=0, description="Degrees of freedom of student_t components; learned if left out."
    )
    trials: int | str | None = Field(
        default=None, description="Number of trials of binomial columns: a number or the name of a column."
    )
    gating: list[ColumnName] = Field(
        default_factory=list, description="Columns that the component weights depend on, through a multinomial logit."
    )
    labels: ColumnName | None = Field(
        default=None,
        description="Column of known component labels; its cells are empty for rows whose component is unknown.",
    )
    label_noise: bool = Field(
        default=False, description="Whether labels may be wrong; if so, their confusion matrix is learned."
    )
    order: ColumnName | None = Field(
        default=None,
        description="Number the components by increasing location in this column; if left out, draws are relabelled"
        " to agree with each other.",
    )
    priors: dict[str, Any] = Field(
        default_factory=dict,
        description="Priors by name. weights: concentration of the Dirichlet; rate: Gamma(a, b); probability:"
        " Beta(a, b) or a concentration; components: {mean, rows, dof, scale} of the"
        " normal-inverse-Wishart prior; mean and sd: expressions such as Normal(0, 2); correlation:"
        " LKJ(2), with covariance: full; for any other distribution its parameters, such as alpha:"
        " Gamma(2, 1).",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["mixture"] = ...,
            columns: list[str] = ...,
            regression: str | None = ...,
            components: int | list[int] | Literal["sampled", "dirichlet_process"],
            concentration: float | str = ...,
            discount: float = ...,
            choose: Literal["bic", "aic", "icl", "evidence", "held_out"] = ...,
            most: int = ...,
            component: str | Mapping[str, str] = ...,
            covariance: Literal["full", "tied", "diagonal", "spherical", "known"] = ...,
            known: Any = ...,
            dof: float | None = ...,
            trials: int | str | None = ...,
            gating: list[str] = ...,
            labels: str | None = ...,
            label_noise: bool = ...,
            order: str | None = ...,
            priors: Mapping[str, Any] = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _consistent(self) -> Mixture:
        if bool(self.columns) == (self.regression is not None):
            raise Flaw("give the columns that are modelled, or a regression; one of the two", code="conflict")
        if self.regression is not None and self.component not in ("gaussian", "bernoulli", "poisson"):
            raise Flaw("the outcome of a regression is gaussian, bernoulli or poisson", code="unsupported")
        if self.regression is not None and (
            isinstance(self.components, str) or self.labels or self.priors.keys() - {"weights"}
        ):
            raise Flaw(
                "a mixture of regressions has a number of components and no labels; its priors are fixed",
                code="unsupported",
            )
        if len(set(self.columns)) < len(self.columns):
            raise Flaw("a column is given twice", code="duplicate")
        for name in (*self.columns, *((self.labels,) if self.labels else ())):
            if name in _TAKEN | _PARAMETERS:
                raise Flaw(_reserved(name), code="reserved-name")
        if isinstance(self.component, dict):
            for name in self.component:
                if name not in self.columns:
                    raise Flaw(
                        f"'{name}' in component is not among the columns{hint(name, self.columns)}",
                        code="unknown-column",
                    )
            for name in self.columns:
                if name not in self.component:
                    raise Flaw(
                        f"component does not say what '{name}' is; give one of {listed(KINDS)}, or a distribution",
                        code="incomplete",
                    )
        self._distributions()
        if self.words("binomial") and self.trials is None:
            raise Flaw("binomial components need `trials`: a number, or a column", code="incomplete")
        if (self.covariance == "known") != (self.known is not None):
            raise Flaw("covariance: known and `known`, the covariance, go together", code="incomplete")
        if self.label_noise and not self.labels:
            raise Flaw("label_noise needs `labels`, the column of labels", code="incomplete")
        if self.gating and (isinstance(self.components, str) or self.labels):
            raise Flaw("gating needs a number of components and no labels", code="unsupported")
        if self.labels and not isinstance(self.components, int):
            raise Flaw("known labels need a number of components", code="incomplete")
        process_options = self.model_fields_set & {"concentration", "discount"}
        if self.components != "dirichlet_process" and process_options:
            raise Flaw(f"{listed(sorted(process_options))}: only with components: dirichlet_process", code="conflict")
        if self.components == "dirichlet_process" and "weights" in self.priors:
            raise Flaw("the weights of a process have their prior from `concentration` and `discount`", code="conflict")
        if isinstance(self.components, str) and self.order is not None:
            what = "a sampled number of components" if self.components == "sampled" else "a process"
            raise Flaw(f"the clusters of {what} have no names that `order` could give; leave it out", code="conflict")
        if self.order is not None and self.regression is None and self.order not in self.columns:
            raise Flaw(
                f"order: '{self.order}' is not among the columns{hint(self.order, self.columns)}", code="unknown-column"
            )
        if self.order is not None and self.labels:
            raise Flaw("labels say which component is which; leave `order` out", code="conflict")
        parameters = self.parameter_priors()
        for name in self.priors:
            known = ("weights", "rate", "probability", "components", "mean", "sd", "correlation", *parameters)
            if name not in known:
                raise Flaw(f"unknown prior '{name}'{hint(name, known)}", code="unknown-parameter")
        self._effective()
        given = self.priors.get("components", {})
        parts = ("mean", "rows", "dof", "scale")
        if not isinstance(given, Mapping) or set(given) - set(parts):
            raise Flaw(f"the prior of components is a mapping with {listed(parts)}", code="wrong-type")
        return self

    def _distributions(self) -> None:
        """Refuse options that components of a general distribution do not support."""
        names = [part for part, columns in self.parts().items() if is_distribution(self.word(columns[0]))]
        if not names:
            return
        if self.components == "sampled":
            text = (
                f"{names[0]} components have no conjugate prior, so that they cannot be integrated out: give a number"
            )
            raise Flaw(f"{text} of components, or a list to choose from", code="not-conjugate")
        if self.choose == "evidence":
            text = (
                f"the evidence needs conjugate priors, and {names[0]} components have none; choose by bic or held_out"
            )
            raise Flaw(text, code="not-conjugate")
        used = {f"{self.prefix(part)}{word}" for part, word in self.parameter_priors().values()}
        for name in (*self.columns, *((self.labels,) if self.labels else ())):
            if name in used:
                raise Flaw(_reserved(name), code="reserved-name")

    def _effective(self) -> None:
        """Refuse keys that would have no effect."""
        words = set(self.component.values()) if isinstance(self.component, dict) else {self.component}
        if self.regression is not None:
            words = {"regression"}
        has_rate, has_probability = words & {"poisson", "exponential"}, words & {"bernoulli", "binomial", "categorical"}
        idle = {
            "most": (
                not isinstance(self.components, str),
                "bounds a number that is sampled, or the stick of a process; here the number is given",
            ),
            "choose": (not isinstance(self.components, list), "needs a list of components to choose from"),
            "covariance": ("gaussian" not in words, "is of gaussian columns, and there is none"),
            "dof": ("student_t" not in words, "is of student_t columns, and there is none"),
            "trials": ("binomial" not in words, "is the number of trials of binomial columns, and there is none"),
        }
        for key, (silent, why) in idle.items():
            if silent and key in self.model_fields_set:
                raise Flaw(f"{key} {why}; leave it out", code="conflict")
        priors = {
            "rate": (not has_rate, "there is no poisson or exponential column"),
            "probability": (not has_probability, "there is no bernoulli, binomial or categorical column"),
            "components": (not words & {"gaussian", "student_t"}, "there is no gaussian or student_t column"),
            "mean": ("gaussian" not in words, "there is no gaussian column"),
            "sd": ("gaussian" not in words, "there is no gaussian column"),
            "correlation": ("gaussian" not in words, "there is no gaussian column"),
            "weights": (bool(self.gating), "with gating the weights follow from coefficients, whose prior is fixed"),
        }
        for key, value in self.priors.items():
            if str(value).strip().startswith(("Ordered(", "PositiveOrdered(")):
                raise Flaw(
                    f"priors: {key}: components are put in order by `order: column`; leave {value} out", code="conflict"
                )
        for key, (silent, why) in priors.items():
            if silent and key in self.priors:
                raise Flaw(f"priors: {key} has no effect, because {why}; leave it out", code="conflict")

    def folding(self, columns: Set[str], numbers: Set[str]) -> Folding | Reason:
        """Columns of categories, whose distinct rows count, or gaussian ones, which EM reads again and again."""
        gaussian = bool(self.columns) and set(map(self.word, self.columns)) == {"gaussian"}
        others = [c for c in self.columns if not gaussian and self.word(c) not in ("categorical", "bernoulli")]
        given = {"regression": self.regression, "gating": self.gating, "labels": self.labels}
        keys = [key for key, value in given.items() if value]
        if keys or others:
            what = f"`{keys[0]}`" if keys else f"{self.word(others[0])} components"
            return Reason(f"a mixture with {what} needs every row in memory", code="unsupported")
        if isinstance(self.components, str):
            text = f"components: {self.components} draws the component of each row, and needs every row in memory"
            return Reason(text, code="unsupported")
        if isinstance(self.components, list) and self.choose == "held_out":
            return Reason("choose: held_out leaves rows out, and needs every row in memory", code="unsupported")
        if gaussian and isinstance(self.components, list):
            return Reason(
                "a number of components is chosen by every row in memory: give one number", code="unsupported"
            )
        return Folding(frozenset(), sampled=frozenset(self.columns)) if gaussian else Folding(frozenset(self.columns))

    def factors(self, dims: Collection[str]) -> set[str]:
        """Columns treated as categorical, among them the labels."""
        return {*self.words("categorical"), *((self.labels,) if self.labels else ()), *dims} - {"component"}

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The modelled columns, and the labels if they may be wrong."""
        return (*self.modelled, *((self.labels,) if self.labels and self.label_noise else ()))

    def categories(self, data: Any) -> dict[str, str | None]:
        """Categorical columns, and labels that may be wrong, each with levels of its own."""
        return dict.fromkeys([*self.words("categorical"), *([self.labels] if self.labels and self.label_noise else [])])

    @property
    def modelled(self) -> list[str]:
        """The modelled columns; for a mixture of regressions, the outcome."""
        return [parse_formula(self.regression).response] if self.regression is not None else list(self.columns)

    def word(self, column: str) -> str:
        """The component distribution of a column."""
        return self.component.get(column, "") if isinstance(self.component, dict) else self.component

    def words(self, word: str) -> tuple[str, ...]:
        """The columns whose component distribution is ``word``."""
        return tuple(c for c in self.columns if self.word(c) == word)

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Columns grouped by component distribution and by which of its parameters are known, by name of the group."""
        groups: dict[tuple[str, frozenset[str]], list[str]] = {}
        for column in self.columns:
            word = self.word(column)
            name, known = column_distribution(word) if is_distribution(word) else (word, {})
            groups.setdefault((name, frozenset(known)), []).append(column)
        often = Counter(name for name, _ in groups)
        return {
            name if often[name] == 1 else f"{name}_{plain_name(columns[0])}": tuple(columns)
            for (name, _), columns in groups.items()
        }

    def prefix(self, part: str) -> str:
        """Prefix of the names of a part's parameters in results."""
        parts = self.parts()
        # The concentration of a process is also called alpha.
        apart = self.components == "dirichlet_process" and part in parts and is_distribution(self.word(parts[part][0]))
        return f"{part}_" if apart or len([name for name in parts if name != "categorical"]) > 1 else ""

    def parameter_priors(self) -> dict[str, tuple[str, str]]:
        """Map each key of ``priors`` for components of a general distribution to (part, parameter).

        A key is the parameter's name in results, or its plain name if only one part has that parameter.
        """
        each = [
            (part, word)
            for part, columns in self.parts().items()
            if is_distribution(self.word(columns[0]))
            for word in _learned(self.word(columns[0]))
        ]
        often = Counter(word for _, word in each)
        alone = {word: (part, word) for part, word in each if often[word] == 1}
        return alone | {f"{self.prefix(part)}{word}": (part, word) for part, word in each}
