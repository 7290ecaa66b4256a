"""Outputs of a PyTensor graph at many draws of what they depend on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pymc

__all__ = ["evaluate", "expand"]


def expand(model: pymc.Model, values: Mapping[str, np.ndarray], outputs: Sequence[Any]) -> list[np.ndarray]:
    """Evaluate outputs of a model at many draws in one vectorised pass.

    Parameters
    ----------
    values
        Value variables by name, shape (draws, ...).
    outputs
        Variables that depend on value variables (not on random ones), shape (...) each.

    Returns
    -------
    list of ndarray
        Shape (draws, ...) each.
    """
    return evaluate({v: values[v.name] for v in model.value_vars if v.name in values}, outputs)


def evaluate(given: Mapping[Any, np.ndarray], outputs: Sequence[Any], *, simplify: bool = True) -> list[np.ndarray]:
    """Evaluate outputs at many values of the variables they depend on, shape (draws, ...) each.

    ``simplify=False`` leaves the graph unchanged, because simplifying a graph with many branches can be very slow.
    """
    import pytensor
    from pytensor.graph.replace import vectorize_graph
    from pytensor.graph.traversal import ancestors
    from pytensor.scan.op import Scan

    if not outputs:
        return []
    inputs, values = list(given), {v.name: array for v, array in given.items()}
    n_draws = len(values[inputs[0].name]) if inputs else 1
    looped = any(v.owner is not None and isinstance(v.owner.op, Scan) for v in ancestors(outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if looped:
            function = pytensor.function(inputs, list(outputs), mode="NUMBA", on_unused_input="ignore")
            rows = [function(*(values[v.name][i] for v in inputs)) for i in range(n_draws)]
            return [np.stack([row[k] for row in rows]) for k in range(len(outputs))]
        batched = [pytensor.tensor.tensor(dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
        many = vectorize_graph(list(outputs), dict(zip(inputs, batched, strict=True)))
        mode = pytensor.compile.mode.Mode("py", "fast_compile" if simplify else None)
        function = pytensor.function(batched, many, mode=mode, on_unused_input="ignore")
        size = max(sum(int(np.prod([n or 1 for n in o.type.shape])) for o in outputs), 1)
        step = max(1, min(n_draws, 20_000_000 // size))
        parts = [function(*(values[v.name][i : i + step] for v in inputs)) for i in range(0, n_draws, step)]
    return [_stacked([np.asarray(part[k]) for part in parts], output.ndim, n_draws) for k, output in enumerate(outputs)]


def _stacked(parts: list[np.ndarray], ndim: int, n_draws: int) -> np.ndarray:
    if parts[0].ndim == ndim:  # does not depend on the parameters
        return np.broadcast_to(parts[0], (n_draws, *parts[0].shape)).copy()
    return np.concatenate(parts, axis=0)
