"""Group effects of several linear predictors that share an id and so are correlated, as nodes of the language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COMMENTS", "JointEffects"]

#: What each node is for, by its word; ``{}`` stands for the grouping factor.
COMMENTS = {
    "_chol": "Correlations of the effects of a {} across formulas, as a Cholesky factor.",
    "_length": "Lengths of the rows of this factor, divided out: the standard deviations are parameters of their own.",
    "_sd": "The standard deviations of these effects.",
    "_raw": "Standard normals from which the effects of each {} are made (non-centred).",
    "_u": "Effects of each {}: how far it lies from the population, in each formula.",
    "corr": "The correlations themselves, to be looked at.",
}


@dataclass(frozen=True, slots=True)
class JointEffects:
    """Correlated group effects.

    The standard deviations are parameters of their own, so that each formula has its prior of them. LKJCholeskyCov
    makes standard deviations too. They are independent of the correlations, and are divided out.

    Attributes
    ----------
    name : str
        The grouping factor in names of parameters.
    id : str
    effects : sequence of str
        The effects of all formulas.
    sds : sequence of str
        The standard deviation of each effect, as an expression.
    """

    name: str
    id: str
    effects: Sequence[str]
    sds: Sequence[str]

    @property
    def label(self) -> str:
        """The joint effects in names of parameters."""
        return f"{self.name}_{self.id}"

    @property
    def _axes(self) -> tuple[str, str, str]:
        """The dimension of the effects, and its twins."""
        return f"{self.label}_effect", f"{self.label}_effect_2", f"{self.label}_effect_with"

    def dims(self) -> dict[str, list[str] | str]:
        """The dimensions of the nodes, besides that of the groups."""
        effect, twin, other = self._axes
        return {effect: list(self.effects), twin: effect, other: effect}

    def nodes(self, eta: str) -> dict[str, str]:
        """The nodes of the correlations and the effects.

        Parameters
        ----------
        eta
            The number of the LKJ prior.
        """
        label, (effect, twin, other) = self.label, self._axes
        rows = f"_chol_{label} / _length_{label}"
        return {
            f"_chol_{label}[{effect}, {twin}]": f"LKJCholeskyCov(eta={eta}, sd_dist=LogNormal(0, 0.1))",
            f"_length_{label}[{effect}]": f"sqrt(sum(_chol_{label} ** 2, {twin}))",
            f"_sd_{label}[{effect}]": f"stack([{', '.join(self.sds)}], {effect})",
            f"_raw_{label}[{self.name}, {twin}]": "Normal(0, 1)",
            f"_u_{label}[{self.name}, {effect}]": (
                f"_sd_{label} * dot(_raw_{label}, _chol_{label}, {twin}) / _length_{label}"
            ),
            f"corr_{label}[{effect}, {other}]": f"dot({rows}, rename({rows}, {effect}, {other}), {twin})",
        }

    def part(self, first: int, count: int, dim: str) -> str:
        """The effects of one formula: ``count`` from the place ``first``, along ``dim`` if there are several."""
        effect = self._axes[0]
        each = [f"sum(_u_{self.label} * (index({effect}) == {k}), {effect})" for k in range(first, first + count)]
        return each[0] if count == 1 else f"stack([{', '.join(each)}], {dim})"

    def comments(self) -> dict[str, str]:
        """What each node is for, by the name of the node."""
        return {f"{word}_{self.label}": text.format(self.name) for word, text in COMMENTS.items()}
