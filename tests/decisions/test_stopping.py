"""The candy trade against every policy on small bags, and where the answer is plain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.decisions.stopping import CandyTrade, best_stopping
from tests.refusals import refused

PRIOR = (0.1, 0.2, 0.4, 0.2, 0.1)
SHARE = (0, 0.25, 0.5, 0.75, 1)


def trade(n: int, seller=(0.2, 1.0), buyer=(1.0, 0.4), prior=PRIOR, share=SHARE) -> CandyTrade:
    return CandyTrade(prior, share, n, seller, buyer)


def followed(t: CandyTrade, rule: dict[tuple[str, ...], bool]) -> float:
    """Expected utility of a rule on histories, by adding up all bags: kind of bag by order of flavours."""
    total = 0.0
    for prior, share in zip(t.prior, t.lime_share, strict=True):
        for bag in product("lc", repeat=t.n_candies):
            p = prior * np.prod([share if f == "l" else 1 - share for f in bag])
            utility = 0.0
            for i, flavour in enumerate(bag):
                if rule[bag[:i]]:
                    # Bob pays the average of what is left, over all bags that begin like this one: here, what he gets.
                    utility += sum(t.buyer[f == "c"] for f in bag[i:])
                    break
                utility += t.seller[flavour == "c"]
            total += p * utility
    return total


@pytest.mark.parametrize(
    ("seller", "buyer"),
    [((0.2, 1.0), (1.0, 0.4)), ((0.5, 0.6), (0.9, 0.1)), ((1.0, 0.0), (0.3, 0.8)), ((0, 1), (1, 0))],
)
def test_no_rule_on_histories_is_better(seller, buyer):
    """All 2^7 rules on the histories of a bag of three, in whatever order the flavours came."""
    t = trade(3, seller, buyer)
    histories = [h for n in range(3) for h in product("lc", repeat=n)]
    values = [followed(t, dict(zip(histories, c, strict=True))) for c in product((False, True), repeat=len(histories))]
    found = best_stopping(t)
    assert found.expected_utility == pytest.approx(max(values), abs=1e-12)
    ours = {h: bool(found.sell[h.count("l"), h.count("c")]) for h in histories}
    assert followed(t, ours) == pytest.approx(max(values), abs=1e-12)
    assert found.sell_now == pytest.approx(followed(t, dict.fromkeys(histories, True)))
    assert found.never_sell == pytest.approx(followed(t, dict.fromkeys(histories, False)))


def test_never_worse_than_selling_now_or_never():
    rng = np.random.default_rng(1)
    for _ in range(200):
        worth = rng.uniform(0, 1, 4)
        share = rng.choice([0, 1, rng.random(), rng.random()], 4)
        found = best_stopping(trade(12, worth[:2], worth[2:], rng.dirichlet(np.ones(4)), share))
        assert found.expected_utility >= max(found.sell_now, found.never_sell) - 1e-12


def test_looking_pays_for_the_five_bags():
    """Ann likes cherries, Bob limes: she looks first, sells once limes come, and keeps the bag when cherries come."""
    found = best_stopping(trade(20, (0.2, 1.0), (1.0, 0.2)))
    assert found.expected_utility > max(found.sell_now, found.never_sell) + 0.5
    assert not found.sell[0, 0] and found.sell[3, 0] and not found.sell[0, 3]


def test_predictions_are_those_of_the_five_bags():
    """P(next is lime) after 0, 1, 2, 3, 10 limes (Russell and Norvig, section 20.1)."""
    p = trade(10).lime_probability([0, 1, 2, 3, 10], 0)
    assert p == pytest.approx([0.5, 0.65, 0.730769, 0.796053, 0.973031], abs=5e-7)


def test_known_bags_are_sold_at_once_or_never():
    """Nothing is learned from a bag of known kind; then every candy goes to who values it more on average."""
    t = trade(6, (0.3, 0.7), (0.6, 0.6), prior=(1.0,), share=(0.5,))
    assert best_stopping(t).expected_utility == pytest.approx(6 * 0.6)
    t = trade(6, (0.3, 0.7), (0.6, 0.3), prior=(1.0,), share=(0.5,))
    found = best_stopping(t)
    assert found.expected_utility == pytest.approx(6 * 0.5)
    assert found.sell.sum() == 7  # empty bags only


def test_candies_that_cannot_come_have_no_value():
    found = best_stopping(trade(2, prior=(0.5, 0.5), share=(0, 1)))
    assert np.isnan(found.value[1, 1]) and not found.sell[1, 1]
    assert found.expected_utility == pytest.approx(max(0.6 + 0.5 * 1.0 + 0.5 * 1.0, 2 * 0.7))
    assert best_stopping(trade(0)).expected_utility == 0


@pytest.mark.parametrize(
    ("changed", "code", "match"),
    [
        ({"prior": (0.5, 0.5)}, "model.wrong-length", "prior.*2.*5"),
        ({"prior": (0.5, 0.5, 0.5, 0, 0)}, "model.not-probabilities", "prior"),
        ({"share": (0, 0.25, 0.5, 0.75, 1.2)}, "model.out-of-range", "shares"),
        ({"n": -1}, "model.out-of-range", "n_candies.*-1"),
    ],
)
def test_errors(changed, code, match):
    with refused(code, match):
        trade(**({"n": 3} | changed))
