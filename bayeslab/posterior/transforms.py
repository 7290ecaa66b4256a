"""Draws of a PyMC graph's parameters on the natural and the unconstrained scale, and quantities computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.posterior.evaluation import evaluate, expand

if TYPE_CHECKING:
    import pymc

__all__ = ["constrained", "tables_at", "unconstrained"]


def constrained(model: pymc.Model, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters on their natural scale and deterministic nodes, for draws of the value variables.

    The completed vector of a node with missing cells is left out: its data are constant, and its
    imputed cells are the parameter ``<name>_unobserved``.
    """
    partial = {rv.name.removesuffix("_unobserved") for rv in model.free_RVs if rv.name.endswith("_unobserved")}
    names = [rv.name for rv in model.free_RVs] + [d.name for d in model.deterministics if d.name not in partial]
    by_name = {variable.name: variable for variable in model.unobserved_value_vars}
    direct = {name: values[name] for name in names if name in values}
    rest = [name for name in names if name not in direct]
    computed = dict(zip(rest, expand(model, values, [by_name[name] for name in rest]), strict=True))
    return {name: direct[name] if name in direct else computed[name] for name in names}


def unconstrained(model: pymc.Model, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of a model's parameters as draws of its value variables: the inverse of :func:`constrained`.

    Parameters
    ----------
    draws
        Every free random node by name, shape (draws, ...).
    """
    from pytensor.graph.replace import clone_replace

    symbols = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    outputs = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        # A transform may depend on other parameters: Uniform(0, b) has a random bound.
        outputs.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    given = {symbol: np.asarray(draws[rv.name]).astype(symbol.dtype) for rv, symbol in symbols.items()}
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    return dict(zip(names, evaluate(given, clone_replace(outputs, symbols)), strict=True))


def tables_at(model: pymc.Model, sums: Any, values: Mapping[str, np.ndarray], n_draws: int = 1) -> Iterator[np.ndarray]:
    """Yield the tables that are summed over, in blocks of draws of the parameters, shape (draws, length).

    Parameters
    ----------
    values
        Every free random node by name, shape (draws, ...).
    n_draws
        The number of draws where the model has no parameters: all their tables are equal.
    """
    from pytensor.graph.replace import clone_replace

    symbols = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    changes = symbols | {rv: model.rvs_to_values[rv].astype(rv.dtype) for rv in model.observed_RVs}
    given = {symbol: np.asarray(values[rv.name]).astype(symbol.dtype) for rv, symbol in symbols.items()}
    n = len(next(iter(given.values()))) if given else n_draws
    output = clone_replace([sums.tables], changes)
    length = max(int(sums.tables.type.shape[0] or 0), 1)
    step = max(1, min(n, 20_000_000 // length))
    if not given:
        (table,) = evaluate({}, output, simplify=False)
        for i in range(0, n, step):
            yield np.repeat(table, min(step, n - i), axis=0)
        return
    for i in range(0, n, step):
        yield np.ascontiguousarray(evaluate({s: v[i : i + step] for s, v in given.items()}, output, simplify=False)[0])
