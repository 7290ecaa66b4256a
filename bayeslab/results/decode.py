"""Hidden states over time: of a fit, of a run folder, or of a model whose parameters are all given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab import registry
from bayeslab.dataset import Data
from bayeslab.errors import ModelError
from bayeslab.results.fit import Fit
from bayeslab.spec import Model

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["decode", "source_of"]


def decode(
    source: Any, data: Any = None, method: str = "viterbi", *, best: int = 1, sequence: str | None = None
) -> pd.DataFrame:
    """The hidden states of a model, time by time.

    Parameters
    ----------
    source
        A fit, the folder of a run, or a model (or its file) whose parameters are all given.
    data
        New sequences; None: the data of the fit, or those that the file names.
    method
        ``viterbi``: the most likely path, at the posterior mean; ``posterior``: the likeliest state of each
        time; ``smooth``, ``filter``, ``predict``: probabilities of all states given all rows, the rows up
        to the time, the rows before it. Probabilities are averaged over posterior draws.
    best
        So many most likely paths (viterbi).
    sequence
        Only this sequence.

    Returns
    -------
    pandas.DataFrame
        One row a time, gaps included; ``attrs["about"]`` says at which parameters.
    """
    import pandas as pd

    model, bound, draws = source_of(source, data)
    family = registry.load("families", model.model.family)
    if not hasattr(family, "decoded"):
        raise ModelError(f"the family {model.model.family} has no states over time to decode; hmm has")
    columns, about = family.decoded(model, bound, draws, method, best, sequence)
    frame = pd.DataFrame(columns)
    frame.attrs.update(about)
    return frame


def source_of(source: Any, data: Any) -> tuple[Model, Data, dict[str, np.ndarray]]:
    """A model, its data, and posterior draws by name (none where nothing was fitted)."""
    from bayeslab import fitting
    from bayeslab.results.predict import bound_to, posterior_values

    if isinstance(source, str | os.PathLike) and (Path(source) / "run.json").exists():
        source = fitting.open_run(source)
    if isinstance(source, Fit):
        bound = source.data if data is None else bound_to(source, data)
        return source.model, bound, posterior_values(source)
    bound = fitting.check(source, data)
    model = source if isinstance(source, Model) else fitting._Source(source).model
    return model, bound, {}
