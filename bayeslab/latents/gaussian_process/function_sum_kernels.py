"""Functions integrated out of normal rows: log evidence and gradient by the parameters of functions and rows.

Row i is normal with mean μ_i + c_i f(p_i) and standard deviation σ_i, where p_i is the point that it has. Of all rows
of a point only two sums matter, w = Σ c²/σ² and t = Σ c (y - μ) / σ²: so matrices have a row for each point. The
function is a sum of Gaussian processes, f(p) = Σ_k g_k(p) f_k(p), with covariance K. With B = I + √w K √w the evidence
of t / √w is normal with covariance B, whose eigenvalues are one or more, so that no jitter is needed (equation 3.26 of
[1]_). A sum of sines f = A z with standard normal z has B = I + A' w A, of so many rows as there are sines.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Section 3.4.3.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import HALF_LOG_2PI
from bayeslab.latents.gaussian_process.covariance_kernels import (
    _dpotrf,
    _fill_lower,
    _gathered,
    _invert,
    _lower_gradient,
    _slots,
    _solve_in_place,
)
from bayeslab.latents.gaussian_process.state_space_kernels import matern_evidence, matern_states, smooth_path

__all__ = [
    "given_rows",
    "in_time_log_evidence_and_gradient",
    "log_evidence_and_gradient",
    "series_given_rows",
    "series_log_evidence_and_gradient",
]


# Beside a diagonal of one or more; products of smaller numbers would be below the normal range, where they are slow.
_NOTHING = 1e-150


@inner
def _at(values, i):  # type: ignore[no-untyped-def]
    """One number for all, or one for each."""
    return values[i] if len(values) > 1 else values[0]


@inner
def _points(y, point, c, offset, sigma, n_points):  # type: ignore[no-untyped-def]
    """w and t of each point; w[0] is NaN where a standard deviation is not positive."""
    w, t = np.zeros(n_points), np.zeros(n_points)
    for i in range(len(y)):
        s, scale = _at(sigma, i), _at(c, i)
        if not (s > 0.0 and s < math.inf):
            w[0] = math.nan
            return w, t
        w[point[i]] += (scale / s) ** 2
        t[point[i]] += scale * (y[i] - _at(offset, i)) / s / s
    return w, t


@inner
def _rows(y, point, c, offset, sigma, mean, variance, grad):  # type: ignore[no-untyped-def]
    """Σ log N(y; μ + c f, σ) at the mean of f, and the gradient of the log evidence by c, μ and σ, into ``grad``."""
    value, first = 0.0, len(c)
    for i in range(len(y)):
        p, s, scale = point[i], _at(sigma, i), _at(c, i)
        gap = y[i] - _at(offset, i) - scale * mean[p]
        value -= 0.5 * (gap / s) ** 2 + math.log(s) + HALF_LOG_2PI
        to_mean = gap / s / s
        grad[i if len(c) > 1 else 0] += to_mean * mean[p] - scale * variance[p] / s / s
        grad[first + (i if len(offset) > 1 else 0)] += to_mean
        spread = ((gap / s) ** 2 + (scale / s) ** 2 * variance[p] - 1.0) / s
        grad[first + len(offset) + (i if len(sigma) > 1 else 0)] += spread
    return value


@inner
def _covariances(block, first, last, theta, factors, sizes, ops, columns, at, fixed, x, batch, only):  # type: ignore[no-untyped-def]
    """K of the points from ``first`` to ``last`` (of function ``only``, or of all where that is negative)."""
    n = last - first
    single = np.empty((n, n)) if len(sizes) > 1 else block
    o, c, s, v, th, g = 0, 0, 0, 0, 0, 0
    block[:] = 0.0
    for k in range(len(sizes)):
        n_ops, n_columns, n_slots, n_inputs, n_theta, n_factors = sizes[k]
        if only < 0 or only == k:
            slots = _slots(theta[th : th + n_theta], at[s : s + n_slots], fixed[s : s + n_slots])
            inputs = np.ascontiguousarray(x[v : v + n_inputs, first:last])
            _fill_lower(ops[o : o + n_ops], columns[c : c + n_columns], slots, inputs, single)
            scale, group = factors[g : g + n_factors], batch[k, first:last]
            for i in range(n):
                a = 1.0 if only == k else _at(scale, first + i)
                for j in range(i + 1):
                    b = 1.0 if only == k else _at(scale, first + j)
                    if group[i] != group[j]:
                        if len(sizes) == 1:
                            block[i, j] = 0.0
                    elif len(sizes) == 1:
                        block[i, j] *= a * b
                    else:
                        block[i, j] += a * b * single[i, j]
        o, c, s, v, th, g = o + n_ops, c + n_columns, s + n_slots, v + n_inputs, th + n_theta, g + n_factors


@inner
def _solved(kept, u, root, weights):  # type: ignore[no-untyped-def]
    """√w B⁻¹ u and B⁻¹ (lower triangle, into ``weights``) of B = I + √w K √w, and what log evidence has of them.

    NaN where B has no factor.
    """
    n = len(u)
    for i in range(n):
        for j in range(i + 1):
            share = root[i] * kept[i, j] * root[j]
            weights[i, j] = share if abs(share) > _NOTHING else 0.0
        weights[i, i] += 1.0
    size, status, upper = np.array([n], np.int32), np.zeros(1, np.int32), np.array([85], np.uint8)
    alpha = u.copy()
    for i in range(n):
        if not math.isfinite(weights[i, i]):
            return alpha, math.nan
    _dpotrf(upper.ctypes, size.ctypes, weights.ctypes, size.ctypes, status.ctypes)
    if status[0] != 0:
        return alpha, math.nan
    _solve_in_place(weights, alpha, False)
    value = 0.0
    for i in range(n):
        value -= 0.5 * alpha[i] * alpha[i] + math.log(weights[i, i])
    _solve_in_place(weights, alpha, True)
    _invert(weights)
    return alpha * root, value


@inner
def _split(parameters, sizes, lengths):  # type: ignore[no-untyped-def]
    """θ, factors, c, offset and sigma."""
    a = int(sizes[:, 4].sum())
    b = a + int(sizes[:, 5].sum())
    c, d = b + lengths[0], b + lengths[0] + lengths[1]
    return parameters[:a], parameters[a:b], parameters[b:c], parameters[c:d], parameters[d:]


@kernel
def given_rows(parameters, y, point, starts, lengths, moving, sizes, batch, ops, columns, at, fixed, x):  # type: ignore[no-untyped-def]
    """What rows say: the derivative of the log evidence by the function at each point, and K⁻¹'s share in its variance.

    Returns
    -------
    alpha, w, inverse
        The derivative, w, and the diagonal of B⁻¹, by point; NaN where there is no factor.
    """
    theta, factors, c, offset, sigma = _split(parameters, sizes, lengths)
    w, t = _points(y, point, c, offset, sigma, x.shape[1])
    alpha, inverse, root = np.full(len(w), np.nan), np.ones(len(w)), np.sqrt(w)
    for b in range(len(starts) - 1):
        first, last = starts[b], starts[b + 1]
        kept, weights = np.zeros((last - first, last - first)), np.zeros((last - first, last - first))
        _covariances(kept, first, last, theta, factors, sizes, ops, columns, at, fixed, x, batch, -1)
        u = np.zeros(last - first)
        for i in range(last - first):
            if w[first + i] > 0.0:
                u[i] = t[first + i] / root[first + i]
        solution, value = _solved(kept, u, root[first:last], weights)
        if math.isnan(value):
            return alpha * np.nan, w, inverse
        alpha[first:last] = solution
        for i in range(last - first):
            inverse[first + i] = weights[i, i]
    return alpha, w, inverse


@kernel
def log_evidence_and_gradient(parameters, y, point, starts, lengths, moving, sizes, batch, ops, columns, at, fixed, x):  # type: ignore[no-untyped-def]
    """Log density of the rows with the functions integrated out, and its gradient.

    Parameters
    ----------
    parameters
        θ of each function; the factor of each (once, or by point); c, offset and sigma (once, or by row).
    y, point : ndarray (rows,)
    starts : ndarray of int
        Points between which nothing is shared follow each other in blocks: where these begin, and the end.
    lengths : ndarray of int (3,)
        Of c, offset and sigma.
    moving : ndarray of bool (functions,)
        Whether a factor is a parameter.
    sizes : ndarray of int (functions, 6)
        Instructions, columns of the program, slots, inputs, hyperparameters and factors of each function.
    batch : ndarray of int (functions, points)
        Values of a function in different batches are independent.
    ops, columns, at, fixed : ndarray
        Programs of the covariance functions, one after the other
        (:mod:`bayeslab.latents.gaussian_process.covariance_kernels`).
    x : ndarray (inputs, points)
    """
    grad = np.zeros(len(parameters))
    theta, factors, c, offset, sigma = _split(parameters, sizes, lengths)
    w, t = _points(y, point, c, offset, sigma, x.shape[1])
    if math.isnan(w[0]):
        return -np.inf, grad
    value, mean, variance = 0.0, np.zeros(len(w)), np.zeros(len(w))
    root, best = np.sqrt(w), np.zeros(len(w))
    for b in range(len(starts) - 1):
        first, last = starts[b], starts[b + 1]
        n = last - first
        u, block_root, plain = np.zeros(n), root[first:last], len(sizes) == 1 and len(factors) == 1 and not moving[0]
        for i in range(n):
            if block_root[i] > 0.0:
                u[i] = t[first + i] / block_root[i]
            else:
                plain = False
        plain = plain and factors[0] == 1.0
        # Of one function as it stands a block is one batch, and its covariance is overwritten.
        weights = np.empty((n, n))
        kept = weights if plain else np.empty((n, n))
        slots, inputs = _slots(theta, at, fixed), np.ascontiguousarray(x[:, first:last])
        if plain:
            _fill_lower(ops, columns, slots, inputs, weights)
        else:
            _covariances(kept, first, last, theta, factors, sizes, ops, columns, at, fixed, x, batch, -1)
        alpha, part = _solved(kept, u, block_root, weights)
        if math.isnan(part):
            return -np.inf, np.zeros(len(parameters))
        value += part
        for i in range(n):
            p = first + i
            if w[p] > 0.0:
                best[p] = t[p] / w[p]
                mean[p] = best[p] - alpha[i] / w[p]
                variance[p] = (1.0 - weights[i, i]) / w[p]
            else:
                for j in range(n):
                    mean[p] += (kept[i, j] if j <= i else kept[j, i]) * alpha[j]
        for i in range(n):
            for j in range(i + 1):
                weights[i, j] = 0.5 * (alpha[i] * alpha[j] - block_root[i] * weights[i, j] * block_root[j])
        if plain:
            grad[: len(theta)] += _gathered(_lower_gradient(ops, columns, slots, inputs, weights), at, len(theta))
            continue
        _to_functions(
            kept, weights, first, last, theta, factors, moving, sizes, batch, ops, columns, at, fixed, x, grad
        )
    # Of each point's rows, what they differ among each other, beside what the point has in common with others.
    rest = np.zeros(len(parameters) - len(theta) - len(factors))
    _rows(y, point, c, offset, sigma, mean, variance, rest)
    for i in range(len(y)):
        s = _at(sigma, i)
        value -= 0.5 * ((y[i] - _at(offset, i) - _at(c, i) * best[point[i]]) / s) ** 2 + math.log(s) + HALF_LOG_2PI
    grad[len(theta) + len(factors) :] = rest
    return value, grad


@inner
def _to_functions(kept, weights, first, last, theta, factors, moving, sizes, batch, ops, columns, at, fixed, x, grad):  # type: ignore[no-untyped-def]
    """Add the gradient by θ and by factors, from the derivatives by K (lower triangle of ``weights``)."""
    n = last - first
    block = np.empty((n, n))
    o, c, s, v, th, g = 0, 0, 0, 0, 0, 0
    for k in range(len(sizes)):
        n_ops, n_columns, n_slots, n_inputs, n_theta, n_factors = sizes[k]
        scale, group = factors[g : g + n_factors], batch[k, first:last]
        if n_theta > 0:
            for i in range(n):
                for j in range(i + 1):
                    shared = group[i] == group[j]
                    block[i, j] = weights[i, j] * _at(scale, first + i) * _at(scale, first + j) if shared else 0.0
            slots = _slots(theta[th : th + n_theta], at[s : s + n_slots], fixed[s : s + n_slots])
            inputs = np.ascontiguousarray(x[v : v + n_inputs, first:last])
            gradient = _lower_gradient(ops[o : o + n_ops], columns[c : c + n_columns], slots, inputs, block)
            grad[th : th + n_theta] += _gathered(gradient, at[s : s + n_slots], n_theta)
        if moving[k]:
            _covariances(block, first, last, theta, factors, sizes, ops, columns, at, fixed, x, batch, k)
            for i in range(n):
                for j in range(i + 1):
                    a, b = _at(scale, first + i), _at(scale, first + j)
                    step = weights[i, j] * block[i, j] * (1.0 if i == j else 2.0)
                    grad[len(theta) + g + (first + i if n_factors > 1 else 0)] += step * b
                    grad[len(theta) + g + (first + j if n_factors > 1 else 0)] += step * a
        o, c, s, v, th, g = o + n_ops, c + n_columns, s + n_slots, v + n_inputs, th + n_theta, g + n_factors


# ------------------------------------------------------------------------------------------ in time


@kernel
def in_time_log_evidence_and_gradient(parameters, y, point, starts, lengths, n_theta, ops, at, fixed, steps):  # type: ignore[no-untyped-def]
    """The same of one sum of Matérn processes of one column, in so many steps as there are points.

    Parameters
    ----------
    parameters
        θ; a factor, which is 1; c, offset and sigma (once, or by row).
    starts : ndarray of int
        Where the points of each batch begin, in the order of time, and the end.
    n_theta : ndarray of int (1,)
        How many hyperparameters there are.
    steps : ndarray (points,)
        From the point before; 0 at the first of a batch.
    """
    m, grad = n_theta[0], np.zeros(len(parameters))
    theta, first_c = parameters[:m], m + 1
    first_offset = first_c + lengths[0]
    first_sigma = first_offset + lengths[1]
    c, offset, sigma = parameters[first_c:first_offset], parameters[first_offset:first_sigma], parameters[first_sigma:]
    w, t = _points(y, point, c, offset, sigma, len(steps))
    if math.isnan(w[0]):
        return -np.inf, grad
    # The rows of a point say of it what one value with the variance 1 / w does.
    best, noise, value = np.full(len(w), np.nan), np.ones(len(w)), 0.0
    for p in range(len(w)):
        if w[p] > 0.0:
            best[p], noise[p] = t[p] / w[p], 1.0 / w[p]
            value += HALF_LOG_2PI - 0.5 * math.log(w[p])
    mean, variance = np.zeros(len(w)), np.zeros(len(w))
    for b in range(len(starts) - 1):
        first, last = starts[b], starts[b + 1]
        part, to_noise, to_value = matern_evidence(
            theta, ops, at, fixed, steps[first:last], best[first:last], noise[first:last], grad[:m]
        )
        if not part > -np.inf:
            return -np.inf, np.zeros(len(parameters))
        value += part
        silent = False
        for i in range(last - first):
            p = first + i
            if w[p] > 0.0:
                mean[p] = best[p] + to_value[i] / w[p]
                variance[p] = (1.0 - (to_value[i] ** 2 - 2.0 * to_noise[i]) / w[p]) / w[p]
            else:
                silent = True
        if silent:
            decay, stationary, h, orders, offsets, terms, _ = matern_states(theta, ops, at, fixed)
            path = smooth_path(
                decay, np.zeros(len(terms)), stationary, h, noise[first:last], np.zeros(len(terms), np.int64), orders,
                np.arange(len(terms) + 1), offsets, steps[first:last], best[first:last], h.reshape((1, -1)),
            )  # fmt: skip
            for p in range(first, last):
                if not w[p] > 0.0:
                    mean[p] = path[0][p - first, 0]
    rest = np.zeros(len(parameters) - first_c)
    _rows(y, point, c, offset, sigma, mean, variance, rest)
    grad[first_c:] = rest
    for i in range(len(y)):
        s, at_best = _at(sigma, i), best[point[i]]
        gap = y[i] - _at(offset, i) - (0.0 if math.isnan(at_best) else _at(c, i) * at_best)
        value -= 0.5 * (gap / s) ** 2 + math.log(s) + HALF_LOG_2PI
    return value, grad


# -------------------------------------------------------------------------------------------- sines


@inner
def _scales(parameters, lengths, of, m):  # type: ignore[no-untyped-def]
    """Where the factor of each feature's function begins among the parameters, and how many there are."""
    n_factors = lengths[3:]
    begins = m + np.cumsum(n_factors) - n_factors
    return begins[of], n_factors[of]


@inner
def _series(parameters, y, point, lengths, of, features, counts, gram):  # type: ignore[no-untyped-def]
    """A with f = A z, w, t, and the factor of B = I + A' w A; w[0] is NaN where there is none."""
    n_points, m = features.shape
    first = m + int(lengths[3:].sum())
    c, d = first + lengths[0], first + lengths[0] + lengths[1]
    w, t = _points(y, point, parameters[first:c], parameters[c:d], parameters[d:], n_points)
    begins, many = _scales(parameters, lengths, of, m)
    a, b = np.empty((n_points, m)), np.zeros((m, m))
    if not math.isfinite(w[0]):
        w[0] = math.nan
        return a, w, t, b
    same = True
    for j in range(m):
        same = same and many[j] == 1
        for p in range(n_points):
            a[p, j] = features[p, j] * parameters[j] * parameters[begins[j] + (p if many[j] > 1 else 0)]
    if same and len(gram) == m:
        # All rows have one weight: the products of features are known.
        u = w[0] / counts[0]
        for j in range(m):
            for k in range(m):
                b[j, k] = u * gram[j, k] * parameters[j] * parameters[begins[j]] * parameters[k] * parameters[begins[k]]
    else:
        scaled = a * np.sqrt(w).reshape((-1, 1))
        b = np.dot(scaled.T, scaled)
    for j in range(m):
        b[j, j] += 1.0
    if not np.all(np.isfinite(b)):
        w[0] = math.nan
        return a, w, t, b
    return a, w, t, np.linalg.cholesky(b)


@kernel
def series_given_rows(parameters, y, point, lengths, of, features, counts, gram):  # type: ignore[no-untyped-def]
    """Mean of the standard normals given the rows, the factor of their precision, A and w."""
    a, w, t, lower = _series(parameters, y, point, lengths, of, features, counts, gram)
    return np.linalg.solve(lower.T, np.linalg.solve(lower, np.dot(a.T, t))), lower, a, w


@kernel
def series_log_evidence_and_gradient(parameters, y, point, lengths, of, features, counts, gram):  # type: ignore[no-untyped-def]
    """The same of sums of fixed functions with normal weights.

    Parameters
    ----------
    parameters
        Standard deviation of each weight; the factor of each function (once, or by point); c, offset and sigma.
    lengths : ndarray of int (3 + functions,)
        Of c, offset, sigma and the factors.
    of : ndarray of int (features,)
        The function that each feature is of.
    features : ndarray (points, features)
    counts : ndarray (points,)
        Rows of each point.
    gram : ndarray (features, features)
        Products of the features, summed over rows; where rows have weights of their own it is empty.
    """
    n_points, m = features.shape
    a, w, t, lower = _series(parameters, y, point, lengths, of, features, counts, gram)
    if math.isnan(w[0]):
        return -np.inf, np.zeros(len(parameters))
    grad, first = np.zeros(len(parameters)), m + int(lengths[3:].sum())
    c, d = first + lengths[0], first + lengths[0] + lengths[1]
    z = np.linalg.solve(lower.T, np.linalg.solve(lower, np.dot(a.T, t)))
    inverse = np.linalg.inv(lower)
    inverse = np.dot(inverse.T, inverse)
    mean, variance, together = np.dot(a, z), np.zeros(n_points), len(gram) == m
    begins, many = _scales(parameters, lengths, of, m)
    free, u = t - w * mean, w[0] / counts[0]
    to_feature = np.dot(features.T, free)
    across = np.zeros((0, m))
    if not together:
        across = np.dot(a, inverse)
        variance = (across * a).sum(axis=1)
    rest, total = np.zeros(len(parameters) - first), 0.0
    value = _rows(y, point, parameters[first:c], parameters[c:d], parameters[d:], mean, variance, rest)
    value -= 0.5 * np.dot(z, z) + np.log(np.diag(lower)).sum()
    for j in range(m):
        root, place = parameters[j], begins[j]
        if together:
            # Σ_p w_p Cov(f_p, z_j) Φ_pj, of products that are known.
            shared = 0.0
            for k in range(m):
                shared += parameters[k] * parameters[begins[k]] * gram[k, j] * inverse[k, j]
            total += shared * root * parameters[place]
            step = z[j] * to_feature[j] - u * shared
            grad[j] += step * parameters[place]
            grad[place] += step * root
            continue
        for p in range(n_points):
            index = place + (p if many[j] > 1 else 0)
            step = (free[p] * z[j] - w[p] * across[p, j]) * features[p, j]
            grad[j] += step * parameters[index]
            grad[index] += step * root
    if together:  # the variances of f, summed over rows
        scale, s = parameters[first], parameters[d]
        rest[0] -= scale * total / s / s
        rest[len(rest) - 1] += (scale / s) ** 2 * total / s
    grad[first:] += rest
    return value, grad
