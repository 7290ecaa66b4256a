"""A declared Bayes net, resolved: states, parents and local distributions of the variables; its data as codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families.bayes_net.local_distributions.contract import Local
from bayeslab.families.bayes_net.local_distributions.reading import local, require_memory_of
from bayeslab.families.bayes_net.local_distributions.scalars import constant
from bayeslab.families.bayes_net.normal_nodes import Linear, linears, values_of
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.bayes_net.structure_spec import sampled, unknown
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.spec import RESERVED, Model
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = [
    "Net",
    "Resolved",
    "codes_from",
    "codes_of",
    "column_of",
    "net_of",
    "parameter_values",
    "resolved",
    "state_words",
]

# Words for 1 and 0 in columns of truth values.
_TRUE = frozenset(("true", "yes", "t", "y", "on", "1", "present"))
_FALSE = frozenset(("false", "no", "f", "n", "off", "0", "absent"))


@dataclass(frozen=True, eq=False)
class Net:
    """A declared net.

    Attributes
    ----------
    states, parents : mapping of str to tuple of str
        States and parents of the discrete variables.
    locals : mapping of str to Local
        Local distributions of the discrete variables.
    linears : mapping of str to Linear
        The continuous variables.
    hidden : frozenset of str
        Variables declared as never observed.
    parameters : mapping of str to str
        Expression or distribution of each shared parameter.
    measured : ndarray
        The continuous columns on whose scale the priors are, (rows, continuous variables): those of the fit, also where
        the net is asked about other rows.
    """

    name: str
    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    locals: Mapping[str, Local]
    linears: Mapping[str, Linear]
    hidden: frozenset[str]
    parameters: Mapping[str, str]
    measured: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def graph(self) -> nx.DiGraph:
        out = nx.DiGraph()
        out.add_nodes_from((*self.states, *self.linears))
        out.add_edges_from((parent, v) for v, above in self.parents.items() for parent in above)
        out.add_edges_from((p, v) for v, one in self.linears.items() for p in (*one.discrete, *one.continuous))
        return out

    @property
    def unknown(self) -> dict[str, str]:
        """Unknown numbers of local distributions and their priors."""
        return {name: prior for one in self.locals.values() for name, prior in one.unknown.items()}

    @property
    def learned(self) -> tuple[str, ...]:
        """Variables whose tables are not fully known."""
        return tuple(v for v, one in self.locals.items() if one.known is None)

    @property
    def regressions(self) -> tuple[str, ...]:
        """Continuous variables whose distribution is not fully known."""
        return tuple(v for v, one in self.linears.items() if one.known is None)

    def dims(self, variable: str) -> tuple[str, ...]:
        """Dimensions of the unknown rows of a variable."""
        rows = self.locals[variable].rows
        assert rows is not None
        return (*self.parents[variable], variable) if rows.whole else (f"rows_of_{variable}", variable)

    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the dimensions of all unknown rows."""
        out: dict[str, np.ndarray] = {}
        for v, one in self.locals.items():
            if one.rows is None:
                continue
            for dim in self.dims(v):
                out[dim] = np.array(self.states[dim]) if dim in self.states else self._row_labels(v)
        for v in self.regressions:
            linear = self.linears[v]
            out |= {p: np.array(self.states[p]) for p in linear.discrete}
            if linear.continuous:
                out[f"parent_of_{v}"] = np.array(linear.continuous)
        return out

    def _row_labels(self, variable: str) -> np.ndarray:
        rows = self.locals[variable].rows
        assert rows is not None
        place = getattr(self.locals[variable], "place")  # noqa: B009 - every kind has one
        if rows.name.startswith("p_"):
            every = [", ".join(row) for row in place.rows()]
            return np.array([every[i] for i in rows.index])
        return np.array([f"cause {i + 1}" for i in range(len(rows.index))])

    def shape(self, variable: str) -> tuple[int, ...]:
        """Shape of the unknown rows of a variable in the posterior."""
        rows = self.locals[variable].rows
        assert rows is not None
        sizes = tuple(len(self.states[p]) for p in self.parents[variable])
        return (*sizes, len(self.states[variable])) if rows.whole else rows.concentration.shape

    def tables(self, value: Callable[[str], Any], xp: Any) -> dict[str, Any]:
        """Compute every table from the values of the unknowns and expressions."""
        return {v: one.known if one.known is not None else one.table(value, xp) for v, one in self.locals.items()}

    def network(self, value: Callable[[str], Any] | None = None) -> DiscreteNetwork:
        """The net as plain data, with a table of numbers for every variable."""
        if value is None and self.learned:
            raise ModelError(
                f"the table of '{self.learned[0]}' is unknown: give it, or fit the model to data and use the fit",
                path=("model", "variables", self.learned[0]),
                code="not-learned",
            )
        tables = self.tables(value or (lambda name: None), np)
        return DiscreteNetwork(self.states, self.parents, tables, self.name)

    def plain(self, value: Callable[[str], Any] | None = None) -> DiscreteNetwork | MixedNetwork:
        """The net as :meth:`network` gives it, with the continuous variables, if there are any."""
        discrete = self.network(value)
        if not self.linears:
            return discrete
        if value is None and self.regressions:
            raise ModelError(
                f"the distribution of '{self.regressions[0]}' is unknown: give it, or fit the model to data",
                path=("model", "variables", self.regressions[0]),
                code="not-learned",
            )
        given = {name: value(name) for v in self.regressions for name in self.linears[v].dims} if value else {}
        nodes = {v: one.at(given) for v, one in self.linears.items()}
        return MixedNetwork(self.states, self.parents, discrete.tables, nodes, self.name)


def net_of(
    spec: BayesNet, codes: np.ndarray | None = None, counts: np.ndarray | None = None, *, name: str = "network"
) -> Net:
    """Resolve a specification.

    Parameters
    ----------
    codes, counts
        The data, needed if the structure depends on them (``structure: tan``).

    Raises
    ------
    ModelError
        The specification has an error; carries its path.
    """
    if unknown(spec):
        raise sampled("this")
    if spec.decisions:
        raise ModelError(
            "this is an influence diagram: `bayeslab decide` finds its best policy; without decisions and utilities"
            " it is a network to ask and to fit",
            path=("model", "decisions"),
            code="not-applicable",
        )
    states = {v: tuple(one.states) for v, one in spec.variables.items() if one.states}
    parents = _parents(spec, states, codes, counts)
    names, constants = frozenset(spec.parameters), _constants(spec.parameters)
    learn = set(states) if spec.learn == "all" else set(spec.learn or ())
    declarations = {}
    for v in states:
        declared = spec.variables[v].model_copy(update={"parents": list(parents[v])})
        odd = [p for p in parents[v] if p not in states]
        if odd:
            raise ModelError(
                f"'{v}' is discrete and its parent '{odd[0]}' is continuous; only logit on continuous parents has a"
                f" meaning, and that is the family regression",
                path=("model", "variables", v, "parents"),
                code="unsupported",
            )
        declarations[v] = declared.model_copy(update={"table": None}) if v in learn else declared
    require_memory_of(declarations, states)
    locals_ = {}
    for v, declared in declarations.items():
        prior = spec.prior if declared.prior is None else declared.prior
        locals_[v] = one = local(v, declared, states, names, prior.concentration, constants)
        if declared.prior is not None and not one.unknown and one.rows is None:
            raise ModelError(
                f"the prior of '{v}' has no effect, because all of '{v}' is given; leave out the prior, or the given"
                f" values",
                path=("model", "variables", v, "prior"),
                code="conflict",
            )
    # Parameters that are all numbers have been substituted.
    parameters = {k: str(t) for k, t in spec.parameters.items()} if constants.keys() != names else {}
    net = Net(name, states, parents, locals_, linears(spec), frozenset(spec.hidden), parameters)
    _check_unique(net)
    return net


def _check_unique(net: Net) -> None:
    """Check that every name in the posterior is unique."""
    named: dict[str, str] = {name: f"the parameter '{name}'" for name in net.parameters}
    named |= {v: f"the variable '{v}'" for v in (*net.states, *net.linears) if v not in named}
    if len(named) < len(net.parameters) + len(net.states) + len(net.linears):
        both = next(v for v in (*net.states, *net.linears) if v in net.parameters)
        raise ModelError(
            f"'{both}' is a parameter and a variable; rename one", path=("model", "parameters", both), code="name-clash"
        )
    for v in (*net.states, *net.linears):
        if v in net.linears:
            names: tuple[str, ...] = net.linears[v].names if net.linears[v].known is None else ()
        else:
            one = net.locals[v]
            names = (*one.unknown, *([one.rows.name] if one.rows is not None else []))
        for name in names:
            if name in named:
                raise ModelError(
                    f"results would call two things '{name}': {named[name]} and what is learned of '{v}'; rename one",
                    path=("model", "variables", v, "[key]"),
                    code="name-clash",
                )
            named[name] = f"what is learned of '{v}'"


def _constants(parameters: Mapping[str, str | int | float]) -> dict[str, float]:
    """Values of the parameters that are numbers or follow from numbers."""
    out: dict[str, float] = {}
    waiting = {name: parse(str(text)) for name, text in parameters.items()}
    while waiting:
        ready = {k: e for k, e in waiting.items() if e.names <= out.keys() and e.calls <= FUNCTIONS.keys()}
        if not ready:
            break
        for name, expression in ready.items():
            value = constant(expression, out)
            assert value is not None
            out[name] = value
            del waiting[name]
    return out


def _parents(
    spec: BayesNet, states: Mapping[str, tuple[str, ...]], codes: np.ndarray | None, counts: np.ndarray | None
) -> dict[str, tuple[str, ...]]:
    if spec.structure is None:
        return {v: tuple(spec.variables[v].parents) for v in states}
    from bayeslab.latents.networks import classifiers

    assert spec.target is not None
    if spec.structure == "naive_bayes":
        return dict(classifiers.naive_bayes(list(states), spec.target))
    if codes is None:
        raise ModelError(
            "structure: tan follows from data; fit the model to some",
            path=("model", "structure"),
            code="structure-unknown",
        )
    return dict(classifiers.tan(codes, states, spec.target, counts))


class Resolved(NamedTuple):
    """A net and its data: codes (rows, discrete variables) and values (rows, continuous ones); -1 and NaN are
    missing. Rows may stand for several: counts (rows,) say how many.
    """

    net: Net
    codes: np.ndarray
    values: np.ndarray
    counts: np.ndarray | None


def resolved(model: Model, data: Data, origin: Resolved | None = None) -> Resolved:
    """Resolve the net and its data.

    Parameters
    ----------
    origin
        The net and data of the fit, if the model's data are others; None: computed from the model.
    """
    spec: Any = model.model
    codes = codes_of(spec, data)
    if data.origin is not None and origin is None:
        origin = resolved(model, data.origin)
    if data.origin is not None and not any(data.has(v) for v in spec.variables):
        raise DataError(
            f"the new data have a column for none of the variables; known: {listed(spec.variables)}",
            code="unknown-column",
        )
    counts = data.dataset.counts
    net = net_of(spec, *((codes, counts) if origin is None else (origin.codes, origin.counts)), name=model.name)
    for v in net.learned:
        for word in (v, *net.parents[v]):
            # Exact answers use this name for the dimension of their statistics.
            if word in RESERVED or word in ("statistic", model.data.rows):
                raise ModelError(
                    f"a variable called '{word}' cannot be learned: results use that name; rename it",
                    path=("model", "variables", word, "[key]"),
                    code="reserved-name",
                )
    values = values_of(spec, net.linears, data)
    return Resolved(replace(net, measured=values if origin is None else origin.net.measured), codes, values, counts)


def codes_of(spec: BayesNet, data: Data) -> np.ndarray:
    """State numbers of the observed values of each discrete variable."""
    states = {v: tuple(one.states) for v, one in spec.variables.items() if one.states}
    n_rows = len(data.labels.get(data.dataset.rows, ()))
    return codes_from(states, {v: column_of(v, data) for v in states if data.has(v) and v not in spec.hidden}, n_rows)


def codes_from(states: Mapping[str, tuple[str, ...]], columns: Mapping[str, Column], n_rows: int) -> np.ndarray:
    """State numbers, (rows, variables); -1 for missing cells and for variables without a column."""
    out = np.full((n_rows, len(states)), -1, dtype=np.int64)
    for k, (v, labels) in enumerate(states.items()):
        if v in columns:
            out[:, k] = _column_codes(v, labels, columns[v], n_rows)
    return out


def state_words(states: Mapping[str, Iterable[Any]]) -> dict[str, frozenset[str]]:
    """States by column: a cell that holds a state's name, such as NA, is not an empty cell."""
    return {name: frozenset(map(str, words)) for name, words in states.items()}


def column_of(name: str, data: Data) -> Column:
    """The column of a variable: of the table, or computed from others."""
    if name in data.dataset.columns:
        data.look_at(name)
        return data.column(name)
    term = data.term(name, missing=True)
    return Column(np.asarray(term.value), tuple(str(d) for d in term.dims))


def _column_codes(variable: str, states: tuple[str, ...], column: Column, n_rows: int) -> np.ndarray:
    if column.dims is None or column.values.shape != (n_rows,):
        raise DataError(f"column '{variable}' does not hold one value a row", code="not-a-column")
    absent = column.absent()
    distinct, inverse = np.unique(column.values, return_inverse=True)
    known = {state: i for i, state in enumerate(states)}
    numbers = _truth(states) | _numbers(states)
    lookup = np.array([_code(word, known, numbers) for word in distinct.tolist()], dtype=np.int64)
    codes = np.where(absent, -1, lookup[inverse])
    if np.any(codes == -2):
        row = int(np.flatnonzero(codes == -2)[0])
        value = column.values[row]
        shown = value if column.text else f"{value:g}"
        raise DataError(
            f"column '{variable}', row {row + 1}: '{shown}' is not a state of '{variable}'{hint(shown, states)}",
            code="unknown-state",
        )
    return codes


def _truth(states: tuple[str, ...]) -> dict[float, int]:
    """The state that 0 and 1 in a column mean, if the two states are words for true and false."""
    folded = [state.casefold() for state in states]
    if len(states) == 2 and {folded[0], folded[1]} & _TRUE and {folded[0], folded[1]} & _FALSE:
        return {1.0: 0 if folded[0] in _TRUE else 1, 0.0: 0 if folded[0] in _FALSE else 1}
    return {}


def _numbers(states: tuple[str, ...]) -> dict[float, int]:
    """Numeric values of states that are numbers: a column may hold 1 where the state is called 1.0.

    If several states are the same number, such as 01 and 1, a number means the state that Python would print, if any.
    """
    out: dict[float, int] = {}
    shared = set[float]()
    for i, state in enumerate(states):
        try:
            number = float(state)
        except ValueError:
            continue
        shared |= {number} & out.keys()
        out.setdefault(number, i)
    for number in shared:
        exact = [i for i, state in enumerate(states) if state in (repr(number), repr(number).removesuffix(".0"))]
        if len(exact) == 1:
            out[number] = exact[0]
        else:
            del out[number]
    return out


def _code(word: Any, known: Mapping[str, int], numbers: Mapping[float, int]) -> int:
    if isinstance(word, str):
        return known.get(word, -2)
    return -1 if word != word else numbers.get(float(word), -2)


def parameter_values(net: Net, draws: Mapping[str, np.ndarray], draw: int) -> Callable[[str], Any]:
    """Values of unknowns, parameters and expressions of them at one draw, as a function of the name."""
    given = {name: values[draw] for name, values in draws.items()}

    def lookup(name: str) -> Term:
        if name not in given:
            raise ModelError(f"the fit has no draws of '{name}'", code="not-kept")
        return Term(np.asarray(given[name]))

    evaluator = Evaluator(lookup, {})

    def value(text: str) -> Any:
        return given[text] if text in given else np.asarray(evaluator.term(parse(text)).value, dtype=float)

    return value
