"""What learners warn of while they are trained: collected, and said in one line."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

__all__ = ["convergence_warnings", "summary"]


@contextmanager
def convergence_warnings() -> Iterator[list[str]]:
    """Texts of all ConvergenceWarnings given inside; other warnings go on as they were."""
    from sklearn.exceptions import ConvergenceWarning

    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield texts
    for one in caught:
        if issubclass(one.category, ConvergenceWarning):
            # scikit-learn goes on with what to read.
            texts.append(shorten(str(one.message), 200, placeholder=" ..."))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def summary(texts: list[str], prefix: str = "") -> str:
    """One line of several texts; of more than one how many there are, and the commonest."""
    commonest, _ = Counter(texts).most_common(1)[0]
    if len(texts) == 1:
        return commonest
    return f"{prefix}{len(texts)} fits inside did not converge; most often: {commonest.removeprefix(prefix)}"
