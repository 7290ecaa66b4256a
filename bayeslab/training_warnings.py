"""Collect the warnings of learners during training and summarise them in one line."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

__all__ = ["convergence_warnings", "summary"]


@contextmanager
def convergence_warnings() -> Iterator[list[str]]:
    """A context that collects the texts of ConvergenceWarnings; other warnings are passed on."""
    from sklearn.exceptions import ConvergenceWarning

    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield texts
    for one in caught:
        if issubclass(one.category, ConvergenceWarning):
            # scikit-learn's message continues with links.
            texts.append(shorten(str(one.message), 200, placeholder=" ..."))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def summary(texts: list[str], prefix: str = "") -> str:
    """Summarise texts in one line: a single text itself; otherwise their number and the most common one."""
    commonest, _ = Counter(texts).most_common(1)[0]
    if len(texts) == 1:
        return commonest
    return f"{prefix}{len(texts)} inner fits did not converge; most often: {commonest.removeprefix(prefix)}"
