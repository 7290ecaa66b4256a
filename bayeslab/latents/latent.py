"""The contract of latent variables that are summed out: their distribution given the data, and their parameters.

A latent-variable model is a latent structure times the emissions of its states. An emission is a
:class:`bayeslab.posterior.observed.part.StatePart`; the structure is a :class:`Latent`. Given values of its parameters
and the log density of every row in every state, :meth:`Latent.law` returns a :class:`Law`: the posterior of the states.
By Fisher's identity, the expected counts under that posterior are the gradient of the log evidence with respect to the
log probabilities, so that one pass over the data serves EM, gradients and decoding.

Unless stated otherwise, parameters are rows of probabilities with Dirichlet priors: :meth:`Latent.concentration` gives
the prior, from which the M-step, the log prior and random start values follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.language.writer import Writer
from bayeslab.latents.chains.hidden_gibbs import draw_probabilities

__all__ = ["Drawn", "Expected", "Latent", "Law", "Values"]

type Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Expected:
    """Result of the E-step.

    Attributes
    ----------
    log_evidence : ndarray (n_sequences,)
        Log evidence of each sequence; -inf for an impossible one.
    posterior : ndarray (n_rows, n_states)
        P(state | all rows).
    counts : mapping of str to ndarray
        Expected counts for each learned parameter.
    """

    log_evidence: np.ndarray
    posterior: np.ndarray
    counts: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Drawn:
    """States drawn from their posterior, with their counts.

    Attributes
    ----------
    states : ndarray (n_rows,)
    counts : mapping of str to ndarray
        Counts for each learned parameter.
    log_evidence : float
        log p(rows | parameters), with the states summed out.
    """

    states: np.ndarray
    counts: Mapping[str, np.ndarray]
    log_evidence: float


class Law(ABC):
    """Distribution of the latent states given the parameters and the data."""

    #: Reason why a row can be impossible, as text for messages.
    condition: str

    @abstractmethod
    def expected(self) -> Expected:
        """Compute log evidence, posterior and expected counts (the E-step)."""

    @abstractmethod
    def impossible(self) -> np.ndarray:
        """The first row of each sequence that no state can explain, or -1, (n_sequences,)."""

    @abstractmethod
    def filter(self, kind: str) -> np.ndarray:
        """P(state | rows up to this one), or with ``predict`` P(state | rows before this one), (n_rows, n_states)."""

    @abstractmethod
    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        """Log likelihood of each sequence, or of each row of a single sequence."""

    @abstractmethod
    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n most likely paths (n, n_rows), -1 if there are fewer; their log probabilities (n, n_sequences)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the states (n_rows,) given all rows."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Draw the states as :meth:`sample` does, and count them, if the latent supports Gibbs sampling.

        Raises
        ------
        EvidenceError
            The rows have probability zero.
        OptionError
            The latent does not support Gibbs sampling.
        """
        raise OptionError("states of this kind have no Gibbs steps; use nuts, map or em", code="not-suited")


class Latent(ABC):
    """Discrete states that are summed out."""

    # ------------------------------------------------------------------ distribution of the states

    if TYPE_CHECKING:  # a field of some subclasses, a property of others

        @property
        def n_states(self) -> int: ...

    @abstractmethod
    def law(self, values: Values, log_density: np.ndarray, offsets: np.ndarray) -> Law:
        """The distribution of the states given parameters and data.

        Parameters
        ----------
        values
            Learned parameters, by name.
        log_density : ndarray (n_rows, n_states)
            log p(row | state), zeros for a missing row.
        offsets : ndarray (n_sequences + 1,)
            Start of each sequence in the rows, and the number of rows.
        """

    @abstractmethod
    def simulate(self, values: Values, uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """States (n_rows,) drawn without data, from one uniform number for each row."""

    #: Weight of each row; None for equal weights of one. Rows with different weights are in different sequences.
    row_weights: np.ndarray | None = None

    def one_pass(
        self, values: Values, emission: Any, parameters: Mapping[str, Any], rows: np.ndarray
    ) -> tuple[float, dict[str, Any]] | None:
        """Log evidence, expected counts and emission statistics of complete rows by a fused kernel; None without one.

        Parameters
        ----------
        emission : Emission
        parameters
            Parameters of the emission.
        rows : ndarray
            Complete rows, a contiguous array.
        """
        return None

    def prefix(self, n_rows: int) -> Self:
        """The same latent on the first rows."""
        return self

    def of_sequences(self, which: np.ndarray, rows: np.ndarray) -> Self:
        """The same latent on some of the sequences, which hold these rows."""
        return self

    # ------------------------------------------------------------------ parameters

    @property
    @abstractmethod
    def learned(self) -> tuple[str, ...]:
        """Names of the unknown parameters."""

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """Known values that accompany the learned parameters."""
        return {}

    @abstractmethod
    def complete(self, values: Values) -> dict[str, np.ndarray]:
        """All probabilities: known ones, and unknown ones at the given values."""

    @abstractmethod
    def dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of a parameter."""

    @abstractmethod
    def concentration(self, name: str) -> np.ndarray:
        """Concentration of a parameter's Dirichlet prior; zero where the probability is structurally zero."""

    def kind(self, name: str) -> str:
        """The support of a parameter, by its name among EM's coordinates."""
        return "simplex"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.concentration(name).shape

    def labels(self) -> dict[str, np.ndarray]:
        """Labels of dimensions other than the states."""
        return {}

    @property
    def symmetric(self) -> bool:
        """Whether this structure is invariant to permutations of the states."""
        return False

    @property
    def n_free(self) -> int:
        """Number of free parameters."""
        return sum(int(np.maximum((self.concentration(n) > 0).sum(axis=-1) - 1, 0).sum()) for n in self.learned)

    def prior_text(self, name: str) -> str:
        """The prior of a parameter as text."""
        rows = np.unique(np.atleast_2d(self.concentration(name)), axis=0)
        shown = ", ".join(f"{x:g}" for x in rows[0].ravel())
        return f"Dirichlet([{shown}])" if rows.shape[0] == 1 and rows.ndim == 2 else "Dirichlet, row by row"

    def internal(self, values: Values) -> dict[str, np.ndarray]:
        """Draws of the auxiliary variables behind parameters, by name."""
        return {}

    # ------------------------------------------------------------------ learning

    @property
    @abstractmethod
    def how(self) -> str:
        """Description of the EM algorithm, as text."""

    @property
    def no_em(self) -> str:
        """Reason why EM does not apply; empty if it does."""
        return ""

    @property
    def no_gibbs(self) -> str:
        """Reason why Gibbs sampling does not apply; empty if it does."""
        return ""

    def draw_given(self, rng: np.random.Generator, counts: Values, values: Values) -> dict[str, np.ndarray]:
        """Draw the learned parameters from their posterior given counts of states; ``values`` are the current ones."""
        out = {}
        for name in self.learned:
            prior = self.concentration(name)
            out[name] = draw_probabilities(rng, np.where(prior > 0, prior + counts[name], 0.0))
        return out | self.constants

    @abstractmethod
    def start_values(self) -> dict[str, np.ndarray]:
        """Deterministic start values of the unknown parameters."""

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        """Random values of the unknown parameters."""
        out = {}
        for name in self.learned:
            gammas = rng.standard_gamma(np.where(self.concentration(name) > 0, weight, 0.0))
            out[name] = gammas / gammas.sum(axis=-1, keepdims=True)
        return out

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        """Maximise the expected log likelihood or log posterior given expected counts (the M-step).

        Parameters
        ----------
        prior : bool
            Whether the prior is included; otherwise the likelihood alone is maximised.
        start
            The parameters that gave the counts, as the start of iterative M-steps.
        """
        out = {}
        for name in self.learned:
            if name in counts:
                a = self.concentration(name)
                total = self._weighed(counts[name], a, prior=prior)
                sums = total.sum(axis=-1, keepdims=True)
                even = (a > 0) / (a > 0).sum(axis=-1, keepdims=True)
                out[name] = np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), even)
        return out

    @staticmethod
    def _weighed(counts: np.ndarray, a: np.ndarray, *, prior: bool) -> np.ndarray:
        """Expected counts plus prior counts; zero where the probability is structurally zero."""
        return np.where(a > 0, np.maximum(counts + (a - 1 if prior else 0.0), 0.0), 0.0)

    def expected_log_density(self, counts: Values, values: Values) -> float:
        """Expected log density of the states, given expected counts."""
        whole = self.complete(values)
        used = [(counts[name] > 0, name) for name in self.learned]
        with np.errstate(divide="ignore"):
            return float(sum(np.sum(counts[name][at] * np.log(whole[name][at])) for at, name in used))

    def log_prior(self, values: Values) -> float:
        """Log density of the prior, up to a constant."""
        total = 0.0
        for name in self.learned:
            prior = self.concentration(name)
            exponent = np.where(prior > 0, prior - 1, 0.0)
            used = exponent != 0
            with np.errstate(divide="ignore"):
                total += float(np.sum(exponent[used] * np.log(values[name][used])))
        return total

    def constrained(self, values: Values) -> dict[str, np.ndarray]:
        """Values that a search moved off a constraint, mapped back without a change of the likelihood."""
        return {}

    # ------------------------------------------------------------------ densities of graphs and programs

    @abstractmethod
    def variables(self, writer: Writer, start: Values | None) -> dict[str, Any]:
        """Unknown parameters as random variables, and known ones as constants."""

    @abstractmethod
    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        """log p(rows | parameters) as an expression."""
