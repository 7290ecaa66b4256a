"""Writer of the nodes of a regression."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from bayeslab.data.areas import Areas
from bayeslab.data.dataset import Column
from bayeslab.data.design import Design, Group, Measured
from bayeslab.data.sines import Sines
from bayeslab.digits import constant, located, spread_of
from bayeslab.distributions import DISTRIBUTIONS, Interval
from bayeslab.errors import DataError, hint, listed
from bayeslab.families.regression.coefficients import Coefficients, Joint, Parts, Shrinkage, numbered, problem, rounded
from bayeslab.families.regression.formulas import Names
from bayeslab.families.regression.likelihoods import INVERSE_LINKS, LINKS, likelihood
from bayeslab.families.regression.lowered import link_of
from bayeslab.families.regression.nonlinear import NonLinear, prior_sd
from bayeslab.families.regression.prior_ranges import range_of
from bayeslab.families.regression.rows import Rows
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name

__all__ = ["Writer", "varies"]


def varies(design: Design) -> bool:
    """Whether a formula makes its parameter vary by row; ``~ 1`` does not."""
    effects = (design.names, design.groups, design.curves, design.areas, design.members)
    return any(effects) or design.offset is not None


class Writer:
    """The nodes of a regression, with the data columns its priors need."""

    def __init__(
        self, spec: Regression, designs: Mapping[str, Design], rows: Rows, dim: str, without_response: str
    ) -> None:
        self.spec, self.formulas, self.designs, self.rows, self.dim = spec, spec.formulas, designs, rows, dim
        self.formula, self.design = self.formulas.mean, designs[""]
        self.without_response = without_response
        self.likelihood, self.link = likelihood(spec.likelihood), link_of(spec)
        self.parts = Parts()
        self.nodes, self.columns, self.dims = self.parts.nodes, self.parts.columns, self.parts.dims
        self.priors = spec.priors_of("")
        self._fix()
        # Of each linear predictor, by parameter: means of the predictors, and priors of the slopes.
        self.centres: dict[str, np.ndarray | None] = dict.fromkeys(designs)
        self.slopes: dict[str, list[str]] = {parameter: [] for parameter in designs}
        # Parameters with formulas: their default priors, and as expressions if they vary by row.
        self.defaults: dict[str, str] = {}
        self.by_row: dict[str, str] = {}
        self._check_names()
        self.sd = self._response_sd()
        self._auxiliary()
        self._check_scale()
        self._hyper()
        for joint in self._joint():
            joint.write(self.parts, self.priors.get(f"corr_{joint.label}", "2"))
        eta = " + ".join([*self._intercept(), *self._coefficients(), *self._rest()]) or "0"
        for parameter in self.formulas.further:
            if varies(self.designs[parameter]):
                self._formula_of(parameter)
            elif parameter in self.formulas.inner:
                self.nodes[parameter] = self.spec.priors_of(parameter)["Intercept"]
        if isinstance(self.formula, NonLinear):
            inner = self.by_row.keys() & set(self.formulas.inner)
            eta = self.formula.written({name: self.by_row.pop(name) for name in inner})
        self._outcome(eta)
        if self.dim in self.dims:
            raise DataError(
                f"the rows are called '{self.dim}', like a dimension of the model: call them otherwise in data.rows",
                path=("data", "rows"),
                code="name-clash",
            )

    def _fix(self) -> None:
        """Treat parameters that the likelihood gives as numbers like priors that are numbers."""
        for name, number in self.likelihood.fixed.items():
            twice = {name, "sigma2", "precision"} if name == "sigma" else {name}
            for word in sorted(twice & self.priors.keys()):
                raise problem(
                    f"'{name}' is {number:g} in the likelihood, and has a prior besides: leave out one",
                    "priors",
                    word,
                    code="conflict",
                )
            self.priors[name] = repr(number)

    def _check_names(self) -> None:
        """Check that every prior belongs to a parameter, a column, or a name that another prior uses."""
        groups = _of_groups(self.design)
        texts = [*self.spec.placed_priors().values(), *self.spec.missing.values()]
        used = {name for text in texts for name in parse(text).names}
        columns = {*self.design.names, *self.design.terms}
        parameters = {"Intercept", "b"} if not self.formulas.inner else set()
        parameters = (parameters | {*self.likelihood.auxiliary, *groups}) - self.formulas.further.keys()
        shapes = _of_rises(self.design)
        parameters |= shapes | (errors := {f"{word}_{each.of}" for each in self._measured() for word in ("mean", "sd")})
        everywhere = [group for design in self.designs.values() for group in design.groups]
        parameters |= {f"corr_{group.name}_{group.id}" for group in everywhere if group.id}
        parameters |= {"sigma2", "precision"} if "sigma" in self.likelihood.auxiliary else set()
        parameters |= {"cutpoints"} if self.likelihood.levels == "ordered" else set()
        parameters |= {Shrinkage.PARAMETERS[self.spec.shrinkage]} if self.spec.shrinkage else set()
        allowed = parameters | columns
        self.hyper = [name for name in self.priors if name in used - allowed]
        for name in self.priors:
            if name not in allowed and name not in self.hyper:
                raise problem(
                    f"'{name}' is not a parameter of this regression{hint(name, allowed)}",
                    "priors",
                    name,
                    code="unknown-parameter",
                )
            if name in shapes:
                self._check_shape(name, self.priors[name])
            elif name in allowed - {"Intercept", "b"} - columns - {name for name in errors if name.startswith("mean_")}:
                self._check_number(name, self.priors[name])
        for name in sorted(self.priors.keys() & parameters & columns):
            if name != "Intercept" or self.design.intercept:
                raise problem(
                    f"'{name}' is a predictor and a parameter of this regression: rename the column under data.rename",
                    "priors",
                    name,
                    code="name-clash",
                )
        for parameter in self.formulas.further:
            self._check_nested(parameter)
        self._check_by_row()
        self._check_continuous()
        self._check_given(self._parts())
        self._check_dimensions()

    def _check_nested(self, parameter: str) -> None:
        """Check that the priors of a parameter with a formula belong to its coefficients."""
        design, priors = self.designs[parameter], self.spec.priors_of(parameter)
        groups = _of_groups(design)
        shapes = _of_rises(design)
        allowed = {"b", *design.names, *design.terms, *groups, *shapes, *(["Intercept"] if design.intercept else [])}
        for name, text in priors.items():
            if name not in allowed:
                raise problem(
                    f"'{name}' is no coefficient in the formula of '{parameter}'{hint(name, allowed)}",
                    "priors",
                    parameter,
                    name,
                    code="unknown-parameter",
                )
            if name in groups:
                self._check_number(name, text, parameter)
            elif name in shapes:
                self._check_shape(name, text, parameter)
        if varies(design) and not design.intercept:
            coefficients = self._coefficients_of(parameter)
            lacking = ["b"] if any(coefficients.prior_of(k) is None for k in range(len(design.names))) else []
            if not design.names and "sd" not in priors:
                several = [each.name for each in design.groups] + [each.name for each in design.areas]
                several += [each.name for each in design.members]
                lacking = [name for each in several if (name := f"sd_{each}") not in priors]
            if lacking and parameter not in self.formulas.inner:
                raise problem(
                    f"without an intercept the coefficients of '{parameter}' have no default priors, since these would"
                    f" depend on the unit of the response: write priors: {{{parameter}: {{{lacking[0]}: ...}}}}, or"
                    " give the formula its intercept",
                    "formula",
                    parameter,
                    code="incomplete",
                )

        if parameter in self.formulas.inner and not self._unit_of(parameter):
            self._check_without_unit(parameter)

    def _check_without_unit(self, parameter: str) -> None:
        """Check that no coefficient needs a default prior, in a formula of a parameter whose intercept has no sd."""
        design, priors = self.designs[parameter], self.spec.priors_of(parameter)
        coefficients = self._coefficients_of(parameter)
        lacking = ["b"] if any(coefficients.prior_of(k) is None for k in range(len(design.names))) else []
        names = [group.name for group in design.groups] + [area.name for area in design.areas]
        names += [several.name for several in design.members]
        lacking += [f"sd_{name}" for name in names if f"sd_{name}" not in priors and "sd" not in priors]
        lacking += [name for curve in design.curves if (name := f"sd_{curve.name}") not in priors]
        if lacking:
            given = "it has no intercept"
            if "Intercept" in priors:
                given = f"that of {priors['Intercept']} is not known"
            raise problem(
                f"default priors of the coefficients of '{parameter}' are scaled to the sd of the prior of its"
                f" intercept, and {given}: write priors: {{{parameter}: {{{lacking[0]}: ...}}}}",
                "formula",
                parameter,
                code="incomplete",
            )

    def _unit_of(self, parameter: str) -> float | None:
        """The unit of a parameter of a non-linear formula: the sd of its intercept's prior, if that is a number."""
        text = self.spec.priors_of(parameter).get("Intercept")
        return None if text is None else prior_sd(text)

    def _check_by_row(self) -> None:
        """Refuse priors that use a parameter with a value for each row."""
        by_row = {parameter for parameter in self.formulas.further if varies(self.designs[parameter])}
        for path, text in self.spec.placed_priors().items():
            for name in sorted(by_row & set(parse(text).names)):
                raise problem(
                    f"this prior uses '{name}', which has a formula and so a value for each row: use a hyperparameter",
                    "priors",
                    *path,
                    code="conflict",
                )

    def _check_continuous(self) -> None:
        """Refuse discrete priors: parameters of a regression are sampled, not summed out."""
        for path, text in self.spec.placed_priors().items():
            word = call_name(parse(text).tree)
            if word is not None and word in DISTRIBUTIONS and DISTRIBUTIONS[word].discrete:
                raise problem(
                    f"{word} is discrete, and parameters of a regression are continuous: write the model as a graph",
                    "priors",
                    *path,
                    code="unsupported",
                )

    def _check_number(self, name: str, text: str, *parameter: str) -> None:
        """Refuse a fixed value outside the parameter's domain, and a prior of numbers outside it."""
        domain = Interval(0.0, open_low=True)
        if name in self.likelihood.auxiliary and not parameter:
            domain = self.likelihood.domain_of(name)
        elif name in {f"{_MIX[area.kind]}_{area.name}" for area in self._areas() if area.kind in _MIX}:
            domain = Interval(0.0, 1.0, open_high=True)
        ends = float(domain.low), float(domain.high)
        what = "positive" if ends == (0.0, np.inf) else domain.words(*ends).replace(", ", " to ")
        try:
            value = float(text)
        except ValueError:
            if name == "cutpoints":
                return
            if name.startswith("corr_"):
                raise problem(
                    f"'{name}' is a number, that of the LKJ prior of correlations; given: {text}",
                    "priors",
                    *parameter,
                    name,
                    code="out-of-range",
                ) from None
            low, high = range_of(text)
            if low < ends[0] or high > ends[1]:
                raise problem(
                    f"'{name}' is {what}, and its prior {text} has other numbers too: restrict it, as in"
                    f" {_restricted(text, *ends)}",
                    "priors",
                    *parameter,
                    name,
                    code="out-of-range",
                ) from None
            return
        if domain.outside(np.asarray(value), *ends):
            raise problem(
                f"'{name}' is {what}; it cannot be fixed at {value:g}", "priors", *parameter, name, code="out-of-range"
            )

    def _measured(self) -> list[Measured]:
        return [each for design in self.designs.values() for each in design.measured]

    def _areas(self) -> list[Areas]:
        return [area for design in self.designs.values() for area in design.areas]

    def _check_shape(self, name: str, text: str, *parameter: str) -> None:
        """Refuse priors of the steps of a monotonic effect that are no distribution of shares."""
        if call_name(parse(text).tree) != "Dirichlet":
            raise problem(
                f"'{name}' holds the shares of the steps, and its prior is a Dirichlet distribution, such as"
                f" Dirichlet(2); given: {text}",
                "priors",
                *parameter,
                name,
                code="out-of-range",
            )

    def _parts(self) -> set[str]:
        """Names of the model's nodes, columns and dimensions."""
        out = {"Intercept", "Intercept_centred", "predictor", "design", "design_mean"}
        # A non-linear formula has no slopes besides those of its parameters, one of which may be called b.
        out |= set() if self.formulas.inner else {"b"}
        out |= {"prior_location", "prior_scale", "prior_unit", *self.likelihood.auxiliary}
        out |= {"sigma2", "precision"} & self.priors.keys()
        out |= {"trials"} if self.rows.trials is not None else set()
        out |= {"lower", "upper"} if self.rows.limits is not None else set()
        out |= {"offset"} if self.design.offset is not None else set()
        out |= {"tau", "unit", Shrinkage.PARAMETERS[self.spec.shrinkage]} if self.spec.shrinkage else set()
        out |= {"cutpoint", "cutpoints"} if self.likelihood.levels == "ordered" else set()
        if self.likelihood.levels == "categorical":
            out |= {"contrasts", "response_level", "response_contrast"}
        out |= {f"{name}_slopes" for name in self.spec.missing}
        out |= {f"{word}_{each.of}" for each in self._measured() for word in ("mean", "sd", "true", "error")}
        of_groups = self._parts_of_groups("")
        if clash := sorted({f"sd_{each.of}" for each in self._measured()} & of_groups):
            raise problem(
                f"'{clash[0]}' would be a part of a predictor measured with error, and of the effects of a group:"
                " rename the grouping factor under data.rename",
                "formula",
                code="name-clash",
            )
        out |= of_groups
        # The groups of which a row has several are one dimension in all formulas.
        out |= {several.name for design in self.designs.values() for several in design.members}
        joint = {f"{group.name}_{group.id}" for d in self.designs.values() for group in d.groups if group.id}
        joint = {f"corr_{label}" for label in joint} | {
            f"{label}_effect{end}" for label in joint for end in ("", "_2", "_with")
        }
        if clash := sorted(joint & out):
            raise problem(
                f"'{clash[0]}' would be a part of effects that share an id, and of another group: change the id",
                "formula",
                code="name-clash",
            )
        out |= joint
        for parameter in self.formulas.further:
            more = {parameter, f"{parameter}_centred", *(f"{word}_{parameter}" for word in _OF_PREDICTOR)}
            more |= self._parts_of_groups(parameter)
            if parameter in self.formulas.inner and parameter in out:
                raise problem(
                    f"the parameter '{parameter}' is called like a part of the model; rename it",
                    "formula",
                    parameter,
                    code="name-clash",
                )
            if clash := sorted((more - {parameter}) & out):
                raise problem(
                    f"'{clash[0]}' would be a part of the formula of '{parameter}', and of another one: rename the"
                    " grouping factor under data.rename",
                    "formula",
                    parameter,
                    code="name-clash",
                )
            out |= more
        return out

    def _parts_of_groups(self, parameter: str) -> set[str]:
        out: set[str] = set()
        for group in self.designs[parameter].groups:
            label = Names(parameter).group(group.name)
            out |= {f"{word}_{label}" for word in ("u", "sd", "corr", "scale", "design")}
            out |= {f"nu_{label}"} if group.student else set()
            out |= {f"{label}_effect{end}" for end in ("", "_2", "_with")}
        for curve in self.designs[parameter].curves:
            label = Names(parameter).group(curve.name)
            more = {f"{word}_{label}" for word in ("u", "sd", "waves", "length", "frequency")} | {f"{label}_wave"}
            if clash := sorted(more & out):
                raise problem(
                    f"'{clash[0]}' would be a part of the curve {curve.title}, and of the effects of a group: rename"
                    " the grouping factor under data.rename",
                    "formula",
                    code="name-clash",
                )
            out |= more
        for area in self.designs[parameter].areas:
            label = Names(parameter).group(area.name)
            more = {f"{word}_{label}" for word in _OF_AREAS} | {f"{label}_with", f"{label}_pair"}
            if clash := sorted(more & out):
                raise problem(
                    f"'{clash[0]}' would be a part of {area.title}, and of the effects of a group: rename the grouping"
                    " factor under data.rename",
                    "formula",
                    code="name-clash",
                )
            out |= more
        for several in self.designs[parameter].members:
            label, places = Names(parameter).group(several.name), range(1, len(several.factors) + 1)
            out |= {f"{word}_{label}" for word in ("u", "sd")}
            out |= {f"{word}_{label}_{k}" for word in ("member", "weight", "place") for k in places}
        for rise in self.designs[parameter].rises:
            label, of = Names(parameter).group(rise.name), Names(parameter).group(rise.of)
            out |= {f"simplex_{label}", f"rest_{label}", f"steps_{of}", f"{of}_step"}
        out |= {
            f"rest_{Names(parameter).group(each.name)}" for each in self.designs[parameter].measured if not each.alone
        }
        return out

    def _check_given(self, parts: set[str]) -> None:
        """Refuse names in the formula or the priors that would replace a part of the model."""
        fixed = {"design", "b", "sigma", "offset", "trials", "lower", "upper", "contrasts", "Intercept", "predictor"}
        kinds = numbered(list(self.formulas.further))
        if self.formula.outcome in fixed | parts or kinds.fullmatch(self.formula.outcome):
            raise problem(
                f"the response is called '{self.formula.outcome}', like a part of the model; rename it",
                "formula",
                code="name-clash",
            )
        groups = [group for design in self.designs.values() for group in design.groups]
        named = [("a grouping factor", "formula", group.name) for group in groups]
        named += [
            ("a factor", "formula", curve.by) for design in self.designs.values() for curve in design.curves if curve.by
        ]
        named += [("a column of areas", "formula", area.factor) for area in self._areas()]
        named += [("a predictor measured with error", "formula", each.predictor) for each in self._measured()]
        if isinstance(self.formula, NonLinear):
            named += [("a predictor", "formula", name) for name in self.formula.columns]
        named += [("a predictor with a model of its own", "missing", name) for name in self.spec.missing]
        named += [("a parameter of a prior", "priors", name) for name in self.hyper]
        for role, place, name in named:
            if name in parts or kinds.fullmatch(name):
                raise problem(
                    f"{role} is called '{name}', like a part of the model; rename it", place, code="name-clash"
                )

    def _check_dimensions(self) -> None:
        """Refuse two dimensions of one name: groups of ``a_b``, and combinations of ``a`` and ``b``."""
        given = [(each.name, ":".join(each.factors)) for f in self.formulas.all.values() for each in f.groups]
        given += [(each.name, each.title) for f in self.formulas.all.values() for each in f.members]
        given += [(area.factor, area.factor) for area in self._areas()]
        given += [(each.by, each.by) for design in self.designs.values() for each in design.curves if each.by]
        meanings = dict(given)
        for name, meaning in given:
            if meaning != meanings[name]:
                raise problem(
                    f"the levels of {meanings[name]} and of {meaning} would have one name, '{name}': rename a column"
                    " under data.rename",
                    "formula",
                    code="name-clash",
                )

    def _check_scale(self) -> None:
        """Refuse a constant response if the spread of the response scales a default prior."""
        y = self.rows.responses
        if y is None or not constant(y):
            return
        lacking: list[str] = []
        if self._in_unit():
            lacking += ["Intercept"] if self.design.intercept and "Intercept" not in self.priors else []
            coefficients = self._coefficients_of("")
            lacking += ["b"] if any(coefficients.prior_of(k) is None for k in range(len(self.design.names))) else []
        lacking += [name for name, text in self.likelihood.auxiliary.items() if _scaled(text) and self._default(name)]
        groups = [f"sd_{group.name}" for group in self.design.groups if self._in_unit()]
        groups += [f"sd_{area.name}" for area in self.design.areas if self._in_unit()]
        groups += [f"sd_{several.name}" for several in self.design.members if self._in_unit()]
        lacking += [name for name in groups if name not in self.priors and "sd" not in self.priors]
        curves = [f"sd_{curve.name}" for curve in self.design.curves if self._in_unit()]
        lacking += [name for name in curves if name not in self.priors]
        if lacking:
            raise DataError(
                f"the response '{self.formula.response}' is constant ({y[0]:g}), and the default priors of"
                f" {listed(lacking)} are scaled to how it varies: write these priors, or give a response that varies",
                code="constant",
            )

    def _default(self, name: str) -> bool:
        """Whether a further parameter of the likelihood has its default prior."""
        if name in self.formulas.further:
            return "Intercept" not in self.spec.priors_of(name) and self.designs[name].intercept
        return name not in self.priors and not (name == "sigma" and {"sigma2", "precision"} & self.priors.keys())

    @property
    def _contrasts(self) -> str:
        """The dimension of categories of the coefficients, or ""."""
        return "response_contrast" if self.likelihood.levels == "categorical" else ""

    def _in_unit(self) -> bool:
        """Whether the linear predictor has the response's unit, or would have it under another link."""
        return self.likelihood.located or (
            self.link == "identity" and self.likelihood.response.working in ("log", "logit")
        )

    def _response_sd(self) -> float:
        """The scale of the linear predictor."""
        if not self._in_unit() or self.link != "identity":
            return 1.0
        if self.rows.responses is None:
            wanted = set() if self.formulas.inner else {"b"}
            wanted |= {"Intercept"} if self.design.intercept else set()
            lacking = wanted - self.priors.keys()
            lacking |= {name for name in self.likelihood.auxiliary if self._default(name)}
            if lacking:
                raise self._unscaled(sorted(lacking))
            return 1.0
        return spread_of(self.likelihood.working(self.rows.responses), self.rows.response_counts)

    def _noise_sd(self) -> float:
        """The scale of default priors of parameters in the response's unit, for any link."""
        scaled = [name for name, text in self.likelihood.auxiliary.items() if _scaled(text)]
        if not scaled:
            return self.sd
        if self.rows.responses is not None:
            return spread_of(self.likelihood.working(self.rows.responses), self.rows.response_counts)
        if lacking := [name for name in scaled if self._default(name)]:
            raise self._unscaled(lacking)
        return 1.0

    def _unscaled(self, names: list[str]) -> DataError:
        """The error for default priors that need the response."""
        join = " Without" if self.without_response.endswith("?") else "; without"
        return DataError(
            f"{self.without_response}{join} it, write the priors of {listed(names)}, whose defaults are scaled to it",
            path=("model", "formula"),
            code="no-data",
        )

    def _auxiliary(self) -> None:
        spread = self._noise_sd()
        scales = {"rate": rounded(1 / spread), "sd": rounded(spread)}
        for name, default in self.likelihood.auxiliary.items():
            if name in self.formulas.further:
                self.defaults[name] = default.format(**scales)
                if not varies(self.designs[name]):
                    self._alike(name)
            elif name == "sigma" and self.priors.keys() & {"sigma2", "precision"} and (fixed := self._fixed_sigma()):
                self.nodes[name] = fixed
            elif name == "sigma" and "sigma2" in self.priors:
                self.nodes |= {"sigma2": self.priors["sigma2"], "sigma": "sqrt(sigma2)"}
            elif name == "sigma" and "precision" in self.priors:
                self.nodes |= {"precision": self.priors["precision"], "sigma": "1 / sqrt(precision)"}
            else:
                self.nodes[name] = self.priors.get(name, default.format(**scales))

    def _alike(self, parameter: str) -> None:
        """Write a parameter with a formula that makes it the same for all rows, ``~ 1``."""
        intercept, priors = Names(parameter).of("Intercept"), self.spec.priors_of(parameter)
        if "Intercept" in priors:
            value = INVERSE_LINKS[self.likelihood.link_of(parameter)].format(eta=intercept)
            self.nodes |= {intercept: priors["Intercept"], parameter: value}
        else:
            self.nodes[parameter] = self.defaults[parameter]

    def _formula_of(self, parameter: str) -> None:
        """Write a parameter that varies by row.

        The value at average predictors has the prior that the parameter has without a formula.
        """
        design, priors, names = self.designs[parameter], self.spec.priors_of(parameter), Names(parameter)
        link, intercept = link_of(self.spec, parameter), names.of("Intercept")
        terms: list[str] = []
        if design.intercept and "Intercept" in priors:
            self.nodes[intercept] = priors["Intercept"]
            terms = [intercept]
        elif design.intercept:
            self.nodes[names.centred] = self.defaults[parameter]
            terms = [LINKS[link].format(value=names.centred)]
            moved = ""
            if design.names:
                self.centres[parameter] = design.means[0]
                self.columns[names.of("design_mean")] = Column(design.means[0], (names.of("predictor"),))
                moved = f" - dot({names.of('design_mean')}, {names.of('b')})"
            self.nodes[intercept] = terms[0] + moved
        coefficients = self._coefficients_of(parameter)
        terms += coefficients.all()
        self.slopes[parameter] = coefficients.texts
        terms += [names.of("offset")] if design.offset is not None else []
        self.by_row[parameter] = INVERSE_LINKS[link].format(eta=f"({' + '.join(terms)})")

    def _coefficients_of(self, parameter: str) -> Coefficients:
        """The writer of the slopes and group effects of a linear predictor."""
        names, design, response = Names(parameter), self.designs[parameter], self.formula.response
        if parameter:
            inner = parameter in self.formulas.inner
            # Without a unit all coefficients have priors, which _check_without_unit checks.
            unit = (self._unit_of(parameter) or 1.0) if inner else _UNITS[link_of(self.spec, parameter)]
            return Coefficients(
                self.parts, names, design, self.spec.priors_of(parameter), unit, response=response, row=self.dim,
                shared=self.priors,
            )  # fmt: skip
        shrinkage = None
        if self.spec.shrinkage:
            prior = self.priors.get(Shrinkage.PARAMETERS[self.spec.shrinkage])
            shrinkage = Shrinkage(self.spec.shrinkage, self.sd, self._noise(), prior)
        return Coefficients(
            self.parts, names, design, self.priors, 2.5 * self.sd, response=response, row=self.dim, shared=self.priors,
            contrasts=self._contrasts, shrinkage=shrinkage,
        )  # fmt: skip

    def _joint(self) -> list[Joint]:
        """The group effects of several formulas that are correlated."""
        members: dict[tuple[str, str], list[tuple[Coefficients, Group]]] = {}
        for parameter, design in self.designs.items():
            for group in design.groups:
                if group.id:
                    members.setdefault((group.name, group.id), []).append((self._coefficients_of(parameter), group))
        return [Joint(name, id_, terms) for (name, id_), terms in members.items()]

    def _noise(self) -> str:
        """The scale of the rows about their means, in which the horseshoe and R2-D2 measure slopes."""
        if "sigma" not in self.likelihood.auxiliary or self.link != "identity":
            return "2"
        if "sigma" not in self.designs or not varies(self.designs["sigma"]):
            return "sigma"
        if self.spec.shrinkage == "r2d2" and not self._default("sigma"):
            raise problem(
                "shrinkage: r2d2 is scaled to the sigma of average rows, and the intercept of sigma has another prior:"
                " leave that out",
                "shrinkage",
                code="conflict",
            )
        if self.spec.shrinkage == "horseshoe" and "tau" not in self.priors and not self._default("sigma"):
            raise problem(
                "the default prior of the horseshoe's 'tau' is scaled to the sigma of average rows, and the intercept"
                " of sigma has another prior: write priors: {tau: HalfCauchy(...)}",
                "shrinkage",
                code="incomplete",
            )
        return "sigma_centred"

    def _fixed_sigma(self) -> str | None:
        """The standard deviation implied by a number for ``sigma2`` or ``precision``."""
        for name, power in (("sigma2", 0.5), ("precision", -0.5)):
            with contextlib.suppress(ValueError):
                if name in self.priors and (number := float(self.priors[name])) > 0:
                    self.nodes[name] = self.priors[name]
                    return repr(number**power)
        return None

    def _hyper(self) -> None:
        for name in self.hyper:
            self.nodes[name] = self.priors[name]

    def _intercept(self) -> list[str]:
        if self.likelihood.levels == "ordered":
            count = len(self.rows.levels)
            if count < 2:
                raise DataError(
                    f"an ordered response has at least two levels; '{self.formula.response}' has {count}",
                    code="too-few",
                )
            self.dims["cutpoint"] = [f"{a}|{b}" for a, b in pairwise(self.rows.levels)]
            self.nodes["cutpoints[cutpoint]"] = self.priors.get("cutpoints", "Ordered(Normal(0, 2.5))")
            return []
        if self.likelihood.levels == "categorical":
            if len(self.rows.levels) < 2:
                raise DataError(
                    f"a categorical response has at least two levels; given: {listed(self.rows.levels)}", code="too-few"
                )
            self.dims |= {"response_level": list(self.rows.levels), "response_contrast": list(self.rows.levels[1:])}
        if not self.design.intercept:
            return []
        shape = f"[{self._contrasts}]" if self._contrasts else ""
        prior = self.priors.get("Intercept")
        if not self.design.names or (prior is not None and not prior.replace(" ", "").startswith("Flat(")):
            self.nodes[f"Intercept{shape}"] = prior or self._about_middle()
            return ["Intercept"]
        self.centres[""] = self.design.means[0]
        self.columns["design_mean"] = Column(self.design.means[0], ("predictor",))
        self.nodes[f"Intercept_centred{shape}"] = prior or self._about_middle()
        self.nodes[f"Intercept{shape}"] = "Intercept_centred - dot(design_mean, b)"
        return ["Intercept_centred"]

    def _about_middle(self) -> str:
        """The default prior of the intercept; its centre is rounded relative to its width."""
        return f"Normal({located(self._middle(), self.sd)}, {rounded(2.5 * self.sd)})"

    def _middle(self) -> float:
        """The linear predictor of the mean response."""
        if self.rows.responses is None or not self.likelihood.response.working:
            return 0.0
        y = self.likelihood.working(self.rows.responses)
        match self.link:
            case "identity" if self.likelihood.response.working == "angle":
                return float(np.arctan2(self._mean(np.sin(y)), self._mean(np.cos(y))))
            case "identity":
                return self._mean(y)
            case "log":
                return float(np.log(max(self._mean(y), 0.5 / self.design.total)))
            case _:
                return 0.0

    def _mean(self, values: np.ndarray) -> float:
        return float(np.average(values, weights=self.rows.response_counts))

    def _coefficients(self) -> list[str]:
        if self.design.groups and self._contrasts:
            raise problem(
                "group effects in a categorical regression are not there; write the model as a graph",
                "formula",
                code="unsupported",
            )
        refused = {
            "curves": self.design.curves, "monotonic effects": self.design.rises,
            "predictors measured with error": self.design.measured, "effects of areas": self.design.areas,
            "effects of several groups": self.design.members,
        }  # fmt: skip
        if self._contrasts and any(refused.values()):
            what = next(name for name, terms in refused.items() if terms)
            raise problem(
                f"{what} in a categorical regression are not there; write the model as a graph",
                "formula",
                code="unsupported",
            )
        coefficients = self._coefficients_of("")
        terms = coefficients.all()
        self.slopes[""] = coefficients.texts
        return terms

    def _rest(self) -> list[str]:
        for name, text in self.spec.missing.items():
            self.nodes[f"{name}[{self.dim}]"] = text
        out = [f"{name} * ({name}_slopes @ b)" for name in self.spec.missing]
        return [*out, "offset"] if self.design.offset is not None else out

    def _outcome(self, eta: str) -> None:
        if self.likelihood.levels == "categorical":
            eta = f"dot({eta}, contrasts, response_contrast)"
        text = self.likelihood.special.get(self.link, self.likelihood.text)
        mu = INVERSE_LINKS[self.link].format(eta=f"({eta})") if self.link != "identity" else eta
        mu = f"({mu})" if self.link == "cloglog" else mu
        text = _replaced(text, self.by_row).format(mu=mu, eta=eta, trials="trials")
        if self.rows.limits is not None:
            text = f"Censored({text}, lower=lower, upper=upper)"
        self.nodes[f"{self.formula.outcome}[{self.dim}]"] = text


# Names that end with the parameter's if it has a formula.
_OF_PREDICTOR = ["Intercept", "b", "predictor", "design", "design_mean", "offset"]
_OF_PREDICTOR += ["prior_location", "prior_scale", "prior_unit"]
# Names of the nodes of effects of areas; the parameter that says how alike neighbours are.
_OF_AREAS = ["u", "sd", "rho", "alpha", "factor", "neighbours", "first", "second", "border", "part", "size", "joint"]
_OF_AREAS += ["covariance", "root", "variance"]
_MIX = {"car": "alpha", "bym2": "rho"}


def _restricted(text: str, low: float, high: float) -> str:
    """A prior within its bounds."""
    upper = "" if math.isinf(high) else f", upper={high:g}"
    return f"Truncated({text}, lower={low:g}{upper})"


# The scale of default priors of slopes and of sds of groups, by the link of a parameter that has a formula: a factor e,
# as in an sd; the log odds that the predicted quantity has under this link; one unit.
_UNITS = {"log": 1.0, "logit": 2.5, "identity": 2.5}


def _of_groups(design: Design) -> set[str]:
    """Names of the priors of group effects and smooths."""
    groups = {f"{word}_{group.name}" for group in design.groups for word in (("sd",) if group.id else ("sd", "corr"))}
    groups |= {f"sd_{area.name}" for area in design.areas} | {f"sd_{several.name}" for several in design.members}
    groups |= {f"{_MIX[area.kind]}_{area.name}" for area in design.areas if area.kind in _MIX}
    groups |= {"sd"} if groups else set()
    groups |= {f"nu_{group.name}" for group in design.groups if group.student}
    groups |= {f"length_{curve.name}" for curve in design.curves if isinstance(curve.basis, Sines)}
    return groups | {f"sd_{curve.name}" for curve in design.curves}


def _of_rises(design: Design) -> set[str]:
    """Names of the priors of monotonic effects."""
    return {f"simplex_{rise.name}" for rise in design.rises} | ({"simplex"} if design.rises else set())


def _scaled(text: str) -> bool:
    """Whether a default prior is scaled to the response."""
    return "{rate}" in text or "{sd}" in text


def _replaced(text: str, by_row: Mapping[str, str]) -> str:
    """The call of a distribution with expressions in place of parameters."""
    if not by_row:
        return text
    names = re.compile(rf"(?<![\w{{])({'|'.join(by_row)})(?![\w}}]|=)")
    return names.sub(lambda match: by_row[match[0]], text)
