"""Expand a regression in the model language."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import product
from typing import Any

import numpy as np

from bayeslab.data.areas import Areas
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.design import Group
from bayeslab.data.members import Members
from bayeslab.data.sines import Sines
from bayeslab.data.term_values import smooth_of
from bayeslab.errors import ModelError, listed
from bayeslab.families.regression.design_columns import DesignColumns
from bayeslab.families.regression.joint_effects import JointEffects
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import LinearPredictor, Lowered
from bayeslab.families.regression.lowering import lower
from bayeslab.families.regression.weighted import log_density
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expansion import Expansion, check_columns, listed_numbers, number, numbers, unsupported
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name, nodes_of
from bayeslab.language.spec import Model
from bayeslab.language.terms import GroupTerm

__all__ = ["expand", "written"]

_OF_DESIGN = ("design", "design_mean")
_OF_AREAS = ("factor", "neighbours")  # columns that stand for a map
_ALIKE = " with the same standard deviation in every row"
_LINKED = {"identity": "{}", "log": "log({})", "logit": "logit({})"}
_LIKELIHOODS = {
    "gaussian": f"normal{_ALIKE}",
    "student_t": "Student's t, which lets single rows lie far out",
    "bernoulli": "yes or no",
    "binomial": "so many successes among so many trials",
    "categorical": "one of several levels; the first has the linear predictor 0",
    "ordered": "one of several levels in an order: cutpoints divide a logistic, or normal, variable",
    "poisson": "a count; its logarithm's mean is the linear predictor",
    "negative_binomial": "a count that varies more than Poisson: variance mu + mu^2 / alpha",
    "beta": "a share between 0 and 1, of precision phi",
    "gamma": "positive, its standard deviation in proportion to its mean",
}


def expand(model: Model, data: Data) -> Expansion:
    """Write the regression as nodes: columns of the design matrix, priors with their numbers, the likelihood.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    lowered = lower(model, data)
    if lowered.y is None:
        raise ModelError(
            "a regression is expanded with its data, which scale its priors; the response has none",
            path=("model", "formula"),
            code="no-data",
        )
    return written(model, data, lowered)


def written(model: Model, data: Data, lowered: Lowered, random: Collection[str] = ()) -> Expansion:
    """Write a regression that is resolved on its data as nodes.

    Parameters
    ----------
    random
        Predictors that are nodes of a larger model: what is computed from them, such as means, is written as numbers.
    """
    expansion = _Written(model, data, lowered, random).expansion()
    _verify(model, data, lowered, expansion)
    return expansion


class _Written:
    """The parts of one regression in the course of writing."""

    def __init__(self, model: Model, data: Data, lowered: Lowered, random: Collection[str]) -> None:
        self.random = frozenset(random)
        self.model, self.data, self.lowered = model, data, lowered
        self.spec, self.formula, self.design = lowered.spec, lowered.formula, lowered.design
        self.groups = [group for predictor in lowered.predictors for group in predictor.design.groups]
        curves = [curve for predictor in lowered.predictors for curve in predictor.design.curves]
        self.factors = {group.name for group in self.groups} | {curve.by for curve in curves if curve.by}
        self.factors |= {area.factor for predictor in lowered.predictors for area in predictor.design.areas}
        members = [several for predictor in lowered.predictors for several in predictor.design.members]
        self.factors |= {name for several in members for name in several.factors}
        self.maps = {
            f"{word}_{predictor.names.group(area.name)}"
            for predictor in lowered.predictors
            for area in predictor.design.areas
            for word in _OF_AREAS
        }
        self.designs = {predictor.names.of(word) for predictor in lowered.predictors for word in _OF_DESIGN}
        self.row, self.levels = data.dataset.rows, likelihood(lowered.spec.likelihood).levels
        total = len(data.labels[self.row])
        if self.design.n < total:
            raise unsupported(
                f"{total - self.design.n} of {total} rows have missing cells, and a graph drops no rows: leave them out"
                " of the table, or give the predictors models under `missing`",
                "formula",
            )
        self.names = {key.split("[")[0] for key in lowered.nodes}
        self.columns = DesignColumns(data, self.names | data.names() | set(data.labels))
        self.dims: dict[str, Any] = {}
        self.comments: dict[str, str] = {}
        self.derive: dict[str, str] = {}
        self.nodes: dict[str, str] = {}

    def expansion(self) -> Expansion:
        outcome = f"{self.formula.outcome}[{self.row}]"
        for predictor in self.lowered.predictors:
            self._predictors(predictor)
        effects = self._effects()
        for key, text in self.lowered.nodes.items():
            if key == outcome:
                continue
            self._node(key, text)
            for added, more in effects.pop(key.split("[")[0], {}).items():
                self.nodes[added] = more
        self._response(outcome, self.lowered.nodes[outcome])
        self._check_names()
        self.derive = {**self.columns.derive, **self.derive}
        self.comments |= self.columns.about
        link = "" if self.lowered.link == "identity" else f" Link of the mean: {self.lowered.link}."
        kind = _LIKELIHOODS.get(self.spec.likelihood, self.spec.likelihood)
        further = self.lowered.further
        if further:
            kind = kind.replace(_ALIKE, "") if "sigma" in further else kind
            link += "".join(f" {each.formula.text}, link {each.link}." for each in further.values())
        about = (
            f"The regression {self.formula.text}\nwritten out in the model language. The response is {kind}.{link}"
            " Default priors stand here as numbers, scaled to the data."
        )
        return Expansion(self.nodes, self.derive, self.dims, self.comments, about)

    # -- predictors

    def _predictors(self, predictor: LinearPredictor) -> None:
        of, names = predictor.names.of, predictor.design.names
        if not names:
            return
        texts = self.columns.of(predictor.design.common)
        if len(texts) != len(names):
            raise unsupported(f"the columns {', '.join(names)[:80]} cannot be told apart as expressions", "formula")
        dim, b = of("predictor"), of("b")
        self.dims[dim] = list(names)
        self.comments[dim] = f"What each coefficient of `{b}` belongs to."
        key = f"{of('design')}[{self.row}, {dim}]"
        self.nodes[key] = f"stack([{', '.join(texts)}], {dim})"
        whose = f"The predictors of {predictor.names.parameter}" if predictor.names.parameter else "The predictors"
        self.comments[key] = f"{whose}, a column for each coefficient, in the order of the dimension `{dim}`."
        if predictor.centre is not None:
            imputed = bool(self.spec.missing) and not predictor.names.parameter
            random = self.random & predictor.formula.predictor_columns()
            number = imputed or predictor.design.latent or random
            key = f"{of('design_mean')}[{dim}]"
            self.nodes[key] = listed_numbers(predictor.centre) if number else f"mean({of('design')}, {self.row})"
            self.comments[key] = "Their means over the rows of the fit, which stay what they are where new rows come."

    # -- group effects

    def _effects(self) -> dict[str, dict[str, str]]:
        """Auxiliary nodes of group effects, by the node that they follow."""
        out: dict[str, dict[str, str]] = {}
        for predictor in self.lowered.predictors:
            for group, term in zip(predictor.design.groups, predictor.formula.groups, strict=True):
                label = predictor.names.group(group.name)
                out.setdefault(f"u_{label}", {}).update(self._effects_of(label, group, term))
            for several in predictor.design.members:
                label = predictor.names.group(several.name)
                out[f"u_{label}"] = self._places(label, several)
            for area in predictor.design.areas:
                label = predictor.names.group(area.name)
                out[f"sd_{label}"] = self._map(label, area)
            out |= self._waves(predictor)
            out |= self._rises(predictor)
            for word, more in self._measured(predictor).items():
                out.setdefault(word, {}).update(more)
        return out

    def _rises(self, predictor: LinearPredictor) -> dict[str, dict[str, str]]:
        """Nodes of the steps of monotonic effects, by the node of their shares."""
        out: dict[str, dict[str, str]] = {}
        design, group = predictor.design, predictor.names.group
        rests, places = self.columns.rests(design.common), self.columns.places(design.common)
        for rise in design.rises:
            label, of = group(rise.name), group(rise.of)
            key, step = f"steps_{of}[{self.row}, {of}_step]", f"{of}_step"
            made = out.setdefault(f"simplex_{label}", {})
            if not any(key in more for more in out.values()):
                made[key] = f"{places[rise.text]} > index({step})"
                self.comments[key] = (
                    f"Which steps from one level to the next lie below the level of a row, in {rise.text}."
                )
            if rise.name != rise.of:
                made[f"rest_{label}[{self.row}]"] = rests[design.names[rise.column]]
        return out

    def _measured(self, predictor: LinearPredictor) -> dict[str, dict[str, str]]:
        """Nodes of the errors of measured predictors, by the node of the sd of their true values."""
        out: dict[str, dict[str, str]] = {}
        design = predictor.design
        rests, errors = self.columns.rests(design.common), self.columns.errors(design.common)
        for each in design.measured:
            made, key = out.setdefault(f"sd_{each.of}", {}), f"error_{each.of}[{self.row}]"
            made[key] = errors[each.text]
            self.comments[key] = f"Standard deviations of the errors of {each.predictor}."
            if not each.alone:
                made[f"rest_{predictor.names.group(each.name)}[{self.row}]"] = rests[design.names[each.column]]
        return out

    def _places(self, label: str, several: Members) -> dict[str, str]:
        """Nodes of the places of the levels of each column among the groups of all, and of the weights."""
        out: dict[str, str] = {}
        total = " + ".join(several.columns)
        for k, factor in enumerate(several.factors, 1):
            key = f"place_{label}_{k}[{factor}]"
            out[key] = listed_numbers(several.places(self.data.labels[factor]))
            self.comments[key] = f"Which of the dimension `{several.name}` each level of {factor} is, from 0."
            if several.numbered:
                key = f"member_{label}_{k}[{factor}]"
                out[key] = f"dot(u_{label}, index({several.name}) == place_{label}_{k})"
                self.comments[key] = f"The effect of each level of {factor}."
            if several.columns:
                out[f"weight_{label}_{k}[{self.row}]"] = f"{several.columns[k - 1]} / ({total})"
        return out

    def _map(self, label: str, area: Areas) -> dict[str, str]:
        """Nodes of which areas are neighbours, and of the structure of their effects."""
        g, twin, pair = area.factor, f"{label}_with", f"{label}_pair"
        first, second, border = (f"{word}_{label}" for word in ("first", "second", "border"))
        ends = area.neighbours.ends
        self.dims |= {twin: g, pair: len(ends)}
        self.comments[f"{first}[{pair}]"] = (
            f"The two areas of each pair of neighbours, as places in the dimension `{g}`, from 0."
        )
        out = {f"{first}[{pair}]": listed_numbers(ends[:, 0]), f"{second}[{pair}]": listed_numbers(ends[:, 1])}

        def between(one: str) -> str:
            """The product of an array of pairs and areas with itself."""
            return f"dot({one}, rename({one}, {g}, {twin}), {pair})"

        if area.kind == "car":
            # Of pairs (i, j): the sum of (e_i + e_j)(e_i + e_j)' is the matrix of neighbours and their numbers.
            out[f"{border}[{pair}, {g}]"] = f"(index({g}) == {first}) + (index({g}) == {second})"
            key = f"neighbours_{label}[{g}, {twin}]"
            out[key] = f"{between(border)} * (index({g}) != index({twin}))"
            self.comments[key] = "1 for neighbours, else 0."
            return out
        out[f"{border}[{pair}, {g}]"] = f"(index({g}) == {first}) - (index({g}) == {second})"
        part, size, joint, covariance, root, variance = (
            f"{word}_{label}" for word in ("part", "size", "joint", "covariance", "root", "variance")
        )
        count, logs = number(area.neighbours.count), f"log({variance})"
        level, removed, mean = f"1 / {count}", f"mean({root}, {g})", f"mean({logs}, {g})"
        if area.neighbours.parts.any():
            out |= {
                f"{part}[{g}]": listed_numbers(area.neighbours.parts),
                f"{joint}[{g}, {twin}]": f"{part} == rename({part}, {g}, {twin})",
                f"{size}[{g}]": f"sum({joint}, {twin})",
            }
            level, removed = f"{joint} / {size}", f"({size} > 1) * ({joint} @ {root}) / {size}"
            mean = f"{joint} @ rename({logs}, {g}, {twin}) / {size}"
            self.comments[f"{part}[{g}]"] = (
                "Parts of the map without a border between them: the effects of each sum to 0."
            )
        out[f"{covariance}[{g}, {twin}]"] = f"inv({between(border)} + {level})"
        level = f"({size} > 1) / {size}" if area.neighbours.parts.any() else level
        out |= {
            f"{root}[{g}, {twin}]": f"cholesky({covariance})",
            f"{variance}[{g}]": f"diagonal({covariance}) - {level}",
            f"factor_{label}[{g}, {twin}]": f"({root} - {removed}) / exp(0.5 * ({mean}))",
        }
        self.comments[f"{covariance}[{g}, {twin}]"] = (
            "The covariance of effects that neighbours share, before they sum to 0: the inverse of the Laplacian of the"
            " map and of the level that is then taken away."
        )
        self.comments[f"factor_{label}[{g}, {twin}]"] = (
            "Makes independent normals such effects, scaled to variances with the geometric mean 1."
        )
        return out

    def _waves(self, predictor: LinearPredictor) -> dict[str, dict[str, str]]:
        """Nodes of the bending parts of smooths, by the node of their coefficients."""
        out: dict[str, dict[str, str]] = {}
        calls = {
            smooth.name: term.components[0].call
            for term in predictor.design.common.terms.values()
            if (smooth := smooth_of(term)) is not None
        }
        for curve in predictor.design.curves:
            label = predictor.names.group(curve.name)
            made = self.columns.waves(calls[curve.name], label, self.row)
            out[curve.coefficients(label)] = made
            if isinstance(curve.basis, Sines):
                self.comments[f"waves_{label}[{self.row}, {label}_wave]"] = (
                    "Sines whose sum is the curve, less their means over the rows of the fit."
                )
                continue
            assert curve.basis.knots is not None
            self.dims[f"{label}_knot"] = len(curve.basis.knots)
            key = f"waves_{label}[{self.row}, {label}_wave]"
            self.comments |= {
                f"knots_{label}[{label}_knot]": f"{curve.title} has a knot at each value of its predictor.",
                f"weights_{label}_1[{label}_knot]": f"The functions whose sum is the bending part of {curve.title}.",
                key: "Natural cubic splines: straight lines beyond the knots, with mean 0 over the rows of the fit.",
            }
        return out

    def _effects_of(self, label: str, group: Group, term: GroupTerm) -> dict[str, str]:
        name, effect = group.name, f"{label}_effect"
        if len(term.factors) > 1:
            self._crossed(name, term.factors, [str(each) for each in group.labels])
        elif name != term.factors[0]:
            raise unsupported(
                f"the grouping factor '{term.factors[0]}' is not a valid name of a node; rename it", "formula"
            )
        if group.effects == ["1"]:
            return {}
        texts = self.columns.of(group.common)
        ones = [] if "Intercept" not in group.common.terms else ["1"]
        texts = [*ones, *texts]
        if len(group.effects) == 1:
            return {f"design_{label}[{self.row}]": texts[0]}
        key = f"design_{label}[{self.row}, {effect}]"
        self.comments[key] = f"What the effects of a {name} are multiplied by: {', '.join(group.effects)}."
        return {key: f"stack([{', '.join(texts)}], {effect})"}

    def _crossed(self, name: str, factors: tuple[str, ...], labels: list[str]) -> None:
        """Index of each combination of levels among those that occur."""
        place = {label: k for k, label in enumerate(labels)}
        levels = [[str(label) for label in self.data.labels[factor]] for factor in factors]
        every = [":".join(words) for words in product(*levels)]
        self.dims |= {name: labels, f"{name}_pair": len(every)}
        key = f"{name}_number[{name}_pair]"
        self.nodes[key] = listed_numbers(np.array([place.get(word, 0) for word in every]))
        self.comments[key] = f"Which of the dimension `{name}` each combination of {listed(factors)} is."

    # -- unchanged nodes

    def _node(self, key: str, text: str) -> None:
        """A node of the lowered model, with numbers in place of columns that the table does not have."""
        name = key.split("[")[0]
        if name in self.designs:
            return
        for column, given in self.lowered.data.dataset.columns.items():
            if column in self.designs | self.maps or column.startswith("design_") or self.row in (given.dims or ()):
                continue
            if not re.search(rf"\b{re.escape(column)}\b", text):
                continue
            if column.startswith("pick_"):
                text = self._picked(next(each for each in self.lowered.predictors if each.names.of("b") == name))
                break
            if column in ("prior_location", "prior_scale") or column.startswith(("prior_location_", "prior_scale_")):
                text = re.sub(rf"\b{re.escape(column)}\b", numbers(given.values), text)
                continue
            axis = ", ".join(given.dims or ())
            self.nodes[f"{column}[{axis}]"] = listed_numbers(given.values)
        self._dims_of(key)
        self.nodes[key] = text
        self._comment(key, name)

    def _picked(self, predictor: LinearPredictor) -> str:
        """The slopes, each an element of the vector of its kind of prior."""
        order: dict[str, str] = {}
        dim, b = predictor.names.of("predictor"), predictor.names.of("b")
        for kind, labels in self.lowered.model.dims.items():
            number = kind.removeprefix(f"{dim}_")
            if number != kind and number.isdigit() and isinstance(labels, list):
                order |= {str(label): f"_{b}_{number}[{str(label)!r}]" for label in labels}
        return f"stack([{', '.join(order[name] for name in predictor.design.names)}], {dim})"

    def _dims_of(self, key: str) -> None:
        """Dimensions of a node that exist only in the model."""
        inside = key.partition("[")[2].removesuffix("]")
        for dim in (part.strip() for part in inside.split(",") if part):
            entry = self.lowered.model.dims.get(dim)
            single = dim in self.factors and dim in self.data.labels
            if entry is not None and dim not in self.dims and not single:
                self.dims[dim] = entry

    def _comment(self, key: str, name: str) -> None:
        text = {
            "Intercept_centred": "The linear predictor where every predictor is at its mean.",
            "Intercept": "The linear predictor where every predictor is 0.",
            "b": "Slopes: what one unit more of a predictor adds to the linear predictor.",
            "sigma": "Standard deviation of the rows about their means.",
            "nu": "Degrees of freedom: the fewer, the heavier the tails.",
            "alpha": "How little the counts are overdispersed: at infinity they are Poisson.",
            "phi": "Precision of the shares.",
            "shape": "Shape: 1 / squared coefficient of variation.",
            "cutpoints": "Where the levels end, from low to high.",
            "tau": "How far slopes lie from zero, by and large; it is inferred.",
            "R2": "Share of the variance that the slopes explain.",
            "_share": "How the explained variance is divided among the slopes.",
            "_slab": "Squared scale of slopes that are not shrunk away.",
            "_local": "Scale of each slope, heavy-tailed: few are large.",
        }.get(name)
        for group in self.groups:
            if group.id:
                text = JointEffects(group.name, group.id, (), ()).comments().get(name, text)
        for predictor in self.lowered.predictors:
            text = self._comment_of(predictor, name) or text
        if name in self.spec.formulas.inner:
            text = "A parameter of the formula, the same for all rows."
        if text:
            self.comments[key] = text

    def _comment_of(self, predictor: LinearPredictor, name: str) -> str | None:
        names, whose = predictor.names, ""
        texts: dict[str, str] = {}
        if names.parameter:
            whose = f" on {names.parameter}"
            shown = _LINKED[predictor.link].format(names.parameter)
            texts = {
                names.centred: f"{names.parameter} where every predictor of it is at its mean.",
                names.of("Intercept"): f"{shown} where every predictor of it is 0.",
                names.of("b"): f"Slopes: what one unit more of a predictor adds to {shown}.",
            }
        for group in predictor.design.groups:
            label = names.group(group.name)
            texts |= {
                f"sd_{label}": f"How much {group.name} levels differ{whose and f' in {names.parameter}'}.",
                f"_chol_{label}": f"Standard deviations and correlations of the effects of a {group.name}{whose},"
                " as a Cholesky factor.",
                f"_length_{label}": "Lengths of the rows of this factor, divided out: the standard deviations are"
                " known.",
                f"_raw_{label}": f"Effects of each {group.name}{whose}, over their standard deviation (non-centred).",
                f"u_{label}": f"Effects of each {group.name}{whose}: how far it lies from the population.",
                f"corr_{label}": "The correlations themselves, to be looked at.",
                f"nu_{label}": f"Degrees of freedom of these effects: the fewer, the further single {group.name} levels"
                " may lie out.",
                f"_mix_{label}": f"The squared scale of the effects of each {group.name}, which makes them Student t.",
            }
        for several in predictor.design.members:
            label = names.group(several.name)
            texts |= {
                f"sd_{label}": f"How much the groups of {several.title} differ{whose and f' in {names.parameter}'}.",
                f"_raw_{label}": "Effects of each group, over their standard deviation (non-centred).",
                f"u_{label}": f"Effects of each group{whose}: a row has a weighted mean of those of its groups.",
            }
        for area in predictor.design.areas:
            label = names.group(area.name)
            texts |= {
                f"sd_{label}": f"How much {area.factor} levels differ{whose and f' in {names.parameter}'}.",
                f"rho_{label}": "The share of their variance that neighbours share.",
                f"alpha_{label}": "How near an area is to the mean of its neighbours: 0 not at all, 1 about it.",
                f"_raw_{label}": f"Effects of {area.title}{whose}, over their standard deviation"
                + ("." if area.kind == "car" else ": independent normals, which the factor makes alike."),
                f"_alone_{label}": "The part that neighbours do not share.",
                f"u_{label}": f"Effects of each {area.factor}{whose}: how far it lies from the population.",
            }
        for each in predictor.design.measured:
            texts |= {
                f"mean_{each.of}": f"Mean of the true values of {each.predictor}.",
                f"sd_{each.of}": "Their standard deviation.",
                each.predictor: "The measurements: true values and errors are normal, and so are their sums.",
                f"_raw_{each.of}": "True values given their measurements, over their standard deviation.",
                f"true_{each.of}": "True values: measurements drawn to the mean, the more the larger their errors.",
            }
        for rise in predictor.design.rises:
            texts[f"simplex_{names.group(rise.name)}"] = (
                f"Shares of the steps from one level to the next in {predictor.design.names[rise.column]}{whose}."
            )
        for curve in predictor.design.curves:
            label, of = names.group(curve.name), f"{curve.title}{whose}"
            process = isinstance(curve.basis, Sines)
            far = "is from 0" if process else "bends away from a straight line"
            texts |= {
                f"sd_{label}": f"How far the curve of {of} {far}.",
                f"length_{label}": f"The length over which {of} changes, in the unit of its predictor.",
                f"_raw_{label}": f"Coefficients of the curve of {of}, over their standard deviation.",
                curve.coefficients(
                    label
                ): f"Coefficients of the curve of {of}{'' if process else ', without its straight part'}.",
            }
        return texts.get(name)

    # -- the response

    def _response(self, key: str, text: str) -> None:
        outcome = self.formula.outcome
        if not self.formula.column:
            self.derive[outcome] = self.formula.response
        for name in self.spec.missing:
            text = text.replace(f" + {name} * ({name}_slopes @ b)", "")
        for predictor in self.lowered.predictors:
            text = self._predicted(predictor, text)
        if self.formula.trials:
            text = re.sub(r"\btrials\b", self.formula.trials, text)
        if self.levels == "categorical":
            contrasts = "contrasts[response_contrast, response_level]"
            self.nodes[contrasts] = "index(response_contrast) + 1 == index(response_level)"
            self.comments[contrasts] = "Which level each linear predictor is of; the first level has none."
            self._dims_of(contrasts)
            self._dims_of("[response_contrast]")
        if self.levels == "ordered":
            self._levels_in_order(outcome)
        if self.spec.censored:
            text = self._censored(text)
        if self.spec.weights and self.levels == "ordered":
            text = self._with_eta(text)
        self.nodes[key] = text
        self.comments[key] = "The likelihood: the data given all of the above."
        if self.spec.weights:
            words = log_density(text, outcome, self.lowered.levels)
            self.nodes["weighting"] = f"Potential(sum(({self.spec.weights} - 1) * ({words})))"
            self.comments["weighting"] = (
                f"Each row counts as often as its {self.spec.weights} says: its log likelihood is there once already,"
                " and this adds the rest."
            )

    def _predicted(self, predictor: LinearPredictor, text: str) -> str:
        """The response, with the parts of one linear predictor in the language."""
        of = predictor.names.of
        design, b, offset = of("design"), of("b"), of("offset")
        if predictor.centre is not None:
            text = re.sub(rf"\b{design} @ {b}\b", f"({design} - {of('design_mean')}) @ {b}", text)
        if predictor.design.offset is not None:
            key = f"{offset}[{self.row}]"
            self.nodes[key] = self.columns.offsets(predictor.design.common)
            self.comments[key] = "Added to the linear predictor as it is, with no coefficient."
        for several in predictor.design.members:
            label = predictor.names.group(several.name)
            for k, factor in enumerate(several.factors, 1):
                member = f"member_{label}_{k}"
                if several.numbered:
                    text = text.replace(f"u_{label}[{member}]", f"{member}[{factor}]")
                else:
                    text = re.sub(rf"\b{member}\b", f"place_{label}_{k}[{factor}]", text)
        for group, term in zip(predictor.design.groups, predictor.formula.groups, strict=True):
            if len(term.factors) > 1:
                name, pair = group.name, f"index({term.factors[0]})[{term.factors[0]}]"
                for factor in term.factors[1:]:
                    pair = f"({pair}) * {len(self.data.labels[factor])} + index({factor})[{factor}]"
                label = predictor.names.group(name)
                rest = f", {label}_effect" if len(group.effects) > 1 else ""
                text = re.sub(rf"\bu_{label}\[{name}\]", f"u_{label}[{name}_number[{pair}]{rest}]", text)
        return text

    def _with_eta(self, text: str) -> str:
        """The response with the linear predictor as a node, since its density occurs several times."""
        tree = parse(text).tree
        assert isinstance(tree, ast.Call)
        eta = bound_arguments(tree, str(call_name(tree)))["eta"]
        key = f"eta[{self.row}]"
        self.nodes[key] = ast.unparse(eta)
        self.comments[key] = "The linear predictor."
        tree.args[0] = ast.Name("eta")
        return ast.unparse(tree)

    def _levels_in_order(self, outcome: str) -> None:
        """Numbers as levels: the graph counts levels from 0."""
        numeric = not self.data.dataset.columns[outcome].text if outcome in self.data.dataset.columns else True
        counted = self.lowered.levels == tuple(str(k) for k in range(len(self.lowered.levels)))
        if numeric and not counted and outcome not in self.model.dims:
            self.dims[outcome] = list(self.lowered.levels)

    def _censored(self, text: str) -> str:
        status, bound = str(self.spec.censored), f"{self.formula.outcome}_bound"
        self.derive[bound] = self.formula.response
        self.comments[bound] = "The response again: of a censored row it is the bound."
        levels = set(map(str, self.data.labels[status]))
        for word, side, none in (("left", "lower", "-1e300"), ("right", "upper", "1e300")):
            value = f"where({status} == '{word}', {bound}, {none})" if word in levels else "None"
            text = text.replace(f"{side}={side}", f"{side}={value}")
        return text

    # -- names

    def _check_names(self) -> None:
        """Check that no node or dimension has the name of an unrelated column of the table."""
        columns = set(self.data.dataset.columns)
        allowed = {self.formula.outcome, *self.spec.missing} | self.spec.formulas.factors()
        allowed |= {each.predictor for predictor in self.lowered.predictors for each in predictor.design.measured}
        check_columns(self.nodes, self.dims.keys() - self.model.dims.keys(), columns, allowed, "formula")
        if not self.formula.column and self.formula.outcome in columns:
            raise ModelError(
                f"the table has a column '{self.formula.outcome}', which is how the response"
                f" '{self.formula.response}' is called: rename it under data.rename",
                path=("model", "formula"),
                code="name-clash",
            )


def _verify(model: Model, data: Data, lowered: Lowered, expansion: Expansion) -> None:
    """Check that the columns of the expanded model equal those of the design matrix up to rounding.

    The text must reproduce the matrix of formulae. A difference is an error in this module, and a wrong model is worse
    than none.
    """
    expanded = Model(**expansion.content(model))
    bound = bind(expanded, data.dataset, expanded.factors())
    wanted: dict[str, np.ndarray | None] = {}
    for predictor in lowered.predictors:
        design, names = predictor.design, predictor.names
        plain = names.parameter or not lowered.spec.missing
        wanted[names.of("offset")] = design.offset
        wanted[names.of("design")] = design.still if design.names and plain else None
        wanted |= {
            f"design_{names.group(group.name)}": group.columns if len(group.effects) > 1 else group.columns[:, 0]
            for group in design.groups
            if group.effects != ["1"]
        }
        wanted |= {f"steps_{names.group(rise.of)}": rise.steps for rise in design.rises}
        wanted |= {f"rest_{names.group(rise.name)}": rise.rest for rise in design.rises}
        wanted |= {f"factor_{names.group(a.name)}": a.neighbours.factor for a in design.areas if a.kind != "car"}
        wanted |= {f"neighbours_{names.group(a.name)}": a.neighbours.matrix for a in design.areas if a.kind == "car"}
        for several in design.members:
            label = names.group(several.name)
            wanted |= {f"weight_{label}_{k}": column for k, column in enumerate(several.weights.T, 1)}
        wanted |= {f"error_{each.of}": each.error for each in design.measured}
        wanted |= {f"rest_{names.group(each.name)}": each.rest for each in design.measured if not each.alone}
        wanted |= {f"waves_{names.group(curve.name)}": curve.waves for curve in design.curves}
    nodes = nodes_of(expansion.nodes)
    evaluator: Evaluator

    def lookup(name: str) -> Term:
        """A column of the data, or a node of numbers that another one uses."""
        if name not in nodes or bound.has(name):
            return bound.term(name)
        node = nodes[name]
        value, _, _ = evaluator.align([evaluator.term(parse(node.expression.text))], onto=node.dims)
        return Term(np.broadcast_to(value[0], [len(bound.labels[dim]) for dim in node.dims]), node.dims)

    evaluator = Evaluator(lookup, bound.labels, bound.frozen, rows=bound.dataset.rows, cells=bound.cells)
    for name, node in nodes.items():
        if (matrix := wanted.get(name)) is None:
            continue
        assert call_name(node.expression.tree) is None or node.kind == "deterministic"
        term = evaluator.term(parse(node.expression.text))
        value, _, _ = evaluator.align([term], onto=node.dims)
        got = np.broadcast_to(np.asarray(value[0], float), matrix.shape)
        size = np.maximum(np.abs(matrix).max(axis=0, initial=0.0), 1e-300)
        if not np.all(np.abs(got - matrix) <= 1e-10 * size):
            raise unsupported(f"'{name}' cannot be written as expressions that give the same numbers", "formula")
