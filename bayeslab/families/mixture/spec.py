"""The words of mixtures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from bayeslab.distributions import DISTRIBUTIONS, usable
from bayeslab.distributions.emissions import AnyDistribution
from bayeslab.errors import Flaw, ModelError, hint, listed
from bayeslab.language.column_distributions import column_distribution, is_distribution
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import ColumnName, Family, columns_once, plain_name

__all__ = ["KINDS", "Mixture"]

KINDS = ("gaussian", "student_t", "poisson", "binomial", "exponential", "bernoulli", "categorical")


# Names that results use.
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
        raise Flaw("each number of components once", code="duplicate")
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
    """A word that is near, among the distributions too; else the words of this family."""
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
    """The parameters of a distribution that are not known."""
    name, known = column_distribution(word)
    return AnyDistribution(name, 1, {parameter: np.asarray(value) for parameter, value in known.items()}).learned


def _reserved(name: str) -> str:
    return f"a column called '{name}' cannot be modelled: results use that name; rename it"


class Mixture(Family):
    """A finite mixture."""

    family: Literal["mixture"] = "mixture"
    columns: list[ColumnName] = Field(
        default_factory=list, max_length=1000, description="The columns that are modelled."
    )
    regression: str | None = Field(
        default=None, description="Instead of columns: a formula `y ~ x`, and every component has its own coefficients."
    )
    components: Annotated[
        int | list[int] | Literal["sampled", "dirichlet_process"], BeforeValidator(_as_components)
    ] = Field(
        description="How many; a list from which `choose` picks; sampled: a posterior over the number; or"
        " dirichlet_process: no bound on it."
    )
    concentration: float | int | str = Field(
        default="Gamma(1, 1)",
        description="Of a process: α, a number; its prior Gamma(shape, rate); or empirical_bayes, where the marginal"
        " likelihood is highest.",
    )
    discount: float | int = Field(
        default=0, ge=0, lt=1, description="Of a process: above 0 it is a Pitman-Yor process, with more small clusters."
    )
    choose: Literal["bic", "aic", "icl", "evidence", "held_out"] = Field(
        default="bic", description="How one of several numbers of components is chosen."
    )
    most: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="Of a sampled number: at most so many components; of a process: where nuts and variational"
        " break off the stick.",
    )
    component: Annotated[str | dict[ColumnName, str], BeforeValidator(_as_kinds)] = Field(
        default="gaussian",
        description="gaussian, student_t, poisson, binomial, exponential, bernoulli or categorical; any distribution of"
        " single numbers, such as Gamma, or Pareto(m=1) with what is known; or one for each column, independent given"
        " the component.",
    )
    covariance: Literal["full", "tied", "diagonal", "spherical", "known"] = Field(
        default="full", description="Of gaussian components: tied is one matrix for all; known is given in `known`."
    )
    known: Any = Field(default=None, description="The known covariance: a variance, one for each column, or a matrix.")
    dof: float | int | None = Field(
        default=None, gt=0, description="Degrees of freedom of student_t; left out: learned."
    )
    trials: int | str | None = Field(default=None, description="Trials of binomial columns: a number, or a column.")
    gating: list[ColumnName] = Field(
        default_factory=list, description="Columns on which the weights depend, by a multinomial logit."
    )
    labels: ColumnName | None = Field(
        default=None, description="A column with the component of rows for which it is known; empty cells elsewhere."
    )
    label_noise: bool = Field(default=False, description="The labels may be wrong: their confusion matrix is learned.")
    order: ColumnName | None = Field(
        default=None,
        description="Components are numbered by increasing location in this column; left out: by agreement.",
    )
    priors: dict[str, Any] = Field(
        default_factory=dict,
        description="weights: concentration of the Dirichlet; rate: Gamma(a, b); probability: Beta(a, b) or a"
        " concentration; components: {mean, rows, dof, scale} of the normal-inverse-Wishart prior, or mean and sd:"
        " expressions such as Normal(0, 2); correlation: LKJ(2), with covariance: full; of a distribution its"
        " parameters, alpha: Gamma(2, 1).",
    )

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
            raise Flaw("each column once", code="duplicate")
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
            raise Flaw("gating goes with a number of components and no labels", code="unsupported")
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
        """Refuse what does not go with components of a distribution."""
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
        """Refuse keys that would say nothing."""
        words = set(self.component.values()) if isinstance(self.component, dict) else {self.component}
        if self.regression is not None:
            words = {"regression"}
        has_rate, has_probability = words & {"poisson", "exponential"}, words & {"bernoulli", "binomial", "categorical"}
        idle = {
            "most": (
                not isinstance(self.components, str),
                "bounds a number that is sampled, or the stick of a process; here the number is given",
            ),
            "choose": (not isinstance(self.components, list), "goes with a list of components to choose from"),
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
                raise Flaw(f"priors: {key} says nothing, for {why}; leave it out", code="conflict")

    def factors(self, dims: Collection[str]) -> set[str]:
        """Columns of categories and of labels."""
        return {*self.words("categorical"), *((self.labels,) if self.labels else ()), *dims} - {"component"}

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The columns, and labels that may be wrong."""
        return (*self.modelled, *((self.labels,) if self.labels and self.label_noise else ()))

    def categories(self, data: Any) -> dict[str, str | None]:
        """Columns of categories, and labels that may be wrong; their levels are their own."""
        return dict.fromkeys([*self.words("categorical"), *([self.labels] if self.labels and self.label_noise else [])])

    @property
    def modelled(self) -> list[str]:
        """The columns that are modelled: of a regression the outcome."""
        return [parse_formula(self.regression).response] if self.regression is not None else list(self.columns)

    def word(self, column: str) -> str:
        """What the components are in a column."""
        return self.component.get(column, "") if isinstance(self.component, dict) else self.component

    def words(self, word: str) -> tuple[str, ...]:
        """The columns in which components are ``word``."""
        return tuple(c for c in self.columns if self.word(c) == word)

    def parts(self) -> dict[str, tuple[str, ...]]:
        """The columns of each part by its name: of one word, or of one distribution with the same parameters known."""
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
        """What names of a part's parameters in results begin with."""
        parts = self.parts()
        # The concentration of a process is called alpha.
        apart = self.components == "dirichlet_process" and part in parts and is_distribution(self.word(parts[part][0]))
        return f"{part}_" if apart or len([name for name in parts if name != "categorical"]) > 1 else ""

    def parameter_priors(self) -> dict[str, tuple[str, str]]:
        """The part and the parameter that a key of ``priors`` means, of components of any distribution.

        Keys are the names in results, and the parameter's alone where one part has it.
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
