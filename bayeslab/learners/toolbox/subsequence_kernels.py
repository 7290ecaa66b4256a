"""Kernel of the subsequence kernel: its dynamic programme."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["subsequences", "table"]


@kernel
def subsequences(s: np.ndarray, t: np.ndarray, length: int, decay: float) -> float:
    """Sum over common subsequences of this length of ``decay`` to the power of the total span in both texts."""
    n, m = s.shape[0], t.shape[0]
    if min(n, m) < length:
        return 0.0
    # prefix[i, j]: sum over common subsequences of s[:i] and t[:j], with spans counted to the ends of both.
    prefix = np.ones((n + 1, m + 1))
    square = decay * decay
    for _ in range(length - 1):
        following = np.zeros((n + 1, m + 1))
        for i in range(1, n + 1):
            # Subsequences that end with s[i-1]: the sum over its positions in t[:j].
            ending = 0.0
            for j in range(1, m + 1):
                ending *= decay
                if s[i - 1] == t[j - 1]:
                    ending += square * prefix[i - 1, j - 1]
                following[i, j] = decay * following[i - 1, j] + ending
        prefix = following
    total = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if s[i - 1] == t[j - 1]:
                total += square * prefix[i - 1, j - 1]
    return total


@kernel
def table(
    a: np.ndarray, a_ends: np.ndarray, b: np.ndarray, b_ends: np.ndarray, length: int, decay: float, same: bool
) -> np.ndarray:
    """Kernel values of all pairs of concatenated sequences, given their ends. ``same``: a and b are identical."""
    n, m = a_ends.shape[0], b_ends.shape[0]
    out = np.zeros((n, m))
    for i in range(n):
        s = a[(a_ends[i - 1] if i > 0 else 0) : a_ends[i]]
        for j in range(i if same else 0, m):
            t = b[(b_ends[j - 1] if j > 0 else 0) : b_ends[j]]
            out[i, j] = subsequences(s, t, length, decay)
            if same:
                out[j, i] = out[i, j]
    return out
