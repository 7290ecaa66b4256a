"""The range of degrees of freedom that are learned, and their map to the real line."""

from __future__ import annotations

import numpy as np

from bayeslab import special

__all__ = ["DOF_ENDS", "dof_from_real", "dof_to_real"]

# Range of learned degrees of freedom, and the relative distance from its ends that a search keeps.
DOF_ENDS, _NEAR = (0.5, 200.0), 1e-9
_LEAST, _MOST = DOF_ENDS


def dof_to_real(dof: np.ndarray) -> np.ndarray:
    """Map learned degrees of freedom to the real line, for searches."""
    share = np.clip((dof - _LEAST) / (_MOST - _LEAST), _NEAR, 1 - _NEAR)
    return np.asarray(special.logit(share))


def dof_from_real(x: np.ndarray) -> np.ndarray:
    """The inverse of :func:`dof_to_real`."""
    return np.asarray(_LEAST + (_MOST - _LEAST) * special.expit(x))
