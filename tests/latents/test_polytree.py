"""π/λ propagation against enumeration, and where it must refuse."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.polytree import propagate
from tests.latents._enumeration import joint, marginals, random_evidence, random_polytree
from tests.refusals import refused


def agrees_with_enumeration(network, given):
    """True where the evidence is possible; both ways are checked."""
    product = joint(network, given)
    if product.sum() == 0:
        with refused("evidence.probability-zero"):
            propagate(network, given)
        return False
    found = propagate(network, given)
    assert list(found.marginals) == list(network.states)
    assert found.log_evidence == pytest.approx(np.log(product.sum()), abs=1e-10)
    for variable, truth in marginals(product, network.states).items():
        np.testing.assert_allclose(found.marginals[variable], truth, atol=1e-12, err_msg=variable)
    return True


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("tree", [True, False], ids=["tree", "polytree"])
def test_belief_prop_tree_and_belief_prop_polytree_equal_enumeration(tree):
    rng = np.random.default_rng(20 + tree)
    possible = 0
    for _ in range(400):
        network = random_polytree(rng, int(rng.integers(1, 9)), tree)
        possible += agrees_with_enumeration(network, random_evidence(rng, network.states))
        agrees_with_enumeration(network, None)
    assert 50 < possible < 390  # both kinds were met


def test_belief_prop_polytree_has_several_parents():
    rng = np.random.default_rng(3)
    most = max(max(map(len, random_polytree(rng, 8).parents.values())) for _ in range(100))
    assert most >= 3


def test_belief_prop_tree_on_a_long_chain_does_not_underflow():
    """P(every one of 4,000 copies with error 1e-3 is the same) = 0.999^3999 / 2, below the smallest double squared."""
    n = 4_000
    states = {f"x{k}": ("no", "yes") for k in range(n)}
    copy = np.array([[0.999, 0.001], [0.001, 0.999]])
    tables = {"x0": np.array([0.5, 0.5])} | {f"x{k}": copy for k in range(1, n)}
    network = DiscreteNetwork(states, {f"x{k}": (f"x{k - 1}",) for k in range(1, n)}, tables)
    given = {f"x{k}": ("no", "yes")[k % 2] for k in range(n - 1)}
    found = propagate(network, given)
    assert found.log_evidence == pytest.approx(np.log(0.5) + (n - 2) * np.log(0.001), rel=1e-12)
    assert found.marginals[f"x{n - 1}"] == pytest.approx(copy[(n - 2) % 2])


def test_belief_prop_tree_keeps_what_a_hub_makes_very_unlikely():
    """A thousand children speak for one state at 10 to 1 each; certainty for the other must still win."""
    children = {f"c{k}": ("h",) for k in range(1000)}
    speak = np.array([[0.99, 0.01], [0.1, 0.9]])
    network = DiscreteNetwork(
        {"h": ("a", "b"), "end": ("a", "b")} | dict.fromkeys(children, ("t", "f")),
        children | {"end": ("h",)},
        {"h": np.array([0.5, 0.5]), "end": np.eye(2)} | dict.fromkeys(children, speak),
    )
    found = propagate(network, dict.fromkeys(children, "t") | {"end": "b"})
    assert found.marginals["h"] == pytest.approx([0, 1])
    assert found.log_evidence == pytest.approx(np.log(0.5) + 1000 * np.log(0.1), rel=1e-12)


def test_belief_prop_polytree_refuses_a_loop_and_names_it():
    half = np.full((2, 2), 0.5)
    states = dict.fromkeys("abcde", ("0", "1"))
    parents = {"b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d",)}
    tables = {"a": half[0], "b": half, "c": half, "d": np.full((2, 2, 2), 0.5), "e": half}
    with refused("engine.refused.loops") as refusal:
        propagate(DiscreteNetwork(states, parents, tables))
    loop = str(refusal.value).split("loop: ")[1].split(";")[0].split(" - ")
    assert set(loop) == set("abcd") and loop[0] == loop[-1] and len(loop) == 5


def test_unknown_evidence_is_an_error():
    network = DiscreteNetwork({"rain": ("no", "yes")}, {}, {"rain": np.array([0.3, 0.7])})
    with refused("evidence.unknown-variable", "'rain'"):
        propagate(network, {"rian": "yes"})
