"""Images stored as rows: their shape, and shifted, rotated and scaled copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

__all__ = ["image_shape", "shifted", "shifts", "turned"]

Array = NDArray[np.float64]


def image_shape(n_columns: int, given: Sequence[int] | None = None) -> tuple[int, int]:
    """Height and width of images stored as rows.

    Parameters
    ----------
    n_columns
        Number of pixels.
    given
        The given shape; None: square, or one line of pixels if their number is not a square.
    """
    if given is not None:
        height, width = (int(n) for n in given)
        if height < 1 or width < 1 or height * width != n_columns:
            raise ValueError(f"images of {height} × {width} have {height * width} pixels; the rows have {n_columns}")
        return height, width
    side = math.isqrt(n_columns)
    return (side, side) if side * side == n_columns else (1, n_columns)


def shifts(reach: int, diagonal: bool = True) -> list[tuple[int, int]]:
    """Non-zero shifts (down, right) by up to ``reach`` pixels, along one axis or, if ``diagonal``, along both."""
    steps = range(-reach, reach + 1)
    return [(i, j) for i in steps for j in steps if (i, j) != (0, 0) and (diagonal or i == 0 or j == 0)]


def shifted(images: Any, down: int, right: int) -> Array:
    """Images (images, height, width) shifted by whole pixels; new pixels have the darkest value of all images."""
    images = np.asarray(images, float)
    out = np.full_like(images, images.min(initial=0.0) if images.size else 0.0)
    height, width = images.shape[1:]
    if abs(down) >= height or abs(right) >= width:
        return out
    to_rows, from_rows = _slices(down, height)
    to_columns, from_columns = _slices(right, width)
    out[:, to_rows, to_columns] = images[:, from_rows, from_columns]
    return out


def _slices(step: int, size: int) -> tuple[slice, slice]:
    return slice(max(step, 0), size + min(step, 0)), slice(max(-step, 0), size + min(-step, 0))


def turned(images: Any, degrees: float = 0.0, scale: float = 1.0) -> Array:
    """Images rotated anticlockwise about their centre and enlarged, by bilinear interpolation."""
    images = np.asarray(images, float)
    angle = math.radians(degrees)
    # Map from pixels of the result to pixels of the image; rows count downwards.
    back = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]) / scale
    middle = (np.array(images.shape[1:]) - 1) / 2
    dark = float(images.min(initial=0.0)) if images.size else 0.0
    return np.array([affine_transform(one, back, middle - back @ middle, order=1, cval=dark) for one in images])


def copies(images: Any, reach: int, degrees: float, scale: float) -> Iterator[Array]:
    """Yield the images under each transformation: shifts, both rotations, and both changes of size."""
    for down, right in shifts(reach):
        yield shifted(images, down, right)
    if degrees:
        yield from (turned(images, degrees), turned(images, -degrees))
    if scale != 1:
        yield from (turned(images, 0.0, scale), turned(images, 0.0, 1 / scale))
