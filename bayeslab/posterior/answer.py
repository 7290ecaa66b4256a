"""Plans of families for engines that need no graph, and the results of these plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from bayeslab.latents.sampler import Arrays, Chains

if TYPE_CHECKING:
    from bayeslab.latents.expectation_maximisation import Problem, Restarts

__all__ = [
    "Answer",
    "BeliefPlan",
    "Beliefs",
    "EMPlan",
    "GibbsDraws",
    "GibbsPlan",
    "Grouped",
    "Note",
    "Plan",
    "PointEstimate",
    "Searched",
    "Structured",
    "VariationalEnd",
    "VariationalPlan",
]


class Answer(Protocol):
    """A posterior in closed form or by quadrature.

    ``dims`` has the names of the drawn quantities; means, sds and quantiles may exist for some of them only. An answer
    with further groups of arrays is :class:`Grouped`.

    Attributes
    ----------
    dims : mapping of str to tuple of str
        Dimensions of each drawn quantity; moments and quantiles may exist for fewer.
    labels : mapping of str to ndarray
        Labels of dimensions that are not in the data.
    log_evidence : float
        Log density of the data; NaN if a prior is improper.
    """

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def labels(self) -> Mapping[str, np.ndarray]: ...
    @property
    def log_evidence(self) -> float: ...

    def mean(self) -> Mapping[str, np.ndarray]:
        """Posterior means by name."""
        ...

    def sd(self) -> Mapping[str, np.ndarray]:
        """Posterior standard deviations by name."""
        ...

    def quantile(self, probability: float) -> Mapping[str, np.ndarray]:
        """Marginal quantiles by name."""
        ...

    def draws(self, rng: np.random.Generator, n: int) -> Mapping[str, np.ndarray]:
        """Independent draws from the joint posterior, shape (n, ...) by name."""
        ...


@runtime_checkable
class Grouped(Protocol):
    """An answer with groups of arrays beside the posterior."""

    def groups(self) -> Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]]:
        """Arrays by group and name, each with the names of its dimensions."""
        ...


@runtime_checkable
class Structured(Protocol):
    """An answer about structures, whose draws are parent sets."""

    def choices(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Position in the score table of each variable's parent set, shape (n, variables)."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for a model that can be solved exactly.

    Attributes
    ----------
    how : str
        One line: which closed form applies.
    solve : callable
        Computes the answer.
    empirical : callable or None
        Computes the answer with scales at the maximum of the marginal likelihood, if there are scales.
    dims, labels : mapping
        Those of the answer, if they are known before it is computed; they give the size of a draw.
    probe : callable or None
        Raises what ``solve`` would raise about an improper or degenerate posterior, at a fraction of its cost.
    """

    how: str
    solve: Callable[[], Answer]
    empirical: Callable[[], Answer] | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    probe: Callable[[], object] | None = None


class Beliefs(Protocol):
    """The end of belief propagation.

    Attributes
    ----------
    bethe_log_evidence : float
        The Bethe estimate of the log partition function given the evidence.
    converged, has_loops : bool
    n_sweeps : int
    largest_change : float
        The largest change of a message in the last sweep.
    """

    @property
    def bethe_log_evidence(self) -> float: ...
    @property
    def converged(self) -> bool: ...
    @property
    def has_loops(self) -> bool: ...
    @property
    def n_sweeps(self) -> int: ...
    @property
    def largest_change(self) -> float: ...


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """A mode of the parameters' density, found without a graph.

    Attributes
    ----------
    values : mapping of str to ndarray
        Every parameter of the graph, on its natural scale.
    log_density : float
        Joint log density of parameters and data without Jacobians of transforms, or log likelihood alone.
    converged : bool
    slope : float
        The largest element of the gradient, with respect to logarithms of positive parameters and with the others in
        units of their priors' widths.
    agree : bool
        Whether all starts led to this mode.
    """

    values: Mapping[str, np.ndarray]
    log_density: float
    converged: bool
    slope: float
    agree: bool


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the verdict."""

    status: Literal["pass", "warn", "fail"]
    check: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Searched:
    """The results of a family's own searches, with notes for the user."""

    searches: Restarts
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, eq=False)
class GibbsDraws:
    """Draws of several chains.

    Attributes
    ----------
    draws : mapping of str to ndarray
        Shape (chain, draw, ...).
    stats : mapping of str to ndarray
        Statistics of the sampler, (chain, draw) each; ``lp`` is a log density.
    groups : mapping
        Further groups: {group: {name: (dims, array)}}.
    notes : tuple of Note
    """

    draws: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    groups: Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class GibbsPlan:
    """The plan for Gibbs sampling.

    Attributes
    ----------
    how : str
        One line: the blocks that are drawn in turn.
    chains : Chains
        The sampler of the chains, and the draws in their states.
    dims : mapping of str to tuple of str
        Dimensions of each quantity.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    """

    how: str
    chains: Chains[GibbsDraws]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BeliefPlan:
    """The plan for belief propagation between discrete variables and potentials.

    Attributes
    ----------
    how : str
        One line: the number of variables and potentials.
    solve : callable
        Maps options of the messages, by keyword, to their end (:class:`Beliefs`), further groups, and the beliefs by
        posterior name.
    dims : mapping of str to tuple of str
        Dimensions of each quantity; the last is that of the states.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    log_scale : float
        The logarithm of a factor that is not in the messages.
    """

    how: str
    solve: Callable[..., tuple[Beliefs, Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]], Arrays]]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    log_scale: float = 0.0


@dataclass(frozen=True, slots=True)
class EMPlan:
    """The plan for expectation maximisation.

    Attributes
    ----------
    how : str
        One line: the variables that are summed out, and the method.
    problem : callable
        Maps a flag to the problem, with the model's priors (True; raises ModelError if a prior has no mode) or without.
    start : callable
        Maps a generator to random parameters of the problem.
    values : callable
        Maps parameters of the problem to quantities by their names in the posterior.
    dims : mapping of str to tuple of str
        Dimensions of each quantity.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    bounds : mapping of str to (float, float)
        Bounds of quantities, such as (0, 1) for probabilities; estimates at a bound are reported. Without an upper
        bound, only the lower one counts.
    placed : callable
        Maps parameters of the problem and values by posterior name to the parameters with these values; raises
        OptionError if that is not possible.
    kinds : mapping of str to str
        Supports of quantities: simplex (along the last axis), unit, positive or matrix; others are real.
    exchangeable : str
        Name of the variable with exchangeable states, if there is one.
    search : callable or None
        The family's own search. Its arguments are whether to use the priors, the number of restarts, a generator, a
        progress callable, options of :func:`bayeslab.latents.expectation_maximisation.maximise`, and ``begin``, a
        callable that puts given values into a random start, or None.
    unbounded : callable or None
        Whether the likelihood is unbounded at the parameters.
    vanishing : callable or None
        By name, the number of scale parameters that the likelihood drives to zero, which a search never reaches.
    """

    how: str
    problem: Callable[[bool], Problem]
    start: Callable[[np.random.Generator], Mapping[str, np.ndarray]]
    values: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    dims: Mapping[str, tuple[str, ...]]
    placed: Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    exchangeable: str = ""
    search: Callable[[bool, int, np.random.Generator, Any, Mapping[str, Any]], Searched] | None = None
    unbounded: Callable[[Mapping[str, np.ndarray]], bool] | None = None
    vanishing: Callable[[Mapping[str, np.ndarray]], Mapping[str, int]] | None = None


@dataclass(frozen=True, eq=False)
class VariationalEnd:
    """The end of one search for the closest factorised posterior.

    Attributes
    ----------
    trace : ndarray
        The evidence lower bound after each iteration.
    converged : bool
    draw : callable
        Maps a generator and n to independent draws from the approximation by name, shape (n, ...).
    weighed : callable or None
        Maps a generator and n to n draws of q by name, shape (n, ...), and to log p(data, θ) - log q(θ) at each,
        with latent variables summed out of p.
    groups : mapping
        More than a posterior: {group: {name: (dims, array)}}.
    notes : tuple of Note
    """

    trace: np.ndarray
    converged: bool
    draw: Callable[[np.random.Generator, int], Mapping[str, np.ndarray]]
    weighed: Callable[[np.random.Generator, int], tuple[Mapping[str, np.ndarray], np.ndarray]] | None = None
    groups: Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def elbo(self) -> float:
        """The final bound."""
        return float(self.trace[-1])


@dataclass(frozen=True, slots=True)
class VariationalPlan:
    """The plan for a product of conjugate factors, found by coordinate ascent.

    Attributes
    ----------
    how : str
        One line: the factors.
    search : callable
        Runs one search, given a generator, the tolerance in units of the bound, the maximum number of iterations, and a
        callable that receives each iteration's number and bound.
    dims : mapping of str to tuple of str
        Dimensions of each quantity.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    log_copies : float
        Log of the number of equal modes, of which the approximation covers one: log K! for K exchangeable components.
    otherwise : str
        Advice for a bad approximation.
    """

    how: str
    search: Callable[[np.random.Generator, float, int, Callable[[int, float], None]], VariationalEnd]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    log_copies: float = 0.0
    otherwise: str = "sample with method nuts"
