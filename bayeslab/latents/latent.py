"""The contract of what is summed out: latent states, their law given the data, and what is learned of them.

A latent-variable model is a latent structure times what its states emit. What emits is
:class:`bayeslab.posterior.observed.part.StatePart`; the structure is a :class:`Latent`. At values of its parameters,
and given log densities of the rows in every state, it has a :class:`Law`: the states' posterior. By Fisher's identity
the expected counts of that law are the gradient of the log evidence by the log probabilities that they count, so that
one pass over the data serves EM, gradients and decoding.

Parameters that are not said to be otherwise are rows of probabilities with Dirichlet priors:
:meth:`Latent.concentration` gives the prior, and the M-step, the log prior and random values follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.latents.chains.hidden_gibbs import draw_probabilities

__all__ = ["Drawn", "Expected", "Latent", "Law", "Values"]

type Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Expected:
    """What all rows say of the states.

    Attributes
    ----------
    log_evidence : ndarray (n_sequences,)
        -inf where a sequence is impossible.
    posterior : ndarray (n_rows, n_states)
        P(state | all rows).
    counts : mapping of str to ndarray
        Expected counts of what is learned.
    """

    log_evidence: np.ndarray
    posterior: np.ndarray
    counts: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Drawn:
    """States drawn from their posterior, and counted.

    Attributes
    ----------
    states : ndarray (n_rows,)
    counts : mapping of str to ndarray
        Of what is learned.
    log_evidence : float
        log p(rows | parameters), the states summed out.
    """

    states: np.ndarray
    counts: Mapping[str, np.ndarray]
    log_evidence: float


class Law(ABC):
    """Latent states at given parameters, given the data."""

    #: What makes the first impossible row so, for people.
    condition: str

    @abstractmethod
    def expected(self) -> Expected:
        """Log evidence, posterior and expected counts: the E-step."""

    @abstractmethod
    def impossible(self) -> np.ndarray:
        """The first row (n_sequences,) that no state explains, or -1."""

    @abstractmethod
    def filter(self, kind: str) -> np.ndarray:
        """P(state | rows up to its own), or by ``predict`` before it, (n_rows, n_states)."""

    @abstractmethod
    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        """Log likelihood of each sequence, or of each row of a single one."""

    @abstractmethod
    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n most likely paths (n, n_rows), -1 where there is none, and log probabilities (n, n_sequences)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """States (n_rows,) drawn given all rows."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """As :meth:`sample`, counted: where the latent has Gibbs steps.

        Raises
        ------
        EvidenceError
            The rows have probability zero.
        OptionError
            The latent has no Gibbs steps.
        """
        raise OptionError("states of this kind have no Gibbs steps; use nuts, map or em", code="not-suited")


class Latent(ABC):
    """Discrete states that are summed out."""

    # ------------------------------------------------------------------ the law of the states

    if TYPE_CHECKING:  # a field of some subclasses, a property of others

        @property
        def n_states(self) -> int: ...

    @abstractmethod
    def law(self, values: Values, log_density: np.ndarray, offsets: np.ndarray) -> Law:
        """The states at these parameters, given the data.

        Parameters
        ----------
        values
            What is learned, by name.
        log_density : ndarray (n_rows, n_states)
            log p(row | state), zeros for a missing row.
        offsets : ndarray (n_sequences + 1,)
            Where sequences begin and end in the rows.
        """

    @abstractmethod
    def simulate(self, values: Values, uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """States (n_rows,) drawn without data, by one uniform number a row."""

    #: How often each row counts; None where each does once. Rows that count differently are sequences of their own.
    row_weights: np.ndarray | None = None

    def one_pass(
        self, values: Values, emission: Any, parameters: Mapping[str, Any], rows: np.ndarray
    ) -> tuple[float, dict[str, Any]] | None:
        """Log evidence, expected counts and the emission's totals of complete rows by a fused kernel, if there is one.

        Parameters
        ----------
        emission : Emission
        parameters
            As the emission takes them.
        rows : ndarray
            Contiguous.
        """
        return None

    def prefix(self, n_rows: int) -> Self:
        """The same on the first rows."""
        return self

    def of_sequences(self, which: np.ndarray, rows: np.ndarray) -> Self:
        """The same on some of the sequences, which hold these rows."""
        return self

    # ------------------------------------------------------------------ parameters

    @property
    @abstractmethod
    def learned(self) -> tuple[str, ...]:
        """Names of what is unknown."""

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """What is known, and goes along with what is learned."""
        return {}

    @abstractmethod
    def complete(self, values: Values) -> dict[str, np.ndarray]:
        """All probabilities, the known ones with the unknown ones' values."""

    @abstractmethod
    def dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of a parameter."""

    @abstractmethod
    def concentration(self, name: str) -> np.ndarray:
        """Of the Dirichlet prior of a parameter; zero where a probability is."""

    def kind(self, name: str) -> str:
        """What values a parameter can have, as EM's coordinates call it."""
        return "simplex"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.concentration(name).shape

    def labels(self) -> dict[str, np.ndarray]:
        """Of dimensions that are not states."""
        return {}

    @property
    def symmetric(self) -> bool:
        """Whether nothing here tells one state from another."""
        return False

    @property
    def n_free(self) -> int:
        """Free parameters."""
        return sum(int(np.maximum((self.concentration(n) > 0).sum(axis=-1) - 1, 0).sum()) for n in self.learned)

    def prior_text(self, name: str) -> str:
        """The prior of a parameter, for people."""
        rows = np.unique(np.atleast_2d(self.concentration(name)), axis=0)
        shown = ", ".join(f"{x:g}" for x in rows[0].ravel())
        return f"Dirichlet([{shown}])" if rows.shape[0] == 1 and rows.ndim == 2 else "Dirichlet, row by row"

    def internal(self, values: Values) -> dict[str, np.ndarray]:
        """Draws of the variables behind parameters, by their names."""
        return {}

    # ------------------------------------------------------------------ learning

    @property
    @abstractmethod
    def how(self) -> str:
        """What EM does, for people."""

    @property
    def no_em(self) -> str:
        """Why EM does not apply, if it does not."""
        return ""

    @property
    def no_gibbs(self) -> str:
        """Why Gibbs steps do not apply; empty where they do."""
        return ""

    def draw_given(self, rng: np.random.Generator, counts: Values, values: Values) -> dict[str, np.ndarray]:
        """What is learned, from its posterior given counts of states; ``values`` are those before."""
        out = {}
        for name in self.learned:
            prior = self.concentration(name)
            out[name] = draw_probabilities(rng, np.where(prior > 0, prior + counts[name], 0.0))
        return out | self.constants

    @abstractmethod
    def start_values(self) -> dict[str, np.ndarray]:
        """Values of what is unknown where a search can begin, the same every time."""

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        """Random values of what is unknown."""
        out = {}
        for name in self.learned:
            gammas = rng.standard_gamma(np.where(self.concentration(name) > 0, weight, 0.0))
            out[name] = gammas / gammas.sum(axis=-1, keepdims=True)
        return out

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        """The most probable parameters for expected counts: the M-step.

        Parameters
        ----------
        prior : bool
            Whether the prior counts; otherwise the likelihood alone does.
        start
            Where the counts come from: the start of M-steps that are iterations themselves.
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
        """Expected counts with those of the prior, zero where there is no way."""
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
            exponent = np.where(self.concentration(name) > 0, self.concentration(name) - 1, 0.0)
            used = exponent != 0
            with np.errstate(divide="ignore"):
                total += float(np.sum(exponent[used] * np.log(values[name][used])))
        return total

    def constrained(self, values: Values) -> dict[str, np.ndarray]:
        """Those of the values that a search moved off a constraint, put back without a change of the likelihood."""
        return {}

    # ------------------------------------------------------------------ PyMC

    @abstractmethod
    def variables(self, start: Values | None) -> dict[str, Any]:
        """What is unknown as random variables on PyMC's context stack, and what is known as constants."""

    @abstractmethod
    def evidence(self, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        """log p(rows | parameters) as a PyTensor expression."""
