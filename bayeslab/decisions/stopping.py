"""Optimal stopping: when to stop unwrapping candies and sell the rest of a bag of unknown composition.

Ann unwraps candies from a bag one at a time; she enjoys the unwrapped candies and cannot sell them. At
any time she may sell the rest to Bob, who values the flavours differently and pays what the wrapped
candies are worth to him, given everything both have observed. Unwrapping gives information about the
bag, but leaves less to sell.

The state is the number of unwrapped candies of either flavour; under exchangeable draws nothing else
matters. With p the probability that the next candy is a lime, the value of continuing is an expectation
over two states with one more unwrapped candy, so the values are computed backwards from the empty bag
[1]_ [2]_:

.. math:: V(l, c) = \\max\\{(N - l - c)\\,[p\\,b_l + (1 - p)\\,b_c],\\;
          p\\,[a_l + V(l + 1, c)] + (1 - p)\\,[a_c + V(l, c + 1)]\\}

References
----------
.. [1] Russell, Norvig (2003). Artificial Intelligence: A Modern Approach, 2nd ed., exercise 20.3.
   The book leaves open what Bob pays; here it is his expected utility.
.. [2] DeGroot (1970). Optimal Statistical Decisions, chapter 12.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeslab.arrays import count, distributions, real
from bayeslab.errors import ModelError

__all__ = ["CandyTrade", "StoppingRule", "best_stopping"]

# Largest number of candies; the number of states is quadratic in it.
_CANDIES = 5000


@dataclass(frozen=True)
class CandyTrade:
    """The prior over bags, and the values of the candies to seller and buyer.

    Parameters
    ----------
    prior : tuple of float
        Probability of each kind of bag.
    lime_share : tuple of float
        Share of limes in each kind of bag; each candy in it is a lime with this probability.
    n_candies : int
    seller : (float, float)
        Value to Ann of unwrapping a lime, and of a cherry.
    buyer : (float, float)
        Value to Bob of a lime, and of a cherry.
    """

    prior: tuple[float, ...]
    lime_share: tuple[float, ...]
    n_candies: int
    seller: tuple[float, float]
    buyer: tuple[float, float]

    def __post_init__(self) -> None:
        prior = distributions(self.prior, "prior", error=ModelError)
        share = real(self.lime_share, "lime_share", error=ModelError)
        if prior.ndim != 1 or prior.shape != share.shape:
            raise ModelError(
                f"one prior probability a kind of bag: {prior.size} probabilities for {share.size} shares",
                code="wrong-length",
            )
        if not np.all((share >= 0) & (share <= 1)):
            raise ModelError("shares of limes lie between 0 and 1", code="out-of-range")
        count(self.n_candies, "n_candies", 0, _CANDIES, error=ModelError)
        for name, values in (("seller", self.seller), ("buyer", self.buyer)):
            if real(values, name, error=ModelError).shape != (2,):
                raise ModelError(
                    f"{name} is two numbers, of a lime and of a cherry; given: {values!r}", code="wrong-length"
                )

    def lime_probability(self, limes: ArrayLike, cherries: ArrayLike) -> np.ndarray:
        """Return the probability that the next candy is a lime, given the counts; NaN if no kind of bag allows them."""
        from scipy.special import logsumexp, xlogy

        share, counts = np.asarray(self.lime_share, float), [np.asarray(n, float)[..., None] for n in (limes, cherries)]
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = np.log(self.prior) + xlogy(counts[0], share) + xlogy(counts[1], 1 - share)
            posterior = np.exp(joint - logsumexp(joint, axis=-1, keepdims=True))
        return np.asarray(posterior @ share)


@dataclass(frozen=True, eq=False)
class StoppingRule:
    """The optimal rule for every number of unwrapped limes and cherries.

    Attributes
    ----------
    value : ndarray (N + 1, N + 1)
        ``value[limes, cherries]``: expected utility from this state on; NaN for impossible states.
    price : ndarray (N + 1, N + 1)
        Price that Bob pays for the rest.
    sell : ndarray of bool (N + 1, N + 1)
        Whether to sell: as soon as selling is at least as good as continuing.
    sell_now, never_sell : float
        Expected utility of selling the whole bag at once, and of unwrapping all candies.
    """

    value: np.ndarray
    price: np.ndarray
    sell: np.ndarray
    sell_now: float
    never_sell: float

    @property
    def expected_utility(self) -> float:
        """Expected utility of the optimal rule before any candy is unwrapped."""
        return float(self.value[0, 0])


def best_stopping(trade: CandyTrade) -> StoppingRule:
    """Return the rule with the largest expected utility, by backward induction over (limes, cherries)."""
    n = trade.n_candies
    limes, cherries = np.indices((n + 1, n + 1))
    left = n - limes - cherries
    p = np.where(left >= 0, trade.lime_probability(limes, cherries), np.nan)
    price = left * _mean(p, *trade.buyer)
    value, sell = price.copy(), ~np.isnan(p)
    for n_opened in range(n - 1, -1, -1):
        at = np.arange(n_opened + 1), n_opened - np.arange(n_opened + 1)
        more_lime, more_cherry = value[at[0] + 1, at[1]], value[at[0], at[1] + 1]
        go_on = _mean(p[at], trade.seller[0] + more_lime, trade.seller[1] + more_cherry)
        sell[at] = price[at] >= go_on
        value[at] = np.maximum(price[at], go_on)
    whole = _mean(p[0, 0], *trade.seller)
    return StoppingRule(value, price, sell, float(price[0, 0]), float(n * whole))


def _mean(p: np.ndarray, lime: np.ndarray | float, cherry: np.ndarray | float) -> np.ndarray:
    """Expectation over the next candy; impossible candies contribute nothing."""
    return p * np.nan_to_num(lime) + (1 - p) * np.nan_to_num(cherry)
