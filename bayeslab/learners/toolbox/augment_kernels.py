"""Bilinear interpolation of moved images."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["warp"]


@kernel
def warp(images: Any, turns: Any, shifts: Any, out: Any) -> None:
    """Fill ``out``: interpolate each pixel at its source, found by undoing the shift and turning about the centre."""
    n, height, width = images.shape
    middle_row, middle_column = np.float32((height - 1) / 2), np.float32((width - 1) / 2)
    for k in range(n):
        image = images[k]
        for i in range(height):
            for j in range(width):
                y, x = i - middle_row - shifts[k, 0], j - middle_column - shifts[k, 1]
                r = turns[k, 0, 0] * y + turns[k, 0, 1] * x + middle_row
                c = turns[k, 1, 0] * y + turns[k, 1, 1] * x + middle_column
                r0, c0 = int(np.floor(r)), int(np.floor(c))
                fr, fc = r - r0, c - c0
                total = np.float32(0.0)
                for dr in range(2):
                    for dc in range(2):
                        if 0 <= r0 + dr < height and 0 <= c0 + dc < width:
                            a = fr if dr else 1 - fr
                            b = fc if dc else 1 - fc
                            total += np.float32(a * b) * image[r0 + dr, c0 + dc]
                out[k, i, j] = total
