"""What hidden states can emit beyond one distribution: mixtures of normals, and more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.engines._density import Density
from bayeslab.engines._groups import constrained
from bayeslab.errors import BayeslabError
from bayeslab.exact.emissions import gaussian
from bayeslab.exact.mixture import MixtureProblem
from bayeslab.families import hmm
from bayeslab.families._hmm import hidden_of


def model(**content):
    return bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": 2} | content)


def bound(declared, table):
    return bl.check(declared, table)


def by_paths(start, transition, emission):
    """log p of a sequence by the sum over all paths; ``emission`` are probabilities."""
    total = 0.0
    for path in itertools.product(range(len(start)), repeat=len(emission)):
        p = 1.0
        for t, z in enumerate(path):
            p *= (start[z] if t == 0 else transition[path[t - 1]][z]) * emission[t, z]
        total += p
    return np.log(total)


def fitted(declared, y, **options):
    return bl.fit(declared, {"y": y}, seed=1, progress=False, runs=None, **options)


class Slow:
    """A graph's log density and slope, run by PyTensor's interpreter: nothing is compiled."""

    def __init__(self, graph):
        own = Density.of(graph, jacobian=False)
        self.flat, self.split, self.n_dim = own.flat, own.split, own.n_dim
        self.value = graph.compile_logp(jacobian=False, mode="FAST_COMPILE")
        self.slope = graph.compile_dlogp(jacobian=False, mode="FAST_COMPILE")

    def __call__(self, point):
        own = self.split(np.asarray(point))
        return float(self.value(own)), np.asarray(self.slope(own))


def differences(density, point, step=1e-5):
    return [(density(point + step * e)[0] - density(point - step * e)[0]) / (2 * step) for e in np.eye(density.n_dim)]


def planted(n, seed=0):
    """Two states of two parts each: -3 and 3, 0 and 6."""
    rng = np.random.default_rng(seed)
    states = np.zeros(n, int)
    for t in range(1, n):
        states[t] = states[t - 1] if rng.random() < 0.9 else 1 - states[t - 1]
    part = rng.random(n) < 0.5
    mean = np.where(states == 0, np.where(part, -3.0, 3.0), np.where(part, 0.0, 6.0))
    return states, mean + 0.6 * rng.standard_normal(n)


MIXED = {"emission": "gaussian_mixture", "mixtures": 2}


# --------------------------------------------------------------------------------- mixtures of normals


def test_density_of_mixtures_is_that_of_all_paths_and_its_slope_is_right():
    """Two columns, missing cells: log p by enumeration, priors by SciPy, the slope by differences."""
    table = {"x": [0.1, -2.0, np.nan, 1.0, 3.0], "y": [1.0, np.nan, np.nan, 0.2, -1.0]}
    declared = model(columns=["x", "y"], **MIXED)
    data = bound(declared, table)
    graph = hmm.graph(declared, data)
    density = Slow(graph)
    point = density.flat(graph.initial_point()) + np.random.default_rng(0).uniform(-0.5, 0.5, density.n_dim)
    value, slope = density(point)
    own = {n: v[0] for n, v in constrained(graph, density.split(point[None])).items()}
    hidden = hidden_of(declared, data)
    assert own["mean"].shape == (2, 2, 2)
    cells = stats.norm.pdf(hidden.rows[:, None, None, :], own["mean"], own["sd"])
    emission = np.sum(own["weight"] * np.where(np.isnan(cells), 1.0, cells).prod(axis=3), axis=2)
    prior = hidden.parts[0].emission.prior
    want = by_paths(own["initial"], own["transition"], emission)
    want += stats.norm.logpdf(own["mean"], prior.mean, own["sd"] / np.sqrt(prior.kappa)).sum()
    want += stats.invgamma.logpdf(own["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
    want += 5 * stats.dirichlet.logpdf([0.5, 0.5], [1, 1])
    assert value == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(slope, differences(density, point), rtol=1e-4, atol=1e-6)
    exact = hidden.law({n: own[n] for n in hidden.learned}).expected().log_evidence.sum()
    assert exact == pytest.approx(by_paths(own["initial"], own["transition"], emission), rel=1e-10)


def test_mixtures_find_states_that_single_normals_cannot():
    """EM is monotone, higher than single normals on such data, and decodes the planted states."""
    states, y = planted(400)
    fits = {}
    for word, more in (("gaussian", {}), ("gaussian_mixture", {"mixtures": 2})):
        fits[word] = fitted(model(emission=word, **more), y, method="em")
    trace = fits["gaussian_mixture"].data_tree["em"]["log_posterior"].to_numpy()
    assert np.nanmin(np.diff(trace, axis=1)) > -1e-9
    heights = {w: float(f.posterior.attrs["log_likelihood"]) for w, f in fits.items()}
    assert heights["gaussian_mixture"] > heights["gaussian"] + 100
    found = fits["gaussian_mixture"].posterior
    np.testing.assert_allclose(found["mean"][0, 0], [[-3, 3], [0, 6]], atol=0.2)
    np.testing.assert_allclose(found["weight"][0, 0], 0.5, atol=0.1)
    decoded = np.asarray(fits["gaussian_mixture"].decode()["state"])
    assert np.mean(decoded == states + 1) > 0.97


def test_one_state_of_a_mixture_is_a_mixture():
    """Rows are independent: the likelihood of the family mixture with the same parts."""
    _, y = planted(60, seed=3)
    own = {"weight": [[0.3, 0.7]], "mean": [[-1.0, 2.0]], "sd": [[1.0, 2.0]]}
    declared = model(states=1, parameters=own, **MIXED)
    hidden = hidden_of(declared, bound(declared, {"y": y}))
    value = hidden.law({}).expected().log_evidence.sum()
    theta = {"weights": np.array([0.3, 0.7]), "mean": np.array([[-1.0], [2.0]]), "variance": np.array([[1.0], [4.0]])}
    want = MixtureProblem(gaussian(1, "diagonal"), y[:, None], 2).expect(theta)[0]
    assert value == pytest.approx(want, rel=1e-12)


def test_parts_are_numbered_by_their_means_in_every_draw():
    """Draws with parts and states in any order come out alike."""
    declared = model(**MIXED)
    _, y = planted(60, seed=4)
    data = bound(declared, {"y": y})
    rng = np.random.default_rng(0)
    true = {
        "initial": np.array([0.4, 0.6]),
        "transition": np.array([[0.9, 0.1], [0.2, 0.8]]),
        "mean": np.array([[-3.0, 3.0], [0.0, 6.0]]),
        "sd": np.array([[0.5, 0.6], [0.7, 0.8]]),
        "weight": np.array([[0.4, 0.6], [0.3, 0.7]]),
    }
    draws = {name: [] for name in true}
    for _ in range(20):
        state, parts = rng.permutation(2), [rng.permutation(2) for _ in range(2)]
        for name, value in true.items():
            if name in ("mean", "sd", "weight"):
                value = np.stack([row[p] for row, p in zip(value, parts, strict=True)])
            value = value[state]
            draws[name].append(value[:, state] if name == "transition" else value)
    found, what = hmm.relabelled(declared, data, {n: np.stack(v) for n, v in draws.items()})
    assert what == "the chain"
    for name, value in true.items():
        np.testing.assert_allclose(found[name], np.broadcast_to(value, found[name].shape), err_msg=name)


def test_mixtures_end_to_end_by_nuts():
    """States and parts agree between chains; replications are like the data; the model can be simulated."""
    _, y = planted(100, seed=6)
    fit = fitted(model(**MIXED), y, method="nuts", chains=2, draws=200, tune=200)
    posterior = fit.posterior
    assert posterior["mean"].dims == ("chain", "draw", "state", "part")
    mean, sd = posterior["mean"].mean(("chain", "draw")), posterior["mean"].std(("chain", "draw"))
    assert np.all(np.abs(mean - [[-3, 3], [0, 6]]) < 5 * sd + 0.1)
    apart = posterior["mean"].mean("draw").to_numpy()
    assert np.abs(apart[0] - apart[1]).max() < 0.5
    made = fit.predict(kind="draws")["y"].to_numpy().ravel()
    assert abs(made.mean() - y.mean()) < 5 * y.std() / np.sqrt(len(y))
    assert np.isfinite(bl.simulate(model(**MIXED), {"y": y}, draws=2, seed=1)["prior_predictive"]["y"]).all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"emission": "gaussian_mixture"}, "needs `mixtures`"),
        ({"mixtures": 2}, "gaussian_mixture"),
        ({**MIXED, "covariance": "full"}, "diagonal"),
        ({**MIXED, "mixtures": 1}, "mixtures"),
        ({**MIXED, "window": 1}, "without inputs"),
        ({**MIXED, "parameters": {"mean": "Normal(0, 1)"}}, "default priors"),
        ({**MIXED, "parameters": {"mean": [[0, 1], [0, 1]]}}, "known as a whole"),
        ({**MIXED, "parameters": {"weight": [[0.5, 0.6], [0.5, 0.5]], "mean": [[0, 1], [0, 1]],
                                  "sd": [[1, 1], [1, 1]]}}, "sum to 1.1"),
    ],
)  # fmt: skip
def test_bad_mixtures(content, words):
    with pytest.raises(BayeslabError, match=words):
        hmm.resolved(model(**content), bound(model(**content), {"y": [0.0, 1.0, 2.0, 3.0]}))
