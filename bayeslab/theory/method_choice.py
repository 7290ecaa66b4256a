"""Rules of thumb for which learner to try first, given facts about the data [1]_.

They suggest a starting point; the final choice is by cross-validation.

References
----------
.. [1] Russell, Norvig (2010). Artificial intelligence: a modern approach. 3rd ed., Prentice Hall, section 18.11.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayeslab.arrays import count

__all__ = ["Suggestion", "suggested"]

# With more inputs every row is far from every other.
_FEW_INPUTS = 20
# The cost of the dual problem is at least quadratic in the number of rows.
_MANY_ROWS = 50_000


@dataclass(frozen=True)
class Suggestion:
    """A suggested learner, by its name in a model file, and the rule behind it."""

    learner: str
    why: str


def suggested(n_rows: int, n_inputs: int, n_discrete: int = 0, *, irrelevant: bool = False) -> tuple[Suggestion, ...]:
    """Return the learners to try, in order.

    Parameters
    ----------
    n_rows, n_inputs
        Size of the table.
    n_discrete
        Number of categorical inputs.
    irrelevant
        Whether many of the inputs are believed to be irrelevant to the target.
    """
    count(n_rows, "n_rows", 1)
    count(n_inputs, "n_inputs", 1)
    count(n_discrete, "n_discrete", 0, n_inputs)
    suggestions = []
    if irrelevant and 2 * n_discrete >= n_inputs:
        suggestions.append(Suggestion("decision_tree", "many discrete inputs, of which many may be irrelevant"))
    # A search tree needs about 2^n rows.
    if n_inputs < _FEW_INPUTS and n_rows >= 2**n_inputs and n_rows >= 1000:
        suggestions.append(
            Suggestion("knn", f"many rows, fewer than {_FEW_INPUTS} inputs, and no knowledge of the function")
        )
    if n_rows <= _MANY_ROWS:
        suggestions.append(
            Suggestion("svm", "without knowledge of the problem and with not too many rows, the first to try")
        )
    return tuple(suggestions) or (Suggestion("random_forest", "many rows and many inputs: trees take the least time"),)
