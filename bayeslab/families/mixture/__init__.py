"""Family ``mixture``: every row comes from one of K components, which one is not known.

The component is summed out of the likelihood exactly (:mod:`bayeslab.distributions.emissions.components`), so that the
same pass over the rows serves EM, NUTS and the clustering afterwards. The numbering of components means nothing unless
known labels, an ``order`` or different priors tell them apart: draws are renamed so that they agree (Stephens 2000),
and ``Fit.clusters`` gives summaries that need no names.

References
----------
.. [1] McLachlan, Peel (2000). Finite Mixture Models. Wiley.
.. [2] Frühwirth-Schnatter (2006). Finite Mixture and Markov Switching Models. Springer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, OptionError, Reason, hint
from bayeslab.exact.answer import EMPlan, GibbsPlan, Note, Plan, VariationalPlan
from bayeslab.exact.clusters import ordered as by_location
from bayeslab.exact.clusters import permute, permute_labels
from bayeslab.families.mixture import (
    completion,
    component_shapes,
    dirichlet_process,
    exact_inference,
    expectation_maximisation,
    gibbs_sampling,
    pymc_graph,
    variational_bayes,
)
from bayeslab.families.mixture.dirichlet_process import prior_words
from bayeslab.families.mixture.model import Resolved, candidates, resolved
from bayeslab.families.mixture.spec import Mixture
from bayeslab.families.mixture.trials import check_drawn
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import Model
from bayeslab.latents.latent import Law
from bayeslab.posterior.open_cells import row_by_row
from bayeslab.posterior.relabelling import agreeing, evenly

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.mixture.component_shapes import Shapes

__all__ = ["Mixture", "Spec", "bound", "check", "em", "exact", "factors", "graph", "network", "outcomes", "summed_out"]


Spec = Mixture


def _spec(model: Model) -> Mixture:
    assert isinstance(model.model, Mixture)
    return model.model


def _process(model: Model) -> bool:
    return _spec(model).components == "dirichlet_process"


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The data have the columns that are named."""
    spec = _spec(model)
    if not columns:
        return
    wanted = {
        "columns" if spec.regression is None else "regression": spec.modelled,
        "gating": spec.gating,
        "labels": [spec.labels] if spec.labels else [],
    }
    wanted["trials"] = [spec.trials] if isinstance(spec.trials, str) else []
    # A model of data that are to be simulated may have no column yet.
    simulated = not any(name in columns for name in spec.modelled)
    if spec.regression is not None:
        wanted["regression"] = [*spec.modelled, *sorted(parse_formula(spec.regression).predictor_columns())]
    for key, names in wanted.items():
        for i, name in enumerate(names):
            if name not in columns and not (simulated and key in ("columns", "regression", "labels")):
                path = ("model", key) if isinstance(getattr(spec, key), str) else ("model", key, i)
                raise ModelError(
                    f"the data have no column '{name}'{hint(name, columns)}", path=path, code="unknown-column"
                )


def bound(model: Model, data: Data) -> Data:
    """The data, once the model has been put on them: what a fit would refuse is refused here."""
    if data.origin is None and any(data.has(name) for name in _spec(model).modelled):
        _there(model, data)
        candidates(model, data)
    return data


def factors(model: Model) -> set[str]:
    """Columns of categories and of labels."""
    spec = _spec(model)
    return {*spec.words("categorical"), *((spec.labels,) if spec.labels else ()), *model.dims} - {"component"}


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The columns."""
    spec = _spec(model)
    return (*spec.modelled, *((spec.labels,) if spec.labels and spec.label_noise else ()))


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing that would have to be recovered: components are summed out by the family itself."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing is computed from components in a draw."""
    return ()


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The mixture as a PyMC model.

    To fit: its parameters, and one node ``evidence`` with the components summed out. To simulate: a node ``label`` for
    the component of every row, and one for every column.
    """
    seen = _counted(model, data)
    if purpose == "fit" and data.dataset.columns:
        _there(model, data)
        return pymc_graph.with_evidence(model, seen)
    return pymc_graph.written_out(model, seen, data)


def graph_without_start(model: Model, data: Data) -> pymc.Model:
    """The graph to fit, but for the search of a mode where chains start: all that a check needs."""
    seen = _counted(model, data)
    _there(model, data)
    return pymc_graph.with_evidence(model, seen, search=False)


def _counted(model: Model, data: Data) -> Resolved:
    if _spec(model).components == "sampled":
        raise ModelError(
            "a sampled number of components has no graph of fixed size; use method gibbs, or give a number",
            path=("model", "components"),
            code="no-graph",
        )
    return resolved(model, data)


def _there(model: Model, data: Data) -> None:
    """The data have the columns, not only those that simulating needs."""
    for i, name in enumerate(_spec(model).modelled):
        if not data.has(name):
            raise ModelError(
                f"the data have no column '{name}'{hint(name, data.names())}",
                path=("model", "columns", i),
                code="unknown-column",
            )


def exact(model: Model, data: Data) -> Plan | str:
    """In closed form only where every label is known."""
    _there(model, data)
    seen = resolved(model, data)
    if seen.choice is not None:
        return f"components are summed out, {seen.choice.described('component')}"
    if seen.design is not None or seen.problem.latent.inputs is not None:
        return "components are summed out"
    return exact_inference.exact(seen)


def em(model: Model, data: Data) -> EMPlan | str:
    """The mode of the posterior, or of the likelihood, by expectation maximisation."""
    if _process(model):
        return "EM needs a number of components; a process has none: use gibbs, variational or nuts"
    if _spec(model).components == "sampled":
        return Reason(
            "EM needs a number of components, or a list to choose from; method gibbs samples the number",
            code="no-graph",
        )
    _there(model, data)
    return expectation_maximisation.em(resolved(model, data))


def maximum_likelihood(model: Model, data: Data) -> tuple[float, int]:
    """The highest log likelihood, NaN where it has no bound, and the number of free parameters."""
    if _process(model):
        return float("nan"), 0
    return expectation_maximisation.maximum_likelihood(_with_parameters(model, data))


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter; numbers the file does not give are on the scale of the data."""
    seen = resolved(model, data)
    out: dict[str, str] = {}
    if seen.process is not None:
        out |= prior_words(seen.process)
    elif seen.problem.latent.inputs is not None or seen.n_components > 1:
        out |= {name: seen.problem.latent.prior_text(name) for name in seen.problem.latent.learned}
    for part in seen.parts.values():
        out |= part.prior_words()
    return out


def gibbs(model: Model, data: Data) -> GibbsPlan | str:
    """Labels and parameters in turns; or partitions, where the number of components is sampled."""
    _there(model, data)
    seen = resolved(model, data)
    if seen.process is not None:
        return dirichlet_process.by_partitions(seen, model.data.rows)
    if seen.number is not None:
        return gibbs_sampling.number_sampled(seen, model.data.rows)
    return gibbs_sampling.by_gibbs(seen)


def variational(model: Model, data: Data) -> VariationalPlan | str:
    """A posterior that is a product: of the rows' components, and of conjugate factors of the parameters."""
    if _spec(model).components == "sampled":
        return Reason(
            "it needs a number of components, or a list to choose from; method gibbs samples the number",
            code="no-graph",
        )
    _there(model, data)
    if _process(model):
        return variational_bayes.sticks(resolved(model, data))
    return variational_bayes.variational(resolved(model, data))


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """Gibbs steps where the number of components is sampled."""
    if _spec(model).components == "sampled":
        return "gibbs", "Gibbs steps over partitions: the number of components is sampled"
    if _process(model) and data.has(_spec(model).modelled[0]) and not isinstance(gibbs(model, data), str):
        what = "Pitman-Yor" if _spec(model).discount else "Dirichlet"
        seen = resolved(model, data)
        if not seen.conjugate or "student_t" in seen.parts:
            return "gibbs", (
                f"Gibbs steps with auxiliary components: a {what} process without conjugate priors, nothing truncated"
            )
        return "gibbs", (
            f"Gibbs and split-merge steps over partitions: a {what} process with its shares and the parameters of"
            " clusters integrated out, nothing truncated"
        )
    return None


def clusters(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Which component each row comes from, and which rows belong together: by name, dimensions and values."""
    if "_labels" in draws:
        return dirichlet_process.summaries(draws["_labels"], model.data.rows)
    seen = _with_parameters(model, data)
    some = gibbs_sampling.some_draws({name: draws[name] for name in seen.dims})
    return gibbs_sampling.cluster_summaries(seen, _responsibilities(seen, some), model.data.rows, rng)


def shapes(model: Model, data: Data, draws: Mapping[str, np.ndarray], columns: Sequence[str] | None) -> Shapes:
    """What components look like over one column, or over two normal ones."""
    return component_shapes.shapes(_with_parameters(model, data), draws, columns)


def partition_shapes(model: Model, data: Data, partition: np.ndarray, columns: Sequence[str] | None) -> Shapes:
    """What the clusters of one partition look like, their parameters at the mode given it."""
    own, draws = dirichlet_process.as_components(resolved(model, data), partition)
    return component_shapes.shapes(own, draws, columns)


def cluster_number_prior(model: Model, data: Data) -> np.ndarray | None:
    """Probabilities of 0, 1, 2, ... clusters before the data, of a process with few enough rows."""
    seen = resolved(model, data)
    return None if seen.process is None else dirichlet_process.number_prior(seen.process, len(seen.rows))


def network(model: Model, data: Data) -> nx.DiGraph:
    """Parameters, the label, and the columns."""
    spec = _spec(model)
    rows = model.data.rows
    seen = resolved(model, data) if any(data.has(c) for c in spec.modelled) else None
    sizes = {dim: len(labels) for dim, labels in seen.labels.items()} if seen is not None else {}
    if rows in data.labels:
        sizes[rows] = len(data.labels[rows])
    along = (rows,) if rows in sizes else ()
    out = nx.DiGraph(dims=sizes)
    shown = str(spec.components) if isinstance(spec.components, int | str) else "chosen"
    top = "gate" if spec.gating else "weights"
    out.add_node(top, kind="random", text="logit" if spec.gating else "Dirichlet", dims=("component",) if seen else ())
    out.add_node("label", kind="discrete", inner=True, text=f"of {shown}", dims=along)
    out.add_edge(top, "label")
    for name in spec.gating:
        out.add_node(name, kind="data", dims=along)
        out.add_edge(name, "label")
    parts = seen.parts.values() if seen is not None else ()
    for part in parts:
        for name in part.results:
            kept = tuple(d for d in part.dims(name) if d in sizes)
            out.add_node(name, kind="random", text="", dims=kept)
    for part in parts:
        for column in part.columns:
            out.add_node(column, kind="observed" if data.has(column) else "random", text=spec.word(column), dims=along)
            out.add_edge("label", column)
            for name in part.results:
                if not name.startswith("p_") or name == f"p_{column}":
                    out.add_edge(name, column)
    return out


# --------------------------------------------------------------------------------- names of components


def ordered(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws in which components are numbered by the model's ``order``, where it has one."""
    spec = _spec(model)
    if spec.order is None:
        return dict(draws)

    seen = resolved(model, data)
    return _renamed(seen, draws, by_location(seen.location(draws, spec.order)))


def _renamed(seen: Resolved, draws: Mapping[str, np.ndarray], moves: np.ndarray) -> dict[str, np.ndarray]:

    out = dict(draws)
    named = {name for name, dims in seen.dims.items() if dims[:1] == ("component",) and name in draws}
    for name in named | _inner(seen, draws):
        out[name] = permute(np.asarray(draws[name]), moves)
    if "gate" in out:
        out["gate"] = out["gate"] - out["gate"][:, :1]
        if "_gate" in draws:
            out["_gate"] = out["gate"][:, 1:]
    if "label" in draws:
        out["label"] = permute_labels(np.asarray(draws["label"]), moves)
    return out


def _inner(seen: Resolved, draws: Mapping[str, np.ndarray]) -> set[str]:
    """Inner parameters of the graph, one set for each component."""
    return {n for n, v in draws.items() if n.startswith("_") and np.ndim(v) > 1 and v.shape[1] == seen.n_components}


def _with_parameters(model: Model, data: Data) -> Resolved:
    seen = resolved(model, data)
    if seen.number is not None:
        raise OptionError(
            "a sampled number of components leaves no draws of parameters; fit again with the number you settle on",
            code="not-kept",
        )
    return seen


def exchangeable(model: Model, data: Data) -> bool:
    """Whether components can trade places without changing the model."""
    spec, seen = _spec(model), resolved(model, data)
    even = np.ptp(seen.problem.latent.dirichlet) == 0 and seen.process is None
    return seen.n_components > 1 and even and not spec.labels and seen.number is None


def unnamed(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[set[str], dict[str, np.ndarray], tuple[Note, ...]] | None:
    """Of a process whose stick was broken off everything that is one for each component; clusters are counted."""
    if not _process(model) or "weights" not in draws:
        return None

    seen = resolved(model, data)
    names = {name for name, dims in seen.dims.items() if dims[:1] == ("component",)}
    names |= {name for name in draws if name.startswith("_")}
    told = dirichlet_process.counted(_responsibilities(seen, draws), rng)
    return names, told, dirichlet_process.truncated(seen, draws)


def continued(model: Model, data: Data) -> Model:
    """The model with the priors that a fit had written out, so that more rows do not change them."""
    spec = _spec(model)
    priors = dirichlet_process.written_priors(spec, resolved(model, data))
    return model.model_copy(update={"model": spec.model_copy(update={"priors": priors})})


def joined(
    model: Model, data: Data, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
) -> dict[int, Mapping[str, np.ndarray]]:
    """States of chains in which the rows that follow the labelled ones have joined the clusters of these."""
    return dirichlet_process.joined(resolved(model, data), labels, alphas, seed, options)


def numbering(model: Model) -> str | None:
    """The rule by which the file says that components are numbered, in every draw."""
    order = _spec(model).order
    return None if order is None else f"components are numbered by where they lie in '{order}'"


# So many rows tell which component is which.
_TELLING = 100


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws in which components have names that agree: by the ``order``, or as their responsibilities agree best."""
    if not exchangeable(model, data):
        return None

    seen = resolved(model, data)
    kept = {name for name, dims in seen.dims.items() if dims[:1] == ("component",)} | _inner(seen, draws)
    if seen.problem.latent.inputs is not None and "_gate" in draws:
        kept.add("_gate")
    if _spec(model).order is not None:
        return {n: v for n, v in ordered(model, data, draws).items() if n in kept}, "the component"
    rows = evenly(len(seen.rows), _TELLING)
    moves = agreeing(_laws(seen, draws, rows), np.arange(len(rows)))
    if seen.by is not None:
        # Names agree now; which is which is settled by a column, the same in every run.
        centres = permute(seen.location(draws, seen.by), moves).mean(axis=0)
        moves = moves[:, np.argsort(centres, kind="stable")]
    return {n: v for n, v in _renamed(seen, draws, moves).items() if n in kept}, "the component"


# --------------------------------------------------------------------------------- from draws


def _laws(seen: Resolved, draws: Mapping[str, np.ndarray], rows: np.ndarray | None = None) -> Iterator[Law]:
    """The components of all rows, or of some, at each draw."""
    problem = seen.problem if rows is None else seen.problem.at(rows)
    names = list(seen.dims)
    for i in range(len(draws[names[0]])):
        yield problem.law(seen.theta({name: draws[name][i] for name in names}))


def _responsibilities(seen: Resolved, draws: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log evidence (N,) and responsibilities (N, K) at each draw."""
    return ((law.log_likelihoods(True), law.filter("filter")) for law in _laws(seen, draws))


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log density of each row at each draw, its component summed out; of partitions, given all other rows."""
    _there(model, data)
    if "_labels" in draws:
        return {"row": ((model.data.rows,), dirichlet_process.log_densities(resolved(model, data), draws))}
    seen = _with_parameters(model, data)
    return {"row": ((model.data.rows,), np.stack([e for e, _ in _responsibilities(seen, draws)]))}


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Replications of the rows at each draw."""
    found = resolved(model, data)
    check_drawn(_spec(model), data, found.columns, found.rows)
    if "_labels" in draws:
        return dirichlet_process.replications(resolved(model, data), draws, model.data.rows, rng)
    seen = _with_parameters(model, data)
    names, n_rows = list(seen.dims), len(seen.rows)
    columns = [c for part in seen.parts.values() for c in part.columns]
    out = np.empty((len(draws[names[0]]), n_rows, len(columns)))
    latent = replace(seen.problem.latent, allowed=None)  # before anything of the rows is seen
    for i in range(len(out)):
        theta = seen.theta({name: draws[name][i] for name in names})
        labels = latent.simulate(theta, rng.random(n_rows))
        at = 0
        for name, part in seen.parts.items():
            own = seen.own(name, theta)
            made = part.sample(rng, own, labels, seen.rows[:, list(part.given_at)])
            out[i, :, at : at + made.shape[1]] = made
            at += made.shape[1]
    whole = {c for part in seen.parts.values() if part.discrete for c in part.columns}
    return {
        c: ((model.data.rows,), out[..., j].astype(np.int64) if c in whole else out[..., j])
        for j, c in enumerate(columns)
    }


def completed(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The cells that rows leave open at each draw, given the rest of their row; replications of complete rows."""
    if _spec(model).regression is not None:
        return predictive(model, data, draws, rng)
    seen = _with_parameters(model, data)
    check_drawn(_spec(model), data, seen.columns, seen.rows)
    lacking = {
        column: np.isnan(seen.rows[:, at])
        for part in seen.parts.values()
        for column, at in zip(part.columns, part.columns_at, strict=True)
    }
    return row_by_row(
        lacking, lambda: _filled(model, seen, draws, rng), lambda: predictive(model, data, draws, rng)
    )  # fmt: skip


def _filled(
    model: Model, seen: Resolved, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """All rows with their open cells drawn."""
    if "_labels" in draws:
        return dirichlet_process.completed(seen, draws, model.data.rows, rng)
    whole = {c for part in seen.parts.values() if part.discrete for c in part.columns}
    found = completion.completed(seen, draws, rng)
    return {c: ((model.data.rows,), v.astype(np.int64) if c in whole else v) for c, v in found.items()}


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """P(component | row) for new rows, averaged over the posterior draws."""
    if _spec(model).regression is None:
        # A column that is not there is more often misspelt than unknown; cells that are not known are left empty.
        _there(model, new)
    if "_labels" in draws:
        labels = new.labels.get(model.data.rows, np.arange(len(resolved(model, new).rows)))
        return {model.data.rows: labels} | dirichlet_process.membership(
            resolved(model, seen), resolved(model, new), draws
        )
    on = _with_parameters(model, new)
    names = list(on.dims)
    n = len(draws[names[0]])
    some = evenly(n, _DRAWS)
    total = np.zeros((len(on.rows), on.n_components))
    for _, r in _responsibilities(on, {name: draws[name][some] for name in names}):
        total += r
    if (lost := total.sum(axis=1) == 0).any():
        raise DataError(
            f"row {int(np.argmax(lost)) + 1} of the new data is impossible in every component", code="probability-zero"
        )
    total /= total.sum(axis=1, keepdims=True)
    labels = new.labels.get(model.data.rows, np.arange(len(total)))
    return {model.data.rows: labels} | {f"P({name})": total[:, k] for k, name in enumerate(on.names)}


# So many draws are averaged: their Monte Carlo error is a twentieth of the posterior's sd.
_DRAWS = 400
