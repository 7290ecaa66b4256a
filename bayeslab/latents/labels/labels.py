"""Labels of rows: each row comes from one of K components, independently of the others.

The weights are common to all rows, or depend on inputs through a multinomial logit gate; with regressions as components
this is a mixture of experts [1]_. Some labels may be known (semi-supervised learning): only the ``allowed`` components
of a row are then possible. Labels that may be wrong are a further categorical column, whose table is the confusion
matrix.

References
----------
.. [1] Jordan, Jacobs (1994). Hierarchical mixtures of experts and the EM algorithm. Neural Computation 6, 181-214.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.distributions.emissions.components import ANY, normalise
from bayeslab.distributions.toolbox.logarithms import log_sum
from bayeslab.errors import DataError, EvidenceError, OptionError
from bayeslab.language.writer import Writer
from bayeslab.latents.latent import Drawn, Expected, Latent, Law, Values
from bayeslab.latents.multinomial_logit import fit_gate

__all__ = ["LabelLaw", "Labels", "drawn_labels"]


@dataclass(frozen=True, eq=False)
class Labels(Latent):
    """Components of rows, by weights or by a gate.

    The learned parameter is ``weights`` (K,) or, with inputs, ``gate`` (K, q), whose first row is zero.

    Attributes
    ----------
    n_states : int
        Number of components.
    dirichlet : float or ndarray (K,)
        Concentration of the Dirichlet prior of the weights; 1 is uniform.
    fixed_weights : ndarray (K,), optional
    row_weights : ndarray (N,), optional
        Weight of each row.
    allowed : ndarray (N, K) of bool, optional
        The possible components of each row; a single one for a known label.
    inputs : ndarray (N, q), optional
        Inputs of the gate, with a column of ones.
    gate_precision : float
        Precision of the normal prior of the gate's coefficients.
    """

    n_states: int
    dirichlet: float | np.ndarray = 1.0
    fixed_weights: np.ndarray | None = None
    row_weights: np.ndarray | None = None
    allowed: np.ndarray | None = None
    inputs: np.ndarray | None = None
    gate_precision: float = 1e-6

    how = "components are summed out row by row"

    # ------------------------------------------------------------------ rows

    def on(self, allowed: np.ndarray | None = None, inputs: np.ndarray | None = None) -> Labels:
        """The same latent for other rows, each with weight one."""
        return replace(self, allowed=allowed, inputs=inputs, row_weights=None)

    def at(self, rows: np.ndarray) -> Labels:
        """The same latent for some of the rows, by index or by mask."""

        def some(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        return replace(self, allowed=some(self.allowed), inputs=some(self.inputs), row_weights=some(self.row_weights))

    def prefix(self, n_rows: int) -> Labels:
        return self.at(np.arange(n_rows))

    def of_sequences(self, which: np.ndarray, rows: np.ndarray) -> Labels:
        return self.at(rows)

    @property
    def plain(self) -> bool:
        """Whether all rows have the same weights."""
        return self.allowed is None and self.inputs is None

    def check(self, n_rows: int) -> None:
        """Check the shapes for this number of rows.

        Raises
        ------
        OptionError, DataError
        """
        for name, value in (("row_weights", self.row_weights), ("allowed", self.allowed), ("inputs", self.inputs)):
            if value is not None and len(value) != n_rows:
                raise DataError(
                    f"{name} has {len(value)} entries for {n_rows} rows; give one per row", code="wrong-length"
                )
        if self.row_weights is not None and not (np.all(self.row_weights >= 0) and np.isfinite(self.row_weights).all()):
            raise DataError(
                "row weights are finite and not negative; remove or correct the others", code="out-of-range"
            )
        if self.row_weights is not None and not self.row_weights.sum() > 0:
            raise DataError("all row weights are zero; give some rows a positive weight", code="nothing-observed")
        if self.fixed_weights is not None and not _is_distribution(self.fixed_weights, self.n_states):
            raise OptionError(
                f"fixed weights are {self.n_states} probabilities that add up to 1, one for each component",
                code="not-probabilities",
            )
        if self.allowed is not None and not self.allowed.any(axis=1).all():
            raise DataError(
                f"row {int(np.argmin(self.allowed.any(axis=1)))} is allowed no component; allow at least one",
                code="not-allowed",
            )
        if self.inputs is not None and not np.isfinite(self.inputs).all():
            raise DataError(
                "the gate's inputs have missing or infinite cells; fill or remove those rows", code="missing"
            )

    # ------------------------------------------------------------------ the law of the labels

    def log_weights(self, values: Values) -> np.ndarray:
        """Log prior probabilities (K,), or (N, K) if rows differ."""
        if self.inputs is not None:
            eta = self.inputs @ values["gate"].T
            log_weights = eta - log_sum(eta, axis=1, keepdims=True)
        else:
            with np.errstate(divide="ignore"):
                log_weights = np.log(values["weights"])
        return log_weights if self.allowed is None else np.where(self.allowed, log_weights, -np.inf)

    def law(self, values: Values, log_density: np.ndarray, offsets: np.ndarray | None = None) -> LabelLaw:
        return LabelLaw(self, self.log_weights(values), log_density)

    def simulate(self, values: Values, uniform: np.ndarray, offsets: np.ndarray | None = None) -> np.ndarray:
        return drawn_labels(np.exp(np.atleast_2d(self.log_weights(values))), uniform)

    def counts(self, responsibilities: np.ndarray) -> dict[str, np.ndarray]:
        """Expected counts: ``weights`` (K,), or for a gate of each row (N, K)."""
        if self.row_weights is not None:
            responsibilities = responsibilities * self.row_weights[:, None]
        out = {"weights": responsibilities.sum(axis=0)}
        return out | {"gate": responsibilities} if self.inputs is not None else out

    # ------------------------------------------------------------------ parameters

    @property
    def learned(self) -> tuple[str, ...]:
        if self.inputs is not None:
            return ("gate",)
        return () if self.fixed_weights is not None else ("weights",)

    @property
    def constants(self) -> dict[str, np.ndarray]:
        fixed = self.fixed_weights
        return {} if fixed is None or self.inputs is not None else {"weights": np.asarray(fixed, float)}

    def complete(self, values: Values) -> dict[str, np.ndarray]:
        """The weights, or the coefficients of a gate."""
        name = "weights" if self.inputs is None else "gate"
        return {name: np.asarray(values[name])} | self.constants

    def dims(self, name: str) -> tuple[str, ...]:
        return ("component", "input") if name == "gate" else ("component",)

    def shape(self, name: str) -> tuple[int, ...]:
        if name == "gate" and self.inputs is not None:
            return self.n_states, self.inputs.shape[1]
        return (self.n_states,)

    def kind(self, name: str) -> str:
        return "real" if name == "gate" else "simplex"

    @cached_property
    def prior_counts(self) -> np.ndarray:
        """Concentrations (K,) of the Dirichlet prior of the weights."""
        return np.broadcast_to(np.asarray(self.dirichlet, float), (self.n_states,))

    def concentration(self, name: str) -> np.ndarray:
        return self.prior_counts

    @property
    def symmetric(self) -> bool:
        alike = bool(np.ptp(self.prior_counts) == 0) if self.fixed_weights is None else np.ptp(self.fixed_weights) == 0
        return bool(alike) and self.allowed is None

    @property
    def n_free(self) -> int:
        if self.inputs is not None:
            return (self.n_states - 1) * self.inputs.shape[1]
        return 0 if self.fixed_weights is not None else self.n_states - 1

    def prior_text(self, name: str) -> str:
        if name == "gate":
            return f"Normal(0, {self.gate_precision**-0.5:.3g}) on standardised inputs"
        return f"Dirichlet({', '.join(f'{a:g}' for a in np.atleast_1d(self.dirichlet))})"

    # ------------------------------------------------------------------ learning

    def start_values(self) -> dict[str, np.ndarray]:
        """Equal weights."""
        if self.inputs is not None:
            return {"gate": np.zeros(self.shape("gate"))}
        return {"weights": np.full(self.n_states, 1 / self.n_states)} | self.constants

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        if self.inputs is None:
            return super().draw(rng, weight) | self.constants
        gate = 0.3 * rng.standard_normal(self.shape("gate"))
        return {"gate": gate - gate[0]}

    @property
    def no_gibbs(self) -> str:
        return "a gate has no conjugate prior; use nuts or em" if self.inputs is not None else ""

    def maximise(self, counts: Values, *, prior: bool, start: Values | None = None) -> dict[str, np.ndarray]:
        if self.inputs is None:
            return super().maximise(counts, prior=prior) | self.constants
        before = np.zeros(self.shape("gate")) if start is None else np.asarray(start["gate"])
        return {"gate": fit_gate(self.inputs, counts["gate"], before, self.gate_precision if prior else 1e-9)}

    def expected_log_density(self, counts: Values, values: Values) -> float:
        if self.inputs is None:
            return super().expected_log_density(counts, values)
        eta = self.inputs @ values["gate"].T
        return float(np.sum(counts["gate"] * (eta - log_sum(eta, axis=1, keepdims=True))))

    def log_prior(self, values: Values) -> float:
        if self.inputs is None:
            return super().log_prior(values)
        return -0.5 * self.gate_precision * float(np.sum(values["gate"] ** 2))

    def constrained(self, values: Values) -> dict[str, np.ndarray]:
        """The gate relative to its first row, from any of the equivalent coordinates of a search."""
        return {"gate": values["gate"] - values["gate"][0]} if self.inputs is not None else {}

    def one_pass(
        self, values: Values, emission: Any, parameters: Mapping[str, Any], rows: np.ndarray
    ) -> tuple[float, dict[str, Any]] | None:
        if not self.plain or not emission.has_one_pass:
            return None
        weights = self._row_weights
        value, statistics = emission.one_pass(self.log_weights(values), parameters, rows, weights)
        total = statistics["weight"]
        return value, statistics | {"weights": total if total.ndim == 1 else total[:, 0]}

    @cached_property
    def _row_weights(self) -> np.ndarray:
        """Row weights in the kernels' form: empty if each row has weight one."""
        return np.empty(0) if self.row_weights is None else np.ascontiguousarray(self.row_weights, float)

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer, start: Values | None) -> dict[str, Any]:
        """The weights or the gate, and ``log_weights`` (K,), or (N, K) with a gate."""
        k = self.n_states
        if self.inputs is not None:
            shape = (k - 1, self.inputs.shape[1])
            first = None if start is None else start["gate"][1:]
            given = {"mu": 0.0, "sigma": self.gate_precision**-0.5}
            free = writer.random("_gate", "Normal", given, shape, start=first)
            whole = writer.joined([np.zeros((1, shape[1])), free])
            gate = writer.computed("gate", whole, self.dims("gate"))
            eta = writer.dot(self.inputs, gate.T)
            return {"gate": gate, "log_weights": eta - writer.log_sum_exp(eta, 1)}
        if k == 1:
            weights = writer.computed("weights", writer.constant(np.ones(1)), ("component",))
            return {"weights": weights, "log_weights": writer.log(weights)}
        first = None
        if start is not None:
            first = np.maximum(start["weights"], 0.1 / k)
            first = first / first.sum()
        given = {"a": self.prior_counts}
        weights = writer.random("weights", "Dirichlet", given, (k,), dims=("component",), start=first)
        return {"weights": weights, "log_weights": writer.log(weights)}

    def evidence(
        self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray | None = None
    ) -> Any:
        log_weights = values["log_weights"]
        if not self.plain:
            log_density = log_density + (log_weights if self.inputs is not None else log_weights[None, :])
            log_weights = np.zeros(self.n_states)
        if self.allowed is not None:
            log_density = log_density + np.where(self.allowed, 0.0, -np.inf)
        return writer.evidence(ANY, (log_weights, log_density), np.array([self.n_states]))


@dataclass(frozen=True, eq=False)
class LabelLaw(Law):
    """Labels given parameters and data; every row is a separate sequence.

    Attributes
    ----------
    labels : Labels
    log_weights : ndarray (K,) or (N, K)
    log_density : ndarray (N, K)
    """

    labels: Labels
    log_weights: np.ndarray
    log_density: np.ndarray

    condition = "in every component"

    @cached_property
    def _normalised(self) -> tuple[np.ndarray, np.ndarray]:
        return normalise(self.log_weights, self.log_density)

    def expected(self) -> Expected:
        log_evidence, responsibilities = self._normalised
        return Expected(log_evidence, responsibilities, self.labels.counts(responsibilities))

    def impossible(self) -> np.ndarray:
        return np.where(self._normalised[0] > -np.inf, -1, np.arange(len(self.log_density)))

    def filter(self, kind: str) -> np.ndarray:
        """Responsibilities or, before the row is observed, the weights, since rows are independent."""
        if kind == "predict":
            return np.broadcast_to(np.exp(self.log_weights), self.log_density.shape)
        return self._normalised[1]

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        return self._normalised[0]

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n most probable labels of each row, and their joint log probabilities with the row."""
        joint = self.log_weights + self.log_density
        order = np.argsort(-joint, axis=1, kind="stable")[:, :n]
        heights = np.take_along_axis(joint, order, axis=1)
        states = np.where(heights > -np.inf, order, -1)
        lacking = ((0, n - order.shape[1]), (0, 0))
        return np.pad(states.T, lacking, constant_values=-1), np.pad(heights.T, lacking, constant_values=-np.inf)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        responsibilities = self._normalised[1]
        return drawn_labels(responsibilities, rng.random(len(responsibilities)))

    def draw(self, rng: np.random.Generator) -> Drawn:
        log_evidence = self.log_likelihoods(True)
        if (lost := log_evidence == -np.inf).any():
            raise EvidenceError(
                f"row {int(np.argmax(lost))} has probability zero in every component", code="probability-zero"
            )
        states = self.sample(rng)
        counts = np.bincount(states, minlength=self.labels.n_states).astype(float)
        return Drawn(states, {"weights": counts}, float(log_evidence.sum()))


def drawn_labels(probabilities: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draw labels (N,) with one uniform number for each row.

    Parameters
    ----------
    probabilities : ndarray (N, K) or (1, K)
        Up to a factor for each row.
    uniform : ndarray (N,)
    """
    cumulated = np.cumsum(probabilities, axis=1)
    return np.asarray((uniform[:, None] * cumulated[:, -1:] >= cumulated).sum(axis=1))


def _is_distribution(weights: np.ndarray, size: int) -> bool:
    return np.shape(weights) == (size,) and bool(np.all(weights >= 0)) and abs(float(np.sum(weights)) - 1) < 1e-9
