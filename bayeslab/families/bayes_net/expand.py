"""A Bayes net written out in the model language: a node for each variable, and nodes for its table or coefficients."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, listed
from bayeslab.families.bayes_net.net import Net, resolved
from bayeslab.families.bayes_net.normal_nodes import Linear, centred, prior_of
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.bayes_net.structure_spec import unknown
from bayeslab.language.expansion import Expansion, check_columns, nested, number, numbers, unsupported
from bayeslab.language.spec import Model

__all__ = ["expand"]

# Tables with more cells are too long to edit as text.
_MOST_CELLS = 400


def expand(model: Model, data: Data) -> Expansion:
    """Write the net as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the net has no form in the language; the message names it and the reason.
    """
    assert isinstance(model.model, BayesNet)
    if unknown(model.model):
        raise ModelError(
            "the structure of the net is unknown, and a graph has one: fit it by method structure",
            path=("model", "structure"),
            code="structure-unknown",
        )
    resolution = resolved(model, data)
    return _Written(model, data, resolution.net, resolution.codes).expansion()


class _Written:
    def __init__(self, model: Model, data: Data, net: Net, codes: np.ndarray) -> None:
        self.model, self.data, self.net, self.codes = model, data, net, codes
        self.row = data.dataset.rows if data.dataset.rows in data.labels else None
        self.nodes: dict[str, str] = {}
        self.comments: dict[str, str] = {}
        self.dims: dict[str, Any] = {}
        if net.parameters or net.unknown:
            what = listed([*net.parameters, *net.unknown])
            raise unsupported(
                f"tables that are computed from unknown numbers ({what}) cannot be expanded yet", "variables"
            )

    def expansion(self) -> Expansion:
        order = [*self.net.states, *self.net.linears]
        for v in order:
            if not v.isidentifier():
                raise unsupported(f"'{v}' is not a valid name of a node: rename the variable", "variables", v)
        for v in self.net.states:
            # The column's levels are in the order of the states.
            self.dims |= {v: list(self.net.states[v]), f"{v}_state": v} if self.data.has(v) else {}
            self.dims.setdefault(f"{v}_state", list(self.net.states[v]))
        sequence = list(nx.lexicographical_topological_sort(self.net.graph, key=order.index))
        for v in sequence:
            if v in self.net.linears:
                self._coefficients(self.net.linears[v])
            else:
                self._table(v)
        for v in sequence:
            if v in self.net.linears:
                self._continuous(self.net.linears[v])
            else:
                self._variable(v)
        self._check_data()
        about = (
            "A Bayes net written out in the model language: a table, or coefficients, for each variable given its"
            " parents, and a node for each variable. Variables without a column are summed out exactly."
        )
        return Expansion(self.nodes, {}, self.dims, self.comments, about)

    def _table(self, v: str) -> None:
        parents, one = self.net.parents[v], self.net.locals[v]
        axes = [*(f"{p}_state" for p in parents), f"{v}_state"]
        key = f"p_{v}[{', '.join(axes)}]"
        given = f", given {', '.join(parents)}" if parents else ""
        if one.known is not None:
            if one.known.size > _MOST_CELLS:
                raise unsupported(f"the table of '{v}' has {one.known.size:,} cells, too many to write", "variables", v)
            self.nodes[key] = nested(np.asarray(one.known, float))
            self.comments[key] = f"Probabilities of the states of {v}{given}: known."
            return
        if one.rows is None or not one.rows.whole:
            raise unsupported(
                f"the table of '{v}' is known in some rows only, which cannot be expanded", "variables", v
            )
        concentration = one.rows.concentration
        if not np.all(concentration == concentration[0]):
            raise unsupported(f"the rows of '{v}' have different priors", "variables", v)
        self.nodes[key] = f"Dirichlet({numbers(concentration[0])})"
        self.comments[key] = f"Probabilities of the states of {v}{given}: learned, each row with a Dirichlet prior."

    def _variable(self, v: str) -> None:
        parents = self.net.parents[v]
        states = [tuple(self.net.states[p]) for p in parents]
        index = [
            # Two parents with the same states need positions: state names would not identify the axis.
            p
            if (states.count(parent_states) == 1 and parent_states != self.net.states[v]) or not self.data.has(p)
            else f"index({p}_state)[{p}]"
            for p, parent_states in zip(parents, states, strict=True)
        ]
        if index:
            index.append(f"{v}_state")  # the whole of it: states that are numbers do not say which axis they are of
        key = v if self.row is None else f"{v}[{self.row}]"
        self.nodes[key] = f"Categorical(p_{v}[{', '.join(index)}])" if index else f"Categorical(p_{v})"
        if self.row is not None and not self.data.has(v):
            self.comments[key] = "Never observed: fits sum it out exactly."

    def _coefficients(self, one: Linear) -> None:
        v = one.variable
        if one.discrete:
            raise unsupported(f"'{v}', continuous with discrete parents, cannot be expanded yet", "variables", v)
        if (
            not self.data.has(v)
            or v in self.net.hidden
            or np.isnan(np.asarray(self.data.term(v, missing=True).value)).any()
        ):
            raise unsupported(
                f"'{v}' is continuous and has cells without data, which a graph makes parameters of", "variables", v
            )
        axis = f"parent_of_{v}"
        if one.continuous:
            self.dims[axis] = list(one.continuous)
        if one.known is not None:
            self.nodes[f"middle_{v}"] = number(float(one.known.intercept))
            self.nodes[f"sd_{v}"] = number(float(one.known.sd))
            self.nodes |= {f"slope_{v}[{axis}]": numbers(one.known.slopes)} if one.continuous else {}
            return
        prior = prior_of(one, self.net.linears, self.net.measured)
        widths, _ = centred(prior)
        self.nodes[f"variance_{v}"] = f"InverseGamma({number(float(prior.alpha))}, {number(float(prior.beta))})"
        self.comments[f"variance_{v}"] = f"Variance of {v} about its mean; the prior is weak, on the scale of the data."
        self.nodes[f"sd_{v}"] = f"sqrt(variance_{v})"
        self.nodes[f"middle_{v}"] = f"Normal({number(float(prior.mu[0]))}, {number(float(widths[0]))} * sd_{v})"
        if one.continuous:
            self.comments[f"middle_{v}"] = f"Mean of {v} where its parents are at theirs."
            self.nodes[f"width_{v}[{axis}]"] = nested(widths[1:])
            self.nodes[f"slope_{v}[{axis}]"] = f"Normal(0, sd_{v} * width_{v})"

    def _continuous(self, one: Linear) -> None:
        v, mean = one.variable, f"middle_{one.variable}"
        centres = np.zeros(len(one.continuous))
        if one.known is None:
            centres = centred(prior_of(one, self.net.linears, self.net.measured))[1]
        for parent, centre in zip(one.continuous, centres.tolist(), strict=True):
            mean += f" + slope_{v}[{parent!r}] * ({parent} - {number(centre)})"
        self.nodes[f"{v}[{self.row}]"] = f"Normal({mean}, sd_{v})"

    def _check_data(self) -> None:
        """Check that the data's columns hold the names of the states, and not zeros and ones in their place."""
        columns = set(self.data.dataset.columns)
        check_columns(self.nodes, self.dims, columns, [*self.net.states, *self.net.linears], "variables")
        for v in set(self.net.states) & self.net.hidden & columns:
            raise unsupported(f"'{v}' is hidden and a column of the table: leave the column out", "hidden")
        for k, (v, states) in enumerate(self.net.states.items()):
            column = self.data.dataset.columns.get(v)
            if column is None:
                continue
            place = {state: i for i, state in enumerate(states)}
            words = column.values if column.text else np.array([f"{x:g}" for x in column.values.astype(float)])
            read = np.array([place.get(str(word), -1) for word in words.tolist()])
            if not np.array_equal(np.where(column.absent(), -1, read), self.codes[:, k]):
                raise unsupported(f"the column '{v}' has other words than the states {listed(states)}", "variables", v)
