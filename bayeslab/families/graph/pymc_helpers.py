"""Helper functions that a plain PyMC script contains where it needs them."""

from __future__ import annotations

import re

__all__ = ["HELPERS", "helpers_in"]

HELPERS = {
    "log_bernoulli": '''
def log_bernoulli(p, y):
    """Log probability of outcomes y; where it is log 0, its gradient is zero."""
    chance = pt.switch(y, p, 1 - p)
    possible = chance > 0
    return pt.switch(possible, pt.log(pt.switch(possible, chance, 1.0)), -np.inf)
''',
    "stationary": '''
def stationary(P):
    """The stationary distribution p of a Markov chain, p P = p: the solution of p (I - P + 1) = 1."""
    ones = pt.ones(P.shape[:-1])
    return pt.linalg.solve(pt.swapaxes(pt.eye(P.shape[-1]) - P + 1, -1, -2), ones[..., None])[..., 0]
''',
    "chain_log_evidence": '''
def chain_log_evidence(log_likelihood, initial, P, starts):
    """Log evidence of hidden Markov chains by the forward recursion, scaled as in Rabiner (1989).

    log_likelihood (time, ..., state): log density of the data of each time by state.
    initial (..., state): probabilities of the first state of a chain.
    P (..., state, next state): transition probabilities, or (time, ..., state, next state): those into each time.
    starts (time,): whether a chain starts at this time.
    """
    if P.ndim <= log_likelihood.ndim:
        P = pt.broadcast_to(P, (log_likelihood.shape[0], *P.shape))
    largest = pt.max(log_likelihood, axis=-1, keepdims=True)

    def step(likelihood, P, start, state, initial):
        state = pt.switch(start, initial, pt.sum(state[..., None] * P, axis=-2)) * likelihood
        total = pt.sum(state, axis=-1, keepdims=True)
        return state / total, pt.log(total)

    _, log_totals = scan(
        step,
        sequences=[pt.exp(log_likelihood - largest), P, pt.as_tensor(starts)],
        outputs_info=[pt.zeros_like(log_likelihood[0]), None],
        non_sequences=[initial],
        return_updates=False,
    )
    return pt.sum(log_totals) + pt.sum(largest)
''',
    "chain_with_lags_log_evidence": '''
def chain_with_lags_log_evidence(log_likelihood, initial, P):
    """Log evidence of a hidden Markov chain on whose latest states the data depend, by the forward recursion.

    log_likelihood (time, state, state one time before, ...): without the first times, which have no such past.
    initial (state,): probabilities of the first state.
    P (state, next state): transition probabilities.
    """
    lags = log_likelihood.ndim - 2
    move = pt.shape_padright(P.T, lags - 1)  # (next state, state, 1, ...)
    states = initial
    for lag in range(lags):
        states = pt.shape_padright(P.T, lag) * states[None]
    largest = pt.max(log_likelihood, axis=tuple(range(1, lags + 2)), keepdims=True)

    def step(likelihood, states, move):
        joint = states * likelihood
        total = pt.sum(joint)
        return move * pt.sum(joint / total, axis=-1)[None], pt.log(total)

    _, log_totals = scan(
        step,
        sequences=[pt.exp(log_likelihood - largest)],
        outputs_info=[states, None],
        non_sequences=[move],
        return_updates=False,
    )
    return pt.sum(log_totals) + pt.sum(largest)
''',
    "several_chains_log_evidence": '''
def several_chains_log_evidence(log_likelihood, initials, transitions, starts):
    """Log evidence of hidden Markov chains on whose states the data depend together, by the forward recursion.

    log_likelihood (time, state of the first chain, state of the second chain, ...).
    initials, transitions: (state,) and (state, next state) of each chain.
    starts (time,): whether all chains start at this time.
    """
    chains = len(initials)
    largest = pt.max(log_likelihood, axis=tuple(range(1, chains + 1)), keepdims=True)
    initial = 1.0
    for p in initials:
        initial = pt.shape_padright(initial) * p

    def step(likelihood, start, states, initial, *transitions):
        moved = states
        for P in transitions:  # the axis of this chain comes first, and goes last
            moved = pt.tensordot(moved, P, axes=[[0], [0]])
        joint = pt.switch(start, initial, moved) * likelihood
        total = pt.sum(joint)
        return joint / total, pt.log(total)

    _, log_totals = scan(
        step,
        sequences=[pt.exp(log_likelihood - largest), pt.as_tensor(starts)],
        outputs_info=[pt.zeros_like(log_likelihood[0]), None],
        non_sequences=[initial, *transitions],
        return_updates=False,
    )
    return pt.sum(log_totals) + pt.sum(largest)
''',
    "segments_log_evidence": '''
def segments_log_evidence(log_likelihood, initial, P, durations, starts):
    """Log evidence of hidden semi-Markov chains by the forward recursion over states and how long they have lasted.

    log_likelihood (time, state): log density of the data of each time by state.
    initial (state,), P (state, next state): probabilities of the first segment's state, and of the next segment's.
    durations (state, length): probabilities of lasting 1, 2, ... times; the end of a chain cuts its last segment off.
    starts (time,): whether a chain starts at this time.
    """
    lasts = pt.cumsum(durations[:, ::-1], axis=1)[:, ::-1]  # at least so long
    possible = lasts > 1e-150  # no state lasts longer; gradients divide by the square
    at_least = pt.switch(possible, lasts, 1.0)
    ends, lasts_on = pt.switch(possible, durations / at_least, 1.0), lasts[:, 1:] / at_least[:, :-1]
    largest = pt.max(log_likelihood, axis=1, keepdims=True)

    def step(likelihood, start, segments, initial, P, ends, lasts_on):
        entered = pt.switch(start, initial, pt.sum(segments * ends, axis=1) @ P)
        continued = pt.switch(start, 0.0, segments[:, :-1] * lasts_on)
        segments = pt.concatenate([entered[:, None], continued], axis=1) * likelihood[:, None]
        total = pt.sum(segments)
        return segments / total, pt.log(total)

    _, log_totals = scan(
        step,
        sequences=[pt.exp(log_likelihood - largest), pt.as_tensor(starts)],
        outputs_info=[pt.zeros_like(durations), None],
        non_sequences=[initial, P, ends, lasts_on],
        return_updates=False,
    )
    return pt.sum(log_totals) + pt.sum(largest)
''',
    "kalman_log_evidence": '''
def kalman_log_evidence(y, offset, sd, starts, H, F, Q, mean, covariance):
    """Log evidence of y = offset + H x + noise by the Kalman filter; rows where y is NaN are missing.

    The states are x = F x + normal(0, Q) from one time to the next, and normal(mean, covariance) where a series starts.
    """
    H, F, Q, mean, covariance = (pt.as_tensor(value).astype("float64") for value in (H, F, Q, mean, covariance))

    def step(y, offset, sd, start, m, C, H, F, Q, mean, covariance):
        m, C = pt.switch(start, mean, F @ m), pt.switch(start, covariance, F @ C @ F.T + Q)
        error, variance = y - offset - H @ m, H @ C @ H + sd**2
        known = pt.isfinite(y)
        gain = pt.switch(known, C @ H / variance, 0.0)
        log_density = -0.5 * (pt.log(2 * np.pi * variance) + error**2 / variance)
        m = m + gain * pt.switch(known, error, 0.0)
        return m, C - pt.outer(gain, gain) * variance, pt.switch(known, log_density, 0.0)

    rows = [pt.broadcast_to(pt.as_tensor(value), y.shape) for value in (offset, sd)]
    *_, log_densities = scan(
        step,
        sequences=[pt.as_tensor(y), *rows, pt.as_tensor(starts)],
        outputs_info=[pt.zeros_like(mean), pt.zeros_like(covariance), None],
        non_sequences=[H, F, Q, mean, covariance],
        return_updates=False,
    )
    return pt.sum(log_densities)
''',
    "seasonal_states": '''
def seasonal_states(period):
    """How the effects of the last period - 1 times move, and the covariance of standard normal effects of sum zero."""
    F = np.eye(period - 1, k=-1)
    F[0] = -1
    return F, np.eye(period - 1) - 1 / period
''',
    "process_log_evidence": '''
def process_log_evidence(residuals, sd, point, covariance):
    """Log density of residuals = f[point] + normal noise, with f normal of this covariance and integrated out.

    The noise's sd is one number or one for each row. The weighted mean of the rows at a point has all that they say
    about f.
    """
    n = covariance.shape[0]
    precision = pt.zeros(n)[point].inc(pt.ones(len(point)) / sd**2)
    mean = pt.zeros(n)[point].inc(residuals / sd**2) / precision
    noise = pm.logp(pm.Normal.dist(0, sd), residuals).sum() - pm.logp(pm.Normal.dist(0, precision**-0.5), mean).sum()
    return noise + pm.logp(pm.MvNormal.dist(np.zeros(mean.type.shape), covariance + pt.diag(1 / precision)), mean)
''',
}


def helpers_in(body: str) -> str:
    """The text of the functions that a script's text calls."""
    used = [text.strip("\n") for name, text in HELPERS.items() if re.search(rf"\b{name}\(", body)]
    return "\n\n\n".join(used)
