"""Plain functions on arrays: what is not meant is refused in one line, and never answered."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bayeslab.arrays import count, distributions, number, positions, real, truths, two_sides
from bayeslab.decisions import bandits, loss, mdp, paired, rejection, scores, stopping
from bayeslab.errors import BayeslabError, ModelError
from bayeslab.learners.perceptron import novikoff_bound
from bayeslab.learners.voting import combined, majority_error, posterior_weights, variance_of_mean
from bayeslab.plots import latent_features, mixture
from bayeslab.plots import learners as drawn
from bayeslab.plots.calibration import rank_ecdfs, rank_histograms
from bayeslab.theory import (
    associative,
    curves,
    error_sources,
    hypothesis_space,
    method_choice,
    pac,
    recurrent,
    separability,
    stationarity,
    weighted_majority,
)
from tests.refusals import refused

NAN = float("nan")
RNG = np.random.default_rng(0)
CORNERS = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
HALF = np.array([[0.5, 0.5], [0.5, 0.5]])
# Two states and two actions: stay and swap.
STAY = np.array([[[1.0, 0], [0, 1]], [[0, 1], [1, 0]]])
PAID = np.array([[1.0, 0], [0, 2]])


def process(discount=1.0, **changed):
    return mdp.MDP(**{"transitions": STAY, "rewards": PAID, "discount": discount} | changed)


@pytest.mark.parametrize(
    "labels",
    [
        (False, True, True, False),
        (0, 1, 1, 0),
        (-1, 1, 1, -1),
        (1, 2, 2, 1),
        ("no", "yes", "yes", "no"),
        (-2.5, 0, 0, -2.5),
    ],
)
def test_exclusive_or_is_never_separable(labels):
    """Whatever its two values are called; a plane for "and" is found for all of them, the last value above it."""
    assert not separability.separable(CORNERS, labels)
    low, high = labels[0], labels[1]
    both = [low, low, low, high]
    plane = separability.separating_plane(CORNERS, both)
    scores_ = plane[0] + CORNERS @ plane[1:]
    assert (scores_[:3] <= -1 + 1e-9).all()
    assert scores_[3] >= 1 - 1e-9
    assert novikoff_bound(CORNERS, both, plane[1:], plane[0]) > 0


@pytest.mark.parametrize("happened", [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], np.array([1, 0, 1], np.uint8)])
def test_rates_of_truth_values_however_written(happened):
    bins = scores.calibration_bins(np.array([0.1, 0.1, 0.9]), happened, 2)
    assert bins.observed.tolist() == [0.5, 1.0]
    shares, errors = rejection.rejection_curve([3, 2, 1], happened)
    assert errors[0] == pytest.approx(2 / 3)
    assert shares[0] == 0


def test_improper_policies():
    """A value at discount 1 exists where a terminal state is reached from everywhere: by first-step analysis."""
    # State 0 ends with probability 0.2 at a price of 1 a step: 5 steps on average.
    going = np.array([[[0.8, 0.2], [0, 1]]])
    paid = np.array([[-1.0], [0]])
    assert mdp.MDP(going, paid, 1.0, [1]).policy_value([0, 0])[0] == pytest.approx(-5)
    never = np.array([[[1.0, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]])
    with refused("data.not-converged", "state 0"):
        mdp.MDP(never, np.array([[-1.0], [-1], [0]]), 1.0, [2]).policy_value([0, 0, 0])
    # Rows that add up to one but for rounding made a system that was not quite singular.
    thirds = np.full((1, 3, 3), 1 / 3)
    with refused("data.not-converged", "state"):
        mdp.MDP(thirds, np.ones((3, 1)), 1.0).policy_value([0, 0, 0])
    assert process(0.5).policy_value([0, 0]).tolist() == [2, 0]


REFUSED = {
    "separable: three labels": lambda: separability.separable(CORNERS, [0, 1, 2, 0]),
    "separable: NaN label": lambda: separability.separable(CORNERS, [0, 1, NAN, 0]),
    "separable: too few labels": lambda: separability.separable(CORNERS, [0, 1]),
    "separable: NaN point": lambda: separability.separable([[0.0], [NAN]], [0, 1]),
    "separable: no points": lambda: separability.separable(np.zeros((0, 2)), []),
    "shattered: no points": lambda: separability.shattered(np.zeros((0, 2))),
    "threshold_functions: boolean": lambda: separability.threshold_functions(True),
    "novikoff: mixed labels": lambda: novikoff_bound(CORNERS, [0, "a", 1, 1], [1, 1]),
    "novikoff: short coefficients": lambda: novikoff_bound(CORNERS, [0, 0, 0, 1], [1.0]),
    "novikoff: short labels": lambda: novikoff_bound(CORNERS, [0, 1], [1, 1]),
    "brier: shares above one": lambda: scores.brier_score(np.array([[0.9, 0.9]]), np.array([0])),
    "brier: negative outcome": lambda: scores.brier_score(HALF, np.array([0, -1])),
    "brier: boolean outcomes": lambda: scores.brier_score(HALF, np.array([True, False])),
    "brier: empty": lambda: scores.brier_score(np.zeros((0, 2)), np.zeros(0, int)),
    "log score: outcomes too short": lambda: scores.log_score(HALF, np.array([1])),
    "log score: state that is not": lambda: scores.log_score(HALF, np.array([0, 2])),
    "log score: NaN": lambda: scores.log_score(np.array([[NAN, 1.0]]), np.array([0])),
    "bins: -1 and 1": lambda: scores.calibration_bins(np.array([0.1, 0.9]), np.array([-1, 1])),
    "bins: names": lambda: scores.calibration_bins(np.array([0.1, 0.9]), np.array(["no", "yes"])),
    "bins: counts": lambda: scores.calibration_bins(np.array([0.1, 0.9]), np.array([0, 3])),
    "bins: NaN": lambda: scores.calibration_bins(np.array([0.1, NAN]), np.array([0, 1])),
    "bins: probability of 2": lambda: scores.calibration_bins(np.array([0.1, 2.0]), np.array([0, 1])),
    "bins: lengths": lambda: scores.calibration_bins(np.array([0.1, 0.2]), np.array([1])),
    "bins: weights": lambda: scores.calibration_bins(np.array([0.1, 0.2]), np.array([1, 0]), weights=np.array([1, -1])),
    "bins: weights too short": lambda: scores.calibration_bins(np.array([0.1]), [1], weights=np.array([1, 1.0])),
    "bins: 2.5 bins": lambda: scores.calibration_bins(np.array([0.1]), np.array([1]), 2.5),
    "bins: empty": lambda: scores.calibration_bins(np.zeros(0), np.zeros(0, bool)),
    "class bins: classes": lambda: scores.class_bins(HALF, np.array([0, 1]), ["a", "b", "c"]),
    "class bins: negative": lambda: scores.class_bins(HALF, np.array([0, -1]), ["a", "b"]),
    "margin: one class": lambda: rejection.margin([[0.3], [0.4]]),
    "margin: NaN": lambda: rejection.margin([[0.3, NAN]]),
    "rejection: -1 and 1": lambda: rejection.rejection_curve([1, 2], [-1, 1]),
    "rejection: names": lambda: rejection.rejection_curve([1, 2], ["no", "yes"]),
    "rejection: NaN": lambda: rejection.rejection_curve([1, NAN], [0, 1]),
    "share rejected: error": lambda: rejection.share_rejected([1, 2], [0, 1], -0.1),
    "paired: level": lambda: paired.correlated_t(np.array([1.0, 2]), 0.1).interval(1.5),
    "paired: left_out": lambda: paired.correlated_t(np.array([1.0, 2]), NAN),
    "paired: words": lambda: paired.correlated_t(["a", "b"], 0.1),
    "loss: lengths": lambda: loss.incurred([1.0, 2], [1.0, 2, 3]),
    "loss: negative action": lambda: loss.incurred([0, 1], [0, -1], PAID),
    "loss: boolean states": lambda: loss.incurred([True, False], [0, 1], PAID),
    "loss: names": lambda: loss.incurred(["a"], ["b"], "squared"),
    "loss: no draws": lambda: loss.from_draws(np.zeros((0, 3))),
    "loss: shares of 2": lambda: loss.expected_losses([1.0, 1.0], PAID),
    "loss: shares below 0": lambda: loss.from_probabilities([1.5, -0.5], PAID),
    "loss: NaN cost": lambda: loss.Asymmetric(NAN, 1),
    "return: discount": lambda: mdp.discounted_return([1, 2], 1.5),
    "return: NaN": lambda: mdp.discounted_return([1, NAN]),
    "process: NaN": lambda: process(rewards=np.array([[NAN, 0], [0, 1.0]])),
    "process: negative terminal": lambda: process(terminal=[-1], rewards=np.zeros((2, 2))),
    "process: names": lambda: process(states=["a"]),
    "process: discount": lambda: process(discount=True),
    "policy: no terminal state": lambda: process().policy_value([0, 0]),
    "policy: negative": lambda: process(0.9).policy_value([0, -1]),
    "policy: too high": lambda: process(0.9).policy_value([0, 2]),
    "policy: fraction": lambda: process(0.9).policy_value([0, 0.7]),
    "policy: too short": lambda: process(0.9).policy_value([0]),
    "policy: rows of 2": lambda: process(0.9).policy_value([[1, 1], [1, 0]]),
    "policy: shape": lambda: process(0.9).policy_value([[1, 0]]),
    "policy iteration: start": lambda: mdp.policy_iteration(process(0.9), [0, -1]),
    "value iteration: tolerance": lambda: mdp.value_iteration(process(0.9), tolerance=NAN),
    "simulate: start": lambda: process(0.9).simulate([0, 0], -1, 3, RNG),
    "action values: shape": lambda: process(0.9).action_values([1.0]),
    "belief: sum": lambda: mdp.update_belief([1, 1], HALF, HALF, 0),
    "belief: observation": lambda: mdp.update_belief([1, 0], HALF, HALF, -1),
    "belief: shapes": lambda: mdp.update_belief([1.0], HALF, HALF, 0),
    "bandit: no actions": lambda: bandits.play(lambda a, r: 1.0, 0, 5, RNG),
    "bandit: NaN reward": lambda: bandits.play(lambda a, r: NAN, 2, 5, RNG),
    "bandit: epsilon": lambda: bandits.play(lambda a, r: 1.0, 2, 5, RNG, epsilon=2),
    "trade: buyer": lambda: stopping.CandyTrade((1.0,), (0.5,), 2, (1, 1), (1,)),
    "trade: NaN prior": lambda: stopping.CandyTrade((NAN,), (0.5,), 2, (1, 1), (1, 1)),
    "trade: too many": lambda: stopping.CandyTrade((1.0,), (0.5,), 10**9, (1, 1), (1, 1)),
    "space: prior": lambda: hypothesis_space.HypothesisSpace(CORNERS, [0.5, 0.5, 0.5, 0.5]),
    "space: NaN prior": lambda: hypothesis_space.HypothesisSpace(CORNERS, [NAN, 0.5, 0.5, 0]),
    "space: negative input": lambda: hypothesis_space.boolean_space(2).consistent([-1], [1]),
    "space: too few values": lambda: hypothesis_space.boolean_space(2).posterior([0, 1], [1]),
    "space: values without inputs": lambda: hypothesis_space.boolean_space(2).posterior([0], [1, 0]),
    "space: distribution": lambda: hypothesis_space.boolean_space(2).errors(0, [1, 1, 1, 1]),
    "space: negative truth": lambda: hypothesis_space.boolean_space(2).errors(-1),
    "space: NaN noise": lambda: hypothesis_space.boolean_space(2).posterior([0], [1], NAN),
    "space: inputs": lambda: hypothesis_space.boolean_inputs(60),
    "space: truth": lambda: hypothesis_space.boolean_space(2).realizes([1]),
    "pac: NaN": lambda: pac.sample_size(NAN, 0.1, 0.1),
    "pac: survival": lambda: pac.survival_bound(2.0, 3),
    "pac: functions": lambda: pac.boolean_functions(60),
    "pac: log functions": lambda: pac.log_boolean_functions(10**6),
    "pac: conjunctions": lambda: pac.conjunctions(10**9, 10**8),
    "pac: fraction": lambda: pac.conjunctions(3, 1.5),
    "pac: weights": lambda: pac.weights_rule_of_thumb(0),
    "majority: NaN": lambda: weighted_majority.follow([[NAN, 1.0]], [1.0], 0.5, RNG),
    "majority: no experts": lambda: weighted_majority.follow(np.zeros((3, 0)), [1, 0, 1], 0.5, RNG),
    "majority: beta": lambda: weighted_majority.mistake_bound(1, 2, NAN),
    "majority: experts": lambda: weighted_majority.mistake_bound(1, 0, 0.5),
    "majority: steps": lambda: weighted_majority.best_beta(1.5, 2),
    "stream: words": lambda: stationarity.drift_test(["a"] * 12),
    "stream: NaN": lambda: stationarity.runs_test([NAN] * 12),
    "curve: lengths": lambda: curves.fit_curve([1.0, 2], [1.0], curves.polynomial(1)),
    "curve: NaN": lambda: curves.fit_curve([1.0, NAN], [1.0, 2], curves.polynomial(1)),
    "curve: empty": lambda: curves.fit_curve([], [], curves.polynomial(1)),
    "curve: overflow": lambda: curves.fit_curve([1e200, 1], [1.0, 2], curves.polynomial(3)),
    "curve: no basis": lambda: curves.fit_curve([1.0], [1.0], []),
    "curve: tolerance": lambda: curves.simplest([1.0], [1.0], [curves.polynomial(0)], NAN),
    "curve: degree": lambda: curves.polynomial(10**9),
    "suggested: fraction": lambda: method_choice.suggested(10.5, 2),
    "error sources: noise": lambda: error_sources.error_sources(None, None, None, NAN, 3, RNG),
    "recurrent: NaN": lambda: recurrent.Recurrent(np.array([[NAN]]), np.zeros(1)),
    "recurrent: start": lambda: recurrent.doubling(2.0).run([0.1], 3),
    "recurrent: inputs": lambda: recurrent.doubling(2.0).run([0.1, 0.2], 3, np.zeros((2, 2))),
    "recurrent: strength": lambda: recurrent.doubling(NAN),
    "recurrent: longest": lambda: recurrent.doubling(2.0).period([0.1, 0.2], longest=0),
    "recurrent: no steps": lambda: recurrent.doubling(2.0).lyapunov([0.1, 0.2], n=0),
    "hopfield: NaN": lambda: associative.Hopfield(np.array([[0, NAN], [NAN, 0]])),
    "hopfield: two starts": lambda: associative.Hopfield(np.zeros((2, 2))).recall([[1, 1], [1, -1]], RNG),
    "boltzmann: temperature": lambda: associative.BoltzmannMachine.random(2, 0, RNG).distribution(NAN),
    "boltzmann: held": lambda: associative.BoltzmannMachine.random(2, 0, RNG).sample(RNG, [1.0], [[1, 1]], held=-1),
    "boltzmann: NaN bias": lambda: associative.BoltzmannMachine(np.zeros((1, 1)), np.array([NAN]), 1),
    "boltzmann: visible": lambda: associative.BoltzmannMachine(np.zeros((1, 1)), np.zeros(1), True),
    "boltzmann: rate": lambda: associative.BoltzmannMachine.random(2, 0, RNG).learned([[1, 1]], rate=-1),
    "states: too many": lambda: associative.all_states(60),
    "combined: unknown rule": lambda: combined([[0.5], [0.5]], "Product"),
    "combined: NaN weight": lambda: combined([[0.5], [0.5]], "weighted", [NAN, 1]),
    "combined: empty": lambda: combined(np.zeros((0, 2))),
    "majority error: probability": lambda: majority_error(3, 1.5),
    "majority error: fraction": lambda: majority_error(2.5, 0.1),
    "variance: shape": lambda: variance_of_mean([[1.0, 2.0]]),
    "weights: shape": lambda: posterior_weights([1.0, 2.0]),
    "ranks: none": lambda: rank_histograms({}, 10),
    "ranks: negative": lambda: rank_histograms({"mu": np.array([-1, 3])}, 10),
    "ranks: too high": lambda: rank_ecdfs({"mu": np.array([1, 30])}, np.linspace(0.1, 0.9, 9), HALF[0], HALF[0]),
    "margins: NaN": lambda: drawn.margins({"own": np.array([NAN, 1.0])}, "margin"),
    "margins: empty": lambda: drawn.margins({"own": np.zeros(0)}, "margin"),
    "confusion: shape": lambda: drawn.confusion(np.eye(2), ["a", "b", "c"], "y"),
    "clusters: negative": lambda: mixture.numbers(np.array([-1, 2]), None),
    "responsibilities: names": lambda: mixture.responsibilities(HALF, ["a"]),
    "traces: NaN": lambda: mixture.em_trace(np.full((2, 3), NAN)),
    "features: fraction": lambda: latent_features.number(np.array([1.5])),
    "features: shares": lambda: latent_features.images(np.zeros((2, 2, 2)), np.ones(3)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(case):
    with pytest.raises(BayeslabError) as caught:
        REFUSED[case]()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) > 5


def test_what_is_taken():
    """Numbers of other kinds, and arrays of objects that are numbers."""
    assert number(Fraction(1, 2), "x") == 0.5
    assert number(np.float32(2), "x") == 2
    assert count(np.int8(3), "n") == 3
    assert real([Fraction(1, 4), 2], "x").tolist() == [0.25, 2]
    assert positions([0.0, 2.0], "x", 3).tolist() == [0, 2]
    assert truths(np.array([True, False], object), "x").tolist() == [True, False]
    assert two_sides(["b", "a"]).tolist() == [1, -1]
    assert two_sides([0, 0]).tolist() == [-1, -1]
    assert distributions([0.25, 0.75], "p").tolist() == [0.25, 0.75]
    for wrong in (True, "1", None, 1 + 0j):
        with refused("option.wrong-type", "^x "):
            number(wrong, "x")
    with refused("option.out-of-range", "^x .*nan"):
        number(NAN, "x")
    for wrong in (1.0, True, "1"):
        with refused("option.wrong-type", "^x "):
            count(wrong, "x")
    with refused("option.out-of-range", "^x .*-1"):
        count(-1, "x")
    with refused("model.wrong-shape", "^x "):
        real([[1], [1, 2]], "x", error=ModelError)
