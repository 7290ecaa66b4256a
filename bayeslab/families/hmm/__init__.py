"""Family ``hmm``: sequences driven by a hidden state that moves as a Markov chain.

The states are summed out exactly by forward-backward (:mod:`bayeslab.exact.forward_backward`), whatever the
engine: its expected counts are what EM needs and, by Fisher's identity, the gradient that NUTS needs.

References
----------
.. [1] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
.. [3] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, NothingToFit, OptionError, hint
from bayeslab.exact.answer import EMPlan, GibbsPlan, Plan
from bayeslab.exact.expectation_maximisation import restarted
from bayeslab.families.hmm import (
    choice,
    decoding,
    exact_inference,
    expectation_maximisation,
    gibbs_sampling,
    infinite,
    linear,
    product_labels,
    pymc_graph,
    replications,
)
from bayeslab.families.hmm import classes as hmm_classes
from bayeslab.families.hmm.chains import chain_of, labels_of, product_of
from bayeslab.families.hmm.choice import hidden_of
from bayeslab.families.hmm.decoding import posterior_mean
from bayeslab.families.hmm.given_parameters import given_of
from bayeslab.families.hmm.hidden import Hidden, draws_of, layout_of
from bayeslab.families.hmm.product_parts import additive, check_parameters
from bayeslab.families.hmm.regression import known_regression
from bayeslab.families.hmm.replications import position, resolved
from bayeslab.families.hmm.spec import HMM, emission_parameters
from bayeslab.families.hmm.truncation import REFUSED, limit_of, shown, truncated
from bayeslab.families.hmm.urns import balls_of
from bayeslab.language.spec import Model
from bayeslab.latents.chains.product import ProductChain
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.relabelling import agreeing, evenly

if TYPE_CHECKING:
    import pymc

__all__ = [
    "HMM",
    "Spec",
    "bound",
    "check",
    "em",
    "exact",
    "factors",
    "graph",
    "network",
    "outcomes",
    "position",
    "posterior_mean",
    "resolved",
    "summed_out",
]


Spec = HMM


# Labels are made to agree on so many times at the beginning, and so many of these.
_PREFIX, _TELLING = 1_000, 60


def _spec(model: Model) -> HMM:
    assert isinstance(model.model, HMM)
    return model.model


def _continuous(model: Model) -> bool:
    return _spec(model).states == "continuous"


def _infinite(model: Model) -> bool:
    return _spec(model).states == "infinite"


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The words can be read; the data have the columns."""
    if _infinite(model):
        limit_of(_spec(model))
    spec = truncated(_spec(model))
    if spec.ranged:
        spec = spec.model_copy(update={"states": spec.ranged[1]})
    if not _continuous(model) and spec.classes is None:
        chain_of(spec)
    if spec.chains is not None:
        check_parameters(spec, product_of(spec), layout_of(spec))
    elif spec.emission == "urn":
        balls_of(spec, chain_of(spec).n_states)
    elif (spec.inputs or spec.window) and spec.classes is None:
        known_regression(spec, chain_of(spec).n_states, emission_parameters(spec))
    elif not _continuous(model) and spec.emission != "observed" and spec.classes is None:
        given_of(emission_parameters(spec), layout_of(spec), chain_of(spec).n_states)
    for key in ("inputs", "transitions_on"):
        for name in getattr(spec, key):
            if columns and name not in columns:
                raise ModelError(
                    f"the data have no column '{name}'{hint(name, columns)}", path=("model", key), code="unknown-column"
                )
    if not columns:
        return
    for key in ("sequence", "time", "parent"):
        name = getattr(spec, key)
        if name is not None and name not in columns and name != model.data.rows:
            raise ModelError(
                f"the data have no column '{name}'{hint(name, columns)}", path=("model", key), code="unknown-column"
            )
    if not any(column in columns for column in spec.columns):
        raise ModelError(
            f"the data have no column '{spec.columns[0]}'{hint(spec.columns[0], columns)}",
            path=("model", "columns", 0),
            code="unknown-column",
        )


def bound(model: Model, data: Data) -> Data:
    """The data, once the model has been put on them: what a fit would refuse is refused here."""
    spec = _spec(model)
    if data.origin is not None or not any(data.has(column) for column in spec.columns):
        return data
    if "bound" not in data.memo:
        data.memo["bound"] = True
        if _continuous(model):
            linear.linear_of(model, data)
            return data
        if _infinite(model):
            limit_of(spec)
        for hidden in _candidates(model, data):
            if hidden.learned:
                # An infinite number of states is cut off far beyond those that are needed.
                _refuse_silent(hidden) if _infinite(model) else _refuse_too_little(hidden, data)
            hidden.check_possible(hidden.guess(None) if hidden.learned else {})
    return data


def _candidates(model: Model, data: Data) -> tuple[Hidden, ...]:
    """The model on its data; of a number of states that is to be chosen the smallest and the largest."""
    spec = _spec(model)
    if not spec.ranged:
        return (hidden_of(model, data),)

    return tuple(choice.candidate(model, data, n) for n in spec.ranged)


def factors(model: Model) -> set[str]:
    """Declared dimensions, and columns of categories."""
    spec = _spec(model)
    if _continuous(model) or spec.emission == "observed":
        return set(model.dims)
    classes = {spec.classes} if spec.classes is not None else set()
    return set(model.dims) | classes | {own[0] for _, word, own in layout_of(spec) if word in ("categorical", "urn")}


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The observed columns."""
    return tuple(_spec(model).columns)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing that would have to be recovered: `decode` finds the states."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing is computed from the states in a draw."""
    return ()


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each unknown."""
    if _continuous(model):
        return linear.priors(linear.linear_of(model, data))
    if _infinite(model):
        return infinite.priors(model, data)
    hidden = hidden_of(model, data)
    out = {name: hidden.chain.prior_text(name) for name in hidden.chain.learned}
    return out | {name: part.default_prior(name) for part in hidden.parts for name in part.learned}


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The model as a PyMC model: with the states summed out; to simulate, with a path drawn."""
    if _continuous(model):
        return linear.graph(model, linear.linear_of(model, data), data, purpose)
    if _infinite(model):
        raise ModelError(REFUSED, path=("model", "states"), code="no-graph")
    hidden = hidden_of(model, data)
    if purpose == "fit":
        if not hidden.learned:
            raise NothingToFit(
                "every parameter is given: there is nothing to fit; `bayeslab decode` finds the states",
                code="nothing-to-fit",
            )
        _refuse_too_little(hidden, data)
        return pymc_graph.with_evidence(hidden)
    return pymc_graph.written_out(model, hidden, data)


def em(model: Model, data: Data) -> EMPlan | str:
    """Baum-Welch; for continuous states Shumway and Stoffer's algorithm."""
    if _continuous(model):
        return linear.plan(linear.linear_of(model, data))
    if _infinite(model):
        return REFUSED
    hidden = hidden_of(model, data)
    _refuse_too_little(hidden, data)
    return expectation_maximisation.plan(hidden)


def gibbs(model: Model, data: Data) -> GibbsPlan | str:
    """Paths and parameters in turns."""
    if _continuous(model):
        return "continuous states are integrated out exactly; use nuts or em"
    if _infinite(model):
        return infinite.infinite(model, data)
    hidden = hidden_of(model, data)
    _refuse_too_little(hidden, data)
    return gibbs_sampling.by_gibbs(hidden)


def _refuse_too_little(hidden: Hidden, data: Data) -> None:
    """To learn what several states emit there are as many rows, and they differ; data to predict may be anything."""
    if data.origin is not None:
        return
    _refuse_silent(hidden)
    if isinstance(hidden.chain, ProductChain) or not any(part.learned for part in hidden.parts):
        return
    seen = hidden.rows[(~np.isnan(hidden.rows)).any(axis=1)]
    if not len(hidden.rows) or hidden.n_states == 1:
        return
    if len(seen) < hidden.n_states:
        raise DataError(
            f"{len(seen)} rows cannot support {hidden.n_states} states; use at most {max(len(seen), 1)}", code="too-few"
        )
    if not np.any(np.nanmax(seen, axis=0, initial=-np.inf) > np.nanmin(seen, axis=0, initial=np.inf)):
        column = hidden.parts[0].columns[0]
        raise DataError(f"column '{column}' is constant: it cannot tell states apart; take one state", code="constant")


def _refuse_silent(hidden: Hidden) -> None:
    """A sequence without a single cell is a mistake more often than not."""
    own = hidden.sequences
    seen = (~np.isnan(hidden.rows)).any(axis=1)
    silent = np.flatnonzero(np.bincount(own.sequence, seen, minlength=own.n_sequences) == 0)
    if len(silent):
        which = f"sequence '{own.names[silent[0]]}'" if own.n_sequences > 1 else "the sequence"
        raise DataError(f"{which} has no observed cell and says nothing; leave it out", code="no-values")


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """Gibbs steps where the number of states is sampled; EM where only the likelihood settles what states mean."""
    if _infinite(model):
        return "gibbs", "Gibbs steps: the number of states is sampled"
    if _spec(model).dimension is not None:
        return "em", "EM: continuous states of a given dimension can be turned without changing the model"
    return None


def maximum_likelihood(model: Model, data: Data) -> tuple[float, int]:
    """The highest log likelihood of several searches, NaN where it has no bound, and the number of free parameters."""

    if _infinite(model):
        raise OptionError(
            "an infinite number of states has no likelihood to maximise; give numbers of states", code="not-applicable"
        )
    own = resolved(model, data)
    plan = em(model, data)
    if isinstance(plan, str):
        return float("nan"), own.n_free
    search = restarted(plan.problem(False), plan.start, restarts=8, rng=np.random.default_rng(0), tolerance=1e-6)
    found = search.best.parameters
    shrunk = isinstance(own, Hidden) and expectation_maximisation.collapsed(own, found)
    return (float("nan") if shrunk else search.best.log_likelihood), own.n_free


def exact(model: Model, data: Data) -> Plan | str:
    """Counts, where the states are observed."""
    if _continuous(model):
        return "the standard deviations of a linear dynamical system have no closed form"
    if _infinite(model):
        return REFUSED
    return exact_inference.plan(hidden_of(model, data))


def remarks(model: Model, data: Data) -> list[tuple[str, str, float | None, str, str]]:
    """Columns without data."""
    if _continuous(model):
        return []
    out: list[tuple[str, str, float | None, str, str]] = []
    silent = [c for c in _spec(model).columns if not data.has(c)]
    if silent:
        out.append(("missing", silent[0], None, f"the data have no column '{silent[0]}'", "it says nothing here"))
    return out


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws whose states have names that agree, numbered by the family's rule [3]_."""

    if _continuous(model) or _infinite(model):
        return None
    hidden = hidden_of(model, data)
    if isinstance(hidden.chain, ProductChain):
        return product_labels.relabelled(hidden, draws)
    if not all(name in draws for name in hidden.learned):
        return None
    own = {name: draws[name] for name in hidden.learned}
    if not hidden.blocks:
        settled = hidden.settled(own, 1)
        return (settled | hidden.internal(settled, draws), "the mixture inside each state") if hidden.layered else None
    if _spec(model).classes is not None:
        moves = hmm_classes.relabelling(hidden, lambda some: (values for _, values in draws_of(some, own)))
        return _ruled(hidden, own, moves, draws), "each class"
    first = hidden.prefix(_PREFIX)
    laws = (first.law(values) for _, values in draws_of(first, own))
    return _ruled(hidden, own, agreeing(laws, evenly(first.sequences.n_times, _TELLING)), draws), "the chain"


def _ruled(
    hidden: Hidden, own: Mapping[str, np.ndarray], moves: np.ndarray, draws: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Draws whose names agree after these moves, numbered by the rule."""
    moved = hidden.permuted(own, moves, lead=1)
    middle = {name: value.mean(axis=0) for name, value in moved.items()}
    rule = np.broadcast_to(hidden.rule(middle), moves.shape)
    out = hidden.settled(hidden.permuted(moved, rule, lead=1), 1)
    return out | hidden.internal(out, draws)


def _number(spec: HMM) -> str:
    return f"{spec.ranged[0]} to {spec.ranged[1]} states" if spec.ranged else f"{len(labels_of(spec))} states"


def chosen(model: Model, data: Data) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
    """How many states were chosen: in a line, and as a table with its labels."""
    found = choice.chosen(model, data)
    if found is None:
        return None
    along = ("n_states",)
    table = {"score": (along, found.scores), "standard_error": (along, found.standard_errors)}
    return found.described("state"), table, {"n_states": np.array(found.numbers)}


def network(model: Model, data: Data) -> nx.DiGraph:
    """Two steps of the chain and what they emit."""
    spec = _spec(model)
    rows = model.data.rows
    n = len(data.labels.get(rows, ()))
    out = nx.DiGraph(dims={rows: n} if n else {})
    if _continuous(model):
        out.add_node("state", kind="random", text="linear, normal", dims=(rows,))
        for column in spec.columns:
            out.add_node(column, kind="observed" if data.has(column) else "random", text="Normal", dims=(rows,))
            out.add_edge("state", column)
        return out
    if spec.chains is not None:
        return _several_drawn(spec, data, rows, out)
    shown = f"one a {spec.classes}" if spec.classes is not None else _number(spec)
    out.add_node("initial", kind="random", text="Dirichlet", dims=("state",))
    out.add_node("transition", kind="random", text="Dirichlet", dims=("state", "next_state"))
    # Called as in simulations, where it is computed from the rest.
    out.add_node("path", kind="deterministic", text=f"Markov chain, {shown}", dims=(rows,))
    out.add_edges_from([("initial", "path"), ("transition", "path")])
    if spec.durations is not None:
        out.add_node("duration", kind="random", text="of a state", dims=("state",))
        out.add_edge("duration", "path")
    for name, word, own in layout_of(spec):
        for column in own:
            out.add_node(column, kind="observed" if data.has(column) else "random", text=word, dims=(rows,))
            out.add_edge("path", column)
        label = f"{name}_parameters" if name else "parameters"
        out.add_node(label, kind="random", text=word, dims=("state",))
        out.add_edges_from((label, column) for column in own)
    return out


def _several_drawn(spec: HMM, data: Data, rows: str, out: nx.DiGraph) -> nx.DiGraph:
    """Chains, and what they emit."""
    chain = product_of(spec)
    # Called as in simulations: the number of the combination of states.
    out.add_node("path", kind="deterministic", text=f"{spec.coupling} chains, {chain.n_states} states", dims=(rows,))
    for name in chain.every:
        out.add_node(name, kind="random", text="Dirichlet", dims=chain.dims(name))
        out.add_edge(name, "path")
    words = {column: word for _, word, own in layout_of(spec) for column in own}
    made = "additive effects" if additive(spec) else "of all chains" if spec.coupling == "factorial" else "of a chain"
    out.add_node("parameters", kind="random", text=made, dims=())
    for column, word in words.items():
        out.add_node(column, kind="observed" if data.has(column) else "random", text=word, dims=(rows,))
        out.add_edges_from([("path", column), ("parameters", column)])
    return out


# --------------------------------------------------------------------------------- predictions


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log likelihood of each sequence; of a single one, of each row given the rows before it."""
    if _continuous(model):
        return linear.log_likelihoods(model, linear.linear_of(model, data), draws)
    hidden = hidden_of(model, data)
    several = hidden.sequences.n_sequences > 1
    if _spec(model).training == "discriminative":
        each = [hmm_classes.conditional(hidden, values) for _, values in draws_of(hidden, draws)]
        return {"sequence": (("sequence_number",), np.stack(each))}
    out = []
    for _, values in draws_of(hidden, draws):
        found = hidden.law(values).log_likelihoods(several)
        out.append(found if several else found[hidden.sequences.at])
    dims = ("sequence_number",) if several else (model.data.rows,)
    return {"sequence" if several else "row": (dims, np.stack(out))}


def rows_of(model: Model, data: Data, node: str, position: int) -> np.ndarray | None:
    """The rows of a sequence; those of a single one cannot be taken out."""
    if node != "sequence":
        return None
    hidden = resolved(model, data)
    of, known = hidden.sequences.sequence[hidden.sequences.at], np.arange(hidden.sequences.n_sequences)
    if _spec(model).training == "discriminative":
        known = np.flatnonzero(hidden.chain.known >= 0)
    return np.flatnonzero(of == known[position])


def events(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the likelihood of each value is: of rows that a window conditions on nothing."""
    if _continuous(model):
        return {}
    return replications.events(_spec(model), data, hidden_of(model, data))


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Replications of the rows, each in a state drawn given all that was observed."""
    return replications.drawn(model, data, draws, rng, np.nan)


def completed(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The cells that rows leave open at each draw, given all that was observed; replications of complete rows."""
    return replications.completed(model, data, draws, rng)


def decoded(
    model: Model,
    data: Data,
    draws: Mapping[str, np.ndarray],
    method: str,
    best: int,
    sequence: str | None,
    most: int = AVERAGED,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The states time by time: see :func:`bayeslab.results.decode.decode`."""
    spec = _spec(model)
    own = resolved(model, data)
    times = {spec.time: own.sequences.times} if spec.time else {model.data.rows: data.labels[model.data.rows]}
    times = times if spec.parent is None else {model.data.rows: own.sequences.times}
    if _continuous(model):
        return linear.decoded(own, draws, method, times, sequence, spec.sequence, most)
    own.check_possible(posterior_mean(own, draws))
    out, about = decoding.decoded(
        own, draws, method, best, sequence=sequence, times=times, called=spec.sequence, most=most
    )
    if _infinite(model):
        out = shown(out)
    return (out if spec.classes is None else hmm_classes.with_class(own, out, spec.classes)), about


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """P(state | all rows) of every row, or P(class) of every sequence, averaged over 200 posterior draws."""
    if _continuous(model):
        raise OptionError("continuous states have no probabilities; use kind='mean'", code="not-applicable")
    hidden, spec = hidden_of(model, new), _spec(model)
    if spec.classes is not None and spec.sequence is not None:
        found = hmm_classes.masses(hidden, lambda free: (values for _, values in draws_of(free, draws, AVERAGED)))
        own: Any = hidden.chain
        out = {f"P({spec.classes}={c})": found[:, k] for k, c in enumerate(own.classes)}
        return {spec.sequence: hidden.sequences.names} | out
    mean = decoding.averaged(hidden, draws, "smooth")[hidden.sequences.at]
    labels = new.labels.get(model.data.rows, np.arange(len(mean)))
    return {model.data.rows: labels} | decoding.chances_of(hidden, mean)
