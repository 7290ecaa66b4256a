"""Draws as ArviZ's groups, with named dimensions, coordinates, and all quantities of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.job import Job
from bayeslab.labelled import Group, Variable
from bayeslab.posterior.answer import Note
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.forward import forward
from bayeslab.posterior.graph_model import dims_of
from bayeslab.posterior.log_density import LogDensity
from bayeslab.posterior.transforms import tables_at
from bayeslab.results.checks import MIN_DRAWS, Remedies
from bayeslab.results.convergence import r_hat_and_ess
from bayeslab.results.verdict import Finding
from bayeslab.streams import derived, stream

if TYPE_CHECKING:
    import pymc

__all__ = [
    "GraphLayout",
    "Layout",
    "Named",
    "attributes",
    "data_groups",
    "dataset",
    "expected_states",
    "labelled",
    "observed_groups",
    "on_the_way",
    "posterior_groups",
    "relabelled",
    "remedies",
]


class Layout(Protocol):
    """What axes of a model's variables are called."""

    @property
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:
        """Names of the axes of variables."""
        ...

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        """Labels of dimensions."""
        ...


@dataclass(frozen=True)
class Named:
    """A layout by names."""

    dims: Mapping[str, tuple[str | None, ...]]
    coords: Mapping[str, Sequence[Any] | None]


@dataclass(frozen=True)
class GraphLayout:
    """The layout of a PyMC model."""

    model: pymc.Model

    @property
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:
        """Names of the axes of variables."""
        return dims_of(self.model)

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        """Labels of dimensions."""
        coords: Mapping[str, Sequence[Any] | None] = self.model.coords
        return coords


def posterior_groups(
    job: Job,
    density: LogDensity,
    flat: np.ndarray,
    stats: Mapping[str, np.ndarray],
    *,
    sampler: str,
    chains: list[int],
    recover: bool = True,
) -> dict[str, Group]:
    """The groups of a run with draws on the unconstrained scale.

    Parameters
    ----------
    flat
        Unconstrained draws, shape (chain, draw, n_dim).
    stats
        Statistics of the sampler, shape (chain, draw) each.
    recover
        Whether summed-out nodes are drawn. At a point estimate they are not, because draws are not a mode; states are
        then at their means.
    """
    n_chains, n_draws = flat.shape[:2]
    values = density.split(flat.reshape(n_chains * n_draws, -1))
    wanted = density.constrained(values)
    if job.latent and recover:
        rng = stream(job.seed, "summed out")
        drawn = density.recovered(flat.reshape(n_chains * n_draws, -1), rng)
        wanted |= _recovered(job, wanted) if drawn is None else drawn
        wanted |= _derived(job, wanted)
    elif job.latent:
        wanted |= _derived(job, wanted | means) if (means := expected_states(job.posterior, wanted)) else {}
    attrs = {"inference_library": sampler, "inference_library_version": version(sampler)} | attributes(job)
    shaped = {name: v.reshape(n_chains, n_draws, *v.shape[1:]) for name, v in wanted.items()}
    raw = {name: v.reshape(n_chains, n_draws, *v.shape[1:]) for name, v in values.items()}
    coords = {"chain": np.asarray(chains), "draw": np.arange(n_draws)}
    return {
        "posterior": dataset(shaped, density, coords, attrs),
        "sample_stats": dataset(dict(stats), density, coords, attrs),
        "unconstrained_posterior": dataset(raw, density, coords, attrs),
        **(
            observed_groups(job.posterior, attributes(job))
            if job.latent or not density.observed_cells
            else data_groups(density, job.posterior.bound_data(), attributes(job))
        ),
    }


def on_the_way(job: Job, density: LogDensity) -> frozenset[str]:
    """Intermediate variables of the posterior, which follow from the parameters and need no convergence checks.

    These are deterministic nodes from which others are computed, such as the mean of each row, and summed-out discrete
    nodes, which are drawn given the parameters.
    """
    states = job.posterior.integrated() if job.latent else {}
    return density.intermediate | frozenset(job.latent) | frozenset(states.values())


def remedies(job: Job, density: LogDensity, *, tempered: bool = False) -> Remedies:
    """Possible changes to a model: nodes that the user wrote, and which of them are centred hierarchies.

    ``tempered`` says whether the method smc can fit the model.
    """
    if not job.posterior.spec.is_language:
        return Remedies(rewritable=False, tempered=tempered)
    return Remedies(centred=density.centred, tempered=tempered)


def relabelled(job: Job, groups: dict[str, Group]) -> tuple[dict[str, Group], list[Finding]]:
    """The groups with labels of exchangeable hidden states matched across draws, and findings about it.

    If a model is invariant under permutations of a hidden variable's states, its posterior has a copy of
    every mode for each permutation. Chains switch between them (label switching), and posterior means of a
    state's parameters are meaningless. The family determines the permutation of each draw.
    """
    if not job.posterior.may_be_relabelled():
        return groups, []
    posterior = groups["posterior"]
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    flat = {str(n): v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in posterior.data_vars.items()}
    invariant = job.posterior.label_invariant(flat, stream(job.seed, "labels"))
    if invariant is not None:
        return _with_invariants(groups, shape, *invariant)
    answer = job.posterior.relabelled(flat)
    if answer is None:
        return groups, []
    arrays, what = answer
    after = posterior.changed({n: v.reshape(*shape, *v.shape[1:]) for n, v in arrays.items()})
    unmoved = [(flat[n] == v).reshape(len(v), -1).all(axis=1) for n, v in arrays.items()]
    moved = int(np.sum(~np.all(unmoved, axis=0)))
    now = max(_worst_r_hat(after[n].to_numpy()) for n in arrays)
    rule = job.posterior.numbering_rule()
    why, done = (rule, "renumbered") if rule else (f"the states of {what} are exchangeable", "relabelled")
    if moved:
        before = max(_worst_r_hat(posterior[n].to_numpy()) for n in arrays)
        text = (
            f"{why}: {moved:,} of {shape[0] * shape[1]:,} draws were {done};"
            f" worst R-hat {before:.2f} before, {now:.2f} after"
        )
    else:
        text = f"{why}, and no draw was {done}"
    return groups | {"posterior": after}, [Finding("pass", "relabelled", what, now, text)]


def _with_invariants(
    groups: dict[str, Group],
    shape: tuple[int, int],
    names: Iterable[str],
    invariants: Mapping[str, np.ndarray],
    notes: Iterable[Note],
) -> tuple[dict[str, Group], list[Finding]]:
    """Move label-dependent quantities to a group without checks, and add label-invariant ones."""
    posterior = groups["posterior"]
    moved = [name for name in posterior.data_vars if name in set(names)]
    added = {n: Variable(("chain", "draw"), v.reshape(shape)) for n, v in invariants.items()}
    after = posterior.changed(added).without(moved)
    findings = [Finding(note.status, note.check, "", None, note.message, note.advice) for note in notes]
    return groups | {"posterior": after, "components": posterior.only(moved)}, findings


def _worst_r_hat(values: np.ndarray) -> float:
    if values.shape[1] < MIN_DRAWS:
        return float("nan")
    draws = values.reshape(*values.shape[:2], -1)
    with np.errstate(invalid="ignore", divide="ignore"):  # for constant quantities
        r_hats = r_hat_and_ess(np.moveaxis(draws, -1, 0))[0]
    return float(np.max(r_hats, where=~np.isnan(r_hats), initial=0.0))


def _recovered(job: Job, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the discrete nodes that were summed out, given each draw of the parameters."""
    elimination = job.posterior.elimination()
    if elimination is not None:
        model, sums = elimination
        # Discrete nodes drawn jointly, from the tables at each draw of the parameters.
        rng = stream(job.seed, "summed out")
        drawn = [sums.drawn(tables, rng) for tables in tables_at(model, sums, values)]
        return {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}
    from pymc_extras.model.marginal.conditional import conditional

    given = {rv.name: values[rv.name] for rv in job.graph.free_RVs}
    for rv in job.graph.free_RVs:
        job.graph.set_initval(rv, None)  # `conditional` refuses models with initial values, which are no longer needed
    return forward(conditional(job.graph, list(job.latent)), given, list(job.latent), derived(job.seed, "summed out"))


def _derived(job: Job, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Deterministic nodes that depend on what was recovered."""
    names = [name for name in job.posterior.derived_nodes() if name not in values]
    if not names:
        return {}
    nodes = job.posterior.generative("predict")
    if job.machine is None:
        job.graph.named_vars_to_dims.update({n: nodes.dims[n] for n in names if n in nodes.dims})
    given = {name: values[name] for name in nodes.random if name in values}
    return nodes.draw(names, given, derived(job.seed, "derived"))


def expected_states(posterior: Posterior, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Conditional means of the normal variables behind summed-out states, given the data and each parameter draw."""
    if not posterior.integrated():
        return {}
    machine = posterior.summing()
    if machine is not None:
        return machine.expected(machine.points_at(values))
    eliminated = posterior.elimination()
    assert eliminated is not None
    built, sums = eliminated
    means = [sums.expected(tables) for tables in tables_at(built, sums, values)]
    return {name: np.concatenate([each[name] for each in means]) for name in means[0]}


def dataset(
    arrays: Mapping[str, np.ndarray], model: Layout, coords: Mapping[str, Any], attrs: Mapping[str, Any]
) -> Group:
    """A group of arrays whose leading axes are ``coords`` and whose other axes are the model's dimensions."""
    lead, known, labels = len(coords), model.dims, model.coords
    dims = {n: _dims_of(known, labels, n, a.ndim - lead, a.shape[lead:]) for n, a in arrays.items()}
    return labelled(arrays, dims, labels, coords, attrs)


def labelled(
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[Any, ...]],
    labels: Mapping[str, Any],
    lead: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> Group:
    """A group of arrays with leading axes ``lead`` (name to labels) and then ``dims``, labelled where labels fit."""
    out, used = {}, {name: np.asarray(values) for name, values in lead.items()}
    for name, array in arrays.items():
        # A DataTree interprets / as a path separator.
        axes = (*lead, *(str(dim).replace("/", "_") for dim in dims[name]))
        out[name.replace("/", "_")] = Variable(axes, np.asarray(array))
        for dim, size in zip(dims[name], array.shape[len(lead) :], strict=True):
            known = labels.get(dim)
            if known is not None and len(known) == size:
                used[str(dim).replace("/", "_")] = np.asarray(known)
    return Group(out, {name: Variable((name,), values) for name, values in used.items()}, dict(attrs))


def observed_groups(posterior: Posterior, attrs: Mapping[str, Any]) -> dict[str, Group]:
    """``observed_data`` and ``constant_data`` from the data alone, if no graph was built."""
    observed, data = set(posterior.outcomes()), posterior.bound_data()
    columns = data.dataset.columns
    # Columns with stray cells are refused only where they are used, and these are not used.
    terms = {
        n: data.term(n, missing=True)
        for n, c in columns.items()
        if c.dims and n not in data.slips and n not in data.alike
    }
    # Outcomes that are computed from columns are not columns themselves.
    terms |= {n: data.term(n, missing=True) for n in sorted(observed - columns.keys()) if data.has(n)}
    # A factor can have the name of its dimension, which is a coordinate already.
    along = {dim for term in terms.values() for dim in term.dims}
    terms = {name: term for name, term in terms.items() if name not in along}
    out = {}
    for group, wanted in (("observed_data", True), ("constant_data", False)):
        chosen = {n: t for n, t in terms.items() if (n in observed) == wanted}
        if chosen:
            arrays = {n: np.asarray(t.codes if t.codes is not None else t.value) for n, t in chosen.items()}
            out[group] = labelled(arrays, {n: t.dims for n, t in chosen.items()}, data.labels, {}, attrs)
    return out


def _dims_of(
    dims: Mapping[str, tuple[str | None, ...]],
    labels: Mapping[str, Any],
    name: str,
    ndim: int,
    shape: tuple[int, ...],
) -> tuple[str, ...]:
    known = dims.get(name) or ()
    fits = len(known) == ndim and all(
        dim is not None and labels.get(dim) is not None and len(labels[dim]) == size
        for dim, size in zip(known, shape, strict=True)
    )
    return tuple(str(d) for d in known) if fits else tuple(f"{name}_dim_{i}" for i in range(ndim))


def data_groups(density: LogDensity, data: Data, attrs: Mapping[str, Any]) -> dict[str, Group]:
    """``observed_data`` (missing cells are NaN) and ``constant_data`` of a model."""
    observed: dict[str, np.ndarray] = {}
    for name, there in density.observed_cells.items():
        whole = name.removesuffix("_observed")
        if whole != name and data.has(whole):
            term = data.term(whole, missing=True)
            dims = density.dims.get(whole, term.dims)
            cells = np.where(term.codes < 0, np.nan, term.codes) if term.value is None else np.asarray(term.value)
            observed[whole] = cells.transpose([term.dims.index(d) for d in dims])
        else:
            observed[name] = there
    out = {}
    for group, arrays in (("observed_data", observed), ("constant_data", density.constants)):
        if arrays:
            out[group] = dataset(arrays, density, {}, attrs)
    return out


def attributes(job: Job) -> dict[str, Any]:
    """The provenance attributes of a group."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "creation_library": "bayeslab",
        "creation_library_version": version("bayeslab"),
        "bayeslab_format": 1,
        "model_digest": job.model.digest(),
        "seed": job.seed,
    }
