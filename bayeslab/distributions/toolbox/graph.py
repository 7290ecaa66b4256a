"""Log densities and draws of data columns as PyTensor expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.distributions.toolbox.table import DISTRIBUTIONS, pymc_class

__all__ = ["cell_draws", "cell_log_density"]


def cell_log_density(name: str, parameters: Mapping[str, Any], values: np.ndarray) -> Any:
    """log p(cell | state) as an expression; missing cells contribute nothing.

    Parameters
    ----------
    name : str
        PyMC's name of the distribution.
    parameters : mapping of str to TensorVariable (K,) or ndarray (K,)
        Parameters for each state, by PyMC's names; arrays are known numbers.
    values : ndarray (N,)
        NaN where a cell is missing.

    Returns
    -------
    TensorVariable (N, K)
    """
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.replace import graph_replace

    present = ~np.isnan(values)
    if not present.any():
        return pt.zeros((len(values), pt.as_tensor_variable(next(iter(parameters.values()))).shape[0]))
    # Replace a missing value by any value in the support.
    filled = np.where(present, values, values[present][0])
    if DISTRIBUTIONS[name].discrete:
        filled = filled.astype(np.int64)
    # Densities that PyMC derives would mistake random parameters for the variable.
    apart = {word: value.type() for word, value in parameters.items() if isinstance(value, pt.TensorVariable)}
    known = {word: np.asarray(value) for word, value in parameters.items() if word not in apart}
    # Some of PyMC's densities need parameters and values of the same shape; and PyMC recognises an infinite end, which
    # has no gradient, only as a constant with as many dimensions as the other parameters.
    n_states = next(value.shape[0] for value in (*apart.values(), *known.values()))
    shape = (len(values), n_states)
    spread = {word: pt.broadcast_to(value[None, :], shape) for word, value in apart.items()}
    spread |= {word: np.broadcast_to(value, (len(values), len(value))) for word, value in known.items()}
    out = pm.logp(pymc_class(name).dist(**spread), pt.broadcast_to(filled[:, None], shape))
    out = graph_replace([out], {apart[word]: parameters[word] for word in apart}, strict=False)[0]
    return out if present.all() else pt.where(present[:, None], out, 0.0)


def cell_draws(name: str, parameters: Mapping[str, Any], states: Any, n_rows: int) -> Any:
    """A random variable (n_rows,) with a value for each row, given the rows' states."""
    import pytensor.tensor as pt

    of_rows = {word: pt.as_tensor_variable(_as_written(value))[states] for word, value in parameters.items()}
    return pymc_class(name).dist(**of_rows, shape=n_rows)


def _as_written(value: Any) -> Any:
    """Convert integral known numbers to integers: NumPy refuses binomial draws with 7.0 trials."""
    whole = isinstance(value, np.ndarray) and np.isfinite(value).all() and (value == np.floor(value)).all()
    return value.astype(np.int64) if whole else value
