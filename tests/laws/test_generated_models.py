"""Models at random: their programs have the density and the gradient of their PyMC graphs.

Expressions of columns, groups, tables of parameters and links, rows of eight distributions, missing cells, and predictors
with many values or few.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.laws.test_machine_models import reference

ROWS, GROUPS, KINDS = 36, 5, 3


def table(rng: np.random.Generator) -> pd.DataFrame:
    """Columns with many values and with few, groups, kinds, and an outcome of each sort with two cells missing."""
    data = pd.DataFrame({"x": rng.normal(size=ROWS), "w": rng.uniform(0.5, 2.0, ROWS)})
    data["flag"], data["step"] = rng.integers(2, size=ROWS), rng.integers(4, size=ROWS) / 2
    data["g"] = np.array(list("abcde"))[np.arange(ROWS) % GROUPS]
    data["k"] = np.array(["low", "mid", "top"])[rng.permutation(ROWS) % KINDS]
    data["trials"] = rng.integers(4, 7, ROWS)
    data["real"], data["positive"] = rng.normal(size=ROWS), rng.gamma(2.0, size=ROWS)
    data["count"] = rng.poisson(2.0, ROWS)
    data["bit"] = rng.integers(2, size=ROWS)
    data["hits"] = rng.integers(0, 4, ROWS)
    for name in ("real", "positive", "count", "bit", "hits"):
        data[name] = data[name].astype(float).where(~np.isin(np.arange(ROWS), rng.choice(ROWS, 2)))
    return data


class Writer:
    """Writes a random model: parameters as they are needed, and nodes of rows."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.nodes = rng, dict[str, str]()

    def any_of(self, *words: str) -> str:
        return words[self.rng.integers(len(words))]

    def parameter(self, dims: str, prior: str) -> str:
        name = f"p{len(self.nodes)}"
        self.nodes[name + dims] = prior
        return name

    def leaf(self) -> str:
        match self.any_of("number", "slope", "column", "group", "kind", "table", "few"):
            case "number":
                return self.parameter("", "Normal(0, 1)")
            case "slope":
                return f"{self.parameter('', 'StudentT(5, 0, 1)')} * {self.any_of('x', 'w', 'flag', 'step')}"
            case "column":
                return self.any_of("x", "w", "flag", "step", "0.5")
            case "group":
                scale = self.parameter("", "HalfNormal(1)")
                return f"{self.parameter('[g]', f'Normal(0, {scale})')}[g]"
            case "kind":
                return f"{self.parameter('[k]', 'Normal(0, 1)')}[k]"
            case "table":
                return f"{self.parameter('[g, k]', 'Normal(0, 0.5)')}[g, k]"
        return f"({self.parameter('', 'Normal(0, 1)')} + {self.any_of('flag', 'step')})"

    def expression(self, depth: int) -> str:
        if depth == 0:
            return self.leaf()
        one = self.expression(depth - 1)
        match self.any_of("+", "+", "-", "*", "/", "f", "neg"):
            case "f":
                return f"{self.any_of('tanh', 'sigmoid', 'sin')}({one})"
            case "neg":
                return f"-({one})"
            case "/":
                return f"({one}) / {self.any_of('w', '2', '(1 + step)')}"
            case op:
                return f"({one}) {op} ({self.expression(self.rng.integers(depth))})"

    def rows(self, depth: int) -> None:
        """An outcome of the rows."""
        at = self.expression(depth)
        spread = self.any_of(self.parameter("", "HalfNormal(1)"), f"exp(0.3 * {self.leaf()})", "w")
        shape = self.parameter("", "Gamma(4, 2)")
        name, law = [
            ("real", f"Normal({at}, {spread})"),
            ("real", f"StudentT(4, {at}, {spread})"),
            ("positive", f"Gamma({shape}, exp({at}))"),
            ("count", f"Poisson(exp(tanh({at})))"),
            ("count", f"NegativeBinomial(w * exp(sin({at})), {shape})"),
            ("bit", f"Bernoulli(sigmoid({at}))"),
            ("bit", f"Bernoulli(0.05 + 0.9 * sigmoid({at}))"),
            ("hits", f"Binomial(trials, sigmoid({at}))"),
        ][self.rng.integers(8)]
        if f"{name}[row]" not in self.nodes:
            self.nodes[f"{name}[row]"] = law


def written(seed: int) -> tuple[bl.Model, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    writer = Writer(rng)
    for _ in range(1 + seed % 2):
        writer.rows(1 + seed % 3 if seed % 2 else 1)
    return bl.Model(data={"rows": "row"}, model=bl.Graph(nodes=writer.nodes)), table(rng)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow(why="compiles")) for s in range(2, 40))]
)
def test_a_random_model_is_its_graph(seed: int) -> None:
    model, data = written(seed)
    source = Source(model)
    posterior = source.posterior(source.bound(data).dataset)
    machine, graph = posterior.machine_model(), posterior.graph()
    density, function = MachineDensity(machine, lambda: graph), reference(graph)
    assert density.names == tuple(v.name for v in graph.value_vars)
    at, rng = density.flat(graph.initial_point()), np.random.default_rng(seed)
    for spread in (0.0, 0.3, 1.0, 2.0):
        point = at + spread * rng.standard_normal(at.size)
        value, *slopes = function(*density.split(point).values())
        mine, gradient = density(point)
        assert mine == pytest.approx(float(value), rel=1e-9, abs=1e-9), model.model.nodes
        slope = np.concatenate([np.ravel(s) for s in slopes])
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(slope).max()))
