"""Learning conditional linear-Gaussian nets: least squares, conjugate posteriors, and EM with missing cells."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.latents.networks.mixed_em import Options, em, random_start, restarts
from bayeslab.latents.networks.mixed_learning import conjugate, maximum_likelihood
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork, draws, log_density
from bayeslab.latents.networks.mixed_statistics import expected_statistics
from bayeslab.latents.networks.strong_junction_tree import query
from tests.refusals import refused


def random_network(rng, n_discrete=3, n_continuous=4):
    states = {f"d{i}": tuple("abc"[: rng.integers(2, 4)]) for i in range(n_discrete)}
    parents, tables, continuous = {}, {}, {}
    for i, v in enumerate(states):
        parents[v] = tuple(p for p in list(states)[:i] if rng.random() < 0.5)
        tables[v] = rng.dirichlet(np.ones(len(states[v])), size=tuple(len(states[p]) for p in parents[v]) or None)
    for i in range(n_continuous):
        above = [p for p in states if rng.random() < 0.4][:2] + [f"x{k}" for k in range(i) if rng.random() < 0.5]
        above = tuple(rng.permutation(above)) if above else ()
        shape = tuple(len(states[p]) for p in above if p in states)
        slopes = rng.normal(size=(*shape, sum(p not in states for p in above)))
        continuous[f"x{i}"] = LinearGaussian(above, rng.normal(size=shape) * 2, slopes, rng.gamma(4, 0.2, size=shape))
    return MixedNetwork(states, parents, tables, continuous)


def with_gaps(rng, codes, values, share=0.25):
    codes, values = codes.copy(), values.copy()
    codes[rng.random(codes.shape) < share] = -1
    values[rng.random(values.shape) < share] = np.nan
    return codes, values


def given(network, code, value):
    out = {v: network.states[v][c] for v, c in zip(network.states, code, strict=True) if c >= 0}
    return out | {v: x for v, x in zip(network.continuous, value, strict=True) if not np.isnan(x)}


# ------------------------------------------------------------------------------------ complete data


@pytest.mark.parametrize("seed", range(5))
def test_maximum_likelihood_is_least_squares_for_each_configuration(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    codes, values = draws(network, rng, 3000)
    found = maximum_likelihood(network, codes, values)
    names, discrete = list(network.continuous), list(network.states)
    for v, node in found.continuous.items():
        above = [names.index(p) for p in network.continuous_parents(v)]
        for at in np.ndindex(node.sd.shape):
            rows = np.ones(3000, bool)
            for p, c in zip(network.discrete_parents(v), at, strict=True):
                rows &= codes[:, discrete.index(p)] == c
            if rows.sum() < 10:
                continue
            design = np.column_stack([np.ones(rows.sum()), values[rows][:, above]])
            y = values[rows, names.index(v)]
            beta = np.linalg.lstsq(design, y, rcond=None)[0]
            np.testing.assert_allclose([node.intercept[at], *node.slopes[at]], beta, atol=1e-9)
            assert node.sd[at] == pytest.approx(np.sqrt(np.mean((y - design @ beta) ** 2)), rel=1e-9)
    for v, table in found.tables.items():
        for at in np.ndindex(table.shape[:-1]):
            rows = np.ones(3000, bool)
            for p, c in zip(network.parents[v], at, strict=True):
                rows &= codes[:, discrete.index(p)] == c
            shares = np.bincount(codes[rows, discrete.index(v)], minlength=table.shape[-1]) / max(rows.sum(), 1)
            np.testing.assert_allclose(table[at], shares if rows.any() else 1 / table.shape[-1], atol=1e-12)


def test_ml_linear_gaussian_line():
    """y = θ1 x + θ2 + noise: least squares, σ² = RSS / N; fifty points recover the line."""
    rng = np.random.default_rng(20)
    x = rng.uniform(0, 1, 50)
    y = 1.5 * x + 0.3 + rng.normal(0, 0.1, 50)
    found = maximum_likelihood(
        MixedNetwork.blank({}, {}, {"x": (), "y": ("x",)}), np.zeros((50, 0)), np.column_stack([x, y])
    )
    node = found.continuous["y"]
    line = stats.linregress(x, y)
    assert node.slopes[0] == pytest.approx(line.slope, rel=1e-12)
    assert node.intercept == pytest.approx(line.intercept, rel=1e-12)
    residuals = y - line.intercept - line.slope * x
    assert node.sd**2 == pytest.approx(np.sum(residuals**2) / 50, rel=1e-12)
    assert abs(node.slopes[0] - 1.5) < 4 * line.stderr
    assert abs(node.intercept - 0.3) < 4 * line.intercept_stderr
    assert abs(node.sd - 0.1) < 4 * 0.1 / np.sqrt(100)


def test_ml_linear_gaussian_is_a_maximum():
    """No small change of θ1, θ2 or σ raises the likelihood."""
    rng = np.random.default_rng(21)
    values = rng.normal(size=(30, 2)) @ np.array([[1.0, 0.7], [0.0, 0.5]])
    codes = np.zeros((30, 0), int)
    found = maximum_likelihood(MixedNetwork.blank({}, {}, {"x": (), "y": ("x",)}), codes, values)
    best, y = log_density(found, codes, values).sum(), found.continuous["y"]
    for step in (-1e-3, 1e-3):
        for other in (
            LinearGaussian(("x",), y.intercept + step, y.slopes, y.sd),
            LinearGaussian(("x",), y.intercept, y.slopes + step, y.sd),
            LinearGaussian(("x",), y.intercept, y.slopes, y.sd + step),
        ):
            worse = MixedNetwork({}, {}, {}, {**found.continuous, "y": other})
            assert log_density(worse, codes, values).sum() < best


def test_configurations_without_rows():
    network = MixedNetwork.blank({"c": ("a", "b"), "e": ("u", "v")}, {"e": ("c",)}, {"x": ("c",)})
    values = np.array([[1.0], [2.0], [3.0]])
    found = maximum_likelihood(network, np.array([[0, 1]] * 3), values)
    np.testing.assert_array_equal(found.tables["e"][1], [0.5, 0.5])
    np.testing.assert_allclose(found.continuous["x"].intercept, [2.0, 2.0])
    np.testing.assert_allclose(found.continuous["x"].sd, np.sqrt([2 / 3, 2 / 3]))


@pytest.mark.slow(why="statistical")
def test_conjugate_posterior_is_normal_inverse_gamma():
    rng = np.random.default_rng(1)
    network = random_network(rng, 2, 3)
    codes, values = draws(network, rng, 300)
    priors = {
        v: NormalInverseGamma(np.zeros(1 + k), np.eye(1 + k), 2.0, 1.5)
        for v, k in ((v, len(network.continuous_parents(v))) for v in network.continuous)
    }
    found = conjugate(network, codes, values, dirichlet=0.5, regressions=priors)
    log_evidence = 0.0
    names, discrete = list(network.continuous), list(network.states)
    for v, node in network.continuous.items():
        above = [names.index(p) for p in network.continuous_parents(v)]
        for at in np.ndindex(node.sd.shape):
            rows = np.ones(300, bool)
            for p, c in zip(network.discrete_parents(v), at, strict=True):
                rows &= codes[:, discrete.index(p)] == c
            # Marginally, y is a multivariate Student t.
            design, y = np.column_stack([np.ones(rows.sum()), values[rows][:, above]]), values[rows, names.index(v)]
            if len(y):
                shape = 1.5 / 2.0 * (np.eye(len(y)) + design @ design.T)
                log_evidence += stats.multivariate_t(np.zeros(len(y)), shape, df=4.0).logpdf(y)
            mean = np.linalg.solve(np.eye(design.shape[1]) + design.T @ design, design.T @ y)
            np.testing.assert_allclose(found.regressions[v][at].mu, mean, atol=1e-10)
    for v, table in network.tables.items():
        counts = np.zeros(table.shape)
        np.add.at(counts, tuple(codes[:, discrete.index(u)] for u in (*network.parents[v], v)), 1)
        np.testing.assert_array_equal(found.tables[v].a, counts + 0.5)
        flat = counts.reshape(-1, table.shape[-1])
        log_evidence += sum(
            stats.dirichlet_multinomial(np.full(len(c), 0.5), int(c.sum())).logpmf(c)
            - stats.multinomial(int(c.sum()), np.full(len(c), 1 / len(c))).logpmf(c)
            + c.sum() * np.log(1 / len(c))
            for c in flat.astype(int)
        )
    assert found.log_evidence == pytest.approx(log_evidence, rel=1e-9)
    mean = found.mean()
    draw = found.draw(rng)
    assert {*mean.continuous} == {*draw.continuous} and np.all(draw.continuous["x0"].sd > 0)


def test_flat_priors_give_least_squares():
    rng = np.random.default_rng(2)
    network = random_network(rng, 1, 3)
    codes, values = draws(network, rng, 500)
    posterior, likeliest = conjugate(network, codes, values).mean(), maximum_likelihood(network, codes, values)
    assert np.isnan(conjugate(network, codes, values).log_evidence)
    for v, node in posterior.continuous.items():
        np.testing.assert_allclose(node.intercept, likeliest.continuous[v].intercept, atol=1e-9)
        np.testing.assert_allclose(node.slopes, likeliest.continuous[v].slopes, atol=1e-9)
    with refused("model.dependent-columns"):
        conjugate(network, codes[:1], values[:1])


# ------------------------------------------------------------------------------------------ the E-step


@pytest.mark.parametrize("seed", range(6))
def test_expected_statistics_equal_one_exact_query_a_row(seed):
    """Log densities, counts and first moments by the strong junction tree; second moments of single variables too."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, 4)
    codes, values = with_gaps(rng, *draws(network, rng, 40), share=0.4)
    found = expected_statistics(network, codes, values)
    counts = {v: np.zeros(len(s)) for v, s in network.states.items()}
    first, second = dict.fromkeys(network.continuous, 0.0), dict.fromkeys(network.continuous, 0.0)
    for row in range(40):
        answer = query(network, given(network, codes[row], values[row]))
        assert found.log_density[row] == pytest.approx(answer.log_evidence, abs=1e-9)
        for v in network.states:
            counts[v] += answer.discrete[v]
        for v in network.continuous:
            mixture = answer.continuous[v]
            first[v] += mixture.mean
            second[v] += mixture.sd**2 + mixture.mean**2
    for v in network.states:
        np.testing.assert_allclose(found.counts[v].reshape(-1, len(counts[v])).sum(axis=0), counts[v], atol=1e-8)
    for v in network.continuous:
        total = found.moments[v].reshape(-1, *found.moments[v].shape[-2:]).sum(axis=0)
        np.testing.assert_allclose([total[0, 0], total[0, -1], total[-1, -1]], [40, first[v], second[v]], rtol=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("seed", range(4))
def test_expected_statistics_are_the_gradient(seed):
    """Fisher's identity: d log p / d parameter from expected statistics = finite differences of the log density.

    This ties down cross moments and the joint counts with parents.
    """
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng, 2, 4)
    codes, values = with_gaps(rng, *draws(network, rng, 25), share=0.4)
    found = expected_statistics(network, codes, values)

    def total(changed):
        return expected_statistics(changed, codes, values).log_density.sum()

    h = 1e-5
    for v, node in network.continuous.items():
        for at in np.ndindex(node.sd.shape):
            moments = found.moments[v][at]
            beta = np.array([node.intercept[at], *node.slopes[at]])
            slope = (moments[:-1, -1] - moments[:-1, :-1] @ beta) / node.sd[at] ** 2
            contrast = np.array([*-beta, 1.0])
            by_sd = contrast @ moments @ contrast / node.sd[at] ** 3 - moments[0, 0] / node.sd[at]
            for k, expected in enumerate([*slope, by_sd]):
                ends = []
                for step in (h, -h):
                    intercept, slopes, sd = node.intercept.copy(), node.slopes.copy(), node.sd.copy()
                    if k == 0:
                        intercept[at] += step
                    elif k < len(beta):
                        slopes[(*at, k - 1)] += step
                    else:
                        sd[at] += step
                    moved = LinearGaussian(node.parents, intercept, slopes, sd)
                    ends.append(
                        total(
                            MixedNetwork(
                                network.states, network.parents, network.tables, {**network.continuous, v: moved}
                            )
                        )
                    )
                assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(expected, rel=1e-5, abs=1e-4)
    for v, table in network.tables.items():
        for at in np.ndindex(table.shape[:-1]):
            # Softmax of log probabilities: the gradient is counts - total * probability.
            counts = found.counts[v][at]
            expected = counts - counts.sum() * table[at]
            for k in range(len(counts)):
                ends = []
                for step in (h, -h):
                    logits = np.log(table[at])
                    logits[k] += step
                    moved = table.copy()
                    moved[at] = np.exp(logits - logsumexp(logits))
                    ends.append(
                        total(
                            MixedNetwork(
                                network.states, network.parents, {**network.tables, v: moved}, network.continuous
                            )
                        )
                    )
                assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(expected[k], rel=1e-5, abs=1e-4)


# ------------------------------------------------------------------------------------------------- EM


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("seed", range(4))
def test_em_never_falls(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    codes, values = with_gaps(rng, *draws(network, rng, 200))
    # A state that no row has: its parameters are left to the prior.
    codes[codes[:, 0] == 0, 0] = 1
    smooth = Options(max_iterations=30, table_count=0.5, noise_count=2.0)
    for options in (Options(max_iterations=30), smooth, Options(max_iterations=30, floor=0.5)):
        fit = em(random_start(network, codes, values, rng), codes, values, options)
        gains = np.diff(fit.log_posterior)
        assert np.all(gains > -1e-8 * np.abs(fit.log_posterior[0])) and gains[0] > 1
        check = expected_statistics(fit.network, codes, values).log_density.sum()
        assert fit.log_likelihood[-1] == pytest.approx(check, rel=1e-9)


def test_em_with_complete_data_is_maximum_likelihood_in_one_step():
    rng = np.random.default_rng(7)
    network = random_network(rng)
    codes, values = draws(network, rng, 2000)
    fit, truth = em(network, codes, values), maximum_likelihood(network, codes, values)
    assert fit.n_iterations <= 2 and fit.converged
    for v in network.states:
        np.testing.assert_allclose(fit.network.tables[v], truth.tables[v], atol=1e-12)
    for v, node in truth.continuous.items():
        np.testing.assert_allclose(fit.network.continuous[v].intercept, node.intercept, atol=1e-8)
        np.testing.assert_allclose(fit.network.continuous[v].slopes, node.slopes, atol=1e-8)
        np.testing.assert_allclose(fit.network.continuous[v].sd, node.sd, rtol=1e-8)
    assert fit.log_likelihood[-1] == pytest.approx(log_density(truth, codes, values).sum(), rel=1e-10)


def plain_em(x, weights, means, sds, n_iterations):
    """Independent EM for a mixture of normals with one feature each axis independent."""
    trace = []
    for _ in range(n_iterations):
        logs = np.log(weights) + stats.norm.logpdf(x[:, None, :], means, sds).sum(axis=-1)
        trace.append(logsumexp(logs, axis=1).sum())
        r = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        n = r.sum(axis=0)
        weights, means = n / n.sum(), (r.T @ x) / n[:, None]
        sds = np.sqrt(np.einsum("nk,nkd->kd", r, (x[:, None, :] - means) ** 2) / n[:, None])
    return weights, means, sds, trace


def mixture_network(weights, means, sds):
    k, d = means.shape
    nodes = {f"x{j}": LinearGaussian(("C",), means[:, j], np.zeros((k, 0)), sds[:, j]) for j in range(d)}
    return MixedNetwork({"C": tuple(map(str, range(k)))}, {}, {"C": weights}, nodes)


def test_gmm_as_bn_em_iterates_equal_a_plain_em():
    rng = np.random.default_rng(9)
    x = np.vstack([rng.normal([0, 0], [1, 2], (80, 2)), rng.normal([1.5, 1], [1.5, 1], (120, 2))])
    start = (np.array([0.5, 0.5]), np.array([[0.0, 1.0], [1.0, 4.0]]), np.ones((2, 2)))
    weights, means, sds, trace = plain_em(x, *start, 25)
    codes = np.full((200, 1), -1)
    fit = em(mixture_network(*start), codes, x, Options(max_iterations=25, tolerance=0.0, floor=1e-9))
    assert fit.n_iterations == 25
    np.testing.assert_allclose(fit.log_likelihood[:-1], trace, rtol=1e-9)
    np.testing.assert_allclose(fit.network.tables["C"], weights, atol=1e-8)
    for j in range(2):
        np.testing.assert_allclose(fit.network.continuous[f"x{j}"].intercept, means[:, j], atol=1e-7)
        np.testing.assert_allclose(fit.network.continuous[f"x{j}"].sd, sds[:, j], rtol=1e-7)


def test_gmm_as_bn_reaches_the_maximum_of_scikit_learn():
    mixture = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(10)
    x = np.vstack([rng.normal([0, 0], 1, (150, 2)), rng.normal([4, 1], 1, (100, 2)), rng.normal([0, 6], 1.5, (100, 2))])
    other = mixture.GaussianMixture(
        3, covariance_type="diag", tol=1e-12, max_iter=2000, reg_covar=0, random_state=0, n_init=5
    )
    other.fit(x)
    blank = MixedNetwork.blank({"C": ("a", "b", "c")}, {}, {"x": ("C",), "y": ("C",)})
    fit = restarts(blank, np.full((350, 1), -1), x, rng, 6, Options(tolerance=1e-12))
    assert fit.log_likelihood[-1] == pytest.approx(other.score(x) * 350, abs=1e-3)
    order, others = np.argsort(fit.network.tables["C"]), np.argsort(other.weights_)
    np.testing.assert_allclose(fit.network.tables["C"][order], other.weights_[others], atol=1e-4)
    np.testing.assert_allclose(fit.network.continuous["x"].intercept[order], other.means_[others, 0], atol=1e-3)


def test_em_with_missing_normals_equals_closed_form():
    """Two normals, y missing in some rows (monotone pattern): the factored likelihood has a closed form
    (Little, Rubin 2002, section 7.2): x from all rows, y on x from the complete ones."""
    rng = np.random.default_rng(12)
    values = rng.multivariate_normal([100.0, -5.0], [[4.0, 3.0], [3.0, 9.0]], 120)
    values[70:, 1] = np.nan
    network = MixedNetwork.blank({}, {}, {"y": (), "x": ("y",)})
    # The arrow points against the pattern, so that EM has work to do.
    fit = em(network, np.zeros((120, 0)), values[:, [1, 0]], Options(tolerance=1e-14, max_iterations=3000))
    slope, intercept = np.polyfit(values[:70, 0], values[:70, 1], 1)
    residual = np.mean((values[:70, 1] - intercept - slope * values[:70, 0]) ** 2)
    mean, variance = values[:, 0].mean(), values[:, 0].var()
    y_mean, y_variance = intercept + slope * mean, residual + slope**2 * variance
    y, x = fit.network.continuous["y"], fit.network.continuous["x"]
    assert y.intercept == pytest.approx(y_mean, abs=1e-5)
    assert y.sd == pytest.approx(np.sqrt(y_variance), rel=1e-5)
    assert x.slopes[0] == pytest.approx(slope * variance / y_variance, rel=1e-4)


def test_factor_analysis_reaches_the_maximum():
    """One hidden normal, four indicators: at the maximum the implied covariance is scikit-learn's."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    rng = np.random.default_rng(13)
    f = rng.standard_normal((400, 1))
    x = f * np.array([1.0, 0.8, -0.5, 1.5]) + rng.normal(0, [0.5, 0.7, 1.0, 0.4], (400, 4))
    blank = MixedNetwork.blank({}, {}, {"f": (), **{f"x{j}": ("f",) for j in range(4)}})
    values = np.column_stack([np.full(400, np.nan), x])
    start = random_start(blank, np.zeros((400, 0)), values, rng)
    fit = em(start, np.zeros((400, 0)), values, Options(tolerance=1e-12, max_iterations=5000))
    other = decomposition.FactorAnalysis(1, tol=1e-12, max_iter=5000, svd_method="lapack").fit(x)
    assert fit.log_likelihood[-1] == pytest.approx(other.score(x) * 400, abs=1e-3)


def test_a_normal_does_not_collapse_on_one_row():
    x = np.array([[0.0], [0.1], [-0.1], [0.05], [7.0]])
    start = mixture_network(np.array([0.5, 0.5]), np.array([[0.0], [7.0]]), np.ones((2, 1)))
    fit = em(start, np.full((5, 1), -1), x, Options(floor=0.01))
    assert fit.network.continuous["x0"].sd[1] == pytest.approx(0.01 * x.std())
    assert np.all(np.diff(fit.log_posterior) > -1e-9) and fit.converged
    smooth = em(start, np.full((5, 1), -1), x, Options(noise_count=1.0, noise_share=0.5))
    assert smooth.network.continuous["x0"].sd[1] == pytest.approx(np.sqrt(0.5 / 2) * x.std(), rel=0.02)


def test_states_that_no_row_has_are_left_to_the_prior():
    x = np.array([[1.0], [2.0], [4.0]])
    network = MixedNetwork.blank({"c": ("a", "b")}, {}, {"x": ("c",)})
    fit = em(network, np.zeros((3, 1), int), x, Options(noise_count=2.0, noise_share=0.3))
    node = fit.network.continuous["x"]
    np.testing.assert_allclose(node.intercept, x.mean())
    np.testing.assert_allclose(node.sd**2, x.var() * np.array([(3 + 0.6) / 5, 0.3]))
    assert np.all(np.diff(fit.log_posterior) > -1e-9)
    bare = em(network, np.zeros((3, 1), int), x).network.continuous["x"]
    np.testing.assert_allclose(bare.sd, x.std())


def test_map_tables_are_smoothed_counts():
    codes = np.array([[0], [0], [0], [1]])
    network = MixedNetwork.blank({"c": ("a", "b")}, {}, {})
    fit = em(network, codes, np.zeros((4, 0)), Options(table_count=2.0))
    np.testing.assert_allclose(fit.network.tables["c"], [5 / 8, 3 / 8])


def test_a_hidden_discrete_variable_needs_no_enumeration_of_others():
    """Twenty hidden variables apart from each other are twenty small groups; together they are refused."""
    rng = np.random.default_rng(14)
    names = [f"h{k}" for k in range(20)]
    apart = MixedNetwork.blank(dict.fromkeys(names, ("a", "b")), {}, {f"x{k}": (h,) for k, h in enumerate(names)})
    codes, values = np.full((5, 20), -1), rng.normal(size=(5, 20))
    assert np.all(np.isfinite(expected_statistics(random_start(apart, codes, values, rng), codes, values).log_density))
    chained = MixedNetwork.blank(dict.fromkeys(names, ("a", "b")), {b: (a,) for a, b in pairwise(names)}, {})
    with refused("engine.refused.too-costly"):
        expected_statistics(chained, codes, np.zeros((5, 0)))


def test_data_and_options_that_do_not_fit():
    network = MixedNetwork.blank({"c": ("a", "b")}, {}, {"x": ("c",)})
    with refused("data.missing"):
        maximum_likelihood(network, np.array([[-1]]), np.array([[0.0]]))
    with refused("data.out-of-range", "'c'.*0.*1"):
        em(network, np.array([[2]]), np.array([[0.0]]))
    with refused("data.wrong-shape", r"\(1, 1\).*\(1, 2\)"):
        em(network, np.array([[0]]), np.zeros((1, 2)))
    with refused("data.not-finite", "NaN"):
        em(network, np.array([[0]]), np.array([[np.inf]]))
    with refused("data.unknown-variable", "'y'"):
        conjugate(network, np.array([[0]]), np.array([[0.0]]), regressions={"y": NormalInverseGamma.flat(1)})
    with refused("option.out-of-range", "floor"):
        Options(floor=0.0)
    impossible = MixedNetwork(network.states, {}, {"c": np.array([1.0, 0.0])}, network.continuous)
    with refused("data.probability-zero", "row 1"):
        em(impossible, np.array([[0], [1]]), np.zeros((2, 1)))
    with refused("engine.refused.degenerate", "'x'"):
        em(network.do({"x": 1.0}), np.array([[0]]), np.zeros((1, 1)))
