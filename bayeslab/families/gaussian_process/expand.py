"""Expand a Gaussian process in the model language: hyperparameters, the function and the outcome as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayeslab.data.bound import Data
from bayeslab.errors import listed
from bayeslab.families.gaussian_process.model import Resolved, resolved
from bayeslab.families.gaussian_process.spec import GaussianProcess
from bayeslab.families.regression.design_columns import DesignColumns
from bayeslab.language.expansion import Expansion, check_columns, number, unsupported
from bayeslab.language.spec import Model, node_name
from bayeslab.latents.gaussian_process.covariance import Argument, Kernel, Node, Parameter

__all__ = ["expand"]

_FUNCTION = "f"
# Default jitter of function nodes, as a share of the variance: key True if the function is integrated out.
_JITTER = {True: 0.0, False: 1e-8}
# Approximations of the evidence: nodes do not have them, since there the function is integrated out or sampled.
_OF_EVIDENCE = {
    "sparse": "inducing points", "fitc": "inducing points", "laplace": "Laplace's approximation",
}  # fmt: skip
_ROLES = {
    "lengthscale": "how far apart inputs are at which the function has little to do with itself",
    "scale": "standard deviation of the function", "variance": "what the covariance is multiplied by",
    "alpha": "how even the lengthscales are that it mixes", "period": "length of a period",
    "center": "where the lines meet", "offset": "variance at the origin", "location": "where the change is",
    "steepness": "how sudden the change is", "weight": "how much a level shares with others",
    "specific": "variance that a level shares with none",
}  # fmt: skip


def expand(model: Model, data: Data) -> Expansion:
    """Write the process as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    assert isinstance(model.model, GaussianProcess)
    resolution = resolved(model, data)
    _check(resolution)
    return _Written(model, data, resolution).expansion()


def _check(resolved: Resolved) -> None:
    """Refuse parts that the language does not have."""
    spec = resolved.spec
    if spec.approximation in _OF_EVIDENCE:
        raise unsupported(
            f"functions as nodes have no {_OF_EVIDENCE[spec.approximation]}: leave the approximation out, or take hsgp",
            "approximation",
        )
    if spec.approximation == "state_space" and {leaf.word for leaf in resolved.kernel.root.leaves()} & {
        "ExpQuad", "RationalQuadratic", "Periodic",
    }:  # fmt: skip
        raise unsupported(
            "approximation: state_space is not exact for this kernel, and a function as a node has no such form;"
            " leave it out",
            "approximation",
        )
    if resolved.spec.approximation is None and resolved.nugget != _JITTER[resolved.gaussian]:
        raise unsupported("a function as a node has no jitter of its own: leave it out", "jitter")
    if resolved.remarks and not resolved.gaussian:
        raise unsupported("rows without an outcome cannot be expanded: drop them", "target")


class _Written:
    def __init__(self, model: Model, data: Data, resolved: Resolved) -> None:
        self.model, self.data, self.resolved, self.row = model, data, resolved, resolved.rows
        self.nodes: dict[str, str] = {}
        self.comments: dict[str, str] = {}
        self.dims: dict[str, Any] = {}
        self.derive: dict[str, str] = {}
        self.noise: list[str] = []

    def expansion(self) -> Expansion:
        resolved = self.resolved
        signal = self._signal()
        for name, dims in resolved.dims.items():
            self._parameter(name, dims)
        for name, value in resolved.fixed.items():
            self.nodes[name] = number(value)
            self.comments[name] = f"{self._about(name)} It is known."
        mean = self._mean()
        key = f"{_FUNCTION}[{self.row}]"
        self.nodes[key] = f"GaussianProcess({', '.join([kernel_text(signal), *self._approximation()])})"
        self.comments[key] = (
            "The function, about zero. Where it enters one normal node linearly, beside whatever else, fits integrate"
            " it out exactly, and give it back for each draw; else it is sampled."
        )
        eta = " + ".join([*([] if mean is None else [mean]), _FUNCTION])
        outcome = f"{node_name(resolved.target)}[{self.row}]"
        self.nodes[outcome] = self._likelihood(eta)
        self.comments[outcome] = "The likelihood: the data given all of the above."
        self._check_names()
        about = (
            f"A Gaussian process with the covariance {resolved.spec.kernel}\nwritten out in the model language. Default"
            " priors stand here as numbers, scaled to the data."
        )
        if resolved.spec.approximation == "state_space":
            about += " The state-space form is exact for this kernel; the function here has the covariance itself."
        return Expansion(self.nodes, self.derive, self.dims, self.comments, about)

    # -- the function

    def _signal(self) -> Kernel:
        """The covariance without white noise, which is moved to the noise."""
        root = self.resolved.kernel.root
        signal = self.resolved.kernel.free_of_noise()
        kept = () if signal is None else (signal.root.children if signal.root.word == "+" else (signal.root,))
        for term in root.children if root.word == "+" else (root,):
            if not any(term is k for k in kept):
                self.noise.append(_white_variance(term))
        if signal is None or any(leaf.word == "White" for leaf in signal.root.leaves()):
            raise unsupported(
                "white noise that is multiplied by a function, or alone, cannot be expanded: write a node for it",
                "kernel",
            )
        if self.noise and not self.resolved.gaussian:
            raise unsupported("white noise of outcomes that are not normal cannot be expanded yet", "kernel")
        if not signal.columns or not any(leaf.columns for leaf in signal.root.leaves()):
            raise unsupported("a function of no column is one number: write it as a node without a dimension", "kernel")
        return signal

    def _approximation(self) -> list[str]:
        spec = self.resolved.spec
        if spec.approximation != "hsgp":
            return []
        out = ["approximation=hsgp"]
        out += [] if spec.functions is None else [f"functions={spec.functions}"]
        if spec.domain is not None:
            columns = self.resolved.kernel.columns
            whole = {name: (float(values.min()), float(values.max())) for name, values in
                     zip(columns, self.resolved.x.T, strict=True)}  # fmt: skip
            for name, (low, high) in whole.items():
                whole[name] = (low - 0.05 * (high - low), high + 0.05 * (high - low))
            pairs = [f"[{', '.join(number(end) for end in spec.domain.get(name, whole[name]))}]" for name in columns]
            out.append(f"domain={pairs[0] if len(pairs) == 1 else '[' + ', '.join(pairs) + ']'}")
        return out

    # -- parameters

    def _parameter(self, name: str, dims: tuple[str, ...]) -> None:
        key = f"{name}[{', '.join(dims)}]" if dims else name
        self.nodes[key] = str(self.resolved.nodes[key])
        self.comments[key] = self._about(name)
        for dim in dims:
            self.dims[dim] = [str(label) for label in self.resolved.labels[dim]]
            self.comments[dim] = "What each coefficient of `b` belongs to."

    def _about(self, name: str) -> str:
        known: Mapping[str, Parameter] = {p.name: p for p in self.resolved.kernel.parameters}
        if name in known:
            word, columns = known[name].word, listed(known[name].columns)
            of = f" of {word}" + (f" along {columns}" if columns else "") if word else ""
            return f"{known[name].role.capitalize()}{of}: {_ROLES[known[name].role]}."
        return {
            "Intercept": "The mean, which the function varies about.",
            "Intercept_centred": "The mean where every predictor is at its mean.",
            "b": "Slopes of the mean.",
            "sigma": "Standard deviation of the rows about the function.",
            "sigma2": "Variance of the rows about the function.",
            "precision": "1 / variance of the rows about the function.",
            "nu": "Degrees of freedom: the fewer, the heavier the tails.",
            "alpha": "How little the counts are overdispersed: at infinity they are Poisson.",
        }.get(name, "A hyperparameter of priors.")

    def _mean(self) -> str | None:
        resolved = self.resolved
        if resolved.coding is None:
            return "Intercept" if resolved.intercept else None
        if resolved.coding.offset is not None:
            raise unsupported("a mean with an offset cannot be expanded yet", "mean")
        columns = DesignColumns(
            self.data, set(resolved.dims) | set(resolved.fixed) | self.data.names() | set(self.data.labels)
        )
        texts = columns.of(resolved.coding.common)
        if not texts:
            return "Intercept" if resolved.intercept else None
        self.dims.setdefault("predictor", list(resolved.predictors))
        key = f"design[{self.row}, predictor]"
        self.nodes[key] = f"stack([{', '.join(texts)}], predictor)"
        self.comments[key] = "The predictors of the mean, a column for each coefficient."
        self.derive |= columns.derive
        self.comments |= columns.about
        if resolved.middle is None:
            return f"{'Intercept + ' if resolved.intercept else ''}design @ b"
        self.nodes["design_mean[predictor]"] = f"mean(design, {self.row})"
        self.comments["design_mean[predictor]"] = "Their means over the rows of the fit."
        self.nodes["Intercept"] = "Intercept_centred - dot(design_mean, b)"
        self.comments["Intercept"] = "The mean where every predictor is 0."
        return "Intercept_centred + (design - design_mean) @ b"

    # -- the outcome

    def _likelihood(self, eta: str) -> str:
        resolved = self.resolved
        known = resolved.dims.keys() | resolved.fixed.keys()
        inner = f"Phi({eta})" if resolved.link == "probit" else eta
        word = "p" if resolved.link == "probit" else "logit_p"
        match resolved.spec.likelihood:
            case "gaussian":
                return f"Normal({eta}, {self._deviation(known)})"
            case "student_t":
                sigma = {"sigma2": "sqrt(sigma2)", "precision": "precision ** -0.5"}
                return f"StudentT(nu, {eta}, {next((v for k, v in sigma.items() if k in known), 'sigma')})"
            case "bernoulli":
                return f"Bernoulli({word}={inner})"
            case "binomial":
                trials = resolved.spec.trials
                shown = trials if isinstance(trials, int) else node_name(str(trials))
                return f"Binomial({shown}, {word}={inner})"
            case "poisson":
                return f"Poisson(exp({eta}))"
            case _:
                return f"NegativeBinomial(exp({eta}), alpha)"

    def _deviation(self, known: set[str]) -> str:
        """Standard deviation of the noise: inferred noise, known errors and white noise of the kernel."""
        errors = self.resolved.spec.errors
        parts = [] if errors is None else [f"{node_name(errors)} ** 2"]
        parts += self.noise
        if not parts:
            single = {"sigma2": "sqrt(sigma2)", "precision": "precision ** -0.5"}
            return next((text for name, text in single.items() if name in known), "sigma")
        variances = {"sigma2": "sigma2", "precision": "1 / precision"}
        return f"sqrt({' + '.join([next((t for n, t in variances.items() if n in known), 'sigma ** 2'), *parts])})"

    def _check_names(self) -> None:
        """Check that no node or dimension has the name of an unrelated column of the table."""
        check_columns(self.nodes, self.dims, self.data.dataset.columns, (self.resolved.target,), "kernel")


# ------------------------------------------------------------------------------------------ kernels


def _white_variance(node: Node) -> str:
    """The variance of white noise, possibly scaled by constants."""
    if node.word == "*":
        if any(child.word not in ("factor", "White", "Constant") for child in node.children):
            raise unsupported(f"'{node.text}' is noise that a function multiplies: write a node for it", "kernel")
        return " * ".join(_white_variance(child) for child in node.children)
    if node.word == "factor" and node.option == 1:
        return _argument(node.arguments["variance"][0])
    return f"{_argument(node.arguments['scale'][0])} ** 2"


def _argument(argument: Argument) -> str:
    return argument.name or number(float(argument.value or 0.0))


def kernel_text(kernel: Kernel) -> str:
    """Text of a covariance function with every hyperparameter written out."""
    return _text(kernel.root)


def _text(node: Node) -> str:
    if node.word == "+":
        return " + ".join(_text(child) for child in node.children)
    if node.word == "*":
        return " * ".join(f"({_text(c)})" if c.word == "+" else _text(c) for c in node.children)
    if node.word == "factor":
        ((_, (argument,)),) = node.arguments.items()
        return f"{_argument(argument)} ** 2" if node.option == 2 else _argument(argument)
    inner = [_text(child) for child in node.children] + [node_name(column) for column in node.columns]
    inner += [f"degree={node.option}"] if node.word == "Polynomial" else []
    inner += [f"rank={node.option}"] if node.word == "Coregion" else []
    for role, arguments in node.arguments.items():
        if role == "center" and all(not a.name and a.value == 0.0 for a in arguments):
            continue
        texts = [_argument(a) for a in arguments]
        single = len(set(texts)) == 1 and role not in ("weight", "specific")
        inner.append(f"{role}={texts[0] if single else '[' + ', '.join(texts) + ']'}")
    return f"{node.word}({', '.join(inner)})"
