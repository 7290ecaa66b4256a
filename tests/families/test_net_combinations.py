"""Combinations of the keys of a declared net: refused in one line, or the evidence of rows equals enumeration.

The slow twin reads the definitions of the manual (noisy-OR, noisy-MAX, logit, functions, normals given parents), writes
every completion of a row out, and takes a normal density of what is continuous. Nothing of the package is used there.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import bayeslab as bl
from bayeslab.families import bayes_net
from tests.families._combinations import all_pairs, answered, refusal, refused_alike

KINDS = (
    "list", "map", "single", "unknown", "shared", "noisy_or", "noisy_or unknown", "noisy_max", "logit", "logit unknown",
    "word", "states",
)  # fmt: skip
FACTORS = {
    "third": KINDS,
    "fourth": KINDS,
    "sizes": ((2, 2, 2, 2), (3, 2, 2, 2), (2, 2, 3, 2), (2, 3, 2, 3)),
    "parents": ("two", "one", "none"),
    "continuous": ("none", "root", "mixed", "chain", "unknown chain"),
    "hidden": ((), ("v0",), ("v2",), ("v1", "v3")),
    "missing": (0.0, 0.3),
    "structure": ("given", "given", "given", "naive_bayes"),
    "learn": ("none", "v0", "all"),
    "prior": (1, {"equivalent_sample_size": 2}, {"m_estimate": 3}),
    "target": (None, "v2"),
}
SAMPLE = all_pairs(FACTORS, 5)
WORDS = {
    "or": any,
    "and": all,
    "xor": lambda t: sum(t) % 2 == 1,
    "nor": lambda t: not any(t),
    "nand": lambda t: not all(t),
}


class Net:
    """What is declared, and the tables and normals that it means."""

    def __init__(self, combination: dict[str, Any], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.combination = combination
        self.states = {
            f"v{k}": ("no", "yes") if n == 2 else ("low", "mid", "high") for k, n in enumerate(combination["sizes"])
        }
        above = {"two": ["v0", "v1"], "one": ["v1"], "none": []}[combination["parents"]]
        self.parents = {"v0": [], "v1": ["v0"], "v2": above, "v3": [*above[:1], "v2"]}
        self.variables: dict[str, Any] = {}
        self.tables: dict[str, np.ndarray] = {}
        self.draws: dict[str, np.ndarray] = {}
        self.parameters: dict[str, str] = {}
        self.normals: dict[str, Any] = {}
        if combination["structure"] == "naive_bayes":
            self.parents = {v: [] if v == "v0" else ["v0"] for v in self.states}
        for v, kind in zip(self.states, ("list", "map", combination["third"], combination["fourth"]), strict=True):
            if combination["structure"] == "naive_bayes":
                self.variables[v] = {"states": list(self.states[v])}
                self.tables[v] = self.drawn(v)
                continue
            keys, table = self.local(v, kind)
            if combination["learn"] in (v, "all") and "table" in keys:
                table = self.drawn(v)
            self.variables[v] = {"states": list(self.states[v]), "parents": self.parents[v], **keys}
            self.tables[v] = table
        self.normal_variables(combination["continuous"])

    def shape(self, v: str) -> tuple[int, ...]:
        return tuple(len(self.states[p]) for p in self.parents[v])

    def drawn(self, v: str) -> np.ndarray:
        table = self.rng.dirichlet(np.ones(len(self.states[v])), size=self.shape(v))
        self.draws[f"p_{v}"] = table[None]
        return table

    def local(self, v: str, kind: str) -> tuple[dict[str, Any], np.ndarray]:
        """Keys of the file, and the table (parents..., states) that the manual says they mean."""
        rng, own, parents, shape = self.rng, self.states[v], self.parents[v], self.shape(v)
        rows = list(product(*(range(n) for n in shape)))
        absent = {p: self.states[p][0] for p in (*parents, v) if len(self.states[p]) > 2}
        out = np.zeros((*shape, len(own)))
        if kind in ("list", "map", "single"):
            out = rng.dirichlet(np.ones(len(own)), size=shape)
            given: Any = out[..., 0].tolist() if kind == "single" else out.tolist()
            if kind == "map" and parents:
                named = {row: ", ".join(self.states[p][i] for p, i in zip(parents, row, strict=True)) for row in rows}
                given = {named[row]: dict(zip(own, out[row].tolist(), strict=True)) for row in reversed(rows)}
            return {"table": given}, out
        if kind == "unknown":
            return {}, self.drawn(v)
        if kind == "shared":
            q = float(rng.uniform(0.1, 0.9))
            self.parameters[f"q{v}"], self.draws[f"q{v}"] = "Beta(2, 2)", np.array([q])
            out[...] = [q * q, 1 - q * q] if len(own) == 2 else 1 / 3
            row = [f"q{v}**2", f"1 - q{v}**2"]
            return {"table": np.full((*shape, 2), row, object).tolist()}, out
        if kind.startswith("noisy_or"):
            strength, leak = rng.uniform(0.1, 0.9, len(parents)), float(rng.uniform(0.05, 0.3))
            for row in rows:
                no = (1 - leak) * np.prod([1 - s for s, i in zip(strength, row, strict=True) if i == 1])
                out[row][:2] = no, 1 - no
            written = {p: float(s) for p, s in zip(parents, strength, strict=True)} | {"leak": leak}
            if kind == "noisy_or unknown":
                self.draws |= {f"strength_{v}_{p}": np.array([written[p]]) for p in parents}
                self.draws[f"leak_{v}"] = np.array([leak])
                written = {"leak": "Beta(1, 2)"}
            return {"noisy_or": written}, out
        if kind == "noisy_max":
            effects = {p: {s: rng.dirichlet(np.ones(len(own))) for s in self.states[p][1:]} for p in parents}
            leak_ = rng.dirichlet(np.ones(len(own)))
            for row in rows:
                below = np.cumsum(leak_)
                for p, i in zip(parents, row, strict=True):
                    below = below * (np.cumsum(effects[p][self.states[p][i]]) if i else 1.0)
                out[row] = np.diff(below, prepend=0.0)
            shown = {p: {s: e.tolist() for s, e in one.items()} for p, one in effects.items()} | {
                "leak": leak_.tolist()
            }
            return {"noisy_max": shown, "absent": absent}, out
        if kind.startswith("logit"):
            # The state that means "not there" is the reference, of the variable and of its parents.
            weights = rng.normal(size=(len(own), 1 + sum(n - 1 for n in shape)))
            weights[0] = 0
            labels = ["intercept", *((p, s) for p in parents for s in self.states[p][1:])]
            for row in rows:
                design = [
                    1.0,
                    *(
                        float(s == self.states[p][i])
                        for p, i in zip(parents, row, strict=True)
                        for s in self.states[p][1:]
                    ),
                ]
                score = np.exp(weights @ np.array(design))
                out[row] = score / score.sum()
            if kind == "logit unknown":
                if len(own) == 2 and all(n == 2 for n in shape):
                    self.draws[f"intercept_{v}"] = weights[1, :1]
                    self.draws |= {f"weight_{v}_{p}": weights[1, k + 1 : k + 2] for k, p in enumerate(parents)}
                    np.testing.assert_allclose(out[..., 1].ravel()[0], expit(weights[1, 0]))
                    return {"logit": {}}, out
                kind = "logit"
            each = []
            for s in range(1, len(own)):
                one: dict[str, Any] = {"intercept": float(weights[s, 0])}
                for label, w in zip(labels[1:], weights[s, 1:], strict=True):
                    p, state = label
                    if len(self.states[p]) > 2:
                        one.setdefault(p, {})[state] = float(w)
                    else:
                        one[p] = float(w)
                each.append(one)
            written_ = each[0] if len(own) == 2 else dict(zip(own[1:], each, strict=True))
            return {"logit": written_, "absent": absent}, out
        if kind == "word":
            word = str(rng.choice(list(WORDS)))
            for row in rows:
                out[row][int(WORDS[word]([bool(i) for i in row]))] = 1
            return {"function": word}, out
        at = rng.integers(len(own), size=shape)
        for row in rows:
            out[row][at[row]] = 1
        return {"function": np.array(own)[at].tolist()}, out

    def normal_variables(self, kind: str) -> None:
        if kind == "none":
            return
        discrete = {"x": [] if kind == "root" else ["v2"], "y": ["v1"]}
        above: dict[str, list[str]] = {"x": [], "y": ["x"]} if "chain" in kind else {"x": []}
        if self.combination["structure"] == "naive_bayes":
            discrete, above = {"x": ["v0"], "y": ["v0"]}, {key: [] for key in above}
        for v, continuous in above.items():
            shape = tuple(len(self.states[p]) for p in discrete[v])
            intercept, sd = self.rng.normal(size=shape), self.rng.uniform(0.5, 1.5, shape)
            slope = self.rng.normal(size=(*shape, len(continuous)))
            given: dict[str, Any] = {}
            if kind == "unknown chain":
                self.draws |= {f"intercept_{v}": intercept[None], f"sd_{v}": sd[None]}
                if continuous:
                    self.draws[f"slope_{v}"] = slope[None]
            else:
                given = {"intercept": intercept.tolist(), "sd": sd.tolist()}
                given["slopes"] = {p: slope[..., k].tolist() for k, p in enumerate(continuous)}
            self.variables[v] = {"parents": [*discrete[v], *continuous], "linear_gaussian": given}
            if self.combination["structure"] == "naive_bayes":
                del self.variables[v]["parents"]
            self.normals[v] = (discrete[v], continuous, intercept, slope, sd)

    def model(self) -> bl.Model:
        c = self.combination
        more: dict[str, Any] = {"hidden": list(c["hidden"]), "prior": c["prior"], "parameters": self.parameters}
        if c["structure"] == "naive_bayes":
            more |= {"structure": "naive_bayes", "target": "v0"}
        elif c["target"]:
            more["target"] = c["target"]
        if c["learn"] != "none" and c["structure"] == "given":
            more["learn"] = c["learn"] if c["learn"] == "all" else [c["learn"]]
        # Of rows with gaps and numbers only EM learns.
        gaps = self.normals and (c["missing"] or c["hidden"])
        inference = {"method": "em", "prior": "ignore"} if gaps else {}
        spec = bl.BayesNet(variables=self.variables, **more)
        return bl.Model(name="net", data={"rows": "row"}, model=spec, inference=inference, seed=1)

    def data(self, n: int) -> pd.DataFrame:
        """Rows of any values that are possible, some cells missing; also columns of hidden variables."""
        rng, rows = self.rng, []
        for _ in range(n):
            codes: dict[str, int] = {}
            for v in self.states:
                p = self.tables[v][tuple(codes[u] for u in self.parents[v])]
                codes[v] = int(rng.choice(len(p), p=p / p.sum()))
            rows.append(
                {v: self.states[v][i] for v, i in codes.items()} | {v: float(rng.normal()) for v in self.normals}
            )
        table = pd.DataFrame(rows)
        gone = rng.uniform(size=table.shape) < self.combination["missing"]
        gone[0] = False
        return table.mask(pd.DataFrame(gone, columns=table.columns), other=None)

    def log_evidence(self, row: dict[str, Any], do: dict[str, str] | None = None) -> float:
        """Of the cells that are there, everything else summed or integrated out."""
        known = {v: s.index(row[v]) for v, s in self.states.items() if isinstance(row.get(v), str)}
        total = 0.0
        for each in product(*([known[v]] if v in known else range(len(s)) for v, s in self.states.items())):
            codes = dict(zip(self.states, each, strict=True))
            weight = 1.0
            for v in self.states:
                if do and v in do:
                    weight *= self.states[v][codes[v]] == do[v]
                else:
                    weight *= self.tables[v][(*(codes[u] for u in self.parents[v]), codes[v])]
            if weight > 0:
                total += weight * self.density(codes, row)
        return float(np.log(total)) if total > 0 else -np.inf

    def density(self, codes: dict[str, int], row: dict[str, Any]) -> float:
        """Normal density of the numbers that are there, given all states."""
        names = list(self.normals)
        mean, root = np.zeros(len(names)), np.zeros((len(names), len(names)))
        for k, v in enumerate(names):
            discrete, continuous, intercept, slope, sd = self.normals[v]
            at = tuple(codes[u] for u in discrete)
            mean[k], root[k, k] = intercept[at], sd[at]
            for j, parent in enumerate(continuous):
                i = names.index(parent)
                mean[k] += slope[at][j] * mean[i]
                root[k] += slope[at][j] * root[i]
        there = [k for k, v in enumerate(names) if isinstance(row.get(v), float) and not np.isnan(row[v])]
        if not there:
            return 1.0
        covariance = (root @ root.T)[np.ix_(there, there)]
        return float(stats.multivariate_normal(mean[there], covariance).pdf([row[names[k]] for k in there]))


def compare(number: int) -> bool:
    """Whether the combination is answered; what it answers is right, or it is refused in one line by check and fit."""
    combination = SAMPLE[number]
    net = Net(combination, number)
    if refusal(net.model) is not None:
        return False
    model, table = net.model(), net.data(6)
    seen = table.drop(columns=list(combination["hidden"]))
    want = [net.log_evidence(row) for row in seen.to_dict("records")]
    if not net.draws:
        # Nothing is unknown: a question is asked, row by row.
        if refusal(lambda: bl.network(model)) is not None:
            return False
        network = bl.network(model)
        rows = [{v: x for v, x in row.items() if x is not None and x == x} for row in seen.to_dict("records")]
        np.testing.assert_allclose([network.query(r).log_evidence for r in rows], want, rtol=1e-9, atol=1e-9)
        query(net, network, table)
        return True
    _, why = refused_alike(net.model, table, lambda own, data: bl.fit(own, data, progress=False, runs=None))
    if why is not None:
        return False
    found = bayes_net.compile(model, bl.check(model, table)).log_likelihoods(net.draws)["evidence"][1][0]
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)
    marginal(net, model, seen)
    return True


def marginal(net: Net, model: bl.Model, seen: pd.DataFrame) -> None:
    """Where tables alone are unknown and all cells are there: the evidence, one row predicted after the other."""
    learned = {name.removeprefix("p_") for name in net.draws}
    if net.normals or not learned <= net.tables.keys() or set(seen) != set(net.states) or seen.isna().any(axis=None):
        return
    counts = {v: _pseudocounts(net, v) for v in learned}
    total = 0.0
    for row in seen.to_dict("records"):
        codes = {v: s.index(row[v]) for v, s in net.states.items()}
        for v in net.states:
            at = tuple(codes[u] for u in net.parents[v])
            if v in learned:
                total += np.log(counts[v][at][codes[v]] / counts[v][at].sum())
                counts[v][at][codes[v]] += 1
            else:
                total += np.log(net.tables[v][(*at, codes[v])])
    fit = bl.fit(model, seen, "exact", progress=False, runs=None)
    (evidence,) = [f.value for f in fit.verdict.findings if f.check == "evidence"]
    assert evidence == pytest.approx(total, abs=1e-8)


def _pseudocounts(net: Net, v: str) -> np.ndarray:
    prior, shape = net.combination["prior"], (*net.shape(v), len(net.states[v]))
    if isinstance(prior, dict):
        size = prior.get("equivalent_sample_size")
        each = prior["m_estimate"] / shape[-1] if size is None else size / np.prod(shape)
    else:
        each = prior
    return np.full(shape, float(each))


def query(net: Net, network: Any, table: pd.DataFrame) -> None:
    """Marginals given a row without one cell, and after an action."""
    row = {v: s for v, s in table.iloc[0].to_dict().items() if v != "v2"}
    found = network.query(row)
    whole = net.log_evidence(row)
    assert found.log_evidence == pytest.approx(whole, abs=1e-9)
    for state in net.states["v2"]:
        want = np.exp(net.log_evidence({**row, "v2": state}) - whole)
        assert found["v2"][state] == pytest.approx(want, abs=1e-9)
    if not net.normals:
        done = network.do({"v1": net.states["v1"][1]}).query()
        action = {"v1": net.states["v1"][1]}
        for v in ("v0", "v3"):
            for state in net.states[v]:
                want = np.exp(net.log_evidence({v: state}, do=action))
                assert done[v][state] == pytest.approx(want, abs=1e-9)


# What is written about combinations that cannot be, not about slips.
@pytest.mark.parametrize("number", range(0, len(SAMPLE), 12))
def test_some_combinations(number):
    answered([number], compare, SAMPLE.__getitem__)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("start", range(8))
def test_all_pairs_of_keys(start):
    """And most of them are answered, so that it is no test of refusals."""
    numbers = range(start, len(SAMPLE), 8)
    assert answered(numbers, compare, SAMPLE.__getitem__) > 0.3 * len(numbers)
