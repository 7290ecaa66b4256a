"""Discrete nodes without data: log densities, draws and terms against enumeration written by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import expit, logsumexp

import bayeslab as bl
from bayeslab.families import graph
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")


def model(nodes, lengths=None, **source):
    return bl.Model(data=source, dims=lengths or {}, model={"family": "graph", "nodes": nodes})


def evidence(built: pm.Model, values: dict[str, np.ndarray]) -> float:
    """Log of the sum at given values of the parameters: the potential alone."""
    return evidence_of(built)(values)


def evidence_of(built: pm.Model) -> Callable[[dict[str, np.ndarray]], float]:
    """The log of the sum as a function of the values of the parameters."""
    (potential,) = built.potentials
    symbols = {rv: rv.type() for rv in built.free_RVs}
    from pytensor import function
    from pytensor.graph.replace import clone_replace

    at = function(list(symbols.values()), clone_replace([potential], symbols), mode=PYTHON, on_unused_input="ignore")
    return lambda values: float(at(*(np.asarray(values[rv.name], dtype=rv.dtype) for rv in symbols))[0])


# ------------------------------------------------------------------------------------ shared labels

RATINGS = {
    "judge": ["ann", "bob", "bob", "ann", "cy", "cy", "bob"],
    "item": ["u", "u", "v", "v", "u", "w", "w"],
    "rating": np.array([0, 1, 2, 2, 0, 1, 1]),
}
DAWID_SKENE = model(
    {
        "share[kind]": "Dirichlet(1)",
        "theta[judge, kind, given]": "Dirichlet(1)",
        "z[item]": "Categorical(share)",
        "rating[obs_id]": "Categorical(theta[judge, z[item], given])",
    },
    {"kind": 3, "given": 3},
)


def dawid_skene_by_hand(share, theta):
    judge = np.array([["ann", "bob", "cy"].index(j) for j in RATINGS["judge"]])
    item = np.array(["uvw".index(i) for i in RATINGS["item"]])
    total = 0.0
    for i in range(3):
        rows = item == i
        each = [
            np.log(share[k]) + np.log(theta[judge[rows], k, RATINGS["rating"][rows]]).sum() for k in range(len(share))
        ]
        total += logsumexp(each)
    return total


@pytest.fixture
def judged():
    rng = np.random.default_rng(3)
    return {"share": rng.dirichlet(np.ones(3)), "theta": rng.dirichlet(np.ones(3), (3, 3))}


def test_a_label_that_several_rows_share(judged):
    built = bl.to_pymc(DAWID_SKENE, RATINGS)
    assert evidence(built, judged) == pytest.approx(dawid_skene_by_hand(**judged), abs=1e-10)


def test_labels_are_drawn_with_their_posterior_probabilities(judged):
    source = Source(DAWID_SKENE)
    built, sums = graph.compile(source.model, source.bound(RATINGS)).elimination()
    (tables,) = tables_at(built, sums, {name: value[None] for name, value in judged.items()})
    n, rng = 20_000, np.random.default_rng(0)
    z = sums.drawn(np.tile(tables, (n, 1)), rng)["z"]
    judge, item = np.unique(RATINGS["judge"], return_inverse=True)[1], np.array([0, 0, 1, 1, 0, 2, 2])
    for i in range(3):
        rows = item == i
        weights = judged["share"] * np.prod(judged["theta"][judge[rows], :, RATINGS["rating"][rows]], axis=0)
        weights = weights / weights.sum()
        share = np.array([np.mean(z[:, i] == k) for k in range(3)])
        np.testing.assert_allclose(share, weights, atol=5 * np.sqrt(0.25 / n))


def test_occupancy():
    """A site is occupied or not, in all its visits; one that was seen is occupied for sure."""
    seen = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]])
    cover = np.array([0.2, -1.0, 0.5, 1.5])
    nodes = {
        "a": "Normal(0, 1)",
        "b": "Normal(0, 1)",
        "p": "Beta(1, 1)",
        "occupied[site]": "Bernoulli(logit_p=a + b * cover)",
        "seen[site, visit]": "Bernoulli(p * occupied)",
    }
    built = bl.to_pymc(
        model(nodes, dims={"seen": ["site", "visit"], "cover": ["site"]}), {"seen": seen, "cover": cover}
    )
    a, b, p = 0.3, -0.7, 0.4
    psi = expit(a + b * cover)
    row = psi * np.prod(np.where(seen == 1, p, 1 - p), axis=1) + (1 - psi) * (seen.sum(axis=1) == 0)
    assert evidence(built, {"a": a, "b": b, "p": p}) == pytest.approx(np.log(row).sum(), abs=1e-10)


@pytest.mark.parametrize("word", ["Bernoulli(p * z)", "Geometric(1 - p * z)", "Poisson(p * z)"])
def test_slopes_where_a_state_cannot_be(word):
    """What was seen is impossible in one state, where a logarithm has an infinite slope."""
    nodes = {"p": "Beta(2, 2)", "z[obs_id]": "Bernoulli(0.3)", "y[obs_id]": word}
    y = np.array([1, 1, 1, 1]) if word[0] != "G" else np.array([1, 2, 1, 3])
    built = bl.to_pymc(model(nodes), {"y": y})
    slope = built.compile_dlogp(mode=Mode("py", None))  # not simplified: what would be 0 * inf stays it

    def expected(at):
        p = expit(at)
        law = {"B": lambda q: stats.bernoulli.pmf(y, q), "G": lambda q: stats.geom.pmf(y, 1 - q)}
        found = law.get(word[0], lambda q: stats.poisson.pmf(y, q))
        rows = np.log(0.3 * found(p) + 0.7 * found(0.0))
        return rows.sum() + stats.beta.logpdf(p, 2, 2) + np.log(p * (1 - p))

    numeric = (expected(0.4 + 1e-6) - expected(0.4 - 1e-6)) / 2e-6
    assert slope({"p_logodds__": np.array(0.4)})[0] == pytest.approx(numeric, rel=1e-6)


# ------------------------------------------------------------------------------------------ others


def test_counts_with_a_bound():
    """An N-mixture: numbers at sites, of which visits see some."""
    k = np.array([[2, 3], [0, 1], [5, 4]])
    nodes = {
        "lam": "Gamma(2, 1)",
        "p": "Beta(1, 1)",
        "n[site]": "Truncated(Poisson(lam), upper=12)",
        "k[site, visit]": "Binomial(n, p)",
    }
    built = bl.to_pymc(model(nodes, dims={"k": ["site", "visit"]}), {"k": k})
    lam, p = 3.1, 0.45
    number = np.arange(13)
    prior = stats.poisson.logpmf(number, lam) - stats.poisson.logcdf(12, lam)
    expected = sum(logsumexp(prior + sum(stats.binom.logpmf(each, number, p) for each in row)) for row in k)
    assert evidence(built, {"lam": lam, "p": p}) == pytest.approx(expected, abs=1e-10)


def test_checks_of_data_do_not_tie_rows_together():
    """Numbers of trials are data whose length may change; each row still has its own label, and its own term."""
    nodes = {"p": "Beta(1, 1)", "z[obs_id]": "Bernoulli(0.4)", "k[obs_id]": "Binomial(n, where(z, 0, p))"}
    source = Source(model(nodes))
    data = {"k": np.array([0, 2, 0]), "n": np.array([4, 5, 6])}
    built, sums = graph.compile(source.model, source.bound(data)).elimination()
    assert [len(scope) for scope in sums.rest.observed["k"][1]] == [1, 1, 1]
    rows = np.log(0.4 * (data["k"] == 0) + 0.6 * stats.binom.pmf(data["k"], data["n"], 0.3))
    assert evidence(built, {"p": 0.3}) == pytest.approx(rows.sum(), abs=1e-10)


def test_many_labels_whose_probabilities_are_checked():
    """PyMC's checks of p are of all rows; forty labels that have nothing to do with each other must not meet in them."""
    rng = np.random.default_rng(4)
    y, item = rng.integers(0, 2, 80), np.repeat(np.arange(40), 2)
    nodes = {
        "p[kind]": "Beta(1, 1)",
        "q[kind, answer]": "Dirichlet(1)",
        "z[item]": "Categorical([0.3, 0.7])",
        "y[obs_id]": "Bernoulli(p[z[item]])",
        "w[obs_id]": "Categorical(q[z[item], answer])",
    }
    data = {"y": y, "w": 1 - y, "item": np.array([f"i{k:02d}" for k in item])}
    built = bl.to_pymc(model(nodes, {"kind": 2, "answer": 2}), data)
    p, q = np.array([0.2, 0.9]), np.array([[0.4, 0.6], [0.8, 0.2]])
    rows = np.log(np.where(y[:, None] == 1, p, 1 - p)) + np.log(q[:, 1 - y].T)
    each = np.log([0.3, 0.7]) + rows.reshape(40, 2, 2).sum(axis=1)
    assert evidence(built, {"p": p, "q": q}) == pytest.approx(logsumexp(each, axis=1).sum(), abs=1e-9)


def test_scalars_a_vector_and_a_potential_that_meet():
    """Everything at once against the sum over all 2 * 3 * 2^3 states."""
    y = np.array([0.4, -0.3, 1.9])
    nodes = {
        "m": "Normal(0, 1)",
        "on": "Bernoulli(0.3)",
        "level": "DiscreteUniform(1, 3)",
        "z[obs_id]": "Bernoulli(where(on, 0.8, 0.1))",
        "middle[obs_id]": "m * level + z - lag(z, 1, start=0)",
        "y[obs_id]": "Normal(middle, 0.5 + on)",
        "many": "Potential(-0.3 * sum(z) * m)",
    }
    built = bl.to_pymc(model(nodes), {"y": y})
    m, terms = 0.6, []
    for on, level, *z in itertools.product((0, 1), (1, 2, 3), (0, 1), (0, 1), (0, 1)):
        z = np.array(z)
        middle = m * level + z - np.append(0, z[:-1])
        term = stats.bernoulli.logpmf(on, 0.3) - np.log(3) - 0.3 * z.sum() * m
        term += stats.bernoulli.logpmf(z, 0.8 if on else 0.1).sum() + stats.norm.logpdf(y, middle, 0.5 + on).sum()
        terms.append(term)
    assert evidence(built, {"m": m}) == pytest.approx(logsumexp(terms), abs=1e-10)


def test_a_chain_written_as_a_recursion():
    """A Categorical that looks back at itself is a hidden Markov model: forward recursion by hand."""
    y = np.array([0.2, 1.9, 2.3, -0.4, 0.1, 2.2])
    nodes = {
        "P[state, next]": "Dirichlet(1)",
        "m[state]": "Normal(0, 3)",
        "z[time]": "Categorical(P[previous(z, 1, start=1), next])",
        "y[time]": "Normal(m[z], 1)",
    }
    built = bl.to_pymc(model(nodes, {"state": 2, "next": "state"}, rows="time"), {"y": y})
    transition, m = np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0.0, 2.0])
    forward = np.log(transition[1]) + stats.norm.logpdf(y[0], m, 1)
    for value in y[1:]:
        forward = logsumexp(forward[:, None] + np.log(transition), axis=0) + stats.norm.logpdf(value, m, 1)
    assert evidence(built, {"P": transition, "m": m}) == pytest.approx(logsumexp(forward), abs=1e-10)


def test_a_value_that_is_not_allowed_in_one_row_counts_in_the_others():
    """PyMC's check of sigma holds for a whole density; here each row has its own."""
    y, x = np.array([0.1, 0.5]), np.array([0.0, 3.0])
    nodes = {"m": "Normal(0, 1)", "z[obs_id]": "Bernoulli(0.5)", "y[obs_id]": "Normal(m, x + z)"}
    built = bl.to_pymc(model(nodes), {"y": y, "x": x})
    rows = [
        np.log(0.5 * stats.norm.pdf(0.1, 0.2, 1.0)),
        np.log(0.5 * stats.norm.pdf(0.5, 0.2, 3.0) + 0.5 * stats.norm.pdf(0.5, 0.2, 4.0)),
    ]
    assert evidence(built, {"m": 0.2}) == pytest.approx(sum(rows), abs=1e-10)


@pytest.mark.parametrize(
    ("nodes", "code", "match"),
    [
        (
            {"z[obs_id]": "Bernoulli(0.5)", "s": "Normal(0, 1)", "y": "Normal(s * sum(z), 1)"},
            "model.too-costly", r"^model\.nodes\.z\[obs_id\].*'y'.*40",
        ),
        ({"z": "Poisson(3)", "s": "Normal(0, 1)", "y": "Normal(s * z, 1)"}, "model.discrete", r"^model\.nodes\.z"),
        (
            {"z[obs_id]": "Categorical([0.5, 0.5])", "h[obs_id]": "Normal(previous(h, 1, start=0) + z, 1)",
             "y": "Normal(sum(h), 1)"},
            "model.discrete", r"^model\.nodes\.z\[obs_id\]",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_summed_out_is_refused_in_one_line(nodes, code, match):
    with refused(code, match):
        bl.to_pymc(model(nodes, {"obs_id": 40}, dims={"y": []}), {"y": np.array(1)})


# ------------------------------------------------------------------------------------ a pedigree

# BUGS volume II, pigs: eight animals are healthy, Jane has two copies of a recessive gene, of Ian nothing is known.
FOUNDERS = ("ann", "brian", "eric", "henry")
PARENTS = {
    "clare": ("ann", "brian"),
    "diane": ("ann", "brian"),
    "fred": ("diane", "eric"),
    "gene": ("diane", "eric"),
    "ian": ("clare", "fred"),
    "jane": ("gene", "henry"),
}
HEALTHY = (*FOUNDERS, "clare", "diane", "fred", "gene")


@pytest.mark.slow(why="statistical")
def test_a_pedigree_with_a_loop():
    """Scalars whose evidence is potentials: the posterior of p is a polynomial, which ten nodes integrate exactly."""
    nodes = {"p": "Uniform(0, 1)"} | dict.fromkeys(FOUNDERS, "Binomial(2, 1 - p)")
    for name, (a, b) in PARENTS.items():
        none, both = f"(1 - {a} / 2) * (1 - {b} / 2)", f"{a} / 2 * {b} / 2"
        nodes[name] = f"Categorical([{none}, 1 - {none} - {both}, {both}])"
    nodes["healthy"] = f"Potential(log({' * '.join(f'({name} < 2)' for name in HEALTHY)}))"
    nodes["ill"] = "Potential(log(jane == 2))"
    at = evidence_of(bl.to_pymc(model(nodes)))

    def child(a, b, own):
        none, both = (1 - a / 2) * (1 - b / 2), a * b / 4
        return (none, 1 - none - both, both)[own]

    points, weights = np.polynomial.legendre.leggauss(10)
    points, weights = (points + 1) / 2, weights / 2
    want = np.zeros(10)
    for genes in itertools.product(range(2), repeat=len(HEALTHY)):
        of = dict(zip(HEALTHY, genes, strict=True))
        family = np.prod([child(of[a], of[b], of[name]) for name, (a, b) in PARENTS.items() if name in of])
        ill = child(of["gene"], of["henry"], 2)  # Ian's three genotypes add up to one
        want += family * ill * np.prod([stats.binom.pmf(of[name], 2, 1 - points) for name in FOUNDERS], axis=0)
    found = np.exp([at({"p": p}) for p in points])
    np.testing.assert_allclose(found, want, rtol=1e-10)
    # By enumeration and a grid over p: 0.62564.
    assert (weights * points) @ found / (weights @ found) == pytest.approx(122 / 195, abs=1e-10)


def test_parameters_whose_priors_depend_on_each_other():
    """Means with the spread of their component: no parameter is copied on the way, to be drawn anew."""
    nodes = {
        "w[k]": "Dirichlet(1)", "s[k]": "InverseGamma(2, 1)", "m[k]": "Normal(0, s)", "z[obs_id]": "Categorical(w)",
        "y[obs_id]": "Normal(m[z], s[z])",
    }  # fmt: skip
    y = np.array([0.3, -1.2, 2.5])
    at = {"w": np.array([0.3, 0.7]), "s": np.array([0.5, 1.5]), "m": np.array([-1.0, 2.0])}
    wanted = np.log(stats.norm.pdf(y[:, None], at["m"], at["s"]) @ at["w"]).sum()
    assert evidence(bl.to_pymc(model(nodes, {"k": 2}), {"y": y}), at) == pytest.approx(wanted, rel=1e-12)
