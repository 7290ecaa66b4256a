"""A posterior is a model on its data: nothing is shared between models, and other rows know those of the fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bayeslab as bl
from bayeslab import registry
from bayeslab.posterior.contract import Posterior, posterior_of
from bayeslab.preparation import Source
from bayeslab.results.fitted import bound_to
from tests.refusals import refused

RNG = np.random.default_rng(3)
TABLE = {
    "x": RNG.normal(size=30),
    "y": RNG.normal(size=30),
    "a": RNG.choice(["u", "v"], 30),
    "b": RNG.choice(["u", "v"], 30),
    "text": ["the sea and a ship", "the corn and a field"] * 15,
}
NET = {"family": "bayes_net", "variables": {"a": {"states": ["u", "v"]}, "b": {"states": ["u", "v"], "parents": ["a"]}}}
FEATURES = {"family": "latent_features", "columns": ["x", "y"], "features": 1}

# Two models of each family on the same table, and what differs between them.
PAIRS = {
    "mixture": (
        {"family": "mixture", "columns": ["y"], "components": 2},
        {"family": "mixture", "columns": ["y"], "components": 3},
        lambda p: p.resolved.n_components,
    ),
    "hmm": (
        {"family": "hmm", "columns": ["y"], "states": 2},
        {"family": "hmm", "columns": ["y"], "states": 3},
        lambda p: p.hidden.n_states,
    ),
    "level": (
        {"family": "hmm", "columns": ["x"], "states": "continuous"},
        {"family": "hmm", "columns": ["y"], "states": "continuous"},
        lambda p: p.linear.columns,
    ),
    "regression": (
        {"family": "regression", "formula": "y ~ x"},
        {"family": "regression", "formula": "y ~ 1"},
        lambda p: tuple(p.lowered.design.names),
    ),
    "gaussian_process": (
        {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(x)"},
        {"family": "gaussian_process", "target": "y", "kernel": "Matern32(x)"},
        lambda p: tuple(p.priors()),
    ),
    "latent_features": (
        FEATURES,
        FEATURES | {"kind": "binary", "features": 2},
        lambda p: p.resolved.binary,
    ),
    "topics": (
        {"family": "topics", "text": "text", "topics": 2},
        {"family": "topics", "text": "text", "topics": 2, "stop_words": "none", "min_length": 1},
        lambda p: tuple(p.documents.vocabulary),
    ),
    "bayes_net": (
        NET,
        NET | {"variables": {"b": {"states": ["u", "v"]}}},
        lambda p: tuple(p.resolved.net.states),
    ),
    "structure": (
        {"family": "bayes_net", "structure": {}, "variables": {"a": {"states": ["u", "v"]}, "b": ["u", "v"]}},
        {"family": "bayes_net", "structure": {"max_parents": 1}, "variables": {"a": ["u", "v"], "b": ["u", "v"]}},
        lambda p: p.structure_plan.structure.max_parents,
    ),
    "learner": (
        {"family": "learner", "learner": "knn", "target": "a", "inputs": ["x"]},
        {"family": "learner", "learner": "knn", "target": "a", "inputs": ["x", "y"]},
        lambda p: p.prepared.names,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_models_on_the_same_data_share_nothing(name):
    one, other, value = PAIRS[name]
    first = Source(bl.Model(model=one)).posterior(TABLE)
    alone = value(Source(bl.Model(model=other)).posterior(TABLE))
    assert value(first) != alone
    assert value(posterior_of(bl.Model(model=other), first.data)) == alone


@pytest.mark.parametrize("name", PAIRS)
def test_what_was_worked_out_is_not_pickled(name):
    content, _, value = PAIRS[name]
    posterior = Source(bl.Model(model=content)).posterior(TABLE)
    known = value(posterior)
    again = pickle.loads(pickle.dumps(posterior))
    assert set(vars(again)) == {"model", "data", "_origin"}
    assert value(again) == known


def test_other_rows_know_those_of_the_fit():
    fit = bl.fit(bl.Model(model=PAIRS["regression"][0]), TABLE, "exact", draws=10, progress=False, runs=None)
    posterior, rows = fit.bound_model, bound_to(fit, {"x": [0.0, 1.0]})
    new = posterior.on(rows)
    assert new.origin is posterior and new.fitted is posterior and new.on(fit.data) is posterior
    assert posterior.origin is None and posterior.fitted is posterior and posterior.on(fit.data) is posterior
    alone = posterior_of(fit.model, rows)  # it makes that of the fit by itself
    assert alone.origin is not posterior and alone.origin.data is fit.data
    assert len(alone.lowered.design.matrix) == 2
    np.testing.assert_array_equal(alone.lowered.design.matrix, new.lowered.design.matrix)


class Least(Posterior):
    """What a family must have, and nothing else."""

    def graph(self, *, purpose="fit", targets=()):
        raise NotImplementedError

    def network(self):
        raise NotImplementedError


def test_defaults_refuse_what_a_family_does_not_have():
    source = Source(bl.Model(model={"family": "hypotheses", "observed": "a", "hypotheses": {
        "fair": {"likelihood": {"u": 0.5, "v": 0.5}}, "odd": {"likelihood": {"u": 0.9, "v": 0.1}}}}))  # fmt: skip
    least = Least(source.model, source.bound(TABLE))
    for plan in (least.exact_plan, least.em_plan, least.gibbs_plan, least.variational_plan):
        assert plan.code == "other-family" and "hypotheses" in plan
    assert least.observed() == least.outcomes() == ("a",)
    assert least.latent == () and least.bound_data() is least.data and least.elimination() is None
    assert least.completed({}, RNG) is None and least.probabilities({}) is None and least.log_likelihoods({}) is None
    with refused("model.other-family"):
        least.decoded({}, "viterbi", 1, None, 200)
    for ask in (lambda: least.clusters({}, RNG), lambda: least.features({}, RNG)):
        with refused("option.other-family"):
            ask()


def test_every_family_makes_a_posterior_of_its_own():
    kinds = set()
    for name in registry.names("families"):
        module = registry.load("families", name)
        kind = module.compile.__annotations__["return"]
        kinds.add(kind)
        assert issubclass(getattr(module, kind), Posterior)
    assert len(kinds) == len(registry.names("families"))
