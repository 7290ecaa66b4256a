"""The contract of a group of columns with one kind of distribution whose parameters differ between K states.

States are those of a hidden chain or the components of a mixture. A part provides its parameters by their posterior
names (``mean``, ``sd``, ``probability``; with several parts ``height_mean``) and in the form of
:mod:`bayeslab.distributions.emissions`, their priors, and the log density as a PyTensor expression. Families and
engines use parts only through this class.

Priors that the model file does not give are weak and scaled to the data, and the same for every engine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayeslab.distributions import SCALARS, Law
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.emitted import Emitted
from bayeslab.posterior.observed.prior import Prior, across, inside

__all__ = ["COMPONENTS", "SPREADS", "STATES", "Compiled", "KnownPart", "StatePart", "Style"]

type Values = Mapping[str, Any]

# Scale parameters, which can collapse to zero in a state.
SPREADS = ("sd", "scale")
# Without a prior a state may shrink to a single point, so standard deviations stay above this share of the column's.
_NARROWEST = 1e-4
# Supports of parameters; others are real.
_KINDS = {
    "p": "simplex",
    "weight": "simplex",
    "probability": "unit",
    "covariance": "matrix",
    "scale_matrix": "matrix",
    **dict.fromkeys(("sd", "scale", "dof", "rate"), "positive"),
}


@dataclass(frozen=True)
class Style:
    """The naming of emission parameters in a family, and the parametrisation of its graphs.

    Attributes
    ----------
    state, feature : str
        Dimensions of parameters: the states, and the columns.
    one_column : bool
        Whether the parameters of a single column have the dimension of the columns too.
    derived : bool
        Whether results show derived quantities: standard deviations besides matrices, and fixed numbers.
    whitened : bool
        Whether graphs have variables of order one, from which parameters are computed, whatever the units of the data:
        efficient for samplers. Otherwise the variables are the parameters, and single priors can be given.
    """

    state: str = "state"
    feature: str = "feature"
    one_column: bool = False
    derived: bool = False
    whitened: bool = False


STATES = Style()
COMPONENTS = Style(state="component", one_column=True, derived=True, whitened=True)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled kernel that sums the states out of independent complete rows.

    Attributes
    ----------
    kernel : str
        ``module:function``, see :func:`bayeslab.evidence.log_evidence`.
    parameters : list of TensorVariable
        Parameters of the kernel after the log weights.
    rows : ndarray
    constant : float
        Constant to add to the kernel's value.
    """

    kernel: str
    parameters: list[Any]
    rows: np.ndarray
    constant: float


@dataclass(frozen=True, eq=False, kw_only=True)
class StatePart(Emitted):
    """Columns that states emit by one kind of distribution.

    Attributes
    ----------
    word : str
        Name of the distribution in the model file.
    columns : tuple of str
    at : tuple of int
        Positions in the rows of the columns that the emission uses.
    n_states : int
    emission : Emission
        The arithmetic on plain arrays, with its weak prior.
    name : str
        The column, if there are several parts; else empty.
    suffix : str
        Suffix of all names, if several chains have parameters of the same kind.
    style : Style
    known : mapping of str to ndarray
        Parameters given as numbers, by posterior name.
    priors : mapping of str to Prior
        Priors of the model file, by posterior name.
    start : mapping of str to ndarray
        Start values of searches: parameters of groups of similar rows.
    spread : ndarray
        Standard deviations of the columns.
    """

    word: str
    columns: tuple[str, ...]
    at: tuple[int, ...]
    n_states: int
    emission: Any
    name: str = ""
    suffix: str = ""
    style: Style = STATES
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    priors: Mapping[str, Prior] = field(default_factory=dict)
    start: Mapping[str, np.ndarray] = field(default_factory=dict)
    spread: np.ndarray = field(default_factory=lambda: np.ones(1))

    # ------------------------------------------------------------------ names and shapes

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of all parameters in the posterior."""

    @cached_property
    def learned(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.known)

    @property
    def results(self) -> tuple[str, ...]:
        """Names shown in results: unknown parameters and derived quantities."""
        return self.learned

    def called(self, parameter: str) -> str:
        """The posterior's name of a parameter."""
        return (f"{self.name}_{parameter}" if self.name else parameter) + self.suffix

    def parameter(self, name: str) -> str:
        """The emission parameter with a posterior name."""
        bare = name.removesuffix(self.suffix)
        return bare.removeprefix(f"{self.name}_") if self.name else bare

    @abstractmethod
    def dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of a parameter."""

    @property
    def by_column(self) -> bool:
        """Whether parameters have the dimension of the columns."""
        return self.style.one_column or len(self.columns) > 1

    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the dimensions other than states."""
        return {self.style.feature: np.array(self.columns)} if self.by_column else {}

    @property
    def n_free(self) -> int:
        """Number of free parameters."""
        return sum(int(np.prod(self.shape(name))) for name in self.learned)

    @property
    def spherical(self) -> bool:
        """Whether all columns have one standard deviation."""
        return False

    @property
    def angles(self) -> tuple[str, ...]:
        """Unknown parameters that are angles, defined up to full turns."""
        return ()

    def select(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, list(self.at)]

    def position(self, column: str) -> int:
        """Position of a column in the rows."""
        return self.at[self.columns.index(column)]

    @property
    def columns_at(self) -> tuple[int, ...]:
        """Positions of the columns in the rows."""
        return tuple(self.position(column) for column in self.columns)

    @property
    def given_at(self) -> tuple[int, ...]:
        """Positions of columns that the emission conditions on: numbers of trials, inputs."""
        return tuple(at for at in self.at if at not in self.columns_at)

    @property
    def discrete(self) -> bool:
        """Whether the columns hold integers or categories."""
        return False

    def levels_of(self, column: str) -> np.ndarray:
        """The levels of a categorical column; empty for a numeric one."""
        return np.empty(0, dtype=object)

    @property
    def atoms(self) -> tuple[float, ...]:
        """Values with positive probability, for columns with a density elsewhere."""
        return ()

    # ------------------------------------------------------------------ labels of states

    @property
    def symmetric(self) -> bool:
        """Whether the part is the same for all permutations of the states."""
        same = [np.ptp(value, axis=0).max(initial=0) == 0 for value in self.known.values()]
        return all(same) and self.even and not self.in_order

    @property
    def even(self) -> bool:
        """Whether all states have the same priors."""
        return all(np.size(a) == 1 for prior in self.priors.values() for a in prior.arguments.values())

    @property
    def in_order(self) -> tuple[str, ...]:
        """Parameters that are ordered across states."""
        return tuple(name for name, prior in self.priors.items() if prior.ordered)

    def location(self, values: Values) -> np.ndarray:
        """One number per state (K,), or several (K, ...), of which the first can define the numbering of states."""
        return np.asarray(values[self.learned[0]])

    @property
    def orders(self) -> tuple[str, ...]:
        """Names by which states can be ordered: columns, or terms of a regression."""
        return self.columns

    def place(self, values: Values, column: str) -> np.ndarray:
        """The value of one of :attr:`orders` in each state, (..., K)."""
        value = np.asarray(values[self.results[0]])
        return value[..., self.columns.index(column)] if self.by_column else value

    @property
    def ruled_by(self) -> str:
        """A description of :meth:`location`."""
        return f"'{self.learned[0]}'"

    @property
    def layered(self) -> bool:
        """Whether states have exchangeable components inside."""
        return False

    @property
    def n_layers(self) -> int:
        """Number of components inside a state."""
        return 1

    def ordered(self, values: Values, lead: int = 0) -> dict[str, np.ndarray]:
        """Values with the components inside states sorted; ``lead`` axes come before those of the parameters."""
        return dict(values)

    def internal(self, values: Values) -> dict[str, np.ndarray]:
        """Draws of the internal variables (names that begin with _) from draws of the parameters.

        The first axis of all arrays is that of the draws.
        """
        return {}

    # ------------------------------------------------------------------ several chains

    @property
    def index(self) -> int | None:
        """The index of the part's chain, if there are several chains, else None."""
        return None

    @property
    def switched(self) -> bool:
        """Whether the chain is behind a switch."""
        return False

    def owned(self, name: str) -> tuple[str, int] | None:
        """The name without the chain's name, and the chain, for a parameter of one of several chains."""
        return None

    def emits(self, states: Any) -> Any:
        """Whether rows in these states come from this part; accepts PyTensor variables too."""
        return np.ones(np.shape(states), dtype=bool)

    # ------------------------------------------------------------------ the emission

    @abstractmethod
    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inverse of :meth:`to_emission`, with the derived quantities of :attr:`results`."""

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], states: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        """Columns (n_rows, n_columns) in given states.

        Parameters
        ----------
        theta
            The emission's parameters.
        given : ndarray
            The cells at :attr:`given_at`.
        """
        return np.asarray(self.emission.sample(rng, theta, states))

    def replicated(
        self, rng: np.random.Generator, values: Values, states: np.ndarray, rows: np.ndarray, cells: np.ndarray
    ) -> np.ndarray:
        """Columns (n_rows, n_columns) in given states.

        Parameters
        ----------
        states : ndarray (n_rows,)
        rows : ndarray
            The model's rows, with the inputs of regressions.
        cells : ndarray
            The same rows with only those cells on which new ones are conditioned.
        """
        return np.asarray(self.emission.complete(rng, self.to_emission(values), states, cells[:, list(self.at)]))

    # ------------------------------------------------------------------ EM

    def kind(self, name: str) -> str:
        """The support of a parameter: simplex, unit, positive, matrix or real."""
        return _KINDS.get(self.parameter(name), "real")

    def unit(self, name: str) -> Any:
        """What a parameter is measured in, so that searches do not depend on the data's units."""
        if self.parameter(name) not in ("mean", "location"):
            return 1.0
        unit = np.maximum(self.spread, 1e-300)
        return unit if self.shape(name)[-1:] == unit.shape else float(unit.max())

    def narrowest(self, name: str) -> np.ndarray:
        """The minimum of a standard deviation, in the shape of the parameter."""
        least = _NARROWEST * self.spread
        return np.broadcast_to(least if len(self.shape(name)) == 2 else least.min(), self.shape(name))

    def collapsed(self, values: Values) -> bool:
        """Whether a state has shrunk to a point, where the likelihood is unbounded."""
        spreads = (name for name in self.learned if self.parameter(name) in SPREADS)
        return any(bool(np.any(values[name] <= 1.01 * self.narrowest(name))) for name in spreads)

    def log_prior(self, values: Values) -> float:
        """Log density of the prior of what is learned, up to a constant."""
        return float(self.emission.log_prior(self.to_emission(values)))

    def fitted(self, statistics: Mapping[str, Any], values: Values, *, prior: bool) -> dict[str, np.ndarray]:
        """The M-step: the most probable parameters for expected totals; what is known stays."""
        fitted = self.maximised(statistics, values, prior)
        for name in self.learned:
            if self.parameter(name) in SPREADS:
                fitted[name] = np.maximum(fitted[name], self.narrowest(name))
        return {name: fitted[name] for name in self.learned}

    def maximised(self, statistics: Mapping[str, Any], values: Values, prior: bool) -> dict[str, np.ndarray]:
        """The M-step without the lower limit of scales; values of known parameters are arbitrary."""
        emission = self.emission if prior else self.emission.without_prior()
        return self.from_emission(emission.maximise(statistics, self.to_emission(values)))

    def within_priors(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Unknown parameters moved into the support of the model's priors, as a start for searches."""
        out = {name: np.asarray(values[name], float) for name in self.learned}
        for name, prior in self.priors.items():
            if name not in out or prior.word not in SCALARS:
                continue
            law = Law(prior.word, {a: across(v, out[name].shape) for a, v in prior.arguments.items()})
            out[name] = np.where(np.isneginf(law.log_density(out[name])), inside(out[name], *law.ends), out[name])
        return out

    @property
    def unknown_prior(self) -> str | None:
        """A parameter whose prior EM does not support, or None."""
        return next((name for name, prior in self.priors.items() if prior.word not in SCALARS), None)

    # ------------------------------------------------------------------ Gibbs

    @property
    def no_gibbs(self) -> str:
        """Why Gibbs steps do not apply; empty if they do."""
        return ""

    def draw(self, rng: np.random.Generator, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameters from their conjugate posterior given statistics of rows and states."""
        drawn = self.from_emission(self.emission.draw(rng, statistics))
        return {name: drawn[name] for name in self.learned}

    def draw_given(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, values: Values
    ) -> dict[str, np.ndarray]:
        emission, whole = self.emission, self.select(rows)
        if np.isnan(whole).any():
            whole = emission.imputed(rng, whole, states, self.to_emission(values))
        return self.draw(rng, emission.statistics_of_states(whole, states, self.n_states))

    # ------------------------------------------------------------------ densities of graphs and programs

    @abstractmethod
    def default_prior(self, name: str) -> str:
        """The default prior of a parameter as text."""

    def prior_words(self) -> dict[str, str]:
        """The priors of all unknown parameters as text."""
        return {name: self.default_prior(name) for name in self.learned}

    @property
    def language_priors(self) -> dict[str, str]:
        """Priors in the model language, by name in results; their variables are created before :meth:`variables`."""
        return {}

    @property
    def prior_of_emission(self) -> bool:
        """Whether the priors are those of the emission."""
        return not self.priors

    def starting(self, values: Values) -> Self:
        """The part with start values for searches."""
        return replace(self, start={name: values[name] for name in (*self.learned, *self.results) if name in values})

    @abstractmethod
    def variables(self, writer: Writer) -> dict[str, Any]:
        """All parameters: random variables, or constants where they are known.

        Includes the coordinates from which parameters are computed, whose names begin with _.
        """

    @abstractmethod
    def density(self, writer: Writer, values: Values, rows: np.ndarray) -> Any:
        """log p(row | state), (N, K), as an expression; missing cells are ignored."""

    @abstractmethod
    def drawn(self, values: Values, states: Any, rows: np.ndarray) -> dict[str, Any]:
        """A random variable for each column, given the rows' states."""

    def compiled(self, values: Values, rows: np.ndarray) -> Compiled | None:
        """The kernel for complete rows, or None."""
        return None

    @property
    def computed(self) -> bool:
        """Whether :meth:`drawn` returns expressions instead of random variables, for columns that are drawn jointly."""
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class KnownPart(StatePart):
    """Columns whose distribution in each state has no parameters: it is given as a whole."""

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def even(self) -> bool:
        return False

    def shape(self, name: str) -> tuple[int, ...]:
        raise KeyError(name)

    def dims(self, name: str) -> tuple[str, ...]:
        raise KeyError(name)

    def default_prior(self, name: str) -> str:
        raise KeyError(name)

    def labels(self) -> dict[str, np.ndarray]:
        return {}

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {}

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {}

    def variables(self, writer: Writer) -> dict[str, Any]:
        return {}
