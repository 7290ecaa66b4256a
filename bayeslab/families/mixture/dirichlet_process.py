"""Mixtures under a Dirichlet or Pitman-Yor process: chains over partitions, and their summaries."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.stats import gamma

from bayeslab.distributions.emissions import NormalPrior
from bayeslab.errors import OptionError, Reason, Stopped
from bayeslab.families.mixture import auxiliary
from bayeslab.families.mixture.auxiliary import by_auxiliary
from bayeslab.families.mixture.completion import (
    completed_in_clusters,
    drawn_in_clusters,
    joint_normal,
    normal_predictions,
)
from bayeslab.families.mixture.model import Resolved
from bayeslab.families.mixture.shares import drawn_shares
from bayeslab.latents.labels.clusters import MOST_PAIRED, canonical, coclustering_of_many, point_partition
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.latents.partitions import dirichlet_process as process
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior, ProcessProblem
from bayeslab.latents.sampler import Arrays, Chains
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note
from bayeslab.posterior.relabelling import evenly

if TYPE_CHECKING:
    from bayeslab.families.mixture.spec import Mixture
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.part import StatePart

__all__ = ["Kept", "Partitions", "by_partitions", "kept_of", "summaries"]

# Largest number of label cells stored in a chain, and smallest number of draws.
_KEPT_CELLS, _KEPT = 5_000_000, 10
# Number of partitions for summaries; fewer if there are many rows.
_SUMMARISED, _SUMMARISED_CELLS = 500, 20_000_000

# Sweeps for each draw; with many rows, where sweeps are costly, one sweep followed by all splits and merges.
_SWEEPS, _PROPOSALS, _FEW_ROWS = 5, 25, 10_000


def problem_of(resolved: Resolved) -> ProcessProblem:
    """The rows and components of a mixture, with the prior of its process."""
    assert resolved.process is not None
    return ProcessProblem(resolved.problem.emission, resolved.rows, resolved.process)


def keeps_parameters(resolved: Resolved) -> bool:
    """Whether the parameters of clusters cannot be integrated out."""
    return not resolved.conjugate or "student_t" in resolved.parts


# --------------------------------------------------------------------------------- chains


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Chains as arrays: see :class:`bayeslab.latents.sampler.Chains`."""

    problem: ProcessProblem
    moves: process.Moves

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    def alpha(self, rng: np.random.Generator) -> float | None:
        """The concentration of empirical Bayes: the same for all chains, from their common seed."""
        if self.problem.prior.alpha != "empirical_bayes":
            return None
        with self._lock:
            if "estimate" not in self.__dict__:
                seed: Any = rng.bit_generator.seed_seq
                generator = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(1 << 31,)))
                self.__dict__["estimate"] = process.empirical_concentration(self.problem, generator)
        return float(self.__dict__["estimate"])

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        """Every other chain starts in one cluster."""
        seed: Any = rng.bit_generator.seed_seq
        return self.at(process.start(self.problem, int(seed.spawn_key[-1]), rng, self.alpha(rng)), draws, tune)

    def at(self, state: process.State, draws: int, tune: int) -> Arrays:
        """A chain that starts at this state, with room for the stored draws."""
        n = len(self.problem.rows)
        kept = min(draws, max(_KEPT, _KEPT_CELLS // n))
        return {
            **state,
            "done": np.array(0),
            "tune": np.array(tune),
            "told": np.zeros((draws, len(process.TOLD))),
            "kept": np.zeros((kept, n), np.int32),
            "kept_alpha": np.zeros(kept),
        }

    def advance(self, chain: Arrays, sweeps: int) -> Arrays:
        done, tune, summaries, kept = int(chain["done"]), int(chain["tune"]), chain["told"].copy(), chain["kept"].copy()
        alphas = chain["kept_alpha"].copy()
        draw = np.arange(done - tune, done - tune + sweeps)
        place = np.maximum(draw, 0) * len(kept) // len(summaries)
        # Store the last of the draws that share a place, so that a chain can continue from its last draw.
        keep = (draw >= 0) & ((draw + 1) * len(kept) // len(summaries) > place)
        state = {name: chain[name] for name in ("labels", "alpha", "rng")}
        # The first half of the warm-up is a search.
        search = draw < tune // 2 - tune
        state, trace = process.advance(self.problem, state, keep, self.moves, search)
        values = np.stack([trace[name] for name in process.TOLD], axis=1)
        summaries[draw[draw >= 0]] = values[draw >= 0]
        kept[place[keep]] = trace["labels"]
        alphas[place[keep]] = trace["alpha"][keep]
        now = np.array(done + sweeps)
        return {**state, "done": now, "tune": chain["tune"], "told": summaries, "kept": kept, "kept_alpha": alphas}


def sampler_of(problem: ProcessProblem) -> _Sampler:
    """The chains, with a number of sweeps for each draw that suits the number of rows."""
    sweeps = _SWEEPS if len(problem.rows) <= _FEW_ROWS else 1
    return _Sampler(problem, process.Moves(sweeps, _PROPOSALS // sweeps))


def by_partitions(resolved: Resolved, rows: str) -> GibbsPlan | str:
    """Plan of Gibbs sampling of partitions with cluster parameters integrated out, or the reason against it."""
    problem = problem_of(resolved)
    if resolved.searched is not None:
        return resolved.searched
    if keeps_parameters(resolved):
        return by_auxiliary(resolved, rows)
    try:
        _ = problem.base
    except OptionError as error:
        text = error.message if "missing" in error.message else f"{error.message}; use nuts"
        return Reason(text, code=error.code)
    sampler = sampler_of(problem)
    names = ["n_clusters", "entropy", "largest", "log_joint"]
    names += ["alpha"] if isinstance(problem.prior.alpha, tuple) else []

    def finish(chains: Mapping[int, Arrays]) -> GibbsDraws:
        return _finished(resolved, sampler, names, chains, rows)

    how = f"partitions of {len(resolved.rows):,} rows, parameters integrated out, with split-merge moves"
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return GibbsPlan(how, Chains(sampler.begin, sampler.advance, finish), dims)


def _finished(
    resolved: Resolved, sampler: _Sampler, names: list[str], chains: Mapping[int, Arrays], rows: str
) -> GibbsDraws:
    n_draws = min((int(chain["done"] - chain["tune"]) for chain in chains.values()), default=0)
    if n_draws < 1:
        raise Stopped(
            "stopped before every chain had a draw after tuning; go on with `bayeslab fit --resume RUN`", code="stopped"
        )
    summaries = np.stack([chain["told"][:n_draws] for chain in chains.values()])
    draws = {name: summaries[..., process.TOLD.index(name)] for name in names}
    draws["n_clusters"] = draws["n_clusters"].astype(np.int64)
    room, size = next(iter(chains.values()))["kept"].shape[0], next(iter(chains.values()))["told"].shape[0]
    many = n_draws * room // size
    if not many:
        raise Stopped(
            "stopped before every chain had kept a partition; go on with `bayeslab fit --resume RUN`", code="stopped"
        )
    labels = np.stack([chain["kept"][:many] for chain in chains.values()])
    alphas = np.stack([chain["kept_alpha"][:many] for chain in chains.values()])
    of_draw = np.minimum(np.arange(n_draws) * room // size, many - 1)
    number = draws["n_clusters"].ravel()
    counts = np.bincount(number)
    numbers = np.arange(1, len(counts))
    groups: dict[str, Any] = {
        "partitions": {
            "labels": (("chain", "kept", rows), _narrow(labels)),
            "concentration": (("chain", "kept"), alphas),
            "of_draw": (("chain", "draw"), np.tile(of_draw, (len(chains), 1))),
        },
        "number": {"n_clusters": (("number",), numbers), "probability": (("number",), counts[1:] / counts.sum())},
    }
    stats = {
        "lp": summaries[..., process.TOLD.index("log_joint")],
        "moved": summaries[..., process.TOLD.index("moved")],
        "accepted": summaries[..., process.TOLD.index("accepted")],
    }
    return GibbsDraws(draws, stats, groups, _notes(sampler, summaries, alphas, counts))


def _narrow(labels: np.ndarray) -> np.ndarray:
    return labels.astype(np.int16) if labels.max(initial=0) < 1 << 15 else labels


def _notes(sampler: _Sampler, summaries: np.ndarray, alphas: np.ndarray, counts: np.ndarray) -> tuple[Note, ...]:
    shares = counts / counts.sum()
    shown = [(k, p) for k, p in enumerate(shares) if p >= 0.005]
    ends = ", ".join(f"{k}: {p:.2f}" for k, p in shown[:12]) + (", ..." if len(shown) > 12 else "")
    share = 100 * float(np.mean(summaries[..., process.TOLD.index("accepted")]))
    notes = [
        Note("pass", "clusters", f"posterior of the number of clusters {ends}"),
        Note("pass", "split-merge", f"{share:.1f} % of the proposals to split or merge clusters were accepted"),
    ]
    if sampler.problem.prior.alpha == "empirical_bayes":
        alpha, text = float(alphas.flat[-1]), "the concentration with the highest marginal likelihood is"
        if process.ENDS[0] < alpha < process.ENDS[1]:
            notes.append(Note("pass", "concentration", f"{text} {alpha:.4g}"))
        else:
            notes.append(
                Note(
                    "warn",
                    "concentration",
                    f"the likelihood rises to the end {alpha:g} of the concentrations tried",
                    "give the concentration, or a prior such as Gamma(1, 1)",
                )
            )
    return tuple(notes)


# --------------------------------------------------------------------------------- summaries of partitions


class Kept(Protocol):
    """Stored partitions of all chains, with their parameters."""

    @property
    def labels(self) -> np.ndarray:
        """Labels of the rows in each partition, (S, N) of int."""
        ...

    @property
    def of_draw(self) -> np.ndarray:
        """Index of the partition for each draw, (draws,)."""
        ...

    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For new rows given each partition: log density (M,), and probabilities of its clusters and of a new one.

        Clusters are ordered by first appearance.
        """
        ...

    def left_out(self) -> Iterator[np.ndarray]:
        """Log density of each row of the fit given all others, (N,), by partition."""
        ...

    def replicated(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        """New rows, as many as ``resolved`` has, from weights and parameters drawn given a partition."""
        ...

    def completed(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of ``resolved``, with missing cells drawn given the observed ones and a partition."""
        ...


@dataclass(frozen=True, eq=False)
class Partitions:
    """Stored partitions, with the parameters of clusters integrated out.

    Attributes
    ----------
    problem : ProcessProblem
        The problem on the rows of the fit.
    labels : ndarray (S, N) of int
    alphas : ndarray (S,)
    of_draw : ndarray (draws,)
        Index of the partition for each draw.
    parts : mapping of str to StatePart
        Parts of the clusters' emission.
    """

    problem: ProcessProblem
    labels: np.ndarray
    alphas: np.ndarray
    of_draw: np.ndarray
    parts: Mapping[str, StatePart]

    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        part = next(iter(self.parts.values()))
        if len(self.parts) == 1 and joint_normal(part) and np.isnan(rows).any():
            return (self._with_open_cells(part, rows, s) for s in which)
        return (self.problem.predict(self.labels[s], float(self.alphas[s]), rows) for s in which)

    def _with_open_cells(self, part: JointNormal, rows: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray]:
        # Clusters are numbered by first appearance, as in the probabilities.
        labels, alpha, sigma = canonical(self.labels[s]), float(self.alphas[s]), self.problem.prior.discount
        sizes = np.bincount(labels)
        shares = np.append(sizes - sigma, alpha + len(sizes) * sigma) / (alpha + len(labels))
        return normal_predictions(part, rows, self.problem.rows, labels, shares)

    def left_out(self) -> Iterator[np.ndarray]:
        return (self.problem.leave_one_out(z, a) for z, a in zip(self.labels, self.alphas, strict=True))

    def replicated(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        labels = self.labels[s].astype(np.int64)
        weights, theta = drawn_components(self.problem, labels, float(self.alphas[s]), rng)
        # The last cluster is a new one for the rest of the stick, which its rows share.
        z = rng.choice(len(weights), size=len(resolved.rows), p=weights)
        made = []
        for name, part in resolved.parts.items():
            given = resolved.rows[:, list(part.given_at)]
            made.append(part.sample(rng, resolved.parameters_of(name, theta), z, given))
        return np.concatenate(made, axis=1)

    def completed(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        labels = canonical(self.labels[s])
        ((_, probabilities),) = self.predictions(resolved.rows, [s])
        return drawn_in_clusters(resolved, self.problem.rows, labels, probabilities, rng)


def kept_of(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> Kept:
    """Read from draws and the group ``partitions``."""
    if keeps_parameters(resolved):
        return auxiliary.kept_of(resolved, draws)
    return Partitions(
        problem_of(resolved), draws["_labels"], draws["_concentration"], draws["_of_draw"], resolved.parts
    )


def some_labels(labels: np.ndarray) -> np.ndarray:
    """A subset of the partitions (S, N) for summaries."""
    most = max(20, min(_SUMMARISED, _SUMMARISED_CELLS // max(labels.shape[1], 1)))
    return labels[evenly(len(labels), most)].astype(np.int64)


def summaries(labels: np.ndarray, rows: str) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Point partitions under two losses and, for few enough rows, the co-clustering probabilities."""
    some = some_labels(labels)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "partition": ((rows,), point_partition(some).labels),
        "partition_binder": ((rows,), point_partition(some, loss="binder").labels),
    }
    if some.shape[1] <= MOST_PAIRED:
        out["together"] = ((rows, f"{rows}_2"), coclustering_of_many(labels, least=len(some)))
    return out


def prior_words(prior: ProcessPrior) -> dict[str, str]:
    """The prior of the weights, as text."""
    alpha = prior.alpha
    if isinstance(alpha, tuple):
        priors = {"alpha": f"Gamma({alpha[0]:g}, {alpha[1]:g})"}
        shown = "alpha"
    else:
        priors, shown = {}, "by empirical Bayes" if isinstance(alpha, str) else f"{alpha:g}"
    kind = f"PitmanYor({shown}, discount {prior.discount:g})" if prior.discount else f"DirichletProcess({shown})"
    return priors | {"weights": kind}


def log_densities(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Log density of each row at each draw (draws, M).

    New rows: each separately, given the rows of the fit and their partition. Rows of the fit: each given all other rows
    and their partition, the terms of leave-one-out cross-validation.
    """
    partitions = kept_of(resolved.of_fit, draws)
    if resolved is resolved.of_fit:
        each = list(partitions.left_out())
    else:
        each = [density for density, _ in partitions.predictions(resolved.rows, range(len(partitions.labels)))]
    return np.stack(each)[partitions.of_draw]


def membership(resolved: Resolved, on: Resolved, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """P(cluster | row) for new rows: clusters of the point partition, and last a new cluster.

    In each draw a row joins a cluster of that draw; a random member of it gives the cluster of the point partition.
    """
    partitions = kept_of(resolved, draws)
    partition = point_partition(some_labels(partitions.labels)).labels
    n_clusters = int(partition.max()) + 1
    n = len(partitions.labels)
    some = evenly(n, _PREDICTED)
    total = np.zeros((len(on.rows), n_clusters + 1))
    for s, (_, p) in zip(some, partitions.predictions(on.rows, some), strict=True):
        first = np.unique(partitions.labels[s], return_inverse=True)[1]
        share = np.zeros((p.shape[1] - 1, n_clusters))
        np.add.at(share, (first, partition), 1.0)
        share /= share.sum(axis=1, keepdims=True)
        total[:, :-1] += p[:, :-1] @ share
        total[:, -1] += p[:, -1]
    total /= len(some)
    names = [*(f"P({k + 1})" for k in range(n_clusters)), "P(new)"]
    return {name: total[:, k] for k, name in enumerate(names)}


# Number of partitions that predictions average.
_PREDICTED = 400


def replications(
    resolved: Resolved, draws: Mapping[str, np.ndarray], rows: str, rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Posterior predictive rows at each draw: weights and parameters of its clusters are drawn, then rows."""
    partitions = kept_of(resolved.of_fit, draws)
    columns = [c for part in resolved.parts.values() for c in part.columns]
    out = np.stack([partitions.replicated(resolved, int(s), rng) for s in partitions.of_draw])
    whole = {c for part in resolved.parts.values() if part.discrete for c in part.columns}
    return {c: ((rows,), out[..., j].astype(np.int64) if c in whole else out[..., j]) for j, c in enumerate(columns)}


def completed(
    resolved: Resolved, draws: Mapping[str, np.ndarray], rows: str, rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """All columns at each draw, completed; clusters are drawn given the observed cells of the row."""
    columns = completed_in_clusters(resolved, kept_of(resolved.of_fit, draws), rng)
    whole = {c for part in resolved.parts.values() if part.discrete for c in part.columns}
    return {c: ((rows,), v.astype(np.int64) if c in whole else v) for c, v in columns.items()}


def drawn_components(
    problem: ProcessProblem, labels: np.ndarray, alpha: float, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, Any]]:
    """Weights and parameters of clusters given a partition, and of new pieces that hold all but 1e-4 of the rest.

    Given the partition the weights are Dirichlet(n_1 - σ, ..., n_t - σ, α + t σ), and the rest of the stick is broken
    as in a new process with concentration α + t σ.
    """
    weights = drawn_shares(problem.prior.discount, labels, alpha, rng)
    member = np.eye(len(weights))[labels]
    return weights, dict(problem.emission.draw(rng, problem.emission.statistics(problem.rows, member)))


# --------------------------------------------------------------------------------- truncated stick-breaking


def counted(responsibilities: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Label-invariant quantities of drawn labels: number of clusters, entropy of their shares, the largest share."""
    out: dict[str, list[float]] = {"n_clusters": [], "entropy": [], "largest": [], "log_likelihood": []}
    for evidence, r in responsibilities:
        z = drawn_labels(r, rng.random(len(r)))
        sizes = np.bincount(z)
        share = sizes[sizes > 0] / len(z)
        out["n_clusters"].append(len(share))
        out["entropy"].append(float(-np.sum(share * np.log(share))))
        out["largest"].append(float(share.max()))
        out["log_likelihood"].append(float(np.sum(evidence)))
    arrays = {name: np.array(values) for name, values in out.items()}
    return arrays | {"n_clusters": arrays["n_clusters"].astype(np.int64)}


def truncated(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> tuple[Note, ...]:
    """Report how much the truncation leaves out."""
    assert resolved.process is not None
    left, n, most = draws["remainder"], len(resolved.rows), resolved.n_components
    alphas = np.atleast_1d(draws.get("alpha", resolved.process.begin))
    some = alphas[np.unique(np.linspace(0, len(alphas) - 1, 200).astype(int))]
    bound = float(np.mean([process.truncation_bound(n, most, float(a), resolved.process.discount) for a in some]))
    text = (
        f"the last of {most} pieces of the stick, which stands for all that follow, holds {left.mean():.2g} of it"
        f" (95 % of draws at most {np.quantile(left, 0.95):.2g}); the density of the rows is off by at most {bound:.2g}"
    )
    if left.mean() > _REMAINDER:
        return (Note("warn", "truncation", text, f"raise `most`, to {2 * most} or more; gibbs truncates nothing"),)
    return (Note("pass", "truncation", text),)


# Share of the last piece of the stick from which the truncation may matter.
_REMAINDER = 0.01


# --------------------------------------------------------------------------------- rows that come later


def written_priors(spec: Mixture, resolved: Resolved) -> dict[str, Any]:
    """The priors of the file, with default priors on the data's scale written as numbers."""
    out = dict(spec.priors)
    normal = [part for part in resolved.parts.values() if isinstance(part.emission.prior, NormalPrior)]
    if len(normal) == 1 and not out.keys() & {"mean", "sd", "correlation"}:
        prior = normal[0].emission.prior
        out["components"] = {
            "mean": np.asarray(prior.mean).tolist(),
            "rows": float(prior.kappa),
            "dof": float(prior.nu),
            "scale": np.asarray(prior.scale).tolist(),
        }
    rates = [part for name, part in resolved.parts.items() if name in ("poisson", "exponential")]
    if rates and "rate" not in out:
        pairs = {(float(a), float(b)) for part in rates for a, b in zip(*_each(part.emission), strict=True)}
        if len(pairs) > 1 or len(normal) > 1:
            raise OptionError(
                "rates of several columns have priors on the scale of each: give priors: {rate: Gamma(a, b)} in the"
                " model that is to get more rows",
                code="incomplete",
            )
        a, b = pairs.pop()
        out["rate"] = f"Gamma({a!r}, {b!r})"
    return out


def _each(emission: Any) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.broadcast_to(p, (emission.n_columns,)) for p in emission.prior)
    return first, second


def joined(
    resolved: Resolved, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
) -> dict[int, Mapping[str, np.ndarray]]:
    """Chains that start at partitions of the first rows (chains, n), with the other rows assigned."""
    if keeps_parameters(resolved):
        return auxiliary.joined(resolved, labels, alphas, seed, options)
    problem = problem_of(resolved)
    sampler = sampler_of(problem)
    out = {}
    for k, rng in enumerate(np.random.default_rng(seed).spawn(len(labels))):
        begun = process.start(problem, 0, rng, float(alphas[k])) | {"labels": labels[k]}
        out[k] = sampler.at(process.seated(problem, begun), options.draws, options.tune)
    return out


# --------------------------------------------------------------------------------- for drawing


def as_components(resolved: Resolved, partition: np.ndarray) -> tuple[Resolved, dict[str, np.ndarray]]:
    """A mixture with the clusters of a partition as components, and one draw: their posterior mode."""
    count = int(partition.max()) + 1
    problem = resolved.problem.sized(count)
    member = np.eye(count)[partition]
    theta = dict(problem.emission.maximise(problem.emission.statistics(problem.rows, member)))
    theta["weights"] = member.mean(axis=0)
    components = replace(resolved, problem=problem, names=np.arange(1, count + 1))
    return components, {name: value[None] for name, value in components.values(theta).items()}


def number_prior(prior: ProcessPrior, n: int) -> np.ndarray | None:
    """Prior probabilities of 0, 1, ... clusters of n rows, averaged over α; only for few enough rows."""
    if isinstance(prior.alpha, str) or n > _FEW:
        return None
    if not isinstance(prior.alpha, tuple):
        return process.table_probabilities(n, prior.alpha, prior.discount)

    shape, rate = prior.alpha
    alphas = gamma.ppf((np.arange(40) + 0.5) / 40, shape, scale=1 / rate)
    each = [process.table_probabilities(n, max(float(a), 1e-6), prior.discount) for a in alphas]
    return np.asarray(np.mean(each, axis=0))


# Largest number of rows for the prior of the number of clusters.
_FEW = 1_000
