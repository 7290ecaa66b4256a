"""Components of any distribution of single numbers: its parameters by PyMC's names, with priors given or weak.

The arithmetic on plain arrays and the weak priors are those of
:class:`bayeslab.exact.emissions.any_distribution.AnyDistribution`; the graph has the same priors, in coordinates of
order one where they are normal or log-normal.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, cell_draws, cell_log_density, maths, pymc_class
from bayeslab.errors import ModelError, hint
from bayeslab.exact.emissions import AnyDistribution, Law
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = ["AnyColumns", "given_law"]

type Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class AnyColumns:
    """Columns that are independent given the component, all of one distribution.

    Attributes
    ----------
    written : dict of str to str
        Priors that the file gives, by the distribution's names.
    """

    columns: tuple[str, ...]
    emission: AnyDistribution
    prefix: str = ""
    written: Mapping[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    @property
    def discrete(self) -> bool:
        return self.emission.declaration.discrete

    @property
    def atoms(self) -> tuple[float, ...]:
        """Values of a density's column that have a probability."""
        return tuple(float(atom) for atom in self.emission.declaration.atoms)

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {f"{self.prefix}{word}": ("component", f"{self.prefix}feature") for word in self.emission.learned}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {f"{self.prefix}feature": np.array(self.columns)}

    @property
    def kinds(self) -> dict[str, str]:
        """What values the parameters can have."""
        words = {(0.0, np.inf): "positive", (0.0, 1.0): "unit"}
        return {f"{self.prefix}{word}": words.get(ends, "real") for word, ends in self.emission.intervals.items()}

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {f"{self.prefix}{word}": theta[word] for word in self.emission.learned}

    def theta(self, values: Arrays) -> dict[str, Any]:
        own = {word: np.asarray(values[f"{self.prefix}{word}"], float) for word in self.emission.learned}
        shape = next(iter(own.values())).shape
        return own | {word: np.broadcast_to(value, shape) for word, value in self.emission.known.items()}

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        return self.emission.sample(rng, theta, labels)

    def location(self, values: Arrays, column: str) -> np.ndarray:
        """``mu``, or the mean where it has a closed form, or the first parameter."""
        j, e = self.columns.index(column), self.emission
        own = {word: np.asarray(values[f"{self.prefix}{word}"])[..., j] for word in e.learned}
        moments = getattr(maths(e.name), "moments", None)
        if "mu" in own or moments is None:
            return own.get("mu", own[e.learned[0]])
        known = {word: np.broadcast_to(value, (1, len(self.columns)))[0, j] for word, value in e.known.items()}
        with np.errstate(all="ignore"):
            mean = moments(*((own | known)[word] for word in e.parameters))[0]
        return np.nan_to_num(np.broadcast_to(mean, own[e.learned[0]].shape), nan=np.inf, posinf=np.inf)

    def priors(self) -> dict[str, str]:
        return {f"{self.prefix}{word}": self._prior_words(word) for word in self.emission.learned}

    def _prior_words(self, word: str) -> str:
        if word in self.written:
            return self.written[word]
        if word in self.emission.declaration.angles:
            return "uniform on the circle"
        assert self.emission.prior is not None
        law = self.emission.prior[word]
        return f"{law.name}({', '.join(_numbers(value) for value in law.given.values())})"

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> AnyNodes:
        shape = (n_components, len(self.columns))
        known = {word: np.broadcast_to(value, shape) for word, value in self.emission.known.items()}
        own = {word: self._node(word, shape, None if start is None else start[word]) for word in self.emission.learned}
        return AnyNodes(self.emission.name, own | known)

    def _node(self, word: str, shape: tuple[int, int], start: np.ndarray | None) -> Any:
        import pymc as pm
        import pytensor.tensor as pt

        assert self.emission.prior is not None
        name, law = f"{self.prefix}{word}", self.emission.prior[word]
        dims = self.dims[name]
        given = {key: np.broadcast_to(value, shape) for key, value in law.given.items()}
        if law.name in ("Normal", "LogNormal") and given.keys() == {"mu", "sigma"}:
            logs = law.name == "LogNormal"
            begin = None if start is None else ((np.log(start) if logs else start) - given["mu"]) / given["sigma"]
            value = given["mu"] + given["sigma"] * pm.Normal(f"_{name}", shape=shape, initval=begin)
            return pm.Deterministic(name, pt.exp(value) if logs else value, dims=dims)
        begin = None if start is None else _inside(start, *law.ends)
        return pymc_class(law.name)(name, **given, dims=dims, initval=begin)


@dataclass(frozen=True, eq=False)
class AnyNodes:
    """Parameters as nodes, those that are known as numbers, (K, d) each."""

    name: str
    parameters: Mapping[str, Any]

    def _column(self, j: int) -> dict[str, Any]:
        return {word: value[:, j] for word, value in self.parameters.items()}

    def log_density(self, rows: np.ndarray) -> Any:
        return sum(cell_log_density(self.name, self._column(j), rows[:, j]) for j in range(rows.shape[1]))

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        return [cell_draws(self.name, self._column(j), labels, len(rows)) for j in range(rows.shape[1])]


def _numbers(values: Any) -> str:
    each = [f"{v:.4g}" for v in np.ravel(values)]
    return each[0] if len(set(each)) == 1 else "[" + ", ".join(each) + "]"


def _inside(start: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The start, not at an end of what the prior allows."""
    low, high = (np.broadcast_to(np.asarray(end, float), np.shape(start)) for end in (low, high))
    both = np.isfinite(low) & np.isfinite(high)
    margin = np.where(both, 0.01 * np.where(both, high - low, 1.0), 1e-3 * np.maximum(np.abs(start), 1e-3))
    return np.asarray(np.clip(start, low + margin, high - margin))


def given_law(text: str, distribution: str, parameter: str, path: tuple[str | int, ...]) -> Law:
    """The prior that a file gives to one parameter of a distribution, for all components.

    Raises
    ------
    ModelError
        No distribution of one real number with numbers; or one with values that the parameter cannot have.
    """
    try:
        tree = parse(text).tree
    except ModelError as error:
        raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None
    name = call_name(tree)
    what = f"the prior of {distribution}'s {parameter}"
    if name is None or not isinstance(tree, ast.Call):
        raise ModelError(
            f"{what} is a distribution with numbers, such as Gamma(2, 1), not {text}", path=path, code="bad-prior"
        )
    entry = DISTRIBUTIONS.get(name)
    if entry is None:
        raise ModelError(
            f"{what}: unknown distribution '{name}'{hint(name, DISTRIBUTIONS)}", path=path, code="not-a-distribution"
        )
    functions = None if entry.support or entry.discrete or entry.atoms or not entry.proper else maths(name)
    if functions is None:
        raise ModelError(
            f"{what} is a density of one number, such as Gamma(2, 1), not {text}", path=path, code="bad-prior"
        )
    try:
        given = {key: np.asarray(float(ast.literal_eval(value))) for key, value in bound_arguments(tree, name).items()}
        functions.canonical(**given)
    except ModelError as error:
        raise ModelError(f"{what}: {error.message}", path=path, code=error.code) from None
    except (ValueError, TypeError, SyntaxError):
        raise ModelError(f"{what} is {name} with numbers, not {text}", path=path, code="bad-prior") from None
    if entry.angles and parameter not in DISTRIBUTIONS[distribution].angles:
        raise ModelError(f"{what}: {name} is of angles, and {parameter} is none", path=path, code="out-of-range")
    law = Law(name, given)
    interval = DISTRIBUTIONS[distribution].domain.parameters.get(parameter)
    if interval is not None:
        low, high = float(interval.low), float(interval.high)
        if float(law.ends[0]) < low or float(law.ends[1]) > high:
            raise ModelError(
                f"{what} has values that it cannot have: {parameter} is {interval.words(low, high)}, and {text} is not",
                path=path,
                code="out-of-range",
            )
    return law
