"""The contract of models whose expected outcome is a function of the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, Protocol

import numpy as np

__all__ = ["Expectation", "Scale"]

# The scale of an expected outcome: its mean (a probability for an event), the parameter that the formula predicts
# (such as the quantile of a quantile regression), or the linear predictor.
type Scale = Literal["response", "parameter", "link"]


class Expectation(Protocol):
    """The expected outcome of each row of a table, given parameters.

    Attributes
    ----------
    outcome : str
        The name of the outcome.
    predictors : tuple of str
        The columns that the expected outcome depends on, as the model names them.
    grouping : frozenset of str
        The predictors that only select group effects.
    factors : frozenset of str
        The predictors whose values are names, even if they are written as numbers.
    levels : tuple of str
        The levels of the outcome if its expectation is a vector of probabilities; empty if it is a number.
    rows : ndarray of int
        Positions of the rows, among those of the data, that have an expectation.
    weights : str or None
        The column of the rows' weights in the likelihood.
    trials : str or None
        The column of the numbers of trials, which the expected outcome, a probability, does not depend on.
    observed : ndarray or None
        The outcomes of these rows on the scale of their expectations, for pictures; None if they cannot be compared
        with expectations at other rows.
    """

    @property
    def outcome(self) -> str: ...

    @property
    def predictors(self) -> tuple[str, ...]: ...

    @property
    def grouping(self) -> frozenset[str]: ...

    @property
    def factors(self) -> frozenset[str]: ...

    @property
    def levels(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> np.ndarray: ...

    @property
    def weights(self) -> str | None: ...

    @property
    def trials(self) -> str | None: ...

    @property
    def observed(self) -> np.ndarray | None: ...

    def quantity(self, scale: Scale, outcome: str = "") -> str:
        """A description of the expected outcome, such as ``probability of low = 1``; ``outcome``: its title."""
        ...

    def bounded(self, scale: Scale) -> bool:
        """Whether the expected outcome is a probability or a share, so that it has odds."""
        ...

    def values(self, draws: Mapping[str, np.ndarray], scale: Scale, typical: Collection[str] = ()) -> np.ndarray:
        """The expected outcome at each draw, shape (draws, rows) or (draws, rows, levels).

        Parameters
        ----------
        draws
            Draws of the parameters by name, draws first.
        typical
            Grouping columns whose effects are taken as zero, as in a typical group.

        Raises
        ------
        OptionError
            The model has no such scale.
        """
        ...

    def variances(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """The variance of the outcome given its expectation at each draw, shape (draws, rows).

        Raises
        ------
        OptionError
            The variance has no closed form, or the outcome is not a number.
        """
        ...
