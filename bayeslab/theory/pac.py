r"""Probably approximately correct (PAC) learning: sufficient numbers of examples.

A hypothesis whose error exceeds :math:`\epsilon` agrees with N independent examples with probability at most
:math:`(1-\epsilon)^N`. So with

.. math:: N \ge \frac{1}{\epsilon}\left(\ln\frac{1}{\delta} + \ln|H|\right)

examples, with probability at least :math:`1-\delta` every hypothesis of a space H that agrees with all of them has an
error of at most :math:`\epsilon` [1]_. Learnability depends on the size of the space: its logarithm is exponential in n
for all Boolean functions of n inputs, but polynomial for decision lists of short conjunctions [2]_.

References
----------
.. [1] Valiant (1984). A theory of the learnable. Communications of the ACM 27(11); Blumer, Ehrenfeucht, Haussler,
   Warmuth (1987). Occam's razor. Information Processing Letters 24.
.. [2] Rivest (1987). Learning decision lists. Machine Learning 2, 229-246.
"""

from __future__ import annotations

import math

from bayeslab.arrays import count, number
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

# Largest numbers of inputs for which the number of Boolean functions has at most 10⁶ bits, and a finite logarithm.
_WRITTEN_OUT, _FLOATS = 20, 1000
# Largest numbers of inputs for counting conjunctions, and of conjunctions for a finite logarithm of their lists.
_LITERALS, _LGAMMA = 500, 1e305


def sample_size(log_hypotheses: float, epsilon: float, delta: float) -> float:
    """Return the number of examples that make any consistent hypothesis probably approximately correct; round up.

    Parameters
    ----------
    log_hypotheses
        Natural logarithm of the number of hypotheses.
    epsilon
        Allowed error.
    delta
        Allowed probability that the error is exceeded.
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        number(value, name, 0, 1, above=True, below=True)
    number(log_hypotheses, "log_hypotheses", 0)
    return (math.log(1 / delta) + log_hypotheses) / epsilon


def survival_bound(epsilon: float, n_examples: int) -> float:
    """Return an upper bound on the probability that a hypothesis with error above epsilon agrees with all examples."""
    return float((1 - number(epsilon, "epsilon", 0, 1)) ** count(n_examples, "n_examples"))


def boolean_functions(n: int) -> int:
    """Return the number of Boolean functions of n inputs, 2^(2^n)."""
    return 1 << (1 << _inputs(n, _WRITTEN_OUT))


def log_boolean_functions(n: int) -> float:
    """Return the natural logarithm of the number of Boolean functions of n inputs."""
    return float(2 ** _inputs(n, _FLOATS)) * math.log(2)


def conjunctions(n: int, k: int) -> int:
    """Return the number of conjunctions of at most k literals of n inputs: the sum of C(2n, i) for i up to k.

    As in the source, this includes conjunctions with an input and its negation.
    """
    n, k = _inputs(n, _LITERALS), count(k, "k, the number of literals,")
    return sum(math.comb(2 * n, i) for i in range(min(k, 2 * n) + 1))


def log_decision_lists(n: int, k: int) -> float:
    """Return the logarithm of the bound 3^c c! on the number of k-decision lists, for c conjunctions."""
    c = conjunctions(n, k)
    if c > _LGAMMA:
        raise OptionError(
            f"there are {c:.3g} conjunctions: decision lists of so many are not counted; take fewer (k, n)",
            code="too-costly",
        )
    return c * math.log(3) + math.lgamma(c + 1)


def weights_rule_of_thumb(n_weights: int) -> tuple[float, int]:
    """Return the examples needed for a network of W weights: W ln W (order of magnitude), and 10 W (rule of thumb)."""
    n = count(n_weights, "n_weights", 1)
    return n * math.log(n), 10 * n


def _inputs(n: int, at_most: int) -> int:
    return count(n, "n, the number of inputs,", 1, at_most)
