"""EM never falls (Dempster, Laird, Rubin 1977): the law, and where its steps lead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def climbed(
    problem: Any, theta: Any, steps: int, *, rtol: float = 1e-9, atol: float = 0.0
) -> tuple[Any, NDArray[np.float64]]:
    """Parameters after so many steps, none of which fell, and the log posterior before each.

    Parameters
    ----------
    problem
        A plan's problem of EM, with or without priors.
    rtol, atol
        What rounding may take off a height, in parts of it and as it is.
    """
    heights = np.empty(steps)
    for step in range(steps):
        value, statistics = problem.expect(theta)
        heights[step] = value + problem.log_prior(theta)
        theta = problem.update(statistics, theta)
    assert np.all(np.diff(heights) >= -rtol * np.abs(heights[1:]) - atol), heights
    return theta, heights
