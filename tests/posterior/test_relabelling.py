"""Names of states that agree between draws, on draws whose numberings are known."""

import numpy as np
import pytest

from bayeslab.latents.labels.labels import LabelLaw, Labels
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.relabelling import agreeing, probabilities_at


def laws(orders):
    """Labels of 40 rows at draws that differ in little but the numbers of their components."""
    rng = np.random.default_rng(0)
    n_states = len(orders[0])
    table = 4.0 * np.eye(n_states)[rng.integers(0, n_states, 40)]
    out = []
    for order in orders:
        density = table + 0.1 * rng.normal(size=table.shape)
        out.append(LabelLaw(Labels(n_states), np.log(np.full(n_states, 1 / n_states)), density[:, order]))
    return out


def test_numberings_are_undone():
    """State k of a draw is the table's state ``order[k]``; after the moves it is the same in every draw."""
    rng = np.random.default_rng(1)
    orders = np.stack([rng.permutation(4) for _ in range(30)])
    moves = agreeing(laws(orders), np.arange(40))
    names = np.take_along_axis(orders, moves, axis=1)
    assert np.all(names == names[0])
    assert sorted(names[0]) == [0, 1, 2, 3]


def test_only_a_block_trades_places():
    rng = np.random.default_rng(2)
    block = np.array([1, 3])
    orders = np.tile(np.arange(4), (20, 1))
    orders[:, block] = block[np.stack([rng.permutation(2) for _ in range(20)])]
    moves = agreeing(laws(orders), np.arange(40), block)
    names = np.take_along_axis(orders, moves, axis=1)
    assert set(moves.ravel()) == {1, 3}
    assert np.all(names == names[0])
    assert agreeing(laws(orders), np.arange(40), np.array([2])).tolist() == [[2]] * 20


def test_probabilities_are_those_of_the_rows():
    law = laws([[0, 1]])[0]
    found = probabilities_at([law], np.array([3, 7]))
    p = np.exp(law.log_density[[3, 7]])
    np.testing.assert_allclose(found[0], p / p.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize(("n", "most", "numbers"), [(3, 10, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (1, 5, [0])])
def test_numbers_are_evenly_spaced(n, most, numbers):
    assert evenly(n, most).tolist() == numbers
