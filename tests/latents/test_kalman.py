"""Linear dynamical systems against conditioning of the joint normal of all states and rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from bayeslab.latents.linear_gaussian.kalman import (
    LinearGaussian,
    em_step,
    filter_states,
    forecast,
    sample_states,
    simulate,
    smooth,
)
from tests.refusals import refused

# Annual flow of the Nile at Aswan, 1871-1970: Durbin, Koopman (2012), chapter 2.
NILE = np.array(
    [
        *[
            1120,
            1160,
            963,
            1210,
            1160,
            1160,
            813,
            1230,
            1370,
            1140,
            995,
            935,
            1110,
            994,
            1020,
            960,
            1180,
            799,
            958,
            1140,
        ],
        *[1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969],
        *[831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759],
        *[781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890],
        *[744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740],
    ],
    float,
)


def random_covariance(rng, n, rank=None):
    root = rng.normal(size=(n, n if rank is None else rank))
    return root @ root.T


def random_system(rng, d, p, n_rows=None, rank=None):
    offsets = {}
    if n_rows:
        offsets = {"state_offset": rng.normal(size=(n_rows, d)), "observation_offset": rng.normal(size=(n_rows, p))}
    return LinearGaussian(
        rng.normal(size=d),
        random_covariance(rng, d),
        0.7 * rng.normal(size=(d, d)),
        random_covariance(rng, d, rank),
        rng.normal(size=(p, d)),
        random_covariance(rng, p) + 0.1 * np.eye(p),
        **offsets,
    )


def joint(model, begin, end):
    """Mean and covariance of all states of one sequence and then all its rows."""
    n, d, p = end - begin, model.n_states, model.n_columns
    mean, covariance = np.zeros(n * (d + p)), np.zeros((n * (d + p),) * 2)
    m, c = model.start_mean, model.start_covariance
    for t in range(n):
        if t:
            b = 0 if model.state_offset is None else model.state_offset[begin + t]
            m, c = model.transition @ m + b, model.transition @ c @ model.transition.T + model.state_noise
        mean[t * d : (t + 1) * d] = m
        block = c
        for later in range(t, n):
            covariance[later * d : (later + 1) * d, t * d : (t + 1) * d] = block
            covariance[t * d : (t + 1) * d, later * d : (later + 1) * d] = block.T
            block = model.transition @ block
    states = slice(0, n * d)
    big = np.kron(np.eye(n), model.observation)
    shift = 0 if model.observation_offset is None else model.observation_offset[begin:end].ravel()
    mean[n * d :] = big @ mean[states] + shift
    covariance[n * d :, states] = big @ covariance[states, states]
    covariance[states, n * d :] = covariance[n * d :, states].T
    covariance[n * d :, n * d :] = big @ covariance[states, states] @ big.T + np.kron(
        np.eye(n), model.observation_noise
    )
    return mean, covariance


def condition(mean, covariance, n_hidden, values):
    """Mean and covariance of the first entries given the others that are not NaN, and the log density of these."""
    seen = n_hidden + np.flatnonzero(~np.isnan(values))
    hidden = np.arange(n_hidden)
    if not len(seen):
        return mean[hidden], covariance[np.ix_(hidden, hidden)], 0.0
    s = covariance[np.ix_(seen, seen)]
    gain = np.linalg.solve(s, covariance[np.ix_(seen, hidden)]).T
    known = values[seen - n_hidden]
    density = multivariate_normal(mean[seen], s).logpdf(known)
    return (
        mean[hidden] + gain @ (known - mean[seen]),
        covariance[np.ix_(hidden, hidden)] - gain @ covariance[np.ix_(seen, hidden)],
        density,
    )


def random_cases(seed, n):
    rng = np.random.default_rng(seed)
    for k in range(n):
        d, p = rng.integers(1, 4, 2)
        lengths = rng.integers(0, 6, rng.integers(1, 4))
        lengths[0] += 1
        offsets = np.append(0, lengths.cumsum())
        # State noise of rank d - 1 in every third case.
        model = random_system(rng, d, p, offsets[-1] if k % 2 else None, d - 1 if k % 3 == 0 and d > 1 else None)
        rows = rng.normal(0, 2, (offsets[-1], p))
        rows[rng.random(rows.shape) < 0.25] = np.nan
        rows[rng.random(len(rows)) < 0.1] = np.nan
        yield model, rows, offsets


@pytest.mark.slow(why="statistical")
def test_kalman():
    """Filter, smoother, neighbours' covariances and evidence equal conditioning of the joint normal.

    Cells and rows missing, sequences of several lengths, offsets, singular state noise.
    """
    for model, rows, offsets in random_cases(1, 150):
        d = model.n_states
        found = smooth(model, rows, offsets)
        for s, (begin, end) in enumerate(pairwise(offsets)):
            n = end - begin
            mean, covariance = joint(model, begin, end)
            m, c, density = condition(mean, covariance, n * d, rows[begin:end].ravel())
            assert found.log_evidence[s] == pytest.approx(density, rel=1e-9, abs=1e-9)
            np.testing.assert_allclose(found.mean[begin:end].ravel(), m, atol=1e-8)
            blocks = c.reshape(n, d, n, d)
            for t in range(n):
                np.testing.assert_allclose(found.covariance[begin + t], blocks[t, :, t], atol=1e-8)
                if t:
                    np.testing.assert_allclose(found.lag_covariance[begin + t], blocks[t, :, t - 1], atol=1e-8)
                past = rows[begin:end].copy()
                past[t + 1 :] = np.nan
                m, c, density = condition(mean, covariance, n * d, past.ravel())
                np.testing.assert_allclose(found.filtered.mean[begin + t], m[t * d : (t + 1) * d], atol=1e-8)
                own = c.reshape(n, d, n, d)[t, :, t]
                np.testing.assert_allclose(found.filtered.covariance[begin + t], own, atol=1e-8)
                assert found.filtered.log_predictive[begin : begin + t + 1].sum() == pytest.approx(density, abs=1e-8)


def test_a_static_state_gives_the_running_mean():
    rng = np.random.default_rng(2)
    y = rng.normal(5, 2, 40)
    model = LinearGaussian([0.0], [[1e10]], [[1.0]], [[0.0]], [[1.0]], [[4.0]])
    found = smooth(model, y)
    running = y.cumsum() / np.arange(1, 41)
    np.testing.assert_allclose(found.filtered.mean[:, 0], running, atol=1e-7)
    np.testing.assert_allclose(found.filtered.covariance[:, 0, 0], 4 / np.arange(1, 41), rtol=1e-8)
    np.testing.assert_allclose(found.mean[:, 0], running[-1], atol=1e-7)


def test_lds_factor_analysis():
    """Without dynamics each row is a factor analysis of its own; with diagonal noise EM is that of factor analysis."""
    rng = np.random.default_rng(3)
    loadings, noise = rng.normal(size=(5, 2)), np.diag(rng.uniform(0.5, 1.5, 5))
    model = LinearGaussian(np.zeros(2), np.eye(2), np.zeros((2, 2)), np.eye(2), loadings, noise)
    rows = rng.multivariate_normal(np.zeros(5), loadings @ loadings.T + noise, 300)
    each = multivariate_normal(np.zeros(5), loadings @ loadings.T + noise).logpdf(rows)
    found = smooth(model, rows)
    np.testing.assert_allclose(found.filtered.log_predictive, each, atol=1e-10)
    beta = loadings.T @ np.linalg.inv(loadings @ loadings.T + noise)
    np.testing.assert_allclose(found.mean, rows @ beta.T, atol=1e-11)
    np.testing.assert_allclose(found.covariance, np.tile(np.eye(2) - beta @ loadings, (300, 1, 1)), atol=1e-11)
    # One step of EM by Rubin and Thayer (1982).
    second = 300 * (np.eye(2) - beta @ loadings) + beta @ rows.T @ rows @ beta.T
    new = rows.T @ rows @ beta.T @ np.linalg.inv(second)
    unique = np.diag(rows.T @ rows - new @ beta @ rows.T @ rows) / 300
    fixed = ("start_mean", "start_covariance", "transition", "state_noise")
    after, _ = em_step(model, rows, fixed=fixed, diagonal=("observation_noise",))
    np.testing.assert_allclose(after.observation, new, atol=1e-10)
    np.testing.assert_allclose(after.observation_noise, np.diag(unique), atol=1e-10)
    assert after.transition is not None and np.all(after.transition == 0)


def local_level(noise, drift, start=1e7):
    return LinearGaussian([0.0], [[start]], [[1.0]], [[drift]], [[1.0]], [[noise]])


def test_nile_variances():
    """Durbin and Koopman (2012), section 2.10: 15099 and 1469.1, with log likelihood -632.54 without the first year."""
    assert NILE.sum() == 91935
    later = filter_states(local_level(15099, 1469.1), NILE).log_predictive[1:].sum()
    assert later == pytest.approx(-632.54, abs=0.01)

    def loss(x):
        return -filter_states(local_level(*np.exp(x)), NILE).log_predictive[1:].sum()

    best = minimize(loss, np.log([10_000, 1_000]), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9})
    assert np.exp(best.x) == pytest.approx([15099, 1469.1], rel=2e-3)
    # EM finds the same, slowly; its start is known to be vague.
    model = local_level(12_000, 2_000, 1e6)
    fixed = ("start_mean", "start_covariance", "transition", "observation")
    trace = []
    for _ in range(300):
        model, log_evidence = em_step(model, NILE, fixed=fixed)
        trace.append(log_evidence[0])
    assert np.all(np.diff(trace) > -1e-9)
    assert model.observation_noise[0, 0] == pytest.approx(15099, rel=0.02)
    assert model.state_noise[0, 0] == pytest.approx(1469.1, rel=0.05)


def test_em_never_lowers_the_evidence():
    for number, (model, rows, offsets) in enumerate(random_cases(4, 40)):
        fixed = [(), ("transition",), ("observation_noise", "start_mean"), ("state_noise", "observation")][number % 4]
        diagonal = [(), ("observation_noise",)][number // 4 % 2] if number % 4 != 2 else ()
        if diagonal:
            # A restricted maximum is above what was there only if that obeyed the restriction.
            arrays = {
                name: getattr(model, name)
                for name in ("start_mean", "start_covariance", "transition", "state_noise", "observation")
            }
            noise = np.diag(np.diag(model.observation_noise))
            model = LinearGaussian(
                **arrays,
                observation_noise=noise,
                state_offset=model.state_offset,
                observation_offset=model.observation_offset,
            )
        trace = []
        for _ in range(4):
            before = model
            model, log_evidence = em_step(model, rows, offsets, fixed=fixed, diagonal=diagonal)
            trace.append(log_evidence.sum())
            for name in fixed:
                np.testing.assert_array_equal(getattr(model, name), getattr(before, name))
        assert np.all(np.diff(trace) > -1e-7 * np.abs(trace[:-1])), (number, trace)


def test_em_stands_still_where_the_gradient_is_zero():
    """The fixed point of EM on ragged rows with missing cells is a maximum of the evidence."""
    rng = np.random.default_rng(5)
    truth = LinearGaussian([0.5], [[1.0]], [[0.8]], [[0.5]], [[1.0], [0.5]], np.diag([0.3, 0.6]))
    offsets = np.array([0, 60, 100, 150])
    rows = simulate(truth, offsets, rng)[1]
    rows[rng.random(rows.shape) < 0.2] = np.nan
    model, fixed = truth, ("start_mean", "start_covariance", "observation")
    for _ in range(400):
        model, _ = em_step(model, rows, offsets, fixed=fixed)
    base = filter_states(model, rows, offsets).log_evidence.sum()
    for name, change in (
        ("transition", np.ones((1, 1))),
        ("state_noise", np.ones((1, 1))),
        ("observation_noise", np.eye(2)),
        ("observation_noise", np.array([[0, 1.0], [1, 0]])),
    ):
        slopes = []
        for step in (1e-4, -1e-4):
            arrays = {f: getattr(model, f) for f in LinearGaussian.__dataclass_fields__}
            moved = LinearGaussian(**arrays | {name: arrays[name] + step * change})
            value = filter_states(moved, rows, offsets).log_evidence.sum()
            assert value < base + 1e-8
            slopes.append(value - base)
        assert abs(slopes[0] - slopes[1]) / 2e-4 < 1e-2


def test_drawn_states_have_the_smoothed_moments():
    model, rows, offsets = list(random_cases(6, 6))[3]
    n, found = 40_000, smooth(model, rows, offsets)
    draws = sample_states(model, rows, n, np.random.default_rng(7), offsets)
    variance = np.diagonal(found.covariance, axis1=1, axis2=2)
    assert np.all(np.abs(draws.mean(0) - found.mean) < 4.5 * np.sqrt(variance / n) + 1e-12)
    away = draws - found.mean
    scale = np.sqrt(variance[:, :, None] * variance[:, None, :]) + 1e-12
    assert np.all(np.abs(np.einsum("nti,ntj->tij", away, away) / n - found.covariance) < 6 * scale / np.sqrt(n) * 1.5)
    lag = np.einsum("nti,ntj->tij", away[:, 1:], away[:, :-1]) / n
    scale = np.sqrt(variance[1:, :, None] * variance[:-1, None, :]) + 1e-12
    assert np.all(np.abs(lag - found.lag_covariance[1:]) < 6 * scale / np.sqrt(n) * 1.5)


def test_simulated_rows_have_the_moments_of_the_model():
    rng = np.random.default_rng(8)
    model = random_system(rng, 2, 2, n_rows=3)
    many = LinearGaussian(
        *[getattr(model, f) for f in list(LinearGaussian.__dataclass_fields__)[:6]],
        np.tile(model.state_offset, (20_000, 1)),
        np.tile(model.observation_offset, (20_000, 1)),
    )
    states, rows = simulate(many, np.arange(0, 60_001, 3), rng)
    mean, covariance = joint(model, 0, 3)
    both = np.hstack([states.reshape(20_000, 6), rows.reshape(20_000, 6)])
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(both.mean(0) - mean) < 4.5 * sd / np.sqrt(20_000))
    assert np.all(np.abs(np.cov(both.T) - covariance) < 8 * np.outer(sd, sd) / np.sqrt(20_000))


def test_forecast_equals_rows_of_nan():
    model, rows, _ = next(c for c in random_cases(9, 20) if c[0].state_offset is None and len(c[1]) > 3)
    found = filter_states(model, rows)
    mean, covariance, row_mean, row_covariance = forecast(model, found.mean[-1], found.covariance[-1], 4)
    longer = filter_states(model, np.vstack([rows, np.full((4, rows.shape[1]), np.nan)]))
    np.testing.assert_allclose(mean, longer.mean[-4:], atol=1e-10)
    np.testing.assert_allclose(covariance, longer.covariance[-4:], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(row_mean, mean @ model.observation.T)
    assert row_covariance.shape == (4, model.n_columns, model.n_columns)


def test_stays_symmetric_and_non_negative_over_a_long_series():
    """A vague start and nearly exact rows, where the plain update of the covariance loses its sign."""
    model = LinearGaussian(
        np.zeros(3),
        1e8 * np.eye(3),
        np.array([[1, 1, 0.5], [0, 1, 1], [0, 0, 1]]),
        1e-6 * np.eye(3),
        np.eye(3)[:1],
        [[1e-6]],
    )
    _, rows = simulate(
        LinearGaussian(**{**vars(model), "start_covariance": np.eye(3)}), [0, 5000], np.random.default_rng(10)
    )
    found = smooth(model, rows)
    for covariance in (found.filtered.covariance, found.covariance):
        assert np.all(np.linalg.eigvalsh(covariance) > -1e-12 * np.trace(covariance, axis1=1, axis2=2)[:, None])
        np.testing.assert_array_equal(covariance, np.swapaxes(covariance, 1, 2))


# -------------------------------------------------------------------------------------------- gradient


@pytest.mark.slow(why="large")
def test_gradient_equals_differences():
    from bayeslab.latents.linear_gaussian.kalman_kernels import log_evidence_and_gradient

    for number, (model, rows, offsets) in enumerate(random_cases(11, 24)):
        parameters, sizes = model.flat()
        value, gradient = log_evidence_and_gradient(parameters, rows, offsets, sizes)
        assert value == pytest.approx(filter_states(model, rows, offsets).log_evidence.sum(), rel=1e-12)
        d, p = model.n_states, model.n_columns
        at = np.cumsum([0, d, d * d, d * d, d * d, p * d, p * p])
        for k in range(len(parameters)):
            step = np.zeros(len(parameters))
            step[k] = 1e-6
            # A covariance is changed on both sides of its diagonal.
            for first, size in ((at[1], d), (at[3], d), (at[5], p)):
                if first <= k < first + size * size:
                    i, j = divmod(k - first, size)
                    step[first + j * size + i] = 1e-6
            ahead, back = (log_evidence_and_gradient(parameters + s * step, rows, offsets, sizes)[0] for s in (1, -1))
            expected = (ahead - back) / 2e-6
            assert gradient @ step / 1e-6 == pytest.approx(expected, rel=2e-4, abs=2e-4), (number, k)


@pytest.mark.slow(why="compiles")
def test_gradient_in_a_graph():
    import pytensor
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence
    from bayeslab.latents.linear_gaussian.kalman import KERNEL

    model, _ = local_level(15099, 1469.1), None
    x = pt.dvector("x")
    rows, offsets = NILE[:, None], np.array([0, 100])
    value = log_evidence(KERNEL, x, rows, offsets, np.array([0, 0]))
    found = pytensor.function([x], [value, pt.grad(value, x)], mode=pytensor.compile.mode.Mode("py", "fast_compile"))
    parameters, _ = model.flat()
    assert found(parameters)[0] == pytest.approx(filter_states(model, NILE).log_evidence[0], rel=1e-13)
    # At the maximum of the likelihood without the first year the noises have no slope.
    assert abs(found(parameters)[1][[3, 5]]).max() < 1e-5


# ------------------------------------------------------------------------------------------- bad input


def test_bad_systems_are_refused():
    fine = {"start_mean": [0.0], "start_covariance": [[1.0]], "transition": [[1.0]], "state_noise": [[1.0]]}
    fine |= {"observation": [[1.0]], "observation_noise": [[1.0]]}
    for change, code, match in (
        ({"transition": [[1.0, 2.0]]}, "model.wrong-shape", r"transition.*\(1, 1\).*\(1, 2\)"),
        ({"state_noise": [[-1.0]]}, "model.not-a-covariance", "state_noise.*-1"),
        ({"observation": [[np.nan]]}, "model.not-finite", "^observation "),
        ({"observation_offset": np.zeros((3, 2))}, "model.wrong-shape", "observation_offset"),
    ):
        with refused(code, match):
            LinearGaussian(**fine | change)
    wide = {
        "start_mean": [0, 0],
        "start_covariance": [[1, 0.5], [0, 1]],
        "transition": np.eye(2),
        "state_noise": np.eye(2),
    }
    with refused("model.not-a-covariance"):
        LinearGaussian(**fine | wide | {"observation": [[1.0, 0]]})
    model = LinearGaussian(**fine)
    for rows, offsets, code, match in (
        (np.zeros((3, 2)), None, "data.wrong-shape", "rows.*1"),
        ([0, np.inf], None, "data.not-finite", "row 1"),
        (np.zeros(3), [0, 2], "data.not-in-order", "offsets"),
    ):
        with refused(code, match):
            smooth(model, rows, offsets)
    with refused("data.wrong-length", "state_offset.*2.*3"):
        smooth(LinearGaussian(**fine, state_offset=np.zeros((2, 1))), np.zeros(3))
    with refused("option.unknown-parameter", "'transition'"):
        em_step(model, np.zeros(3), fixed=("transitions",))
    exact = LinearGaussian(**fine | {"observation_noise": [[0.0]], "state_noise": [[0.0]]})
    with refused("evidence.degenerate", "row 1"):
        smooth(exact, np.zeros(3))
