"""Data augmentation: images shifted, rotated and scaled by bilinear interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.learners.toolbox.augment_kernels import warp

__all__ = ["affine", "moved"]


def affine(images: Any, shift: Any = 0.0, angle: Any = 0.0, scale: Any = 1.0) -> NDArray[np.float32]:
    """Images rotated about their centre, scaled, and then shifted; pixels from outside an image are 0.

    Parameters
    ----------
    images
        Shape (images, side, side).
    shift
        Pixels downwards and to the right, shape (2,) or (images, 2), or one number for both.
    angle
        Radians, anticlockwise with the first row on top.
    scale
        Scale factor; values above 1 enlarge.
    """
    images = np.ascontiguousarray(images, np.float32)
    n = len(images)
    shifts = np.ascontiguousarray(np.broadcast_to(np.asarray(shift, np.float32), (n, 2)))
    angles = np.broadcast_to(np.asarray(angle, np.float32), n)
    scales = np.broadcast_to(np.asarray(scale, np.float32), n)
    # Source of each pixel of the result: the inverse rotation and scale.
    cos, sin = np.cos(angles) / scales, np.sin(angles) / scales
    turns = np.stack([np.stack([cos, sin], axis=-1), np.stack([-sin, cos], axis=-1)], axis=-2).astype(np.float32)
    out = np.empty_like(images)
    warp(images, turns, shifts, out)
    return out


def moved(
    images: Any, rng: np.random.Generator | np.random.RandomState, shift: float, angle: float, scale: float
) -> NDArray[np.float32]:
    """Each image transformed by independent random amounts, uniform between minus and plus the given limits.

    Parameters
    ----------
    shift
        Pixels.
    angle
        Degrees.
    scale
        Share: 0.1 means factors from 0.9 to 1.1.
    """
    n = len(images)
    return affine(
        images,
        rng.uniform(-shift, shift, (n, 2)),
        np.deg2rad(rng.uniform(-angle, angle, n)),
        1 + rng.uniform(-scale, scale, n),
    )
