"""Engine ``nuts``: the No-U-Turn sampler (Hoffman and Gelman 2014), run by nutpie.

Every chain is a separate sampler with a seed derived from the run's seed and the chain's number. So
the draws do not depend on how many chains run in parallel, a chain can be finished and saved while
others run, and an interrupted run continues with exactly the missing chains.

Steps that are too long for a part of the posterior show in the draws (divergences, tails in which steps are rejected).
If the user did not set ``target_accept``, it is then raised once, and all chains are tuned and drawn again. The signs
can be too weak to tell. Then the posterior mass beyond the draws is computed (:mod:`.toolbox.tail_mass`).

Chains that agree can all have missed a mode. So after sampling, scouts (short optimisations) start from all over the
prior. If one ends far from all draws, a short chain shows whether that is another mode
(:mod:`bayeslab.engines.toolbox.modes`).

Chains start around the centres of the priors and learn scales during warm-up. For models with few parameters and
expensive steps (by the family's choice or the option ``start: mode``) they start around the mode instead, in
coordinates whitened by the curvature there (:mod:`bayeslab.engines.toolbox.whitened`); then a fifth of the warm-up is
enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from bayeslab.computer import available_cores
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.engines.toolbox.densities import Backend, backend, density_of
from bayeslab.engines.toolbox.modes import Draws, finding, outside, suspects
from bayeslab.engines.toolbox.nutpie_adapter import Chain as Sampler
from bayeslab.engines.toolbox.nutpie_adapter import start_chain, values_of
from bayeslab.engines.toolbox.starts import height, middle, near
from bayeslab.engines.toolbox.tail_mass import missing_mass
from bayeslab.engines.toolbox.target import Target
from bayeslab.engines.toolbox.whitened import SEARCHES, Whitened, whitened
from bayeslab.errors import RunError
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.density import ready
from bayeslab.posterior.groups import on_the_way, posterior_groups, relabelled, remedies
from bayeslab.posterior.log_density import LogDensity
from bayeslab.progress import ChainState
from bayeslab.results.checks import MIN_DRAWS, judge_mcmc, short_tail, steps_too_long, warm_up_too_short
from bayeslab.results.convergence import Block
from bayeslab.results.tails import least_accepted
from bayeslab.results.verdict import Finding
from bayeslab.streams import stream

__all__ = ["ENGINE", "Options", "run"]

# ArviZ's names of nutpie's statistics.
_STATS = {
    "logp": "lp",
    "energy": "energy",
    "diverging": "diverging",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "mean_tree_accept": "acceptance_rate",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "energy_error": "energy_error",
    "max_energy_error": "max_energy_error",
}


# Warm-up draws after a start around the priors' centres, and around the mode, where only the step size is unknown.
_TUNE, _TUNE_AT_MODE = 1000, 200
# Steps in whitened coordinates are long, and overshoot where the density is steeper than on average.
_ACCEPT, _ACCEPT_AT_MODE = 0.8, 0.9
# Factor for the rejection rate on the second attempt: target_accept 0.8 becomes 0.95.
_AGAIN = 0.25
# Number of draws that other modes are compared with; warm-up draws, draws and tree depth of the short chains.
_SOME, _SHORT_TUNE, _SHORT_DRAWS, _SHORT_DEPTH = 4000, 200, 100, 8
# As many of those draws are relabelled together with a short chain, which may be in another copy of their mode.
_RELABELLED = 1000
# Evaluations for the mass beyond the draws, as a share of those of the chains.
_TAILS = 0.06
# Chains of the second attempt are stored under numbers above all of the first.
_MOST_CHAINS = 1024


class Options(Spec):
    """Options of NUTS, named as PyMC names them."""

    draws: int = Field(1000, ge=1, description="Draws per chain after warm-up.")
    tune: int | None = Field(
        None,
        ge=1,
        description="Warm-up draws per chain, discarded. Default: 1000, or 200 after a start at the mode; doubled once"
        " if a chain converges late.",
    )
    chains: int = Field(4, ge=1, le=_MOST_CHAINS, description="Number of chains.")
    cores: int | None = Field(None, ge=1, le=1024, description="Chains in parallel; default: all cores.")
    target_accept: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Target mean acceptance probability. Default: 0.8, or 0.9 after a start at the mode; raised once if"
        " steps are too long.",
    )
    max_treedepth: int = Field(10, ge=1, le=20, description="At most 2^max_treedepth steps per draw.")
    initvals: dict[str, Any] | None = Field(None, description="Starting values by node name.")
    backend: Backend = backend()
    start: Literal["priors", "mode"] | None = Field(
        None,
        description="Start of the chains: around the centres of the priors, or around the mode with the curvature there"
        " as metric. Default: chosen by the family.",
    )


# Count of drawn numbers from which on post-processing takes noticeable time.
_MANY = 1_000_000


@dataclass(slots=True)
class Chain:
    number: int
    sampler: Sampler
    state: ChainState


def run(job: Job) -> Outcome:
    """Sample the posterior; see the module's docstring."""
    options: Options = job.options
    clock = _Clock()
    density = density_of(job)
    at = middle(density, options.initvals)
    clock.lap("compile")
    beginning = _beginning(job, density, at)
    drawn = _drawn(job, beginning, 0)
    clock.lap("sample")
    drawn = _with_tails(job, density, beginning, drawn)
    changes = _remedies(options, density, beginning, drawn) if drawn.complete else []
    clock.lap("search")
    if changes:
        drawn, beginning = _again(job, beginning, drawn, changes)
        clock.lap("sample")
        drawn = _with_tails(job, density, beginning, drawn)
    if drawn.complete:
        drawn = _with_modes(job, density, at, beginning, drawn)
    clock.lap("search")
    chains, notes = _usable(drawn, options)
    flat, stats = _stacked(chains)
    if flat.size > _MANY:
        job.progress.note("computing the model's quantities from the draws, and checking them")
    groups = posterior_groups(job, density, flat, stats, sampler="nutpie", chains=list(chains))
    groups, renamed = relabelled(job, groups)
    clock.lap("deterministics")
    verdict = judge_mcmc(
        {name: groups[name] for name in ("posterior", "sample_stats")},
        max_treedepth=options.max_treedepth,
        target_accept=beginning.target_accept,
        notes=[*beginning.findings, *notes, *renamed],
        aside=on_the_way(job, density),
        remedies=remedies(job, density, tempered=not density.improper),
    )
    clock.lap("diagnose")
    return Outcome(groups, verdict, drawn.complete, clock.laps)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Finished chains by number, interrupted chains, whether all are finished, and the findings."""

    chains: dict[int, dict[str, np.ndarray]]
    partial: dict[int, dict[str, np.ndarray]]
    complete: bool
    notes: tuple[Finding, ...] = ()


def _stacked(chains: Mapping[int, Mapping[str, np.ndarray]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draws of shape (chain, draw, parameter), and sampler statistics of shape (chain, draw)."""
    stats = {name: np.stack([chain[name] for chain in chains.values()]) for name in _STATS.values()}
    return np.stack([chain["draws"] for chain in chains.values()]), stats


def _drawn(job: Job, beginning: _Beginning, time_: int) -> _Drawn:
    """All chains: those stored by an interrupted run, and the others drawn now.

    Parameters
    ----------
    time_
        0 for the first attempt, 1 for the second: part of a chain's seed and of the number under which it is stored.
    """
    options: Options = job.options
    first = time_ * _MOST_CHAINS
    kept = [k for k in range(options.chains) if first + k in job.store.finished()]
    missing = [k for k in range(options.chains) if k not in kept]
    complete, partial = True, dict[int, dict[str, np.ndarray]]()
    if missing:
        states = [ChainState(options.draws + beginning.tune, beginning.tune) for _ in range(options.chains)]
        for k in kept:
            states[k].done, states[k].finished, states[k].resumed = states[k].total, True, True
        job.progress.begin(states)
        try:
            complete, partial = _sample(job, beginning, missing, states, time_)
        finally:
            job.progress.close()
    there = job.store.finished()
    chains = {k: job.store.read(first + k) for k in range(options.chains) if first + k in there}
    return _Drawn(chains, partial, complete)


@dataclass(frozen=True, eq=False)
class _Change:
    """A change for the second attempt: an option, its values before and after, and the reason."""

    option: Literal["target_accept", "tune"]
    was: float
    now: float
    reason: str

    @property
    def words(self) -> str:
        how = "raised" if self.option == "target_accept" else "doubled"
        return f"{how} from {self.was:,g} to {self.now:,g}, tuned and drawn again; with {self.was:,g}: {self.reason}"


def _coordinates(density: LogDensity, flat: np.ndarray) -> list[Block]:
    """Draws of the free parameters on the unconstrained scale, from an array of shape (chain, draw, parameter)."""
    return [
        Block(name, v.reshape(*flat.shape[:2], *v.shape[1:]), tuple(tuple(map(str, range(n))) for n in v.shape[1:]))
        for name, v in density.split(flat.reshape(-1, flat.shape[-1])).items()
        if v.size
    ]


def _cost(beginning: _Beginning, stats: Mapping[str, np.ndarray]) -> int:
    """The number of evaluations of the density by the chains, warm-up included."""
    n_steps = stats["n_steps"]
    return int(n_steps.sum() * (1 + beginning.tune / max(n_steps.shape[1], 1)))


def _with_tails(job: Job, density: LogDensity, beginning: _Beginning, drawn: _Drawn) -> _Drawn:
    """The draws with a finding if posterior mass is missing in a tail, unless their steps show this."""
    if not drawn.complete or not density.n_dim:
        return drawn
    flat, stats = _stacked(drawn.chains)
    coordinates, acceptance = _coordinates(density, flat), np.asarray(stats["acceptance_rate"], dtype=np.float64)
    if not np.isfinite(flat).all() or least_accepted(coordinates, acceptance) is not None:
        return drawn
    missing = missing_mass(
        Target(density), flat, acceptance, stream(job.seed, "tails"), int(_TAILS * _cost(beginning, stats))
    )
    if missing is None:
        return drawn
    advice = remedies(job, density, tempered=not density.improper)
    note = short_tail(coordinates, missing.number, missing.upper, missing.mass, missing.drawn, advice)
    return replace(drawn, notes=(*drawn.notes, note))


def _remedies(options: Options, density: LogDensity, beginning: _Beginning, drawn: _Drawn) -> list[_Change]:
    """Changes of options that the user did not set, if steps were too long or the warm-up too short."""
    if options.target_accept is not None and options.tune is not None:
        return []
    flat, stats = _stacked(drawn.chains)
    coordinates = _coordinates(density, flat)
    out = []
    missing = next((note.message for note in drawn.notes if note.check == "tails"), None)
    if options.target_accept is None and (reason := steps_too_long(coordinates, stats) or missing):
        was = beginning.target_accept
        out.append(_Change("target_accept", was, 1 - _AGAIN * (1 - was), reason))
    if options.tune is None and (reason := warm_up_too_short(coordinates)):
        out.append(_Change("tune", beginning.tune, 2 * beginning.tune, reason))
    return out


def _again(job: Job, beginning: _Beginning, before: _Drawn, changes: Sequence[_Change]) -> tuple[_Drawn, _Beginning]:
    """All chains tuned and drawn again with the changes; the first attempt's chains if this is interrupted."""
    values = {change.option: change.now for change in changes}
    better = replace(
        beginning,
        target_accept=values.get("target_accept", beginning.target_accept),
        tune=int(values.get("tune", beginning.tune)),
    )
    now = " and ".join(f"{change.option} {change.now:g}" for change in changes)
    why = "; ".join(change.reason for change in changes)
    job.progress.note(f"tuning and drawing again with {now}: {why}")
    drawn = _drawn(job, better, 1)
    if not drawn.complete:
        was = " and ".join(f"{change.option} {change.was:g}" for change in changes)
        text = f"interrupted while drawing again with {now}: these are the draws with {was}"
        note = Finding("warn", "interrupted", "run", None, text, "continue it with `bayeslab fit --resume RUN`")
        return replace(before, complete=False, notes=(*before.notes, note)), beginning
    notes = tuple(Finding("pass", change.option, "", change.now, change.words) for change in changes)
    return replace(drawn, notes=notes), better


def _with_modes(job: Job, density: LogDensity, at: np.ndarray, beginning: _Beginning, drawn: _Drawn) -> _Drawn:
    """The draws with findings from short chains that start far from them."""
    flat, stats = _stacked(drawn.chains)
    points, heights = flat.reshape(-1, density.n_dim), stats["lp"].ravel()
    some = np.linspace(0, len(points) - 1, min(len(points), _SOME)).astype(int)
    draws, others = Draws(points[some], heights[some], _cost(beginning, stats)), list[Draws]()
    if len(points) < MIN_DRAWS or not np.isfinite(draws.heights).all():
        return drawn
    try:
        starts = suspects(Target(density), draws, np.random.default_rng(chain_seed(job.seed, 0, 2)), at)
        for k, start in enumerate(starts):
            job.progress.note(f"a short chain from elsewhere ({k + 1} of {len(starts)}): is there another mode?")
            other = _short(job, density, start, beginning.target_accept, k)
            if other is not None and all(outside(known, other) for known in (draws, *others)):
                others += [other] if _really_outside(job, density, draws, other) else []
    except KeyboardInterrupt:
        text = "interrupted while looking for other modes: the draws are all there"
        note = Finding("warn", "interrupted", "run", None, text, "continue it with `bayeslab fit --resume RUN`")
        return replace(drawn, complete=False, notes=(*drawn.notes, note))
    findings = finding(draws, others, lambda other: _place(density, draws, other))
    return replace(drawn, notes=(*drawn.notes, *findings))


def _short(job: Job, density: LogDensity, start: np.ndarray, target_accept: float, k: int) -> Draws | None:
    """A short chain from one point, or None if it could not be drawn."""
    options: Options = job.options
    depth = min(options.max_treedepth, _SHORT_DEPTH)
    few = replace(job, options=options.model_copy(update={"draws": _SHORT_DRAWS, "max_treedepth": depth}))
    beginning = _Beginning(density, lambda rng: start, _SHORT_TUNE, target_accept)
    state = ChainState(_SHORT_DRAWS + _SHORT_TUNE, _SHORT_TUNE)
    chain = _start(few, _chain_start(beginning), beginning, k, state, 2)
    try:
        while not finished(chain):
            time.sleep(0.005)
        arrays = _arrays(results_of(chain, abort=False))
    except RunError:
        return None
    except BaseException:
        chain.sampler.cancel()
        raise
    return Draws(arrays["draws"], arrays["lp"])


def _really_outside(job: Job, density: LogDensity, draws: Draws, other: Draws) -> bool:
    """Whether a short chain is still outside the draws after relabelling hidden states, if the family does so."""
    if not job.posterior.may_be_relabelled():
        return True
    some = np.linspace(0, len(draws.points) - 1, min(len(draws.points), _RELABELLED)).astype(int)
    flat = np.concatenate((draws.points[some], other.points))[None]
    groups, _ = relabelled(job, posterior_groups(job, density, flat, {}, sampler="nutpie", chains=[0]))
    aside = on_the_way(job, density)
    columns_by_name = [
        v.to_numpy()[0].reshape(flat.shape[1], -1) for n, v in groups["posterior"].data_vars.items() if n not in aside
    ]
    if not columns_by_name:
        return False
    columns = np.concatenate(columns_by_name, axis=1).astype(float)
    here, there = columns[: len(some)], columns[len(some) :]
    return outside(Draws(here, draws.heights[some]), Draws(there, other.heights))


def _place(density: LogDensity, draws: Draws, other: Draws) -> str:
    """The parameter in which two modes are farthest apart, with its values, as text."""
    worst = int(np.argmax(np.abs(other.mean - draws.mean) / np.maximum(draws.sd, other.sd)))
    index = density.split(np.arange(density.n_dim))
    at = next(k for k, name in enumerate(density.names) if np.any(index[name] == worst))
    name = density.parameters[at]
    medians = np.stack((np.median(other.points, axis=0), np.median(draws.points, axis=0)))
    both = density.constrained(density.split(medians))[name].reshape(2, -1)
    element = int(np.argmax(np.abs(both[0] - both[1])))
    label = name if both.shape[1] == 1 else f"{name}[{element}]"
    return f"'{label}' about {both[0, element]:.4g} there, {both[1, element]:.4g} here"


@dataclass(frozen=True, eq=False)
class _Beginning:
    """The density that nutpie samples, the start of the chains, the length of the warm-up, and findings."""

    target: LogDensity | Whitened
    start: Callable[[np.random.Generator], np.ndarray]
    tune: int
    target_accept: float
    findings: tuple[Finding, ...] = ()


def _beginning(job: Job, density: LogDensity, at: np.ndarray) -> _Beginning:
    """Start around the centres of the priors, or around the mode if that is chosen and there is one."""
    options: Options = job.options

    def around(rng: np.random.Generator) -> np.ndarray:
        return near(density, at, rng)

    usual = _Beginning(density, around, options.tune or _TUNE, options.target_accept or _ACCEPT)
    if not _at_mode(job):
        return usual
    job.progress.note("looking for the mode")
    coordinates = whitened(density, stream(job.seed, "mode"), options.initvals)
    if isinstance(coordinates, str):
        text = f"{coordinates}; so chains started around the centres of the priors and tuned with {usual.tune:,} draws"
        return replace(usual, findings=(Finding("pass", "start", "", None, text),))
    tune = options.tune or _TUNE_AT_MODE
    text = f"around the mode, {tune:,} tuning draws; {SEARCHES} searches found the same mode"
    accept = options.target_accept or _ACCEPT_AT_MODE
    return _Beginning(
        coordinates, _dispersed(coordinates.n_dim), tune, accept, (Finding("pass", "start", "", None, text),)
    )


def _at_mode(job: Job) -> bool:
    """Whether to start at the mode: by the option, else by the family, but never with given starting values."""
    options: Options = job.options
    if options.start is not None:
        return options.start == "mode"
    return options.initvals is None and job.posterior.starts_at_mode()


def _dispersed(n: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Starting points twice as dispersed as the draws of a normal posterior, as R-hat needs."""
    return lambda rng: 2.0 * rng.standard_normal(n)


class _Clock:
    """Seconds by stage: ``sample`` is for the chains, ``search`` for tails and modes that they may have missed."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = self.laps.get(name, 0.0) + now - self._last, now


def _chain_start(beginning: _Beginning) -> Callable[[int | None], np.ndarray]:
    """The starting point of a chain, from its seed."""
    target = beginning.target
    n = target.n_dim

    def start(seed: int | None) -> np.ndarray:
        rng = np.random.default_rng(seed)
        points = [beginning.start(rng) for _ in range(10)]
        heights = np.array([height(target, point) for point in points])
        # The first start that is not extreme among the others: a chain cannot leave a point with slope 1e60.
        return points[int(np.argmax(heights >= heights.max() - 10 * n))]

    return start


def _as_drawn(target: LogDensity | Whitened) -> Callable[[np.ndarray], np.ndarray] | None:
    """From a point of the sampler to the parameters on the unconstrained scale; None if they are the same."""
    return target.point if isinstance(target, Whitened) else None


def chain_seed(seed: int, chain: int, time_: int = 0) -> int:
    """Seed of one chain; depends only on the run's seed, the chain's number and the attempt.

    ``time_`` 2 stands for the scouts and the short chains that look for other modes.
    """
    key = (chain, time_) if time_ else (chain,)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])


def _sample(
    job: Job, beginning: _Beginning, missing: list[int], states: list[ChainState], time_: int
) -> tuple[bool, dict[int, dict[str, np.ndarray]]]:
    """Run the missing chains; on Ctrl-C return the draws of the running chains so far."""
    options: Options = job.options
    at_once, start = options.cores or available_cores(), _chain_start(beginning)
    waiting, running, begun = list(missing), list[Chain](), time.perf_counter()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                k = waiting.pop(0)
                running.append(_start(job, start, beginning, k, states[k], time_))
            # A fiftieth of the time so far, since small models take a twentieth of a second.
            time.sleep(min(0.005, max(0.0005, 0.02 * (time.perf_counter() - begun))))
            for chain in list(running):
                if finished(chain):
                    running.remove(chain)
                    job.store.write(time_ * _MOST_CHAINS + chain.number, _arrays(results_of(chain, abort=False)))
                    chain.state.done, chain.state.finished = chain.state.total, True
            job.progress.refresh()
    except KeyboardInterrupt:
        return False, {chain.number: _arrays(results_of(chain, abort=True)) for chain in running if chain.state.done}
    except BaseException:
        for chain in running:
            chain.sampler.cancel()
        raise
    return True, {}


def _start(
    job: Job,
    start: Callable[[int | None], np.ndarray],
    beginning: _Beginning,
    number: int,
    state: ChainState,
    time_: int,
) -> Chain:
    options: Options = job.options

    def update(chains: list[Any]) -> None:
        for chain in chains:
            state.done = chain.finished_draws
            state.divergences = chain.divergences
            state.step_size = chain.step_size
            state.steps = chain.latest_num_steps

    handle = start_chain(
        beginning.target,
        start,
        _as_drawn(beginning.target),
        draws=options.draws,
        tune=beginning.tune,
        seed=chain_seed(job.seed, number, time_),
        target_accept=beginning.target_accept,
        max_treedepth=options.max_treedepth,
        update=update,
    )
    return Chain(number, handle, state)


def finished(chain: Chain) -> bool:
    try:
        return chain.sampler.is_finished
    except (RuntimeError, ValueError) as error:
        raise _failure(chain, error) from error


def results_of(chain: Chain, *, abort: bool) -> Any:
    try:
        return chain.sampler.abort() if abort else chain.sampler.wait()
    except (RuntimeError, ValueError) as error:
        raise _failure(chain, error) from error


def _failure(chain: Chain, error: Exception) -> RunError:
    """The error for a chain that the sampler gave up, in one line."""
    if any(words in str(error).lower() for words in ("initialization points failed", "bad initial gradient")):
        return RunError(
            f"chain {chain.number} found no point to start from: the density or its gradient is not finite, or a slope"
            f" is zero, around the start; give starting values in initvals, or tighter priors",
            code="no-start",
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return RunError(
        f"chain {chain.number} could not be sampled: {lines[-1] if lines else error}; try initvals, tighter"
        f" priors, or a larger target_accept",
        code="failed",
    )


def _arrays(results: Any) -> dict[str, np.ndarray]:
    """Draws after warm-up and their statistics."""
    import pyarrow as pa

    draw_batches, stat_batches = results.get_arrow_trace()
    draws, stats = pa.record_batch(draw_batches[0]), pa.record_batch(stat_batches[0])
    after = ~values_of(stats.column("tuning"))
    n = len(draws)
    points = values_of(draws.column(0)).reshape(n, -1) if n else np.empty((0, 0))
    return {"draws": points[after[:n]]} | {ours: values_of(stats.column(name))[after] for name, ours in _STATS.items()}


def _usable(drawn: _Drawn, options: Options) -> tuple[dict[int, dict[str, np.ndarray]], list[Finding]]:
    """The chains to report: all of a complete run, else the subset of equal length with the most draws."""
    if len(drawn.chains) == options.chains:
        return drawn.chains, list(drawn.notes)
    every = drawn.chains | {k: c for k, c in drawn.partial.items() if len(c["draws"])}
    if not every:
        raise RunError(
            "interrupted before any draw after tuning; nothing to keep (--resume starts the chains again)",
            code="stopped",
        )
    lengths = sorted((len(chain["draws"]) for chain in every.values()), reverse=True)
    length = max(lengths, key=lambda n: n * sum(other >= n for other in lengths))
    chosen = {k: {n: a[:length] for n, a in c.items()} for k, c in sorted(every.items()) if len(c["draws"]) >= length}
    note = Finding(
        "warn",
        "interrupted",
        "run",
        float(len(chosen) * length),
        f"interrupted: {len(chosen)} of {options.chains} chains with {length:,} of {options.draws:,} draws are kept",
        "continue it with `bayeslab fit --resume RUN` (or bl.resume(folder))",
    )
    return chosen, [note]


ENGINE = Engine(Options, run, ready=ready)
