"""The posterior probability of regions of practical equivalence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError, hint
from bayeslab.labelled import Group
from bayeslab.results import convergence
from bayeslab.results.effects.estimates import check_rope

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Region", "Regions", "regions_of", "shares", "with_shares"]

type Region = tuple[float, float]
# One region for all quantities, or regions by quantity.
type Regions = Region | Mapping[str, Region]


def regions_of(rope: Any, labels: Sequence[str]) -> dict[str, Region]:
    """The region of each quantity that has one, by its label.

    Parameters
    ----------
    rope
        A region, its lower and its upper end, for all quantities; or regions by row (``b[x]``) or node (``b``), of
        which that of the row counts.

    Raises
    ------
    OptionError
        There is no such quantity, or a region is not two numbers in order.
    """
    if not isinstance(rope, Mapping):
        whole = check_rope(rope)
        return {} if whole is None else dict.fromkeys(labels, whole)
    known = dict.fromkeys(name for label in labels for name in (label, label.partition("[")[0]))
    for name in rope:
        if name not in known:
            raise OptionError(
                f"rope: no quantity '{name}' in the posterior{hint(name, known)}", code="unknown-variable"
            )
    checked = {str(name): region for name, given in rope.items() if (region := check_rope(given)) is not None}
    out = {}
    for label in labels:
        region = checked.get(label, checked.get(label.partition("[")[0]))
        if region is not None:
            out[label] = region
    return out


def shares(posterior: Group, regions: Mapping[str, Region]) -> dict[str, float]:
    """The share of the draws of each quantity that lies in its region, which is closed."""
    out = {}
    for block in convergence.blocks(posterior):
        flat: NDArray[Any] = block.values.reshape(-1, block.size)
        for i in range(block.size):
            label = block.label(i)
            if label in regions:
                low, high = regions[label]
                out[label] = float(np.mean((flat[:, i] >= low) & (flat[:, i] <= high)))
    return out


def with_shares(frame: pd.DataFrame, posterior: Group, rope: Any) -> pd.DataFrame:
    """A summary with the column ``in_rope`` beside its intervals; it is missing for rows without a region."""
    labels = [str(label) for label in frame.index]
    known = shares(posterior, regions_of(rope, labels))
    at = max(
        (k + 1 for k, name in enumerate(frame) if str(name).startswith(("eti", "hdi"))), default=len(frame.columns)
    )
    frame.insert(at, "in_rope", [known.get(label, np.nan) for label in labels])
    return frame
