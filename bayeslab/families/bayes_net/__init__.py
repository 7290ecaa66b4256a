"""Family ``bayes_net``: variables with named states, their parents, and a distribution of each given its parents.

What a file leaves out is learned: a variable without a table has one with a Dirichlet prior on every row, and a
noisy-OR without strengths has unknown strengths. Variables without a column in the data are hidden, and cells may be
missing: both are summed out exactly (:mod:`bayeslab.latents.networks.junction_tree`).

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems. Morgan Kaufmann.
.. [2] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks: the combination of knowledge and statistical
   data. Machine Learning 20, 197-243 (Dirichlet priors of an equivalent sample size).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.decisions.influence import InfluenceDiagram
from bayeslab.errors import ModelError, hint
from bayeslab.families import graph as graphs
from bayeslab.families.bayes_net import unknown_structure
from bayeslab.families.bayes_net.local_distributions.place import Place
from bayeslab.families.bayes_net.local_distributions.reading import local, require_memory_of
from bayeslab.families.bayes_net.net import net_of
from bayeslab.families.bayes_net.posterior import BayesNetPosterior
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.bayes_net.structure_spec import unknown
from bayeslab.language.spec import Model
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["BayesNet", "Spec", "check", "compile"]

Spec = BayesNet


def _spec(model: Model) -> BayesNet:
    assert isinstance(model.model, BayesNet)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that every local distribution can be read, and that the data have a column for at least one variable."""
    spec = _spec(model)
    if unknown(spec):
        unknown_structure.check(model)
        return
    _check_parameters(model, spec.parameters, {name: ("model", "parameters", name) for name in spec.parameters})
    if spec.decisions:
        diagram(model)
    elif spec.structure != "tan":
        net = net_of(spec)
        of = {name: v for v, one in net.locals.items() for name in one.unknown}
        paths = {name: ("model", "variables", of[name]) for name in net.unknown}
        _check_parameters(model, {**net.parameters, **net.unknown}, paths)
    if columns is None:
        return
    observed = [v for v in spec.variables if v in columns and v not in spec.hidden]
    if columns and not observed:
        first = next(iter(spec.variables))
        raise ModelError(
            f"the data have a column for none of the variables{hint(first, columns)}",
            path=("model", "variables"),
            code="unknown-column",
        )


def _check_parameters(model: Model, nodes: Mapping[str, Any], paths: Mapping[str, tuple[Any, ...]]) -> None:
    """Check the shared parameters and their priors, which follow the rules of the family ``graph``."""
    if not nodes:
        return
    try:
        graphs.check(model.model_copy(update={"model": graphs.Graph(nodes=dict(nodes))}), set())
    except ModelError as error:
        name = error.path[2] if len(error.path) > 2 else ""
        path = paths.get(name, ("model", "parameters"))
        raise ModelError(
            error.message, path=path, offset=error.offset if name in paths else 0, code=error.code
        ) from None


def diagram(model: Model) -> InfluenceDiagram:
    """The model as an influence diagram.

    Raises
    ------
    ModelError
        It has no decisions, or a table is unknown.
    """

    spec = _spec(model)
    if not spec.decisions:
        raise ModelError(
            "the model has no decisions: an influence diagram has `decisions` and `utilities`", code="nothing-to-decide"
        )
    states = {v: tuple(one.states) for v, one in spec.variables.items()}
    states |= {d: tuple(one.options) for d, one in spec.decisions.items()}
    require_memory_of(spec.variables, states)
    tables, utilities = {}, {}
    for v, one in spec.variables.items():
        table = local(v, one, states, frozenset(), spec.prior.concentration).known
        if table is None:
            raise ModelError(
                f"the table of '{v}' is unknown: give it", path=("model", "variables", v), code="not-learned"
            )
        tables[v] = table
    for u, worth in spec.utilities.items():
        place = Place(u, (), tuple(worth.parents), states, frozenset(), ("model", "utilities"))
        for parent in worth.parents:
            if parent not in states:
                raise place.error(
                    f"'{parent}', a parent of '{u}', is not a variable{hint(parent, states)}",
                    "parents",
                    code="unknown-variable",
                )
        rows = [place.number(x, path, -np.inf, np.inf) for x, path in place.by_row(worth.table, "table")]
        utilities[u] = np.array(rows).reshape(place.sizes)
    parents = {v: tuple(one.parents) for v, one in spec.variables.items()}
    parents |= {d: tuple(one.knows) for d, one in spec.decisions.items()}
    parents |= {u: tuple(one.parents) for u, one in spec.utilities.items()}
    try:
        return InfluenceDiagram(states, parents, tables, utilities, tuple(spec.decisions), model.name)
    except ModelError as error:
        raise ModelError(error.message, path=error.path or ("model", "decisions"), code=error.code) from None


def plain(model: Model) -> DiscreteNetwork | MixedNetwork:
    """The net as plain data.

    Raises
    ------
    ModelError
        Something is unknown.
    """
    return net_of(_spec(model), name=model.name).plain()


def compile(model: Model, data: Data) -> BayesNetPosterior:
    """Bind the model to its data."""
    return BayesNetPosterior(model, data)
