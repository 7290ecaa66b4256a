"""Every pair of keys of the family hmm: refused in one line, or its likelihood is the sum over all paths."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.errors import EngineRefusal
from bayeslab.families import hmm
from bayeslab.fitting import bound
from bayeslab.posterior.chains import choice as choice_of_states
from tests.families._chain_oracle import log_likelihood, missing
from tests.families._chain_oracle import settled as settled_at
from tests.families._combinations import answered, patched, refused_alike, standing_of, sweep

# --------------------------------------------------------------------------------- tables

LENGTHS = (4, 3, 4, 2)


def table_of(choice):
    """Fourteen rows in four sequences, or nine in one: a column of every kind."""
    several = "sequence" in choice or "classes" in choice
    n = sum(LENGTHS) if several else 9
    rng = np.random.default_rng(7)
    z = (np.arange(n) // 2) % 2
    who = np.repeat(np.array(list("abcd")), LENGTHS) if several else np.full(n, "a")
    scores = rng.dirichlet([1.0, 1.0], n)
    out = {
        "cell": [f"c{k}" for k in range(n)],
        "who": who.tolist(),
        "day": [],
        "mother": [None, *(f"c{(k - 1) // 2}" for k in range(1, n))],
        "kind": [{"a": "calm", "b": "wild", "c": None, "d": "calm"}[w] for w in who],
        "x": rng.normal(size=n).round(3).tolist(),
        "u": rng.normal(size=n).round(3).tolist(),
        "y": (3 * z + rng.normal(size=n)).round(3).tolist(),
        "v": (rng.normal(size=n) - z).round(3).tolist(),
        "count": rng.poisson(2 + 4 * z).tolist(),
        "won": rng.binomial(5, 0.3 + 0.4 * z).tolist(),
        "flag": [0, 1, *rng.integers(0, 2, n - 2).tolist()],
        "wait": rng.exponential(1 + 3 * z).round(3).tolist(),
        "word": ["p", "q", "r", *np.array(list("pqr"))[rng.integers(0, 3, n - 3)].tolist()],
        "ball": ["p", "q", *np.array(list("pq"))[rng.integers(0, 2, n - 2)].tolist()],
        "regime": [1, 2, *rng.integers(1, 3, n - 2).tolist()],
        "s1": scores[:, 0].tolist(),
        "s2": (1 - scores[:, 0]).tolist(),
    }
    for length in LENGTHS if several else (n,):
        # A gap between the second and the third time of each sequence.
        out["day"] += [1 + k + (k > 1) for k in range(length)]
    return out


OBSERVED = ("y", "v", "count", "won", "flag", "wait", "word", "ball", "regime", "s1", "s2")


def with_holes(table, which):
    """Single cells, or whole rows, that are missing."""
    out = {name: list(cells) for name, cells in table.items()}
    for k, name in enumerate(OBSERVED):
        rows = (3, 7) if which == "rows" or name in ("s1", "s2") else (2 + k % 3,)
        for row in rows:
            out[name][row] = None
    return out


# --------------------------------------------------------------------------------- factors

FACTORS = {
    "emission": {
        "two columns": {"columns": ["y", "v"]},
        "student": {"emission": "student_t"},
        "students": {"emission": "student_t", "columns": ["y", "v"]},
        "categorical": {"emission": "categorical", "columns": ["word"]},
        "bernoulli": {"emission": "bernoulli", "columns": ["flag"]},
        "binomial": {"emission": "binomial", "columns": ["won"], "trials": 5},
        "poisson": {"emission": "poisson", "columns": ["count"]},
        "exponential": {"emission": "exponential", "columns": ["wait"]},
        "parts": {"emission": "gaussian_mixture", "mixtures": 2},
        "parts of two": {"emission": "gaussian_mixture", "mixtures": 2, "columns": ["y", "v"]},
        "mixed": {
            "emission": {"y": "gaussian", "count": "poisson", "word": "categorical"},
            "columns": ["y", "count", "word"],
        },
        "urn": {"emission": "urn", "columns": ["ball"], "parameters": {"balls": [[6, 5], [4, 9]]}},
        "scores": {"emission": "scores", "columns": ["s1", "s2"]},
        "observed": {"emission": "observed", "columns": ["regime"]},
    },
    "covariance": {word: {"covariance": word} for word in ("spherical", "full", "tied")},
    "states": {
        "1": {"states": 1},
        "3": {"states": 3},
        "names": {"states": ["low", "high"]},
        "numbers": {"states": [1, 2]},
        "range": {"states": {"from": 1, "to": 2}},
        "by class": {"states": {"calm": 1, "wild": 2}},
        "infinite": {"states": "infinite", "most": 2},
        "continuous": {"states": "continuous"},
    },
    "chains": {
        "factorial": {"chains": {"a": 2, "b": ["on", "off"]}},
        "joint": {"chains": {"a": 2, "b": 2}, "effects": "joint"},
        "one of one": {"chains": {"a": 2, "b": 1}},
        "coupled": {"chains": {"a": 2, "b": 2}, "coupling": "coupled"},
        "switching": {"chains": {"which": 2, "a": 2, "b": 1}, "coupling": "switching"},
    },
    "parameters": {"all": {}, "some": {}, "prior": {}, "priors": {}},
    "inputs": {"x": {"inputs": ["x"]}},
    "window": {"1": {"window": 1}},
    "sequence": {"who": {"sequence": "who"}},
    "time": {"day": {"time": "day"}},
    "parent": {"mother": {"parent": "mother"}},
    "missing": {"cells": {}, "rows": {}},
    "topology": {
        "left_right": {"topology": "left_right"},
        "banded": {"topology": "banded"},
        "pattern": {"topology": [[1, 1], [1, 0]]},
        "reach": {"topology": "left_right", "reach": 2},
    },
    "initial": {
        "free": {"initial": "free"},
        "uniform": {"initial": "uniform"},
        "stationary": {"initial": "stationary"},
        "given": {"initial": [0.25, 0.75]},
    },
    "transition": {
        "given": {"transition": [[0.75, 0.25], [0.5, 0.5]]},
        "zeros": {"transition": [[0, 1], [0.5, 0.5]]},
        "moves": {"transition": [[0, 1], [1, 0]]},
    },
    "transitions_on": {"u": {"transitions_on": ["u"]}},
    "order": {"2": {"order": 2}},
    "durations": {
        "table": {"durations": 3},
        "poisson": {"durations": {"longest": 3, "law": "poisson"}},
        "negative_binomial": {"durations": {"longest": 4, "law": "negative_binomial"}},
    },
    "pseudocount": {"2": {"pseudocount": 2}},
    "stickiness": {"3": {"stickiness": 3}},
    "classes": {"kind": {"classes": "kind", "sequence": "who"}},
    "class_probability": {
        "uniform": {"class_probability": "uniform"},
        "given": {"class_probability": [0.25, 0.75]},
    },
    "training": {"discriminative": {"training": "discriminative"}},
    "choose": {"aic": {"choose": "aic"}},
    "dof": {"4": {"dof": 4}},
}


MOVES = ("second_transition", "transition", "log_odds", "log_odds_slope")


def known(content, which):
    """What is said of parameters: numbers for all of the emission or for the first, or priors."""
    words, columns = content["emission"], content["columns"]
    k = content["states"] if isinstance(content.get("states"), int) else 2
    each = np.linspace(0.2, 0.6, k).tolist()
    numbers = {
        "gaussian": {"mean": [2 * v for v in each], "sd": [1 + v for v in each]},
        "student_t": {"location": each, "scale": 1.5, "dof": 5},
        "categorical": {f"p_{columns[0]}": [[0.2, 0.3, 0.5]] * k},
        "bernoulli": {"probability": each},
        "binomial": {"probability": each},
        "poisson": {"rate": [3 * v for v in each]},
        "exponential": {"rate": each},
        "gaussian_mixture": {"weight": [[0.25, 0.75]] * k, "mean": [[0.0, 2.0]] * k, "sd": [[1.0, 2.0]] * k},
        "urn": {"balls": [[6, 5], [4, 9]]},
        "scores": {"prior": [0.25, 0.75]},
        "observed": {},
    }
    if content.get("order") == 2 and k == 2:
        moves = {"second_transition": [[0.75, 0.25], [0.5, 0.5]], "transition": [[[0.5, 0.5], [0.25, 0.75]]] * 2}
        numbers[words if isinstance(words, str) else "gaussian"] |= moves if which == "all" else {}
        if which == "some":
            return {"transition": moves["transition"]}
    if content.get("transitions_on") and k == 2:
        odds = {"log_odds": [[0, -1.5], [-0.5, 0]], "log_odds_slope": [[[0.0], [0.5]], [[-0.75], [0.0]]]}
        numbers[words if isinstance(words, str) else "gaussian"] |= odds if which == "all" else {}
        if which == "some":
            return odds
    if (content.get("inputs") or content.get("window")) and words in ("gaussian", "poisson", "bernoulli"):
        n = len(content.get("inputs", ())) + content.get("window", 0)
        lines = {"intercept": each, "slope": [[0.25 * (j + 1) for j in range(n)]] * k}
        lines |= {"sd": 1.5} if which == "all" and words == "gaussian" else {}
        return (
            {name: v for name, v in numbers[words].items() if name in MOVES} | lines
            if which != "prior"
            else {"sd": 1.5}
        )
    priors = {
        "gaussian": {"mean": "Normal(0, 2)", "sd": "HalfNormal(2)"},
        "student_t": {"location": "Normal(0, 3)", "scale": "HalfNormal(2)"},
        "categorical": {f"p_{columns[0]}": "Dirichlet(2)"},
        "bernoulli": {"probability": "Beta(2, 2)"},
        "binomial": {"probability": "Beta(2, 2)"},
        "poisson": {"rate": "Gamma(2, 1)"},
        "exponential": {"rate": "Gamma(2, 1)"},
    }
    if not isinstance(words, str):
        return {"y_mean": each, "count_rate": 2} if which == "all" else {"y_mean": "Normal(0, 2)"}
    if which == "all":
        return numbers[words]
    if which == "some":
        return dict(list(numbers[words].items())[:1])
    if which == "prior":
        return priors.get(words, {"mean": "Normal(0, 1)"})
    name, text = next(iter(priors.get(words, {"mean": "Normal(0, 1)"}).items()))
    head, numbers_of = text.removesuffix(")").split("(")
    first, *rest = numbers_of.split(", ")
    own = [f"{head}({', '.join([str(float(first) + i), *rest])})" for i in range(k)]
    return {name: own}


def case(choice):
    """The model section and the table of a choice of levels."""
    base = {"family": "hmm", "columns": ["y"], "emission": "gaussian", "states": 2}
    content = patched(base, [FACTORS[factor][level] for factor, level in choice.items()])
    if "chains" in choice and "states" not in choice:
        del content["states"]
    if content.get("coupling") == "coupled":
        first, *rest = content["columns"]
        content["emits"] = {"a": [first], "b": rest} if rest else {"a": [first]}
    if "parameters" in choice:
        content["parameters"] = content.get("parameters", {}) | known(content, choice["parameters"])
    table = table_of(choice)
    return content, with_holes(table, choice["missing"]) if "missing" in choice else table


# --------------------------------------------------------------------------------- the test


INFERENCE = {"method": "em", "restarts": 1, "max_iterations": 3}


@pytest.fixture(autouse=True)
def one_search(monkeypatch):
    """A number of states is chosen by one search each: which of them wins plays no part here."""
    monkeypatch.setattr(choice_of_states, "RESTARTS", 1)


def declared(content):
    return bl.Model(name="m", data={"rows": "cell"}, model=content, inference=INFERENCE)


def fitted(model, table):
    return bl.fit(model, table, seed=1, progress=False, runs=None)


def examined(choice):
    """Whether a combination is answered; what is not refused agrees with the sum over all paths."""
    content, table = case(choice)
    model, refused = refused_alike(lambda: declared(content), table, fitted)
    # What the engine has no use for still has a likelihood.
    if refused is not None and (model is None or not isinstance(refused, EngineRefusal)):
        return False
    fit = fitted(model, table) if refused is None else None
    if content.get("states") == "continuous":
        return refused is None
    posterior = hmm.compile(model, bound(model, table)) if fit is None else fit.bound_model
    hidden = posterior.hidden
    plain = settled(content, hidden)
    rng = np.random.default_rng(3)
    for values in (hidden.guess(None), hidden.guess(rng)):
        with np.errstate(divide="ignore"):
            exact = log_likelihood(plain, table, values)
        evidence = hidden.law(values).expected().log_evidence
        if exact == -np.inf:  # the oracle multiplies densities, whose product may be below the smallest number
            assert evidence.min() < -700
            continue
        if content.get("training") != "discriminative":
            assert evidence.sum() == pytest.approx(exact, rel=1e-9, abs=1e-9)
        if "parent" not in content:
            # What leave-one-out is told: of trees each row given all others, which is no decomposition.
            found = posterior.log_likelihoods({n: v[None] for n, v in values.items()})
            assert next(iter(found.values()))[1].sum() == pytest.approx(exact, rel=1e-9, abs=1e-9)
    if fit is not None:
        # What EM reports of the parameters that it reports.
        own = fit.data_tree["posterior"]
        values = {n: own[n].to_numpy()[0, 0] for n in hidden.learned}
        exact = log_likelihood(plain, table, values)
        assert own.attrs["log_likelihood"] == pytest.approx(exact, rel=1e-7, abs=1e-7)
    return refused is None


def settled(content, hidden):
    """The model section with the number of states that was chosen, where one was."""
    states = content.get("states")
    if not (isinstance(states, dict) and states.keys() == {"from", "to"}):
        return content
    return content | {"states": hidden.n_states // (2 if "classes" in content else 1)}


def standing(choice):
    content, data = case(choice)
    chosen = content.get("states") == FACTORS["states"]["range"]["states"]
    return standing_of(declared, content, data, {"states": 2} if chosen else None)


def test_the_default():
    assert examined({})


@pytest.mark.parametrize(
    ("choice", "has_answer"),
    [
        # Columns that are constant where they are seen leave nothing that keeps a spread up.
        ({"emission": "two columns", "order": "2", "missing": "cells", "states": "range", "parameters": "prior"}, True),
        ({"covariance": "spherical", "parameters": "prior", "classes": "kind", "topology": "pattern"}, True),
        # Rows that the zeros of what is given exclude.
        (
            {
                "emission": "observed",
                "initial": "given",
                "transition": "moves",
                "topology": "pattern",
                "missing": "cells",
            },
            False,
        ),
        # Nearly all of the mass is on one state, and what is left elsewhere explains the rows better.
        (
            {"topology": "reach", "initial": "stationary", "missing": "rows", "stickiness": "3", "parent": "mother"},
            True,
        ),
    ],
)
@pytest.mark.slow(why="statistical")
def test_combinations_that_need_care(choice, has_answer):
    assert examined(choice) == has_answer


def test_where_chains_settle():
    """In fractions: without a way back, with a period, and with probabilities of any size."""
    np.testing.assert_array_equal(settled_at([[0.25, 0.75], [0.0, 1.0]]), [0, 1])
    np.testing.assert_array_equal(settled_at([[0.0, 1.0], [1.0, 0.0]]), [0.5, 0.5])
    np.testing.assert_allclose(settled_at([[1.0, 1e-40], [0.5, 0.5]]), [1, 2e-40], rtol=1e-15)


@pytest.fixture(scope="module")
def every_pair():
    return sweep(FACTORS, standing)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("part", range(16))
def test_every_pair_of_keys(part, every_pair):
    """Among up to three others; by itself where it is refused."""
    assert answered(every_pair[part::16], examined) > 5


def test_missing_is_missing():
    assert missing(None) and missing(float("nan")) and not missing(0)
