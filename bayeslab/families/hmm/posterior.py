"""Posterior of a hidden Markov model given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.data.sequences import spread
from bayeslab.errors import DataError, ModelError, NothingToFit, OptionError, unknown_column
from bayeslab.families.hmm import pymc_graph
from bayeslab.families.hmm.chains import labels_of, product_of
from bayeslab.families.hmm.density import machine_model
from bayeslab.families.hmm.model import candidate, hidden_at, linear_of, settled
from bayeslab.families.hmm.product_parts import additive
from bayeslab.families.hmm.spec import HMM, layout_of
from bayeslab.families.hmm.truncation import REFUSED, limit_of, limited, shown
from bayeslab.language.spec import Model
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.durations import DurationChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.expectation_maximisation import restarted
from bayeslab.posterior.answer import EMPlan, GibbsPlan, Plan
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.chains import (
    classes,
    counted,
    decoding,
    expectation_maximisation,
    gibbs,
    infinite,
    linear,
    product_labels,
    replications,
)
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.chains.linear import Linear
from bayeslab.posterior.chains.replications import Windowed
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose
from bayeslab.posterior.draws import each_draw, evenly
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.relabelling import agreeing
from bayeslab.progress import duration

if TYPE_CHECKING:
    import pymc

__all__ = ["HMMPosterior"]

# Relabelling uses this many times from the start, and this many of them.
_PREFIX, _TELLING = 1_000, 60

# A pass of this many multiplications takes about half a minute.
_MOST_STEPS = 20_000_000_000
# Seconds of an evaluation of the density of a semi-Markov chain: for each state, row and duration up to the longest
# sequence, and for each state and duration of a law. An engine takes some tens of thousands of evaluations.
_OF_A_DURATION, _OF_A_LAW, _EVALUATIONS = 4e-8, 5e-6, 50_000
# Cells of tables of durations that are learned: a thousand draws of four chains take 0.6 GB.
_MOST_LENGTHS = 20_000


class HMMPosterior(Posterior):
    """Posterior of a hidden Markov model given its data."""

    view = "states"
    on_arrays = True

    def may_be_relabelled(self) -> bool:
        """Whether states may be exchangeable: always True."""
        return True

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """``sequence``: the cells of a sequence inform its states; a class is predicted from all of them."""
        return "no" if self.spec.classes is not None else "sequence"

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` for the class of a sequence, or for states whose columns all hold text."""
        words = self.spec.classes is not None or self.spec.emission == "categorical"
        return "probabilities" if words else "mean"

    @property
    def spec(self) -> HMM:
        assert isinstance(self.model.model, HMM)
        return self.model.model

    @cached_property
    def _settled(self) -> tuple[Model, NumberChoice | None]:
        """The model with one number of states, and the choice of that number if it was made here."""
        return settled(self.model, self.data)

    @cached_property
    def hidden(self) -> Hidden:
        """The model with discrete states, resolved on its data."""
        return hidden_at(self._settled[0], self.data)

    @cached_property
    def linear(self) -> Linear:
        """The model with continuous states, resolved on its data."""
        return linear_of(self.model, self.data, None if self.origin is None else self.origin.linear)

    @property
    def resolved(self) -> Any:
        """The model resolved on its data: sequences, rows, and for discrete states chain and parts."""
        return self.linear if self._continuous else self.hidden

    @property
    def _continuous(self) -> bool:
        return self.spec.states == "continuous"

    @property
    def _infinite(self) -> bool:
        return self.spec.states == "infinite"

    def bound_data(self) -> Data:
        """The data, after resolving the model on them, so that errors of a fit are raised here."""
        spec = self.spec
        if self.data.origin is not None or not any(self.data.has(column) for column in spec.columns):
            return self.data
        _ = self._possible
        return self.data

    @cached_property
    def _possible(self) -> bool:
        """True; raises if the data cannot support the model or have probability zero."""
        if self._continuous:
            _ = self.linear
            return True
        if self._infinite:
            limit_of(self.spec)
        for hidden in self._candidates():
            self._refuse_absent(hidden)
            if hidden.learned:
                # The truncation of an infinite number of states is far above the number needed.
                _refuse_silent(hidden) if self._infinite else _refuse_too_little(hidden, self.data)
                _refuse_too_costly(hidden)
            hidden.check_possible(hidden.guess(None) if hidden.learned else {})
        return True

    def _refuse_absent(self, hidden: Hidden) -> None:
        """Refuse columns that the data lack and whose parameters are learned: only their priors would be."""
        learned = {column for part in hidden.parts if part.learned for column in part.columns}
        for i, name in enumerate(self.spec.columns):
            if name in learned and not self.data.has(name):
                raise unknown_column(name, self.data.names(), ("model", "columns", i))

    def _candidates(self) -> tuple[Hidden, ...]:
        """The resolved model; if the number of states is to be chosen, those with the smallest and the largest
        number.
        """
        spec = self.spec
        if not spec.ranged:
            return (self.hidden,)

        return tuple(candidate(self.model, self.data, n) for n in spec.ranged)

    def in_order(self) -> str | None:
        return "the sequence of states"

    def beginnings(self, *, named: bool, known: bool) -> list[tuple[str, str | None]]:
        """States of new rows; those of sequences with other names begin rightly."""
        return [("the sequence of states", self.spec.sequence)]

    def priors(self) -> dict[str, str]:
        """The prior of each unknown."""
        if self._continuous:
            return linear.priors(self.linear)
        if self._infinite:
            return infinite.priors(limit_of(self.spec), limited(self.hidden))
        hidden = self.hidden
        out = {name: hidden.chain.prior_text(name) for name in hidden.chain.learned}
        return out | {name: part.default_prior(name) for part in hidden.parts for name in part.learned}

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The model as a PyMC model: with the states summed out; for simulation, with a path drawn."""
        if self._continuous:
            rows = self.model.data.rows
            return linear.graph(self.linear, rows, None if purpose == "fit" else self.data.labels[rows])
        if purpose == "fit":
            return pymc_graph.with_evidence(self._fitted())
        if self._infinite:
            raise ModelError(REFUSED, path=("model", "states"), code="no-graph")
        return pymc_graph.written_out(self.model, self.hidden, self.data)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        if weights:
            raise NotLowered(next(iter(weights)), "weights of rows that depend on hidden states")
        if self._continuous:
            return linear.machine_model(self.linear)
        return machine_model(self._fitted())

    def _fitted(self) -> Hidden:
        """The model with discrete states for a fit, after the checks of its data."""
        if self._infinite:
            raise ModelError(REFUSED, path=("model", "states"), code="no-graph")
        if not self.hidden.learned:
            raise NothingToFit(
                "every parameter is given: there is nothing to fit; `bayeslab decode` finds the states",
                code="nothing-to-fit",
            )
        _refuse_too_little(self.hidden, self.data)
        return self.hidden

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """Baum-Welch; for continuous states Shumway and Stoffer's algorithm."""
        if self._continuous:
            return linear.plan(self.linear)
        if self._infinite:
            return REFUSED
        hidden = self.hidden
        _refuse_too_little(hidden, self.data)
        return expectation_maximisation.plan(hidden)

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """Gibbs sampling of paths and parameters."""
        if self._continuous:
            return "continuous states are integrated out exactly; use nuts or em"
        if self._infinite:
            return infinite.infinite(limit_of(self.spec), limited(self.hidden), self.model.data.rows)
        hidden = self.hidden
        _refuse_too_little(hidden, self.data)
        return gibbs.by_gibbs(hidden)

    def preferred_engine(self) -> tuple[str, str] | None:
        """Gibbs for an infinite number of states; EM if only the likelihood identifies the states."""
        if self._infinite:
            return "gibbs", "Gibbs steps: the number of states is sampled"
        if self.spec.dimension is not None:
            return "em", "EM: continuous states of a given dimension can be turned without changing the model"
        return None

    def maximum_likelihood(self) -> tuple[float, int]:
        """The highest log likelihood of several searches (NaN if unbounded), and the number of parameters."""
        if self._infinite:
            raise OptionError(
                "an infinite number of states has no likelihood to maximise; give numbers of states",
                code="not-applicable",
            )
        resolved = self.resolved
        plan = self.em_plan
        if isinstance(plan, str):
            return float("nan"), resolved.n_free
        search = restarted(plan.problem(False), plan.start, restarts=8, rng=np.random.default_rng(0), tolerance=1e-6)
        parameters = search.best.parameters
        shrunk = isinstance(resolved, Hidden) and expectation_maximisation.collapsed(resolved, parameters)
        return (float("nan") if shrunk else search.best.log_likelihood), resolved.n_free

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The closed form from counts, if the states are observed."""
        if self._continuous:
            return "the standard deviations of a linear dynamical system have no closed form"
        if self._infinite:
            return REFUSED
        return counted.plan(self.hidden)

    def forecast(self) -> dict[str, str]:
        """The cost of one evaluation with durations, of which there may be many."""
        hidden = None if self._continuous else self.hidden
        if hidden is None or not isinstance(hidden.chain, DurationChain):
            return {}
        chain, longest = hidden.chain, int(np.diff(hidden.sequences.offsets).max(initial=0))
        of_rows = _OF_A_DURATION * hidden.sequences.n_times * min(chain.longest, longest)
        seconds = chain.n_states * (of_rows + _OF_A_LAW * chain.longest * (chain.word != "table"))
        cost = f"about {seconds:.2g} s"
        if chain.longest > longest:
            cost += f"; durations beyond the longest sequence, {longest:,} rows, say nothing: take fewer"
        return {"an evaluation": cost, "nuts": f"about {duration(seconds * _EVALUATIONS)} of one core"}

    def data_findings(self) -> list[DataFinding]:
        """Report columns without data."""
        if self._continuous:
            return []
        out: list[DataFinding] = []
        silent = [c for c in self.spec.columns if not self.data.has(c)]
        if silent:
            out.append(("missing", silent[0], None, f"the data have no column '{silent[0]}'", "it says nothing here"))
        return out

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Relabel states consistently across draws, numbered by the family's rule."""
        if self._continuous or self._infinite:
            return None
        hidden = self.hidden
        if isinstance(hidden.chain, ProductChain):
            return product_labels.relabelled(hidden, draws)
        if not all(name in draws for name in hidden.learned):
            return None
        parameters = {name: draws[name] for name in hidden.learned}
        if not hidden.blocks:
            settled = hidden.settled(parameters, 1)
            return (
                (settled | hidden.internal(settled, draws), "the mixture inside each state") if hidden.layered else None
            )
        if self.spec.classes is not None:
            moves = classes.relabelling(hidden, lambda some: each_draw(parameters, some.learned))
            return _ruled(hidden, parameters, moves, draws), "each class"
        first = hidden.prefix(_PREFIX)
        laws = (first.law(values) for values in each_draw(parameters, first.learned))
        return _ruled(hidden, parameters, agreeing(laws, evenly(first.sequences.n_times, _TELLING)), draws), "the chain"

    def model_choice(self) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
        """The choice of the number of states: one line of text, and a table with its labels."""
        choice = self._settled[1]
        if choice is None:
            return None
        along = ("n_states",)
        table = {"score": (along, choice.scores), "standard_error": (along, choice.standard_errors)}
        return choice.described("state"), table, {"n_states": np.array(choice.numbers)}

    def network(self) -> nx.DiGraph:
        """The graph of two steps of the chain and their emissions."""
        spec = self.spec
        rows = self.model.data.rows
        n = len(self.data.labels.get(rows, ()))
        out = nx.DiGraph(dims={rows: n} if n else {})
        if self._continuous:
            out.add_node("state", kind="random", text="linear, normal", dims=(rows,))
            for column in spec.columns:
                out.add_node(
                    column, kind="observed" if self.data.has(column) else "random", text="Normal", dims=(rows,)
                )
                out.add_edge("state", column)
            return out
        if spec.chains is not None:
            return _several_drawn(spec, self.data, rows, out)
        shown = f"one a {spec.classes}" if spec.classes is not None else _number(spec)
        out.add_node("initial", kind="random", text="Dirichlet", dims=("state",))
        out.add_node("transition", kind="random", text="Dirichlet", dims=("state", "next_state"))
        # Named as in simulations, where it is computed from the other nodes.
        out.add_node("path", kind="deterministic", text=f"Markov chain, {shown}", dims=(rows,))
        out.add_edges_from([("initial", "path"), ("transition", "path")])
        if spec.durations is not None:
            out.add_node("duration", kind="random", text="of a state", dims=("state",))
            out.add_edge("duration", "path")
        for name, word, columns in layout_of(spec):
            for column in columns:
                out.add_node(column, kind="observed" if self.data.has(column) else "random", text=word, dims=(rows,))
                out.add_edge("path", column)
            label = f"{name}_parameters" if name else "parameters"
            out.add_node(label, kind="random", text=word, dims=("state",))
            out.add_edges_from((label, column) for column in columns)
        return out

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log likelihood of each sequence; for a single sequence, of each row given the rows before it."""
        if self._continuous:
            return linear.log_likelihoods(self.linear, draws, self.model.data.rows)
        hidden = self.hidden
        several = hidden.sequences.n_sequences > 1
        if self.spec.training == "discriminative":
            each = [classes.conditional(hidden, values) for values in each_draw(draws, hidden.learned)]
            return {"sequence": (("sequence_number",), np.stack(each))}
        out = []
        for values in each_draw(draws, hidden.learned):
            log_p = hidden.law(values).log_likelihoods(several)
            out.append(log_p if several else log_p[hidden.sequences.at])
        dims = ("sequence_number",) if several else (self.model.data.rows,)
        return {"sequence" if several else "row": (dims, np.stack(out))}

    def rows_of_term(self, node: str, position: int) -> np.ndarray | None:
        """The rows of a sequence; None for a single sequence, whose rows cannot be left out."""
        if node != "sequence":
            return None
        hidden = self.resolved
        of, known = hidden.sequences.sequence[hidden.sequences.at], np.arange(hidden.sequences.n_sequences)
        if self.spec.training == "discriminative":
            known = np.flatnonzero(hidden.chain.known >= 0)
        return np.flatnonzero(of == known[position])

    def event_kinds(self) -> dict[str, np.ndarray]:
        """Kind of likelihood of each value; rows that a window only conditions on have none."""
        if self._continuous:
            return {}
        return replications.event_kinds(self.hidden, self._windowed)

    @cached_property
    def _windowed(self) -> Windowed | None:
        """The values of the column, if they depend on those before."""
        spec, sequences = self.spec, self.hidden.sequences
        if not spec.window:
            return None
        values = spread(sequences, read_columns(self.data, spec.columns[:1]))[:, 0]
        return Windowed.of(values, sequences, spec.window)

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Posterior predictive draws of the rows, each in a state drawn given all observations."""
        rows = self.model.data.rows
        if self._continuous:
            return linear.predictive(self.linear, draws, rng, rows)
        return replications.drawn(self.hidden, draws, rng, rows, self._windowed)

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Draws of the missing cells given all observations; posterior predictive draws of complete rows."""
        if not self._continuous:
            return replications.completed(self.hidden, draws, rng, self.model.data.rows, self._windowed)
        cells = self.linear.rows[self.linear.sequences.at]
        given = {column: cells[:, j] for j, column in enumerate(self.linear.columns)}
        return replications.with_missing(
            given, lambda: self.predictive(draws, rng), lambda: self.predictive(draws, rng)
        )

    def decoded(
        self, draws: Draws, method: str, best: int, sequence: str | None, most: int = AVERAGED
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The states at each time; see :func:`bayeslab.results.decode.decode`."""
        spec = self.spec
        resolved = self.resolved
        rows = self.model.data.rows
        times = {spec.time: resolved.sequences.times} if spec.time else {rows: self.data.labels[rows]}
        times = times if spec.parent is None else {rows: resolved.sequences.times}
        if self._continuous:
            return linear.decoded(resolved, draws, method, times, sequence, spec.sequence, most)
        resolved.check_possible(decoding.posterior_mean(resolved, draws))
        out, about = decoding.decoded(
            resolved, draws, method, best, sequence=sequence, times=times, called=spec.sequence, most=most
        )
        if self._infinite:
            out = shown(out)
        return (out if spec.classes is None else classes.with_class(resolved, out, spec.classes)), about

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray]:
        """P(state | all rows) of every row, or P(class) of every sequence, averaged over 200 posterior draws."""
        if self._continuous:
            raise OptionError("continuous states have no probabilities; use kind='mean'", code="not-applicable")
        hidden, spec = self.hidden, self.spec
        if spec.classes is not None and spec.sequence is not None:
            class_probabilities = classes.masses(hidden, lambda free: each_draw(draws, free.learned, AVERAGED))
            chain: Any = hidden.chain
            out = {f"P({spec.classes}={c})": class_probabilities[:, k] for k, c in enumerate(chain.classes)}
            return {spec.sequence: hidden.sequences.names} | out
        mean = decoding.averaged(hidden, draws, "smooth")[hidden.sequences.at]
        labels = self.data.labels.get(self.model.data.rows, np.arange(len(mean)))
        return {self.model.data.rows: labels} | decoding.chances_of(hidden, mean)


def _refuse_too_costly(hidden: Hidden) -> None:
    """Refuse chains to be learned of which one pass over the rows would take minutes; learning takes hundreds."""
    chain, n_moves = hidden.chain, hidden.n_states**2
    if isinstance(chain, DurationChain) and "duration" in chain.learned:
        cells = chain.n_states * chain.longest
        if cells > _MOST_LENGTHS:
            longest = int(np.diff(hidden.sequences.offsets).max(initial=0))
            raise ModelError(
                f"{chain.n_states} tables of {chain.longest:,} durations are {cells:,} probabilities to learn; at most"
                f" {_MOST_LENGTHS:,}, and of durations beyond the longest sequence ({longest:,} rows) the data say"
                " nothing: take fewer, or fewer and a law with one or two numbers for each state",
                path=("model", "durations"),
                code="too-costly",
            )
    if isinstance(chain, Chain):
        n_moves = hidden.n_states**3 if chain.order == 2 else int(chain.mask.sum())
    if (steps := hidden.sequences.n_times * n_moves) > _MOST_STEPS:
        raise ModelError(
            f"{hidden.sequences.n_times:,} times with {n_moves:,} transitions at each take {steps:,} multiplications in"
            f" one pass over the rows; at most {_MOST_STEPS:,}: take fewer states, or a topology with fewer"
            " transitions",
            path=("model", "states"),
            code="too-costly",
        )


def _refuse_too_little(hidden: Hidden, data: Data) -> None:
    """Refuse data with fewer rows than states or without variation, if states are learned; new data may be
    anything.
    """
    if data.origin is not None:
        return
    _refuse_silent(hidden)
    if isinstance(hidden.chain, ProductChain) or not any(part.learned for part in hidden.parts):
        return
    rows = hidden.rows[(~np.isnan(hidden.rows)).any(axis=1)]
    if not len(hidden.rows) or hidden.n_states == 1:
        return
    if len(rows) < hidden.n_states:
        raise DataError(
            f"{len(rows)} rows cannot support {hidden.n_states} states; use at most {max(len(rows), 1)}", code="too-few"
        )
    if not np.any(np.nanmax(rows, axis=0, initial=-np.inf) > np.nanmin(rows, axis=0, initial=np.inf)):
        column = hidden.parts[0].columns[0]
        raise DataError(f"column '{column}' is constant: it cannot tell states apart; take one state", code="constant")


def _refuse_silent(hidden: Hidden) -> None:
    """Refuse a sequence without a single observed cell, which is usually a mistake."""
    sequences = hidden.sequences
    observed = (~np.isnan(hidden.rows)).any(axis=1)
    silent = np.flatnonzero(np.bincount(sequences.sequence, observed, minlength=sequences.n_sequences) == 0)
    if len(silent):
        which = f"sequence '{sequences.names[silent[0]]}'" if sequences.n_sequences > 1 else "the sequence"
        raise DataError(f"{which} has no observed cell; leave it out", code="no-values")


def _ruled(
    hidden: Hidden, parameters: Mapping[str, np.ndarray], moves: np.ndarray, draws: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Draws relabelled by these moves and numbered by the rule."""
    moved = hidden.permuted(parameters, moves, lead=1)
    middle = {name: value.mean(axis=0) for name, value in moved.items()}
    rule = np.broadcast_to(hidden.rule(middle), moves.shape)
    out = hidden.settled(hidden.permuted(moved, rule, lead=1), 1)
    return out | hidden.internal(out, draws)


def _number(spec: HMM) -> str:
    return f"{spec.ranged[0]} to {spec.ranged[1]} states" if spec.ranged else f"{len(labels_of(spec))} states"


def _several_drawn(spec: HMM, data: Data, rows: str, out: nx.DiGraph) -> nx.DiGraph:
    """The graph of several chains and their emissions."""
    chain = product_of(spec)
    # Named as in simulations: the index of the combination of states.
    out.add_node("path", kind="deterministic", text=f"{spec.coupling} chains, {chain.n_states} states", dims=(rows,))
    for name in chain.every:
        out.add_node(name, kind="random", text="Dirichlet", dims=chain.dims(name))
        out.add_edge(name, "path")
    words = {column: word for _, word, columns in layout_of(spec) for column in columns}
    made = "additive effects" if additive(spec) else "of all chains" if spec.coupling == "factorial" else "of a chain"
    out.add_node("parameters", kind="random", text=made, dims=())
    for column, word in words.items():
        out.add_node(column, kind="observed" if data.has(column) else "random", text=word, dims=(rows,))
        out.add_edges_from([("path", column), ("parameters", column)])
    return out
