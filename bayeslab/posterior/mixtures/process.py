"""Mixtures over partitions of the rows: Dirichlet and Pitman-Yor processes, and a sampled number of components."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import gamma

from bayeslab.errors import OptionError, Reason
from bayeslab.latents.labels.clusters import MOST_PAIRED, Loss, coclustering_of_many, point_partition
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.latents.partitions import dirichlet_process as process
from bayeslab.latents.partitions.auxiliary_process import Atoms
from bayeslab.latents.partitions.component_number import draw_number, number_posterior
from bayeslab.latents.partitions.dirichlet_process import ENDS, PartitionPrior, ProcessPrior, ProcessProblem
from bayeslab.latents.sampler import Arrays
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note
from bayeslab.posterior.contract import Named
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.partition_chains import (
    PartitionChains,
    PartitionDraws,
    PartitionSteps,
    probable_numbers,
)
from bayeslab.posterior.mixtures.process_parameters import PARAMETERS, AuxiliarySteps, base_law
from bayeslab.posterior.mixtures.stored_partitions import (
    IntegratedPartitions,
    PartitionsWithParameters,
    StoredPartitions,
)
from bayeslab.streams import place_among_spawned

__all__ = ["by_partitions", "number_sampled", "stored_partitions", "summaries"]

# Number of partitions for summaries; fewer if there are many rows.
_SUMMARISED, _SUMMARISED_CELLS = 500, 20_000_000
# Sweeps for each draw; with many rows, where sweeps are costly, one sweep followed by all splits and merges.
_SWEEPS, _PROPOSALS, _FEW_ROWS = 5, 25, 10_000
# Largest number of rows of clusters with parameters: each is reassigned in turn, with fresh auxiliary components.
_MOST_ROWS = 20_000
# Number of partitions that predictions average.
_PREDICTED = 400
# Share of the last piece of the stick from which the truncation may matter.
_REMAINDER = 0.01
# Largest number of rows for the prior of the number of clusters.
_FEW = 1_000


# --------------------------------------------------------------------------------- chains


@dataclass(frozen=True, eq=False)
class IntegratedSteps(PartitionSteps):
    """Gibbs and split-merge steps with the parameters of clusters integrated out."""

    problem: ProcessProblem

    recorded = process.RECORDED

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    @cached_property
    def moves(self) -> process.Moves:
        """Sweeps of each draw, and proposals after each, that suit the number of rows."""
        sweeps = _SWEEPS if len(self.problem.rows) <= _FEW_ROWS else 1
        return process.Moves(sweeps, _PROPOSALS // sweeps)

    def _alpha(self, rng: np.random.Generator) -> float | None:
        """The concentration of empirical Bayes: the same for all chains, from their common seed."""
        prior = self.problem.prior
        if not isinstance(prior, ProcessPrior) or prior.alpha != "empirical_bayes":
            return None
        with self._lock:
            if "estimate" not in self.__dict__:
                seed: Any = rng.bit_generator.seed_seq
                generator = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(1 << 31,)))
                self.__dict__["estimate"] = process.empirical_concentration(self.problem, generator)
        return float(self.__dict__["estimate"])

    def first(self, rng: np.random.Generator) -> Arrays:
        """Every other chain starts in one cluster."""
        return process.start(self.problem, place_among_spawned(rng), rng, self._alpha(rng))

    def joined(self, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> Arrays:
        return process.seated(self.problem, process.start(self.problem, 0, rng, alpha) | {"labels": labels})

    def advance(
        self, state: Arrays, keep: np.ndarray, search: np.ndarray
    ) -> tuple[Arrays, np.ndarray, Iterable[Arrays]]:
        state, trace = process.advance(self.problem, dict(state), keep, self.moves, search)
        pairs = zip(trace["labels"], trace["alpha"][keep], strict=True)
        values = np.stack([trace[name] for name in self.recorded], axis=1)
        return state, values, [{"labels": labels, "concentration": alpha} for labels, alpha in pairs]


def keeps_parameters(mixture: BoundMixture) -> bool:
    """Whether the parameters of clusters cannot be integrated out."""
    return not mixture.conjugate or "student_t" in mixture.parts


def problem_of(mixture: BoundMixture) -> ProcessProblem:
    """The rows and components of a mixture, with the prior of its partitions."""
    prior: PartitionPrior | None = mixture.process if mixture.number is None else mixture.number
    assert prior is not None
    return ProcessProblem(mixture.problem.emission, mixture.rows, prior)


def chains_of(mixture: BoundMixture) -> PartitionChains | str:
    """The chains over partitions, or the reason why there are none."""
    if mixture.searched is not None:
        return mixture.searched
    if keeps_parameters(mixture):
        law = base_law(mixture)
        if isinstance(law, str):
            return law
        assert mixture.process is not None
        steps = AuxiliarySteps(law, np.ascontiguousarray(mixture.rows, float), mixture.process)
        return PartitionChains(steps, len(mixture.rows))
    problem = problem_of(mixture)
    try:
        _ = problem.base
    except OptionError as error:
        text = error.message if "missing" in error.message else f"{error.message}; use nuts"
        return Reason(text, code=error.code)
    return PartitionChains(IntegratedSteps(problem), len(mixture.rows))


def by_partitions(mixture: BoundMixture, rows: str) -> GibbsPlan | str:
    """Plan of Gibbs sampling of the partitions of a process, or the reason against it."""
    prior, integrated = mixture.process, not keeps_parameters(mixture)
    assert prior is not None
    if not integrated and mixture.searched is None:
        if isinstance(prior.alpha, str):
            return "empirical_bayes needs conjugate components; give the concentration a number, or Gamma(1, 1)"
        if len(mixture.rows) > _MOST_ROWS and not isinstance(base_law(mixture), str):
            return (
                f"components without a conjugate prior are offered for up to {_MOST_ROWS:,} rows; use nuts or"
                " variational"
            )
    chains = chains_of(mixture)
    if isinstance(chains, str):
        return chains
    names = ["n_clusters", "entropy", "largest", "log_joint" if integrated else "log_likelihood"]
    names += ["alpha"] if isinstance(prior.alpha, tuple) else []

    def finish(drawn: PartitionDraws) -> GibbsDraws:
        draws = {name: drawn.recorded[name] for name in names} | {"n_clusters": drawn.n_clusters}
        notes = [Note("pass", "clusters", f"posterior of the number of clusters {probable_numbers(drawn.shares)}")]
        if not integrated:
            return GibbsDraws(
                draws,
                {"log_likelihood": drawn.recorded["log_likelihood"]},
                drawn.groups(rows, PARAMETERS),
                tuple(notes),
            )
        stats = {"lp": drawn.recorded["log_joint"]} | {name: drawn.recorded[name] for name in ("moved", "accepted")}
        notes.append(_accepted(drawn))
        if prior.alpha == "empirical_bayes":
            notes.append(_estimated(float(drawn.stored["concentration"].flat[-1])))
        return GibbsDraws(draws, stats, drawn.groups(rows, {}), tuple(notes))

    how = (
        f"partitions of {len(mixture.rows):,} rows, parameters integrated out, with split-merge moves"
        if integrated
        else f"{len(mixture.rows):,} labels and the parameters of their clusters in turns, with auxiliary components"
    )
    return GibbsPlan(how, chains.plan(finish), dict.fromkeys(names, ()))


def _accepted(drawn: PartitionDraws) -> Note:
    share = 100 * float(np.mean(drawn.recorded["accepted"]))
    return Note("pass", "split-merge", f"{share:.1f} % of the proposals to split or merge clusters were accepted")


def _estimated(alpha: float) -> Note:
    if ENDS[0] < alpha < ENDS[1]:
        text = f"the concentration with the highest marginal likelihood is {alpha:.4g}"
        return Note("pass", "concentration", text)
    text = f"the likelihood rises to the end {alpha:g} of the concentrations tried"
    return Note("warn", "concentration", text, "give the concentration, or a prior such as Gamma(1, 1)")


def number_sampled(mixture: BoundMixture, rows: str) -> GibbsPlan | str:
    """Plan of Gibbs sampling of partitions, and so of the number of components, or the reason against it."""
    prior, n_rows = mixture.number, len(mixture.rows)
    assert prior is not None
    if not mixture.conjugate:
        return Reason(
            "the priors of mean, sd or correlation are not conjugate, so that components cannot be integrated out; give"
            " those of components, or a number",
            code="not-conjugate",
        )
    problem = problem_of(mixture)
    try:
        _ = problem.base
    except OptionError as error:
        return Reason(f"{error.message}; choose another component, or the number by bic", code=error.code)
    chains, highest = PartitionChains(IntegratedSteps(problem), n_rows), len(prior.log_probability)

    def finish(drawn: PartitionDraws) -> GibbsDraws:
        number, labels = drawn.n_clusters, drawn.stored["labels"]
        probability, clusters = number_posterior(prior, n_rows, number)
        groups: dict[str, Any] = {
            "number": {
                "probability": (("n_components",), probability),
                "probability_of_clusters": (("n_components",), clusters),
            },
            "clusters": summaries(labels.reshape(-1, n_rows), rows),
        }
        text = f"posterior of the number of components {probable_numbers(np.append(0.0, probability))}"
        notes = (Note("pass", "components", text), _accepted(drawn))
        draws = {"n_components": draw_number(prior, n_rows, number, drawn.rng), "n_clusters": number}
        return GibbsDraws(draws, {"lp": drawn.recorded["log_joint"]}, groups, notes)

    how = f"partitions of {n_rows:,} rows into up to {highest} components, parameters integrated out"
    labels = {"n_components": np.arange(1, highest + 1)}
    return GibbsPlan(how, chains.plan(finish), {"n_components": (), "n_clusters": ()}, labels)


# --------------------------------------------------------------------------------- summaries of partitions


def stored_partitions(mixture: BoundMixture, draws: Mapping[str, np.ndarray]) -> StoredPartitions:
    """Read from draws and the group ``partitions``.

    Raises
    ------
    OptionError
        The fit is from an earlier version, which did not store parameters.
    """
    stored: dict[str, Any] = {
        "labels": draws["_labels"],
        "alphas": draws["_concentration"],
        "of_draw": draws["_of_draw"],
    }
    if not keeps_parameters(mixture):
        return IntegratedPartitions(problem=problem_of(mixture), parts=list(mixture.parts.values()), **stored)
    law = base_law(mixture)
    assert not isinstance(law, str)
    assert mixture.process is not None
    if "_means" not in draws:
        raise OptionError("the parameters of clusters were not kept in this fit; fit again", code="not-kept")
    return PartitionsWithParameters(
        law=law,
        rows=np.ascontiguousarray(mixture.rows, float),
        discount=mixture.process.discount,
        atoms=Atoms(*(draws[f"_{name}"] for name in PARAMETERS)),
        **stored,
    )


def some_labels(labels: np.ndarray) -> np.ndarray:
    """A subset of the partitions (S, N) for summaries."""
    most = max(20, min(_SUMMARISED, _SUMMARISED_CELLS // max(labels.shape[1], 1)))
    return labels[evenly(len(labels), most)].astype(np.int64)


def summaries(labels: np.ndarray, rows: str, losses: tuple[Loss, ...] = ("vi", "binder")) -> Named:
    """Point partitions under some losses and, for few enough rows, the co-clustering probabilities.

    Parameters
    ----------
    labels : ndarray (S, N) of int
    rows : str
        Dimension of the rows.
    """
    some = some_labels(labels)
    names = {"vi": "partition", "binder": "partition_binder"}
    out: Named = {names[loss]: ((rows,), point_partition(some, loss=loss).labels) for loss in losses}
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


def log_densities(mixture: BoundMixture, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Log density of each row at each draw (draws, M).

    New rows: each separately, given the rows of the fit and their partition. Rows of the fit: each given all other rows
    and their partition, the terms of leave-one-out cross-validation.
    """
    partitions = stored_partitions(mixture.of_fit, draws)
    if mixture is mixture.of_fit:
        each = list(partitions.left_out())
    else:
        each = [density for density, _ in partitions.predictions(mixture.rows, range(len(partitions.labels)))]
    return np.stack(each)[partitions.of_draw]


def membership(mixture: BoundMixture, on: BoundMixture, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """P(cluster | row) for new rows: clusters of the point partition, and last a new cluster.

    In each draw a row joins a cluster of that draw; a random member of it gives the cluster of the point partition.
    """
    partitions = stored_partitions(mixture, draws)
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


def replications(mixture: BoundMixture, draws: Mapping[str, np.ndarray], rows: str, rng: np.random.Generator) -> Named:
    """Posterior predictive rows at each draw: weights and parameters of its clusters are drawn, then rows."""
    partitions = stored_partitions(mixture.of_fit, draws)
    out = np.stack([partitions.replicated(mixture, int(s), rng) for s in partitions.of_draw])
    return {column: ((rows,), values) for column, values in mixture.as_columns(out).items()}


def completed(mixture: BoundMixture, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """The modelled columns (draws, rows, columns), completed; clusters are drawn given the observed cells of a row."""
    partitions = stored_partitions(mixture.of_fit, draws)
    return np.stack([partitions.completed(mixture, int(s), rng) for s in partitions.of_draw])


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


def truncated(mixture: BoundMixture, draws: Mapping[str, np.ndarray]) -> tuple[Note, ...]:
    """Report how much the truncation leaves out."""
    assert mixture.process is not None
    left, n, most = draws["remainder"], len(mixture.rows), mixture.n_components
    alphas = np.atleast_1d(draws.get("alpha", mixture.process.begin))
    some = alphas[np.unique(np.linspace(0, len(alphas) - 1, 200).astype(int))]
    bound = float(np.mean([process.truncation_bound(n, most, float(a), mixture.process.discount) for a in some]))
    text = (
        f"the last of {most} pieces of the stick, which stands for all that follow, holds {left.mean():.2g} of it"
        f" (95 % of draws at most {np.quantile(left, 0.95):.2g}); the density of the rows is off by at most {bound:.2g}"
    )
    if left.mean() > _REMAINDER:
        return (Note("warn", "truncation", text, f"raise `most`, to {2 * most} or more; gibbs truncates nothing"),)
    return (Note("pass", "truncation", text),)


# --------------------------------------------------------------------------------- rows that come later


def joined(mixture: BoundMixture, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any) -> dict[int, Arrays]:
    """Chains that start at partitions of the first rows (chains, n), with the other rows assigned.

    Raises
    ------
    OptionError
        There are no chains over partitions for the mixture.
    """
    chains = chains_of(mixture)
    if isinstance(chains, str):
        raise OptionError(chains, code="not-conjugate")
    return chains.joined(labels, alphas, seed, options.draws, options.tune)


# --------------------------------------------------------------------------------- for drawing


def as_components(mixture: BoundMixture, partition: np.ndarray) -> tuple[BoundMixture, dict[str, np.ndarray]]:
    """A mixture with the clusters of a partition as components, and one draw: their posterior mode."""
    count = int(partition.max()) + 1
    problem = mixture.problem.sized(count)
    member = np.eye(count)[partition]
    theta = dict(problem.emission.maximise(problem.emission.statistics(problem.rows, member)))
    theta["weights"] = member.mean(axis=0)
    components = replace(mixture, problem=problem, names=np.arange(1, count + 1))
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
