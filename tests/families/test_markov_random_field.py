"""Markov random fields from declarations: every engine against enumeration, evidence, images, and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from tests.refusals import refused

STATES = {"a": ["low", "mid", "high"], "b": ["no", "yes"], "c": ["no", "yes"], "d": ["x", "y", "z"]}
RNG = np.random.default_rng(4)
POTENTIALS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "b", "c"), ("d",)]
TABLES = [RNG.gamma(1.5, size=[len(STATES[v]) for v in scope]) for scope in POTENTIALS]


def field(**more) -> bl.Model:
    """A cycle with a chord of three variables; every second table is written as logarithms."""
    potentials = [
        {"variables": list(scope), "log_table" if k % 2 else "table": (np.log(table) if k % 2 else table).tolist()}
        for k, (scope, table) in enumerate(zip(POTENTIALS, TABLES, strict=True))
    ]
    spec = {"family": "markov_random_field", "variables": STATES, "potentials": potentials}
    return bl.Model(name="field", model=spec | more, seed=1)


def log_joint(weights: dict[str, list[float]]) -> np.ndarray:
    """Log of the product of all tables and of the likelihoods of states, one axis a variable."""
    names = list(STATES)
    out = np.zeros([len(s) for s in STATES.values()])
    for codes in np.ndindex(*out.shape):
        at = dict(zip(names, codes, strict=True))
        product = np.prod([t[tuple(at[v] for v in s)] for s, t in zip(POTENTIALS, TABLES, strict=True)])
        with np.errstate(divide="ignore"):
            out[codes] = np.log(product * np.prod([w[at[v]] for v, w in weights.items()]))
    return out


def fit(model: bl.Model, data=None, method: str | None = None, **options) -> bl.Fit:
    return bl.fit(model, data, method=method, runs=None, progress=False, **options)


EVIDENCE = [
    ({}, None, {}),
    ({"b": "yes"}, None, {"b": [0, 1]}),
    ({"a": {"low": 0.2, "high": 0.7}}, pd.DataFrame({"c": ["no"]}), {"a": [0.2, 0, 0.7], "c": [1, 0]}),
    ({}, pd.DataFrame({"c": ["yes"], "d": [None]}), {"c": [0, 1]}),
]


@pytest.mark.parametrize(("given", "data", "weights"), EVIDENCE)
def test_exact_is_enumeration(given, data, weights):
    log_p, whole = log_joint(weights), logsumexp(log_joint({}))
    answer = fit(field(given=given), data)
    assert answer.method == "exact"
    assert answer.verdict.status == "pass"
    p = np.exp(log_p - logsumexp(log_p))
    best = np.unravel_index(log_p.argmax(), log_p.shape)
    assert answer.field.log_partition == pytest.approx(whole)
    if weights:
        assert answer.log_evidence == pytest.approx(logsumexp(log_p) - whole)
    known = {v for v, w in weights.items() if np.count_nonzero(w) == 1}
    chances, words = answer.field.probabilities(), answer.field.most_probable()
    assert set(chances.data_vars) == set(STATES) - known
    summary, drawn = answer.summary(), answer.posterior
    for k, v in enumerate(STATES):
        if v in known:
            continue
        marginal = p.sum(axis=tuple(i for i in range(4) if i != k))
        np.testing.assert_allclose(chances[v], marginal, rtol=1e-9, atol=1e-12)
        assert str(words[v].item()) == STATES[v][best[k]]
        np.testing.assert_allclose([summary.loc[f"{v}[{s}]", "mean"] for s in STATES[v]], marginal, atol=1e-9)
        share = drawn[v].mean(("chain", "draw")).to_numpy()
        assert np.all(np.abs(share - marginal) <= 5 * np.sqrt(marginal * (1 - marginal) / 4000))
    assert float(answer.data_tree["most_probable"]["log_probability"]) == pytest.approx(np.log(p[best]))
    table = answer.predict()
    assert table["P(d=z)"].item() == pytest.approx(p.sum(axis=(0, 1, 2))[2])
    # Queries of the network have the evidence of the model in them.
    query = bl.network(answer).query()
    assert query.log_evidence == pytest.approx(logsumexp(log_p))
    assert query["d"]["x"] == pytest.approx(p.sum(axis=(0, 1, 2))[0])


def test_a_model_is_queried_without_a_fit():
    log_p = log_joint({"b": [0, 1], "d": [1, 0, 0]})
    answer = bl.network(field(given={"b": "yes"})).query({"d": "x"})
    p = np.exp(log_p - logsumexp(log_p)).sum(axis=(1, 2, 3))
    assert answer["a"] == pytest.approx(dict(zip(STATES["a"], p, strict=True)))


@pytest.mark.slow(why="statistical")
def test_gibbs_is_enumeration():
    log_p = log_joint({"a": [0.2, 0, 0.7], "c": [1, 0]})
    p = np.exp(log_p - logsumexp(log_p))
    model = field(given={"a": {"low": 0.2, "high": 0.7}, "c": "no"})
    answer = fit(model, method="gibbs", draws=2500)
    assert answer.verdict.status == "pass", str(answer.verdict)
    summary = answer.summary()
    for k, v in enumerate(STATES):
        marginal = p.sum(axis=tuple(i for i in range(4) if i != k))
        for s, share in zip(STATES[v], marginal, strict=True) if v != "c" else ():
            row = summary.loc[f"{v}[{s}]"]
            assert abs(row["mean"] - share) <= 5 * row["mcse_mean"] if 0 < share < 1 else row["mean"] == share
    best = np.unravel_index(log_p.argmax(), log_p.shape)
    assert str(answer.field.most_probable()["d"].item()) == STATES["d"][best[3]]
    assert answer.data_tree["sample_stats"]["lp"].max() == pytest.approx(log_p.max())


def test_loopy_is_exact_on_a_tree_and_says_so():
    tree = field(potentials=[{"variables": list(POTENTIALS[k]), "table": TABLES[k].tolist()} for k in (0, 1, 2, 5)])
    exact, loopy = fit(tree), fit(tree, method="loopy")
    assert loopy.verdict.status == "pass"
    for v in STATES:
        np.testing.assert_allclose(loopy.field.probabilities()[v], exact.field.probabilities()[v], atol=1e-9)
    whole, summary = exact.summary(), loopy.summary()  # probabilities, not shares of the draws from them
    assert list(whole.columns) == list(summary.columns)
    np.testing.assert_allclose(summary, whole.loc[summary.index], atol=1e-9)
    assert loopy.field.most_probable().equals(exact.field.most_probable())
    assert loopy.posterior.attrs["bethe_log_partition"] == pytest.approx(exact.field.log_partition)
    doubted = fit(field(), method="loopy")
    assert {f.check: f.status for f in doubted.verdict.findings} == {"messages": "pass", "loops": "warn"}
    unfinished = fit(field(), method="loopy", max_sweeps=1)
    assert unfinished.verdict.status == "fail"


# --------------------------------------------------------------------------------- images


def picture(log_likelihood: np.ndarray, pair: np.ndarray, alone: np.ndarray, steps) -> tuple[np.ndarray, float, float]:
    """Marginals (rows, columns, states), log evidence and log partition by enumeration of all labellings."""
    height, width, k = log_likelihood.shape
    logs, given, all_labels = [], [], list(itertools.product(range(k), repeat=height * width))
    for labels in all_labels:
        x = np.array(labels).reshape(height, width)
        value = alone[x].sum()
        for r, c, (down, right) in itertools.product(range(height), range(width), steps):
            if r + down < height and 0 <= c + right < width:
                value += pair[x[r, c], x[r + down, c + right]]
        logs.append(value)
        given.append(value + np.take_along_axis(log_likelihood, x[..., None], axis=2).sum())
    p = np.exp(np.array(given) - logsumexp(given))
    each = (np.array(all_labels)[..., None] == np.arange(k)).astype(float)
    marginals = np.tensordot(p, each, axes=1).reshape(height, width, k)
    return marginals, logsumexp(given) - logsumexp(logs), logsumexp(logs)


PIXELS = pd.DataFrame(
    [(r, c, "abba"[(r * 5 + c * 3) % 4]) for r in range(3) for c in range(4) if (r, c) != (1, 2)],
    columns=["y", "x", "shade"],
)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_a_table_of_pixels_is_enumeration(neighbours):
    """A pixel without a row in the table is summed out."""
    grid = {
        "observed": "shade", "row": "y", "column": "x", "states": ["a", "b"], "coupling": 0.7, "noise": 0.2,
        "external_field": {"b": 0.3}, "neighbours": neighbours,
    }  # fmt: skip
    log_likelihood = np.zeros((3, 4, 2))
    for y, x, shade in PIXELS.itertuples(index=False):
        log_likelihood[y, x] = np.log([0.8, 0.2] if shade == "a" else [0.2, 0.8])
    steps = [(0, 1), (1, 0)] + [(1, 1), (1, -1)] * (neighbours == 8)
    marginals, evidence, log_z = picture(log_likelihood, 0.7 * np.eye(2), np.array([0, 0.3]), steps)
    answer = fit(bl.Model(model={"family": "markov_random_field", "grid": grid}, seed=1), PIXELS.sample(frac=1))
    np.testing.assert_allclose(answer.field.probabilities()["label"], marginals, rtol=1e-9)
    assert answer.log_evidence == pytest.approx(evidence)
    assert answer.field.log_partition == pytest.approx(log_z)
    table = answer.predict()
    assert table["P(label=b)"].to_numpy() == pytest.approx(marginals[..., 1].ravel())
    assert table.columns[:2].tolist() == ["y", "x"]


def test_an_array_of_numbers_is_enumeration():
    values = np.random.default_rng(0).normal(size=(2, 4))
    values[1, 1] = np.nan
    pair = np.array([[0.5, 0.1, -0.4], [0.1, 0.9, 0.0], [-0.4, 0.0, 0.2]])
    grid = {
        "observed": "grey", "states": ["0", "1", "2"], "coupling": pair.tolist(), "label": "region",
        "emission": {"0": "Normal(-1, 0.7)", "1": "Normal(0, 0.7)", "2": "Laplace(1, 0.5)"},
    }  # fmt: skip
    source = {"dims": {"grey": ["line", "place"]}}
    model = bl.Model(model={"family": "markov_random_field", "grid": grid}, data=source, seed=1)
    given = np.stack([stats.norm(m, 0.7).logpdf(values) for m in (-1, 0)] + [stats.laplace(1, 0.5).logpdf(values)], -1)
    marginals, evidence, log_z = picture(np.nan_to_num(given), pair, np.zeros(3), [(0, 1), (1, 0)])
    answer = fit(model, {"grey": values})
    np.testing.assert_allclose(answer.field.probabilities()["region"], marginals, rtol=1e-9)
    assert answer.field.probabilities()["region"].dims == ("line", "place", "region_state")
    assert answer.log_evidence == pytest.approx(evidence)
    assert answer.field.log_partition == pytest.approx(log_z)


def test_a_wide_image_is_sampled():
    """The junction tree of 36 × 36 pixels does not fit into any memory."""
    pixels = np.random.default_rng(1).integers(0, 2, (36, 36)).astype(float)
    grid = {"observed": "pixel", "states": ["0", "1"], "coupling": 0.4, "noise": 0.3}
    model = bl.Model(model={"family": "markov_random_field", "grid": grid}, data={"dims": {"pixel": ["r", "c"]}})
    with refused("engine.refused.too-costly"):
        bl.check(model, {"pixel": pixels}, method="exact")
    from bayeslab.preparation import checked

    assert checked(model, {"pixel": pixels}).engine == "gibbs"


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("more", "code", "where"),
    [
        ({"potentials": [{"variables": ["a", "e"], "table": 1}]}, "unknown-variable", "model.potentials.0.variables"),
        ({"potentials": [{"variables": ["b"], "table": [1, 2, 3]}]}, "wrong-shape", "model.potentials.0.table"),
        ({"potentials": [{"variables": ["b"], "table": [1, -2]}]}, "out-of-range", "model.potentials.0.table"),
        ({"potentials": [{"variables": ["b"], "table": {"no": 1, "maybe": 2}}]}, "unknown-state", "model.potentials"),
        ({"potentials": [{"variables": ["b"], "table": {"no": 1}}]}, "incomplete", "model.potentials.0.table"),
        ({"potentials": [{"variables": ["b"], "table": [1, 1], "log_table": [0, 0]}]}, "conflict", "model.potentials"),
        ({"potentials": [{"variables": ["b", "b"], "table": [[1, 1], [1, 1]]}]}, "duplicate", "model.potentials"),
        ({"given": {"b": "maybe"}}, "unknown-state", "model.given"),
        ({"given": {"e": "x"}}, "unknown-variable", "model.given"),
        ({"variables": {}}, "conflict", "model"),
    ],
)
def test_a_wrong_field_is_refused_at_its_place(more, code, where):
    with refused(f"model.{code}", where=where):
        bl.check(field(**more))


def test_evidence_is_refused():
    with refused("data.wrong-length"):
        bl.check(field(), pd.DataFrame({"b": ["yes", "no"]}))
    with refused("data.duplicate", "'b'"):
        bl.check(field(given={"b": "yes"}), pd.DataFrame({"b": ["yes"]}))
    with refused("data.unknown-state", "'maybe'"):
        bl.check(field(), pd.DataFrame({"b": ["maybe"]}))
    with refused("model.unknown-column"):
        bl.check(field(), pd.DataFrame({"bb": ["yes"]}))


@pytest.mark.parametrize(
    ("more", "data", "code"),
    [
        ({"noise": None}, PIXELS, "model.conflict"),
        ({"row": None}, PIXELS, "model.incomplete"),
        ({"row": None, "column": None}, PIXELS, "data.bad-dimensions"),
        ({"column": "z"}, PIXELS, "model.unknown-column"),
        ({"coupling": [[1, 2], [3, 4]]}, PIXELS, "model.wrong-shape"),
        ({"noise": None, "emission": {"a": "Norml(0, 1)", "b": "Normal(1, 1)"}}, PIXELS, "model.not-a-distribution"),
        ({"noise": None, "emission": {"a": "Normal(0, 1)"}}, PIXELS, "model.incomplete"),
        ({}, PIXELS.assign(x=0), "data.duplicate"),
        ({}, PIXELS.assign(x=PIXELS["x"] / 2), "data.out-of-range"),
        ({"states": ["a", "c"]}, PIXELS, "data.unknown-state"),
        ({"noise": 0.0, "coupling": 1000.0}, PIXELS, "model.out-of-range"),
    ],
)
def test_a_wrong_image_is_refused(more, data, code):
    grid = {"observed": "shade", "row": "y", "column": "x", "states": ["a", "b"], "coupling": 1.0, "noise": 0.1}
    with refused(code):
        bl.check(bl.Model(model={"family": "markov_random_field", "grid": grid | more}), data)


@pytest.mark.parametrize("method", ["nuts", "map", "em", "variational"])
def test_other_methods_are_refused(method):
    with refused("engine.refused.other-family"):
        bl.check(field(), method=method)


def test_loopy_is_refused_elsewhere():
    model = bl.Model(model={"family": "regression", "formula": "y ~ x"})
    with refused("engine.refused.other-family"):
        bl.check(model, pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 3.0, 2.0]}), method="loopy")
    with refused("option.not-applicable"):
        _ = fit(model, pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 3.0, 2.0]})).field
