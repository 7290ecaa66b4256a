"""What would not fit into memory is refused before it is tried: at once, and without taking memory."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time

import numpy as np
import pytest

import bayeslab as bl
from bayeslab import memory
from bayeslab.errors import BayeslabError
from bayeslab.fitting import prepare
from bayeslab.language.nodes import check_nodes, nodes_of
from tests.refusals import refused

N = 20
RNG = np.random.default_rng(0)
NUMBERS = {"y": RNG.normal(size=N), "x": RNG.normal(size=N)}
STATES = {f"p{i}": RNG.choice(["u", "v"], N) for i in range(40)} | {"c": RNG.choice(["u", "v"], N)}
MEAN = {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}
BINARY = {"states": ["u", "v"]}
PARENTS = {f"p{i}": BINARY for i in range(40)}
DRAWS = {"draws": 10**12}
# Refused for a number, which is told: what is given, or what it would take.
_FORECAST = {
    *("engine.refused.too-costly", "model.too-costly", "option.too-costly"),
    *("model.out-of-range", "option.out-of-range", "model.too-large"),
}
_NUMBER = r"\d[\d,]{5}"


def graph(nodes, **keys):
    return {"model": {"family": "graph", "nodes": nodes}} | keys


def of_forty_parents(**form):
    child = BINARY | {"parents": list(PARENTS), "absent": dict.fromkeys([*PARENTS, "c"], "v")} | form
    return {"model": {"family": "bayes_net", "variables": PARENTS | {"c": child}}}, STATES


def of_process(**keys):
    return {"model": {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(x, 1, 1)"} | keys}


def of_two(**inference):
    return {"model": {"family": "mixture", "columns": ["y"], "components": 2}, "inference": inference}


def fit(model, table):
    return bl.fit(model, table, runs=None, progress=False)


TOO_LARGE = {
    "draws": (graph(MEAN, inference=DRAWS), NUMBERS),
    "draws beyond 64 bits": (graph(MEAN, inference={"draws": 10**30}), NUMBERS),
    "draws of nuts": (graph(MEAN, inference={"method": "nuts"} | DRAWS), NUMBERS),
    "draws of tuning": (graph(MEAN, inference={"method": "nuts", "tune": 10**12}), NUMBERS),
    "draws of smc": (graph(MEAN, inference={"method": "smc"} | DRAWS), NUMBERS),
    "draws of a regression": ({"model": {"family": "regression", "formula": "y ~ x"}, "inference": DRAWS}, NUMBERS),
    "draws of gibbs": (
        {
            "model": {"family": "mixture", "columns": ["y"], "components": 2},
            "inference": {"method": "gibbs"} | DRAWS,
        },
        NUMBERS,
    ),
    "draws of structures": (
        {
            "model": {"family": "bayes_net", "structure": {"score": "bdeu"}},
            "inference": {"method": "structure"} | DRAWS,
        },
        {k: STATES[k] for k in ("p0", "p1", "p2")},
    ),
    "length": (graph(MEAN | {"a[k]": "Normal(0, 1)"}, dims={"k": 10**11}), NUMBERS),
    "length of 10^12": (graph(MEAN | {"a[k]": "Normal(0, 1)"}, dims={"k": 10**12}), NUMBERS),
    "length of 10^30": (graph(MEAN | {"a[k]": "Normal(0, 1)"}, dims={"k": 10**30}), NUMBERS),
    "two lengths": (graph(MEAN | {"a[k, l]": "Normal(0, 1)"}, dims={"k": 10**6, "l": 10**6}), NUMBERS),
    "two lengths of numbers": (graph(MEAN | {"a[k, l]": "index(k) * index(l)"}, dims={"k": 10**6, "l": 10**6}), NUMBERS),
    "forty parents": (
        {"model": {"family": "bayes_net", "variables": PARENTS | {"c": BINARY | {"parents": list(PARENTS)}}}},
        STATES,
    ),
    "forty parents of a function": (
        {
            "model": {
                "family": "bayes_net",
                "variables": PARENTS | {"c": BINARY | {"parents": list(PARENTS), "function": "u"}},
            }
        },
        STATES,
    ),
    "forty parents of noisy_or": of_forty_parents(noisy_or={f"p{i}": 0.3 for i in range(40)}),
    "forty parents of noisy_or, learned": of_forty_parents(noisy_or={}),
    "forty parents of noisy_max": of_forty_parents(noisy_max={}),
    "forty parents of logit": of_forty_parents(logit={"intercept": 1}),
    "forty parents of 'or'": of_forty_parents(function="or"),
    "forty parents of a table": of_forty_parents(table={"default": 0.5}),
    "unknown structure of forty parents": (
        {"model": {"family": "bayes_net", "structure": {"score": "bdeu", "max_parents": 40}}},
        STATES,
    ),
    "members": (
        {"model": {"family": "learner", "learner": "random_forest", "target": "y", "n_estimators": 10**10}},
        NUMBERS,
    ),
    "members to choose from": (
        {"model": {"family": "learner", "learner": "bagging", "target": "y", "tune": {"n_estimators": [10, 10**10]}}},
        NUMBERS,
    ),
    "inducing points": (of_process(approximation="sparse", inducing=10**9), NUMBERS),
    "inducing points of fitc": (of_process(approximation="fitc", inducing=10**30), NUMBERS),
    "functions": (of_process(approximation="hsgp", functions=10**9), NUMBERS),
    "cores": (graph(MEAN, inference={"method": "nuts", "cores": 10**6}), NUMBERS),
    "cores of em": (of_two(method="em", cores=10**6), NUMBERS),
    "cores of gibbs": (of_two(method="gibbs", cores=10**6), NUMBERS),
    "chains": (graph(MEAN, inference={"method": "nuts", "chains": 10**6}), NUMBERS),
    "chains of gibbs": (of_two(method="gibbs", chains=10**6), NUMBERS),
    "draws of a path": (graph(MEAN, inference={"method": "pathfinder", "num_draws_per_path": 10**12}), NUMBERS),
    "draws of a step": (graph(MEAN, inference={"method": "pathfinder", "num_elbo_draws": 10**12}), NUMBERS),
    "draws of a gradient": (graph(MEAN, inference={"method": "advi", "obj_n_mc": 10**12}), NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize("work", [bl.check, fit])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_too_large_is_refused_by_forecast(name, work):
    content, table = TOO_LARGE[name]
    bl.check(bl.Model(model={"family": "graph", "nodes": MEAN}, inference={"method": "nuts"}), NUMBERS)  # imports
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(BayeslabError, match=_NUMBER) as caught:
        work(bl.Model(**content), table)
    assert caught.value.code in _FORECAST
    assert time.process_time() - begun < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize(
    "tampered", [{"draws": 10**12}, {"draws": 10**30}, {"chains": 10**6}, {"cores": 10**6}], ids=lambda t: "".join(t)
)
def test_options_of_a_run_are_forecast_again_where_it_is_resumed(tampered, tmp_path):
    """A run folder is a stranger's, as a model file is."""
    run = prepare(bl.Model(name="m", **of_two(method="gibbs", draws=20, tune=5)), NUMBERS, runs=tmp_path)
    file = run / "run.json"
    content = json.loads(file.read_text())
    content["options"] |= tampered
    file.write_text(json.dumps(content))
    name = next(iter(tampered))
    with refused(f"option.{'too-costly' if name == 'draws' else 'out-of-range'}", _NUMBER, where=f"inference.{name}"):
        bl.resume(run, progress=False)
    assert json.loads(file.read_text()) == content  # as it was found


@pytest.mark.parametrize("tampered", [{"draws": 10**12}, {"tune": 10**12}], ids=lambda t: "".join(t))
def test_draws_and_tuning_of_nuts_are_forecast_again_where_its_run_is_resumed(tampered, tmp_path):
    model = bl.Model(name="m", **graph(MEAN, inference={"method": "nuts", "draws": 20, "tune": 20}))
    file = prepare(model, NUMBERS, runs=tmp_path) / "run.json"
    content = json.loads(file.read_text())
    content["options"] |= tampered
    file.write_text(json.dumps(content))
    with refused("option.too-costly"):
        bl.resume(file.parent, progress=False)


def test_covariance_of_inducing_points_is_forecast(monkeypatch):
    model = bl.Model(**of_process(approximation="sparse", inducing=15))
    bl.check(model, NUMBERS)  # has nothing against it yet
    monkeypatch.setattr(memory, "total_memory", lambda: 8 * 15 * N - 1)
    with refused("engine.refused.too-costly"):
        bl.check(model, NUMBERS)


Y2 = {"y": NUMBERS["y"], "x": NUMBERS["x"], "c": STATES["c"], "p0": STATES["p0"]}
SIZED = {
    "mixture": ({"family": "mixture", "columns": ["y", "x"], "components": 3}, "gibbs"),
    "clusters": ({"family": "mixture", "columns": ["y"], "components": "dirichlet_process"}, "gibbs"),
    "labelled": ({"family": "mixture", "columns": ["y"], "components": 2, "labels": "c"}, "exact"),
    "bound": ({"family": "mixture", "columns": ["y"], "components": 2}, "variational"),
    "chain": ({"family": "hmm", "columns": ["y"], "states": 3}, "gibbs"),
    "features": ({"family": "latent_features", "columns": ["y", "x"], "kind": "binary", "features": 2}, "gibbs"),
    "process": ({"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(x, 1, 1)", "mean": "1 + x",
                 "priors": {"sigma": 1}}, "exact"),
    "observed chain": ({"family": "hmm", "columns": ["c"], "emission": "observed", "states": ["u", "v"]}, "exact"),
    "net": ({"family": "bayes_net", "variables": {"c": BINARY, "p0": BINARY | {"parents": ["c"]}, "y": {
        "parents": ["p0", "x"], "linear_gaussian": {}}, "x": {"linear_gaussian": {}}}}, "exact"),
    "graph": ({"family": "graph", "nodes": MEAN | {"a[obs_id]": "Normal(0, 1)"}}, "exact"),
}  # fmt: skip


SLOW = {"clusters": [pytest.mark.slow(why="compiles")]}


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, [])) for n in SIZED])
def test_forecasts_count_the_numbers_of_a_draw(name, monkeypatch):
    """As many as results have: rows, states and components; a byte less of memory is refused before any is drawn."""
    section, method = SIZED[name]
    model = bl.Model(name="m", model=section)
    options = {"draws": 6, "chains": 2} | ({"tune": 2} if method == "gibbs" else {})
    fit = bl.fit(model, Y2, method, runs=None, progress=False, seed=1, **options)
    numbers = sum(int(np.prod(v.shape[2:])) for v in fit.posterior.data_vars.values())
    assert numbers > 1
    each = 2 * 8 * 2 * numbers
    monkeypatch.setattr(memory, "total_memory", lambda: each * 6 - 1)
    with refused("option.too-costly", rf"\b6\b.*\b2\b.*\b{numbers}\b.*5", where="inference.draws"):
        bl.fit(model, Y2, method, runs=None, progress=False, seed=1, **options)


def test_utility_of_forty_parents_is_refused_by_forecast():
    diagram = {
        "family": "bayes_net",
        "variables": {p: BINARY | {"table": 0.5} for p in PARENTS},
        "decisions": {"d": {"options": ["a", "b"]}},
        "utilities": {"u": {"parents": ["d", *PARENTS], "table": {"default": 0}}},
    }
    with refused("model.too-costly", _NUMBER, where="model.utilities.u.parents"):
        bl.check(bl.Model(model=diagram))


def test_noisy_or_by_variables_between_is_the_same_distribution():
    """What the refusal of many parents advises."""
    causes = {f"p{i}": BINARY | {"table": 0.1 + 0.2 * i} for i in range(4)}
    strengths = {"p0": 0.3, "p1": 0.9, "p2": 0.5, "p3": 0.2}

    def noisy(given, name):
        off = dict.fromkeys([*given, name], "v")
        return BINARY | {"parents": list(given), "noisy_or": given, "absent": off}

    whole = causes | {"c": noisy(strengths, "c")}
    first, second = ({p: strengths[p] for p in pair} for pair in (("p0", "p1"), ("p2", "p3")))
    split = causes | {"m1": noisy(first, "m1"), "m2": noisy(second, "m2"), "c": noisy({"m1": 1, "m2": 1}, "c")}
    for given in ({"c": "u"}, {"c": "u", "p1": "v"}):
        models = (bl.Model(model={"family": "bayes_net", "variables": variables}) for variables in (whole, split))
        one, two = (bl.network(model).query(given) for model in models)
        assert np.isclose(one.log_evidence, two.log_evidence, rtol=1e-12)
        for p in causes:
            assert one.marginals[p] == pytest.approx(two.marginals[p], rel=1e-12)


def test_draws_from_a_prior_are_forecast_too():
    with refused("option.too-costly"):
        bl.simulate(bl.Model(**graph({"m": "Normal(0, 1)"})), draws=10**12)


def test_a_model_without_data_is_forecast_by_check_as_by_simulate():
    model = bl.Model(**graph({"a[k, l]": "Normal(0, 1)"}, dims={"k": 10**6, "l": 10**6}))
    for work in (bl.check, bl.simulate):
        with refused("model.too-costly", where="model.nodes.a[k, l]"):
            work(model)


@pytest.mark.slow(why="large")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_the_levels_of_a_long_dimension_are_counted_not_listed(tmp_path):
    """A list of twenty million integers takes 0.8 GB."""
    file = tmp_path / "m.yaml"
    nodes = "{a: 'Normal(0, 1)', 'b[k]': 'Normal(a, 1)'}"
    file.write_text(f"bayeslab: 1\nname: m\ndims: {{k: 20000000}}\nmodel: {{family: graph, nodes: {nodes}}}\n")
    # The kernel's own count: resource's maximum is inherited from the process that starts this one.
    code = (
        "import sys\nfrom bayeslab.cli import main\ntry:\n    main(['check', sys.argv[1]])\nexcept SystemExit as e:\n"
    )
    code += "    lines = open('/proc/self/status').read().splitlines()\n"
    code += "    print(e.code, next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert "20000000: 0 to 19999999" in done.stdout
    status, size = map(int, done.stdout.splitlines()[-1].split())
    assert status == 0 and size < 700_000


def test_what_fits_passes(monkeypatch):
    model = bl.Model(**graph(MEAN, inference={"method": "exact", "draws": 1000, "chains": 2}))
    needed = 2 * 8 * 2 * 1000 * 1
    monkeypatch.setattr(memory, "total_memory", lambda: needed)
    assert bl.check(model, NUMBERS) is not None
    monkeypatch.setattr(memory, "total_memory", lambda: needed - 1)
    with refused("option.too-costly"):
        bl.check(model, NUMBERS)


def test_memory_is_that_of_the_container(tmp_path, monkeypatch):
    for text, wanted in (("1000000\n", 1_000_000), ("max\n", memory.total_memory())):
        file = tmp_path / "memory.max"
        file.write_text(text)
        monkeypatch.setattr(memory, "LIMITS", (file, tmp_path / "none"))
        assert memory.total_memory() == wanted


# ------------------------------------------------------------------------------------ long graphs


def steps(call) -> int:
    """Lines of Python run: what a call costs, whatever else the machine does."""
    import sys

    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("node", ["Normal(x{}, 1)", "x{} + 1", "Normal(x0, 1)"])
def test_checking_a_graph_costs_in_proportion_to_its_nodes(node):
    def cost(n: int) -> int:
        texts = {"x0": "Normal(0, 1)"} | {f"x{i}": node.format(i - 1) for i in range(1, n)}
        return steps(lambda: check_nodes(nodes_of(texts), ("row",), {"y"}))

    assert cost(160) < 2.5 * cost(80)


@pytest.mark.slow(why="statistical")
def test_a_long_chain_of_computed_nodes_is_no_crash():
    nodes = (
        {"x0": "Normal(0, 1)"} | {f"x{i}": f"x{i - 1} + 1" for i in range(1, 600)} | {"y[obs_id]": "Normal(x599, 1)"}
    )
    bl.check(bl.Model(**graph(nodes)), NUMBERS)


@pytest.mark.parametrize(
    "spec",
    [
        {"family": "mixture", "columns": ["y"], "components": 2, "component": "gaussian"},
        {"family": "hmm", "states": 2, "emission": "gaussian", "columns": ["y"]},
        {"family": "learner", "learner": "linear", "target": "y", "inputs": ["t"]},
        {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(t)"},
    ],
    ids=lambda spec: spec["family"],
)
def test_numbers_whose_squares_are_zero_are_refused(spec):
    rng = np.random.default_rng(0)
    table = {"y": 1e-200 * np.append(rng.normal(-3, 1, 10), rng.normal(3, 1, 10)), "t": np.arange(20.0)}
    with refused("data.too-large", "'y'.*200"):
        bl.fit(bl.Model(model=spec), table, runs=None, progress=False)


# ------------------------------------------------------------------------------------ starting values


@pytest.mark.parametrize(
    ("value", "kind"),
    [("abc", "wrong-type"), ([1, 2], "wrong-shape"), (float("nan"), "not-finite"), (-1, "out-of-range")],
    ids=str,
)
@pytest.mark.parametrize("method", ["nuts", "map"])
def test_starting_values_are_checked_before_the_work(value, kind, method):
    nodes = {"s": "HalfNormal(1)", "y[obs_id]": "Normal(0, s)"}
    model = bl.Model(**graph(nodes, inference={"method": method, "initvals": {"s": value}}))
    with refused(f"option.{kind}", rf"'s'.*{re.escape(str(value))}", where="inference.initvals.s"):
        bl.check(model, NUMBERS)
    bl.check(model.model_copy(update={"inference": {"method": method, "initvals": {"s": 2}}}), NUMBERS)


# ------------------------------------------------------------------------------------ networks in Python


def test_arguments_of_networks_and_learners_are_refused_in_one_line():
    table = {"a": STATES["p0"], "b": STATES["p1"]}
    learned = bl.learn(table)
    net = learned.network()
    for call, (code, match) in {
        lambda: net.sample(10**12): ("option.too-costly", "^n = 1,000,000,000,000.*2"),
        lambda: net.sample(1.5): ("option.wrong-type", "^n .*1.5"),
        lambda: net.sample(-1): ("option.out-of-range", "^n .*-1"),
        lambda: net.sample(3, seed=-1): ("option.out-of-range", "seed.*-1"),
        lambda: net.query(["a"]): ("evidence.wrong-type", "given"),
        lambda: bl.learn(table, "annealing", seed=-1): ("option.out-of-range", "seed.*-1"),
        lambda: learned.bootstrap(10**9): ("option.out-of-range", "samples.*1000000000"),
        lambda: learned.bootstrap(2.5): ("option.wrong-type", "samples.*2.5"),
        lambda: learned.bootstrap(2, seed=-1): ("option.out-of-range", "seed.*-1"),
    }.items():
        with refused(code, match):
            call()


def test_the_default_search_is_refused_for_many_columns_and_named_searches_are_not():
    rng = np.random.default_rng(1)
    wide = {f"v{i}": rng.integers(0, 2, 12).astype(str) for i in range(700)}
    begun = time.perf_counter()
    with refused("engine.refused.too-costly", match="700 variables.*reinsertion"):
        bl.learn(wide)
    assert time.perf_counter() - begun < 10
    narrow = {name: wide[name] for name in list(wide)[:30]}
    assert bl.learn(narrow, method="tabu", reinsertion=False).graph.number_of_nodes() == 30


def test_tables_of_a_network_that_fit_one_by_one_are_refused_together(tmp_path):
    """A model file and a network file of forty variables, each with all before it as its parents: 2⁴⁰ numbers."""
    names = [f"v{k}" for k in range(40)]
    spec = {name: {"states": ["y", "n"], "parents": names[:k]} for k, name in enumerate(names)}
    model = {"family": "bayes_net", "variables": spec}
    with refused("model.too-costly", "and the tables before it"):
        bl.check(bl.Model(model=model), {name: ["y", "n"] for name in names})
    variable = "variable {0} {{ type discrete [2] {{ y, n }}; }}\n"
    table = "probability ({0} | {1}) {{ default 0.1, 0.9; }}\n"
    blocks = [variable.format(name) + table.format(name, ", ".join(names[:k])) for k, name in enumerate(names) if k]
    first = variable.format("v0") + "probability (v0) { table 0.1, 0.9; }\n"
    (tmp_path / "large.bif").write_text("network n {}\n" + first + "".join(blocks))
    with refused("model.too-costly", "the tables up to that of 'v2", where=str(tmp_path / "large.bif")):
        bl.network(tmp_path / "large.bif")
