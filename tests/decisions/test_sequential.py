"""Bandits, decision processes and beliefs against enumeration and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.decisions.bandits import play, updated
from bayeslab.decisions.mdp import (
    MDP,
    discounted_return,
    maze,
    policy_iteration,
    update_belief,
    value_iteration,
)
from tests.refusals import refused


def process(seed: int, n_states: int = 5, n_actions: int = 3, discount: float = 0.9) -> MDP:
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    return MDP(moves, rng.normal(size=(n_states, n_actions)), discount)


def test_bandit_deterministic():
    """bandit-deterministic: greedy finds the best after trying all."""
    paid = [0.3, 0.9, 0.5]
    found = play(lambda a, rng: paid[a], 3, 20, np.random.default_rng(0), policy="greedy")
    np.testing.assert_allclose(found.values, paid)
    assert (found.actions[3:] == 1).all()


@pytest.mark.parametrize("policy", ["epsilon_greedy", "ucb", "thompson"])
def test_bandit_stochastic(policy):
    """bandit-stochastic: values are means of rewards, and the best action is taken most often."""
    chance = np.array([0.2, 0.5, 0.8])
    rng = np.random.default_rng(1)
    found = play(lambda a, r: float(r.random() < chance[a]), 3, 4000, rng, policy=policy)
    for a in range(3):
        assert found.values[a] == pytest.approx(found.rewards[found.actions == a].mean())
    assert found.counts.argmax() == 2
    assert found.counts[2] > 0.8 * 4000


def test_first_reward_does_not_decide():
    """A sure half against nine chances in ten of one: a first reward of 0 must not be the end of the better one."""
    left = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        found = play(lambda a, r: 0.5 if a == 0 else float(r.random() < 0.9), 2, 200, rng, policy="thompson")
        left += found.counts[1] < 10
    # One in a hundred begins with two rewards of 0, and then nothing varies.
    assert left <= 8


def test_bandit_rates():
    """With a rate of 1/n the value is the sample mean; with a constant one recent rewards count more."""
    rewards = np.random.default_rng(2).normal(size=50)
    value = 0.0
    for n, r in enumerate(rewards, 1):
        value = updated(value, r, 1 / n)
    assert value == pytest.approx(rewards.mean())
    with refused("option.unknown-word", "policy"):
        play(lambda a, r: 0.0, 2, 5, np.random.default_rng(0), policy="best")  # type: ignore[arg-type]


def test_bandit_follows_change():
    drift = iter(np.repeat([0.0, 1.0], 200))
    found = play(lambda a, r: next(drift), 1, 400, np.random.default_rng(3), rate=0.1)
    assert found.values[0] == pytest.approx(1 - 0.9**200)


def test_returns():
    """return-finite, return-discounted."""
    assert discounted_return([1, 2, 3]) == 6
    assert discounted_return(np.ones(2000), 0.9) == pytest.approx(10)
    assert discounted_return([5, 7, 9], 0.0) == 5


def test_mdp_checks():
    """mdp: rows that do not add up, terminal states that are left or paid, are refused."""
    moves = np.full((1, 2, 2), 0.5)
    with refused("data.not-probabilities"):
        MDP(moves * 1.1, np.zeros((2, 1)))
    with refused("data.not-allowed", "terminal"):
        MDP(moves, np.zeros((2, 1)), terminal=[1])
    with refused("data.wrong-shape", "shape"):
        MDP(moves, np.zeros((1, 2)))
    end = MDP(np.array([[[0.5, 0.5], [0, 1]]]), np.array([[1.0], [0.0]]), 1.0, [1])
    np.testing.assert_allclose(end.policy_value([0, 0]), [2, 0])


@pytest.mark.slow(why="statistical")
def test_policy_value():
    """policy-value: the linear system against an average of simulated returns."""
    own = process(4)
    policy = np.array([0, 2, 1, 1, 0])
    rng = np.random.default_rng(5)
    sums = [discounted_return(own.simulate(policy, 2, 80, rng)[1], 0.9) for _ in range(1500)]
    assert abs(np.mean(sums) - own.policy_value(policy)[2]) < 4 * np.std(sums) / np.sqrt(1500) + 0.9**80 * 30


@pytest.mark.parametrize("seed", range(4))
def test_optimal_policy(seed):
    """optimal-policy, bellman, greedy-q, value-iteration, policy-iteration: all policies enumerated."""
    own = process(seed, 4, 2)
    values = [own.policy_value(p) for p in itertools.product(range(2), repeat=4)]
    best = np.max(values, axis=0)
    swept, improved = value_iteration(own, 1e-13), policy_iteration(own)
    np.testing.assert_allclose(swept.value, best, atol=1e-9)
    np.testing.assert_allclose(improved.value, best, atol=1e-9)
    np.testing.assert_allclose(own.policy_value(swept.policy), best, atol=1e-9)
    np.testing.assert_allclose(swept.action_values.max(axis=1), swept.value, atol=1e-9)
    np.testing.assert_allclose(own.action_values(best).max(axis=1), best, atol=1e-9)


def test_value_iteration_contracts():
    """value-iteration: each sweep brings the values nearer by the discount at least."""
    own = process(7)
    found = value_iteration(own, 1e-12)
    gaps = [np.abs(v - found.value).max() for v in found.trace]
    assert all(b <= 0.9 * a + 1e-11 for a, b in itertools.pairwise(gaps))


def test_policy_iteration_improves():
    """policy-iteration: values never fall, and it ends."""
    own = process(8, 12, 4)
    trace = policy_iteration(own).trace
    assert len(trace) < 4**12
    assert all((b >= a - 1e-10).all() for a, b in itertools.pairwise(trace))


@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e13])
def test_solutions_have_no_unit(unit):
    """Staying pays 2 for ever, 2 / (1 - 0.9) = 20; waiting once pays 0 first, 18."""
    stay, wait = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
    small = MDP(np.array([stay, wait]), unit * np.array([[1.0, 0.0], [2.0, 0.0]]), 0.9)
    for found in (value_iteration(small), policy_iteration(small)):
        np.testing.assert_allclose(found.value / unit, [18, 20], rtol=1e-8)
        assert found.policy.tolist() == [1, 0]


def test_maze():
    """maze, chess-credit, model-based: the way out is the shortest, rewarded only at its end."""
    plan = """
    .#...
    .#.#.
    ...#G
    """
    own = maze(plan, goal=1.0, discount=0.9)
    found = value_iteration(own)
    distance = {"0,0": 10, "1,0": 9, "2,0": 8, "2,1": 7, "2,2": 6, "1,2": 5, "0,2": 4, "0,3": 3, "0,4": 2, "1,4": 1}
    for name, steps in distance.items():
        assert found.value[own.states.index(name)] == pytest.approx(0.9 ** (steps - 1))
    # Credit for the reward at the end goes back along the way, one step a sweep.
    for sweep, value in enumerate(found.trace[:10]):
        reached = {name for name, steps in distance.items() if value[own.states.index(name)] > 0}
        assert reached == {name for name, steps in distance.items() if steps <= sweep + 1}, sweep
    at, moves = own.states.index("0,0"), 0
    while at not in own.terminal:
        at, moves = int(own.transitions[found.policy[at], at].argmax()), moves + 1
    assert moves == 10
    with refused("data.malformed", "maze"):
        maze("..x\n..G")


def test_pomdp():
    """pomdp: beliefs equal the filter of a hidden Markov model whose transitions depend on the action."""
    rng = np.random.default_rng(9)
    moves = rng.dirichlet(np.ones(3), size=(2, 3))
    seen = rng.dirichlet(np.ones(4), size=3)
    actions, observations = rng.integers(2, size=6), rng.integers(4, size=6)
    belief = start = rng.dirichlet(np.ones(3))
    for a, o in zip(actions, observations, strict=True):
        belief = update_belief(belief, moves[a], seen, o)
    joint = np.zeros(3)
    for path in itertools.product(range(3), repeat=7):
        p = start[path[0]]
        for t, (a, o) in enumerate(zip(actions, observations, strict=True)):
            p *= moves[a, path[t], path[t + 1]] * seen[path[t + 1], o]
        joint[path[-1]] += p
    np.testing.assert_allclose(belief, joint / joint.sum())
    with refused("data.probability-zero"):
        update_belief([1, 0, 0], np.eye(3), np.array([[0.0, 1], [1, 0], [1, 0]]), 0)


@pytest.mark.parametrize("ends", [1e-6, 1e-9, 1e-17, 1e-300])
def test_a_process_that_seldom_ends_has_the_value_of_its_steps(ends):
    # A reward of 1 in each step, 1 / ends steps on average; the sums of probabilities differ from one by rounding.
    process = MDP([[[1 - ends + 5e-6 * ends, ends], [0, 1]]], [[1.0], [0]], 1.0, [1])
    assert process.policy_value([0, 0])[0] == pytest.approx(1 / ends, rel=1e-5)
    rounded = MDP([[[0.33333, 0.33333, 0.33333], [0, 1, 0], [0, 0, 1]]], [[1.0], [0], [0]], 1.0, [1, 2])
    assert rounded.policy_value([0, 0, 0])[0] == pytest.approx(1.5, rel=1e-12)
    assert len(rounded.simulate([0, 0, 0], 0, 5, np.random.default_rng(0))[0]) == 6
    with refused("data.not-converged", "too large to compute"):
        MDP([[[1, 1e-310], [0, 1]]], [[1.0], [0]], 1.0, [1]).policy_value([0, 0])
