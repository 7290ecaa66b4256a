"""What engines that need no graph are given by a family, and what they get back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from bayeslab.latents.sampler import Chains

if TYPE_CHECKING:
    from bayeslab.latents.expectation_maximisation import Problem, Restarts

__all__ = [
    "Answer",
    "EMPlan",
    "GibbsDraws",
    "GibbsPlan",
    "Note",
    "Plan",
    "PointEstimate",
    "Searched",
    "VariationalEnd",
    "VariationalPlan",
]


class Answer(Protocol):
    """A posterior in closed form or by quadrature.

    ``dims`` names what is drawn; means, sds and quantiles may be of some of these only. An answer may
    have a method ``groups()`` with more than a posterior: {group: {name: (dims, array)}}.

    Attributes
    ----------
    dims : mapping of str to tuple of str
        Dimensions of each quantity that is drawn; moments and quantiles may be of fewer.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    log_evidence : float
        Log density of the data; NaN where a prior is improper.
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A model that can be solved exactly.

    Attributes
    ----------
    how : str
        One line: which closed form applies.
    solve : callable
        Does the work.
    empirical : callable or None
        The same with the scales at the maximum of the marginal likelihood, where there are scales.
    dims, labels : mapping
        Of the answer, where they are known before it is solved: they say how large a draw is.
    """

    how: str
    solve: Callable[[], Answer]
    empirical: Callable[[], Answer] | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """Parameters at the highest point of their density, found without a graph.

    Attributes
    ----------
    values : mapping of str to ndarray
        Every parameter of the graph, on its natural scale.
    log_density : float
        Of parameters and data, without the Jacobian of any transform; or of the data alone.
    converged : bool
    slope : float
        The largest element of the gradient, by the logarithm of what is positive and in widths of all other priors.
    agree : bool
        Whether all starting points led there.
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
    """What a family's own searches found, and what the user should know about them."""

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
        More than a posterior: {group: {name: (dims, array)}}.
    notes : tuple of Note
    """

    draws: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    groups: Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class GibbsPlan:
    """A model whose posterior can be drawn from by Gibbs steps.

    Attributes
    ----------
    how : str
        One line: what is drawn in turns.
    chains : Chains
        How the chains run, and the draws that their states hold.
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
class EMPlan:
    """A model whose parameters expectation maximisation can find.

    Attributes
    ----------
    how : str
        One line: what is summed out, and how.
    problem : callable
        Makes the problem: with the model's priors (True; raises ModelError where a prior has no mode), or without.
    start : callable
        Random parameters of the problem, from a generator.
    values : callable
        Quantities by their names in the posterior, from parameters of the problem.
    dims : mapping of str to tuple of str
        Dimensions of each quantity.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    bounds : mapping of str to (float, float)
        Where a quantity cannot go beyond: estimates there are reported. (0, 1) for probabilities; where there is
        no upper one, estimates up to the lower.
    placed : callable
        Parameters of the problem with some quantities, by their names in the posterior, put in their place; raises
        OptionError where they cannot be.
    kinds : mapping of str to str
        What values quantities can have: simplex (along the last axis), unit, positive or matrix; others are real.
    exchangeable : str
        Whose states have arbitrary names, if any have.
    search : callable or None
        Searches of the family's own, from whether to use the priors, the number of restarts, a generator, a callable
        for progress and options of :func:`bayeslab.latents.expectation_maximisation.maximise`; and ``begin``, a
        callable that puts given values into a random start, or None.
    unbounded : callable or None
        Whether parameters are where the likelihood has no bound.
    vanishing : callable or None
        By name, how many spreads of the parameters the likelihood would rather have at zero, which a search approaches
        without end.
    at_limits : callable or None
        By name, how many positive parameters are where the problem is level towards zero or infinity.
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
    at_limits: Callable[[Any, Mapping[str, np.ndarray]], Mapping[str, int]] | None = None


@dataclass(frozen=True, eq=False)
class VariationalEnd:
    """Where one search for the nearest factorised posterior ended.

    Attributes
    ----------
    trace : ndarray
        The evidence lower bound after each iteration.
    converged : bool
    draw : callable
        Independent draws from the approximation by name, (n, ...), from a generator and n.
    log_ratios : callable or None
        log p(data, θ) - log q(θ) at n draws of q, from a generator and n; what is hidden is summed out of p.
    groups : mapping
        More than a posterior: {group: {name: (dims, array)}}.
    notes : tuple of Note
    """

    trace: np.ndarray
    converged: bool
    draw: Callable[[np.random.Generator, int], Mapping[str, np.ndarray]]
    log_ratios: Callable[[np.random.Generator, int], np.ndarray] | None = None
    groups: Mapping[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def elbo(self) -> float:
        """The bound in the end."""
        return float(self.trace[-1])


@dataclass(frozen=True, slots=True)
class VariationalPlan:
    """A model whose posterior a product of conjugate factors can approximate, by coordinate ascent.

    Attributes
    ----------
    how : str
        One line: which factors.
    search : callable
        One search, from a generator, the tolerance in units of the bound, the most iterations, and a callable that is
        told each iteration's number and bound.
    dims : mapping of str to tuple of str
        Dimensions of each quantity.
    labels : mapping of str to ndarray
        Labels of dimensions that the data do not know.
    log_copies : float
        Log of the number of equal modes, of which the approximation covers one: log K! of K exchangeable components.
    otherwise : str
        What to do where the approximation is bad.
    """

    how: str
    search: Callable[[np.random.Generator, float, int, Callable[[int, float], None]], VariationalEnd]
    dims: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    log_copies: float = 0.0
    otherwise: str = "sample with method nuts"
