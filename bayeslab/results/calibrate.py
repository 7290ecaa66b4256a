"""Simulation-based calibration: does inference recover the parameters of simulated data?

Each replication draws parameters from the prior, simulates data given these parameters, and fits the
data. Averaged over replications the posterior is the prior, so the rank of the true value among
thinned posterior draws is uniform, whatever the model [1]_. The shape of non-uniform ranks shows the
error of the computation: ∪ means that posteriors are too narrow, ∩ too wide, a slope that they are
shifted.

The verdict tests the empirical distribution function of the ranks against simultaneous bands [2]_.

References
----------
.. [1] Talts, Betancourt, Simpson, Vehtari, Gelman (2018). Validating Bayesian inference algorithms
   with simulation-based calibration. arXiv:1804.06788
.. [2] Säilynoja, Bürkner, Vehtari (2022). Graphical test for discrete uniformity and its
   applications in goodness-of-fit evaluation and multiple sample comparison. Statistics and
   Computing 32, 32. arXiv:2103.10522
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.engines.toolbox.contract import engine
from bayeslab.errors import BayeslabError, OptionError, listed
from bayeslab.job import Job, options_of
from bayeslab.labelled import of_dataset
from bayeslab.language.spec import Model
from bayeslab.options import SharedOptions
from bayeslab.plots.calibration import rank_ecdfs, rank_histograms
from bayeslab.posterior.contract import Posterior, posterior_of
from bayeslab.preparation import Source, engine_of, machine_of, seed_of
from bayeslab.progress import Progress, reporter
from bayeslab.results import convergence
from bayeslab.results.predict import numbers_of_levels, prior_groups
from bayeslab.results.render import plain_table, report_html
from bayeslab.results.verdict import Finding, Verdict
from bayeslab.run_folder.calibration import CalibrationFolder
from bayeslab.streams import derived, stream
from bayeslab.workers import check_jobs, each

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Calibration", "UniformBands", "calibrate", "chi_square", "rank_of", "uniform_bands"]

Array = NDArray[np.float64]

# Ranks 0 to 99: a hundred levels can be split into 2, 4, 5, 10, 20, 25 or 50 bins of equal size.
N_RANKED = 99
# Largest number of replications; each has a file.
_MOST = 1_000_000
# Probability that a correct computation is rejected, over all quantities together.
WARN, FAIL = 0.05, 0.01


# ------------------------------------------------------------------------------- plain numbers


def rank_of(truth: Array, draws: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rank of the true value: the number of draws below it, ties broken at random.

    Parameters
    ----------
    truth
        Shape (quantity,).
    draws
        Shape (draw, quantity).
    """
    below, equal = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return np.asarray(below + rng.integers(0, equal + 1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class UniformBands:
    """Simultaneous bands for the cumulative counts of uniform ranks.

    Attributes
    ----------
    n : int
        Number of ranks.
    points : ndarray
        Expected cumulative share of ranks at each level.
    lower, upper : ndarray
        Lower and upper cumulative counts of the bands.
    null : ndarray
        Sorted test statistics of simulated uniform ranks: the smallest pointwise tail probability of each.
    """

    n: int
    points: Array
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    null: Array
    _tails: Array

    def p_value(self, ranks: NDArray[np.int64]) -> float:
        """Probability that uniform ranks have a pointwise deviation at least as extreme as these ranks."""
        counts = np.bincount(ranks, minlength=len(self.points) + 1).cumsum()[:-1]
        statistic = self._tails[counts, np.arange(len(self.points))].min()
        return float((1 + np.searchsorted(self.null, statistic * (1 + 1e-12), side="right")) / (1 + len(self.null)))


def uniform_bands(
    n: int, n_levels: int, rng: np.random.Generator, *, probability: float = 0.95, simulations: int = 5000
) -> UniformBands:
    """Simultaneous bands for n ranks that are uniform on 0 … n_levels − 1, by simulation ([2]_, section 2.1).

    The cumulative count at each point is binomial. The tail probability of the pointwise intervals is lowered
    until they hold simultaneously with the given probability.
    """
    from scipy.stats import binom

    points = np.arange(1, n_levels) / n_levels
    counts = np.arange(n + 1)[:, None]
    tails = np.minimum(1.0, 2 * np.minimum(binom.cdf(counts, n, points), binom.sf(counts - 1, n, points)))
    parts = []
    for start in range(0, simulations, 5000):
        size = min(5000, simulations - start)
        drawn = rng.multinomial(n, np.full(n_levels, 1 / n_levels), size=size).cumsum(axis=1)[:, :-1]
        parts.append(tails[drawn, np.arange(n_levels - 1)].min(axis=1))
    null = np.sort(np.concatenate(parts))
    level = float(np.quantile(null, 1 - probability))
    lower, upper = binom.ppf(level / 2, n, points), binom.isf(level / 2, n, points)
    return UniformBands(n, points, lower.astype(int), upper.astype(int), null, tails)


def chi_square(ranks: NDArray[np.int64], n_levels: int) -> float:
    """p-value of the χ² test that ranks are uniform, in equal bins with an expected count of at least five."""
    from scipy.stats import chisquare

    wanted = max(2, min(20, len(ranks) // 5))
    n_bins = max(b for b in range(1, wanted + 1) if n_levels % b == 0)
    if n_bins < 2:
        return float("nan")
    return float(chisquare(np.bincount(ranks * n_bins // n_levels, minlength=n_bins)).pvalue)


# ---------------------------------------------------------------------------------- replications


class _Store(Protocol):
    def finished(self) -> list[int]: ...
    def read(self, number: int) -> dict[str, np.ndarray]: ...
    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None: ...


class _Memory:
    """Replications of a calibration without a folder."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[str, np.ndarray]] = {}

    def finished(self) -> list[int]:
        return sorted(self._kept)

    def read(self, number: int) -> dict[str, np.ndarray]:
        return self._kept[number]

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._kept[number] = dict(arrays)


@dataclass(frozen=True)
class _Task:
    """The settings shared by all replications."""

    model: Model
    dataset: Dataset
    memory: Any
    engine: str
    options: dict[str, Any]
    names: tuple[str, ...]
    seed: int


def _replicate(task: _Task, number: int, columns: Mapping[str, Column], truth: Array) -> dict[str, np.ndarray]:
    """Fit one simulated dataset and rank the truth among the posterior draws."""
    module = engine(task.engine)
    options = options_of(module.options, task.options, task.engine)
    posterior = posterior_of(task.model, _bound(task.model, task.dataset, columns, task.memory))
    blank = np.full(len(truth), -1)
    try:
        machine = machine_of(posterior, options)[0] if module.uses_graph else None
        job = Job(posterior, options, derived([task.seed, number], "fit", 32), Progress(None), machine=machine)
        outcome = module.run(job)
    except BayeslabError as error:
        return {"ranks": blank, "ess": np.full(len(truth), np.nan), "status": np.array(f"error: {error.message}")}
    _refuse_renamed(posterior, outcome.verdict)
    lacking = [name for name in task.names if name not in outcome.groups["posterior"].data_vars]
    if lacking:
        raise OptionError(
            f"calibration ranks true values among draws, and method {task.engine} has no draws of"
            f" {listed(lacking)} (it sums them out or reports other quantities): use a method that draws them, such as"
            f" nuts",
            code="not-applicable",
        )
    blocks = convergence.blocks(outcome.groups["posterior"].only(task.names))
    draws = np.concatenate([b.values.reshape(*b.values.shape[:2], -1) for b in blocks], axis=-1).astype(float)
    flat = draws.reshape(-1, draws.shape[-1])
    if len(flat) == 1:
        raise OptionError(
            f"calibration ranks the true value among draws, and method {task.engine} gives a point: use a method that"
            f" draws",
            code="not-applicable",
        )
    kept = ((np.arange(N_RANKED) + 0.5) * len(flat) / N_RANKED).astype(int)
    ranks = rank_of(truth, flat[kept], stream([task.seed, number], "rank"))
    with np.errstate(all="ignore"):
        ess = convergence.ess(np.ascontiguousarray(np.moveaxis(draws, -1, 0)))
    if task.engine == "exact":
        ess = np.full(len(truth), float(len(flat)))
    return {"ranks": ranks, "ess": ess, "status": np.array(outcome.verdict.status)}


def _refuse_renamed(posterior: Posterior, verdict: Verdict) -> None:
    """Refuse relabelled states: labels assigned from the draws do not identify the true states."""
    renamed = next((finding for finding in verdict.findings if finding.check == "relabelled"), None)
    if renamed is None:
        return
    # A numbering rule applies to prior draws too; quantities of unordered states are not ranked.
    if not posterior.numbering_rule() and not posterior.network().graph.get("unordered"):
        raise OptionError(
            f"calibration ranks true values among draws, and the states of {renamed.where} are exchangeable: relabelled"
            " draws agree with each other, not with the true states. Put the states in order, by `order: column` of a"
            " mixture or by `Ordered(...)` around the prior of a parameter",
            code="not-applicable",
        )


def _bound(model: Model, dataset: Dataset, columns: Mapping[str, Column], memory: Any) -> Data:
    simulated = Dataset(dict(dataset.columns) | dict(columns), dataset.rows, dataset.levels)
    data = bind(model, simulated, model.factors(), memory)
    # Priors scaled to the data stay the priors from which the parameters were drawn.
    data.origin = bind(model, dataset, model.factors(), memory)
    data.replicate = True
    return data


def _simulated(drawn: Any, number: int, data: Data, levels: Mapping[str, np.ndarray]) -> dict[str, Column]:
    """One prior draw of the observed nodes as columns, with the missing cells and levels of the data.

    ``levels``: of outcomes whose draws are positions of levels, in the order of the positions.
    """
    out = {}
    for name, variable in drawn.data_vars.items():
        one = variable.isel(chain=0, draw=number)
        old = data.dataset.columns.get(str(name))
        if old is not None and old.dims:
            one = one.transpose(*old.dims)
        coded = str(name) in data.coded
        values, missing = one.to_numpy(), old.missing if old is not None else None
        numbers = numbers_of_levels(levels[str(name)]) if str(name) in levels else None
        if old is not None and numbers is not None and not old.text and not coded:
            values = (
                np.where(old.absent(), np.nan, numbers[values.astype(int)]) if old.absent().any() else numbers[values]
            )
        elif old is not None and (old.text or coded):
            missing = old.absent() if coded else missing
            values = data.labels[str(name)][values.astype(int)].astype(str)
        elif old is not None and np.any(old.absent()):
            values = np.where(old.absent(), np.nan, values)
        elif values.dtype.kind in "iub":
            values = values.astype(np.int64)
        out[str(name)] = Column(values, tuple(str(d) for d in one.dims), missing)
    return out


# ------------------------------------------------------------------------------------ the job


def calibrate(
    model: Any,
    n: int = 100,
    data: Any = None,
    method: str | None = None,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    runs: str | os.PathLike[str] | None = "runs",
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> Calibration:
    """Simulation-based calibration of a model with an engine.

    Each finished replication is stored: after an interruption the same call with the same seed continues,
    and with a larger ``n`` it adds replications. A replication depends only on the seed and its number.

    Parameters
    ----------
    model
        A model or the path of a model file. All priors must be proper.
    n
        Number of replications: 100 detect large errors, 1000 small ones.
    data
        Data with the predictors and the number of rows; simulated outcomes replace the outcomes in
        it. None: the data the model file names.
    method, **options
        As in :func:`bayeslab.fit`. About 400 effective draws per fit are enough.
    jobs
        Number of replications run in parallel processes; None: the number of cores, or one for the
        engine ``exact``.
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers run the replications instead.
    runs
        Folder in which the folder ``<name>-calibration`` is created; None keeps replications in memory only.
    progress
        Report progress.

    Returns
    -------
    Calibration
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 10 <= n <= _MOST:
        raise OptionError(
            f"n, the number of replications, is a whole number from 10 to {_MOST:,}, not {n!r:.40}", code="out-of-range"
        )
    check_jobs(jobs)
    source = Source(model)
    with source.located(), reporter(progress) as view:
        data = source.bound(data)
        chosen = seed_of(
            seed if seed is not None else source.model.seed,
            source.model.model_copy(update={"seed": secrets.randbits(32)}),
        )
        return calibrated(source.model, source.model, data, n, method, chosen, jobs, runs, view, options, scheduler)


def calibrated(
    simulated: Model,
    fitted: Model,
    data: Data,
    n: int,
    method: str | None,
    seed: int,
    jobs: int | None,
    runs: str | os.PathLike[str] | None,
    view: Progress,
    options: Mapping[str, Any],
    scheduler: str | None = None,
) -> Calibration:
    """Simulate from one model and fit another; in a calibration the two are the same."""
    for model in (simulated, fitted):
        _check_simulable(model, data)
    view.note(f"drawing {n} times from the prior")
    prior_model = posterior_of(simulated, data)
    groups = prior_groups(prior_model, n, seed)
    observed = set(data.dataset.columns) | set(groups["prior_predictive"].data_vars)
    prior = groups["prior"].drop_vars([v for v in groups["prior"].data_vars if v in observed])
    drawn = groups["prior_predictive"].assign(
        {v: groups["prior"][v] for v in groups["prior"].data_vars if v in data.dataset.columns}
    )
    if not drawn.data_vars:
        raise OptionError(
            "calibration needs data: a table with the predictors, and as many rows as each simulated table shall have",
            code="incomplete",
        )
    levels = prior_model.outcome_levels()
    first = posterior_of(fitted, _bound(fitted, data.dataset, _simulated(drawn, 0, data, levels), data.memory()))
    engine, reason, chosen = engine_of(first, method, options)
    view.note(reason)
    names = _ranked(first, prior)
    blocks = convergence.blocks(of_dataset(prior[list(names)]))
    labels = [block.label(i) for block in blocks for i in range(block.size)]
    truths = np.concatenate([b.values[0].reshape(n, -1) for b in blocks], axis=1).astype(float)
    settings = chosen.model_dump(mode="json", exclude={"cores"})
    if settings.get("draws", N_RANKED) * settings.get("chains", 1) < N_RANKED:
        raise OptionError(
            f"at least {N_RANKED} posterior draws are needed to rank the truth among them", code="too-few"
        )
    identity = {
        "simulated": simulated.digest(),
        "fitted": fitted.digest(),
        "data": data.dataset.digests(),
        "engine": engine,
        "options": settings,
        "seed": seed,
        "quantities": labels,
    }
    folder = CalibrationFolder.of(runs, fitted.name.replace(" ", "-"), identity) if runs is not None else None
    store: _Store = folder or _Memory()
    once = {"cores": 1} if "cores" in type(chosen).model_fields else {}
    task = _Task(fitted, data.dataset, data.memory(), engine, settings | once, names, seed)
    kept = set(store.finished())
    todo = [k for k in range(n) if k not in kept]
    if kept:
        view.note(f"{n - len(todo)} of {n} replications are there already")
    work = ((k, _simulated(drawn, k, data, levels), truths[k]) for k in todo)
    default = 1 if engine == "exact" else os.cpu_count() or 1
    finished = each(
        _numbered,
        task,
        work,
        jobs=min(jobs or default, max(len(todo), 1)),
        scheduler=scheduler,
        advice="what is finished is kept: run it again with the same seed, with fewer jobs",
    )
    for done, (number, result) in enumerate(finished, 1):
        store.write(number, result)
        if done % max(1, len(todo) // 20) == 0 or done == len(todo):
            view.note(f"replication {n - len(todo) + done} of {n}")
    results = [store.read(k) for k in range(n)]
    ranks, ess = np.stack([r["ranks"] for r in results]), np.stack([r["ess"] for r in results])
    statuses = tuple(str(r["status"]) for r in results)
    return Calibration(fitted.name, reason, tuple(labels), ranks, ess, statuses, seed, folder.path if folder else None)


def _check_simulable(model: Model, data: Data) -> None:
    """Refuse regressions whose likelihood is not that of outcomes that can be simulated.

    A row's weight is not a property of the outcome drawn for it, nor is whether this outcome is censored.
    """
    weights = posterior_of(model, data).row_weights() if getattr(model.model, "weights", None) else {}
    if any(np.any(each != 1) for each in weights.values()):
        raise OptionError(
            "the rows have weights, which multiply log likelihoods but not what is simulated, so that posteriors and"
            " simulations do not belong together: calibrate the model without `weights`",
            code="not-applicable",
        )
    if getattr(model.model, "censored", None) is not None:
        raise OptionError(
            "the column of `censored` says which of the given outcomes are censored, not which of the simulated ones"
            " would be: calibrate the model without `censored`",
            code="not-applicable",
        )


def _ranked(posterior: Posterior, prior: Any) -> tuple[str, ...]:
    """Names of the parameters to rank: random nodes, and nodes computed from internal ones (named with ``_``)."""
    network = posterior.network()
    kinds = dict(network.nodes(data="kind"))
    inner = {name for name, is_inner in network.nodes(data="inner") if is_inner}
    inner |= set(network.graph.get("unordered", ()))

    def wanted(name: str) -> bool:
        if name.startswith("_") or name in inner:
            return False
        if kinds.get(name, "random") in ("random", "discrete"):
            return True
        return any(str(parent).startswith("_") for parent in network.predecessors(name))

    return tuple(str(v) for v in prior.data_vars if wanted(str(v)))


def _numbered(task: _Task, item: tuple[int, Any, Array]) -> tuple[int, dict[str, np.ndarray]]:
    number, columns, truth = item
    return number, _replicate(task, number, columns, truth)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks of true parameters among posterior draws.

    Attributes
    ----------
    name : str
        The model's name.
    reason : str
        The engine and why it was chosen.
    quantities : tuple of str
        Such as ``sigma`` or ``a[AITKIN]``.
    ranks : ndarray of int
        Shape (replication, quantity), 0 to 99; −1 where a fit failed.
    ess : ndarray
        Effective sample size behind each rank.
    statuses : tuple of str
        The verdict of each fit, or its error.
    seed : int
    folder : Path or None
    """

    name: str
    reason: str
    quantities: tuple[str, ...]
    ranks: NDArray[np.int64]
    ess: Array
    statuses: tuple[str, ...]
    seed: int
    folder: Path | None = None

    @property
    def n_levels(self) -> int:
        """Number of possible ranks."""
        return N_RANKED + 1

    @cached_property
    def valid(self) -> NDArray[np.int64]:
        """Ranks of the replications that could be fitted, shape (replication, quantity)."""
        return np.asarray(self.ranks[(self.ranks >= 0).all(axis=1)])

    @cached_property
    def bands(self) -> UniformBands | None:
        """Simultaneous bands for the ranks of one quantity; None with fewer than ten replications."""
        if len(self.valid) < 10:
            return None
        simulations = min(max(5000, 400 * len(self.quantities)), 40_000)
        return uniform_bands(len(self.valid), self.n_levels, np.random.default_rng(0), simulations=simulations)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Test results, one row per quantity.

        Columns: ``p_ecdf`` and ``p_chi2`` (p-values of uniform ranks), ``mean_rank`` (0.5 if uniform),
        ``sd_rank`` (0.289 if uniform) and ``ess_min``.
        """
        import pandas as pd

        rows = []
        for q in range(len(self.quantities)):
            ranks = self.valid[:, q]
            rows.append(
                {
                    "p_ecdf": self.bands.p_value(ranks) if self.bands else np.nan,
                    "p_chi2": chi_square(ranks, self.n_levels) if self.bands else np.nan,
                    "mean_rank": (ranks.mean() + 0.5) / self.n_levels if len(ranks) else np.nan,
                    "sd_rank": ranks.std(ddof=1) / self.n_levels if len(ranks) > 1 else np.nan,
                    "ess_min": np.nanmin(self.ess[:, q]) if np.isfinite(self.ess[:, q]).any() else np.nan,
                }
            )
        return pd.DataFrame(rows, index=pd.Index(self.quantities, name="quantity"))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether ranks are uniform, with one finding per quantity that is not, worst first."""
        return Verdict((*self._fit_findings(), *self._rank_findings()))

    def _rank_findings(self) -> list[Finding]:
        if self.bands is None:
            text = f"only {len(self.valid)} replications could be fitted"
            return [Finding("fail", "ranks", "", len(self.valid), text, "see what stopped the others")]
        # Bonferroni correction over the quantities.
        adjusted = np.minimum(self.table["p_ecdf"].to_numpy() * len(self.quantities), 1.0)
        out = []
        for q in np.argsort(adjusted, kind="stable"):
            if adjusted[q] >= WARN:
                break
            name = self.quantities[q]
            text = f"{name}: ranks are not uniform (p = {self.table['p_ecdf'].iloc[q]:.2g}): {self._shape(int(q))}"
            advice = "the computation, or the density it works on, is not that of the model: look at the rank plots"
            out.append(Finding("fail" if adjusted[q] < FAIL else "warn", "ranks", name, adjusted[q], text, advice))
        if not out:
            worst = float(self.table["p_ecdf"].min())
            many = f"{len(self.quantities)} quantities over {len(self.valid)} replications"
            text = f"ranks of {many} are uniform (smallest p {worst:.2g})"
            out.append(Finding("pass", "ranks", "", worst, text))
        return out

    def _shape(self, q: int) -> str:
        """The error of the posteriors that the ranks suggest, by the larger of two deviations from uniformity."""
        row, n = self.table.iloc[q], len(self.valid)
        # Uniform numbers have sd 1/√12, and √(1/180) is the sd of their squared deviations.
        shift = (row["mean_rank"] - 0.5) * np.sqrt(12 * n)
        spread = (row["sd_rank"] ** 2 - 1 / 12) * np.sqrt(180 * n)
        if abs(shift) > abs(spread):
            return "posteriors are too low" if shift > 0 else "posteriors are too high"
        return "posteriors are too narrow" if spread > 0 else "posteriors are too wide"

    def _fit_findings(self) -> list[Finding]:
        out, n = [], len(self.statuses)
        broken = [s for s in self.statuses if s.startswith("error")]
        failed = sum(s == "fail" for s in self.statuses)
        if broken:
            text = f"{len(broken)} of {n} replications could not be fitted ({broken[0]})"
            out.append(Finding("fail" if len(broken) > n / 10 else "warn", "fits", "", len(broken), text))
        if failed:
            text = f"{failed} of {n} fits have the verdict fail"
            advice = "the prior allows data that the engine cannot handle: raise target_accept, or tighten the prior"
            out.append(Finding("fail" if failed > n / 10 else "warn", "fits", "", failed, text, advice))
        known = self.ess[np.isfinite(self.ess)]
        short = float(np.mean(known < N_RANKED)) if known.size else 0.0
        if short > 0.05:
            text = (
                f"{short:.0%} of the ranks are among fewer than {N_RANKED} effective draws (at worst {known.min():.0f})"
            )
            out.append(
                Finding(
                    "warn", "draws", "", short, text, "draw more: neighbouring draws make ranks pile up at the ends"
                )
            )
        return out

    def plot(self, kind: Literal["histogram", "ecdf"] = "histogram", quantities: list[str] | None = None) -> Any:
        """Plot rank histograms, or differences of ECDFs from the uniform one with bands; a matplotlib figure."""

        if kind not in ("histogram", "ecdf"):
            raise OptionError(f"kind is histogram or ecdf, not {kind!r}", code="unknown-word")
        chosen = list(self.quantities) if quantities is None else quantities
        lacking = [q for q in chosen if q not in self.quantities]
        if lacking or self.bands is None:
            raise OptionError(
                f"no ranks of '{lacking[0]}'" if lacking else "too few replications to draw",
                code="unknown-parameter" if lacking else "too-few",
            )
        ranks = {q: self.valid[:, self.quantities.index(q)] for q in chosen}
        if kind == "histogram":
            return rank_histograms(ranks, self.n_levels)
        return rank_ecdfs(ranks, self.bands.points, self.bands.lower, self.bands.upper)

    def __repr__(self) -> str:

        return (
            f"{self.name}: {len(self.statuses)} replications\n{plain_table(self.table).to_string()}\n\n{self.verdict}"
        )

    def _repr_html_(self) -> str:

        about = f"simulation-based calibration, {len(self.statuses)} replications; {self.reason}"
        return report_html(self.name, about, self.verdict, self.table)
