"""Expand several hidden chains whose effects on a column add up: a path for each, summed out together."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.families.hmm.spec import HMM
from bayeslab.language.expansion import Expansion, nested, number, numbers, unsupported
from bayeslab.latents.chains.product import ProductChain
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.observed.additive import Additive

__all__ = ["expanded_chains"]


def expanded_chains(spec: HMM, hidden: Hidden, row: str) -> Expansion:
    """Write factorial chains as nodes of the language.

    Raises
    ------
    ModelError
        Chains depend on each other, or their effects do not add up.
    """
    chain, parts = hidden.chain, hidden.parts
    if not isinstance(chain, ProductChain) or chain.coupling != "factorial":
        raise unsupported("chains that depend on each other cannot be expanded yet", "coupling")
    if len(parts) != 1 or not isinstance(parts[0], Additive) or len(spec.columns) != 1 or parts[0].known:
        raise unsupported("several chains can be expanded if their unknown effects on one column add up", "chains")
    if chain.known:
        raise unsupported("several chains with known probabilities cannot be expanded yet", "parameters")
    prior, (column,) = parts[0].emission.prior, spec.columns
    assert prior is not None
    wide = f"sd / sqrt({number(float(prior.kappa))})"
    nodes: dict[str, str] = {}
    dims: dict[str, Any] = {}
    comments: dict[str, str] = {}
    effects, paths = dict[str, str](), dict[str, str]()
    sequence = f", sequence={spec.sequence}" if spec.sequence is not None else ""
    for name, levels in zip(chain.names, chain.levels, strict=True):
        dims |= {name: [level.item() for level in levels], f"next_{name}": name}
        nodes |= _probabilities(f"initial_{name}", name, chain.concentration(f"initial_{name}"))
        axes = f"{name}, next_{name}"
        nodes |= _probabilities(f"transition_{name}", axes, chain.concentration(f"transition_{name}"))
        comments[f"transition_{name}[{axes}]"] = f"Of {name}, from each state to the next: every row sums to 1."
        effects[f"effect_{name}[{name}]"] = f"ZeroSumNormal({wide})" if len(levels) > 1 else "0"
        path = f"path_{name}[{row}]"
        paths[path] = f"MarkovChain(transition_{name}, initial=initial_{name}{sequence})"
    nodes["variance"] = f"InverseGamma({number(prior.nu / 2)}, {numbers(np.asarray(prior.scale) / 2)})"
    comments["variance"] = "Variance of rows about their mean; the prior is weak, on the scale of the data."
    nodes |= {"sd": "sqrt(variance)", "mean": f"Normal({numbers(np.asarray(prior.mean))}, {wide})", **effects, **paths}
    comments[next(iter(effects))] = "Effects of the states, about the mean: they sum to zero."
    comments[next(iter(paths))] = "The hidden states of each chain: fits sum over all paths of all chains together."
    mean = " + ".join(["mean", *(f"effect_{name}[path_{name}]" for name in chain.names)])
    nodes[f"{column}[{row}]"] = f"Normal({mean}, sd)"
    about = (
        f"Hidden Markov chains of {len(chain.names)} causes whose effects add up, written out in the model language."
        " Anything may depend on any of the paths."
    )
    return Expansion(nodes, {}, dims, comments, about)


def _probabilities(name: str, axes: str, concentration: np.ndarray) -> dict[str, str]:
    if np.all(concentration == concentration.flat[0]):
        return {f"{name}[{axes}]": f"Dirichlet({numbers(concentration)})"}
    return {f"{name}_prior[{axes}]": nested(concentration), f"{name}[{axes}]": f"Dirichlet({name}_prior)"}
