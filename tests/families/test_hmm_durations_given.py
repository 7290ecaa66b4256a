"""Durations whose parameters are known: evidence by sums over segmentations, decoding without a fit, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.results.decode import decode
from tests.families._interpreted import Interpreted
from tests.refusals import refused

Y = np.array([0.5, -1.0, 2.0, np.nan, 1.5, -0.7, 1.2])
MEAN, SD = np.array([-0.5, 1.0]), np.array([0.8, 1.1])
MOVES, INITIAL = [[0.0, 1.0], [1.0, 0.0]], np.array([0.3, 0.7])
MU, ALPHA = np.array([0.4, 1.7]), np.array([0.8, 3.0])
D = np.arange(4)
LAWS = {
    "table": ({"duration": [[0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.5, 0.0]]}, None),
    "poisson": ({"duration_mu": MU.tolist()}, stats.poisson.pmf(D, MU[:, None])),
    "negative_binomial": (
        {"duration_mu": MU.tolist(), "duration_alpha": ALPHA.tolist()},
        stats.nbinom.pmf(D, ALPHA[:, None], (ALPHA / (ALPHA + MU))[:, None]),
    ),
}


def model(law, given, **content):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "durations": {"longest": 4, "law": law}}
    own |= {"transition": MOVES, "initial": INITIAL.tolist()}
    return bl.Model(name="m", model=own | content | {"parameters": given | content.get("parameters", {})})


def table_of(law):
    given, weights = LAWS[law]
    weights = np.array(given["duration"]) if weights is None else weights
    return weights / weights.sum(axis=1, keepdims=True)


def by_segmentation(law, mean, sd):
    """Evidence, and the probability of each state at each time, summed over all segmentations."""
    durations, rows = table_of(law), np.nan_to_num(stats.norm.logpdf(Y[:, None], mean, sd), nan=0.0)
    total, posterior = 0.0, np.zeros((len(Y), 2))

    def extend(time, state, weight, path):
        nonlocal total
        for d in range(1, 5):
            end = min(time + d, len(Y))
            beyond = time + d >= len(Y)
            if beyond:
                # What is cut off by the end lasts as long as is seen or longer.
                p = durations[state, len(Y) - time - 1 :].sum()
            else:
                p = durations[state, d - 1]
            p *= weight * np.exp(rows[time:end, state].sum())
            states = [*path, *[state] * (end - time)]
            if beyond:
                total += p
                posterior[np.arange(len(Y)), states] += p
                return
            extend(end, 1 - state, p, states)

    for state in (0, 1):
        extend(0, state, INITIAL[state], [])
    return total, posterior / total


@pytest.mark.parametrize("law", LAWS)
def test_a_chain_of_which_all_is_known_is_decoded_without_a_fit(law):
    declared = model(law, LAWS[law][0], parameters={"mean": MEAN.tolist(), "sd": SD.tolist()})
    data = bl.check(declared, {"y": Y})
    hidden = hidden_of(declared, data)
    assert hidden.learned == () and hidden.n_free == 0
    total, posterior = by_segmentation(law, MEAN, SD)
    _, terms = hmm.compile(declared, data).log_likelihoods({})["row"]
    assert terms.sum() == pytest.approx(np.log(total), rel=1e-11)
    shown = decode(declared, {"y": Y}, method="smooth")
    np.testing.assert_allclose(shown[["P(state=1)", "P(state=2)"]], posterior, atol=1e-10)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("law", LAWS)
def test_density_of_means_beside_known_durations(law):
    declared = model(law, LAWS[law][0], parameters={"mean": "Normal(0, 2)", "sd": SD.tolist()})
    density = Interpreted(hmm.compile(declared, bl.check(declared, {"y": Y})).graph())
    point = density.near(np.random.default_rng(1), 0.3)
    value, slope = density(point)
    mean = density.parameters(point)["mean"]
    want = np.log(by_segmentation(law, mean, SD)[0]) + stats.norm.logpdf(mean, 0, 2).sum()
    assert value == pytest.approx(want, rel=1e-9)
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("law", LAWS)
def test_em_leaves_known_durations_as_they_are(law):
    rng = np.random.default_rng(2)
    table = {"y": np.repeat([-3.0, 3.0, -3.0, 3.0, -3.0, 3.0], 5) + rng.normal(size=30)}
    declared = model(law, LAWS[law][0])
    fit = bl.fit(declared, table, "em", seed=1, progress=False, runs=None)
    assert sorted(fit.posterior.data_vars) == ["mean", "sd"]


@pytest.mark.parametrize(
    ("law", "given", "code", "where"),
    [
        ("poisson", {"duration_mu": [1.0, -1.0]}, "model.out-of-range", "model.parameters.duration_mu"),
        ("poisson", {"duration_mu": [1.0, 1.0, 1.0]}, "model.wrong-shape", "model.parameters.duration_mu"),
        ("poisson", {"duration_mu": "Gamma(1, 1)"}, "model.wrong-type", "model.parameters.duration_mu"),
        ("poisson", {"duration": [[1.0] * 4] * 2}, "model.unknown-parameter", "model.parameters.duration"),
        ("table", {"duration": [[0.5] * 4] * 2}, "model.not-probabilities", "model.parameters.duration"),
        ("table", {"duration": [[0.5, 0.5]] * 2}, "model.wrong-shape", "model.parameters.duration"),
        ("negative_binomial", {"duration_mu": 1.0}, "model.incomplete", "model.parameters"),
    ],
)
def test_refusals(law, given, code, where):
    with refused(code, where=where):
        bl.check(model(law, given), {"y": np.arange(20.0)})
