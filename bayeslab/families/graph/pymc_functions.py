"""Gaussian processes in a plain PyMC script: a covariance, term by term, or basis functions; normal weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayeslab.families.graph.processes import JITTER, Process
from bayeslab.families.graph.pymc_values import not_exported
from bayeslab.latents.gaussian_process.covariance import Argument
from bayeslab.latents.gaussian_process.covariance import Node as Term
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis

__all__ = ["FunctionText", "function_text"]

_MATERN_DEGREES = {"Matern32": 3, "Matern52": 5}


@dataclass
class FunctionText:
    """Code of a Gaussian process.

    Attributes
    ----------
    before : list of str
        Statements before the model; they use data only.
    lines : list of str
        Statements in the model.
    value : str
        Expression of the values in all rows; of a function that is integrated out, of the covariance of its values at
        some points.
    points : str
        Expression of the point of each row; empty where rows are points.
    """

    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    value: str = ""
    points: str = ""


def function_text(
    name: str,
    process: Process,
    basis: HilbertBasis | None,
    columns: Sequence[str],
    outer: Sequence[str],
    parameter: Callable[[str], str],
    *,
    integrated: bool = False,
) -> FunctionText:
    """Code of a Gaussian process in a plain PyMC script.

    Parameters
    ----------
    name
        The variable of the function in the script.
    columns
        Code of its inputs, in the order of the kernel's columns.
    outer
        Code of the lengths of the node's dimensions before the last.
    parameter
        ``parameter(name)``: code of a hyperparameter.
    integrated
        Whether the function is integrated out, so that its covariance is needed and not its values.

    Raises
    ------
    ModelError
        The basis of the approximation cannot be exported: several columns in one term, or a periodic kernel.
    """
    writer = _Covariance(name, process, parameter) if basis is None else _Sines(name, process, basis, parameter)
    return writer.text(columns, outer, integrated)


class _Writer(ABC):
    def __init__(self, name: str, process: Process, parameter: Callable[[str], str]) -> None:
        self.name, self.kernel, self.parameter = name, process.kernel, parameter
        self.out = FunctionText()

    def argument(self, argument: Argument) -> str:
        return self.parameter(argument.name) if argument.name else repr(float(argument.value or 0.0))

    @abstractmethod
    def text(self, columns: Sequence[str], outer: Sequence[str], integrated: bool) -> FunctionText:
        """Code of the function."""

    def normals(self, count: str, outer: Sequence[str]) -> str:
        """Add standard normals, ``count`` for each cell of the outer dimensions; the name of their variable."""
        variable = f"{self.name}_z"
        shape = f"({', '.join([*outer, count])})" if outer else count
        self.out.lines.append(f'{variable} = pm.Normal("_{self.name}_z", 0, 1, shape={shape})')
        return variable


class _Covariance(_Writer):
    """A function by the Cholesky factor of its covariance at the distinct inputs."""

    def text(self, columns: Sequence[str], outer: Sequence[str], integrated: bool) -> FunctionText:
        name, out = self.name, self.out
        stacked = f"np.column_stack([{', '.join(columns)}])"
        out.before.append(f"{name}_inputs, {name}_place = np.unique({stacked}, axis=0, return_inverse=True)")
        for k, column in enumerate(self.kernel.columns):
            if any(column in leaf.columns for leaf in self.kernel.root.leaves()):
                out.before.append(f"{name}_input{k} = {name}_inputs[:, {k}]")
        out.lines.append("# The covariance at the distinct inputs.")
        whole = self._term(self.kernel.root)
        out.lines.append(f"{name}_covariance = {whole} + np.zeros((len({name}_inputs), len({name}_inputs)))")
        if integrated:
            out.value, out.points = f"{name}_covariance", f"{name}_place.ravel()"
            return out
        jitter = f"{JITTER!r} * pt.mean(pt.diag({name}_covariance)) * np.eye(len({name}_inputs))"
        out.lines.append(f"{name}_factor = pt.linalg.cholesky({name}_covariance + {jitter})")
        z = self.normals(f"len({name}_inputs)", outer)
        out.value = f"({z} @ {name}_factor.T)[..., {name}_place.ravel()]"
        return out

    def _define(self, text: str) -> str:
        variable = f"{self.name}_k{sum(line.startswith(f'{self.name}_k') for line in self.out.lines) + 1}"
        self.out.lines.append(f"{variable} = {text}")
        return variable

    def _input(self, column: str) -> str:
        return f"{self.name}_input{self.kernel.columns.index(column)}"

    def _difference(self, column: str) -> str:
        return f"({self._input(column)}[:, None] - {self._input(column)})"

    def _term(self, node: Term) -> str:
        if node.word == "+":
            return f"({' + '.join(self._term(child) for child in node.children)})"
        if node.word == "*":
            return " * ".join(self._term(child) for child in node.children)
        if node.word == "factor":
            ((_, (argument,)),) = node.arguments.items()
            return f"{self.argument(argument)} ** 2" if node.option == 2 else self.argument(argument)
        if node.word == "ChangePoint":
            return self._change(node)
        return self._define(self._leaf(node))

    def _change(self, node: Term) -> str:
        location, steepness = (self.argument(node.arguments[role][0]) for role in ("location", "steepness"))
        left, right = (self._term(child) for child in node.children)
        share = self._define(f"pt.sigmoid({steepness} * ({self._input(node.columns[0])} - {location}))")
        return f"((1 - {share}[:, None]) * (1 - {share}) * ({left}) + {share}[:, None] * {share} * ({right}))"

    def _leaf(self, node: Term) -> str:
        word, x = node.word, [self._input(column) for column in node.columns]
        if word == "Coregion":
            return self._levels(node)
        head = f"{self.argument(node.arguments['scale'][0])} ** 2"
        match word:
            case "Constant":
                return head
            case "Periodic":
                period, length = (self.argument(node.arguments[role][0]) for role in ("period", "lengthscale"))
                angle = f"np.pi * {self._difference(node.columns[0])} / {period}"
                return f"{head} * pt.exp(-2 * pt.sin({angle}) ** 2 / {length} ** 2)"
            case "Cosine":
                period = self.argument(node.arguments["period"][0])
                return f"{head} * pt.cos(2 * np.pi * {self._difference(node.columns[0])} / {period})"
            case "Brownian":
                return f"{head} * np.minimum({x[0]}[:, None], {x[0]})"
            case "Linear":
                centred = [f"({a} - {self.argument(c)})" for a, c in zip(x, node.arguments["center"], strict=True)]
                return f"{head} * ({' + '.join(f'{a}[:, None] * {a}' for a in centred)})"
            case "Polynomial":
                products = " + ".join(f"{a}[:, None] * {a}" for a in x)
                return f"{head} * ({products} + {self.argument(node.arguments['offset'][0])}) ** {node.option}"
            case _:
                return f"{head} * {self._of_distance(node)}"

    def _of_distance(self, node: Term) -> str:
        lengths = [self.argument(argument) for argument in node.arguments["lengthscale"]]
        parts = [f"{self._difference(c)} / {length}" for c, length in zip(node.columns, lengths, strict=True)]
        squares = " + ".join(f"({part}) ** 2" for part in parts)
        if node.word == "ExpQuad":
            return f"pt.exp(-0.5 * ({squares}))"
        if node.word == "RationalQuadratic":
            alpha = self.argument(node.arguments["alpha"][0])
            return f"(1 + 0.5 * ({squares}) / {alpha}) ** -{alpha}"
        if len(parts) == 1:
            distance = f"np.abs{self._difference(node.columns[0])} / {lengths[0]}"
        else:
            distance = f"pt.sqrt({squares} + 1e-30)"  # the root has a slope at zero, too
        if node.word == "Matern12":
            return f"pt.exp(-({distance}))"
        r = self._define(f"np.sqrt({_MATERN_DEGREES[node.word]}) * {distance}")
        polynomial = f"1 + {r}" if node.word == "Matern32" else f"1 + {r} + {r} ** 2 / 3"
        return f"({polynomial}) * pt.exp(-{r})"

    def _levels(self, node: Term) -> str:
        rank, weights = node.option, [self.argument(a) for a in node.arguments["weight"]]
        specific = [self.argument(a) for a in node.arguments["specific"]]
        rows = [f"pt.stack([{', '.join(weights[i : i + rank])}])" for i in range(0, len(weights), rank)]
        w = self._define(f"pt.stack([{', '.join(rows)}])")
        level = f"{self._input(node.columns[0])}.astype(int)"
        return f"({w} @ {w}.T + pt.diag(pt.stack([{', '.join(specific)}])))[{level}[:, None], {level}]"


class _Sines(_Writer):
    """A function by its Hilbert-space approximation: a sum of sines with normal weights."""

    def __init__(self, name: str, process: Process, basis: HilbertBasis, parameter: Callable[[str], str]) -> None:
        super().__init__(name, process, parameter)
        self.basis = basis

    def text(self, columns: Sequence[str], outer: Sequence[str], integrated: bool) -> FunctionText:
        by_name = dict(zip(self.kernel.columns, columns, strict=True))
        features, deviations = [], []
        for number, term in enumerate(self.basis.terms):
            prefix = f"{self.name}_{number + 1}" if len(self.basis.terms) > 1 else self.name
            x = [by_name[column] for column in term.columns]
            variance = " * ".join(f"{self.argument(a)} ** {power}" for a, power in term.scales) or "1.0"
            count = self.basis.sizes[number]
            if term.spectral:
                if len(term.spectral) > 1 or len(term.columns) > 1:
                    raise not_exported(f"'{term.text}', an approximation over several columns,")
                shape = self._sines(prefix, term, x[0])
            elif term.other is not None and term.other.word == "Periodic":
                raise not_exported(f"'{term.text}', an approximation of a periodic kernel,")
            elif term.other is not None:
                centres = [repr(float(a.value or 0.0)) for a in term.other.arguments["center"]]
                parts = [f"{a} - {c}" for a, c in zip(x, centres, strict=True)]
                self.out.before.append(f"{prefix}_functions = np.column_stack([{', '.join(parts)}])")
                shape = f"np.ones({count})"
            else:
                self.out.before.append(f"{prefix}_functions = np.ones((len({columns[0]}), 1))")
                shape = "np.ones(1)"
            self.out.lines.append(f"{prefix}_sd = pt.sqrt({variance} * {shape})")
            features.append(f"{prefix}_functions")
            deviations.append(f"{prefix}_sd")
        if len(features) > 1:
            self.out.before.append(f"{self.name}_functions = np.hstack([{', '.join(features)}])")
            self.out.lines.append(f"{self.name}_sd = pt.concatenate([{', '.join(deviations)}])")
        if integrated:
            self.out.value = f"({self.name}_functions * {self.name}_sd ** 2) @ {self.name}_functions.T"
            return self.out
        z = self.normals(str(self.basis.n_functions), outer)
        self.out.value = f"({z} * {self.name}_sd) @ {self.name}_functions.T"
        return self.out

    def _sines(self, prefix: str, term: Any, x: str) -> str:
        """Add sines that vanish at the boundaries; code of the spectral density at their frequencies."""
        box, (part,) = self.basis.walls[term.text, term.columns[0]], term.spectral
        frequency, half = f"{prefix}_frequency", repr(box.half_width)
        self.out.before.append(f"{frequency} = np.pi * np.arange(1, {box.n + 1}) / (2 * {half})")
        shifted = f"({x} - {box.middle!r} + {half})[:, None]"
        self.out.before.append(f"{prefix}_functions = np.sin({frequency} * {shifted}) / np.sqrt({half})")
        length = self.argument(part.arguments["lengthscale"][0])
        if part.word == "ExpQuad":
            return f"(np.sqrt(2 * np.pi) * {length} * pt.exp(-0.5 * ({length} * {frequency}) ** 2))"
        # A Matérn spectral density of order n + 1/2 is a Student t density with 2 n + 1 degrees of freedom.
        degrees = _MATERN_DEGREES[part.word]
        constant = {3: "12 * np.sqrt(3)", 5: "400 * np.sqrt(5) / 3"}[degrees]
        power = (degrees + 1) // 2
        return f"({constant} * {length} * ({degrees} + ({length} * {frequency}) ** 2) ** -{power})"
