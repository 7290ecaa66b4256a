"""Arrays of a regression and its data: responses and design matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.design import Design, Measured
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.families.regression.formulas import Names
from bayeslab.families.regression.likelihoods import Likelihood, forward_link, inverse_link, likelihood
from bayeslab.families.regression.nonlinear import NonLinear
from bayeslab.families.regression.spec import Regression
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model

__all__ = ["LinearPredictor", "Lowered", "Remark", "link_of", "new_values"]

type Remark = tuple[str, str, float | None, str, str]


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """The linear predictor of one parameter of the likelihood, on the data.

    Attributes
    ----------
    names : Names
        Names of its nodes; ``names.parameter`` is "" for the predicted quantity.
    formula : Formula
    link : str
    design : Design
        Design of these data.
    centre, centre_rest : ndarray (p,) or None
        Means of the predictors in the fit, as sums of two doubles, if the intercept refers to centred predictors.
    slopes : tuple of str
        Prior of each column of the design matrix.
    """

    names: Names
    formula: Formula
    link: str
    design: Design
    centre: np.ndarray | None
    centre_rest: np.ndarray | None
    slopes: tuple[str, ...]

    @property
    def matrix(self) -> np.ndarray:
        """The design matrix, centred if the model is, without its latent columns."""
        if self.centre is None:
            return self.design.still
        centred = self.with_ones[:, 1:]
        if at := self.design.latent:
            centred = centred.copy()
            centred[:, at] = -self.centre[at]
        return centred

    @cached_property
    def with_ones(self) -> np.ndarray:
        """A column of ones for the intercept, and :attr:`matrix`."""
        if self.centre is None or self.centre_rest is None:
            return self.design.about(np.zeros(len(self.design.names)), np.zeros(len(self.design.names)))
        if self.centre is self.design.means[0]:
            return self.design.about_means
        return self.design.about(self.centre, self.centre_rest)

    def at(self, draws: Mapping[str, np.ndarray], tail: tuple[int, ...] = ()) -> np.ndarray:
        """The linear predictor at each draw, shape (draws, n, *tail).

        Parameters
        ----------
        draws
            Draws of all parameters, fixed ones too.
        tail
            Lengths of further axes of the coefficients: those of categories.
        """
        design, names = self.design, self.names
        eta = np.zeros((len(next(iter(draws.values()))), design.n, *tail))
        # Centring at the predictors' means avoids cancellation.
        centred = self.centre is not None and names.centred in draws
        if design.names:
            matrix = self.matrix if centred else design.still
            eta += np.einsum("np,sp...->sn...", matrix, draws[names.of("b")], optimize=True)
        if design.intercept:
            eta += (self._linked(draws[names.centred]) if centred else draws[names.of("Intercept")])[:, None]
        for group in design.groups:
            effects = draws[f"u_{names.group(group.name)}"][:, group.codes]
            several = effects.ndim == 3
            eta += np.einsum("snk,nk->sn", effects, group.columns) if several else effects * group.columns[:, 0]
        for rise in design.rises:
            heights = draws[f"simplex_{names.group(rise.name)}"] @ rise.steps.T
            eta += len(rise.labels) * rise.rest * heights * draws[names.of("b")][:, rise.column, None]
        for curve in design.curves:
            effects = draws[curve.coefficients(names.group(curve.name))]
            if curve.codes is None:
                eta += effects @ curve.waves.T
            else:
                eta += np.einsum("snk,nk->sn", effects[:, curve.codes], curve.waves)
        for each in design.measured:
            # New rows, unless their true values were drawn, have those that they give.
            true = draws.get(f"true_{each.of}" if each.fitted else new_values(each), each.x)
            eta += each.rest * true * draws[names.of("b")][:, each.column, None]
        for area in design.areas:
            eta += draws[f"u_{names.group(area.name)}"][:, area.codes]
        for members in design.members:
            effects = draws[f"u_{names.group(members.name)}"]
            for codes, weights in zip(members.codes.T, members.weights.T, strict=True):
                eta += weights * effects[:, codes]
        if design.offset is not None:
            eta += design.offset if not tail else design.offset[:, None]
        return eta

    def _linked(self, value: np.ndarray) -> np.ndarray:
        """The centred intercept; of a further parameter the node holds its value."""
        return forward_link(self.link, value) if self.names.parameter else value

    def values(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """The parameter at each draw, shape (draws, n)."""
        return inverse_link(self.link, self.at(draws))


@dataclass(frozen=True, eq=False)
class Lowered:
    """A regression resolved on its data.

    Attributes
    ----------
    model, data
        The model as nodes of the family ``graph``, and the data with the design matrix.
    main : LinearPredictor
        Of the predicted quantity.
    further : dict of str to LinearPredictor
        Those of further parameters of the likelihood that vary by row.
    y : ndarray (n,) or None
        Response: numbers, or codes of ``levels``.
    nodes : dict of str to str
    """

    spec: Regression
    model: Model
    data: Data
    main: LinearPredictor
    further: dict[str, LinearPredictor]
    y: np.ndarray | None
    levels: tuple[str, ...]
    trials: np.ndarray | None
    weights: np.ndarray | None
    limits: tuple[np.ndarray, np.ndarray] | None
    nodes: dict[str, str]
    remarks: tuple[Remark, ...] = ()

    @property
    def predictors(self) -> tuple[LinearPredictor, ...]:
        """All linear predictors, that of the predicted quantity first."""
        return (self.main, *self.further.values())

    @property
    def formula(self) -> Formula:
        return self.main.formula

    @property
    def design(self) -> Design:
        return self.main.design

    @property
    def centre(self) -> np.ndarray | None:
        return self.main.centre

    @property
    def slopes(self) -> tuple[str, ...]:
        return self.main.slopes

    @property
    def matrix(self) -> np.ndarray:
        return self.main.matrix

    @property
    def with_ones(self) -> np.ndarray:
        return self.main.with_ones

    @property
    def likelihood(self) -> Likelihood:
        return likelihood(self.spec.likelihood)

    @property
    def link(self) -> str:
        return self.main.link

    def linear_predictor(self, draws: Mapping[str, np.ndarray], tail: tuple[int, ...] = ()) -> np.ndarray:
        """The linear predictor at each draw, shape (draws, n, *tail); the expression, if the formula is one.

        Parameters
        ----------
        draws
            Draws of all parameters, fixed ones too.
        tail
            Lengths of further axes of the coefficients: those of categories.
        """
        formula = self.formula
        if not isinstance(formula, NonLinear):
            return self.main.at(draws, tail)
        varying = self.further
        columns = {name: self.data.dataset.columns[name].values for name in formula.columns}
        values = {
            name: varying[name].at(draws) if name in varying else draws[name][:, None] for name in formula.parameters
        }
        return formula.at(values, columns, self.design.n)

    def auxiliary(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The likelihood's further parameters at each draw, (draws, n) if they vary by row, otherwise (draws, 1)."""
        return {
            name: self.further[name].values(draws) if name in self.further else draws[name][:, None]
            for name in self.likelihood.auxiliary
        }

    @cached_property
    def fixed(self) -> dict[str, np.ndarray]:
        """Fixed parameters, given as numbers or computed from such, which draws do not contain.

        Values by name, with the axes of their nodes.
        """
        out: dict[str, Term] = {}

        def lookup(name: str) -> Term:
            return out[name] if name in out else self.data.term(name)

        columns = self.data.dataset.columns
        still = {n: c for n, c in columns.items() if c.dims is not None and self.data.dataset.rows not in c.dims}
        wanted = {key: parse(text) for key, text in self.nodes.items() if key.split("[")[0] != self.formula.outcome}
        wanted = {key: text for key, text in wanted.items() if call_name(text.tree) not in {*DISTRIBUTIONS, "Ordered"}}
        while ready := [key for key, text in wanted.items() if set(text.names) <= {*out, *still, *self.data.labels}]:
            for key in ready:
                name, _, rest = key.partition("[")
                dims = tuple(part.strip() for part in rest.removesuffix("]").split(",") if part)
                inner = Evaluator(lookup, self.data.labels)
                (value,), _, _ = inner.align([inner.eval(wanted.pop(key).tree)], onto=dims)
                shape = tuple(len(self.data.labels[dim]) for dim in dims)
                out[name] = Term(np.broadcast_to(np.asarray(value, float), shape), dims)
        return {name: np.asarray(term.value) for name, term in out.items()}

    def whole(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Draws, with each fixed parameter repeated for every draw."""
        n_draws = len(next(iter(draws.values())))
        copies = {name: np.broadcast_to(value, (n_draws, *value.shape)) for name, value in self.fixed.items()}
        return copies | dict(draws)

    @property
    def additive(self) -> bool:
        """Whether only coefficients are random: no predictor has a distribution."""
        return not self.spec.missing

    @property
    def summable(self) -> bool:
        """Whether the rows enter through sufficient statistics, if that is cheaper."""
        groups = self.design.groups
        size = 1 + len(self.design.names) + sum(len(g.labels) * len(g.effects) for g in groups)
        per_row = 1 + len(self.design.names) + sum(len(g.effects) for g in groups)
        size += sum(curve.size for curve in self.design.curves)
        per_row += sum(curve.waves.shape[1] for curve in self.design.curves)
        linear = self.likelihood.distribution == "Normal" and self.link == "identity" and self.additive
        linear = linear and not isinstance(self.formula, NonLinear) and not self.further and not self.design.latent
        size += sum(len(area.labels) for area in self.design.areas)
        per_row += len(self.design.areas)
        size += sum(len(several.labels) for several in self.design.members)
        per_row += sum(len(several.factors) for several in self.design.members)
        return linear and self.limits is None and size**2 < self.design.n * per_row


def new_values(measured: Measured) -> str:
    """The name among draws of true values of new rows."""
    return f"_new_{measured.of}"


def link_of(spec: Regression, parameter: str = "") -> str:
    """The link of a parameter: of the predicted quantity the model's, by default the likelihood's first."""
    if not parameter:
        return spec.link or likelihood(spec.likelihood).links[0]
    return "identity" if parameter in spec.formulas.inner else likelihood(spec.likelihood).link_of(parameter)
