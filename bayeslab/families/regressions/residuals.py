"""Residuals of several responses that are correlated: multivariate normal, or multivariate Student t.

Every response stays a node of its own, with its distribution given the residuals of those before it; the product of
these is the joint density. With the correlations ``R = L L'`` and ``M = inv(L)``, the standardised residuals ``r`` are
``M r = z``, and independent standard normals ``z`` give

    ``r_k | r_1 ... r_{k-1} ~ Normal(-sum_j M_kj / M_kk r_j, 1 / M_kk)``.

Of a multivariate Student t with ``nu`` degrees of freedom the conditional has ``nu + k - 1``, and its scale is
multiplied by ``sqrt((nu + z_1^2 + ... + z_{k-1}^2) / (nu + k - 1))`` (Ding 2016, On the conditional distribution of the
multivariate t distribution. The American Statistician 70).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from bayeslab.errors import ModelError, hint, listed
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regressions.spec import Regressions
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments

__all__ = ["Residuals", "check_residuals"]

_AXIS, _TWIN, _OTHER = "residual", "residual_2", "residual_with"
_CORRELATED = ("Normal", "StudentT")


class Residuals:
    """The likelihoods of responses whose residuals are correlated.

    Parameters
    ----------
    likelihoods
        Nodes of the responses with independent residuals, each after those that are its predictors.
    """

    def __init__(self, spec: Regressions, likelihoods: Mapping[str, str]) -> None:
        self.spec, self._alone = spec, dict(likelihoods)
        # In the order of the nodes, so that a response depends on those before it only.
        self.keys = [key for key in likelihoods if key.split("[")[0] in spec.residuals]
        self.names = [key.split("[")[0] for key in self.keys]
        self.student = likelihood(spec.responses[self.names[0]].likelihood).distribution == "StudentT"
        self.arguments: dict[str, dict[str, str]] = {}
        for key, name in zip(self.keys, self.names, strict=True):
            tree = parse(likelihoods[key]).tree
            assert isinstance(tree, ast.Call)
            word = "StudentT" if self.student else "Normal"
            self.arguments[name] = {w: ast.unparse(value) for w, value in bound_arguments(tree, word).items()}

    def dims(self) -> dict[str, list[str] | str]:
        """The dimension of the residuals and its twins."""
        return {_AXIS: list(self.names), _TWIN: _AXIS, _OTHER: _AXIS}

    def nodes(self) -> dict[str, str]:
        """The nodes of the correlations."""
        priors, rows = self.spec.shared_priors, "_chol_residuals / _length_residuals"
        eta = priors.get("corr_residuals", "1")
        nu = {"nu_residuals": priors.get("nu_residuals", "Gamma(2, 0.1)")} if self.student else {}
        return nu | {
            f"_chol_residuals[{_AXIS}, {_TWIN}]": f"LKJCholeskyCov(eta={eta}, sd_dist=LogNormal(0, 0.1))",
            f"_length_residuals[{_AXIS}]": f"sqrt(sum(_chol_residuals ** 2, {_TWIN}))",
            f"_inverse_residuals[{_TWIN}, {_AXIS}]": f"inv({rows})",
            f"corr_residuals[{_AXIS}, {_OTHER}]": f"dot({rows}, rename({rows}, {_AXIS}, {_OTHER}), {_TWIN})",
        }

    def comments(self) -> dict[str, str]:
        """What each node is for."""
        out = {
            "_chol_residuals": "Correlations of the residuals, as a Cholesky factor.",
            "_length_residuals": "Lengths of the rows of this factor, divided out: each response has its sigma.",
            "_inverse_residuals": "Makes the residuals, over their sigmas, independent.",
            "corr_residuals": "The correlations themselves, to be looked at.",
            "nu_residuals": "Degrees of freedom of all residuals: the fewer, the heavier the tails.",
        }
        texts = {key: out[key.split("[")[0]] for key in self.nodes()}
        for before, (key, name) in enumerate(zip(self.keys, self.names, strict=True)):
            given = f", given the residuals of {listed(self.names[:before])}" if before else ""
            texts[key] = f"The likelihood of {name}{given}."
        return texts

    def likelihoods(self) -> dict[str, str]:
        """The nodes of all responses."""
        out = dict(self._alone)
        for before, (key, name) in enumerate(zip(self.keys, self.names, strict=True)):
            given = self.arguments[name]
            mean, scale = given["mu"], _closed(given["sigma"])
            if before:
                diagonal = self._weight(name, name)
                moved = [f"{self._weight(name, other)} * {self._residual(other)}" for other in self.names[:before]]
                mean = f"{mean} - {scale} * ({' + '.join(moved)}) / {diagonal}"
                scale = f"{scale} / {diagonal}"
            if self.student:
                nu = f"nu_residuals + {before}" if before else "nu_residuals"
                if before:
                    squares = " + ".join(f"({self._independent(k)}) ** 2" for k in range(before))
                    scale = f"{scale} * sqrt((nu_residuals + {squares}) / ({nu}))"
                out[key] = f"StudentT({nu}, {mean}, {scale})"
            else:
                out[key] = f"Normal({mean}, {scale})"
        return out

    @staticmethod
    def _weight(name: str, other: str) -> str:
        return f"_inverse_residuals[{name!r}, {other!r}]"

    def _residual(self, name: str) -> str:
        """The residual of a response over its sigma."""
        given = self.arguments[name]
        return f"({name} - {_closed(given['mu'])}) / {_closed(given['sigma'])}"

    def _independent(self, place: int) -> str:
        """The independent standard normal of a response."""
        name = self.names[place]
        return " + ".join(f"{self._weight(name, other)} * {self._residual(other)}" for other in self.names[: place + 1])


def _closed(text: str) -> str:
    """An expression as a factor."""
    return text if text.isidentifier() else f"({text})"


def check_residuals(spec: Regressions) -> None:
    """Check that the responses with correlated residuals are there, and normal, or Student t."""
    path = ("model", "residuals")
    for place, name in enumerate(spec.residuals):
        if name not in spec.responses:
            message = f"'{name}' is no response{hint(name, spec.responses)}"
            raise ModelError(message, path=(*path, place), code="unknown-name")
        if name in spec.residuals[:place]:
            raise ModelError(f"'{name}' stands twice among the residuals", path=(*path, place), code="duplicate")
        each = spec.responses[name]
        word = likelihood(each.likelihood).distribution
        if word not in _CORRELATED:
            raise ModelError(
                f"correlated residuals are those of gaussian or student_t responses, and '{name}' is {each.likelihood}:"
                " correlate group effects, (1 | id | g), where the likelihood has no residual",
                path=(*path, place),
                code="unsupported",
            )
        for key in ("weights", "censored"):
            if each.model_dump()[key]:
                raise ModelError(
                    f"'{name}' has correlated residuals, and {key} besides, which are of one response: leave out one",
                    path=("model", "responses", name, key),
                    code="unsupported",
                )
        separate = "nu" in each.priors or likelihood(each.likelihood).fixed or "nu" in each.formulas.further
        if word == "StudentT" and separate:
            raise ModelError(
                f"correlated Student t residuals share their degrees of freedom: leave out the 'nu' of '{name}', and"
                " write model.priors: {nu_residuals: ...}",
                path=("model", "responses", name),
                code="conflict",
            )
    words = {likelihood(spec.responses[name].likelihood).distribution for name in spec.residuals}
    if len(words) > 1:
        raise ModelError(
            "correlated residuals are all normal or all Student t: give the responses the same likelihood",
            path=path,
            code="conflict",
        )
    if len(spec.residuals) == 1:
        raise ModelError(
            f"residuals of one response, '{spec.residuals[0]}', have nothing to be correlated with: name another one",
            path=path,
            code="incomplete",
        )
