"""Tree-augmented naive Bayes: the class is a parent of every attribute, and each attribute has one more parent.

The tree of attributes maximises the likelihood; it is found by :func:`bayeslab.latents.networks.classifiers.tan`.

References
----------
.. [1] Friedman, Geiger, Goldszmidt (1997). Bayesian network classifiers. Machine Learning 29, 131-163.
"""

from __future__ import annotations

from typing import Any

import networkx as nx

from bayeslab.errors import DataError, ModelError, hint
from bayeslab.latents.networks.classifiers import tan
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, Source

__all__ = ["search"]


def search(source: Source, *, target: str, root: str | None = None, prior: Prior = "uniform") -> Found:
    """Return the tree-augmented net with the largest likelihood.

    Parameters
    ----------
    source, prior
        A score of discrete data for the result; the tree itself depends on the data only.
    target
        The class variable.
    root
        The attribute whose only parent is the class; default: the first by name.

    Raises
    ------
    DataError
        The score has no discrete data.
    ModelError
        The class or the root does not exist.
    """
    data: Any = getattr(source, "data", None)
    if data is None or data.continuous.any():
        raise DataError(
            "tree-augmented nets are for discrete data: give a score such as bdeu with its data", code="not-states"
        )
    if target not in data.names:
        raise ModelError(f"the class '{target}' is not a variable{hint(target, data.names)}", code="unknown-variable")
    scorer = Scorer(source, None, prior)
    order = [data.names.index(v) for v in scorer.names]
    states = {v: data.states[i] for v, i in zip(scorer.names, order, strict=True)}
    graph = nx.DiGraph()
    graph.add_nodes_from(data.names)
    above = tan(data.codes[:, order], states, target, data.weights, root)
    graph.add_edges_from(sorted((u, v) for v, parents in above.items() for u in parents))
    parents = scorer.parents_of(graph)
    score = sum(scorer.local(v, mask) for v, mask in enumerate(parents))
    return scorer.result(parents, [score])
