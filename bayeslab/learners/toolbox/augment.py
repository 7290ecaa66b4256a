"""Images moved a little: shifted, turned and scaled, by bilinear interpolation; their labels stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.learners.toolbox.augment_kernels import warp

__all__ = ["affine", "moved"]


def affine(images: Any, shift: Any = 0.0, angle: Any = 0.0, scale: Any = 1.0) -> NDArray[np.float32]:
    """Images turned about their middle, scaled, and then shifted; outside of an image all is 0.

    Parameters
    ----------
    images
        Shape (images, side, side).
    shift
        Pixels downwards and to the right, shape (2,) or (images, 2), or one number for both.
    angle
        Radians, anticlockwise as an image is seen with its first row on top.
    scale
        Above 1 larger.
    """
    images = np.ascontiguousarray(images, np.float32)
    n = len(images)
    shifts = np.ascontiguousarray(np.broadcast_to(np.asarray(shift, np.float32), (n, 2)))
    angles = np.broadcast_to(np.asarray(angle, np.float32), n)
    scales = np.broadcast_to(np.asarray(scale, np.float32), n)
    # Where a pixel of the result comes from: the inverse turn and scale.
    cos, sin = np.cos(angles) / scales, np.sin(angles) / scales
    turns = np.stack([np.stack([cos, sin], axis=-1), np.stack([-sin, cos], axis=-1)], axis=-2).astype(np.float32)
    out = np.empty_like(images)
    warp(images, turns, shifts, out)
    return out


def moved(
    images: Any, rng: np.random.Generator | np.random.RandomState, shift: float, angle: float, scale: float
) -> NDArray[np.float32]:
    """Each image moved by its own random amounts, uniform up to those given on either side.

    Parameters
    ----------
    shift
        Pixels.
    angle
        Degrees.
    scale
        Share: 0.1 is from 0.9 to 1.1.
    """
    n = len(images)
    return affine(
        images,
        rng.uniform(-shift, shift, (n, 2)),
        np.deg2rad(rng.uniform(-angle, angle, n)),
        1 + rng.uniform(-scale, scale, n),
    )
