"""Parallel tempering: copies of a chain at several temperatures that exchange their structures [1]_.

The copy at the inverse temperature b uses scores multiplied by b. Hot copies cross valleys that the cold copy does not.
At regular intervals, exchanges of structures between neighbouring temperatures are proposed and accepted by the
Metropolis ratio, which leaves the distribution of each copy invariant. Draws are those of the cold copy, b = 1. For
orders and partitions the scores of the DAGs within their sums are tempered.

The hot copies find new modes, but only the cold copy draws. If its steps are cheap it takes many steps for each hot
step, so that most of the time is spent on draws without reducing the rate of crossings between modes.

References
----------
.. [1] Geyer (1991). Markov chain Monte Carlo maximum likelihood. Computing Science and Statistics 23, 156-163.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.structure.chains import Info, State, load
from bayeslab.structure.chains.toolbox.common import Schedule, seeds, share
from bayeslab.structure.score_table import ScoreTable

__all__ = ["Tempered", "scaled"]

# A copy without draws.
_NEVER = 1 << 62
_OWN = ("rng", "steps")
_SCALED: WeakKeyDictionary[ScoreTable, dict[float, ScoreTable]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Tempered:
    """A chain at several temperatures, with the interface of a chain.

    Parameters
    ----------
    chain : str
        Name of the chain.
    betas : tuple of float
        Inverse temperatures: 1 first, decreasing, positive.
    every : int
        Steps of each hot copy between two rounds of exchanges.
    options : mapping
        Options of the chain.
    cold : int, optional
        Steps of the cold copy for each step of a hot one; default: ``COLD`` of the chain.

    Notes
    -----
    ``n_steps`` and ``thin`` count steps of the cold copy. The hot copies take their steps when an exchange is due:
    after every ``every`` times ``cold`` steps of the cold copy. The names in the state are those of the chain prefixed
    by the number of the temperature, as in ``0.order``.
    """

    chain: str
    betas: tuple[float, ...] = (1.0, 0.8, 0.6, 0.45, 0.3)
    every: int = 200
    options: Mapping[str, Any] = field(default_factory=dict)
    cold: int | None = None

    def __post_init__(self) -> None:
        falling = all(a > b > 0 for a, b in zip(self.betas, self.betas[1:], strict=False))
        if not self.betas or self.betas[0] != 1.0 or not falling:
            raise OptionError(
                f"inverse temperatures begin with 1 and fall, all above 0; given {self.betas}", code="out-of-range"
            )
        if self.every < 1:
            raise OptionError(f"exchanges happen every 1 or more steps; given {self.every}", code="out-of-range")
        if self.cold is not None and self.cold < 1:
            raise OptionError(
                f"cold is 1 or more steps of the cold copy for one of a hot copy; given {self.cold}",
                code="out-of-range",
            )
        load(self.chain)

    @property
    def PRIOR(self) -> str:
        """The prior of the chain."""
        prior: str = self._chain.PRIOR
        return prior

    @property
    def _chain(self) -> ModuleType:
        return load(self.chain)

    @property
    def _round(self) -> int:
        """Steps of the cold copy between two rounds of exchanges."""
        cold: int = self._chain.COLD if self.cold is None else self.cold
        return self.every * cold

    def init(self, table: ScoreTable, rng: np.random.Generator) -> State:
        """Return one start for each temperature."""
        copies = [self._chain.init(scaled(table, beta), rng) for beta in self.betas]
        return _joined(copies, seeds(rng), 0)

    def run(
        self, table: ScoreTable, state: State, n_steps: int, thin: int = 1
    ) -> tuple[State, NDArray[np.int32], Info]:
        """Run more steps (see :mod:`bayeslab.structure.chains`); ``info`` counts exchanges as ``exchange``."""
        plan = Schedule.of(table, state, n_steps, thin, 1)
        copies = [_part(state, k) for k in range(len(self.betas))]
        tables = [scaled(table, beta) for beta in self.betas]
        rng = state["rng"].copy()
        done, left, pieces, infos = plan.done, n_steps, [plan.draws[:0]], []
        while left:
            steps = min(left, self._round - done % self._round)
            copies[0], draws, info = self._chain.run(table, copies[0], steps, thin, **self.options)
            pieces.append(draws)
            infos.append(info)
            done, left = done + steps, left - steps
            if done % self._round == 0:
                for k in range(1, len(copies)):
                    copies[k], _, _ = self._chain.run(tables[k], copies[k], self.every, _NEVER, **self.options)
                self._exchange(tables, copies, rng, plan.counts)
        draws = np.concatenate(pieces)
        return _joined(copies, rng, done), draws, self._info(table, draws, infos, plan)

    def log_weight(self, table: ScoreTable, state: State) -> float:
        """Log weight of the cold copy."""
        weight: float = self._chain.log_weight(table, _part(state, 0))
        return weight

    def _exchange(
        self, tables: list[ScoreTable], copies: list[State], rng: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> None:
        from bayeslab.structure.chains.toolbox.kernels import uniforms

        weight = self._chain.log_weight
        draws = uniforms(rng, len(copies))
        for k in range(len(copies) - 1):
            a, b = copies[k], copies[k + 1]
            there = weight(tables[k], b) + weight(tables[k + 1], a)
            here = weight(tables[k], a) + weight(tables[k + 1], b)
            counts[0, 0] += 1
            if np.log(1.0 - draws[k]) < there - here:
                counts[0, 1] += 1
                copies[k], copies[k + 1] = _with_structure(a, b), _with_structure(b, a)

    def _info(self, table: ScoreTable, draws: NDArray[np.int32], infos: list[Info], plan: Schedule) -> Info:
        kinds = self._chain.KINDS
        proposed = {kind: sum(info.proposed[kind] for info in infos) for kind in kinds}
        accepted = {kind: sum(info.accepted[kind] for info in infos) for kind in kinds}
        exchanges = {"exchange": int(plan.counts[0, 0])}, {"exchange": int(plan.counts[0, 1])}
        return Info(table.scores[draws].sum(axis=1), proposed | exchanges[0], accepted | exchanges[1])


def scaled(table: ScoreTable, beta: float) -> ScoreTable:
    """The table with scores times an inverse temperature; cached for the lifetime of the table."""
    if beta == 1.0:
        return table
    made = _SCALED.setdefault(table, {})
    if beta not in made:
        scaled = ScoreTable(table.names, table.pointer, table.sets, table.scores * beta, table.score, table.prior)
        share(scaled, table)
        made[beta] = scaled
    return made[beta]


def _part(state: State, k: int) -> State:
    head = f"{k}."
    return {word.removeprefix(head): array for word, array in state.items() if word.startswith(head)}


def _joined(copies: list[State], rng: NDArray[np.uint64], done: int) -> State:
    out = {f"{k}.{word}": array for k, copy in enumerate(copies) for word, array in copy.items()}
    return out | {"rng": rng, "steps": np.array([done], np.int64)}


def _with_structure(mine: State, other: State) -> State:
    """Return the structure of another copy with the random numbers of this copy."""
    return {word: mine[word] if word in _OWN else other[word] for word in mine}
