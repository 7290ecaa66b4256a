"""Log evidence of latent variables by NumPy: the slow twins of the kernels that programs call."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["called_slowly", "evidence_slowly"]


def evidence_slowly(kernel: str, parameters: np.ndarray, *arrays: np.ndarray) -> float:
    """The log evidence that a kernel computes, by its name ``module:function``."""
    module, _, function = kernel.rpartition(".")[2].partition(":")
    return float(_TWINS[module, function](parameters, *arrays))


def called_slowly(kernel: str, first: np.ndarray, second: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """The values that a kernel of two arrays computes, by its name ``module:function``."""
    twins: dict[str, Any] = {"coloured": _coloured, "component_values": _component}
    return np.asarray(twins[kernel.partition(":")[2]](first, second, *arrays))


def _log_sum(values: np.ndarray, axis: int | None = None) -> Any:
    return np.logaddexp.reduce(values.ravel() if axis is None else values, axis=axis or 0)


# ------------------------------------------------------------------------------------------ chains


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
    """L z of each row of z; more is added to the diagonal where there is no factor, up to a millionth."""
    covariance = _covariance(ops, columns, _slots(theta, at, fixed), x, _codes())
    mean = np.trace(covariance) / len(covariance)
    for share in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        if 0.0 < share <= base[0]:
            continue
        try:
            lower = np.linalg.cholesky(covariance + max(share, base[0]) * mean * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            continue
        return z @ lower.T
    return np.full(z.shape, np.nan)


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


_TWINS: dict[tuple[str, str], Any] = {
    ("markov_kernels", "log_evidence_and_gradient_sparse"): _sparse_chain,
    ("duration_kernels", "log_evidence_and_gradient"): _segments,
    ("branching_kernels", "log_evidence_and_gradient"): _trees,
    ("structural_kernels", "log_evidence_and_gradient"): _states,
    ("function_sum_kernels", "log_evidence_and_gradient"): _functions,
    ("function_sum_kernels", "in_time_log_evidence_and_gradient"): _functions_in_time,
    ("function_sum_kernels", "series_log_evidence_and_gradient"): _series,
}
