"""A hidden chain bound to its data: sequences, chain and observed parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.data.sequences import Sequences
from bayeslab.errors import DataError
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.state_chain import StateChain
from bayeslab.latents.latent import Law
from bayeslab.posterior.chains import classes, product_labels, product_starts
from bayeslab.posterior.latent_problem import LatentModel
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.similar_rows import membership, merged, similar_rows

__all__ = ["Hidden"]

# Largest number of rows used to find starting points.
_SOME = 20_000


@dataclass(frozen=True, eq=False)
class Hidden:
    """A model and its data.

    Attributes
    ----------
    states : ndarray (n_states,)
        Names of the states.
    chain : StateChain
    parts : tuple of StatePart
        Parts of the emission.
    sequences : Sequences
    rows : ndarray (n_times, n_columns)
        NaN for missing cells.
    observed : bool
        Whether the rows are the states themselves.
    """

    states: np.ndarray
    chain: StateChain
    parts: tuple[StatePart, ...]
    sequences: Sequences
    rows: np.ndarray
    observed: bool = False

    @property
    def n_states(self) -> int:
        return len(self.states)

    def position(self, column: str) -> int:
        """Position of a column in the rows."""
        return next(part.position(column) for part in self.parts if column in part.columns)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of all unknown parameters."""
        return (*self.chain.learned, *(name for part in self.parts for name in part.learned))

    @property
    def n_free(self) -> int:
        """Number of free parameters; a probability vector has one less than its length."""
        return self.chain.n_free + sum(part.n_free for part in self.parts)

    @property
    def exchangeable(self) -> bool:
        """Whether states are exchangeable: nothing in the model tells them apart."""
        return (
            self.n_states > 1
            and not self.observed
            and self.chain.symmetric
            and all(part.symmetric for part in self.parts)
        )

    @property
    def in_order(self) -> tuple[str, ...]:
        """Parameters whose priors order the states."""
        return tuple(name for part in self.parts for name in part.in_order)

    @property
    def numbering(self) -> str | None:
        """The parameter whose order alone identifies the states, if there is one."""
        names = self.in_order
        if len(names) != 1 or not self.chain.symmetric or self.observed:
            return None
        same = all(np.ptp(v, axis=0).max(initial=0) == 0 for part in self.parts for v in part.known.values())
        return names[0] if same and all(part.even for part in self.parts) else None

    @property
    def blocks(self) -> tuple[np.ndarray, ...]:
        """Groups of exchangeable states: all, none, or those of each class."""
        if isinstance(self.chain, ClassChain):
            return self.chain.blocks if all(part.symmetric for part in self.parts) else ()
        return (np.arange(self.n_states),) if self.exchangeable else ()

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of every unknown parameter."""
        chain_dims = {name: self.chain.dims(name) for name in self.chain.learned}
        return chain_dims | {name: part.dims(name) for part in self.parts for name in part.learned}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        out = dict.fromkeys(("state", "next_state", "state_before"), self.states) | self.chain.labels()
        for part in self.parts:
            out |= part.labels()
        return out

    def problem(self, prior: bool = True) -> LatentModel:
        """The model in EM's form, with or without priors."""
        return LatentModel(self.chain, self.parts, self.rows, self.sequences.offsets, prior)

    def log_emission(self, values: Mapping[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """log p(row | state), (n_times, n_states)."""
        rows = self.rows if rows is None else rows
        out = np.zeros((len(rows), self.n_states))
        for part in self.parts:
            out += part.log_density(values, rows)
        return out

    def computed(self, values: Mapping[str, np.ndarray]) -> tuple[HiddenChain, np.ndarray]:
        """The chain and its log emissions, in the form of :mod:`bayeslab.latents.chains.forward_backward`."""
        log_emission = self.log_emission(values)
        return self.chain.hidden(values), log_emission[:, self.chain.last] if self.chain.expanded else log_emission

    def law(self, values: Mapping[str, np.ndarray], log_emission: np.ndarray | None = None) -> Law:
        """The distribution of the hidden states given the data at these values; ``log_emission`` may be passed if
        known.
        """
        log_emission = self.log_emission(values) if log_emission is None else log_emission
        return self.chain.law(values, log_emission, self.sequences.offsets)

    def prefix(self, most: int) -> Hidden:
        """The same model on the first ``most`` times."""
        if self.sequences.n_times <= most:
            return self
        first = self.sequences.prefix(most)
        return replace(self, chain=self.chain.prefix(first.n_times), sequences=first, rows=self.rows[: first.n_times])

    def permuted(self, values: Mapping[str, np.ndarray], order: np.ndarray, lead: int = 0) -> dict[str, np.ndarray]:
        """Values with old state ``order[..., k]`` as new state k; ``lead`` axes precede those of the parameters."""
        out, dims = {}, self.dims
        for name, value in values.items():
            for axis, dim in enumerate(dims.get(name, ())):
                if dim in ("state", "next_state", "state_before"):
                    shape = [1] * value.ndim
                    shape[:lead], shape[lead + axis] = order.shape[:lead], order.shape[-1]
                    value = np.take_along_axis(value, order.reshape(shape), axis=lead + axis)
            out[name] = value
        return out

    def rule(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The states sorted by a learned parameter of the first column; unsorted if it has none."""
        order = np.arange(self.n_states)
        if not self.parts[0].learned:
            return order
        location = self.parts[0].location(values)
        location = location.reshape(len(location), -1)[:, 0]
        for block in self.blocks:
            order[block] = block[np.argsort(location[block], kind="stable")]
        return order

    def numbered(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values with exchangeable states in the order of :meth:`rule`."""
        if isinstance(self.chain, ProductChain):
            return product_labels.numbered(self, values)
        if (name := self.numbering) is not None and name in values:
            return self.settled(self.permuted(values, np.argsort(values[name], kind="stable")))
        if not self.blocks or not any(name in values for name in self.parts[0].learned):
            return self.settled(values)
        return self.settled(self.permuted(values, self.rule(values)))

    def settled(self, values: Mapping[str, np.ndarray], lead: int = 0) -> dict[str, np.ndarray]:
        """Values with the mixture components inside states in a fixed order; ``lead`` as in :meth:`permuted`."""
        out = dict(values)
        for part in self.parts:
            out = part.ordered(out, lead)
        return out

    @property
    def layered(self) -> bool:
        """Whether states have exchangeable mixture components."""
        return any(part.layered for part in self.parts)

    @property
    def ruled_by(self) -> str:
        """Description of the order of :meth:`rule`, for users."""
        return self.parts[0].ruled_by

    def guess(self, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """A start value: from groups of similar rows; random, or without ``rng`` deterministic."""
        generator = rng if rng is not None else np.random.default_rng(0)
        if isinstance(self.chain, ProductChain):
            return product_starts.starting_values(self, rng)
        groups = classes.starting_weights if isinstance(self.chain, ClassChain) else _grouped
        rows, weights = groups(self, generator, rng is not None)
        out = self.numbered(self.emitting(rows, weights))
        return out | (self.chain.draw(rng) if rng is not None else self.chain.start_values())

    def scattered(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """A random start value like :meth:`guess`, with a random assignment of groups to states."""
        start = self.guess(rng)
        if isinstance(self.chain, ProductChain) or self.n_states < 2:
            return start
        rows = self.rows[:_SOME]
        weights = rng.dirichlet(np.full(self.n_states, 0.3), len(rows))
        emitted = self.emitting(rows, weights)
        if self.exchangeable:
            return start | self.numbered(emitted)
        order = rng.permutation(self.n_states)
        return start | self.settled(self.permuted(emitted, order))

    def emitting(self, rows: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        """The posterior modes of emission parameters, for rows with state weights (n_rows, n_states)."""
        out: dict[str, np.ndarray] = {}
        for part in self.parts:
            statistics = part.emission.statistics(part.select(rows), weights)
            parameters = part.from_emission(part.emission.maximise(statistics))
            out |= part.within_priors(parameters)
        return out

    def internal(self, values: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Auxiliary variables behind parameters in the draws, permuted as the parameters are."""
        variables = [(name, value) for part in self.parts for name, value in part.internal(values).items()]
        variables += self.chain.internal(values).items()
        same = {name: np.isclose(value, draws[name], rtol=1e-9, atol=0) for name, value in variables if name in draws}
        # Unmoved values stay bit-identical.
        return {name: np.where(same[name], draws[name], value) for name, value in variables if name in draws}

    def of_sequences(self, which: np.ndarray) -> Hidden:
        """The same model on some of the sequences."""
        offsets = self.sequences.offsets
        times = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in which])
        return replace(
            self,
            chain=self.chain.of_sequences(which, times),
            sequences=self.sequences.some(which),
            rows=self.rows[times],
        )

    def check_possible(self, values: Mapping[str, np.ndarray]) -> None:
        """Refuse data to which the zeros of the model give probability zero.

        Raises
        ------
        DataError
            The data have probability zero; the message gives the sequence, the time and the value.
        """
        law = self.law(values)
        impossible = law.impossible()
        bad = np.flatnonzero(impossible >= 0)
        if not len(bad):
            return
        row = int(impossible[bad[0]])
        whose = f" of sequence '{self.sequences.names[bad[0]]}'" if self.sequences.n_sequences > 1 else ""
        cells = np.flatnonzero(self.sequences.at == row)
        where = f"row {cells[0] + 1}" if len(cells) else f"time {self.sequences.times[row]}"
        raise DataError(
            f"{where}{whose} has probability zero {law.condition}, whatever the state: check the"
            " values, and zeros in initial, transition and parameters",
            code="probability-zero",
        )


def _grouped(hidden: Hidden, rng: np.random.Generator, jitter: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their state weights: mostly 1 for the state of the row's group of similar rows."""
    rows = hidden.rows[:_SOME]
    n, finer = hidden.n_states, max(part.n_layers for part in hidden.parts)
    n_observed = int((~np.isnan(rows).all(axis=1)).sum())
    n_groups = n * min(finer, max(1, n_observed // n))
    groups = similar_rows(hidden.parts, rows, n_groups, rng)
    if finer > 1 and (known := groups >= 0).any():
        groups[known] = merged(groups[known], n_groups, n, rng if jitter else None)
    noise = rng.dirichlet(np.ones(n), len(rows)) if jitter else 1.0 / n
    return rows, 0.75 * membership(groups, n) + 0.25 * noise
