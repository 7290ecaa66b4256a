"""The nodes of a model on their natural scale, as a program of the density machine.

Values of random nodes are the coordinates of the program's point, and those of discrete nodes are its unknowns. The
parameters of a node's distribution are computed at all draws at once, and then its draws are made by NumPy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import DataError
from bayeslab.posterior.generative import Generative, inside_domains
from bayeslab.posterior.machine.arrays import Instruction, NotLowered, Var
from bayeslab.posterior.machine.laws import Law, Scalar
from bayeslab.posterior.machine.program import Builder, Program, live
from bayeslab.posterior.machine.slow import outputs

__all__ = ["MachineGenerative", "ObservedNode", "RandomNode"]

# Numbers that are computed at a time, and draws of all nodes that are made together.
_BLOCK, _TOGETHER = 10_000_000, 64
# Largest number of draws of a vector until one is in order.
_TRIES = 10_000


@dataclass(frozen=True, eq=False)
class RandomNode:
    """A random node that holds no data.

    Attributes
    ----------
    name : str
    law : Law
    value : Var
    in_order : bool
        Whether draws increase along their last axis.
    in_turn : bool
        Whether the parameters of a row depend on the rows before it.
    """

    name: str
    law: Law
    value: Var
    in_order: bool = False
    in_turn: bool = False

    @property
    def discrete(self) -> bool:
        """Whether values are whole numbers."""
        return self.value.summed


@dataclass(frozen=True, eq=False)
class ObservedNode:
    """The cells of a node that are there.

    Attributes
    ----------
    name : str
    law : Law
    values : Var
    """

    name: str
    law: Law
    values: Var


@dataclass(frozen=True, eq=False)
class MachineGenerative(Generative):
    """The nodes of a program.

    Attributes
    ----------
    builder : Builder
    nodes : tuple of RandomNode
        In topological order.
    values : dict of str to Var
        Deterministic nodes.
    observed : tuple of ObservedNode
    dims, coords : mapping
        Names of the axes of variables, and labels of dimensions.
    """

    builder: Builder
    nodes: tuple[RandomNode, ...]
    values: Mapping[str, Var]
    observed: tuple[ObservedNode, ...]
    dims: Mapping[str, tuple[str | None, ...]]
    coords: Mapping[str, Sequence[Any] | None]

    @property
    def random(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def computed(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def undrawable(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if not node.law.drawable)

    def draw(
        self, names: Sequence[str], given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> dict[str, np.ndarray]:
        size = sum(self._var(name).size for name in names)
        if given:
            rng = np.random.default_rng(seed)
            blocks = [self._draw(names, some, rng, n) for some, n in _blocks(given, draws, size)]
        else:
            # Whole blocks, each with its own numbers: the first draws are the same for any number of draws.
            n = min(max(1, _BLOCK // max(size, 1)), _TOGETHER)
            seeds = np.random.SeedSequence(seed).spawn(-(-draws // n))
            blocks = [self._draw(names, {}, np.random.default_rng(each), n) for each in seeds]
        out = {name: np.concatenate([block[name] for block in blocks]) for name in names}
        return out if given else {name: values[:draws] for name, values in out.items()}

    def _draw(
        self, names: Sequence[str], given: Mapping[str, np.ndarray], rng: np.random.Generator, n: int
    ) -> dict[str, np.ndarray]:
        known = self._completed(names, given, rng, n)
        wanted = [name for name in names if name in self.values]
        made = dict(zip(wanted, self._at([self.values[name] for name in wanted], known, n), strict=True))
        return {name: made[name] if name in made else known[name] for name in names}

    def log_densities(
        self, given: Mapping[str, np.ndarray], draws: int = 1, without: Collection[str] = ()
    ) -> dict[str, np.ndarray] | None:
        observed = [node for node in self.observed if node.name not in without]
        try:
            logs = [node.law.log_density(node.values) for node in observed]
        except NotLowered:
            return None
        if not observed:
            return {}
        parts = [self._at(logs, some, n) for some, n in _blocks(given, draws, sum(var.size for var in logs))]
        each = (np.concatenate(part) for part in zip(*parts, strict=True))
        return {node.name: values for node, values in zip(observed, each, strict=True)}

    def probabilities(
        self, name: str, levels: np.ndarray, given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> np.ndarray | None:
        if name in self.values:
            return None
        law, rng = self._by_name[name].law, np.random.default_rng(seed)
        total: Any = 0.0
        if law.support or self._by_name[name].in_turn:
            return None
        try:
            logs = [law.log_density(self.builder.constant(np.full(law.shape, level))) for level in levels]
        except NotLowered:
            return None
        above = [node.name for node in self.nodes if node.name in self._read(logs)]
        for some, n in _blocks(given, draws, sum(var.size for var in logs)):
            known = self._completed(above, some, rng, n)
            total = total + np.stack([np.exp(each).sum(axis=0) for each in self._at(logs, known, n)])
        return np.asarray(total)

    @cached_property
    def _by_name(self) -> dict[str, RandomNode]:
        return {node.name: node for node in self.nodes}

    def _var(self, name: str) -> Var:
        return self.values[name] if name in self.values else self._by_name[name].value

    # ------------------------------------------------------------------------------- evaluation

    def _at(self, variables: Sequence[Var], known: Mapping[str, np.ndarray], n: int) -> list[np.ndarray]:
        """Values of arrays (n, ...) at draws of the nodes that they depend on."""
        moving = {str(k): var for k, var in enumerate(variables) if not var.constant}
        values = dict[str, np.ndarray]()
        if moving:
            points, unknown = np.zeros((n, self.builder.point.size)), []
            for node in self.nodes:
                if node.name not in known:
                    continue
                flat = known[node.name].reshape(n, -1)
                if node.discrete:
                    unknown.append((node.value.buffer, flat))
                else:
                    points[:, node.value.offset : node.value.offset + flat.shape[1]] = flat
            apart = {key: var for key, var in moving.items() if var.summed}
            rest = {key: var for key, var in moving.items() if not var.summed}
            if rest:
                values |= Program(self.builder, (), rest).outputs(points)
            if apart:
                needed = live(self.builder.instructions, [var.buffer for var in apart.values()])
                values |= outputs(self.builder.point, needed, apart, points, unknown)
        return [
            values[str(k)] if str(k) in values else np.broadcast_to(var.value, (n, *var.shape))
            for k, var in enumerate(variables)
        ]

    def _read(self, variables: Sequence[Var]) -> set[str]:
        """The random nodes that arrays are computed from."""
        needed = live(self.builder.instructions, [var.buffer for var in variables])
        flat = [i for item in needed for i in ([item] if isinstance(item, Instruction) else item.body)]
        used, out = [*variables, *(var for item in flat for var in item.inputs)], set[str]()
        first = [node for node in self.nodes if not node.discrete and node.value.size]
        starts = [node.value.offset for node in first]
        unknown = {id(node.value.buffer): node.name for node in self.nodes if node.discrete}
        for var in used:
            if var.buffer is self.builder.point and var.size:
                out.add(first[bisect_right(starts, var.offset) - 1].name)
            elif id(var.buffer) in unknown:
                out.add(unknown[id(var.buffer)])
        return out

    # ------------------------------------------------------------------------------------ draws

    def _completed(
        self, names: Sequence[str], given: Mapping[str, np.ndarray], rng: np.random.Generator, n: int
    ) -> dict[str, np.ndarray]:
        """Draws of nodes and of all on which they depend, unless they are given."""
        needed, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name in needed:
                continue
            needed.add(name)
            if name in self.values:
                todo += self._read([self.values[name]])
            elif name not in given:
                todo += self._read(self._by_name[name].law.inputs)
        known = dict(given)
        with inside_domains(names):
            for node in self.nodes:
                if node.name in needed and node.name not in given:
                    known[node.name] = self._drawn(node, known, rng, n)
        return known

    def _drawn(self, node: RandomNode, known: Mapping[str, np.ndarray], rng: np.random.Generator, n: int) -> np.ndarray:
        try:
            if node.in_turn:
                return self._row_by_row(node, known, rng, n)
            drawn = self._in_order(node, known, rng, n) if node.in_order else self._of_law(node, known, rng, n)
        except NotImplementedError:
            raise DataError(
                f"'{node.name}' cannot be drawn: its prior is improper, or restricted to an interval that it hardly"
                " ever meets",
                code="impossible-value",
            ) from None
        return drawn.astype(np.int64) if node.discrete else drawn

    def _of_law(
        self, node: RandomNode, known: Mapping[str, np.ndarray], rng: np.random.Generator, n: int
    ) -> np.ndarray:
        return node.law.draws(rng, self._at(node.law.inputs, known, n), n)

    def _in_order(
        self, node: RandomNode, known: Mapping[str, np.ndarray], rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """Draws in order: sorted if their elements have one distribution, otherwise the first ones that are.

        Raises
        ------
        NotImplementedError
            Draws are hardly ever in order.
        """
        drawn = self._of_law(node, known, rng, n)
        if node.law.exchangeable:
            return np.sort(drawn, axis=-1)
        for _ in range(_TRIES):
            wrong = np.flatnonzero((np.diff(drawn, axis=-1) < 0).reshape(n, -1).any(axis=1))
            if not len(wrong):
                return drawn
            drawn[wrong] = self._of_law(node, known, rng, n)[wrong]
        raise NotImplementedError

    def _row_by_row(
        self, node: RandomNode, known: Mapping[str, np.ndarray], rng: np.random.Generator, n: int
    ) -> np.ndarray:
        """A series whose rows are drawn one after another."""
        law = node.law
        assert isinstance(law, Scalar)
        out = np.zeros((n, *law.shape))
        for t in range(law.shape[-1]):
            inputs = []
            for var, value in zip(law.parameters, self._at(law.parameters, {**known, node.name: out}, n), strict=True):
                inputs.append(value if not var.ndim else value[..., t if var.shape[-1] > 1 else 0])
            out[..., t] = replace(law, shape=law.shape[:-1]).draws(rng, inputs, n)
        return out


def _blocks(given: Mapping[str, np.ndarray], draws: int, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Blocks of draws, and the length of each."""
    n = len(next(iter(given.values()))) if given else draws
    step = max(1, _BLOCK // max(size, 1))
    for first in range(0, n, step):
        yield {name: values[first : first + step] for name, values in given.items()}, min(step, n - first)
