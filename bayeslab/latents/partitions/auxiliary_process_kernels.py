"""Compiled sweeps of a process mixture whose components keep their parameters: Neal's algorithm 8."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["log_densities", "sweep_auxiliary"]


@inner(error_model="numpy")
def _log_density(x: np.ndarray, mean: np.ndarray, root: np.ndarray, dof: float, constant: float) -> float:
    """Of a normal row, or with finite degrees of freedom of Student's t; ``root`` is an inverse Cholesky factor."""
    square = 0.0
    for i in range(len(x)):
        value = 0.0
        for j in range(i + 1):
            value += root[i, j] * (x[j] - mean[j])
        square += value * value
    if math.isinf(dof):
        return constant - 0.5 * square
    return constant - 0.5 * (dof + len(x)) * math.log1p(square / dof)


@kernel(error_model="numpy")
def log_densities(
    rows: np.ndarray, means: np.ndarray, roots: np.ndarray, dofs: np.ndarray, constants: np.ndarray
) -> np.ndarray:
    """Of each row in each component, (N, K)."""
    out = np.empty((len(rows), len(means)))
    for n in range(len(rows)):
        for k in range(len(means)):
            out[n, k] = _log_density(rows[n], means[k], roots[k], dofs[k], constants[k])
    return out


@kernel(error_model="numpy")
def sweep_auxiliary(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    means: np.ndarray,
    roots: np.ndarray,
    dofs: np.ndarray,
    constants: np.ndarray,
    count: int,
    fresh: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    n_auxiliary: int,
    alpha: float,
    discount: float,
) -> int:
    """Reassign each row in turn given all others and the components' parameters; the number of clusters.

    Arrays of components have room for N + ``n_auxiliary``; ``fresh`` has ``n_auxiliary`` draws from the base
    distribution for each row, which stand for the components that no row has yet.
    """
    n_rows = len(rows)
    sizes, logs = np.zeros(n_rows + n_auxiliary + 1, np.int64), np.empty(n_rows + n_auxiliary + 1)
    for n in range(n_rows):
        sizes[labels[n]] += 1
    for n in range(n_rows):
        current = labels[n]
        sizes[current] -= 1
        first = 0
        if sizes[current] == 0:
            # The parameters of a cluster of its own are one of the auxiliary ones.
            last = count - 1
            mean, root, dof, constant = means[current].copy(), roots[current].copy(), dofs[current], constants[current]
            if current != last:
                means[current], roots[current], dofs[current], constants[current] = (
                    means[last],
                    roots[last],
                    dofs[last],
                    constants[last],
                )
                sizes[current] = sizes[last]
                for m in range(n_rows):
                    if labels[m] == last:
                        labels[m] = current
            sizes[last] = 0
            count = last
            means[count], roots[count], dofs[count], constants[count] = mean, root, dof, constant
            first = 1
        for j in range(first, n_auxiliary):
            at = n * n_auxiliary + j
            means[count + j], roots[count + j] = fresh[0][at], fresh[1][at]
            dofs[count + j], constants[count + j] = fresh[2][at], fresh[3][at]
        new = math.log((alpha + discount * count) / n_auxiliary)
        top = -np.inf
        for c in range(count + n_auxiliary):
            weight = math.log(sizes[c] - discount) if c < count else new
            logs[c] = weight + _log_density(rows[n], means[c], roots[c], dofs[c], constants[c])
            top = max(top, logs[c])
        total = 0.0
        for c in range(count + n_auxiliary):
            logs[c] = math.exp(logs[c] - top)
            total += logs[c]
        point = rng.random() * total
        chosen = 0
        while chosen < count + n_auxiliary - 1:
            point -= logs[chosen]
            if point < 0.0:
                break
            chosen += 1
        if chosen >= count:
            if chosen != count:
                means[count], roots[count] = means[chosen], roots[chosen]
                dofs[count], constants[count] = dofs[chosen], constants[chosen]
            chosen = count
            count += 1
        labels[n] = chosen
        sizes[chosen] += 1
    return count
