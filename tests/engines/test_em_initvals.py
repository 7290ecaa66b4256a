"""Where EM begins is said by the names and shapes of results, in every family that it fits."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from tests.refusals import refused

N = 40


def table():
    rng = np.random.default_rng(4)
    z = (np.arange(N) // 8) % 2
    y = 3 * z + rng.normal(size=N)
    return {
        "y": y,
        "v": rng.normal(size=N) - z,
        "w": y + 0.5 * rng.normal(size=N),
        "q": 0.5 * y + rng.normal(size=N),
        "n": rng.poisson(2 + 5 * z),
        "x": rng.normal(size=N),
        "a": np.array(["no", "yes"])[rng.binomial(1, 0.2 + 0.6 * z)],
        "b": np.array(["no", "yes"])[rng.binomial(1, 0.8 - 0.5 * z)],
        "c": np.array(["no", "yes"])[rng.binomial(1, 0.3 + 0.4 * z)],
    }


def hidden_net():
    flags = {v: {"states": ["no", "yes"], "parents": ["h"]} for v in "abc"}
    return {"family": "bayes_net", "variables": {"h": {"states": ["1", "2"]}} | flags, "hidden": ["h"]}


def mixed_net():
    variables = {
        "h": {"states": ["1", "2"]},
        "a": {"states": ["no", "yes"], "parents": ["h"]},
        "y": {"parents": ["h"], "linear_gaussian": {}},
        "w": {"parents": ["y"], "linear_gaussian": {}},
    }
    return {"family": "bayes_net", "variables": variables, "hidden": ["h"]}


MODELS = {
    "hmm": {"family": "hmm", "columns": ["y", "v"], "states": 2},
    "hmm of matrices": {"family": "hmm", "columns": ["y", "v"], "states": 2, "covariance": "full"},
    "hmm with durations": {"family": "hmm", "columns": ["n"], "emission": "poisson", "states": 2, "durations": {
        "longest": 9, "law": "poisson"}},
    "driven hmm": {"family": "hmm", "columns": ["y"], "states": 2, "transitions_on": ["x"]},
    "hmm of lines": {"family": "hmm", "columns": ["y"], "states": 2, "inputs": ["x"]},
    "chains": {"family": "hmm", "columns": ["y"], "chains": {"a": 2, "b": 2}},
    "levels": {"family": "hmm", "columns": ["y"], "states": "continuous"},
    "mixture": {"family": "mixture", "columns": ["y", "v"], "components": 2, "covariance": "diagonal"},
    "kinds": {"family": "mixture", "columns": ["y", "n", "a"], "components": 2, "component": {
        "y": "gaussian", "n": "poisson", "a": "categorical"}},
    "students": {"family": "mixture", "columns": ["y"], "components": 2, "component": "student_t"},
    "experts": {"family": "mixture", "regression": "y ~ x", "components": 2, "gating": ["x"]},
    "net": hidden_net(),
    "net with normals": mixed_net(),
    "factors": {"family": "latent_features", "columns": ["y", "v", "w", "q"], "features": 1},
}  # fmt: skip


def fitted(name, **options):
    model = bl.Model(name="m", model=MODELS[name])
    return bl.fit(model, table(), "em", seed=1, progress=False, runs=None, **options)


def ends(fit):
    posterior = fit.data_tree["posterior"].to_dataset()
    return {str(n): v.to_numpy()[0, 0] for n, v in posterior.data_vars.items()}, float(
        fit.data_tree["sample_stats"]["lp"].to_numpy()[0, 0]
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow(why="compiles")
def test_a_search_goes_on_from_where_another_ended(name):
    """From its end nothing is left to gain, in one search; from other places there is."""
    values, height = ends(fitted(name, restarts=2))
    matrices = {n for n in values if n.endswith(("covariance", "scale_matrix"))}
    begin = {n: v for n, v in values.items() if not (matrices and n in ("sd", "scale"))}
    again = fitted(name, initvals=begin, restarts=3, max_iterations=50)
    traces = again.data_tree["em"]["log_posterior"].to_numpy()
    assert traces[:, 0] == pytest.approx(height, abs=2e-3)
    assert ends(again)[1] >= height - 1e-9
    assert len(traces) == (1 if begin.keys() == values.keys() else 3)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["hmm", "mixture", "net", "net with normals", "factors"])
def test_what_is_left_out_is_random(name):
    values, _ = ends(fitted(name, restarts=1))
    first = dict(list(values.items())[:1])
    fit = fitted(name, initvals=first, restarts=3, max_iterations=1)
    assert len(set(fit.data_tree["em"]["log_posterior"].to_numpy()[:, 0].round(6))) > 1


@pytest.mark.parametrize(
    ("name", "initvals", "code", "match"),
    [
        ("hmm", {"maen": [0, 1]}, "option.unknown-parameter", r"^inference\.initvals\.maen.*'mean'"),
        ("hmm", {"mean": [0, 1]}, "option.wrong-shape", r"^inference\.initvals\.mean.*2"),
        ("hmm", {"mean": "low"}, "option.wrong-type", r"^inference\.initvals\.mean"),
        ("hmm", {"mean": [[0, np.nan], [1, 1]]}, "option.not-finite", r"^inference\.initvals\.mean"),
        ("hmm", {"sd": [[1, 1], [1, 0]]}, "option.out-of-range", r"^inference\.initvals\.sd"),
        (
            "hmm",
            {"transition": [[0.5, 0.4], [0.5, 0.5]]},
            "option.not-probabilities",
            r"^inference\.initvals\.transition",
        ),
        (
            "hmm of matrices",
            {"covariance": np.ones((2, 2, 2))},
            "option.not-a-covariance",
            r"^inference\.initvals\.covariance",
        ),
        ("driven hmm", {"log_odds": [[1, 0], [0, 0]]}, "option.out-of-range", r"^inference\.initvals\.log_odds"),
        ("levels", {"noise_sd": -1}, "option.out-of-range", r"^inference\.initvals\.noise_sd"),
        ("levels", {"noise_sd": [1, 2]}, "option.wrong-shape", r"^inference\.initvals\.noise_sd.*2"),
        ("mixture", {"weights": [0.5, 0.6]}, "option.not-probabilities", r"^inference\.initvals\.weights"),
        ("net", {"p_a": [[0.5, 0.5], [0.5, 0.6]]}, "option.not-probabilities", r"^inference\.initvals\.p_a"),
        ("factors", {"noise": 0.0}, "option.out-of-range", r"^inference\.initvals\.noise"),
    ],
)
def test_wrong_starts_are_refused_in_a_sentence(name, initvals, code, match):
    with refused(code, match):
        fitted(name, initvals=initvals)


def test_nothing_begins_where_the_chain_has_no_way():
    model = bl.Model(model=MODELS["hmm"] | {"topology": "left_right"})
    with refused("option.out-of-range", where="inference.initvals.transition"):
        bl.fit(model, table(), "em", initvals={"transition": np.full((2, 2), 0.5)}, progress=False, runs=None)


def test_the_sd_of_a_matrix_is_not_a_start():
    model = bl.Model(model=MODELS["mixture"] | {"covariance": "full"})
    with refused("option.conflict", "'covariance'", where="inference.initvals.sd"):
        bl.fit(model, table(), "em", initvals={"sd": np.ones((2, 2))}, progress=False, runs=None)


def test_starts_stand_in_files_and_in_runs(tmp_path):
    """Arrays are kept in the run's options as lists."""
    model = bl.Model(name="m", model=MODELS["mixture"], inference={"method": "em", "initvals": {"weights": [0.3, 0.7]}})
    assert bl.fit(model, table(), progress=False, runs=None).verdict.status != "fail"
    fit = bl.fit(model, table(), initvals={"weights": np.array([0.4, 0.6])}, progress=False, runs=tmp_path)
    assert bl.open(fit.folder).info["options"]["initvals"] == {"weights": [0.4, 0.6]}
