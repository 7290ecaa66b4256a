"""Plots of images: the labels or the probabilities of a Markov random field on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.plots.figure import figure

__all__ = ["image"]


def image(values: np.ndarray, title: str, dims: Sequence[Any], states: Sequence[str] = ()) -> Any:
    """Plot an image, with a legend of states if there are any, else with a scale from 0 to 1.

    Parameters
    ----------
    values : ndarray (rows, columns)
        Numbers of states, or probabilities.
    """
    made, axis = figure(5.4, 4.0)
    top = max(len(states) - 1, 1)
    drawn = axis.imshow(values, cmap="cividis" if states else "gray_r", vmin=0, vmax=top, interpolation="nearest")
    axis.set(title=title, ylabel=str(dims[0]), xlabel=str(dims[1]))
    bar = made.colorbar(drawn, ax=axis)
    if states:
        bar.set_ticks(list(range(len(states))), labels=list(states))
    return made
