"""Linear-Gaussian states in a plain PyMC script: the matrices of their systems."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bayeslab.families.graph.pymc_data import Names
from bayeslab.families.graph.states import arguments
from bayeslab.language.nodes import Node, bound_arguments

__all__ = ["StatesText", "states_text"]


@dataclass
class StatesText:
    """Code of a system of states x: the value is H x, and x moves by F with noise of covariance Q.

    Attributes
    ----------
    before : list of str
        Statements before the model; they use data only.
    lines : list of str
        Statements in the model.
    system : dict of str to str
        Expressions of H, F, Q, and of mean and covariance of the states at first.
    """

    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    system: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def together(blocks: Sequence[tuple[StatesText, ast.expr | None]]) -> Mapping[str, str]:
        """The system of several, one beside the other, each with the factor of its value or None."""
        systems = []
        for block, factor in blocks:
            H = block.system["H"]
            systems.append({**block.system, "H": H if factor is None else f"({ast.unparse(factor)}) * {H}"})
        if len(systems) == 1:
            return systems[0]
        join = {"H": "pt.concatenate([{}])", "mean": "pt.concatenate([{}])"}
        return {
            key: join.get(key, "pt.linalg.block_diag({})").format(", ".join(system[key] for system in systems))
            for key in ("H", "F", "Q", "mean", "covariance")
        }


def states_text(node: Node, names: Names, printed: Callable[[ast.expr], ast.expr]) -> StatesText:
    """Code of the system that a node declares.

    Parameters
    ----------
    printed
        ``printed(tree)``: code of an expression of the language.
    """
    given, out = arguments(node), StatesText()

    def code(tree: ast.expr) -> str:
        text = ast.unparse(printed(tree))
        return text if isinstance(tree, ast.Name | ast.Constant) else f"({text})"

    def normal(name: str) -> tuple[str, str]:
        tree = given[name]
        assert isinstance(tree, ast.Call)
        inner = bound_arguments(tree, "Normal")
        return code(inner.get("mu", ast.Constant(0.0))), code(inner["sigma"])

    def variable(what: str) -> str:
        return names.of(f"{node.name}_{what}")

    match str(node.distribution):
        case "LocalLevel":
            mean, sd = normal("initial")
            out.system = {
                "H": "np.ones(1)",
                "F": "np.eye(1)",
                "Q": f"pt.stacklists([[{code(given['sigma'])} ** 2]])",
                "mean": f"pt.stack([{mean}])",
                "covariance": f"pt.stacklists([[{sd} ** 2]])",
            }
        case "LocalTrend":
            (mean, sd), (slope, spread) = normal("initial"), normal("initial_slope")
            out.lines.append("# The states are level and slope.")
            made = {
                "Q": f"pt.diag(pt.stack([{code(given['sigma_level'])} ** 2, {code(given['sigma_slope'])} ** 2]))",
                "mean": f"pt.stack([{mean}, {slope}])",
                "covariance": f"pt.diag(pt.stack([{sd} ** 2, {spread} ** 2]))",
            }
            out.lines += [f"{variable(key)} = {text}" for key, text in made.items()]
            out.before.append(f"{variable('F')} = np.array([[1.0, 1.0], [0.0, 1.0]])")
            out.system = {"H": "np.array([1.0, 0.0])", **{key: variable(key) for key in ("F", *made)}}
        case "Seasonal":
            tree, period = given["initial"], code(given["period"])
            assert isinstance(tree, ast.Call)
            sd = code(bound_arguments(tree, "ZeroSumNormal")["sigma"])
            out.before.append(f"{variable('F')}, {variable('start')} = seasonal_states({period})")
            out.before.append(f"{variable('newest')} = np.eye({period} - 1)[0]")
            out.system = {
                "H": variable("newest"),
                "F": variable("F"),
                "Q": f"{code(given['sigma'])} ** 2 * pt.diag({variable('newest')})",
                "mean": f"np.zeros({period} - 1)",
                "covariance": f"{sd} ** 2 * {variable('start')}",
            }
        case _:
            one = "pt.atleast_1d", "pt.atleast_2d"
            shapes = {"H": 0, "F": 1, "Q": 1, "initial_mean": 0, "initial_covariance": 1}
            texts = {name: f"{one[k]}(pt.as_tensor({code(given[name])}))" for name, k in shapes.items()}
            out.lines += [f"{variable(name)} = {text}" for name, text in texts.items()]
            out.system = {name.removeprefix("initial_"): variable(name) for name in texts}
    return out
