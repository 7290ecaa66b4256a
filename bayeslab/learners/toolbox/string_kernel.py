r"""The string subsequence kernel: how many subsequences two texts share, those with gaps counting less.

A subsequence of ``length`` symbols that spans l places of a text, gaps included, has the weight :math:`\lambda^l`; the
kernel is the inner product of the weights over all subsequences, :math:`K(s, t) = \sum_u \phi_u(s) \phi_u(t)`, computed
in :math:`O(n |s| |t|)` without listing them [1]_. Divided by :math:`\sqrt{K(s, s) K(t, t)}` long texts do not outweigh
short ones. It is a Mercer kernel, by what it is.

Symbols are letters, or anything that can be looked up: words, notes, nucleotides.

References
----------
.. [1] Lodhi, Saunders, Shawe-Taylor, Cristianini, Watkins (2002). Text classification using string kernels. JMLR 2,
   419-444.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import OptionError

__all__ = ["SubsequenceKernel"]


@dataclass(frozen=True)
class SubsequenceKernel:
    """The subsequence kernel of texts, to be called with one set of texts or two.

    It can be given as ``kernel`` to :class:`bayeslab.learners.svm.SVMClassifier`, which then learns from texts.

    Attributes
    ----------
    length : int
        Symbols of a subsequence.
    decay : float
        What each place that a subsequence spans multiplies its weight by, in (0, 1]; near 0 gaps hardly count, 1: as
        much as no gaps.
    normalise : bool
        Whether each text has the value 1 with itself.

    Raises
    ------
    OptionError
        A length below one, or a decay that is not in (0, 1].

    Examples
    --------
    >>> from bayeslab.learners.toolbox.string_kernel import SubsequenceKernel
    >>> kernel = SubsequenceKernel(2, 0.5)
    >>> kernel(["cat"], ["cat", "car", "bar"]).round(4).tolist()
    [[1.0, 0.4444, 0.0]]
    """

    length: int = 3
    decay: float = 0.5
    normalise: bool = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise OptionError(f"length is a whole number from 1, not {self.length!r}", code="out-of-range")
        if not 0 < self.decay <= 1:
            raise OptionError(f"decay is above 0 and at most 1, not {self.decay!r}", code="out-of-range")

    def __call__(self, texts: Sequence[Sequence[Hashable]], others: Sequence[Sequence[Hashable]] | None = None) -> Any:
        """Kernel values, shape (texts, others); a text shorter than the subsequences has none in common with any.

        Parameters
        ----------
        texts, others
            Strings, or sequences of symbols; left out: the texts themselves.
        """
        from bayeslab.learners.toolbox.subsequence_kernels import table

        same = others is None or others is texts
        codes: dict[Hashable, int] = {}
        a = _coded(texts, codes)
        b = a if same else _coded(others if others is not None else texts, codes)
        values = table(*a, *b, self.length, self.decay, same)
        if not self.normalise:
            return values
        self_a = np.diagonal(values) if same else self._self_kernel(a)
        self_b = self_a if same else self._self_kernel(b)
        scale = np.sqrt(np.outer(self_a, self_b))
        return np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)

    def _self_kernel(self, coded: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The kernel of each text with itself."""
        from bayeslab.learners.toolbox.subsequence_kernels import subsequences

        parts = np.split(coded[0], coded[1][:-1])
        return np.array([subsequences(p, p, self.length, self.decay) for p in parts])


def _coded(texts: Sequence[Sequence[Hashable]], codes: dict[Hashable, int]) -> tuple[np.ndarray, np.ndarray]:
    """Symbols as whole numbers, one text after the other, and where each ends."""
    if isinstance(texts, str):
        raise OptionError(f"a list of texts is wanted, not the one text {texts[:20]!r}", code="wrong-type")
    symbols = [codes.setdefault(symbol, len(codes)) for text in texts for symbol in text]
    return np.array(symbols, np.int64), np.cumsum([len(text) for text in texts]).astype(np.int64)
