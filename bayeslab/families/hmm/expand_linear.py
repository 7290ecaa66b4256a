"""Expand continuous states in the model language: a level for each column, and noise around it."""

from __future__ import annotations

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.hmm.spec import HMM
from bayeslab.language.expansion import Expansion, check_columns, listed_numbers, number, unsupported
from bayeslab.posterior.chains.linear import FIRST_SD, PRIOR_DEGREES, Linear

__all__ = ["expanded_levels"]


def expanded_levels(spec: HMM, linear: Linear, data: Data) -> Expansion:
    """Write the levels as nodes of the language.

    Raises
    ------
    ModelError
        The states have a given dimension, so that data do not identify them; times have gaps; or names clash.
    """
    row = data.dataset.rows
    if not linear.level:
        raise unsupported("states of a given dimension can be turned without changing the model: they have no priors",
                          "dimension")  # fmt: skip
    n = len(data.labels.get(row, ()))
    if linear.sequences.n_times != n or not np.array_equal(linear.sequences.at, np.arange(n)):
        raise unsupported(
            "times are missing, or rows are not in their order: sort the table, and fill the gaps", "time"
        )
    several = len(linear.columns) > 1
    dims = {"feature": list(linear.columns)} if several else {}
    nodes, comments = dict[str, str](), dict[str, str]()
    scale = 0.5 * linear.prior_scale
    for name, what in (("level", "the steps of a level"), ("noise", "the rows about their level")):
        along = "[feature]" if several else ""
        shown = listed_numbers(scale) if several else number(scale[0])
        nodes[f"{name}_variance{along}"] = f"InverseGamma({number(0.5 * PRIOR_DEGREES)}, {shown})"
        comments[f"{name}_variance{along}"] = f"Variance of {what}, on the scale of the data."
        nodes[f"{name}_sd{along}"] = f"sqrt({name}_variance)"
    sequence = f", sequence={spec.sequence}" if spec.sequence is not None else ""
    for k, column in enumerate(linear.columns):
        subscript = f"[{column!r}]" if several else ""
        level = f"level_of_{column}" if several else "level"
        start = f"Normal({number(linear.centre[k])}, {number(FIRST_SD * np.sqrt(linear.variances[k]))})"
        nodes[f"{level}[{row}]"] = f"LocalLevel(level_sd{subscript}, initial={start}{sequence})"
        comments[f"{level}[{row}]"] = (
            "A random walk from a vague start. Fits integrate it out by a Kalman filter, and give it back for each draw"
            " afterwards."
        )
        nodes[f"{column}[{row}]"] = f"Normal({level}, noise_sd{subscript})"
    check_columns(nodes, dims, data.dataset.columns, linear.columns, "columns")
    about = (
        "Levels that wander, seen through noise, written out in the model language. LocalTrend and Seasonal are nodes"
        " beside LocalLevel; whatever else the mean of a row depends on may stand beside the level."
    )
    return Expansion(nodes, {}, dims, comments, about)
