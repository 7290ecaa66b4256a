"""Reader of nodes' distributions as PyMC random variables."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bayeslab.distributions import DISTRIBUTIONS, Distribution, pymc_class
from bayeslab.errors import ModelError
from bayeslab.families.graph.domains import OF_TRIALS
from bayeslab.families.graph.parameter_reader import ParameterReader
from bayeslab.language.nodes import (
    bound_arguments,
    call_name,
)

__all__ = ["DistributionReader"]


class DistributionReader(ParameterReader):
    """Creates unnamed random variables from the calls in nodes."""

    def distribution(self, tree: ast.expr, dims: tuple[str, ...]) -> Any:
        """A distribution's call as an unnamed random variable with the given dims."""
        assert isinstance(tree, ast.Call)
        word = str(call_name(tree))
        build = getattr(self, f"_dist_{word}", None)
        if build is not None:
            return build(tree, dims)
        return self._plain(word, DISTRIBUTIONS[word], tree, dims)

    def _plain(self, word: str, entry: Distribution, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        given = bound_arguments(tree, word)
        support = entry.support
        if word == "ZeroSumNormal" and "n_zerosum_axes" in given:
            support = int(self.literal(given["n_zerosum_axes"], "n_zerosum_axes"))
        if len(dims) < support:
            raise ModelError(
                f"{word} draws a {'vector' if support == 1 else 'matrix'}: its node needs {support} dimension"
                f"{'s' if support > 1 else ''}, as in name[{', '.join(f'dim{i + 1}' for i in range(support))}]",
                code="bad-dimensions",
            )
        batch = dims[: len(dims) - support]
        core_dims = dims[len(dims) - support :]
        parameters: dict[str, Any] = {}
        for name, value in given.items():
            if name in entry.distributions:
                parameters[name] = self._inner(word, name, value, dims, given)
            elif name in entry.lengths or name in ("n_zerosum_axes", "constant"):
                parameters[name] = self.literal(value, name)
            elif name in entry.fixed:
                parameters[name] = self.fixed(value, entry.core.get(name, 0), name)
            else:
                parameters[name] = self.parameter(
                    self.evaluator.eval(value), batch, core_dims, entry.core.get(name, 0), name, name in entry.apart
                )
            if entry.core.get(name) == 2 and parameters[name].dtype != "float64":
                parameters[name] = parameters[name].astype("float64")  # a matrix of counts, such as adjacencies
        for name in entry.lengths:
            # K breaks of a stick give K + 1 pieces.
            length = self.lengths(core_dims)[-1] - int(word == "StickBreakingWeights")
            if parameters.setdefault(name, length) != length:
                raise ModelError(
                    f"{word}({name}={parameters[name]}) where the node's dimension needs {name}={length}",
                    code="wrong-length",
                )
        if "init_dist" in entry.distributions and "init_dist" not in given:
            raise ModelError(
                f"{word}() needs init_dist, the distribution of the first value, such as Normal(0, 1)",
                code="wrong-arguments",
            )
        return self.variable(word, parameters, dims)

    def variable(self, word: str, parameters: dict[str, Any], dims: tuple[str, ...]) -> Any:
        """A random variable of a distribution with the given parameters."""
        if word in ("Categorical", "OrderedLogistic", "OrderedProbit"):
            return self._categories(word, parameters, self.lengths(dims))
        if word == "HyperGeometric":
            parameters = {name: value.astype("int64") for name, value in parameters.items()}
        if word in OF_TRIALS and self.purpose != "fit" and "n" in parameters:
            parameters["n"] = parameters["n"].astype("int64")  # a column of whole numbers may have a float type
        maker = pymc_class(word)
        if word == "OrderedMultinomial":
            parameters["compute_p"] = False
        return maker.dist(**parameters, shape=self.lengths(dims))

    def _categories(self, word: str, parameters: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """A categorical by log probabilities, which do not underflow, if these are available."""
        from bayeslab.families.graph.tails import LogCategorical, ordered, softmax_input

        if word != "Categorical":
            if not {"eta", "cutpoints"} <= parameters.keys():
                raise ModelError(f"{word}() needs 'eta' and 'cutpoints'", code="wrong-arguments")
            return LogCategorical.dist(ordered(word, **parameters), shape=shape)
        logits = parameters.get("logit_p")
        if logits is None and "p" in parameters:
            logits = softmax_input(parameters["p"])
        if logits is None or parameters.keys() >= {"p", "logit_p"}:
            return self.pm.Categorical.dist(**parameters, shape=shape)
        return LogCategorical.dist(logits, shape=shape)

    def _inner(
        self, word: str, name: str, value: ast.expr, dims: tuple[str, ...], given: Mapping[str, ast.expr]
    ) -> Any:
        """A distribution as a parameter: the initial value or the innovations of a time series."""
        batch = dims[: len(dims) - DISTRIBUTIONS[word].support]
        assert isinstance(value, ast.Call)
        if word.startswith("Mv"):
            return self.distribution(value, (*batch, dims[-1]))
        if word == "AR":
            rho = self.evaluator.eval(given["rho"])
            rho = replace(rho, dims=tuple(d for d in rho.dims if d not in batch or d is None))
            order = self.length_of(rho) - int("constant" in given and bool(self.literal(given["constant"], "constant")))
            inner = str(call_name(value))
            parameters = {
                n: self.parameter(self.evaluator.eval(v), batch, (), 0, n)
                for n, v in bound_arguments(value, inner).items()
            }
            expanded = {n: p[..., None] if getattr(p, "ndim", 0) else p for n, p in parameters.items()}
            return self.make(inner, expanded, (*self.lengths(batch), order))
        if word == "RandomWalk" and name == "innovation_dist":
            return self.distribution(value, batch)
        return self.distribution(value, batch)

    def make(self, word: str, parameters: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """A variable of single numbers with parameters as they are."""
        return pymc_class(word).dist(**parameters, shape=shape)

    def _bounds(self, tree: ast.Call, word: str, dims: tuple[str, ...]) -> dict[str, Any]:
        given = bound_arguments(tree, word)
        return {
            name: self.parameter(self.evaluator.eval(given[name]), dims, (), 0, name)
            for name in ("lower", "upper")
            if name in given and not (isinstance(given[name], ast.Constant) and given[name].value is None)  # type: ignore[attr-defined]
        }

    def _dist_Truncated(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        base = self.distribution(bound_arguments(tree, "Truncated")["dist"], dims)
        from bayeslab.families.graph.tails import truncated

        made = self.pm.Truncated.dist(base, **self._bounds(tree, "Truncated", dims), shape=self.lengths(dims))
        return truncated(made)

    def _dist_Censored(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        from bayeslab.families.graph.tails import censored

        base = self.distribution(bound_arguments(tree, "Censored")["dist"], dims)
        bounds = {"lower": None, "upper": None} | self._bounds(tree, "Censored", dims)
        return censored(self.pm.Censored.dist(base, **bounds, shape=self.lengths(dims)))

    def _dist_Mixture(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        given = bound_arguments(tree, "Mixture")
        weights, parts = self.evaluator.eval(given["w"]), given["comp_dists"]
        listed_parts = isinstance(parts, ast.List | ast.Tuple)
        support = _support(parts.elts[0] if isinstance(parts, ast.List | ast.Tuple) else parts)
        batch = dims[: len(dims) - support]
        component_dims = [d for d in weights.dims if d not in batch or d is None]
        if len(component_dims) != 1:
            raise ModelError(
                f"the weights of a Mixture need one dimension of their own, the components; they have"
                f" ({', '.join(str(d) for d in weights.dims)})",
                code="bad-dimensions",
            )
        component = component_dims[0]
        w = self.parameter(weights, batch, (), 1, "w")
        if listed_parts:
            assert isinstance(parts, ast.List | ast.Tuple)
            if self.length_of(replace(weights, dims=(component,))) != len(parts.elts):
                raise ModelError(
                    f"a Mixture of {len(parts.elts)} distributions with {self.length_of(weights)} weights",
                    code="wrong-length",
                )
            comps: Any = [self.distribution(part, dims) for part in parts.elts]
        else:
            if component is None:
                raise ModelError(
                    "Mixture(w, D(...)) finds its components by name: give the weights a node with a dimension"
                    " that the parameters of D share, or list the components: Mixture(w, [D(...), D(...)])",
                    code="bad-dimensions",
                )
            comps = self.distribution(parts, (*batch, component, *dims[len(dims) - support :]))
        return self.mixture(w, comps, dims)

    def mixture(self, weights: Any, components: Any, dims: tuple[str, ...]) -> Any:
        """A mixture of one distribution along the components, or of a list of distributions."""
        return self.pm.Mixture.dist(w=weights, comp_dists=components, shape=self.lengths(dims))


def _support(tree: ast.expr) -> int:
    """Support dimensions of a component's distribution."""
    word = call_name(tree)
    if word in ("Truncated", "Censored"):
        assert isinstance(tree, ast.Call)
        return _support(bound_arguments(tree, word)["dist"])
    return DISTRIBUTIONS[str(word)].support
