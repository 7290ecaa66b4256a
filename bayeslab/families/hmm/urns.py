"""Urns in a model file and its data: the balls, and the colours that were drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.data.sequences import Sequences, spread
from bayeslab.errors import DataError, ModelError, errors_at
from bayeslab.families.hmm.spec import HMM
from bayeslab.latents.chains import urn_draws as urns
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.urn_draws import UrnDraws
from bayeslab.latents.chains.urns import UrnChain
from bayeslab.posterior.observed.urn import UrnColours, UrnPart

__all__ = ["balls_of", "urns_of"]


def balls_of(spec: HMM, n_states: int) -> np.ndarray:
    """Read the numbers of balls from the file.

    Raises
    ------
    ModelError
        The file's value is invalid.
    """
    path = ("model", "parameters", "balls")
    odd = sorted(spec.parameters.keys() - {"balls"})
    if odd or "balls" not in spec.parameters:
        what = f"'{odd[0]}' is not a parameter of urns" if odd else "urns need to be filled"
        raise ModelError(
            f"{what}: `balls` has a row for each urn, a number for each colour", path=path[:2], code="wrong-type"
        )
    with errors_at(path):
        balls = urns.read_balls(spec.parameters["balls"])
    if len(balls) != n_states:
        raise ModelError(
            f"balls for {len(balls)} urns, and there are {n_states} states", path=path, code="wrong-length"
        )
    return balls


def urns_of(spec: HMM, data: Data, sequences: Sequences, base: Any) -> tuple[UrnChain, UrnPart, np.ndarray]:
    """The chain, the column of colours and the rows of a model.

    Raises
    ------
    ModelError, DataError
        The balls, colours or data contradict each other.
    """
    if not isinstance(base, Chain) or base.order != 1:
        raise ModelError("urns need a plain chain of order 1", path=("model", "emission"), code="unsupported")
    column, balls = spec.columns[0], balls_of(spec, base.n_states)
    levels = np.asarray(data.labels.get(column, ()))
    if len(levels) != balls.shape[1]:
        raise DataError(
            f"column '{column}' has {len(levels)} colours, balls are given for {balls.shape[1]}: name them in order in"
            " `dims`",
            code="wrong-length",
        )
    rows = spread(sequences, read_columns(data, [column], [column]))
    codes = np.where(np.isnan(rows[:, 0]), -1, rows[:, 0]).astype(np.int64)
    draws = UrnDraws.of(balls, codes, sequences.offsets)
    part = UrnPart(
        columns=(column,), at=(0,), n_states=len(balls), emission=UrnColours(len(levels)), balls=balls,
        sequences=sequences, codes=codes,
    )  # fmt: skip
    return UrnChain(base, draws), part, rows
