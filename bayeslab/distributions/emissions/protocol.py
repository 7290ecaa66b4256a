"""The protocol of emissions for mixtures and hidden Markov models: abstract methods, and defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

__all__ = ["ConjugateEmission", "Emission", "EmissionWithoutParameters", "Parameters", "Statistics", "WrappedEmission"]

type Parameters = Mapping[str, Any]
type Statistics = dict[str, Any]


class Emission(ABC):
    """A distribution of rows with parameters for each state; see :mod:`bayeslab.distributions.emissions`.

    Subclasses are frozen dataclasses.
    """

    @property
    @abstractmethod
    def prior(self) -> Any:
        """The prior of the parameters; None for maximum likelihood."""

    @property
    def fixed_parameters(self) -> tuple[str, ...]:
        """Parameters that are known, not learned."""
        return ()

    @property
    def kinds(self) -> dict[str, str]:
        """Support of each parameter: simplex, unit, positive, matrix or dof; those left out are unrestricted."""
        return {}

    @property
    def columns_depend(self) -> bool:
        """Whether a row's columns are dependent given its state."""
        return False

    @property
    def has_one_pass(self) -> bool:
        """Whether ``one_pass`` computes responsibilities and their statistics in one loop over complete rows."""
        return False

    @abstractmethod
    def check(self, rows: np.ndarray) -> None: ...

    @abstractmethod
    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics: ...

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        """Statistics of rows whose states are known."""
        return self.statistics(rows, np.eye(n_states)[states])

    @abstractmethod
    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters: ...

    @abstractmethod
    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float: ...

    @abstractmethod
    def log_prior(self, parameters: Parameters) -> float: ...

    @abstractmethod
    def n_free(self, n_states: int) -> int: ...

    @abstractmethod
    def with_prior(self, rows: np.ndarray, n_states: int) -> Self: ...

    def without_prior(self) -> Self:
        """The same emission with maximum likelihood M-steps."""
        return cast(Self, replace(cast(Any, self), prior=None))

    @abstractmethod
    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray: ...

    def limits(self, statistics: Statistics, parameters: Parameters) -> dict[str, np.ndarray]:
        """Whether each element of a parameter is at a limit that varying it alone does not reveal."""
        return {}

    @abstractmethod
    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray: ...

    def complete(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Rows in given states, with missing cells drawn given the row's others; here columns are independent."""
        return np.where(np.isnan(rows), self.sample(rng, parameters, states), rows)

    @abstractmethod
    def features(self, rows: np.ndarray) -> np.ndarray: ...


class ConjugateEmission(Emission):
    """An emission whose parameters have a conjugate prior."""

    def imputed(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, parameters: Parameters
    ) -> np.ndarray:
        """Rows in which those missing cells are drawn that conjugate draws of parameters need.

        If columns are dependent, all missing cells are drawn: a covariance matrix is conjugate only for complete rows,
        and expectations in place of missing cells would make the draws too narrow.
        """
        return self.complete(rng, parameters, states, rows) if self.columns_depend else rows

    @abstractmethod
    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters: ...

    @abstractmethod
    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def log_marginal(self, statistics: Statistics) -> np.ndarray: ...

    @abstractmethod
    def log_base(self, rows: np.ndarray) -> np.ndarray: ...


class EmissionWithoutParameters(Emission):
    """An emission without learned parameters."""

    @property
    def prior(self) -> None:
        return None

    def check(self, rows: np.ndarray) -> None:
        return None

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        return {}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        return {}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        return 0.0

    def log_prior(self, parameters: Parameters) -> float:
        return 0.0

    def n_free(self, n_states: int) -> int:
        return 0

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return self

    def without_prior(self) -> Self:
        return self

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return np.zeros(len(variances), dtype=bool)


class WrappedEmission(Emission):
    """An emission of rows in another form, with the parameters of an inner emission; frozen dataclasses extend it."""

    if TYPE_CHECKING:  # a field of subclasses

        @property
        def inner(self) -> Emission: ...

    @property
    def prior(self) -> Any:
        return self.inner.prior

    @property
    def kinds(self) -> dict[str, str]:
        return self.inner.kinds

    @property
    def columns_depend(self) -> bool:
        return self.inner.columns_depend

    def without_prior(self) -> Self:
        return cast(Self, replace(cast(Any, self), inner=self.inner.without_prior()))

    def check(self, rows: np.ndarray) -> None:
        self.inner.check(rows)

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        return self.inner.maximise(statistics, parameters)

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        return self.inner.expected_log_likelihood(statistics, parameters)

    def log_prior(self, parameters: Parameters) -> float:
        return self.inner.log_prior(parameters)

    def n_free(self, n_states: int) -> int:
        return self.inner.n_free(n_states)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return self.inner.degenerate(parameters, variances)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return self.inner.features(rows)
