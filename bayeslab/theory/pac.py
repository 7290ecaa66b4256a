r"""Probably approximately correct learning: how many examples are enough.

A hypothesis whose error exceeds :math:`\epsilon` agrees with N independent examples with probability at most
:math:`(1-\epsilon)^N`. So with

.. math:: N \ge \frac{1}{\epsilon}\left(\ln\frac{1}{\delta} + \ln|H|\right)

examples, with probability :math:`1-\delta` every hypothesis of a space H that agrees with all of them has an error of
at most :math:`\epsilon` [1]_. What is learnable depends on the size of the space: its logarithm is exponential in n for
all Boolean functions of n inputs, polynomial for decision lists of short conjunctions [2]_.

References
----------
.. [1] Valiant (1984). A theory of the learnable. Communications of the ACM 27(11); Blumer, Ehrenfeucht, Haussler,
   Warmuth (1987). Occam's razor. Information Processing Letters 24.
.. [2] Rivest (1987). Learning decision lists. Machine Learning 2, 229-246.
"""

from __future__ import annotations

import math

from bayeslab.errors import OptionError

__all__ = [
    "boolean_functions",
    "conjunctions",
    "log_boolean_functions",
    "log_decision_lists",
    "sample_size",
    "survival_bound",
    "weights_rule_of_thumb",
]


def sample_size(log_hypotheses: float, epsilon: float, delta: float) -> float:
    """Examples that are enough for a consistent hypothesis to be probably approximately correct; round up.

    Parameters
    ----------
    log_hypotheses
        Natural logarithm of the number of hypotheses.
    epsilon
        Error that is allowed.
    delta
        Probability that it is exceeded all the same.
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise OptionError(f"{name} lies between 0 and 1, not {value!r}")
    if not log_hypotheses >= 0:
        raise OptionError(f"the logarithm of a number of hypotheses is ≥ 0, not {log_hypotheses!r}")
    return (math.log(1 / delta) + log_hypotheses) / epsilon


def survival_bound(epsilon: float, n_examples: int) -> float:
    """Probability, at most, that a hypothesis with an error above epsilon agrees with all examples."""
    return float((1 - epsilon) ** n_examples)


def boolean_functions(n: int) -> int:
    """Number of Boolean functions of n inputs, 2 to the power of 2 to the power of n."""
    return 1 << (1 << _inputs(n))


def log_boolean_functions(n: int) -> float:
    """Its natural logarithm."""
    return float(2 ** _inputs(n)) * math.log(2)


def conjunctions(n: int, k: int) -> int:
    """Number of conjunctions of at most k literals of n inputs: the sum of C(2n, i) for i up to k.

    As the source counts: also with an input and its negation.
    """
    if k < 0:
        raise OptionError(f"a number of literals is a whole number ≥ 0, not {k!r}")
    return sum(math.comb(2 * _inputs(n), i) for i in range(k + 1))


def log_decision_lists(n: int, k: int) -> float:
    """Logarithm of a bound on the number of k-decision lists: 3 to the power c times c factorial, c conjunctions."""
    c = conjunctions(n, k)
    return c * math.log(3) + math.lgamma(c + 1)


def weights_rule_of_thumb(n_weights: int) -> tuple[float, int]:
    """Examples that a network of W weights asks for: of the order W ln W, and the rule of thumb 10 W."""
    return n_weights * math.log(n_weights), 10 * n_weights


def _inputs(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise OptionError(f"a number of inputs is a whole number ≥ 1, not {n!r}")
    return n
