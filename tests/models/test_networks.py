"""The shipped networks, each against a truth found another way: by hand, by enumeration, by printed numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.decisions import influence
from bayeslab.networks import decisions
from tests.models.shipped import MODELS
from tests.models.shipped import words as table


def changed(name: str, **more) -> bl.Model:
    """A shipped model with some keys of its family replaced."""
    content = bl.load(MODELS / f"{name}.yaml").to_dict()
    content["model"] |= more
    content["data"] = {k: v for k, v in content.get("data", {}).items() if k != "table"}
    return bl.Model(**content)


# --------------------------------------------------------------------------------- asia, sprinkler


def asia_joint() -> np.ndarray:
    """Axes: visit, smoking, tuberculosis, cancer, bronchitis, x-ray, dyspnoea; yes first."""
    two = lambda p: np.array([p, 1 - p])  # noqa: E731
    rows = lambda *p: np.array([two(q) for q in p])  # noqa: E731
    either = np.array([[0, 0], [0, 1]])  # code of "either" by tuberculosis and cancer
    xray, dyspnoea = rows(0.98, 0.05)[either], np.stack([rows(0.9, 0.7), rows(0.8, 0.1)])[either]
    return np.einsum(
        "v,s,vt,sc,sb,tcx,tcbd->vstcbxd",
        two(0.01), two(0.5), rows(0.05, 0.01), rows(0.1, 0.01), rows(0.6, 0.3), xray, dyspnoea,
    )  # fmt: skip


def test_asia_by_enumeration_and_as_printed():
    """Lauritzen and Spiegelhalter (1988), section 6: a visit to Asia and dyspnoea."""
    net, joint = bl.network(MODELS / "asia.yaml"), asia_joint()
    names = ["visit_to_asia", "smoking", "tuberculosis", "lung_cancer", "bronchitis", "xray", "dyspnoea"]
    for given in (
        {},
        {"dyspnoea": "yes", "visit_to_asia": "yes"},
        {"xray": "yes"},
        {"bronchitis": "no", "smoking": "yes"},
    ):
        seen = joint[tuple(slice(0 if given.get(v) != "no" else 1, 2 if given.get(v) != "yes" else 1) for v in names)]
        found = net.query(given)
        assert found.log_evidence == pytest.approx(np.log(seen.sum()))
        for k, v in enumerate(names):
            if v not in given:
                own = seen.sum(axis=tuple(i for i in range(7) if i != k)) / seen.sum()
                assert found[v]["yes"] == pytest.approx(own[0])
    printed = net.query({"visit_to_asia": "yes", "dyspnoea": "yes"})
    assert printed["tuberculosis"]["yes"] == pytest.approx(0.088, abs=5e-4)
    assert printed["bronchitis"]["yes"] == pytest.approx(0.811, abs=5e-4)
    assert printed["lung_cancer"]["yes"] == pytest.approx(0.0995, abs=5e-4)


def test_wet_grass_query():
    """Explaining away: the sprinkler takes the blame from the rain; and setting is not seeing."""
    net = bl.network(MODELS / "sprinkler.yaml")
    joint = np.zeros((2, 2, 2, 2))  # cloudy, sprinkler, rain, wet; the first state yes
    for c, s, r, w in product(range(2), repeat=4):
        p = 0.5 * [[0.1, 0.9], [0.5, 0.5]][c][s] * [[0.8, 0.2], [0.2, 0.8]][c][r]
        dry = (0.1 if s == 0 else 1.0) * (0.1 if r == 0 else 1.0)
        joint[c, s, r, w] = p * (1 - dry if w == 0 else dry)
    wet = joint[..., 0]
    rain = net.query({"wet_grass": "yes"})["rain"]["yes"]
    explained = net.query({"wet_grass": "yes", "sprinkler": "on"})["rain"]["yes"]
    without = net.query({"wet_grass": "yes", "sprinkler": "off"})["rain"]["yes"]
    assert rain == pytest.approx(wet[:, :, 0].sum() / wet.sum())
    assert explained == pytest.approx(wet[:, 0, 0].sum() / wet[:, 0].sum())
    assert without == pytest.approx(1.0)
    assert explained < rain < without
    done = net.do({"sprinkler": "on"}).query()
    assert done["cloudy"]["yes"] == pytest.approx(0.5)
    assert net.query({"sprinkler": "on"})["cloudy"]["yes"] == pytest.approx(1 / 6)


def test_noisy_or():
    """F13: one cause wets the grass with 0.9, both with 0.99; none leaves it dry."""
    net = bl.network(MODELS / "sprinkler.yaml")
    for r, s, p in (("yes", "off", 0.9), ("no", "on", 0.9), ("yes", "on", 0.99), ("no", "off", 0.0)):
        assert net.query({"rain": r, "sprinkler": s})["wet_grass"]["yes"] == pytest.approx(p)


# --------------------------------------------------------------------------------- oil


def test_influence_diagram_oil_by_all_policies():
    """Every policy tried: test or not, then drill or not for each of what the test shows."""
    prior, gains = np.array([0.5, 0.3, 0.2]), np.array([-70.0, 50.0, 200.0])
    shows = np.array([[0.3, 0.1, 0.6], [0.4, 0.3, 0.3], [0.4, 0.5, 0.1]])
    with_test = max(
        sum(prior @ (shows[:, k] * gains) * d for k, d in enumerate(drill)) - 10 for drill in product((0, 1), repeat=3)
    )
    without = max(prior @ gains, 0.0)
    assert (with_test, without) == pytest.approx((22.5, 20.0))
    diagram = decisions(MODELS / "oil.yaml")
    assert influence.solve(diagram).expected_utility == pytest.approx(with_test)
    assert influence.expected_utilities(diagram) == pytest.approx({"yes": with_test, "no": without})
    policy = influence.solve(diagram)
    for seen, drill in (("open", "yes"), ("closed", "yes"), ("diffuse", "no")):
        assert policy.choose("drill", {"test": "yes", "seismic": seen}) == drill


# --------------------------------------------------------------------------------- play tennis

DAY = {"outlook": "Sunny", "temperature": "Cool", "humidity": "High", "wind": "Strong"}
OVERCAST = DAY | {"outlook": "Overcast"}
# Class frequencies stay as they are: only the attributes are smoothed, as in the source.
BY_COUNTING = {"states": ["No", "Yes"], "prior": {"pseudocount": 1e-9}}


def tennis(prior) -> bl.Network:
    variables = bl.load(MODELS / "play_tennis.yaml").to_dict()["model"]["variables"] | {"play": BY_COUNTING}
    return bl.network(
        bl.fit(
            changed("play_tennis", variables=variables, prior=prior), table("play_tennis"), progress=False, runs=None
        )
    )


@pytest.mark.parametrize(
    ("prior", "no"),
    [
        ({"pseudocount": 1e-12}, 0.795417),
        ({"m_estimate": 1}, 0.759002),
        ({"m_estimate": 2}, 0.725776),
        ({"m_estimate": 3}, 0.696203),
    ],
)
def test_play_tennis_by_counts_and_m_estimates(prior, no):
    """F10 and F11: P(no) for a sunny, cool, humid, windy day."""
    assert tennis(prior).query(DAY, "play")["play"]["No"] == pytest.approx(no, abs=1e-6)


def test_play_tennis_products_and_the_zero_that_the_prior_mends():
    """F10: 0.005291 and 0.020571; F11: no overcast day without play makes an exact zero."""
    plain = tennis({"pseudocount": 1e-12})
    found = plain.query(DAY, "play")
    assert np.exp(found.log_evidence) == pytest.approx(0.005291 + 0.020571, abs=1e-6)
    assert plain.query(OVERCAST, "play")["play"]["No"] == pytest.approx(0.0, abs=1e-9)
    for m, yes, no in ((1, 0.011375, 0.001929), (3, 0.012556, 0.004316)):
        found = tennis({"m_estimate": m}).query(OVERCAST, "play")
        assert np.exp(found.log_evidence) == pytest.approx(yes + no, abs=1e-6)
        assert found["play"]["Yes"] == pytest.approx(yes / (yes + no), abs=1e-4)


@pytest.mark.slow(why="statistical")
def test_play_tennis_as_shipped():
    """The m-estimate for the class too; predictions of the fit are those of its network."""
    fit = bl.fit(MODELS / "play_tennis.yaml", progress=False, runs=None)
    data = table("play_tennis")
    yes, no = (data["play"] == "Yes").sum(), (data["play"] == "No").sum()
    rows = fit.summary()
    assert rows.loc["p_play[Yes]", "mean"] == pytest.approx((yes + 0.5) / 15)
    assert rows.loc["p_outlook[No, Overcast]", "mean"] == pytest.approx((0 + 1 / 3) / (no + 1))
    found = fit.predict(pd.DataFrame([DAY]), kind="probabilities")
    assert found["P(play=No)"][0] == pytest.approx(bl.network(fit).query(DAY)["play"]["No"], abs=0.02)
    decided = fit.decide(pd.DataFrame([DAY, OVERCAST]), loss="zero_one")
    assert decided["action"].tolist() == ["No", "Yes"]
    assert fit.verdict.status == "pass"
    right = (fit.predict(data, kind="probabilities")["P(play=Yes)"] > 0.5) == (data["play"] == "Yes")
    assert right.sum() == 13  # F10


# --------------------------------------------------------------------------------- timber


def test_timber_net_is_three_regressions():
    """By the conjugate formula on centred columns, and near least squares, as the prior is weak."""
    fit = bl.fit(MODELS / "timber_net.yaml", progress=False, runs=None)
    logs = np.log(table("trees").astype(float))
    columns = {f"log_{c}": logs[c].to_numpy() for c in ("girth", "height", "volume")}
    exact = fit.data_tree["exact_posterior"].to_dataset()
    parents = {"log_height": [], "log_girth": ["log_height"], "log_volume": ["log_girth", "log_height"]}
    evidence = 0.0
    for v, above in parents.items():
        y, x = columns[v], np.column_stack([np.ones(31), *(columns[p] - columns[p].mean() for p in above)])
        precision = np.diag([1.0, *(columns[p].var() for p in above)]) / 2.5**2
        mu, a, b = np.array([y.mean(), *np.zeros(len(above))]), 1.5, y.var() / 100
        after = precision + x.T @ x
        mean = np.linalg.solve(after, precision @ mu + x.T @ y)
        a_after, b_after = a + 31 / 2, b + (y @ y + mu @ precision @ mu - mean @ after @ mean) / 2
        # p(data) as one multivariate t, which is another form of the same integral.
        cover = b / a * (np.eye(31) + x @ np.linalg.solve(precision, x.T))
        evidence += stats.multivariate_t.logpdf(y, x @ mu, cover, df=2 * a)
        least, *_ = np.linalg.lstsq(x, y, rcond=None)
        if above:
            slopes = exact[f"slope_{v}"].sel(statistic="mean").to_numpy()
            np.testing.assert_allclose(slopes, mean[1:], rtol=1e-9)
            np.testing.assert_allclose(slopes, least[1:], rtol=0.05)
        sd = exact[f"sd_{v}"].sel(statistic="q50").to_numpy()
        assert sd == pytest.approx(np.sqrt(stats.invgamma(a_after, scale=b_after).median()), rel=1e-9)
    assert exact.attrs["log_evidence"] == pytest.approx(evidence)
    assert fit.summary().loc["slope_log_volume[log_girth]", "mean"] == pytest.approx(2.0, abs=0.1)  # a cone
    assert fit.verdict.status == "pass"


# --------------------------------------------------------------------------------- candies with a hidden bag


def candy_log_likelihood(v: np.ndarray) -> float:
    """F7: (share of bag 1; cherry, red, hole in bag 1; the same in bag 2)."""
    cells = np.array([[[273, 93], [104, 90]], [[79, 100], [94, 167]]])
    bags = [np.einsum("f,w,h->fwh", *([p, 1 - p] for p in own)) for own in (v[1:4], v[4:7])]
    return float((cells * np.log(v[0] * bags[0] + (1 - v[0]) * bags[1])).sum())


def test_candy_bags_unmixed():
    """F7: EM reaches the fit of the cells themselves, log likelihood -1979.360127, whatever the bags are called."""
    fit = bl.fit(MODELS / "candy_hidden.yaml", progress=False, runs=None)
    assert fit.method == "em"
    point = {str(n): x.isel(chain=0, draw=0).to_numpy() for n, x in fit.posterior.data_vars.items()}
    order = [0, 1] if point["p_flavour"][0, 0] > point["p_flavour"][1, 0] else [1, 0]
    found = [point["p_bag"][order[0]]] + [point[f"p_{a}"][b, 0] for b in order for a in ("flavour", "wrapper", "hole")]
    limit = [0.419424, 0.893377, 0.797449, 0.836496, 0.319159, 0.362624, 0.343027]
    assert candy_log_likelihood(np.array(limit)) == pytest.approx(-1979.360127, abs=1e-5)
    assert candy_log_likelihood(np.array(found)) == pytest.approx(-1979.360127, abs=1e-4)
    np.testing.assert_allclose(found, limit, atol=0.01)
    asked = bl.network(fit)
    one = asked.query({"flavour": "cherry", "wrapper": "red", "hole": "yes"})
    assert np.exp(one.log_evidence) == pytest.approx(0.273, abs=1e-3)  # the fit is saturated


def test_candy_table_is_that_of_the_source():
    counts = table("candy_hidden").value_counts()
    assert len(table("candy_hidden")) == 1000
    assert counts["cherry", "red", "yes"] == 273 and counts["lime", "green", "no"] == 167
    true = np.array([0.5, 0.8, 0.8, 0.8, 0.3, 0.3, 0.3])
    assert candy_log_likelihood(true) == pytest.approx(-1982.213774, abs=1e-6)


# --------------------------------------------------------------------------------- heart disease

CAUSES = {
    "smoking": ["never", "former", "current"],
    "diet": ["good", "fair", "poor"],
    "exercise": ["much", "some", "none"],
}
SYMPTOMS = {
    "chest_pain": (["none", "exertion", "rest"], [[0.9, 0.08, 0.02], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6]]),
    "breathlessness": (["none", "mild", "severe"], [[0.85, 0.12, 0.03], [0.2, 0.65, 0.15], [0.05, 0.25, 0.7]]),
    "fatigue": (["none", "mild", "severe"], [[0.7, 0.25, 0.05], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]]),
}  # fmt: skip


def simulated_patients(n: int = 1000) -> pd.DataFrame:
    """What models/data/heart_disease.csv holds: the more of the causes, the likelier the disease."""
    rng = np.random.default_rng(20070)

    def draw(rows: np.ndarray) -> np.ndarray:
        return (rng.random(len(rows))[:, None] > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)

    shares = {"smoking": [0.5, 0.25, 0.25], "diet": [0.3, 0.4, 0.3], "exercise": [0.3, 0.4, 0.3]}
    causes = {v: draw(np.tile(p, (n, 1))) for v, p in shares.items()}
    score = 1.0 * causes["smoking"] + 0.8 * causes["diet"] + 0.8 * causes["exercise"]
    weights = np.exp(np.column_stack([np.zeros(n), score - 3.0, 1.6 * score - 6.0]))
    disease = draw(weights / weights.sum(axis=1, keepdims=True))
    out = {v: np.array(CAUSES[v])[code] for v, code in causes.items()}
    return pd.DataFrame(out | {v: np.array(s)[draw(np.array(rows)[disease])] for v, (s, rows) in SYMPTOMS.items()})


def test_heart_disease_table_is_reproducible():
    pd.testing.assert_frame_equal(table("heart_disease"), simulated_patients().astype(table("heart_disease").dtypes))


def test_latent_shrinks_params():
    """F5: 78 parameters with the hidden node, 708 without."""
    spec = bl.load(MODELS / "heart_disease.yaml").model
    assert parameters({v: (one.states, one.parents) for v, one in spec.variables.items()}) == 78
    names, causes = list(SYMPTOMS), list(CAUSES)
    without = {v: (s, []) for v, s in CAUSES.items()} | {
        v: (SYMPTOMS[v][0], causes + names[:k]) for k, v in enumerate(names)
    }
    assert parameters(without) == 708


def parameters(variables: dict[str, tuple[list[str], list[str]]]) -> int:
    """Free parameters, counted by the network of uniform tables."""
    declared = {}
    for v, (states, parents) in variables.items():
        shape = [len(variables[p][0]) for p in parents]
        declared[v] = {
            "states": states,
            "parents": parents,
            "table": np.full((*shape, len(states)), 1 / len(states)).tolist(),
        }
    return bl.network(bl.Model(model=bl.BayesNet(variables=declared))).plain.n_parameters


@pytest.mark.slow(why="statistical")
def test_heart_disease_is_learned_without_being_seen():
    """EM fits better than the tables the data came from, and finds a disease that predicts the symptoms as they do."""
    fit = bl.fit(MODELS / "heart_disease.yaml", progress=False, runs=None)
    assert fit.method == "em"
    net, data = bl.network(fit), table("heart_disease")
    # The marginals of what is seen are those of the data, up to the prior.
    asked = net.query()
    for v in [*CAUSES, *SYMPTOMS]:
        share = data[v].value_counts(normalize=True)
        for state, p in asked[v].items():
            assert p == pytest.approx(share[state], abs=0.02)
    # Symptoms depend on each other through the disease alone, as strongly as in the data.
    for first, second in (("chest_pain", "breathlessness"), ("breathlessness", "fatigue")):
        severe = data[data[first] == SYMPTOMS[first][0][-1]]
        expected = (severe[second] == SYMPTOMS[second][0][-1]).mean()
        found = net.query({first: SYMPTOMS[first][0][-1]})[second][SYMPTOMS[second][0][-1]]
        assert found == pytest.approx(expected, abs=0.08)
