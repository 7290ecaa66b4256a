"""Columns of any distribution as expressions of PyTensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.distributions._table import DISTRIBUTIONS, pymc_class

__all__ = ["cell_draws", "cell_log_density"]


def cell_log_density(name: str, parameters: Mapping[str, Any], values: np.ndarray) -> Any:
    """log p(cell | state) as an expression; missing cells say nothing.

    Parameters
    ----------
    name : str
        PyMC's.
    parameters : mapping of str to TensorVariable (K,)
        Of every state, by PyMC's names.
    values : ndarray (N,)
        NaN where a cell is missing.

    Returns
    -------
    TensorVariable (N, K)
    """
    import pymc as pm
    import pytensor.tensor as pt

    seen = ~np.isnan(values)
    # Any value that can be stands for a missing one.
    filled = np.where(seen, values, values[seen][0] if seen.any() else 0.0)[:, None]
    if DISTRIBUTIONS[name].discrete:
        filled = filled.astype(np.int64)
    one = pymc_class(name).dist(**{word: pt.as_tensor_variable(value)[None, :] for word, value in parameters.items()})
    out = pm.logp(one, filled)
    return out if seen.all() else pt.where(seen[:, None], out, 0.0)


def cell_draws(name: str, parameters: Mapping[str, Any], states: Any, n_rows: int) -> Any:
    """A random variable (n_rows,) with a value for each row, given the rows' states."""
    import pytensor.tensor as pt

    own = {word: pt.as_tensor_variable(value)[states] for word, value in parameters.items()}
    return pymc_class(name).dist(**own, shape=n_rows)
