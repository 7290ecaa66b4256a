r"""The string subsequence kernel: shared subsequences of two texts, where subsequences with gaps count less.

A subsequence of ``length`` symbols that spans l places of a text, gaps included, has the weight :math:`\lambda^l`; the
kernel is the inner product of the weights over all subsequences, :math:`K(s, t) = \sum_u \phi_u(s) \phi_u(t)`, computed
in :math:`O(n |s| |t|)` without listing them [1]_. Division by :math:`\sqrt{K(s, s) K(t, t)}` prevents long texts from
outweighing short ones. It is a Mercer kernel by construction.

Symbols are letters or any other hashable objects, such as words, notes or nucleotides.

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
    """The subsequence kernel; call it with one set of texts or two.

    It can be given as ``kernel`` to :class:`bayeslab.learners.svm.SVMClassifier`, which then learns from texts.

    Attributes
    ----------
    length : int
        Number of symbols in a subsequence.
    decay : float
        Factor of the weight for each position that a subsequence spans, in (0, 1]; near 0 subsequences with gaps hardly
        count, at 1 gaps do not matter.
    normalise : bool
        Whether to scale so that each text has the value 1 with itself.

    Raises
    ------
    OptionError
        The length is below one, or the decay is not in (0, 1].

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
        """Kernel values, shape (texts, others); a text shorter than the subsequences shares none with any text.

        Parameters
        ----------
        texts, others
            Strings, or sequences of symbols; ``others`` defaults to the texts themselves.
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
    """Concatenated texts with symbols as whole numbers, and the end of each text."""
    if isinstance(texts, str):
        raise OptionError(f"a list of texts is needed, not the single text {texts[:20]!r}", code="wrong-type")
    symbols = [codes.setdefault(symbol, len(codes)) for text in texts for symbol in text]
    return np.array(symbols, np.int64), np.cumsum([len(text) for text in texts]).astype(np.int64)
