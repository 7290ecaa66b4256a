"""Kernels of one component of a structural time series: its values from standard normals, and their derivatives.

A component has the state x[1] = a + A z[1], x[t] = T x[t-1] + R z[t] and the value h' x[t]: the form of Durbin and
Koopman (2012), Time Series Analysis by State Space Methods, 2nd ed., section 3.1, with R Q R' written as R R'.
"""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["component_gradient", "component_values"]


@inner(error_model="numpy")
def _component_states(
    parameters: np.ndarray,
    normals: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """The states (cells, d) of one component: see :func:`component_values`."""
    d, q = sizes[0], sizes[1]
    to_start, to_move, to_noise = d, d + d * d, d + 2 * d * d
    states = np.zeros((len(starts), d))
    for t in range(len(starts)):
        theta, at = parameters[sets[t]], places[t]
        if starts[t]:
            for i in range(d):
                total = theta[i]
                for j in range(d):
                    total += theta[to_start + i * d + j] * normals[at + j]
                states[t, i] = total
            continue
        for k in range(len(moves)):
            i, j = moves[k, 0], moves[k, 1]
            states[t, i] += theta[to_move + i * d + j] * states[t - 1, j]
        for i in range(d):
            for j in range(q):
                states[t, i] += theta[to_noise + i * q + j] * normals[at + j]
    return states


@kernel(error_model="numpy")
def component_values(
    parameters: np.ndarray,
    normals: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """The values (cells,) of one component.

    ``parameters`` has in each row a, A, T, R and h; ``starts`` says at which cells series begin, ``places`` where in
    ``normals`` a cell's z begins, ``sets`` which row of the parameters it has; ``moves`` are the entries of T that can
    differ from zero, and ``sizes`` the lengths of x and of z.
    """
    d, q = sizes[0], sizes[1]
    last = d + 2 * d * d + d * q
    states = _component_states(parameters, normals, starts, places, sets, moves, sizes)
    out = np.zeros(len(starts))
    for t in range(len(starts)):
        for i in range(d):
            out[t] += parameters[sets[t], last + i] * states[t, i]
    return out


@kernel(error_model="numpy")
def component_gradient(
    parameters: np.ndarray,
    normals: np.ndarray,
    to_values: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """Derivatives by the parameters and the normals, one after the other, from those by the values."""
    d, q = sizes[0], sizes[1]
    to_start, to_move, to_noise = d, d + d * d, d + 2 * d * d
    last, n = to_noise + d * q, parameters.size
    states = _component_states(parameters, normals, starts, places, sets, moves, sizes)
    out = np.zeros(n + len(normals))
    flow, before = np.zeros(d), np.zeros(d)
    for t in range(len(starts) - 1, -1, -1):
        theta, at, base = parameters[sets[t]], places[t], sets[t] * parameters.shape[1]
        for i in range(d):
            flow[i] += theta[last + i] * to_values[t]
            out[base + last + i] += states[t, i] * to_values[t]
        before[:] = 0.0
        if starts[t]:
            for i in range(d):
                out[base + i] += flow[i]
                for j in range(d):
                    out[base + to_start + i * d + j] += flow[i] * normals[at + j]
                    out[n + at + j] += theta[to_start + i * d + j] * flow[i]
        else:
            for i in range(d):
                for j in range(q):
                    out[base + to_noise + i * q + j] += flow[i] * normals[at + j]
                    out[n + at + j] += theta[to_noise + i * q + j] * flow[i]
            for k in range(len(moves)):
                i, j = moves[k, 0], moves[k, 1]
                out[base + to_move + i * d + j] += flow[i] * states[t - 1, j]
                before[j] += theta[to_move + i * d + j] * flow[i]
        flow[:] = before
    return out
