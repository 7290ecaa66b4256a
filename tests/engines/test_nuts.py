"""NUTS judges its own steps: it shortens them once by itself, and a chain that has not seen the tails is not trusted."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab import fitting
from bayeslab.engines import nuts
from bayeslab.engines.toolbox import nutpie_adapter
from bayeslab.errors import RunError
from bayeslab.job import Job
from bayeslab.posterior.contract import posterior_of
from bayeslab.posterior.density import Density
from bayeslab.posterior.groups import on_the_way, remedies
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.progress import ChainState, Progress
from tests.refusals import refused

SCHOOLS = pd.DataFrame(
    {
        "school": list("ABCDEFGH"),
        "effect": [28.0, 8, -3, 7, -1, 1, 18, 12],
        "se": [15.0, 10, 16, 11, 9, 11, 10, 18],
    }
)
# With few groups that hardly differ a centred hierarchy is a funnel.
CENTRED = {"mu": "Normal(0, 5)", "tau": "HalfCauchy(5)", "theta[school]": "Normal(mu, tau)"}
APART = {"mu": "Normal(0, 5)", "tau": "HalfCauchy(5)", "z[school]": "Normal(0, 1)", "theta[school]": "mu + tau * z"}
OUTCOME = {"effect[school]": "Normal(theta, se)"}
# BUGS volume II, air: classes of exposure to NO2, of which a calibration study says how badly they are measured.
AIR = pd.DataFrame({"level": ["low", "middle", "high"], "z": [10.0, 30, 50], "n": [48, 34, 21], "ill": [21, 20, 15]})
ERRORS = {
    "a": "Normal(0, 31.62)",
    "b": "Normal(0, 31.62)",
    "x[level]": "Normal(4.48 + 0.76 * z, 9.0078)",
    "ill[level]": "Binomial(n, logit_p=a + b * x)",
}


def graph(nodes, rows, **inference):
    return bl.Model(name="m", data={"rows": rows}, model={"family": "graph", "nodes": nodes}, inference=inference)


def job(nodes):
    model = graph(nodes, "school")
    return Job(posterior_of(model, fitting.check(model, SCHOOLS)), None, 1, Progress(None))


def finding(fit, check):
    return next((f for f in fit.verdict.findings if f.check == check), None)


def same(a, b):
    return all(np.array_equal(a.posterior[n], b.posterior[n]) for n in a.posterior.data_vars)


def machine_density(one):
    return MachineDensity(one.posterior.machine_model(), lambda: one.graph)


@pytest.mark.slow(why="compiles")
def test_nodes_on_the_way_and_hierarchies_are_known():
    centred, apart = job(CENTRED | OUTCOME), job(APART | {"pooled": "exp(mu)"} | OUTCOME)
    for density in (lambda one: Density.of(one.graph), machine_density):
        assert remedies(centred, density(centred)).centred == ("theta",)
        assert remedies(apart, density(apart)).centred == ()
        assert on_the_way(centred, density(centred)) == frozenset()
        assert on_the_way(apart, density(apart)) == {"theta"}


RATS = {
    "level_mean": "Normal(0, 1000)",
    "growth_mean": "Normal(0, 1000)",
    "precision": "Gamma(0.001, 0.001)",
    "precision_level": "Gamma(0.001, 0.001)",
    "precision_growth": "Gamma(0.001, 0.001)",
    "level[rat]": "Normal(level_mean, 1 / sqrt(precision_level))",
    "growth[rat]": "Normal(growth_mean, 1 / sqrt(precision_growth))",
    "weight[weighing]": "Normal(level[rat] + growth[rat] * (day - 22), 1 / sqrt(precision))",
}


@pytest.mark.slow(why="compiles")
def test_a_longer_warm_up_is_taken_once_by_itself(monkeypatch):
    """A chain begins where all rats are alike, and stays there for longer than a warm-up of a hundred draws."""
    rng = np.random.default_rng(0)
    rat, day = np.repeat(np.arange(30), 5), np.tile([8.0, 15, 22, 29, 36], 30)
    line = rng.normal(242, 14, 30)[rat] + rng.normal(6.2, 0.5, 30)[rat] * (day - 22)
    data = {"rat": [f"r{k:02}" for k in rat], "day": day, "weight": line + rng.normal(0, 6, 150)}

    def one(seed, **options):
        model = graph(RATS, "weighing", draws=300, target_accept=0.9, **options)
        return bl.fit(model, data, method="nuts", seed=seed, progress=False, runs=None)

    told = (one(seed, tune=100) for seed in range(1, 30))
    late = next(fit for fit in told if any(each.check == "warm-up" for each in fit.verdict.findings))
    assert late.verdict.status == finding(late, "warm-up").status == "fail"
    monkeypatch.setattr(nuts, "_TUNE", 100)
    again = one(late.seed)
    assert finding(again, "tune").message.startswith(
        "doubled from 100 to 200, tuned and drawn again; with 100: the first"
    )
    assert same(again, one(late.seed))


@pytest.mark.slow(why="compiles")
def test_target_accept_is_raised_once_by_itself(tmp_path):
    """The same draws on any number of cores, and from a run that lost chains of the second time."""
    model = graph(CENTRED | OUTCOME, "school", draws=300, tune=300)
    fit = bl.fit(model, SCHOOLS, method="nuts", seed=5, progress=False, runs=tmp_path, name="one", cores=1)
    raised = finding(fit, "target_accept")
    assert raised.status == "pass" and raised.value == pytest.approx(0.95)
    assert raised.message.startswith("raised from 0.8 to 0.95, tuned and drawn again; with 0.8: ")
    assert "'theta' non-centred" in str(fit.verdict)
    assert same(fit, bl.fit(model, SCHOOLS, method="nuts", seed=5, progress=False, runs=None, cores=2))
    for lost in ("chain-1025.npz", "chain-1027.npz"):
        (tmp_path / "one" / "chains" / lost).unlink()
    info = json.loads((tmp_path / "one" / "run.json").read_text())
    (tmp_path / "one" / "run.json").write_text(json.dumps(info | {"status": "interrupted"}))
    resumed = bl.resume(tmp_path / "one", progress=False)
    assert same(resumed, fit) and resumed.verdict == fit.verdict
    asked = bl.fit(model, SCHOOLS, method="nuts", seed=5, progress=False, runs=None, target_accept=0.8)
    assert finding(asked, "target_accept") is None and not same(asked, fit)


@pytest.mark.slow(why="compiles")
def test_right_answers_do_not_fail():
    """Non-centred the model has a divergence here and there; tau by quadrature, the effects integrated out."""
    mu, angle = np.linspace(-25, 30, 601)[:, None], np.linspace(1e-4, np.pi / 2 - 1e-3, 1501)
    tau = 5 * np.tan(angle)  # equal steps of the angle are equally probable under the half-Cauchy
    log_p = -0.5 * (mu / 5) ** 2 + 0 * tau
    for y, se in zip(SCHOOLS["effect"], SCHOOLS["se"], strict=True):
        log_p = log_p - 0.5 * (y - mu) ** 2 / (se**2 + tau**2) - 0.5 * np.log(se**2 + tau**2)
    weights = np.exp(log_p - log_p.max()).sum(axis=0)
    exact = float(tau @ weights / weights.sum())
    for seed in (1, 2, 3):
        fit = bl.fit(graph(APART | OUTCOME, "school"), SCHOOLS, method="nuts", seed=seed, progress=False, runs=None)
        assert fit.verdict.status == "pass", str(fit.verdict)
        row = fit.summary().loc["tau"]
        assert abs(row["mean"] - exact) < 4 * row["mcse_mean"]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("accept", [None, 0.95])
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_chain_that_has_not_seen_the_tails_is_not_trusted(seed, accept):
    """The sd of a is 2.50 by integration, and chains find 0.8 to 2: they seldom reach the tails where b is large."""
    model = graph(ERRORS, "level")
    fit = bl.fit(model, AIR, method="nuts", seed=seed, progress=False, runs=None, target_accept=accept)
    assert finding(fit, "tails") is not None and fit.verdict.status != "pass", str(fit.verdict)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("seed", [98, 149, 219, 274])
def test_a_tail_that_few_rejected_steps_show_is_not_trusted(seed):
    """Chains end before the tail; few steps are rejected there, so only integration shows how much lies beyond."""
    fit = bl.fit(graph(ERRORS, "level"), AIR, method="nuts", seed=seed, progress=False, runs=None)
    assert finding(fit, "tails") is not None and fit.verdict.status != "pass", str(fit.verdict)
    as_asked = bl.fit(graph(ERRORS, "level"), AIR, "nuts", seed=seed, progress=False, runs=None, target_accept=0.8)
    assert finding(as_asked, "tails") is not None, str(as_asked.verdict)


@pytest.mark.parametrize("heard", ["is_finished", "wait"])
def test_a_chain_that_finds_no_point_to_start_from_is_an_error_in_one_line(heard):
    """Whether the sampler says so while one asks or while one waits is a matter of time."""
    said = "All initialization points failed\n\nCaused by:\n    bad initial gradient\n\n    Stack backtrace:\n  0: <unknown>"

    class Sampler:
        @property
        def is_finished(self):
            return self._said()

        def wait(self):
            return self._said()

        def _said(self):
            raise RuntimeError(said)

    chain = nuts.Chain(3, Sampler(), ChainState(10, 5))
    listen = nuts.finished if heard == "is_finished" else lambda chain: nuts.results_of(chain, abort=False)
    with refused("run.no-start", "3"):
        listen(chain)


class PanicException(BaseException):
    """As PyO3 raises it."""


class Panicking:
    """A sampler that has panicked."""

    def _panic(self, *_):
        raise PanicException(
            "called `Result::unwrap()` on an `Err` value: Could not initialize state because of bad initial gradient:"
            " Invalid initial point\n\nStack backtrace:\n   0: <unknown>\n"
        )

    is_finished = wait = take_results = abort = _panic

    def is_empty(self, *, ignore_error):
        return True


def test_a_panic_of_the_sampler_is_an_error_in_one_line():
    chain = nuts.Chain(3, nutpie_adapter.Chain(Panicking(), ()), ChainState(10, 5))
    for call in (nuts.finished, lambda c: nuts.results_of(c, abort=False), lambda c: nuts.results_of(c, abort=True)):
        with pytest.raises(RunError, match=r"chain 3 found no point to start from") as caught:
            call(chain)
        assert "\n" not in str(caught.value)
    chain.sampler.cancel()
