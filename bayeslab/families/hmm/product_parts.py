"""Emissions of several hidden chains.

There are three kinds: every state of the product space has its own parameters, with the parts of one chain
(:class:`bayeslab.posterior.observed.part.StatePart`); a part belongs to one chain, and the product space looks it up
(`OneChain`); or normal columns have a mean that is the sum of effects of all chains (`Additive`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.data.bound import Data
from bayeslab.data.weak_priors import refuse_constant, scaled, shown
from bayeslab.distributions.emissions import Emission, column_variances
from bayeslab.errors import ModelError, hint
from bayeslab.families.hmm.emission_parts import parts_of as emitted_parts
from bayeslab.families.hmm.given_parameters import columns_of, given_of, parameter_names
from bayeslab.families.hmm.joint import joint_of
from bayeslab.families.hmm.product_labels import numbered
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.product_chain import ProductSpace
from bayeslab.latents.labels.k_means import k_means
from bayeslab.posterior.observed.additive import AdditiveGaussian
from bayeslab.posterior.observed.part import StatePart

if TYPE_CHECKING:
    from bayeslab.families.hmm.spec import HMM

__all__ = ["Additive", "OneChain", "additive", "check_parameters", "parts_of", "starting_values"]

# Largest number of rows used to find starting points.
_SOME = 20_000
# Number of assignments of row groups to chains that are tried.
_TRIES = 20


@dataclass(frozen=True, eq=False)
class SpreadEmission(Emission):
    """The emission of one chain, looked up for the states of the product space.

    Attributes
    ----------
    inner : Emission
    space : ProductSpace
    index : int
        The chain.
    emitting_in : int or None
        The state of the first chain in which this chain emits the rows; None: always.
    """

    inner: Emission
    space: ProductSpace
    index: int
    emitting_in: int | None

    @property
    def prior(self) -> Any:
        return self.inner.prior

    @property
    def columns_depend(self) -> bool:
        return self.inner.columns_depend

    def without_prior(self) -> SpreadEmission:
        return replace(self, inner=self.inner.without_prior())

    @property
    def chain_state(self) -> np.ndarray:
        """The chain's state in each state of the product space."""
        return self.space.states[:, self.index]

    @property
    def emitting(self) -> np.ndarray:
        """Whether the chain emits, for each state of the product space."""
        first = self.space.states[:, 0]
        return np.ones(len(first), dtype=bool) if self.emitting_in is None else first == self.emitting_in

    def check(self, rows: np.ndarray) -> None:
        self.inner.check(rows)

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.where(self.emitting, self.inner.log_density(parameters, rows)[:, self.chain_state], 0.0)

    def statistics(self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Any = None) -> dict[str, Any]:
        weights = self.space.marginal(np.where(self.emitting, responsibilities, 0.0), self.index)
        return dict(self.inner.statistics(rows, np.ascontiguousarray(weights), parameters))

    def maximise(self, statistics: Any, parameters: Any = None) -> dict[str, Any]:
        return dict(self.inner.maximise(statistics, parameters))

    def expected_log_likelihood(self, statistics: Any, parameters: Any) -> float:
        return float(self.inner.expected_log_likelihood(statistics, parameters))

    def log_prior(self, parameters: Any) -> float:
        return float(self.inner.log_prior(parameters))

    def n_free(self, n_states: int) -> int:
        return self.inner.n_free(self.space.sizes[self.index])

    def with_prior(self, rows: np.ndarray, n_states: int) -> SpreadEmission:
        return replace(self, inner=self.inner.with_prior(rows, self.space.sizes[self.index]))

    def degenerate(self, parameters: Any, variances: np.ndarray) -> np.ndarray:
        return self.inner.degenerate(parameters, variances)

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.sample(rng, parameters, self.chain_state[states]))

    def complete(self, rng: np.random.Generator, parameters: Any, states: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.complete(rng, parameters, self.chain_state[states], rows))

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.features(rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class OneChain(StatePart):
    """A part of one of several chains; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    inner : StatePart
        The part of the chain alone, with names that end in the chain's name.
    chain : str
    """

    inner: StatePart
    chain: str
    emission: SpreadEmission

    @staticmethod
    def of(inner: StatePart, chain: str, emission: SpreadEmission) -> OneChain:
        """The part of a chain, looked up for the states of the product space."""
        common = {f.name: getattr(inner, f.name) for f in fields(StatePart) if f.name not in ("n_states", "emission")}
        return OneChain(inner=inner, chain=chain, emission=emission, n_states=emission.space.n_states, **common)

    @property
    def index(self) -> int:
        return self.emission.index

    @property
    def symmetric(self) -> bool:
        return self.inner.symmetric

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def learned(self) -> tuple[str, ...]:
        return self.inner.learned

    def called(self, parameter: str) -> str:
        return self.inner.called(parameter)

    def parameter(self, name: str) -> str:
        return self.inner.parameter(name)

    @property
    def n_free(self) -> int:
        return self.inner.n_free

    def owned(self, name: str) -> tuple[str, int] | None:
        return (name.removesuffix(self.inner.suffix), self.index) if name in self.names else None

    def shape(self, name: str) -> tuple[int, ...]:
        return self.inner.shape(name)

    def dims(self, name: str) -> tuple[str, ...]:
        return self.inner.dims(name)

    def labels(self) -> dict[str, np.ndarray]:
        return self.inner.labels()

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self.inner.to_emission(values)

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.inner.from_emission(theta)

    def default_prior(self, name: str) -> str:
        return self.inner.default_prior(name)

    def starting(self, values: Mapping[str, np.ndarray]) -> OneChain:
        return replace(self, inner=self.inner.starting(values))

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.inner.internal(values)

    # ------------------------------------------------------------------ EM

    def kind(self, name: str) -> str:
        return self.inner.kind(name)

    def coordinates(self, name: str) -> str:
        return self.inner.coordinates(name)

    def unit(self, name: str) -> Any:
        return self.inner.unit(name)

    def log_prior(self, values: Mapping[str, Any]) -> float:
        return self.inner.log_prior(values)

    def fitted(self, statistics: Mapping[str, Any], values: Mapping[str, Any], *, prior: bool) -> dict[str, np.ndarray]:
        return self.inner.fitted(statistics, values, prior=prior)

    def collapsed(self, values: Mapping[str, Any]) -> bool:
        return self.inner.collapsed(values)

    @property
    def unknown_prior(self) -> str | None:
        return self.inner.unknown_prior

    # ------------------------------------------------------------------ PyMC

    def variables(self) -> dict[str, Any]:
        return self.inner.variables()

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(row | state of the product), (N, S)."""
        import pytensor.tensor as pt

        out = self.inner.density(values, rows)[:, self.emission.chain_state]
        return out if self.emission.emitting_in is None else pt.where(self.emission.emitting, out, 0.0)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pytensor.tensor as pt

        return self.inner.drawn(values, pt.as_tensor_variable(self.emission.chain_state)[states], rows)

    @property
    def computed(self) -> bool:
        return self.inner.computed

    @property
    def switched(self) -> bool:
        return self.emission.emitting_in is not None

    def emits(self, states: Any) -> Any:
        if isinstance(states, np.ndarray):
            return self.emission.emitting[states]
        import pytensor.tensor as pt

        return pt.as_tensor_variable(self.emission.emitting)[states]


@dataclass(frozen=True, eq=False, kw_only=True)
class Additive(StatePart):
    """Normal columns with additive effects; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    chains : tuple of str

    All parameters are known, or none.
    """

    word: str = "gaussian"
    chains: tuple[str, ...]
    emission: AdditiveGaussian

    @property
    def names(self) -> tuple[str, ...]:
        return ("mean", *(f"effect_{chain}" for chain in self.chains), "sd")

    @property
    def learned(self) -> tuple[str, ...]:
        return () if self.known else self.names

    @property
    def symmetric(self) -> bool:
        return not self.known

    @property
    def n_free(self) -> int:
        return 0 if self.known else int(self.emission.n_free(self.n_states))

    def owned(self, name: str) -> tuple[str, int] | None:
        return ("effect", self.names.index(name) - 1) if name in self.names[1:-1] else None

    def constrained(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Shift effects to sum to zero, with the difference added to the mean."""
        if self.known:
            return {}
        shifts = {name: np.asarray(values[name]).mean(axis=0) for name in self.names[1:-1]}
        out = {name: values[name] - shift for name, shift in shifts.items()}
        return out | {"mean": values["mean"] + sum(shifts.values())}

    def shape(self, name: str) -> tuple[int, ...]:
        return _shape(name, self.chains, self.emission.sizes, len(self.columns))

    def dims(self, name: str) -> tuple[str, ...]:
        owned = self.owned(name)
        chain_dims = () if owned is None else (self.chains[owned[1]],)
        return (*chain_dims, "feature") if len(self.columns) > 1 else chain_dims

    def labels(self) -> dict[str, np.ndarray]:
        return {"feature": np.array(self.columns)} if len(self.columns) > 1 else {}

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        d = len(self.columns)
        parameters = {name: np.asarray({**values, **self.known}[name], dtype=float) for name in self.names}
        effects = [parameters[name].reshape(-1, d) for name in self.names[1:-1]]
        coefficients = self.emission.coefficients(parameters["mean"].reshape(d), effects)
        return {"coefficients": coefficients, "variance": parameters["sd"].reshape(d) ** 2}

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        effects = self.emission.effects(theta["coefficients"])
        parameters = [theta["coefficients"][0], *effects, np.sqrt(theta["variance"])]
        return {name: np.asarray(v).reshape(self.shape(name)) for name, v in zip(self.names, parameters, strict=True)}

    def default_prior(self, name: str) -> str:
        prior = self.emission.prior
        assert prior is not None
        if name == "sd":
            return f"sqrt(InverseGamma({prior.nu / 2:.4g}, {shown(prior.scale / 2)}))"
        wide = f"sd / {np.sqrt(prior.kappa):.4g}"
        return f"Normal({shown(prior.mean)}, {wide})" if name == "mean" else f"Normal(0, {wide}), their sum zero"

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.known:
            return {}
        n = len(values["sd"])
        each = [self.to_emission({name: values[name][i] for name in self.names}) for i in range(n)]
        return {"_coefficients": np.stack([parameters["coefficients"] for parameters in each])}

    # ------------------------------------------------------------------ PyMC

    def variables(self) -> dict[str, Any]:
        """Mean, effects and standard deviations, on PyMC's context stack; coordinates without constraints inside."""
        import pymc as pm
        import pytensor.tensor as pt

        if self.known:
            return {name: pt.as_tensor_variable(value) for name, value in self.known.items()}
        emission, prior, d = self.emission, self.emission.prior, len(self.columns)
        assert prior is not None
        begin = self.to_emission(self.start) if self.start else {}
        first = {"initval": np.maximum(begin["variance"], 1e-12)} if begin else {}
        variance = pm.InverseGamma("_variance", prior.nu / 2, prior.scale / 2, shape=d, **first)
        shape = emission.n_coefficients, d
        centre = np.zeros(shape)
        centre[0] = prior.mean
        step = np.broadcast_to(np.maximum(self.spread, 1e-300) / self.n_states, shape)
        start = {"initval": begin["coefficients"]} if begin else {}
        wide = pt.sqrt(variance / prior.kappa)
        b = pm.Normal("_coefficients", centre, wide, default_transform=scaled(centre, step), shape=shape, **start)
        parts = [b[0], *(pt.dot(basis, b[at]) for basis, at in zip(emission.bases, emission.blocks, strict=True))]
        return {
            name: pm.Deterministic(name, value.reshape(self.shape(name)), dims=self.dims(name))
            for name, value in zip(self.names, [*parts, pt.sqrt(variance)], strict=True)
        }

    def _means(self, values: Mapping[str, Any]) -> Any:
        """(n_states, n_columns)."""
        d = len(self.columns)
        states = ProductSpace(self.emission.sizes).states
        out = values["mean"].reshape((1, d))
        for c, name in enumerate(self.names[1:-1]):
            out = out + values[name].reshape((self.emission.sizes[c], d))[states[:, c]]
        return out

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(row | state of the product), (N, S)."""
        import pytensor.tensor as pt

        means, sd = self._means(values), values["sd"].reshape((len(self.columns),))
        total = pt.zeros((len(rows), self.n_states))
        for j, at in enumerate(self.at):
            observed = ~np.isnan(rows[:, at])
            z = (np.where(observed, rows[:, at], 0.0)[:, None] - means[:, j]) / sd[j]
            log_p = -0.5 * z**2 - pt.log(sd[j]) - HALF_LOG_2PI
            total = total + (log_p if observed.all() else pt.where(observed[:, None], log_p, 0.0))
        return total

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm

        means, sd = self._means(values)[states], values["sd"].reshape((len(self.columns),))
        return {name: pm.Normal.dist(means[:, j], sd[j], shape=len(rows)) for j, name in enumerate(self.columns)}


def _shape(name: str, chains: Sequence[str], sizes: Sequence[int], d: int) -> tuple[int, ...]:
    chain_shape = tuple(k for chain, k in zip(chains, sizes, strict=True) if name == f"effect_{chain}")
    return (*chain_shape, d) if d > 1 else chain_shape


# --------------------------------------------------------------------------------- reading the spec


def additive(spec: HMM) -> bool:
    """Whether the effects of chains are additive.

    Raises
    ------
    ModelError
        Additive effects are requested but not possible.
    """
    if spec.coupling != "factorial" or spec.effects == "joint":
        return False
    if spec.emission != "gaussian":
        if spec.effects == "additive":
            raise ModelError(
                "effects are additive for emission: gaussian; for others write effects: joint",
                path=("model", "effects"),
                code="unsupported",
            )
        return False
    if spec.covariance != "diagonal":
        raise ModelError(
            f"additive effects have one standard deviation a column; for covariance: {spec.covariance} write"
            " effects: joint",
            path=("model", "covariance"),
            code="unsupported",
        )
    return True


def check_parameters(spec: HMM, chain: ProductChain, layout: Sequence[tuple[str, str, tuple[str, ...]]]) -> None:
    """Check names and shapes of the given parameters.

    Raises
    ------
    ModelError
    """
    if additive(spec):
        _known_effects(spec, chain)
        return
    rest = {name: value for name, value in spec.parameters.items() if name not in chain.every}
    if spec.coupling == "factorial":
        if spec.covariance in ("full", "tied") and rest:
            raise ModelError(
                f"with covariance: {spec.covariance} all parameters are learned",
                path=("model", "parameters"),
                code="conflict",
            )
        given_of(rest, layout, chain.n_states)
        return
    given = _shared(spec, chain, rest)
    for c in _speaking(chain):
        given_of(given[chain.names[c]], _layout(spec, chain, c), chain.sizes[c])


def _speaking(chain: ProductChain) -> range:
    """The chains that emit: with a switch, all but the first."""
    return range(1 if chain.coupling == "switching" else 0, len(chain.names))


def _layout(spec: HMM, chain: ProductChain, c: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """The parts of one chain."""
    columns = spec.columns if spec.emits is None else spec.emits.get(chain.names[c], [])
    words = (
        spec.emission if isinstance(spec.emission, str) else {k: v for k, v in spec.emission.items() if k in columns}
    )
    return columns_of(columns, words) if columns else []


def _shared(spec: HMM, chain: ProductChain, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the emissions by chain, without the chain's name."""
    home = {
        f"{inner}_{chain.names[c]}": (chain.names[c], inner)
        for c in _speaking(chain)
        for inner in parameter_names(_layout(spec, chain, c))
    }
    out: dict[str, dict[str, Any]] = {name: {} for name in chain.names}
    for name, value in given.items():
        if name not in home:
            allowed = (*chain.every, *home)
            raise ModelError(
                f"no parameter is called '{name}'{hint(name, allowed)}",
                path=("model", "parameters", name),
                code="unknown-parameter",
            )
        name_of_chain, inner = home[name]
        out[name_of_chain][inner] = value
    return out


def _known_effects(spec: HMM, chain: ProductChain) -> dict[str, np.ndarray]:
    """All parameters of additive columns as numbers; empty if they are unknown."""
    names = ("mean", *(f"effect_{name}" for name in chain.names), "sd")
    rest = {name: value for name, value in spec.parameters.items() if name not in chain.every}
    for name in rest:
        if name not in names:
            allowed = (*chain.every, *names)
            raise ModelError(
                f"no parameter is called '{name}'{hint(name, allowed)}",
                path=("model", "parameters", name),
                code="unknown-parameter",
            )
    if not rest:
        return {}
    lost = [name for name in names if name not in rest]
    if lost:
        raise ModelError(
            f"of additive effects all parameters are given, or none; '{lost[0]}' is not",
            path=("model", "parameters"),
            code="incomplete",
        )
    out = {}
    for name in names:
        path = ("model", "parameters", name)
        shape = _shape(name, chain.names, chain.sizes, len(spec.columns))
        try:
            out[name] = np.asarray(rest[name], dtype=float)
        except (TypeError, ValueError):
            raise ModelError(
                "numbers are meant: additive effects have the default priors", path=path, code="wrong-type"
            ) from None
        if out[name].shape != shape:
            raise ModelError(
                f"numbers of shape {shape} are meant, not {out[name].shape}", path=path, code="wrong-shape"
            )
        if not np.all(np.isfinite(out[name])) or (name == "sd" and np.any(out[name] <= 0)):
            raise ModelError(
                f"{'positive' if name == 'sd' else 'finite'} numbers are meant", path=path, code="out-of-range"
            )
    return out


def parts_of(
    spec: HMM,
    data: Data,
    chain: ProductChain,
    layout: Sequence[tuple[str, str, tuple[str, ...]]],
    rows: np.ndarray,
    scaled_by: np.ndarray,
) -> tuple[Any, ...]:
    """Build the emission parts of the chains; rows are in the order of the layout.

    Raises
    ------
    ModelError, DataError
    """
    if additive(spec):
        return (_additive_of(spec, chain, rows, scaled_by),)
    rest = {name: value for name, value in spec.parameters.items() if name not in chain.every}
    made = {"covariance": spec.covariance, "trials": spec.trials, "dof": spec.dof}
    if chain.coupling == "factorial":
        if spec.covariance in ("full", "tied"):
            return (joint_of(spec, rows, scaled_by, chain.n_states, rest),)
        return emitted_parts(data, layout, rows, scaled_by, chain.n_states, rest, **made)  # type: ignore[arg-type]
    if spec.covariance in ("full", "tied"):
        raise ModelError(
            f"covariance: {spec.covariance} is for factorial chains with effects: joint; {chain.coupling} ones have"
            " diagonal or spherical",
            path=("model", "covariance"),
            code="unsupported",
        )
    order = [column for _, _, columns in layout for column in columns]
    given, out = _shared(spec, chain, rest), []
    for c in _speaking(chain):
        chain_layout = _layout(spec, chain, c)
        at = [order.index(column) for _, _, columns in chain_layout for column in columns]
        if at:
            inner = emitted_parts(
                data, chain_layout, rows[:, at], scaled_by[:, at], chain.sizes[c], given[chain.names[c]],
                **made,  # type: ignore[arg-type]
            )  # fmt: skip
            out += [_one(chain, c, part, at) for part in inner]
    return tuple(out)


def _one(chain: ProductChain, c: int, part: StatePart, at: Sequence[int]) -> OneChain:
    suffix = f"_{chain.names[c]}"
    inner = replace(
        part,
        at=tuple(at[j] for j in part.at),
        known={name + suffix: value for name, value in part.known.items()},
        priors={name + suffix: value for name, value in part.priors.items()},
        suffix=suffix,
        style=replace(part.style, state=chain.names[c]),
    )
    emitting_in = c - 1 if chain.coupling == "switching" else None
    return OneChain.of(inner, chain.names[c], SpreadEmission(part.emission, chain.space, c, emitting_in))


def _additive_of(spec: HMM, chain: ProductChain, rows: np.ndarray, scaled_by: np.ndarray) -> Additive:
    columns, known = tuple(spec.columns), _known_effects(spec, chain)
    if not known:
        refuse_constant(scaled_by, columns)
    emission = AdditiveGaussian(chain.sizes, len(columns)).with_prior(scaled_by, chain.n_states)
    emission.check(rows)
    return Additive(
        columns=columns, at=tuple(range(len(columns))), n_states=chain.n_states, chains=chain.names,
        emission=emission, spread=np.sqrt(column_variances(scaled_by)), known=known,
    )  # fmt: skip


# --------------------------------------------------------------------------------- starting points


def starting_values(hidden: Any, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
    """A start value of a search; random, or without ``rng`` deterministic."""
    chain: ProductChain = hidden.chain
    out = _emitting(hidden, np.random.default_rng(0) if rng is None else rng)
    if rng is None:
        return numbered(hidden, out | chain.start_values())
    return out | {name: 0.5 * value + 0.5 * chain.start_values()[name] for name, value in chain.draw(rng).items()}


def _emitting(hidden: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Emission parameters of groups of similar rows."""
    chain, rows = hidden.chain, hidden.rows[:_SOME]
    out: dict[str, np.ndarray] = {}
    if isinstance(hidden.parts[0], Additive):
        part = hidden.parts[0]
        parameters = part.from_emission(part.emission.begin(rows, rng))
        return {name: parameters[name] for name in part.learned}
    weights = _grouped(hidden, chain, rows, rng)
    for part in hidden.parts:
        statistics = part.emission.statistics(rows[:, list(part.at)], weights)
        out |= part.within_priors(part.from_emission(part.emission.maximise(statistics)))
    return out


def _grouped(hidden: Any, chain: ProductChain, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights (n_rows, n_states) of the product states from groups of similar rows."""
    space = chain.space
    log_weight = np.zeros((len(rows), space.n_states))
    if chain.coupling == "coupled":
        for c in range(len(chain.names)):
            parts = [part for part in hidden.parts if part.index == c]
            if parts:
                log_weight += space.spread(np.log(_soft(_groups(parts, rows, chain.sizes[c], rng), rng)), c)
    elif chain.coupling == "switching":
        sizes = chain.sizes[1:]
        groups = _groups(hidden.parts[: _count(hidden)], rows, sum(sizes), rng)
        soft = _soft(groups[:, _shared_out(groups, sizes, rng)], rng)
        ends = np.cumsum((0, *sizes))
        log_weight = space.switched([np.log(soft[:, a:b]) for a, b in itertools.pairwise(ends)])
    else:
        groups = _groups(hidden.parts, rows, space.n_states, rng)
        log_weight = np.log(_soft(groups[:, _arranged(groups, space, rng)], rng))
    weights = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _count(hidden: Any) -> int:
    """The number of parts of the first chain that emits."""
    return sum(part.index == hidden.parts[0].index for part in hidden.parts)


def _groups(parts: Sequence[Any], rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Membership (n_rows, n) of groups of similar rows; rows without an observed cell belong equally to all."""
    features = [part.emission.features(rows[:, list(part.at)]) for part in parts]
    observed = ~np.isnan(rows[:, sorted({j for part in parts for j in part.at})]).all(axis=1)
    out = np.full((len(rows), n), 1.0 / n)
    if observed.sum() >= n:
        out[observed] = np.eye(n)[k_means(np.concatenate(features, axis=1)[observed], n, rng).labels]
    return out


def _soft(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = groups.shape[1]
    return 0.75 * groups + 0.25 * (0.5 / n + 0.5 * rng.dirichlet(np.ones(n), len(groups)))


def _followed(groups: np.ndarray) -> np.ndarray:
    """Counts of transitions between groups."""
    return groups[:-1].T @ groups[1:]


def _shared_out(groups: np.ndarray, sizes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Assign groups to the chains behind a switch so that few transitions lead from one chain's groups to
    another's.
    """
    moves, chain = _followed(groups), np.repeat(np.arange(len(sizes)), sizes)
    within = chain[:, None] == chain
    tried = [rng.permutation(len(chain)) for _ in range(_TRIES)]
    return max(tried, key=lambda order: float(moves[np.ix_(order, order)][within].sum()))


def _arranged(groups: np.ndarray, space: ProductSpace, rng: np.random.Generator) -> np.ndarray:
    """Assign groups to product states so that independent chains explain the transitions between them."""
    moves = _followed(groups) + 1e-3
    tried = [rng.permutation(space.n_states) for _ in range(_TRIES)]
    return max(tried, key=lambda order: _apart(moves[np.ix_(order, order)], space))


def _apart(moves: np.ndarray, space: ProductSpace) -> float:
    """Log likelihood of the transitions under independent chains."""
    total = 0.0
    for c in range(len(space.sizes)):
        counts = space.fold(moves, c)
        total += float(np.sum(counts * np.log(counts / counts.sum(axis=1, keepdims=True))))
    return total
