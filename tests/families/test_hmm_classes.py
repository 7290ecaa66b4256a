"""Sequences of several classes: against enumeration, separate models and differences; and bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states
from tests.families._interpreted import Interpreted
from tests.refusals import refused


def model(**content):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "sequence": "who", "classes": "kind"}
    return bl.Model(name="m", model=own | content)


def paths(start, transition, emission):
    """p(rows) as the sum over all paths; ``emission`` (n_rows, n_states) are probabilities."""
    total = 0.0
    for path in itertools.product(range(len(start)), repeat=len(emission)):
        p = 1.0
        for t, z in enumerate(path):
            p *= (start[z] if t == 0 else transition[path[t - 1], z]) * emission[t, z]
        total += p
    return total


# --------------------------------------------------------------------------------- enumeration

TINY = {
    "who": ["s"] * 3 + ["t"] * 4 + ["u"] * 2 + ["v"] * 3,
    "kind": ["b"] * 3 + ["a"] * 4 + [None] * 2 + ["a", None, "a"],
    "y": [0.5, -1.0, 2.0, np.nan, 1.5, -0.7, 1.2, 0.1, -2.0, 1.0, 0.4, -0.3],
}
OFFSETS, KNOWN = [0, 3, 7, 9, 12], [1, 0, -1, 0]


def values(rng, sizes):
    """Parameters: those of every class alone, and as the family calls them."""
    alone = [
        {
            "start": rng.dirichlet(np.ones(k)),
            "transition": rng.dirichlet(np.ones(k), k),
            "mean": rng.normal(size=k),
            "sd": rng.uniform(0.5, 2, k),
        }
        for k in sizes
    ]
    n, share = sum(sizes), rng.dirichlet(np.ones(len(sizes)))
    first, transition, at = np.zeros((len(sizes), n)), np.zeros((n, n)), 0
    for c, own in enumerate(alone):
        block = slice(at, at + sizes[c])
        first[c, block], transition[block, block] = own["start"], own["transition"]
        at += sizes[c]
    together = {
        "class_probability": share,
        "initial": first,
        "transition": transition,
        "mean": np.concatenate([own["mean"] for own in alone]),
        "sd": np.concatenate([own["sd"] for own in alone]),
    }
    return alone, share, together


def joint(alone, share, rows):
    """P(class, rows) for each class."""
    out = []
    for own, p in zip(alone, share, strict=True):
        emission = np.where(np.isnan(rows)[:, None], 1.0, stats.norm.pdf(rows[:, None], own["mean"], own["sd"]))
        out.append(p * paths(own["start"], own["transition"], emission))
    return np.array(out)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3)])
def test_evidence_and_classes_are_those_of_all_paths(sizes):
    rng = np.random.default_rng(sizes[0])
    declared = model(states=dict(zip("ab", sizes, strict=True)))
    data = bl.check(declared, TINY)
    alone, share, together = values(rng, sizes)
    y = np.array(TINY["y"])
    both = np.array([joint(alone, share, y[i:j]) for i, j in itertools.pairwise(OFFSETS)])
    want = [row.sum() if c < 0 else row[c] for row, c in zip(both, KNOWN, strict=True)]
    draws = {name: value[None] for name, value in together.items()}
    dims, found = hmm.compile(declared, data).log_likelihoods(draws)["sequence"]
    assert dims == ("sequence_number",)
    np.testing.assert_allclose(found[0], np.log(want), rtol=1e-10)
    table = hmm.compile(declared, data).probabilities(draws)
    assert list(table) == ["who", "P(kind=a)", "P(kind=b)"]
    np.testing.assert_allclose(
        np.column_stack([table["P(kind=a)"], table["P(kind=b)"]]), both / both.sum(axis=1, keepdims=True), rtol=1e-9
    )
    # Discriminative training: of the sequences whose class is known.
    other = model(states=declared.model.states, training="discriminative")
    _, found = hmm.compile(other, bl.check(other, TINY)).log_likelihoods(draws)["sequence"]
    chances = both / both.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[0], np.log([chances[0, 1], chances[1, 0], chances[3, 0]]), rtol=1e-9)


def test_equal_shares_leave_the_likelihood_to_decide():
    alone, _, together = values(np.random.default_rng(3), (2, 2))
    declared = model(class_probability="uniform")
    data = bl.check(declared, TINY)
    assert "class_probability" not in hidden_of(declared, data).learned
    draws = {name: value[None] for name, value in together.items() if name != "class_probability"}
    table = hmm.compile(declared, data).probabilities(draws)
    y = np.array(TINY["y"])
    for s, (i, j) in enumerate(itertools.pairwise(OFFSETS)):
        likelihood = joint(alone, [1.0, 1.0], y[i:j])
        assert table["P(kind=a)"][s] == pytest.approx(likelihood[0] / likelihood.sum(), rel=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("training", ["generative", "discriminative"])
def test_density_of_the_graph_and_its_slope(training):
    """Log likelihood plus priors by scipy; the slope by differences."""
    declared = model(training=training, states={"a": 2, "b": 1}, class_probability=[0.3, 0.7])
    data = bl.check(declared, TINY)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(0), 0.5)
    value, slope = density(point)
    own = density.parameters(point)
    draws = {name: own[name][None] for name in hidden_of(declared, data).learned}
    prior = hidden_of(declared, data).parts[0].emission.prior
    want = hmm.compile(declared, data).log_likelihoods(draws)["sequence"][1].sum()
    want += stats.norm.logpdf(own["mean"], prior.mean, own["sd"] / np.sqrt(prior.kappa)).sum()
    want += stats.invgamma.logpdf(own["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
    assert value == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------------- learning

STAY, LEAVE = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.2, 0.8], [0.8, 0.2]])


def planted(n, length, seed, labelled=1.0, noise=0.7):
    """Two kinds that emit the same values, in runs or in turns; with the truth."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(n):
        kind = s % 2
        states = simulate_states(HiddenChain.of([0.5, 0.5], (STAY, LEAVE)[kind]), [0, length], rng)
        y = np.array([-1.0, 1.0])[states] + noise * rng.standard_normal(length)
        told = "ab"[kind] if s < labelled * n else None
        rows += [{"who": f"s{s:03d}", "kind": told, "y": v} for v in y]
    return pd.DataFrame(rows), np.array(["ab"[s % 2] for s in range(n)])


def test_labelled_blocks_learn_as_models_of_their_own_would():
    """Step by step the same parameters as of two models, each on the sequences of its class."""
    table, truth = planted(30, 15, seed=1)
    together = hidden_of(model(), bl.check(model(), table))
    plan = hmm.compile(model(), bl.check(model(), table)).em_plan
    problem, theta = plan.problem(False), plan.start(np.random.default_rng(0))
    single = bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": 2, "sequence": "who"})
    alone = {}
    for c, kind in enumerate("ab"):
        block = slice(2 * c, 2 * c + 2)
        own = table[table["kind"] == kind].drop(columns="kind").reset_index(drop=True)
        alone[kind] = (
            hmm.compile(single, bl.check(single, own)).em_plan.problem(False),
            {
                "initial": theta["initial"][c, block],
                "transition": theta["transition"][block, block],
                "mean": theta["mean"][block],
                "sd": theta["sd"][block],
            },
        )
    heights = []
    for _ in range(40):
        height, counts = problem.expect(theta)
        theta = problem.update(counts, theta)
        apart = 0.0
        for kind, (own, guess) in alone.items():
            value, statistics = own.expect(guess)
            alone[kind] = own, own.update(statistics, guess)
            apart += value
        heights.append(height)
        shares = [np.mean(truth == "a"), np.mean(truth == "b")]
        if len(heights) > 1:  # the first step has other shares
            assert height == pytest.approx(apart + 15 * np.log(shares).sum(), rel=1e-10)
    assert np.all(np.diff(heights) > -1e-9)
    np.testing.assert_allclose(theta["class_probability"], [0.5, 0.5])
    for c, (_, own) in enumerate(alone.values()):
        block = slice(2 * c, 2 * c + 2)
        np.testing.assert_allclose(theta["initial"][c, block], own["initial"], atol=1e-9)
        np.testing.assert_allclose(theta["transition"][block, block], own["transition"], atol=1e-9)
        np.testing.assert_allclose(theta["mean"][block], own["mean"], atol=1e-9)
        np.testing.assert_allclose(theta["sd"][block], own["sd"], atol=1e-9)
    assert together.n_free == 1 + 2 * (1 + 2 + 4)


@pytest.fixture(scope="module")
def trained():
    table, _ = planted(40, 20, seed=2)
    return bl.fit(model(), table, "em", seed=1, runs=None, progress=False)


@pytest.mark.slow(why="statistical")
def test_new_sequences_are_told_apart(trained):
    """Kinds that differ only in how they move: 200 new sequences, right far more often than half."""
    table, truth = planted(200, 20, seed=3)
    table = table.drop(columns="kind")
    found = trained.predict(table, "probabilities")
    assert found["who"].tolist() == [f"s{s:03d}" for s in range(200)]
    right = (np.where(found["P(kind=a)"] > 0.5, "a", "b") == truth).mean()
    assert right > 0.9
    states = trained.posterior["mean"].coords["state"].to_numpy().tolist()
    assert states == ["a.1", "a.2", "b.1", "b.2"]
    assert trained.posterior["initial"].dims[2:] == ("class", "state")
    assert trained.posterior["class_probability"].coords["class"].to_numpy().tolist() == ["a", "b"]
    mean = trained.posterior["mean"].to_numpy().ravel()
    assert mean[0] < mean[1] and mean[2] < mean[3]


@pytest.mark.slow(why="compiles")
def test_predictions_do_not_look_at_classes_and_decoding_does(trained):
    table, _ = planted(6, 20, seed=4)
    wrong = table.assign(kind=table["kind"].map({"a": "b", "b": "a"}))
    a, b = (trained.predict(own, "probabilities") for own in (table, wrong))
    pd.testing.assert_frame_equal(a, b)
    for own in (table, wrong):
        for method in ("viterbi", "smooth"):
            path = trained.decode(own, method)
            assert path["kind"].tolist() == own["kind"].tolist()
            assert [s.split(".")[0] for s in path["state"]] == own["kind"].tolist()
    # Also before any row is seen the class is known.
    expected = trained.decode(table, "predict").filter(like="P(state=")
    np.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-12)
    free = trained.decode(table.drop(columns="kind"), "posterior")
    assert (free["kind"].to_numpy() == table["kind"].to_numpy()).mean() > 0.8
    drawn = trained.predict(table, "draws")
    assert drawn["y"].sizes["obs_id"] == len(table)


@pytest.mark.slow(why="statistical")
def test_sequences_without_a_class_are_learned_from():
    """With two labelled sequences a kind the others sharpen the kinds: closer to the truth, better told apart."""
    table, _ = planted(100, 12, seed=5, labelled=0.04, noise=0.5)
    new, truth = planted(300, 12, seed=6, noise=0.5)
    new = new.drop(columns="kind")
    labelled = table[table["kind"].notna()]
    declared = model(states={"a": 2, "b": 2})
    right = []
    for own in (labelled, table):
        fit = bl.fit(declared, own.reset_index(drop=True), "em", seed=1, runs=None, progress=False)
        found = fit.predict(new, "probabilities")
        right.append((np.where(found["P(kind=a)"] > 0.5, "a", "b") == truth).mean())
    assert right[1] > 0.9
    assert right[1] > right[0]
    transition = fit.posterior["transition"].to_numpy()[0, 0]
    assert transition[0, 0] > 0.7 and transition[2, 2] < 0.4


@pytest.mark.slow(why="large")
def test_paths_of_words_go_onward():
    """Left to right: states are the thirds of a word; names given once serve every class."""
    rng, rows = np.random.default_rng(0), []
    for s in range(20):
        heights = ([0, 2, 0], [0, -2, 2])[s % 2]
        y = np.repeat(heights, rng.integers(2, 6, 3)) + 0.3 * rng.standard_normal(1)
        rows += [{"who": s, "kind": ("up", "down")[s % 2], "y": v + 0.3 * rng.standard_normal()} for v in y]
    declared = model(states=["start", "middle", "end"], topology="left_right")
    fit = bl.fit(declared, pd.DataFrame(rows), "em", seed=1, runs=None, progress=False, prior="ignore")
    mean = fit.posterior["mean"].isel(chain=0, draw=0)
    assert mean.sel(state="down.middle") == pytest.approx(-2, abs=0.3)
    assert mean.sel(state="up.middle") == pytest.approx(2, abs=0.3)
    assert "initial" not in fit.posterior


@pytest.mark.slow(why="large")
def test_discriminative_training_raises_the_conditional_likelihood():
    """On the training data; the priors of both are the same."""
    table, _ = planted(40, 8, seed=7, noise=1.2)
    heights = {}
    for training in ("generative", "discriminative"):
        declared = model(training=training, class_probability="uniform")
        method = "em" if training == "generative" else "map"  # both the mode of a posterior
        fit = bl.fit(declared, table, method, seed=1, runs=None, progress=False, restarts=1)
        draws = {str(n): v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in fit.posterior.data_vars.items()}
        other = model(training="discriminative", class_probability="uniform")
        heights[training] = hmm.compile(other, bl.check(other, table)).log_likelihoods(draws)["sequence"][1].sum()
    assert heights["discriminative"] > heights["generative"] + 0.5


def test_em_refuses_discriminative_training():
    table, _ = planted(4, 5, seed=0)
    with refused("engine.refused.not-suited", "discriminative"):
        bl.fit(model(training="discriminative"), table, "em", runs=None, progress=False)


@pytest.mark.slow(why="compiles")
def test_nuts_agrees_with_the_truth_and_names_states_class_by_class():
    table, _ = planted(30, 20, seed=8, labelled=0.8)
    fit = bl.fit(model(), table, "nuts", seed=1, runs=None, progress=False, draws=300, tune=300, chains=2, cores=1)
    stay = fit.posterior["transition"].sel(state="a.1", next_state="a.1")
    assert abs(float(stay.mean()) - 0.9) < 4 * float(stay.std())
    apart = fit.posterior["transition"].sel(state="a.1", next_state="b.1")
    assert float(abs(apart).max()) == 0.0
    mean = fit.posterior["mean"].to_numpy()
    assert (mean[..., 0] < mean[..., 1]).all() and (mean[..., 2] < mean[..., 3]).all()
    np.testing.assert_allclose(fit.posterior["initial"].to_numpy().sum(axis=-1), 1.0)
    assert fit.verdict.status == "pass", fit.verdict


def test_states_that_trade_places_within_a_class_are_renamed():
    """Draws of one point, every other with the states of b exchanged; variables behind parameters follow."""
    table, _ = planted(12, 15, seed=9)
    data = bl.check(model(), table)
    _, _, together = values(np.random.default_rng(5), (2, 2))
    together["mean"], together["sd"] = np.array([-1.0, 1.0, -1.1, 0.9]), np.array([0.6, 0.7, 0.8, 0.9])
    hidden = hidden_of(model(), data)
    other = hidden.permuted(together, np.array([0, 1, 3, 2]))
    draws = {name: np.stack([together[name], other[name]] * 3) for name in together}
    draws |= hidden.chain.internal(draws) | {"_variance": draws["sd"] ** 2}
    np.testing.assert_allclose(draws["_transition_2"][0, 0], together["transition"][0, :2])
    assert set(draws) >= {"_initial_2", "_transition_2"}
    found, whose = hmm.compile(model(), data).relabelled(draws)
    assert whose == "each class"
    assert set(found) == set(draws)
    for name, value in found.items():
        np.testing.assert_allclose(value, np.broadcast_to(draws[name][0], value.shape), err_msg=name)


def test_simulating_keeps_to_the_class():
    table, _ = planted(4, 6, seed=0)
    tree = bl.simulate(model(), table, 20, seed=1)
    path = tree["prior"]["path"].to_numpy()[0]
    of = (path >= 2).astype(int)
    want = np.repeat([0, 1, 0, 1], 6)
    np.testing.assert_array_equal(of, np.broadcast_to(want, of.shape))


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"sequence": None}, "model.incomplete", "model", "sequence"),
        ({"classes": "who"}, "model.name-clash", "model", "classes"),
        ({"classes": "y"}, "model.conflict", "model", "'y'"),
        ({"order": 2}, "model.conflict", "model", "order"),
        ({"initial": "stationary"}, "model.unsupported", "model", "stationary"),
        ({"emission": "observed"}, "model.unsupported", "model", "observed"),
        ({"class_probability": "unifrom"}, "model.unknown-word", "model.class_probability", "uniform"),
        ({"classes": None, "class_probability": "uniform"}, "model.conflict", "model", "class_probability"),
        ({"classes": None, "training": "discriminative"}, "model.conflict", "model", "training"),
        ({"classes": None, "states": {"a": 2}}, "model.conflict", "model", "classes"),
        ({"states": {"a": 0, "b": 2}}, "model.out-of-range", "model.states", "'a'.*0"),
    ],
)
def test_words_that_do_not_go_together(content, code, where, match):
    with refused(code, match, where=where):
        model(**content)


@pytest.mark.parametrize(
    ("content", "change", "code", "where", "match"),
    [
        ({}, {"kind": ["a", "b"] + ["a"] * 2 + ["b"] * 2}, "data.contradiction", "", "row 2.*'b'.*'s'.*'a'"),
        ({}, {"kind": ["a"] * 6}, "data.constant", "", "'kind'"),
        ({"states": {"a": 2, "c": 1}}, {}, "model.unknown-level", "model.states", "'c'"),
        ({"states": {"a": 2}}, {}, "model.incomplete", "model.states", "'b'"),
        ({"class_probability": [0.2, 0.3, 0.5]}, {}, "model.wrong-length", "model.class_probability", "3.*2"),
        ({"class_probability": [0.2, 0.3]}, {}, "model.not-probabilities", "model.class_probability", r"0\.5"),
    ],
)
def test_what_is_wrong_with_classes_is_said(content, change, code, where, match):
    table = {"who": ["s", "s", "t", "t", "u", "u"], "kind": ["a"] * 2 + ["b"] * 4, "y": [1.0, 2, 3, 4, 5, 6.5]}
    with refused(code, match, where=where):
        bl.fit(model(**content), table | change, "em", runs=None, progress=False)


def test_classes_need_labels_to_learn_from():
    table = {"who": ["s", "s", "t", "t"], "kind": ["a", "a", None, None], "y": [1.0, 2.0, 3.0, 4.5]}
    declared = model().model_copy(update={"dims": {"kind": ["a", "b"]}})
    with refused("data.no-values", "'b'"):
        bl.fit(declared, table, "em", runs=None, progress=False)
    other = model(training="discriminative").model_copy(update={"dims": {"kind": ["a", "b"]}})
    with refused("data.no-values"):
        bl.fit(other, table | {"kind": [None] * 4}, "map", runs=None, progress=False)
    with refused("data.unknown-column", "'kind'"):
        bl.fit(model(), {k: v for k, v in table.items() if k != "kind"}, "em", runs=None, progress=False)


def test_everything_given_needs_no_fit():
    """Two dice makers: P(class | throws) by hand."""
    declared = bl.Model(
        name="m",
        dims={"kind": ["fair", "loaded"], "y": ["low", "six"]},
        model={
            "family": "hmm", "columns": ["y"], "emission": "categorical", "states": 1, "sequence": "who",
            "classes": "kind", "class_probability": [0.75, 0.25], "parameters": {"p_y": [[5 / 6, 1 / 6], [0.5, 0.5]]},
        },
    )  # fmt: skip
    table = {"who": ["s"] * 3, "y": ["six", "six", "low"]}
    data = bl.check(declared, table)
    found = hmm.compile(declared, data).probabilities({})
    odds = (0.75 * (1 / 36) * 5 / 6) / (0.25 * 0.125)
    assert found["P(kind=fair)"][0] == pytest.approx(odds / (1 + odds), rel=1e-12)


# --------------------------------------------------------------------------------- words with several ways to be said


def test_ways_to_say_a_word_are_a_topology():
    """t (ey | aa) t: a file with the pattern of a composed piece has its likelihood, and learns how often each is."""
    from bayeslab.latents.chains.composed_chain import parallel, phone, series

    sounds = ["aa", "ey", "t"]
    word = series([phone("t", stay=0.5), parallel([phone(s, stay=0.5) for s in ("ey", "aa")], [0.75, 0.25]),
                   phone("t", stay=0.5)])  # fmt: skip
    own = {
        "columns": ["y"], "emission": "categorical", "states": ["first", "ey", "aa", "last"], "classes": None,
        "topology": word.mask.astype(int).tolist(), "initial": word.enter.tolist(),
        "parameters": {"p_y": [[0.1, 0.1, 0.8], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]},
    }  # fmt: skip
    rows = {"who": [0] * 4 + [1] * 3, "y": ["t", "ey", "ey", "t", "t", "aa", "t"]}
    known = word.move.copy()
    known[-1, -1] = 1.0  # a file's chain is never left
    declared = model(**own, transition=known.tolist()).model_copy(update={"dims": {"y": sounds}})
    found = hmm.compile(declared, bl.check(declared, rows)).log_likelihoods({})["sequence"][1][0]
    table = np.array(own["parameters"]["p_y"])
    codes = [sounds.index(s) for s in rows["y"]]
    emission = np.log(table[[2, 1, 0]][:, codes]).T  # of aa, ey, t
    ends = word.log_evidence(emission, sounds, [0, 4, 7], ends=False)
    open_ended = [np.log(paths(word.enter, known, np.exp(emission[a:b][:, [2, 1, 0, 2]]))) for a, b in ((0, 4), (4, 7))]
    np.testing.assert_allclose(found, open_ended, rtol=1e-10)
    assert np.all(found >= ends)
    # Sounds that are heard as they are: of 8 words 6 went one way.
    heard = {"p_y": [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]}
    rows = {"who": np.repeat(np.arange(8), 3), "y": ["t", "ey", "t"] * 6 + ["t", "aa", "t"] * 2}
    declared = model(**own | {"parameters": heard}).model_copy(update={"dims": {"y": sounds}})
    fit = bl.fit(declared, rows, "em", runs=None, progress=False, seed=1, prior="ignore")
    learned = fit.posterior["transition"].isel(chain=0, draw=0)
    assert learned.sel(state="first", next_state="ey") == pytest.approx(0.75)
    assert learned.sel(state="first", next_state="aa") == pytest.approx(0.25)
