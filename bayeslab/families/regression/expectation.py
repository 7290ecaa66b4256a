"""The expected response of a regression as a function of its predictors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.families.regression.arrays import constants_of, linear_predictor
from bayeslab.families.regression.likelihoods import category_probabilities, inverse_link
from bayeslab.families.regression.lowered import Lowered
from bayeslab.language.formula import Formula
from bayeslab.posterior.expectation import Scale

__all__ = ["ExpectedResponse"]


@dataclass(frozen=True, eq=False)
class ExpectedResponse:
    """The expected response of each row: see :class:`bayeslab.posterior.expectation.Expectation`."""

    lowered: Lowered

    @property
    def outcome(self) -> str:
        return self.lowered.formula.outcome

    @cached_property
    def predictors(self) -> tuple[str, ...]:
        """Predictors in the order of the formulas: common terms, effects of groups, groups."""
        formulas = self._formulas
        common = [term for formula in formulas for term in formula.common.terms]
        effects = [term for formula in formulas for group in formula.groups for term in group.effects.terms]
        names = [name for term in [*common, *effects] for factor in term for name in sorted(factor.names)]
        rest = [name for formula in formulas for group in formula.groups for name in group.factors]
        rest += [area.factor for formula in formulas for area in formula.areas]
        rest += [name for formula in formulas for several in formula.members for name in several.factors]
        known = {name for formula in formulas for name in formula.predictor_columns()}
        return tuple(dict.fromkeys(name for name in [*names, *sorted(known), *rest] if name in known))

    @property
    def _formulas(self) -> list[Formula]:
        return [predictor.formula for predictor in self.lowered.predictors]

    @cached_property
    def grouping(self) -> frozenset[str]:
        """The columns that occur as grouping factors and nowhere else."""
        groups = [group for formula in self._formulas for group in formula.groups]
        effects = {name for group in groups for name in group.effects.names}
        factors = {name for formula in self._formulas for name in formula.factors()}
        return frozenset(factors - effects).difference(*(formula.common.names for formula in self._formulas))

    @cached_property
    def factors(self) -> frozenset[str]:
        """The columns that no formula uses as numbers."""
        return frozenset(self.predictors).difference(*(formula.quantities() for formula in self._formulas))

    @property
    def levels(self) -> tuple[str, ...]:
        return self.lowered.levels if self.lowered.likelihood.levels is not None else ()

    @property
    def rows(self) -> np.ndarray:
        return self.lowered.design.rows

    @property
    def weights(self) -> str | None:
        return self.lowered.spec.weights

    @property
    def trials(self) -> str | None:
        trials = self.lowered.formula.trials
        return None if trials is None or trials.isdigit() else trials

    @property
    def observed(self) -> np.ndarray | None:
        """The responses, as shares if they count successes; None for levels, censored responses, and with an offset."""
        lowered = self.lowered
        if self.levels or lowered.y is None or lowered.limits is not None or lowered.design.offset is not None:
            return None
        return lowered.y if lowered.trials is None else lowered.y / lowered.trials

    def quantity(self, scale: Scale, outcome: str = "") -> str:
        """A description of the expected response."""
        lowered = self.lowered
        response, chosen = outcome or lowered.formula.response, lowered.likelihood
        if scale == "link":
            return f"linear predictor of {response}"
        if chosen.levels is not None:
            return f"probability of each level of {response}"
        if scale == "parameter":
            return f"{chosen.response.quantity} of {response}"
        if chosen.counts_trials:
            return f"probability of {response}"
        if chosen.distribution == "Bernoulli":
            return f"probability of {response} = {lowered.levels[1] if lowered.levels else 1}"
        return f"mean of {response}"

    def bounded(self, scale: Scale) -> bool:
        """Whether the expected response is a probability or a share."""
        chosen = self.lowered.likelihood
        if scale == "link":
            return False
        return (
            chosen.levels is not None
            or chosen.counts_trials
            or chosen.distribution in ("Bernoulli", "Beta", "LogitNormal", "Kumaraswamy")
        )

    def values(self, draws: Mapping[str, np.ndarray], scale: Scale, typical: Collection[str] = ()) -> np.ndarray:
        """The expected response at each draw."""
        lowered = self.lowered
        if scale == "link" and self.levels:
            raise OptionError(
                f"'{lowered.formula.response}' has levels, and so no linear predictor for each of them:"
                " scale='response' gives their probabilities",
                code="unsupported",
            )
        draws = self._typical(lowered.whole(draws), typical)
        eta = linear_predictor(lowered, draws)
        if scale == "link":
            return eta
        if lowered.likelihood.levels is not None:
            return category_probabilities(lowered.likelihood.levels, lowered.link, eta, draws.get("cutpoints"))
        driven = inverse_link(lowered.link, eta)
        return driven if scale == "parameter" else self._moments(driven, draws)[0]

    def variances(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """The variance of the response given the parameters at each draw."""
        lowered = self.lowered
        if lowered.likelihood.levels is not None:
            raise OptionError(
                f"'{lowered.formula.response}' has levels, not numbers, and so no variance", code="not-applicable"
            )
        draws = lowered.whole(draws)
        return self._moments(inverse_link(lowered.link, linear_predictor(lowered, draws)), draws)[1]

    def _typical(self, draws: Mapping[str, np.ndarray], columns: Collection[str]) -> Mapping[str, np.ndarray]:
        """The draws, with the effects of groups in any of the columns set to zero."""
        named = {
            f"u_{predictor.names.group(group.name)}": group.factors
            for predictor in self.lowered.predictors
            for group in predictor.formula.groups
        }
        named |= {
            f"u_{predictor.names.group(area.name)}": (area.factor,)
            for predictor in self.lowered.predictors
            for area in predictor.formula.areas
        }
        named |= {
            f"u_{predictor.names.group(several.name)}": several.factors
            for predictor in self.lowered.predictors
            for several in predictor.formula.members
        }
        zero = {name for name, factors in named.items() if set(columns) & set(factors)}
        return {name: np.zeros_like(value) if name in zero else value for name, value in draws.items()}

    def _moments(self, driven: np.ndarray, draws: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the response; of the share of successes if it counts them."""
        lowered = self.lowered
        made = lowered.likelihood.moments(driven, lowered.auxiliary(draws), constants_of(lowered))
        if made is None:
            raise OptionError(
                f"the mean of a {lowered.spec.likelihood} response has no closed form: scale='parameter' is the"
                f" {lowered.likelihood.response.quantity}, which the formula predicts",
                code="not-applicable",
            )
        mean, variance = (np.broadcast_to(value, driven.shape) for value in made)
        if lowered.trials is None:
            return mean, variance
        return mean / lowered.trials, variance / lowered.trials**2
