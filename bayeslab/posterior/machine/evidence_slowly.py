"""Log evidence of latent variables by NumPy: the slow twins of the kernels that programs call."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from bayeslab.python_evidence import value_at

__all__ = ["called_slowly", "evidence_slowly"]


def evidence_slowly(kernel: str, parameters: np.ndarray, *arrays: np.ndarray) -> float:
    """The log evidence that a kernel computes, by its name ``module:function``."""
    module, _, function = kernel.rpartition(".")[2].partition(":")
    return float(_TWINS[module, function](parameters, *arrays))


def called_slowly(kernel: str, first: np.ndarray, second: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """The values that a kernel of two arrays computes, by its name ``module:function``."""
    twins: dict[str, Any] = {
        "coloured": _coloured, "component_values": _component, "normal_terms_apart": _normal_terms,
    }  # fmt: skip
    return np.asarray(twins[kernel.partition(":")[2]](first, second, *arrays))


def _log_sum(values: np.ndarray, axis: int | None = None) -> Any:
    return np.logaddexp.reduce(values.ravel() if axis is None else values, axis=axis or 0)


# ------------------------------------------------------------------------------------------ chains


def _chain(parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> float:
    """Chains with dense matrices of transitions."""
    k = int(sizes[0])
    return _sparse_chain(parameters, offsets, sizes, k * np.arange(k + 1), np.tile(np.arange(k), k))


def _normal_chain(parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> float:
    """Chains whose states emit independent normal columns, NaN where a cell is missing."""
    k, n_starts, n_steps = (int(n) for n in sizes)
    length = n_starts * k + n_steps * k * k
    mean, sd = parameters[length:].reshape(2, k, -1)
    each = -0.5 * ((values[:, None] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return _chain(np.concatenate([parameters[:length], np.nansum(each, axis=2).ravel()]), offsets, sizes)


def _urns(
    parameters: np.ndarray, offsets: np.ndarray, begins: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> float:
    """Chains of urns that are drawn from without replacement: sums over the contents of the urns, row by row."""
    k = weights.shape[1]
    start, moves, emission = np.split(parameters, [k, k + k * k])
    moves, emission, total = moves.reshape(k, k), emission.reshape(-1, k), 0.0
    for first, end in pairwise(offsets.tolist()):
        if first == end:
            continue
        ahead = np.tile(start, (int(begins[first + 1] - begins[first]), 1))
        for t in range(first, end):
            contents = np.arange(begins[t], begins[t + 1])
            ahead = ahead + weights[contents] + emission[t]
            if t == end - 1:
                break
            moved = np.full((int(begins[t + 2] - begins[t + 1]), k), -np.inf)
            for each, follows in zip(ahead, targets[contents], strict=True):
                for state, to in enumerate(follows):
                    if to >= 0:
                        at = to - begins[t + 1]
                        moved[at] = np.logaddexp(moved[at], each[state] + moves[state])
            ahead = moved
        total += _log_sum(ahead)
    return total


def _sparse_chain(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, starts: np.ndarray, targets: np.ndarray
) -> float:
    """Chains with the transitions of edges, as matrices in which other transitions are impossible."""
    k, n_starts, n_steps = (int(n) for n in sizes)
    logs, edges, rest = np.split(parameters, [n_starts * k, n_starts * k + n_steps * len(targets)])
    moves = np.full((n_steps, k, k), -np.inf)
    moves[:, np.repeat(np.arange(k), np.diff(starts)), targets] = edges.reshape(n_steps, -1)
    emission, total = rest.reshape(-1, k), 0.0
    for s, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if begin == end:
            continue
        state = logs.reshape(n_starts, k)[s if n_starts > 1 else 0] + emission[begin]
        for t in range(begin + 1, end):
            state = _log_sum(state[:, None] + moves[t if n_steps > 1 else 0], axis=0) + emission[t]
        total += _log_sum(state)
    return total


def _segments(parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> float:
    """Segments of known lengths; the last one of a sequence may go on after its end if ``sizes[2]``."""
    k, longest, censored = (int(n) for n in sizes)
    start, moves, durations, emission = np.split(parameters, np.cumsum([k, k * k, k * longest]))
    moves, durations, emission = moves.reshape(k, k), durations.reshape(k, longest), emission.reshape(-1, k)
    alive = np.logaddexp.accumulate(durations[:, ::-1], axis=1)[:, ::-1]
    total = 0.0
    for begin, end in pairwise(offsets.tolist()):
        n = end - begin
        begins, ends, last = np.full((n, k), -np.inf), np.full((n, k), -np.inf), []
        for t in range(n):
            begins[t] = start if t == 0 else _log_sum(ends[t - 1][:, None] + moves, axis=0)
            for d in range(min(longest, t + 1)):
                run = begins[t - d] + emission[begin + t - d : begin + t + 1].sum(axis=0)
                ends[t] = np.logaddexp(ends[t], run + durations[:, d])
                if t == n - 1 and censored:
                    last.append(run + alive[:, d])
        total += _log_sum(np.array(last) if censored else ends[-1]) if n else 0.0
    return total


def _trees(parameters: np.ndarray, parents: np.ndarray, trees: np.ndarray, sizes: np.ndarray) -> float:
    """Trees whose parents come before their children, from the leaves to the roots."""
    k = int(sizes[0])
    start, moves, emission = np.split(parameters, [k, k + k * k])
    below, total = emission.reshape(-1, k).copy(), 0.0
    for cell in range(len(parents) - 1, -1, -1):
        if parents[cell] < 0:
            total += _log_sum(start + below[cell])
        else:
            below[parents[cell]] += _log_sum(moves.reshape(k, k) + below[cell], axis=1)
    return total


# -------------------------------------------------------------------------------------- components


def _components(parameters: np.ndarray, size: np.ndarray) -> float:
    """Rows of components with common weights, by their log densities in each."""
    k = int(size[0])
    return float(_log_sum((parameters[:k] + parameters[k:].reshape(-1, k)).T, axis=0).sum())


def _normal_components(parameters: np.ndarray, rows: np.ndarray) -> float:
    """Rows of components whose columns are independent normal ones."""
    d = rows.shape[1]
    k = len(parameters) // (1 + 2 * d)
    at, log_sd = parameters[k:].reshape(2, k, d)
    each = -0.5 * ((rows[:, None] - at) / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi)
    return _components(np.concatenate([parameters[:k], each.sum(axis=2).ravel()]), np.array([k]))


def _joint_normal_components(parameters: np.ndarray, rows: np.ndarray) -> float:
    """Rows of components with triangular factors W of their precisions W'W."""
    d = rows.shape[1]
    lower = np.tril_indices(d)
    k = len(parameters) // (1 + d + len(lower[0]))
    at, packed = parameters[k : k + k * d].reshape(k, d), parameters[k + k * d :].reshape(k, -1)
    each = np.empty((len(rows), k))
    for j in range(k):
        factor = np.zeros((d, d))
        factor[lower] = packed[j]
        z = (rows - at[j]) @ factor.T
        log_det = np.log(np.abs(np.diag(factor))).sum()
        each[:, j] = log_det - 0.5 * (z**2).sum(axis=1) - 0.5 * d * np.log(2 * np.pi)
    return _components(np.concatenate([parameters[:k], each.ravel()]), np.array([k]))


def _normal_terms(
    at: np.ndarray, packed: np.ndarray, rows: np.ndarray, white: np.ndarray, order: np.ndarray, offsets: np.ndarray,
    patterns: np.ndarray, centre: np.ndarray, root: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Squared distances and halves of log determinants of precisions over the observed cells of each row."""
    d = rows.shape[1]
    lower = np.tril_indices(d)
    means, triangles = at.reshape(-1, d), packed.reshape(-1, len(lower[0]))
    out = np.zeros((len(rows), 2 * len(means)))
    for k, (mean, triangle) in enumerate(zip(means, triangles, strict=True)):
        factor = np.zeros((d, d))
        factor[lower] = triangle
        spread = root @ np.linalg.inv(factor)
        covariance, place = spread @ spread.T, centre + root @ mean
        for i, row in enumerate(rows):
            there = ~np.isnan(row)
            within, gap = covariance[np.ix_(there, there)], (row - place)[there]
            out[i, k] = gap @ np.linalg.solve(within, gap)
            out[i, len(means) + k] = -0.5 * np.linalg.slogdet(within)[1]
    return out


# ---------------------------------------------------------------------------------------- features


def _factors(
    parameters: np.ndarray, sizes: np.ndarray, counts: np.ndarray, n_observed: np.ndarray, cells: np.ndarray,
    means: np.ndarray, scatters: np.ndarray,
) -> float:  # fmt: skip
    """Rows with the covariance W W' + noise, by the moments of each pattern of observed cells."""
    d, k = (int(n) for n in sizes)
    mean, loading, noise = np.split(parameters, [d, d + d * k])
    covariance, total = loading.reshape(d, k) @ loading.reshape(d, k).T + np.diag(noise**2), 0.0
    for n, size, at, middle, scatter in zip(counts, n_observed, cells, means, scatters, strict=True):
        there, gap = at[:size], middle[:size] - mean[at[:size]]
        within = covariance[np.ix_(there, there)]
        sign, log_det = np.linalg.slogdet(2 * np.pi * within)
        if not sign > 0.0:
            return -np.inf
        moments = scatter[:size, :size] + n * np.outer(gap, gap)
        total -= 0.5 * (n * log_det + np.trace(np.linalg.solve(within, moments)))
    return float(total)


def _binary_features(parameters: np.ndarray, rows: np.ndarray, sizes: np.ndarray) -> float:
    """Rows with features that are there or not, by enumeration."""
    k, d = int(sizes[0]), rows.shape[1]
    p, loading, offset, (noise,) = np.split(parameters, np.cumsum([k, k * d, d]))
    patterns = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(patterns == 1, np.log(p), np.log1p(-p)).sum(axis=1)
    gaps = rows[:, None] - offset - patterns @ loading.reshape(k, d)
    each = -0.5 * ((gaps / noise) ** 2).sum(axis=2) - d * (np.log(noise) + 0.5 * np.log(2 * np.pi))
    return float(_log_sum((logs + each).T, axis=0).sum())


# ------------------------------------------------------------------------------------------ states


def _states(
    flat: np.ndarray, y: np.ndarray, cells: np.ndarray, starts: np.ndarray, sets: np.ndarray, moves: np.ndarray,
    shapes: np.ndarray, sizes: np.ndarray,
) -> float:  # fmt: skip
    """A Kalman filter with whole matrices; components are blocks."""
    n_sets, n, d = int(sizes[0]), len(y), int(shapes[:, 0].sum())
    lengths = [n_sets * int(2 * m + 2 * m * m + m * q) for m, q in shapes]
    blocks = np.split(flat, np.cumsum([*lengths, *sizes[1 : len(shapes) + 3]])[:-1])
    parts = [_systems(block.reshape(n_sets, -1), int(m), int(q)) for block, (m, q) in zip(blocks, shapes, strict=False)]
    by_row = [np.broadcast_to(block, n) for block in blocks[len(shapes) :]]
    offset, sigma = by_row[-2:]
    if np.any(sigma < 0.0):
        return -np.inf
    state, covariance, total, r = np.zeros(d), np.zeros((d, d)), 0.0, 0
    for t in range(len(starts)):
        a, begin, move, noise, read = (_block_diagonal([part[k][sets[t]] for part in parts]) for k in range(5))
        if starts[t]:
            state, covariance = a.copy(), begin @ begin.T
        else:
            state, covariance = move @ state, move @ covariance @ move.T + noise @ noise.T
        while r < n and cells[r] == t:
            load = np.repeat([each[r] for each in by_row[:-2]], shapes[:, 0]) * read
            spread = covariance @ load
            variance, gap = load @ spread + sigma[r] ** 2, y[r] - offset[r] - load @ state
            if not 0.0 < variance < np.inf:
                return -np.inf
            total -= 0.5 * (np.log(2 * np.pi * variance) + gap**2 / variance)
            state, covariance = state + spread * gap / variance, covariance - np.outer(spread, spread) / variance
            r += 1
    return total


def _linear_gaussian(flat: np.ndarray, cells: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> float:
    """A Kalman filter whose observation noise is a matrix; NaN where a cell is missing."""
    p, d, total = cells.shape[1], 0, 0.0
    ends = np.zeros(9, int)
    while ends[-1] < flat.size:
        d += 1
        ends = np.cumsum([0, d, d * d, d * d, d * d, p * d, p * p, sizes[0] * d, sizes[1] * p])
    start, begin, move, noise, read, spread, *shifts = np.split(flat, ends[1:-1])
    begin, move, noise = (each.reshape(d, d) for each in (begin, move, noise))
    read, spread = read.reshape(p, d), spread.reshape(p, p)
    moved, offset = (
        np.broadcast_to(shift.reshape(-1, n) if shift.size else np.zeros(n), (len(cells), n))
        for shift, n in zip(shifts, (d, p), strict=True)
    )
    for first, end in pairwise(offsets.tolist()):
        mean, covariance = start, begin
        for t in range(first, end):
            if t > first:
                mean, covariance = move @ mean + moved[t], move @ covariance @ move.T + noise
            there = ~np.isnan(cells[t])
            if not there.any():
                continue
            load = read[there]
            gap = cells[t, there] - load @ mean - offset[t, there]
            within = load @ covariance @ load.T + spread[np.ix_(there, there)]
            sign, log_det = np.linalg.slogdet(2 * np.pi * within)
            if not sign > 0.0:
                return -np.inf
            total -= 0.5 * (log_det + gap @ np.linalg.solve(within, gap))
            gain = np.linalg.solve(within, load @ covariance).T
            mean, covariance = mean + gain @ gap, covariance - gain @ load @ covariance
    return total


def _systems(block: np.ndarray, d: int, q: int) -> tuple[np.ndarray, ...]:
    """a, A, T, R and h of each set."""
    a, begin, move, noise, read = np.split(block, np.cumsum([d, d * d, d * d, d * q]), axis=1)
    return a, begin.reshape(-1, d, d), move.reshape(-1, d, d), noise.reshape(-1, d, q), read


def _block_diagonal(parts: list[np.ndarray]) -> np.ndarray:
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    out = np.zeros(np.sum([part.shape for part in parts], axis=0))
    at = np.zeros(2, int)
    for part in parts:
        out[at[0] : at[0] + part.shape[0], at[1] : at[1] + part.shape[1]] = part
        at += part.shape
    return out


def _component(
    parameters: np.ndarray, normals: np.ndarray, starts: np.ndarray, places: np.ndarray, sets: np.ndarray,
    moves: np.ndarray, sizes: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Values of one component of states, time by time."""
    d, q = (int(n) for n in sizes)
    system, out = _systems(parameters, d, q), np.zeros(len(starts))
    state = np.zeros(d)
    for t in range(len(starts)):
        a, begin, move, noise, read = (part[sets[t]] for part in system)
        z = normals[places[t] : places[t] + (d if starts[t] else q)]
        state = a + begin @ z if starts[t] else move @ state + noise @ z
        out[t] = read @ state
    return out


# --------------------------------------------------------------------------------------- functions


def _coloured(
    theta: np.ndarray, z: np.ndarray, ops: np.ndarray, columns: np.ndarray, at: np.ndarray, fixed: np.ndarray,
    x: np.ndarray, base: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """L z of each row of z."""
    lower = _factor(_covariance(ops, columns, _slots(theta, at, fixed), x, _codes()), 0.0, float(base[0]))
    return np.full(z.shape, np.nan) if lower is None else z @ lower.T


def _factor(covariance: np.ndarray, noise: np.ndarray | float, base: float) -> np.ndarray | None:
    """The factor of a covariance with noise; more is added to the diagonal where there is none, up to a millionth."""
    n = len(covariance)
    mean = np.trace(covariance) / n
    for share in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        if 0.0 < share <= base:
            continue
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(covariance + np.diag(np.full(n, max(share, base) * mean) + noise))
    return None


def _marginal(
    parameters: np.ndarray, ops: np.ndarray, columns: np.ndarray, at: np.ndarray, fixed: np.ndarray, x: np.ndarray,
    y: np.ndarray, design: np.ndarray, known: np.ndarray, base: np.ndarray,
) -> float:  # fmt: skip
    """Normal rows about a function, which is integrated out."""
    m = len(parameters) - 1 - design.shape[1]
    theta, sd, b = parameters[:m], parameters[m], parameters[m + 1 :]
    covariance = _covariance(ops, columns, _slots(theta, at, fixed), x, _codes())
    lower = _factor(covariance, known + sd * sd, float(base[0]))
    if lower is None:
        return -np.inf
    z = np.linalg.solve(lower, y - design @ b)
    return float(-0.5 * (z @ z + len(y) * np.log(2 * np.pi)) - np.log(np.diag(lower)).sum())


def _marginal_in_time(
    parameters: np.ndarray, ops: np.ndarray, at: np.ndarray, fixed: np.ndarray, steps: np.ndarray, y: np.ndarray,
    design: np.ndarray, known: np.ndarray,
) -> float:  # fmt: skip
    """The same of one column in order, by its covariance."""
    columns, x = np.zeros(max(1, int((ops[:, 3] + ops[:, 4]).max())), int), np.cumsum(steps)[None]
    return _marginal(parameters, ops, columns, at, fixed, x, y, design, known, np.zeros(1))


def _function_likelihood(
    parameters: np.ndarray, ops: np.ndarray, columns: np.ndarray, at: np.ndarray, fixed: np.ndarray, x: np.ndarray,
    place: np.ndarray, y: np.ndarray, trials: np.ndarray, design: np.ndarray, base: np.ndarray, words: np.ndarray,
) -> float:  # fmt: skip
    """Rows of other distributions about a function of standard normals."""
    p, n = design.shape[1], x.shape[1]
    m = len(parameters) - 2 - p - n
    (first, second), b, z = parameters[m : m + 2], parameters[m + 2 : m + 2 + p], parameters[m + 2 + p :]
    covariance = _covariance(ops, columns, _slots(parameters[:m], at, fixed), x, _codes())
    lower = _factor(covariance, 0.0, float(base[0]))
    if lower is None:
        return -np.inf
    return _response(
        int(words[0]), int(words[1]), y, trials, (lower @ z)[place] + design @ b, float(first), float(second)
    )


def _predictor_likelihood(parameters: np.ndarray, y: np.ndarray, trials: np.ndarray, words: np.ndarray) -> float:
    """Rows of other distributions, given their linear predictor."""
    first, second, eta = float(parameters[0]), float(parameters[1]), parameters[2:]
    return _response(int(words[0]), int(words[1]), y, trials, eta, first, second)


def _response(
    word: int, link: int, y: np.ndarray, trials: np.ndarray, eta: np.ndarray, first: float, second: float
) -> float:
    """Log density of rows with a linear predictor."""
    from scipy.special import gammaln, log_expit, log_ndtr

    if word == 0:
        z = ((y - eta) / first) ** 2
        each = gammaln(0.5 * (second + 1.0)) - gammaln(0.5 * second) - 0.5 * np.log(np.pi * second) - np.log(first)
        return float((each - 0.5 * (second + 1.0) * np.log1p(z / second)).sum())
    if word == 3:
        return float((y * eta - np.exp(eta) - gammaln(y + 1.0)).sum())
    if word == 4:
        logs = gammaln(y + first) - gammaln(first) - gammaln(y + 1.0)
        total = np.log(first + np.exp(eta))
        return float((logs + first * (np.log(first) - total) + y * (eta - total)).sum())
    m = np.ones(len(y)) if word == 1 else trials
    log_share = log_ndtr if link == 1 else log_expit
    counts = gammaln(m + 1.0) - gammaln(y + 1.0) - gammaln(m - y + 1.0)
    return float((counts + y * log_share(eta) + (m - y) * log_share(-eta)).sum())


def _covariance(
    ops: np.ndarray, columns: np.ndarray, slots: np.ndarray, x: np.ndarray, codes: tuple[str, ...]
) -> np.ndarray:
    """The matrix of a covariance function, a postfix program, at inputs (columns, points)."""
    made: list[np.ndarray] = []
    n = x.shape[1]
    for code, at, count, first, width, option, left, right in ops.tolist():
        word, p = codes[code], slots[at : at + count]
        rows = x[columns[first : first + width]]
        gaps = rows[:, :, None] - rows[:, None, :]
        variance = p[0] ** 2 if count else 1.0
        match word:
            case "SUM":
                value = made[left] + made[right]
            case "PRODUCT":
                value = made[left] * made[right]
            case "CHANGE":
                share = 1.0 / (1.0 + np.exp(-p[1] * (rows[0] - p[0])))
                value = np.outer(1.0 - share, 1.0 - share) * made[left] + np.outer(share, share) * made[right]
            case "CONSTANT":
                value = np.full((n, n), p[0] ** option)
            case "WHITE":
                value = variance * np.eye(n)
            case "EXPQUAD" | "MATERN12" | "MATERN32" | "MATERN52" | "RATIONAL":
                lengths = p[2:] if word == "RATIONAL" else p[1:]
                squares = ((gaps / lengths[:, None, None]) ** 2).sum(axis=0)
                value = variance * _of_distance(word, squares, p)
            case "PERIODIC":
                value = variance * np.exp(-2.0 * (np.sin(np.pi * gaps[0] / p[1]) / p[2]) ** 2)
            case "COSINE":
                value = variance * np.cos(2.0 * np.pi * gaps[0] / p[1])
            case "BROWNIAN":
                value = variance * np.minimum(rows[0][:, None], rows[0])
            case "LINEAR":
                centred = rows - p[1:, None]
                value = variance * centred.T @ centred
            case "POLYNOMIAL":
                value = variance * (p[1] + rows.T @ rows) ** option
            case _:  # COREGION
                levels = (count - 1) // (option + 1)
                weights = p[1 : 1 + levels * option].reshape(levels, option)
                between = weights @ weights.T + np.diag(p[1 + levels * option :])
                value = between[np.ix_(rows[0].astype(int), rows[0].astype(int))]
        made.append(value)
    return made[-1]


def _of_distance(word: str, squares: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Correlations by squared distances in lengthscales (Rasmussen and Williams 2006, section 4.2)."""
    if word == "EXPQUAD":
        return np.exp(-0.5 * squares)
    if word == "RATIONAL":
        return np.asarray((1.0 + 0.5 * squares / p[1]) ** -p[1])
    r = {"MATERN12": 1.0, "MATERN32": 3.0, "MATERN52": 5.0}[word] ** 0.5 * np.sqrt(squares)
    factor = {"MATERN12": 1.0, "MATERN32": 1.0 + r, "MATERN52": 1.0 + r + r**2 / 3.0}[word]
    return np.asarray(factor * np.exp(-r))


def _codes() -> tuple[str, ...]:
    """The names of the instructions of covariance functions, by number."""
    from bayeslab.latents.gaussian_process import covariance_kernels as kernels

    named = {getattr(kernels, name): name for name in kernels.__all__ if name.isupper()}
    return tuple(named[k] for k in range(16))


def _slots(theta: np.ndarray, at: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    return np.where(at >= 0, theta[np.maximum(at, 0)] if len(theta) else 0.0, fixed)


def _normal_rows(
    y: np.ndarray, point: np.ndarray, by_row: list[np.ndarray], blocks: list[tuple[int, int, np.ndarray]]
) -> float:
    """Log density of rows y = offset + c f(point) + sigma e, with the covariance of f by independent blocks of points.

    In terms of the best value of f at each point and of B = I + √w K √w, with w = Σ c²/σ²: see Rasmussen and Williams
    (2006), section 3.4.3.
    """
    c, offset, sigma = (np.broadcast_to(each, len(y)) for each in by_row)
    if not np.all((sigma > 0.0) & (sigma < np.inf)):
        return -np.inf
    count = max((last for _, last, _ in blocks), default=0)
    w = np.bincount(point, (c / sigma) ** 2, minlength=count)
    t = np.bincount(point, c * (y - offset) / sigma**2, minlength=count)
    best = np.divide(t, w, out=np.zeros(count), where=w > 0.0)
    total = -0.5 * (((y - offset - c * best[point]) / sigma) ** 2 + np.log(2 * np.pi * sigma**2)).sum()
    for first, last, covariance in blocks:
        root = np.sqrt(w[first:last])
        b, u = np.eye(last - first) + root[:, None] * covariance * root, root * best[first:last]
        sign, log_det = np.linalg.slogdet(b)
        if not sign > 0.0 or not np.isfinite(log_det):
            return -np.inf
        total -= 0.5 * (u @ np.linalg.solve(b, u) + log_det)
    return float(total)


def _functions(
    parameters: np.ndarray, y: np.ndarray, point: np.ndarray, starts: np.ndarray, lengths: np.ndarray,
    moving: np.ndarray, sizes: np.ndarray, batch: np.ndarray, ops: np.ndarray, columns: np.ndarray, at: np.ndarray,
    fixed: np.ndarray, x: np.ndarray,
) -> float:  # fmt: skip
    """Sums of functions by their covariance at the points."""
    codes, whole = _codes(), np.zeros((x.shape[1],) * 2)
    thetas, factors = np.cumsum([0, *sizes[:, 4]]), sizes[:, 4].sum() + np.cumsum([0, *sizes[:, 5]])
    ends = [np.cumsum([0, *sizes[:, k]]) for k in range(4)]
    for k in range(len(sizes)):
        o, c, s, v = (slice(end[k], end[k + 1]) for end in ends)
        slots = _slots(parameters[thetas[k] : thetas[k + 1]], at[s], fixed[s])
        factor = np.broadcast_to(parameters[factors[k] : factors[k + 1]], x.shape[1])
        part = np.outer(factor, factor) * _covariance(ops[o], columns[c], slots, x[v], codes)
        whole += np.where(batch[k][:, None] == batch[k], part, 0.0)
    by_row = np.split(parameters[factors[-1] :], np.cumsum(lengths)[:-1])
    blocks = [(a, b, whole[a:b, a:b]) for a, b in pairwise(starts.tolist())]
    return _normal_rows(y, point, by_row, blocks)


def _functions_in_time(
    parameters: np.ndarray, y: np.ndarray, point: np.ndarray, starts: np.ndarray, lengths: np.ndarray,
    n_theta: np.ndarray, ops: np.ndarray, at: np.ndarray, fixed: np.ndarray, steps: np.ndarray,
) -> float:  # fmt: skip
    """One function of time by its covariance at the times of each batch."""
    m, codes, blocks = int(n_theta[0]), _codes(), list[tuple[int, int, np.ndarray]]()
    slots, columns = _slots(parameters[:m], at, fixed), np.zeros(max(1, int((ops[:, 3] + ops[:, 4]).max())), int)
    for a, b in pairwise(starts.tolist()):
        blocks.append((a, b, _covariance(ops, columns, slots, np.cumsum(steps[a:b])[None], codes)))
    by_row = np.split(parameters[m + 1 :], np.cumsum(lengths)[:-1])
    return _normal_rows(y, point, by_row, blocks)


def _series(
    parameters: np.ndarray, y: np.ndarray, point: np.ndarray, lengths: np.ndarray, of: np.ndarray,
    features: np.ndarray, counts: np.ndarray, gram: np.ndarray,
) -> float:  # fmt: skip
    """Sums of fixed functions with normal weights, f = A z, by the precision B = I + A' w A of z."""
    n_points, m = features.shape
    pieces = np.split(parameters, np.cumsum([m, *lengths[3:], *lengths[:3]])[:-1])
    factors = np.stack([np.broadcast_to(piece, n_points) for piece in pieces[1 : len(lengths) - 2]], axis=1)
    c, offset, sigma = (np.broadcast_to(piece, len(y)) for piece in pieces[-3:])
    if not np.all((sigma > 0.0) & (sigma < np.inf)):
        return -np.inf
    a = features * parameters[:m] * factors[:, of]
    w = np.bincount(point, (c / sigma) ** 2, minlength=n_points)
    t = np.bincount(point, c * (y - offset) / sigma**2, minlength=n_points)
    b = np.eye(m) + (a.T * w) @ a
    sign, log_det = np.linalg.slogdet(b)
    if not sign > 0.0 or not np.isfinite(log_det):
        return -np.inf
    z = np.linalg.solve(b, a.T @ t)
    gap = (y - offset - c * (a @ z)[point]) / sigma
    return float(-0.5 * ((gap**2 + np.log(2 * np.pi * sigma**2)).sum() + z @ z + log_det))


# -------------------------------------------------------------------------------------- Bayes nets


def _tables(
    parameters: np.ndarray,
    observed: np.ndarray,
    groups: np.ndarray,
    begins: np.ndarray,
    weights: np.ndarray,
    cards: np.ndarray,
    strides: np.ndarray,
    offsets: np.ndarray,
    completions: np.ndarray,
) -> float:
    """Tables of a Bayes net: the missing cells of each group are summed out one after the other."""
    with np.errstate(divide="ignore"):
        total = observed[observed > 0] @ np.log(parameters[observed > 0])
    for begin, weight in zip(begins.tolist(), weights.tolist(), strict=True):
        k, q = groups[begin : begin + 2].tolist()
        variables, families, places = np.split(groups[begin + 2 : begin + 2 + k + 2 * q], [k, k + q])
        factors, scale = list[tuple[np.ndarray, list[int]]](), 0.0
        for f, place in zip(families.tolist(), places.tolist(), strict=True):
            axes = [v for v in variables.tolist() if strides[f, v] > 0]
            digits = np.meshgrid(*(np.arange(cards[v]) * strides[f, v] for v in axes), indexing="ij")
            factors.append((parameters[offsets[f] + place + sum(digits)], axes))
        for v in variables.tolist():
            mine = [factor for factor in factors if v in factor[1]]
            axes = sorted({axis for _, each in mine for axis in each})
            number = {axis: i for i, axis in enumerate(axes)}
            operands = [part for array, each in mine for part in (array, [number[axis] for axis in each])]
            rest = [axis for axis in axes if axis != v]
            product = np.einsum(*operands, [number[axis] for axis in rest])
            largest = float(product.max())
            if not largest > 0.0:
                return -np.inf
            scale += np.log(largest)
            factors = [factor for factor in factors if v not in factor[1]] + [(product / largest, rest)]
        total += weight * (scale + sum(float(np.log(array)) for array, _ in factors))
    return float(total)


# ---------------------------------------------------------------------------------- Python functions


def _python_function(parameters: np.ndarray, address: np.ndarray) -> float:
    """The function itself, which has no twin."""
    if not np.isfinite(parameters).all():
        return -np.inf
    return value_at(address, parameters)


_TWINS: dict[tuple[str, str], Any] = {
    ("counting_kernels", "evidence_of_tables"): _tables,
    ("markov_kernels", "log_evidence_and_gradient"): _chain,
    ("markov_kernels", "gaussian_log_evidence_and_gradient"): _normal_chain,
    ("component_kernels", "log_evidence_and_gradient"): _components,
    ("component_kernels", "diagonal_gaussian_evidence"): _normal_components,
    ("component_kernels", "full_gaussian_evidence"): _joint_normal_components,
    ("factor_kernels", "factor_evidence"): _factors,
    ("feature_kernels", "binary_evidence"): _binary_features,
    ("covariance_kernels", "log_marginal"): _marginal,
    ("covariance_kernels", "log_likelihood_whitened"): _function_likelihood,
    ("covariance_kernels", "log_likelihood_of_predictor"): _predictor_likelihood,
    ("state_space_kernels", "log_marginal"): _marginal_in_time,
    ("urn_kernels", "log_evidence_and_gradient"): _urns,
    ("kalman_kernels", "log_evidence_and_gradient"): _linear_gaussian,
    ("markov_kernels", "log_evidence_and_gradient_sparse"): _sparse_chain,
    ("duration_kernels", "log_evidence_and_gradient"): _segments,
    ("branching_kernels", "log_evidence_and_gradient"): _trees,
    ("structural_kernels", "log_evidence_and_gradient"): _states,
    ("function_sum_kernels", "log_evidence_and_gradient"): _functions,
    ("function_sum_kernels", "in_time_log_evidence_and_gradient"): _functions_in_time,
    ("callback_kernels", "log_evidence_and_gradient"): _python_function,
    ("function_sum_kernels", "series_log_evidence_and_gradient"): _series,
}
