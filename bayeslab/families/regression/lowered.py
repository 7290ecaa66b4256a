"""A regression and its data as arrays, responses and a design."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.data.dataset import Data
from bayeslab.data.design import Design
from bayeslab.families.regression.likelihoods import LIKELIHOODS
from bayeslab.families.regression.spec import Regression
from bayeslab.language.formula import Formula
from bayeslab.language.spec import Model

__all__ = ["Lowered", "Remark"]

type Remark = tuple[str, str, float | None, str, str]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A regression on its data, taken apart.

    Attributes
    ----------
    model, data
        The same model in the family ``graph``, on the design matrix.
    design : Design
        Of these data.
    centre, centre_rest : ndarray (p,) or None
        Means of the predictors of the fit, as sums of two doubles, where the intercept is that of centred predictors.
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
    def link(self) -> str:
        return _link(self.spec)

    @property
    def matrix(self) -> np.ndarray:
        """The design matrix, centred where the model is."""
        return self.design.matrix if self.centre is None else self.with_ones[:, 1:]

    @cached_property
    def with_ones(self) -> np.ndarray:
        """A column of ones for the intercept, and :attr:`matrix`."""
        if self.centre is None or self.centre_rest is None:
            return self.design.about(np.zeros(len(self.design.names)), np.zeros(len(self.design.names)))
        if self.centre is self.design.means[0]:
            return self.design.about_means
        return self.design.about(self.centre, self.centre_rest)

    @property
    def additive(self) -> bool:
        """Whether everything random is in the coefficients: no predictor has a model of its own."""
        return not self.spec.missing

    @property
    def summable(self) -> bool:
        """Whether the rows enter through sufficient statistics: where that is cheaper than the rows."""
        groups = self.design.groups
        size = 1 + len(self.design.names) + sum(len(g.labels) * len(g.effects) for g in groups)
        per_row = 1 + len(self.design.names) + sum(len(g.effects) for g in groups)
        linear = self.spec.likelihood == "gaussian" and self.link == "identity" and self.additive
        return linear and self.limits is None and size**2 < self.design.n * per_row


def _link(spec: Regression) -> str:
    return spec.link or LIKELIHOODS[spec.likelihood].links[0]
