"""Back-propagation from the windows of a convolution to the units below."""

from __future__ import annotations

from typing import Any

from bayeslab.compiled import kernel

__all__ = ["scatter"]


@kernel
def scatter(windows: Any, out: Any, kernel: int, stride: int, padding: int) -> None:
    """Add every window (images * units, maps * kernel * kernel) to the positions that it covers in ``out``.

    Parameters
    ----------
    out
        Shape (images, side, side, maps).
    """
    n, side, _, n_maps = out.shape
    units = (side + 2 * padding - kernel) // stride + 1
    for k in range(n):
        for u in range(units):
            for v in range(units):
                row = windows[(k * units + u) * units + v]
                for m in range(n_maps):
                    for i in range(kernel):
                        r = u * stride + i - padding
                        if 0 <= r < side:
                            for j in range(kernel):
                                c = v * stride + j - padding
                                if 0 <= c < side:
                                    out[k, r, c, m] += row[(m * kernel + i) * kernel + j]
