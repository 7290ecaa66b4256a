"""Arrays of a regression and its data: responses and design matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.design import Design
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.families.regression.likelihoods import Likelihood, likelihood
from bayeslab.families.regression.spec import Regression
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model

__all__ = ["Lowered", "Remark", "link_of"]

type Remark = tuple[str, str, float | None, str, str]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A regression resolved on its data.

    Attributes
    ----------
    model, data
        The model as nodes of the family ``graph``, and the data with the design matrix.
    design : Design
        Design of these data.
    centre, centre_rest : ndarray (p,) or None
        Means of the predictors in the fit, as sums of two doubles, if the intercept refers to centred predictors.
    y : ndarray (n,) or None
        Response: numbers, or codes of ``levels``.
    slopes : tuple of str
        Prior of each column of the design matrix.
    nodes : dict of str to str
    """

    spec: Regression
    formula: Formula
    model: Model
    data: Data
    design: Design
    centre: np.ndarray | None
    centre_rest: np.ndarray | None
    y: np.ndarray | None
    levels: tuple[str, ...]
    trials: np.ndarray | None
    weights: np.ndarray | None
    limits: tuple[np.ndarray, np.ndarray] | None
    slopes: tuple[str, ...]
    nodes: dict[str, str]
    remarks: tuple[Remark, ...] = ()

    @property
    def likelihood(self) -> Likelihood:
        return likelihood(self.spec.likelihood)

    @property
    def link(self) -> str:
        return link_of(self.spec)

    @property
    def matrix(self) -> np.ndarray:
        """The design matrix, centred if the model is."""
        return self.design.matrix if self.centre is None else self.with_ones[:, 1:]

    @cached_property
    def with_ones(self) -> np.ndarray:
        """A column of ones for the intercept, and :attr:`matrix`."""
        if self.centre is None or self.centre_rest is None:
            return self.design.about(np.zeros(len(self.design.names)), np.zeros(len(self.design.names)))
        if self.centre is self.design.means[0]:
            return self.design.about_means
        return self.design.about(self.centre, self.centre_rest)

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
        linear = self.likelihood.distribution == "Normal" and self.link == "identity" and self.additive
        return linear and self.limits is None and size**2 < self.design.n * per_row


def link_of(spec: Regression) -> str:
    """The model's link, or by default the likelihood's first."""
    return spec.link or likelihood(spec.likelihood).links[0]
