"""Fits of mixtures: EM, MAP-EM, hard EM (k-means), restarts, and repair of bad components.

Three common problems are handled here:

- *Local maxima*: several starts, each from k-means++ seeds [1]_.
- *A component collapses* on one point, where the likelihood of a Gaussian is unbounded. The search stops as
  soon as a component has no variance, and the component is moved to the rows that the others fit
  worst. With a prior (``method: map``) this cannot happen.
- *Two components merge*: they have the same density at all their rows. One of them is moved, and the
  result is kept if it is better.

References
----------
.. [1] Arthur, Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA, 1027-1035.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from bayeslab.distributions.emissions import Parameters
from bayeslab.distributions.emissions.components import normalise
from bayeslab.errors import DataError, OptionError, hint
from bayeslab.latents.expectation_maximisation import EMResult, maximise
from bayeslab.posterior.mixtures.problem import Collapse, HardProblem, MixtureProblem
from bayeslab.posterior.mixtures.starts import (
    Start,
    by_chance,
    by_clump,
    by_rows,
    by_seeds,
    permitted,
    start_from_labels,
)
from bayeslab.posterior.mixtures.starts import start as start_of

__all__ = [
    "AllCollapsed",
    "MixtureFit",
    "MixtureOptions",
    "Search",
    "fit_mixture",
    "merging",
    "search",
]

Method = Literal["em", "map", "hard"]
type Progress = Callable[[int, int, Mapping[str, Any], float], None]


class AllCollapsed(DataError):
    """Raised when a component collapsed in every search."""


# --------------------------------------------------------------------------------- repair


def merging(problem: MixtureProblem, theta: Parameters, *, within: float = 0.05) -> list[tuple[int, int]]:
    """Pairs of merged components: the average |log p_j - log p_k| over their rows is at most ``within``."""
    log_density = problem.log_density(theta)
    _, r = problem.responsibilities(theta)
    if problem.latent.row_weights is not None:
        r = r * problem.latent.row_weights[:, None]
    pairs = []
    for j in range(problem.n_components):
        for k in range(j + 1, problem.n_components):
            weight = r[:, j] + r[:, k]
            held = weight > 1e-12
            apart = np.abs(log_density[held, j] - log_density[held, k])
            if weight.sum() > 0 and weight[held] @ apart <= within * weight.sum():
                pairs.append((j, k))
    return pairs


def _replanted(
    problem: MixtureProblem, theta: Parameters, components: np.ndarray, rng: np.random.Generator
) -> Parameters:
    """The parameters with some components moved to the rows that the others fit worst."""
    others = np.setdiff1d(np.arange(problem.n_components), components)
    points = problem.emission.features(problem.rows)
    if len(others) == 0:
        return start_of(problem, "k_means++", rng)
    try:
        # Collapsed components have no density; only the others count below.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = problem.log_density(theta)
    except np.linalg.LinAlgError:
        return start_of(problem, "k_means++", rng)
    log_weights = np.broadcast_to(problem.latent.log_weights(theta), log_density.shape)[:, others]
    evidence, among = normalise(log_weights, np.nan_to_num(log_density[:, others], nan=-np.inf))
    r = np.zeros(log_density.shape)
    r[:, others] = among
    size = max(problem.rows.shape[1] + 2, len(points) // (2 * problem.n_components))
    for k in components:
        # A row that the others fit badly, with its neighbours: alone it would collapse again.
        surprise = evidence.max() - np.maximum(evidence, evidence.max() - 1e3)
        centre = points[rng.choice(len(points), p=surprise / surprise.sum() if surprise.sum() > 0 else None)]
        near = np.argsort(np.sum((points - centre) ** 2, axis=1), kind="stable")[:size]
        r[near] = 0.0
        r[near, k] = 1.0
    return start_from_labels(problem, np.where(r.sum(axis=1, keepdims=True) > 0, r, 1 / problem.n_components))


# --------------------------------------------------------------------------------- fitting


@dataclass(frozen=True)
class MixtureOptions:
    """Options of the search.

    Attributes
    ----------
    method
        ``em`` (maximum likelihood), ``map`` (with priors), ``hard`` (each row assigned to its best component).
    variant
        Variant of EM: see `expectation_maximisation`.
    restarts : int
        Number of starts; the best end is kept.
    start
        Kind of starts: ``k_means`` (seeds, then Lloyd's algorithm), ``k_means++`` (seeds), or ``random``
        responsibilities.
    repairs : int
        Maximum number of times that a search may move collapsed or merged components.
    unlike : bool
        Whether the second half of the searches, and any with the same start as an earlier one, start from the best of
        many short searches from diverse starts.
    """

    method: Method = "em"
    variant: Literal["em", "accelerated", "newton", "stochastic"] = "em"
    restarts: int = 10
    start: Start = "k_means"
    tolerance: float = 1e-6
    max_iterations: int = 1000
    repairs: int = 5
    unlike: bool = False


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """A fitted mixture.

    Attributes
    ----------
    problem : MixtureProblem
        The problem, with the prior that was used.
    parameters : dict
        ``weights`` or ``gate``, and the emission's parameters.
    log_likelihood, log_posterior : float
        For hard EM, those of the rows with their labels.
    trace : ndarray
        Log likelihood at the start and after each iteration of the best search.
    ends : ndarray
        Final log posteriors of the searches, -inf for failed ones.
    iterations : int
    converged : bool
    repaired : tuple of str
        Repairs in the best search.
    warnings : tuple of str
        Remaining problems of the fit.
    """

    problem: MixtureProblem
    parameters: Parameters
    log_likelihood: float
    log_posterior: float
    trace: np.ndarray
    ends: np.ndarray
    iterations: int
    converged: bool
    repaired: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def responsibilities(self) -> np.ndarray:
        """Responsibilities of the components, shape (N, K)."""
        return self.problem.responsibilities(self.parameters)[1]

    @property
    def labels(self) -> np.ndarray:
        """The most probable component of each row."""
        return self.responsibilities.argmax(axis=1)

    def log_evidence(self, rows: np.ndarray, inputs: np.ndarray | None = None) -> np.ndarray:
        """Log density of new rows, shape (N,)."""
        other = replace(self.problem, rows=rows, latent=self.problem.latent.on(inputs=inputs))
        return other.responsibilities(self.parameters)[0]


@dataclass
class Search:
    """One search from one start.

    Attributes
    ----------
    result : EMResult or None
        The result; None if every attempt collapsed.
    repaired : list of str
        Repairs in the search.
    interrupted : bool
    """

    result: EMResult | None = None
    repaired: list[str] = field(default_factory=list)
    interrupted: bool = False


def fit_mixture(
    problem: MixtureProblem,
    options: MixtureOptions | None = None,
    *,
    rng: np.random.Generator,
    start: Parameters | None = None,
    progress: Progress | None = None,
) -> MixtureFit:
    """The best of several searches.

    Parameters
    ----------
    start : dict, optional
        Parameters to start the first search from; with ``restarts=1`` the only one.
    progress : callable, optional
        Called with the number of the search, the iteration, the parameters and the log posterior. A KeyboardInterrupt
        ends the searches with their current results.

    Raises
    ------
    OptionError, DataError
        Wrong options or data; or every search collapsed.
    """
    options = options or MixtureOptions()
    problem, searches = search(problem, options, rng=rng, start=start, progress=progress)
    ends = np.array([-np.inf if s.result is None else s.result.log_posterior for s in searches])
    best = searches[int(ends.argmax())]
    if best.result is None:
        raise AllCollapsed(
            f"in each of {options.restarts} searches a component collapsed on a few equal rows; use method: map, or"
            " fewer components",
            code="degenerate",
        )
    end = best.result
    pairs = merging(problem, end.parameters) if problem.n_components > 1 else []
    warnings = tuple(f"components {j} and {k} say the same: fewer components would do" for j, k in pairs)
    if searches[-1].interrupted:
        warnings += (f"interrupted in search {len(searches)} of {options.restarts}",)
    return MixtureFit(
        problem,
        dict(end.parameters),
        end.log_likelihood,
        end.log_posterior,
        end.trace,
        ends,
        end.iterations,
        end.converged,
        tuple(best.repaired),
        warnings,
    )


def search(
    problem: MixtureProblem,
    options: MixtureOptions,
    *,
    rng: np.random.Generator,
    start: Parameters | Callable[[np.random.Generator], Parameters] | None = None,
    progress: Progress | None = None,
) -> tuple[MixtureProblem, list[Search]]:
    """The problem with the prior that is used, and all searches; parameters as for :func:`fit_mixture`.

    ``start`` has the parameters of the first start, or maps a generator to those of each start.
    """
    for name, allowed in (("method", ("em", "map", "hard")), ("start", ("k_means", "k_means++", "random"))):
        if getattr(options, name) not in allowed:
            raise OptionError(
                f"unknown {name} '{getattr(options, name)}'{hint(getattr(options, name), allowed)}", code="unknown-word"
            )
    if options.restarts < 1:
        raise OptionError(f"restarts is at least 1, not {options.restarts}", code="out-of-range")
    if options.method == "map":
        problem = problem.with_weak_prior()
    problem.check()
    sources = rng.spawn(options.restarts)
    given_all: list[Parameters | None]
    if callable(start):
        given_all = [start(generator) for generator in sources]
    else:
        given_all = [start, *[None] * (options.restarts - 1)]
        if options.unlike and options.restarts > 1:
            given_all = _unlike(problem, options, sources, start, rng.spawn(1)[0])
    searches = []
    for number, (generator, given) in enumerate(zip(sources, given_all, strict=True)):
        step = None if progress is None else partial(progress, number)
        searches.append(_search(problem, options, generator, given, step))
        if searches[-1].interrupted:
            break
    return problem, searches


def _unlike(
    problem: MixtureProblem,
    options: MixtureOptions,
    sources: list[np.random.Generator],
    first: Parameters | None,
    rng: np.random.Generator,
) -> list[Parameters | None]:
    """Starts of the searches: the first half as usual, without repetitions, the others from ends of short searches."""
    out: list[Parameters | None] = []
    heights: list[float] = []
    for number, generator in enumerate(sources):
        given = first if number == 0 else None
        theta = given if given is not None else _begun(problem, options.start, generator)
        height = -np.inf if theta is None else _height(problem, theta)
        if number and (
            number >= (len(sources) + 1) // 2 or any(abs(height - h) <= 1e-9 * max(1.0, abs(h)) for h in heights)
        ):
            continue
        out.append(theta)
        heights.append(height)
    further = _short(problem, options, len(sources) - len(out), rng)
    out += further
    return [*out, *[None] * (len(sources) - len(out))]


def _begun(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> Parameters | None:
    try:
        return start_of(problem, kind, rng)
    except Collapse:
        return None


def _height(problem: MixtureProblem, theta: Parameters) -> float:
    """Log posterior."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(problem.expect(theta)[0] + problem.log_prior(theta))


# Limit of rows times components times columns for all short searches per step; maximum number of short searches; and
# their steps.
_CHEAP, _MANY, _STEPS = 2_000_000, 40, 10


def _short(
    problem: MixtureProblem, options: MixtureOptions, wanted: int, rng: np.random.Generator
) -> list[Parameters | None]:
    """Ends of the best of many short searches from diverse starts, highest first.

    References
    ----------
    Biernacki, Celeux, Govaert (2003). Choosing starting values for the EM algorithm for getting the highest likelihood
    in multivariate Gaussian mixture models. Computational Statistics & Data Analysis 41, 561-575.
    """
    climbed = HardProblem(problem) if options.method == "hard" else problem
    each = problem.n_components * max(problem.rows.size, 1)
    kinds: list[Callable[[MixtureProblem, np.random.Generator], np.ndarray]] = [by_rows, by_chance, by_seeds]
    if options.method == "map":
        # Without a prior the likelihood of a small component is unbounded: searches would end where rows coincide.
        kinds = [by_clump, *kinds]
    ends: list[tuple[float, Parameters]] = []
    for k in range(int(np.clip(_CHEAP // each, wanted, _MANY))):
        try:
            guess = permitted(problem, kinds[k % len(kinds)](problem, rng))
            theta = problem.update(problem.statistics(guess))
            end = maximise(climbed, theta, tolerance=options.tolerance, max_iterations=_STEPS)
        except (Collapse, OptionError, np.linalg.LinAlgError):
            continue
        if end.reason == "interrupted":
            raise KeyboardInterrupt
        if np.isfinite(end.log_posterior):
            ends.append((end.log_posterior, dict(end.parameters)))
    ends.sort(key=lambda pair: -pair[0])
    return [theta for _, theta in ends[:wanted]]


def _search(
    problem: MixtureProblem,
    options: MixtureOptions,
    rng: np.random.Generator,
    given: Parameters | None,
    progress: Callable[[int, Mapping[str, Any], float], None] | None,
) -> Search:
    search, theta, fixes = Search(), given, []
    climbed = HardProblem(problem) if options.method == "hard" else problem
    for attempt in range(options.repairs + 1):
        try:
            if theta is None:
                theta = start_of(problem, options.start, rng)
            end = maximise(
                climbed,
                theta,
                variant=options.variant,
                tolerance=options.tolerance,
                max_iterations=options.max_iterations,
                rng=rng,
                progress=progress,
            )
        except Collapse as collapse:
            fixes.append(f"components {collapse.components.tolist()} collapsed and were planted anew")
            theta = _planted(problem, collapse.theta, collapse.components, rng)
            continue
        if search.result is None or end.log_posterior > search.result.log_posterior:
            search.result, search.repaired = end, list(fixes)
        search.interrupted = end.reason == "interrupted"
        pairs = merging(problem, search.result.parameters) if problem.n_components > 1 else []
        if not pairs or attempt == options.repairs or search.interrupted:
            break
        j, k = pairs[0]
        fixes.append(f"components {j} and {k} had merged; {k} was planted anew")
        theta = _planted(problem, search.result.parameters, np.array([k]), rng)
    return search


def _planted(
    problem: MixtureProblem, theta: Parameters, components: np.ndarray, rng: np.random.Generator
) -> Parameters | None:
    """Like `_replanted`; None (a new start) if the result has no variance either."""
    try:
        return _replanted(problem, theta, components, rng)
    except Collapse:
        return None
