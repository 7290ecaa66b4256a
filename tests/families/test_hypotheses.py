"""A finite set of hypotheses: the candy bags and the cancer test of the textbooks, and what follows from Bayes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.exact.finite import Hypotheses as Finite
from bayeslab.expanding import expanded
from tests.refusals import refused

FILE = Path(__file__).parents[2] / "models" / "candy_bags.yaml"
PRIOR = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
LIME = np.array([0.0, 0.25, 0.5, 0.75, 1.0])

# Russell and Norvig (2003), figure 20.1: P(h | d) and P(next is lime) after 0 to 10 limes, to six digits.
FIGURE = np.array(
    [
        [0.1, 0.2, 0.4, 0.2, 0.1, 0.5],
        [0, 0.100000, 0.400000, 0.300000, 0.200000, 0.650000],
        [0, 0.038462, 0.307692, 0.346154, 0.307692, 0.730769],
        [0, 0.013158, 0.210526, 0.355263, 0.421053, 0.796053],
        [0, 0.004132, 0.132231, 0.334711, 0.528926, 0.847107],
        [0, 0.001220, 0.078049, 0.296341, 0.624390, 0.885976],
        [0, 0.000344, 0.044047, 0.250860, 0.704749, 0.915003],
        [0, 0.000094, 0.024069, 0.205622, 0.770214, 0.936489],
        [0, 0.000025, 0.012851, 0.164675, 0.822449, 0.952387],
        [0, 0.000007, 0.006747, 0.129681, 0.863566, 0.964201],
        [0, 0.000002, 0.003499, 0.100872, 0.895628, 0.973031],
    ]
)


def bags(candies):
    """The five bags after candies (1 lime, 0 cherry)."""
    candies = np.asarray(candies)
    with np.errstate(divide="ignore"):
        return Finite(PRIOR, np.log(np.where(candies[:, None] == 1, LIME, 1 - LIME)))


@pytest.fixture(scope="module")
def candy():
    return bl.fit(FILE, runs=None, progress=False)


@pytest.fixture(scope="module")
def learning(candy):
    return candy.data_tree["learning"].to_dataset()


# ------------------------------------------------------------------------------------- the candy bags


def test_the_expanded_form_has_the_posterior_of_the_textbook(tmp_path):
    path = tmp_path / "candy.yaml"
    path.write_text(expanded(FILE).text(path))
    whole = bl.fit(path, runs=None, progress=False)
    number, p = np.arange(5), PRIOR * LIME**10
    assert whole.log_evidence == pytest.approx(np.log(p.sum()), abs=1e-10)
    mean = float(whole.data_tree["exact_posterior"]["true_hypothesis"].sel(statistic="mean"))
    sd = float(whole.data_tree["exact_posterior"]["true_hypothesis"].sel(statistic="sd"))
    assert mean == pytest.approx(number @ p / p.sum(), abs=1e-10)
    assert sd**2 + mean**2 == pytest.approx(number**2 @ p / p.sum(), abs=1e-10)


@pytest.mark.parametrize("family", ["Normal", "Poisson"])
def test_expanded_distributions_have_the_evidence_by_hand(family):
    texts = {"Normal": ("Normal(0, 1)", "Normal(2, 1.5)"), "Poisson": ("Poisson(1)", "Poisson(4)")}[family]
    laws = {"Normal": (stats.norm(0, 1).logpdf, stats.norm(2, 1.5).logpdf)}
    laws["Poisson"] = (stats.poisson(1).logpmf, stats.poisson(4).logpmf)
    hypotheses = {name: {"prior": p, "likelihood": text} for name, p, text in zip("ab", (0.3, 0.7), texts, strict=True)}
    short = bl.Model(model={"family": "hypotheses", "observed": "x", "hypotheses": hypotheses})
    rows = {"x": np.array([0, 3, 1])}
    whole = bl.fit(bl.expand(short, rows), rows, runs=None, progress=False)
    want = np.logaddexp(*(np.log(p) + law(rows["x"]).sum() for p, law in zip((0.3, 0.7), laws[family], strict=True)))
    assert whole.log_evidence == pytest.approx(want, abs=1e-10)


def test_posterior_after_every_lime(candy, learning):
    np.testing.assert_allclose(learning["posterior"], FIGURE[:, :5], atol=5e-7)
    assert candy.method == "exact"
    rows = candy.summary()
    np.testing.assert_allclose(rows["mean"], FIGURE[10, :5], atol=5e-7)
    assert list(rows.index) == [f"is_true[h{i}]" for i in range(1, 6)]


def test_bayesian_prediction(candy, learning):
    np.testing.assert_allclose(learning["bayes_prediction"].sel(state="lime"), FIGURE[:, 5], atol=5e-7)
    table = candy.predict({"candy": ["lime"]}, kind="probabilities")
    assert table["P(candy=lime)"].item() == pytest.approx(0.973031, abs=5e-7)
    assert table["P(candy=cherry)"].item() == pytest.approx(1 - 0.973031, abs=5e-7)


def test_most_probable_bag_and_its_prediction(learning):
    """h3 up to one lime, h4 after two, h5 from three on; then lime is certain, where Bayes says 0.8."""
    assert learning["map"].to_numpy().tolist() == ["h3", "h3", "h4"] + ["h5"] * 8
    assert learning["map_prediction"].sel(state="lime", seen=3) == 1.0
    assert learning["bayes_prediction"].sel(state="lime", seen=3) == pytest.approx(0.8, abs=0.005)


def test_best_fitting_bag(learning):
    assert learning["ml"].to_numpy()[1:].tolist() == ["h5"] * 10
    assert np.all(learning["ml_prediction"].sel(state="lime")[1:] == 1)


def test_evidence(candy, learning):
    assert np.exp(learning["log_evidence"][10].item()) == pytest.approx(0.111653519, abs=5e-10)
    assert candy.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(-2.192355, abs=5e-7)
    assert bags(np.ones(10)).log_likelihoods[10, 2] == pytest.approx(np.log(0.0009765625))


def test_description_lengths(learning):
    """Bits of hypothesis and data; h5 needs none for limes. The shortest description is the MAP bag."""
    printed = {1: [4.321928, 2.321928, 2.736966, 3.321928], 2: [6.321928, 3.321928, 3.152003, 3.321928]}
    printed |= {3: [8.321928, 4.321928, 3.567041, 3.321928], 10: [22.321928, 11.321928, 6.472303, 3.321928]}
    for limes, bits in printed.items():
        np.testing.assert_allclose(learning["bits"].sel(seen=limes)[1:], bits, atol=5e-7)
    assert np.all(np.isinf(learning["bits"].sel(hypothesis="h1")[1:]))
    shortest = learning["hypothesis"].to_numpy()[learning["bits"].to_numpy().argmin(axis=1)]
    assert shortest.tolist() == learning["map"].to_numpy().tolist()


def test_draws_are_of_the_posterior(candy):
    true = candy.posterior["is_true"].to_numpy().reshape(-1, 5)
    assert np.all(true.sum(axis=1) == 1)
    share = FIGURE[10, :5]
    assert np.all(np.abs(true.mean(axis=0) - share) < 4 * np.sqrt(share * (1 - share) / len(true)) + 5e-4)
    drawn = candy.predict(kind="draws")["candy"].to_numpy()
    assert drawn.mean() == pytest.approx(FIGURE[10, 5], abs=0.012)


@pytest.mark.slow(why="compiles")
def test_graph_sums_the_hypothesis_out():
    graph = bl.to_pymc(FILE)
    assert not graph.free_RVs
    assert graph.logp().eval() == pytest.approx(-2.192355, abs=5e-7)


# ------------------------------------------------------------------------------------- what must hold


@pytest.mark.parametrize("true", [0, 1, 2, 3])
def test_a_hundred_candies_from_each_bag(true):
    """The true bag's posterior goes to one and the prediction to its share of limes; MAP and ML end equal."""
    candies = (np.random.default_rng(true).uniform(size=100) < LIME[true]).astype(int)
    after = bags(candies)
    assert after.posterior[-1, true] > 0.95
    next_lime = after.predictive(LIME[:, None])[:, 0]
    assert next_lime[-1] == pytest.approx(LIME[true], abs=0.02)
    assert after.most_probable[-1] == after.best_fitting[-1] == true
    for choice in (after.most_probable, after.best_fitting):
        assert set(LIME[choice]) <= {0, 0.25, 0.5, 0.75, 1}


def test_uniform_prior_makes_map_and_ml_agree():
    after = Finite(np.full(5, 0.2), bags([1, 1, 0, 1, 0, 0, 1]).log_likelihood)
    assert np.all(after.most_probable == after.best_fitting)


def test_false_bags_vanish():
    after = bags(np.ones(40)).posterior
    assert np.all(np.diff(after[:, 4]) > 0)
    assert 1 - after[-1, 4] < 1e-4


def test_order_does_not_matter():
    ends = {tuple(np.round(bags(order).posterior[-1], 12)) for order in itertools.permutations([1, 1, 0, 1, 0])}
    assert len(ends) == 1


def test_bayes_prediction_is_best_on_average():
    """Bags drawn from the prior: mean log score and error of Bayes, MAP, and the plug-in of a random bag."""
    rng = np.random.default_rng(3)
    score = {"bayes": [], "map": [], "random": []}
    error = {"bayes": [], "map": [], "random": []}
    for _ in range(3000):
        lime = LIME[rng.choice(5, p=PRIOR)]
        after = bags((rng.uniform(size=4) < lime).astype(int))
        chance = {
            "bayes": after.predictive(LIME[:, None])[-1, 0],
            "map": LIME[after.most_probable[-1]],
            "random": LIME[rng.choice(5, p=PRIOR)],
        }
        for name, p in chance.items():
            clipped = np.clip(p, 1e-3, 1 - 1e-3)
            score[name].append(lime * np.log(clipped) + (1 - lime) * np.log1p(-clipped))
            error[name].append(lime if p < 0.5 else 1 - lime)
    for better, worse in (("bayes", "map"), ("map", "random")):
        gain = np.array(score[better]) - np.array(score[worse])
        assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
        gain = np.array(error[worse]) - np.array(error[better])
        assert gain.mean() > -2 * gain.std() / np.sqrt(len(gain))


def test_the_simplest_consistent_theory():
    """Deterministic formulas with prior 2^-size: MAP is the shortest that agrees with the data."""
    inputs = np.array(list(itertools.product([0, 1], repeat=2)))
    a, b = inputs.T
    theories = {"a": a, "b": b, "not a": 1 - a, "a and b": a & b, "a or b": a | b, "a and not b": a & (1 - b)}
    sizes = np.array([len(name.split()) for name in theories])
    prior = 2.0**-sizes / (2.0**-sizes).sum()
    outputs = np.array(list(theories.values()))
    for seen in (np.array([3]), np.array([3, 0]), np.array([1, 3]), np.array([3, 1, 2])):
        for truth in range(len(theories)):
            right = outputs[:, seen] == outputs[truth, seen]
            with np.errstate(divide="ignore"):
                after = Finite(prior, np.log(right.T.astype(float)))
            consistent = np.flatnonzero(right.all(axis=1))
            assert after.most_probable[-1] == consistent[sizes[consistent].argmin()]
            np.testing.assert_allclose(after.posterior[-1, consistent].sum(), 1)


def test_rules_of_probability():
    joint = np.random.default_rng(5).dirichlet(np.ones(12)).reshape(4, 3)
    prior, given = joint.sum(axis=1), joint / joint.sum(axis=1, keepdims=True)
    for seen in range(3):
        after = Finite(prior, np.log(given[:, [seen]].T))
        np.testing.assert_allclose(after.posterior[-1], joint[:, seen] / joint[:, seen].sum())
        assert np.exp(after.log_evidence[-1]) == pytest.approx(prior @ given[:, seen])


# ------------------------------------------------------------------------------------- other models


def test_the_cancer_test():
    """Mitchell (1997), section 6.2.1: after one positive test cancer is still improbable; after two it is not."""
    table = {
        "cancer": {"prior": 0.008, "likelihood": {"pos": 0.98, "neg": 0.02}},
        "no_cancer": {"prior": 0.992, "likelihood": {"pos": 0.03, "neg": 0.97}},
    }
    model = bl.Model(model={"family": "hypotheses", "observed": "lab", "hypotheses": table})
    learned = bl.fit(model, {"lab": ["pos", "pos"]}, runs=None, progress=False).data_tree["learning"].to_dataset()
    once = learned.sel(seen=1)
    assert once["posterior"].sel(hypothesis="cancer") == pytest.approx(0.208511, abs=5e-7)
    assert once["posterior"].sel(hypothesis="no_cancer") == pytest.approx(0.791489, abs=5e-7)
    assert once["map"] == "no_cancer"
    assert np.exp(-once["bits"].sel(hypothesis="cancer").item() * np.log(2)) == pytest.approx(0.00784)
    assert np.exp(-once["bits"].sel(hypothesis="no_cancer").item() * np.log(2)) == pytest.approx(0.02976)
    twice = 0.008 * 0.98**2 / (0.008 * 0.98**2 + 0.992 * 0.03**2)
    assert learned["posterior"].sel(seen=2, hypothesis="cancer") == pytest.approx(twice)


def family(likelihoods, **data):
    table = {f"h{i}": {"likelihood": text} for i, text in enumerate(likelihoods)}
    return bl.Model(model={"family": "hypotheses", "observed": "y", "hypotheses": table})


Y = np.array([0.4, 1.9, 1.1])
N = np.array([3, 5, 2])


@pytest.mark.parametrize(
    ("likelihoods", "data", "truth"),
    [
        (
            ["Normal(0, 1)", "Normal(2, 0.5)", "StudentT(3, 1, 1)"],
            {"y": Y},
            [stats.norm(0, 1), stats.norm(2, 0.5), stats.t(3, 1, 1)],
        ),
        (["Exponential(1)", "Uniform(0, 2)"], {"y": Y}, [stats.expon(), stats.uniform(0, 2)]),
        (["Normal(x, 1)", "Normal(-x, 2)"], {"y": Y, "x": Y**2}, [stats.norm(Y**2, 1), stats.norm(-(Y**2), 2)]),
        (
            ["Binomial(n, 0.5)", "Binomial(n, 0.9)"],
            {"y": [1, 4, 2], "n": N},
            [stats.binom(N, 0.5), stats.binom(N, 0.9)],
        ),
        (["Poisson(2)", "Geometric(0.4)"], {"y": [1, 4, 2]}, [stats.poisson(2), stats.geom(0.4)]),
        (["Bernoulli(0.2)", "Bernoulli(0.7)"], {"y": [0, 1, 1]}, [stats.bernoulli(0.2), stats.bernoulli(0.7)]),
    ],
)
def test_distributions(likelihoods, data, truth):
    found = bl.fit(family(likelihoods), data, runs=None, progress=False)
    y = np.asarray(data["y"])
    height = np.array([(t.logpdf if hasattr(t.dist, "pdf") else t.logpmf)(y).sum() for t in truth])
    weights = np.exp(height - height.max())
    np.testing.assert_allclose(found.data_tree["learning"]["posterior"][-1], weights / weights.sum())
    evidence = found.data_tree["exact_posterior"].attrs["log_evidence"]
    assert evidence == pytest.approx(np.log(np.mean(np.exp(height))))


def test_graph_of_distributions():
    graph = bl.to_pymc(family(["Normal(0, 1)", "Normal(2, 0.5)"]), {"y": Y})
    height = [stats.norm(0, 1).logpdf(Y).sum(), stats.norm(2, 0.5).logpdf(Y).sum()]
    assert graph.logp().eval() == pytest.approx(np.log(np.mean(np.exp(height))))
    with refused("model.unsupported", "method exact"):
        bl.to_pymc(family(["Normal(0, 1)", "StudentT(3, 0, 1)"]), {"y": Y})


HALF = {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    ("hypotheses", "data", "code", "match"),
    [
        (
            {"g": {"prior": 0.3, "likelihood": HALF}, "h": {"prior": 0.4, "likelihood": HALF}},
            {"y": ["a", "b"]},
            "model.not-probabilities",
            r"^model\.hypotheses: .*0\.7",
        ),
        (
            {"g": {"prior": 0.3, "likelihood": HALF}, "h": {"likelihood": HALF}},
            {"y": ["a", "b"]},
            "model.incomplete",
            r"^model\.hypotheses: .*prior",
        ),
        (
            {"g": {"likelihood": HALF}, "h": {"likelihood": {"a": 0.5, "b": 0.4}}},
            {"y": ["a", "b"]},
            "model.not-probabilities",
            r"'h'.*0\.9",
        ),
        (
            {"g": {"likelihood": HALF}, "h": {"likelihood": {"a": 0.5, "c": 0.5}}},
            {"y": ["a", "b"]},
            "model.contradiction",
            "'h'.*'a', 'c'.*'a', 'b'",
        ),
        (
            {"g": {"likelihood": HALF}, "h": {"likelihood": "Normal(0, 1)"}},
            {"y": ["a", "b"]},
            "model.conflict",
            "^model: likelihoods",
        ),
        (
            {"g": {"likelihood": "Normall(0, 1)"}},
            {"y": [1.0]},
            "model.not-a-distribution",
            r"^model\.hypotheses\.g\.likelihood: .*'Normal'",
        ),
        ({"g": {"likelihood": HALF}}, {"z": ["a"]}, "model.unknown-column", r"^model\.observed: .*'y'"),
        ({"g": {"likelihood": HALF}}, {"y": ["a", "c"]}, "data.unknown-level", "'y', row 2: 'c'"),
    ],
)
def test_hypotheses_that_are_wrong_are_refused(hypotheses, data, code, match):
    spec = {"family": "hypotheses", "observed": "y", "hypotheses": hypotheses}
    with refused(code, match):
        bl.fit(bl.Model(model=spec), data, runs=None, progress=False)


@pytest.mark.parametrize(("rare", "common"), [("NA", "x"), ("nan", "null"), ("True", "False"), ("1", "0")])
def test_values_by_names_that_could_be_read_otherwise(tmp_path, rare, common):
    """Names of missing cells and truth values are the table's values; files, lists and frames agree."""
    table = {"g": {"likelihood": {rare: 0.1, common: 0.9}}, "h": {"likelihood": {rare: 0.6, common: 0.4}}}
    model = bl.Model(model={"family": "hypotheses", "observed": "y", "hypotheses": table})
    (tmp_path / "y.csv").write_text(f"y,n\n{rare},1\n{common},2\n{rare},3\n")
    forms = [tmp_path / "y.csv", {"y": [rare, common, rare]}, pd.DataFrame({"y": [rare, common, rare]})]
    if rare == "True":
        forms += [{"y": [True, False, True]}, pd.DataFrame({"y": [True, False, True]})]
    truth = 0.6 * 0.4 * 0.6 / (0.6 * 0.4 * 0.6 + 0.1 * 0.9 * 0.1)
    for data in forms:
        fit = bl.fit(model, data, runs=None, progress=False)
        assert fit.summary().loc["is_true[h]", "mean"] == pytest.approx(truth, rel=1e-12)


def test_impossible_data():
    model = bl.Model(
        model={"family": "hypotheses", "observed": "y", "hypotheses": {"g": {"likelihood": {"a": 1, "b": 0}}}}
    )
    with refused("data.probability-zero", "2.*'y'"):
        bl.fit(model, {"y": ["a", "b"]}, runs=None, progress=False)


def test_probabilities_are_not_compared_with_densities():
    hypotheses = {"counts": {"likelihood": "Poisson(3)"}, "numbers": {"likelihood": "Normal(3, 1)"}}
    with refused("model.conflict", "'counts'.*'numbers'", where="model"):
        bl.Model(
            name="m", data={"rows": "row"}, model={"family": "hypotheses", "observed": "y", "hypotheses": hypotheses}
        )


@pytest.mark.parametrize(
    ("word", "code", "match"),
    [
        ("Bernoulli(1.5)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*1\.5"),
        ("Binomial(10, -0.2)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*-0\.2"),
        ("Binomial(2.5, 0.2)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*2\.5"),
        ("Poisson(-1)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*-1"),
        ("Geometric(0)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*Geometric"),
        ("Categorical([0.5, 0.6])", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*1\.1"),
        ("Normal(0, -1)", "model.out-of-range", r"^model\.hypotheses\.a\.likelihood.*-1"),
    ],
)
def test_distributions_that_do_not_exist_are_refused(word, code, match):
    """A hypothesis without a distribution was one under which everything is impossible."""
    other = word.partition("(")[0] + {"Categorical": "([0.5, 0.5])", "Normal": "(0, 1)", "Binomial": "(10, 0.2)"}.get(
        word.partition("(")[0], "(0.5)"
    )
    hypotheses = {"a": {"prior": 0.5, "likelihood": word}, "b": {"prior": 0.5, "likelihood": other}}
    model = bl.Model(model={"family": "hypotheses", "observed": "z", "hypotheses": hypotheses})
    with refused(code, match):
        bl.fit(model, {"z": [1, 1]}, runs=None, progress=False)


def test_predictions_by_hypotheses_of_different_distributions_are_refused_in_their_words():
    spec = bl.Model(
        name="m",
        model={
            "family": "hypotheses", "observed": "y",
            "hypotheses": {"even": {"likelihood": "Normal(0, 1)"}, "long": {"likelihood": "Exponential(1)"}},
        },
    )  # fmt: skip
    fit = bl.fit(spec, {"y": [0.5, 1.5]}, seed=1, progress=False, runs=None)
    density = [stats.norm.pdf([0.5, 1.5]).prod(), stats.expon.pdf([0.5, 1.5]).prod()]
    assert fit.posterior["is_true"].to_numpy().mean(axis=(0, 1)) == pytest.approx(
        np.array(density) / sum(density), abs=0.05
    )
    with refused("model.unsupported", "hypotheses have different distributions", where="model.hypotheses"):
        fit.predict(None)
