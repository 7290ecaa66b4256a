"""Synthetic digits: strokes through fixed points, moved, turned, stretched and bent at random, drawn with soft edges."""

from __future__ import annotations

import numpy as np

# Corners of seven segments and a few more places, as (x, y) with y downwards.
_STROKES = {
    0: [[(0.2, 0.1), (0.8, 0.1), (0.8, 0.9), (0.2, 0.9), (0.2, 0.1)]],
    1: [[(0.3, 0.3), (0.5, 0.1), (0.5, 0.9)]],
    2: [[(0.2, 0.1), (0.8, 0.1), (0.8, 0.5), (0.2, 0.9), (0.8, 0.9)]],
    3: [[(0.2, 0.1), (0.8, 0.1), (0.45, 0.45), (0.8, 0.7), (0.6, 0.9), (0.2, 0.9)]],
    4: [[(0.6, 0.9), (0.6, 0.1), (0.2, 0.6), (0.85, 0.6)]],
    5: [[(0.8, 0.1), (0.2, 0.1), (0.2, 0.5), (0.8, 0.5), (0.8, 0.9), (0.2, 0.9)]],
    6: [[(0.7, 0.1), (0.2, 0.5), (0.2, 0.9), (0.8, 0.9), (0.8, 0.5), (0.2, 0.5)]],
    7: [[(0.2, 0.1), (0.8, 0.1), (0.4, 0.9)]],
    8: [[(0.2, 0.1), (0.8, 0.1), (0.2, 0.9), (0.8, 0.9), (0.2, 0.1)]],
    9: [[(0.8, 0.5), (0.2, 0.5), (0.2, 0.1), (0.8, 0.1), (0.8, 0.5), (0.6, 0.9)]],
}


def corners_of(digit: int) -> np.ndarray:
    """The places that the pen goes through, shape (places, 2)."""
    return np.array(_STROKES[digit][0])


def _drawn(corners: np.ndarray, size: int, width: float) -> np.ndarray:
    """Pixels by their distance to the nearest stroke."""
    at = (np.arange(size) + 0.5) / size
    pixels = np.stack(np.meshgrid(at, at), axis=-1)[:, :, None, :]
    start, step = corners[:-1], np.diff(corners, axis=0)
    along = np.clip(((pixels - start) * step).sum(axis=-1) / np.maximum((step**2).sum(axis=-1), 1e-12), 0, 1)
    distance = np.linalg.norm(pixels - start - along[..., None] * step, axis=-1).min(axis=-1)
    return np.clip((width - distance) * size + 0.5, 0, 1)


def sample(rng: np.random.Generator, n: int, size: int = 16, bend: float = 0.04) -> tuple[np.ndarray, np.ndarray]:
    """Images, shape (n, size²), brightness in [0, 1], and the digits."""
    digits = np.arange(n) % 10
    images = []
    for digit in digits:
        corners = corners_of(int(digit)) - 0.5
        angle = rng.normal(0, 0.12)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = corners @ (turn * rng.uniform(0.7, 0.95, 2)) + rng.normal(0, bend, corners.shape)
        images.append(_drawn(corners + 0.5 + rng.normal(0, 0.04, 2), size, rng.uniform(0.04, 0.09)).ravel())
    order = rng.permutation(n)
    return np.array(images)[order], digits[order]
