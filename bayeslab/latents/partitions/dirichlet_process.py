r"""Dirichlet and Pitman-Yor process mixtures, with an unbounded number of clusters.

A random distribution from a Dirichlet process is discrete, G = Σ w_k δ(θ_k), with stick-breaking weights
w_k = v_k Π_{j<k} (1 - v_j), v_k ~ Beta(1, α), and atoms θ_k from a base distribution [1]_. Rows
drawn from it share atoms. With G integrated out, rows follow a Chinese restaurant process [2]_: after n guests the next
one joins a table of n_c guests with probability n_c / (α + n), and opens a new one with probability α / (α + n). With a
discount 0 ≤ σ < 1, the Pitman-Yor process [3]_, these are n_c - σ and α + σ t at t tables, and v_k ~ Beta(1 - σ, α + k
σ); the number of tables grows like n^σ instead of α log n. A partition has probability

    Π_{c=1}^{t-1} (α + σ c) / Π_{i=1}^{n-1} (α + i)  ·  Π_c (1 - σ)(2 - σ) ... (n_c - 1 - σ)

for any order of the guests. Parameters of conjugate components are integrated out too, so that a chain moves over
partitions of the rows only: rows are reassigned one at a time (algorithm 3 of [4]_), and clusters split and
merge (Jain and Neal [5]_): two rows are the seeds of a split, and the other rows of their cluster are allocated to them
one after the other (Dahl and Newcomb [6]_). α with a Gamma prior is drawn with auxiliary variables (Escobar and
West [7]_; with a discount Teh [8]_), or it maximises the marginal likelihood, at the value for which the prior and
posterior expected numbers of clusters are equal [9]_.

References
----------
.. [1] Sethuraman (1994). A constructive definition of Dirichlet priors. Statistica Sinica 4, 639-650.
.. [2] Aldous (1985). Exchangeability and related topics. Springer Lecture Notes in Mathematics 1117, section 11.
.. [3] Pitman, Yor (1997). The two-parameter Poisson-Dirichlet distribution derived from a stable subordinator.
   Annals of Probability 25, 855-900.
.. [4] Neal (2000). Markov chain sampling methods for Dirichlet process mixture models. J. Computational and Graphical
   Statistics 9, 249-265.
.. [5] Jain, Neal (2004). A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model.
   J. Computational and Graphical Statistics 13, 158-182.
.. [6] Dahl, Newcomb (2022). Sequentially allocated merge-split samplers for conjugate Bayesian nonparametric models.
   J. Statistical Computation and Simulation 92, 1487-1511.
.. [7] Escobar, West (1995). Bayesian density estimation and inference using mixtures. JASA 90, 577-588.
.. [8] Teh (2006). A Bayesian interpretation of interpolated Kneser-Ney. National University of Singapore TRA2/06,
   appendix C.
.. [9] McAuliffe, Blei, Jordan (2006). Nonparametric empirical Bayes for the Dirichlet process mixture model. Statistics
   and Computing 16, 5-14.
.. [10] Ishwaran, James (2001). Gibbs sampling methods for stick-breaking priors. JASA 96, 161-173, theorem 2.
.. [11] De Blasi, Favaro, Lijoi, Mena, Prünster, Ruggiero (2015). Are Gibbs-type priors the most natural generalization
   of the Dirichlet process? IEEE PAMI 37, 212-229.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln

from bayeslab.distributions.emissions import Categorical, DiagonalGaussian, FullGaussian, OneParameter, Product
from bayeslab.errors import DataError, OptionError
from bayeslab.latents.sampler import frozen, thawed

__all__ = [
    "ENDS",
    "RECORDED",
    "Base",
    "Moves",
    "PartitionPrior",
    "ProcessPrior",
    "ProcessProblem",
    "advance",
    "draw_concentration",
    "empirical_concentration",
    "expected_tables",
    "log_partition_probability",
    "restaurant",
    "seated",
    "start",
    "stick_breaking",
    "table_probabilities",
    "truncation_bound",
]

type Concentration = float | tuple[float, float] | Literal["empirical_bayes"]
type State = dict[str, np.ndarray]

# Label-invariant quantities recorded for each draw.
RECORDED = ("n_clusters", "entropy", "largest", "log_joint", "alpha", "moved", "accepted")


# --------------------------------------------------------------------------------- the prior


class PartitionPrior(ABC):
    """A prior of partitions of Gibbs type [11]_.

    A row joins a cluster of n rows with the weight n - ``discount``, and opens a new one with a weight that depends on
    the number of clusters.
    """

    if TYPE_CHECKING:  # a field of some subclasses, a property of others

        @property
        def discount(self) -> float: ...

    @property
    def alpha_prior(self) -> tuple[float, float]:
        """Shape and rate of the Gamma prior of the concentration; zeros where it is known, or there is none."""
        return (0.0, 0.0)

    @property
    def begin(self) -> float:
        """A start value of the concentration; 0 where there is none."""
        return 0.0

    @abstractmethod
    def log_opening(self, alpha: float, n: int) -> np.ndarray:
        """Log weights of a new cluster beside 0, 1, ... clusters of n rows, (n + 2,)."""


@dataclass(frozen=True)
class ProcessPrior(PartitionPrior):
    """A Dirichlet process, or with a discount a Pitman-Yor process.

    Attributes
    ----------
    alpha : float, (float, float) or "empirical_bayes"
        The concentration: known, shape and rate of its Gamma prior, or at the maximum of the marginal likelihood.
    discount : float
        At least 0, below 1.
    """

    alpha: Concentration = (1.0, 1.0)
    discount: float = 0.0

    def __post_init__(self) -> None:
        _check(1.0 if isinstance(self.alpha, str) else min(np.atleast_1d(self.alpha)), self.discount)

    @property
    def alpha_prior(self) -> tuple[float, float]:
        """Shape and rate of the prior; zeros where α is a number."""
        return self.alpha if isinstance(self.alpha, tuple) else (0.0, 0.0)

    @property
    def begin(self) -> float:
        """A start value of α."""
        if isinstance(self.alpha, str):
            return 1.0
        return self.alpha[0] / self.alpha[1] if isinstance(self.alpha, tuple) else float(self.alpha)

    def log_opening(self, alpha: float, n: int) -> np.ndarray:
        from bayeslab.latents.partitions.dirichlet_process_kernels import openings

        return np.asarray(openings(alpha, float(self.discount), n))


def _check(alpha: float, discount: float) -> None:
    if not 0 < alpha < np.inf:
        raise OptionError(f"the concentration is positive, not {alpha:g}", code="out-of-range")
    if not 0 <= discount < 1:
        raise OptionError(f"the discount is at least 0 and below 1, not {discount:g}", code="out-of-range")


def restaurant(n: int, alpha: float, *, discount: float = 0.0, rng: np.random.Generator) -> np.ndarray:
    """Draw the tables of n guests of a Chinese restaurant process, numbered in order of opening, (n,)."""
    _check(alpha, discount)
    tables, sizes = np.empty(n, np.int64), np.zeros(max(n, 1), np.int64)
    count = 0
    for i in range(n):
        table = count
        if count and rng.random() * (alpha + i) >= alpha + discount * count:
            # That of a guest chosen at random, with n_c / i; with a discount some of these are refused.
            table = tables[rng.integers(i)]
            while discount and rng.random() * sizes[table] < discount:
                table = tables[rng.integers(i)]
        tables[i] = table
        sizes[table] += 1
        count += table == count
    return tables


def stick_breaking(
    n_sticks: int, alpha: float, *, discount: float = 0.0, rng: np.random.Generator, size: int | None = None
) -> np.ndarray:
    """Draw the first weights of a Dirichlet or Pitman-Yor process, and last the rest of the stick.

    Returns
    -------
    ndarray (n_sticks + 1,), or (size, n_sticks + 1)
    """
    _check(alpha, discount)
    shape = (n_sticks,) if size is None else (size, n_sticks)
    v = rng.beta(1 - discount, alpha + discount * np.arange(1, n_sticks + 1), shape)
    left = np.cumprod(1 - v, axis=-1)
    before = np.concatenate([np.ones((*shape[:-1], 1)), left[..., :-1]], axis=-1)
    return np.concatenate([v * before, left[..., -1:]], axis=-1)


def expected_tables(n: int, alpha: float, discount: float = 0.0) -> float:
    """Expected number of tables of n guests: Σ α / (α + i), or with a discount (Π (α + σ + i) / (α + i) - 1) α / σ."""
    _check(alpha, discount)
    if n <= 0:
        return 0.0
    if discount == 0:
        return float(alpha * (digamma(alpha + n) - digamma(alpha)))
    rise = gammaln(alpha + discount + n) - gammaln(alpha + discount) - gammaln(alpha + n) + gammaln(alpha)
    return float(alpha / discount * np.expm1(rise))


def table_probabilities(n: int, alpha: float, discount: float = 0.0) -> np.ndarray:
    """Probabilities of 0, 1, ..., n tables of n guests, (n + 1,): guest by guest, O(n²)."""
    _check(alpha, discount)
    p = np.zeros(n + 1)
    p[0] = 1.0
    t = np.arange(n + 1)
    for i in range(n):
        opened = np.where(t > 0, (alpha + discount * t) / (alpha + i), 1.0) if i else np.ones(n + 1)
        p[1:], p[0] = p[1:] * (1 - opened[1:]) + p[:-1] * opened[:-1], 0.0
    return p


def log_partition_probability(sizes: Sequence[int] | np.ndarray, alpha: float, discount: float = 0.0) -> float:
    """Log probability of a partition into clusters of these sizes."""
    _check(alpha, discount)
    sizes = np.asarray(sizes)
    n, t = int(sizes.sum()), len(sizes)
    clusters = np.sum(gammaln(sizes - discount) - gammaln(1 - discount))
    opened = np.sum(np.log(alpha + discount * np.arange(1, t)))
    return float(opened + clusters + gammaln(alpha + 1) - gammaln(alpha + n))


def truncation_bound(n: int, most: int, alpha: float, discount: float = 0.0) -> float:
    """Bound of the L1 error of the density of n rows under truncation to ``most`` pieces, the last the rest [10]_.

    Four times n times the expected remainder after ``most`` - 1 pieces; at most 2.
    """
    k = np.arange(1, most)
    left = float(np.exp(np.sum(np.log(alpha + discount * k) - np.log1p(alpha + discount * (k - 1)))))
    return min(2.0, 4.0 * n * left)


# --------------------------------------------------------------------------------- rows and base distribution


@dataclass(frozen=True, eq=False)
class Base:
    """Conjugate components as blocks for the kernels.

    Attributes
    ----------
    blocks, hyper : ndarray
        See :mod:`bayeslab.latents.partitions.dirichlet_process_kernels`.
    arranged : callable
        Rows (N, D) in the coordinates of the blocks.
    log_base : callable
        Terms of the rows' log density that the blocks leave out, (N,).
    """

    blocks: np.ndarray
    hyper: np.ndarray
    arranged: Callable[[np.ndarray], np.ndarray]
    log_base: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, emission: Any, *, gaps: bool = False) -> Base:
        """The base distribution of an emission with a conjugate prior.

        Parameters
        ----------
        gaps
            Rows may lack cells.

        Raises
        ------
        OptionError
            Its parameters cannot be integrated out.
        """
        reader = _READERS.get(type(emission))
        if reader is None or (not isinstance(emission, Product) and emission.prior is None):
            raise OptionError(
                f"{type(emission).__name__} has no conjugate prior, so it cannot be integrated out",
                code="not-conjugate",
            )
        parts: list[_Block] = reader(emission, gaps)
        blocks, column, place, first = [], 0, 0, 0
        for part in parts:
            blocks.append((part.code, column, part.size, place, first))
            column, place, first = column + part.columns, place + part.width, first + len(part.hyper)

        def arranged(rows: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(np.column_stack([part.arranged(rows) for part in parts]), float)

        def log_base(rows: np.ndarray) -> np.ndarray:
            return np.sum([part.log_base(rows) for part in parts], axis=0)

        hyper = np.concatenate([np.asarray(part.hyper, float) for part in parts])
        return cls(np.array(blocks, np.int64), hyper, arranged, log_base)

    @property
    def pruned(self) -> bool:
        """Whether hopeless clusters can be told by the first block: all others have probabilities, at most one."""
        return bool(self.blocks[0, 0] == 0 and np.all(self.blocks[1:, 0] == 2))

    def law(self, n_rows: int) -> Any:
        """What the kernels take, for up to so many rows."""
        from bayeslab.latents.partitions.dirichlet_process_kernels import tables_of

        return self.blocks, self.hyper, tables_of(self.blocks, self.hyper, n_rows), self.pruned


@dataclass(frozen=True, eq=False)
class _Block:
    code: int
    size: int
    columns: int
    width: int
    hyper: Any
    arranged: Callable[[np.ndarray], np.ndarray]
    log_base: Callable[[np.ndarray], np.ndarray]


def _zero(rows: np.ndarray) -> np.ndarray:
    return np.zeros(len(rows))


def _full(emission: FullGaussian, gaps: bool) -> list[_Block]:
    prior, d = emission.prior, emission.n_columns
    assert prior is not None
    if gaps:
        raise OptionError(
            "full covariances with missing cells have no closed form; use covariance: diagonal", code="no-closed-form"
        )
    if emission.covariance == "tied":
        raise OptionError(
            "one covariance for all components has no closed form here; use full or diagonal", code="no-closed-form"
        )
    known = emission.covariance == "known"
    matrix = emission.covariances({"mean": np.zeros((1, d))})[0] if known else np.asarray(prior.scale, float)
    root = np.linalg.cholesky(matrix)
    log_det = float(np.log(np.diag(root)).sum())

    def arranged(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.solve(root, (rows - prior.mean).T).T)

    def log_base(rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), -log_det)

    if known:
        return [_Block(5, d, d, 1 + d, [prior.kappa], arranged, log_base)]
    return [_Block(0, d, d, 1 + d + d * (d + 1) // 2, [prior.kappa, prior.nu], arranged, log_base)]


def _diagonal(emission: DiagonalGaussian, gaps: bool) -> list[_Block]:
    if emission.covariance == "spherical" and emission.n_columns > 1:
        raise OptionError("spherical components are not offered here; use covariance: diagonal", code="unsupported")
    prior, d = emission.prior, emission.n_columns
    assert prior is not None
    scale = np.sqrt(np.broadcast_to(prior.scale, (d,)))
    mean = np.broadcast_to(prior.mean, (d,))

    def block(j: int) -> _Block:
        def arranged(rows: np.ndarray) -> np.ndarray:
            return (rows[:, j] - mean[j]) / scale[j]

        def log_base(rows: np.ndarray) -> np.ndarray:
            return np.where(np.isnan(rows[:, j]), 0.0, -np.log(scale[j]))

        # One column without gaps is a matrix of one element.
        code, width = (0, 3) if d == 1 and not gaps else (1, 4)
        return _Block(code, 1, 1, width, [prior.kappa, prior.nu], arranged, log_base)

    return [block(j) for j in range(d)]


def _categorical(emission: Categorical, gaps: bool) -> list[_Block]:
    prior = np.broadcast_to(np.asarray(emission.prior, float), (len(emission.levels), max(emission.levels)))

    def block(j: int, levels: int) -> _Block:
        def arranged(rows: np.ndarray) -> np.ndarray:
            return np.where(np.isnan(rows[:, j]), -1.0, rows[:, j])

        return _Block(2, levels, 1, 2 + 2 * levels, prior[j, :levels], arranged, _zero)

    return [block(j, levels) for j, levels in enumerate(emission.levels)]


def _bernoulli(emission: OneParameter) -> list[_Block]:
    assert emission.prior is not None
    won, lost = (np.broadcast_to(p, (emission.n_columns,)) for p in emission.prior)

    def block(j: int) -> _Block:
        def arranged(rows: np.ndarray) -> np.ndarray:
            return np.where(np.isnan(rows[:, j]), -1.0, rows[:, j])

        return _Block(2, 2, 1, 6, [lost[j], won[j]], arranged, _zero)

    return [block(j) for j in range(emission.n_columns)]


def _one_parameter(emission: OneParameter, gaps: bool) -> list[_Block]:
    if emission.distribution == "Bernoulli":
        return _bernoulli(emission)
    assert emission.prior is not None
    d, code = emission.n_outcomes, {"Beta": 3, "Gamma": 4}[emission.pair.name]
    first, second = (np.broadcast_to(p, (d,)) for p in emission.prior)

    def block(j: int) -> _Block:
        def arranged(rows: np.ndarray) -> np.ndarray:
            won, base = emission.counted(rows)
            return np.column_stack([won[:, j], base[:, j]])

        # The whole emission's, once.
        return _Block(code, 2, 2, 3, [first[j], second[j]], arranged, _zero if j else emission.log_base)

    return [block(j) for j in range(d)]


def _product(emission: Product, gaps: bool) -> list[_Block]:
    out = []
    for columns, part in emission.parts.values():
        reader = _READERS.get(type(part))
        if reader is None or part.prior is None:
            raise OptionError(
                f"{type(part).__name__} has no conjugate prior, so it cannot be integrated out", code="not-conjugate"
            )
        at = list(columns)
        for block in reader(part, gaps):
            out.append(replace(block, arranged=_of(block.arranged, at), log_base=_of(block.log_base, at)))
    # A normal block first, by which hopeless clusters are told.
    return sorted(out, key=lambda block: block.code)


def _of(function: Callable[[np.ndarray], np.ndarray], columns: list[int]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: function(rows[:, columns])


_READERS: dict[type, Callable[[Any, bool], list[_Block]]] = {
    FullGaussian: _full,
    DiagonalGaussian: _diagonal,
    Categorical: _categorical,
    OneParameter: _one_parameter,
    Product: _product,
}


@dataclass(frozen=True, eq=False)
class ProcessProblem:
    """Rows, conjugate components, and the prior of the partitions.

    Attributes
    ----------
    emission
        With a conjugate prior.
    rows : ndarray (N, D)
        NaN where a cell is missing.
    prior : PartitionPrior
    """

    emission: Any
    rows: np.ndarray
    prior: PartitionPrior

    @cached_property
    def base(self) -> Base:
        if not len(self.rows):
            raise DataError("there are no rows; give at least one", code="no-rows")
        return Base.of(self.emission, gaps=bool(np.isnan(self.rows).any()))

    @cached_property
    def arranged(self) -> np.ndarray:
        return self.base.arranged(self.rows)

    @cached_property
    def law(self) -> Any:
        return self.base.law(len(self.rows))

    @cached_property
    def alone(self) -> np.ndarray:
        """Log density of each row in a cluster of its own, up to :meth:`Base.log_base`."""
        from bayeslab.latents.partitions.dirichlet_process_kernels import log_alone

        return np.asarray(log_alone(self.arranged, self.law))

    def with_rows(self, rows: np.ndarray) -> ProcessProblem:
        """The same on other rows."""
        return replace(self, rows=rows)

    def log_evidence(self, labels: np.ndarray) -> float:
        """Log density of the rows given their partition."""
        from bayeslab.latents.partitions.dirichlet_process_kernels import partition_evidence

        base = float(np.sum(self.base.log_base(self.rows)))
        return base + float(partition_evidence(self.arranged, np.asarray(labels, np.int64), self.law))

    def predict(self, labels: np.ndarray, alpha: float, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density of new rows, each on its own, and the probability of its cluster, the last a new one.

        Clusters are in the order in which they first appear in ``labels``.
        """
        from bayeslab.latents.partitions.dirichlet_process_kernels import log_alone, predict_rows

        base, law, arranged = self.base, self.law, self.arranged
        if np.isnan(new).any() and not np.isnan(self.rows).any():
            base = Base.of(self.emission, gaps=True)
            law, arranged = base.law(len(self.rows)), base.arranged(self.rows)
        there = base.arranged(new)
        given = (arranged, np.asarray(labels, np.int64), there, log_alone(there, law), alpha, self.prior.discount, law)
        density, probability = predict_rows(*given)
        return density + base.log_base(new), probability

    def leave_one_out(self, labels: np.ndarray, alpha: float) -> np.ndarray:
        """Log density of each row given the others and their partition, (N,)."""
        from bayeslab.latents.partitions.dirichlet_process_kernels import leave_one_out

        given = (self.arranged, np.asarray(labels, np.int64), self.alone, alpha, self.prior.discount, self.law)
        return np.asarray(leave_one_out(*given) + self.base.log_base(self.rows))


# --------------------------------------------------------------------------------- chains


@dataclass(frozen=True)
class Moves:
    """What a draw is made of: Gibbs sweeps, and split-merge proposals after each."""

    sweeps: int = 1
    proposals: int = 25


def start(problem: ProcessProblem, chain: int, rng: np.random.Generator, alpha: float | None = None) -> State:
    """Where a chain begins: one cluster, or in every other chain rows seated one after the other, in a random order."""
    n = len(problem.rows)
    alpha = problem.prior.begin if alpha is None else alpha
    labels = np.zeros(n, np.int32)
    if chain % 2:
        order = rng.permutation(n)
        labels[order] = _seated(
            problem.arranged[order], np.empty(0, np.int64), problem.alone[order], problem, alpha, rng
        )
    return {"labels": labels, "alpha": np.array(float(alpha)), "rng": frozen(rng)}


def seated(problem: ProcessProblem, state: State) -> State:
    """A state of a chain on the first rows as one on all of the problem's: the others join as guests do."""
    rng = thawed(state["rng"])
    known = np.asarray(state["labels"], np.int64)
    labels = _seated(problem.arranged, known, problem.alone, problem, float(state["alpha"]), rng)
    return {"labels": labels.astype(np.int32), "alpha": state["alpha"], "rng": frozen(rng)}


def _seated(
    arranged: np.ndarray,
    known: np.ndarray,
    alone: np.ndarray,
    problem: ProcessProblem,
    alpha: float,
    rng: np.random.Generator,
) -> np.ndarray:
    from bayeslab.latents.partitions.dirichlet_process_kernels import seat

    opening = problem.prior.log_opening(alpha, len(arranged))
    return np.asarray(seat(rng, arranged, known, alone, opening, float(problem.prior.discount), problem.law))


def advance(
    problem: ProcessProblem, state: State, keep: np.ndarray, moves: Moves = Moves(), search: np.ndarray | None = None
) -> tuple[State, dict[str, np.ndarray]]:
    """Draws that follow: the state after them, what is recorded of each (:data:`RECORDED`), and the partitions
    ``labels`` of those to ``keep``, (kept, N).

    In a ``search`` splits and merges are accepted where the posterior density is higher (or nearly), however they were
    proposed: large fragments of one cluster find together that a Markov chain would not merge for a long time. It
    leads to where draws begin and is no draw itself.

    The same draws follow from a state whether it was kept in a file or not.
    """
    from bayeslab.latents.partitions.dirichlet_process_kernels import run_segment

    rng, labels = thawed(state["rng"]), np.asarray(state["labels"]).astype(np.int64)
    how = (moves.sweeps, moves.proposals)
    alpha, records, kept = run_segment(
        rng,
        problem.arranged,
        problem.alone,
        problem.law,
        labels,
        float(state["alpha"]),
        problem.prior.alpha_prior,
        problem.prior.log_opening(float(state["alpha"]), len(problem.rows)),
        float(problem.prior.discount),
        len(keep),
        how,
        np.asarray(keep, bool),
        np.zeros(len(keep), bool) if search is None else np.asarray(search, bool),
    )
    records[:, RECORDED.index("log_joint")] += float(np.sum(problem.base.log_base(problem.rows)))
    out = {name: records[:, k] for k, name in enumerate(RECORDED)} | {"labels": kept}
    return {"labels": labels.astype(np.int32), "alpha": np.array(alpha), "rng": frozen(rng)}, out


def draw_concentration(prior: ProcessPrior, alpha: float, count: int, n: int, rng: np.random.Generator) -> float:
    """α with a Gamma prior given the number of clusters of n rows, by auxiliary variables [7]_, [8]_."""
    shape, rate = prior.alpha_prior
    log_beta = np.log(rng.beta(alpha + 1, n - 1)) if n > 1 else 0.0
    c = np.arange(1, count)
    opened = int(np.sum(rng.random(len(c)) * (alpha + prior.discount * c) < alpha))
    return float(max(rng.gamma(shape + opened) / (rate - log_beta), 1e-12))


def empirical_concentration(
    problem: ProcessProblem, rng: np.random.Generator, *, tune: int = 100, draws: int = 200
) -> float:
    """The α with the highest marginal likelihood, by stochastic approximation of EM [9]_.

    Each iteration draws a partition and averages its number of clusters t into those before, with weights that fall
    after ``tune``; the next α is where the log of the prior of partitions, averaged over t, is highest.
    """
    n = len(problem.rows)
    fixed = replace(problem, prior=ProcessPrior(1.0, problem.prior.discount))
    state = start(fixed, 1, rng)
    shares = np.zeros(n + 1)
    for k in range(tune + draws):
        state, records = advance(fixed, state, np.zeros(1, bool))
        weight = 1.0 if k < tune // 2 else 1.0 / max(1, k - tune // 2 + 1) ** 0.7
        shares *= 1 - weight
        shares[int(records["n_clusters"][0])] += weight
        state["alpha"] = np.array(_likeliest(shares, n, problem.prior.discount))
    return float(state["alpha"])


# With one cluster in every draw the likelihood rises as α falls, with n clusters as it rises: these are the ends.
ENDS = 1e-3, 1e6


def _likeliest(shares: np.ndarray, n: int, discount: float) -> float:
    held = np.flatnonzero(shares)
    # How often at least so many clusters had been opened.
    at_least = np.cumsum(shares[::-1])[::-1][2 : held.max() + 1]
    opened = discount * np.arange(1, len(at_least) + 1)

    def slope(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        return float(np.sum(at_least * alpha / (alpha + opened)) - alpha * (digamma(alpha + n) - digamma(alpha + 1)))

    low, high = np.log(ENDS)
    if slope(low) <= 0:
        return ENDS[0]
    return ENDS[1] if slope(high) >= 0 else float(np.exp(brentq(slope, low, high, xtol=1e-6)))
