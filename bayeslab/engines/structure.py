"""Engine ``structure``: Markov chains over the structures of a Bayes net, as a job that can be stopped and resumed.

Local scores of all parent sets are computed once, in a table. Chains move between structures, whose scores are sums of
its entries (:mod:`bayeslab.structure.chains`), segment by segment (:mod:`bayeslab.structure.jobs`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab.computer import available_cores
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.structure_groups import members_of_sets, structure_groups
from bayeslab.errors import EngineRefusal, NothingToFit, Reason, Stopped
from bayeslab.families.bayes_net.posterior import BayesNetPosterior
from bayeslab.families.bayes_net.structure_spec import unknown
from bayeslab.families.bayes_net.unknown_structure import Plan, one_only
from bayeslab.job import Job, Outcome
from bayeslab.labelled import of_dataset
from bayeslab.language.spec import Spec
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.groups import attributes, observed_groups
from bayeslab.progress import ChainState
from bayeslab.results.structure_checks import judge_structures, score_r_hat
from bayeslab.run_folder.segments import SegmentStore
from bayeslab.structure.imputing import Imputing
from bayeslab.structure.jobs import Chain, MemorySegments, Sampler, Work, Workers
from bayeslab.structure.jobs import run as run_job
from bayeslab.structure.score_table import ScoreTable, half_of_memory

__all__ = ["ENGINE", "Options", "run"]


# Steps between draws per variable, and approximate microseconds of a step per pair of variables. The latter only sets
# the length of segments, which must not depend on the speed of the machine.
_STEPS = {"structure": 200, "order": 30, "partition": 5}
# With missing cells, the chains at other temperatures make as many steps as the cold one, which is expensive.
_STEPS_IMPUTING = 75
_COST = {"structure": 1e-4, "order": 7e-3, "partition": 2e-2}
_SEGMENT_SECONDS = 2.0
_MOST_DRAWS = 500
# Number of draws per chain for the running R-hats, and seconds between their computations.
_LOOKED_AT, _EVERY = 200, 2.0
# Words for R-hats that are not numbers.
INFINITE = "infinite: chains differ in what none of them changes"
UNKNOWN = "not known yet: too few draws, or all are equal"


# Each process copies the data computed from a table (150 bytes per set); larger tables would need too much memory.
_MOST_COPIED = 3_000_000


class Options(Spec):
    """Options of the draws and of their distribution over processes."""

    draws: int = Field(1000, ge=1, description="Draws per chain after warm-up.")
    tune: int = Field(500, ge=0, description="Warm-up draws per chain, discarded.")
    thin: int | None = Field(None, ge=1, description="Steps between draws; default: by sampler and variables.")
    chains: int = Field(4, ge=1, le=1024, description="Number of chains.")
    segment: int | None = Field(None, ge=1, description="Draws computed and stored at a time.")
    cores: int | None = Field(None, ge=1, le=1024, description="Chains in parallel; default: all cores.")
    workers: Literal["processes", "threads"] | None = Field(
        None, description="How chains run in parallel: processes, or threads, which share a table of millions of sets."
    )
    scheduler: str | None = Field(None, description="Dask scheduler whose workers run the chains, tcp://host:8786.")


def refuse(posterior: Posterior) -> Reason | None:
    """Refuse models without an unknown structure."""
    if not isinstance(posterior, BayesNetPosterior):
        text = f"it samples structures of Bayes nets; this is a model of the family {posterior.family}"
        return Reason(text, code="other-family")
    if unknown(posterior.spec):
        plan = posterior.structure_plan
        if (why := one_only(plan)) is not None:
            raise NothingToFit(why, code="nothing-to-fit")
        plan.check_missing()
        plan.check_cost()
        return None
    text = "the structure of this net is known; `structure: {}` in the model says that it is not"
    return Reason(text, code="nothing-to-fit")


def _plan(job: Job) -> Plan:
    assert isinstance(job.posterior, BayesNetPosterior)
    return job.posterior.structure_plan


def ready(job: Job) -> None:
    """Check that the completions of missing cells fit into memory."""
    plan = _plan(job)
    _check_memory(plan.sampler, work_of(job.options, plan.sampler, len(plan.names), job.seed))


def run(job: Job) -> Outcome:
    """Draw the missing segments and compute the verdict."""
    begun = time.perf_counter()
    options, plan = job.options, _plan(job)
    sampler, store = plan.sampler, job.store.segments()
    work = work_of(options, sampler, len(plan.names), job.seed)
    if store is not None:
        store.begin()
        table = store.table(lambda: plan.table(job.progress))
    else:
        table = plan.table(job.progress)
    scored = time.perf_counter()
    watch = _Watch(job, table, work, store)
    chains = _drawn(job, table, sampler, work, store, watch)
    sampled = time.perf_counter()
    n_draws = min(sum(map(len, chain.scores)) for chain in chains)
    complete = n_draws >= work.draws
    if not n_draws:
        raise Stopped(
            "stopped before every chain had a draw after tuning; go on with `bayeslab fit --resume RUN`", code="stopped"
        )
    groups = _groups(job, plan, table, sampler, work, chains, n_draws)
    verdict = judge_structures(groups, complete=complete)
    timings = {"table": scored - begun, "sample": sampled - scored, "report": time.perf_counter() - sampled}
    return Outcome(groups, verdict, complete, timings)


def work_of(options: Options, sampler: Sampler, n: int, seed: int) -> Work:
    steps = min(_STEPS[sampler.word], _STEPS_IMPUTING) if isinstance(sampler, Imputing) else _STEPS[sampler.word]
    thin = options.thin or max(1, steps * n)
    cost = _COST[sampler.word] * n**2 * len(sampler.betas) * 1e-6
    segment = options.segment or max(1, min(_MOST_DRAWS, int(_SEGMENT_SECONDS / (cost * thin))))
    return Work(options.draws, options.tune, thin, options.chains, segment, seed)


def _check_memory(sampler: Sampler, work: Work) -> None:
    """Raise an EngineRefusal if the completions of missing cells need more memory than allowed."""
    if not isinstance(sampler, Imputing):
        return
    limit, cells = half_of_memory(), sampler.cells
    # Completions are held twice, as drawn and as returned.
    needed = 2e-6 * work.chains * (work.draws // cells.keep) * cells.missing.sum() * cells.packed.itemsize
    if needed > limit:
        raise EngineRefusal(
            f"the imputed values of {cells.missing.sum():,} cells in {work.chains} chains of {work.draws:,} draws take"
            f" {needed:,.0f} MB; {limit:,.0f} MB may be used. Ask for fewer draws with more steps between them (thin)",
            code="too-costly",
        )


def _drawn(
    job: Job, table: ScoreTable, sampler: Sampler, work: Work, store: SegmentStore | None, watch: _Watch
) -> list[Chain]:
    options: Options = job.options
    cores = min(options.cores or available_cores(), work.chains)
    many = len(table.scores) > _MOST_COPIED
    workers = Workers(cores, options.workers == "threads" or (options.workers is None and many), options.scheduler)
    job.progress.begin(list(watch.states))
    try:
        return run_job(table, sampler, work, store or MemorySegments(), workers, watch)
    finally:
        job.progress.close()


def _groups(
    job: Job, plan: Plan, table: ScoreTable, sampler: Sampler, work: Work, chains: list[Chain], n_draws: int
) -> dict[str, Any]:
    attrs = attributes(job)
    stats = {
        "sampler": sampler.word,
        "temperatures": list(sampler.betas),
        "exchange_every": sampler.every,
        "steps_per_draw": work.thin,
        "tuning_draws": work.tune,
        "seconds": [round(chain.seconds, 3) for chain in chains],
        "acceptance": _acceptance(chains),
    }
    extra = {"inference_library": "bayeslab", "score_options": plan.score_options}
    groups: dict[str, Any] = structure_groups(
        table,
        np.stack([np.concatenate(chain.draws)[:n_draws] for chain in chains]),
        np.stack([np.concatenate(chain.scores)[:n_draws] for chain in chains]),
        prior=sampler.prior,
        attrs=attrs | extra,
        stats=stats,
        chains=[chain.number for chain in chains],
    )
    if plan.missing:
        groups["parent_sets"]["local_score"].attrs["rows"] = "a first completion; `score` is of those in each draw"
        groups["completions"] = _completions(plan, work, chains, n_draws, attrs)
    return {name: of_dataset(group) for name, group in groups.items()} | observed_groups(job.posterior, attrs)


def _completions(plan: Plan, work: Work, chains: list[Chain], n_draws: int, attrs: dict[str, Any]) -> Any:
    """The completions of missing cells at the draws, or at evenly spaced draws."""
    import xarray as xr

    keep = plan.cells.keep
    draws = np.arange(-work.tune % keep, n_draws, keep)
    states = np.stack([np.concatenate(chain.completions)[: len(draws)] for chain in chains])
    row, column = np.nonzero(plan.cells.missing)
    coords = {
        "chain": [chain.number for chain in chains],
        "draw": draws,
        "row": ("cell", row),
        "variable": ("cell", np.array(plan.names)[column]),
    }
    return xr.Dataset({"state": (("chain", "draw", "cell"), states)}, coords, attrs | {"about": "numbers of states"})


def _acceptance(chains: list[Chain]) -> dict[str, float]:
    """Acceptance rate of each kind of step: the share that changed the structure, over all chains."""
    kinds = {kind: sum(chain.proposed.get(kind, 0) for chain in chains) for chain in chains for kind in chain.proposed}
    return {k: sum(chain.accepted.get(k, 0) for chain in chains) / many for k, many in kinds.items() if many}


# --------------------------------------------------------------------------------- how far it is


@dataclass
class State(ChainState):
    """A chain over structures, for the display."""

    acceptance: float = float("nan")
    score: float = float("nan")

    @property
    def cells(self) -> dict[str, str]:
        known = not np.isnan(self.acceptance)
        return {
            "acceptance": f"{100 * self.acceptance:.3g}%" if known else "",
            "score": f"{self.score:,.2f}" if known else "",
        }

    @property
    def troubles(self) -> dict[str, int]:
        return {}


class _Watch:
    """Report progress to the display and the run folder; called by the job after segments and rounds."""

    def __init__(self, job: Job, table: ScoreTable, work: Work, store: SegmentStore | None) -> None:
        self._job, self._table, self._work, self._store = job, table, work, store
        total = work.tune + work.draws
        self.states = [State(total, work.tune) for _ in range(work.chains)]
        self._begun = time.monotonic()
        self._at_first: int | None = None
        self._looked = -_EVERY
        self._r_hats = float("nan"), float("nan")

    def __call__(self, chains: list[Chain], whole: bool) -> None:
        if self._at_first is None:
            self._at_first = sum(chain.done for chain in chains)
            for state, chain in zip(self.states, chains, strict=True):
                state.resumed = chain.done >= state.total
        for state, chain in zip(self.states, chains, strict=True):
            state.done, state.finished = chain.done, chain.done >= state.total
            if chain.n_segments:
                state.score, state.acceptance = chain.score, _overall(chain)
        now = time.monotonic()
        ended = all(state.finished for state in self.states)
        if whole and (ended or now - self._looked >= _EVERY):
            self._r_hats = running_r_hats(self._table, chains)
            self._looked = time.monotonic()
        self._job.progress.remark = self._remark()
        self._job.progress.refresh()
        if whole and self._store is not None:
            self._store.tell(self.content(chains))

    def _left(self, chains: list[Chain]) -> float:
        """Estimated seconds left at the current speed."""
        done = sum(chain.done for chain in chains)
        fresh = done - (self._at_first or 0)
        total = sum(state.total for state in self.states)
        return (time.monotonic() - self._begun) / fresh * (total - done) if fresh else float("nan")

    def _remark(self) -> str:
        score, edge = self._r_hats
        parts = [f"R-hat of the score {score:.3f}"] if not np.isnan(score) else []
        parts += [f"of edges at most {edge:.3f}" if edge < np.inf else f"of edges {INFINITE}"] if edge == edge else []
        return ", ".join(parts)

    def content(self, chains: list[Chain]) -> dict[str, Any]:
        """The content of ``progress.json``."""
        left = self._left(chains)
        return {
            "seconds": time.monotonic() - self._begun,
            **({} if np.isnan(left) else {"seconds_left": left}),
            "draws": self._work.draws,
            "tune": self._work.tune,
            "steps_per_draw": self._work.thin,
            "r_hat_score": r_hat_in_json(self._r_hats[0]),
            "r_hat_edges": r_hat_in_json(self._r_hats[1]),
            "chains": [
                {
                    "done": chain.done,
                    **({"score": state.score} if np.isfinite(state.score) else {}),
                    "acceptance": chain.acceptance,
                    "seconds": chain.seconds,
                }
                for chain, state in zip(chains, self.states, strict=True)
            ],
        }


def r_hat_in_json(r_hat: float) -> float | str:
    """A number, or a word for NaN and infinity, which JSON lacks."""
    if np.isinf(r_hat):
        return INFINITE
    return UNKNOWN if np.isnan(r_hat) else float(r_hat)


def _overall(chain: Chain) -> float:
    """Share of all steps that changed the structure, without exchanges of temperatures and draws of missing cells."""
    steps = {kind: many for kind, many in chain.proposed.items() if kind not in ("exchange", "imputation")}
    return sum(chain.accepted[kind] for kind in steps) / max(1, sum(steps.values()))


def running_r_hats(table: ScoreTable, chains: list[Chain]) -> tuple[float, float]:
    """R-hat of the score, and the largest R-hat of an edge, from some draws of each chain; NaN if there are too few.

    For edges, which are indicators, it is the plain split R-hat.
    """
    length = min(sum(map(len, chain.scores)) for chain in chains)
    if length < 10:
        return float("nan"), float("nan")
    some = np.unique(np.linspace(0, length - 1, min(length, _LOOKED_AT)).astype(int))
    scores = np.stack([np.concatenate(chain.scores)[some] for chain in chains])
    draws = np.stack([np.concatenate(chain.draws)[some] for chain in chains])
    half = len(some) // 2
    halves = np.concatenate([draws[:, :half], draws[:, -half:]])
    member = members_of_sets(table, halves.reshape(-1)).reshape(*halves.shape, table.n)
    mean = member.mean(axis=1)
    within = (mean * (1 - mean)).mean(axis=0) * half / (half - 1)
    between = mean.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((half - 1) / half + between / within)
    known = r_hat[~np.isnan(r_hat)]
    return score_r_hat(scores)[0], float(known.max()) if known.size else float("nan")


ENGINE = Engine(Options, run, refuse=refuse, ready=ready, uses_graph=False, extends=True)
