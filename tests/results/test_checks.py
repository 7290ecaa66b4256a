"""The verdict against draws whose faults are known: closed forms, and ArviZ's scalar code as the twin."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.signal import lfilter

from bayeslab.labelled import of_dataset
from bayeslab.results import checks, convergence
from bayeslab.results.checks import Remedies, judge_mcmc, point_verdict
from bayeslab.results.late_chains import late
from bayeslab.results.structure_checks import mean_error
from bayeslab.results.tails import heavy, stays, tail_shapes
from bayeslab.results.verdict import Finding, Verdict

CHAINS, DRAWS = 4, 1000


def tree(posterior, stats=None, coords=None):
    """A result: variables as (chain, draw, *shape) arrays, or (dims, array)."""

    def dataset(variables):
        named = {}
        for name, value in variables.items():
            dims, values = value if isinstance(value, tuple) else ((), np.asarray(value))
            dims = dims or tuple(f"{name}_dim_{i}" for i in range(values.ndim - 2))
            named[name] = (("chain", "draw", *dims), values)
        used = {dim for dims, _ in named.values() for dim in dims}
        return xr.Dataset(named, coords={k: v for k, v in (coords or {}).items() if k in used})

    groups = {"posterior": dataset(posterior)}
    if stats is not None:
        groups["sample_stats"] = dataset(stats)
    return {name: of_dataset(group) for name, group in groups.items()}


def one(verdict, check):
    found = [finding for finding in verdict.findings if finding.check == check]
    assert len(found) == 1, f"{check}: {[f.check for f in verdict.findings]}"
    return found[0]


def ar1(rng, phi, shape):
    """Stationary AR(1) chains with variance 1 along the last axis."""
    noise = rng.normal(size=shape) * math.sqrt(1 - phi**2)
    noise[..., 0] /= math.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], noise, axis=-1)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


# Statistics


def _kinds(rng, n_chains, n_draws):
    shape = (15, n_chains, n_draws)
    alternate = np.where(np.arange(n_draws) % 2, 1.0, -1.0)
    return {
        "normal": rng.normal(size=shape),
        "walk": np.cumsum(rng.normal(size=shape), axis=-1),
        "cauchy": rng.standard_cauchy(size=shape),
        "apart": rng.normal(size=shape) + 5 * rng.normal(size=(15, n_chains, 1)),
        "antithetic": alternate * abs(rng.normal(size=shape)),
        "counts": rng.poisson(2.0, size=shape).astype(float),
        "rare": (rng.random(shape) < 0.03).astype(float),
        "repeats": np.repeat(rng.normal(size=shape), 3, axis=-1)[..., :n_draws],
    }


@pytest.mark.parametrize(("n_chains", "n_draws"), [(4, 200), (2, 4), (3, 5), (2, 7), (4, 8), (5, 33), (3, 101)])
def test_statistics_equal_arviz(rng, n_chains, n_draws):
    twin = pytest.importorskip("arviz_stats.base").array_stats
    for kind, draws in _kinds(rng, n_chains, n_draws).items():
        draws = draws[~convergence.is_constant(draws)]
        if n_draws < 30 and kind in ("counts", "rare"):
            continue  # sums of few equal autocorrelations are 0 up to rounding, and end Geyer's sum or not
        with np.errstate(all="ignore"):
            r_hat, bulk, tail = convergence.r_hat_and_ess(draws)
            axes = {"chain_axis": 1, "draw_axis": 2}
            expected = (
                twin.rhat(draws, **axes),
                twin.ess(draws, **axes, method="bulk"),
                twin.ess(draws, **axes, method="tail", prob=(0.05, 0.95)),
            )
        for name, ours, theirs in zip(("r_hat", "bulk", "tail"), (r_hat, bulk, tail), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, err_msg=f"{name} of {kind}")


@pytest.mark.parametrize("offset", [1e9, -1e9])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_diagnostics_do_not_depend_on_where_zero_is(rng, n_chains, offset):
    """Draws far from zero, and the same draws with the offset taken off again, which rounds nothing."""
    for kind, draws in _kinds(rng, n_chains, 250).items():
        far = offset + draws
        near = far - offset
        judged = ~convergence.is_constant(far) & ~convergence.is_constant(near)
        (r_hat, *sizes), (expected, *others) = (convergence.r_hat_and_ess(x[judged]) for x in (far, near))
        # The two draws beside the median are as far from it: rounding says which is nearer, and swaps two ranks.
        np.testing.assert_allclose(r_hat, expected, atol=1 / near[0].size, err_msg=kind)
        np.testing.assert_allclose(sizes, others, rtol=1e-9, err_msg=kind)
        one, other = (convergence.ess(convergence.split(x[judged])) for x in (far, near))
        np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=kind)
        one, other = (mean_error(x[judged])[0] for x in (far, near))
        np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=kind)
    energies = [convergence.e_bfmi(x) for x in (far[0], near[0])]
    np.testing.assert_allclose(*energies, rtol=1e-6)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_ess_of_ar1_is_the_known_one(rng, phi):
    n_draws = 5000
    draws = ar1(rng, phi, (30, CHAINS, n_draws))
    known = CHAINS * n_draws * (1 - phi) / (1 + phi)
    estimates = convergence.r_hat_and_ess(draws)[1]
    assert np.mean(estimates) == pytest.approx(known, rel=0.08)
    assert np.all(abs(estimates / known - 1) < 0.35)


def test_r_hat_of_chains_that_never_meet_is_the_known_one(rng):
    """Two chains apart have half-normal scores: variance 1 - 2/pi, means ± sqrt(2/pi)."""
    draws = rng.normal(size=(1, 2, 4000)) + 100 * np.arange(2)[:, None]
    within, between = 1 - 2 / math.pi, 4 / 3 * 2 / math.pi
    assert convergence.r_hat_and_ess(draws)[0][0] == pytest.approx(math.sqrt(1 + between / within), rel=0.01)


def test_r_hat_sees_chains_that_differ_in_scale_only(rng):
    draws = rng.normal(size=(1, CHAINS, DRAWS)) * np.array([1, 1, 1, 5.0])[:, None]
    assert convergence.r_hat_and_ess(draws)[0][0] > 1.2


def test_e_bfmi_of_ar1_energies_is_the_known_one(rng):
    """E(difference²) = 2 (1 - phi) of the variance."""
    for phi in (0.0, 0.9, 0.97):
        values = convergence.e_bfmi(ar1(rng, phi, (CHAINS, 20_000)))
        assert values == pytest.approx(2 * (1 - phi), rel=0.15)


def test_batches_do_not_change_the_numbers(rng, monkeypatch):
    posterior = {f"v{i}": rng.normal(size=(2, 50)) + i for i in range(5)}
    posterior["a"] = rng.normal(size=(2, 50, 3, 4)) + np.arange(12).reshape(3, 4)
    posterior["k"] = rng.poisson(3, size=(2, 50, 2))
    variables = convergence.blocks(tree(posterior)["posterior"])
    means = convergence.in_batches(variables, lambda draws: draws.mean(axis=(1, 2)))
    np.testing.assert_allclose(means[:5], [posterior[f"v{i}"].mean() for i in range(5)])
    np.testing.assert_allclose(means[5:17], posterior["a"].mean(axis=(0, 1)).ravel())
    whole = convergence.convergence(variables)
    for room in (1, 2, 3, 7):
        monkeypatch.setattr(convergence, "BATCH", room * 100)
        sizes = [sum(piece.shape[-1] for piece in batch) for batch in convergence.batches_of(variables)]
        assert len(sizes) == math.ceil(19 / room)
        assert sum(sizes) == 19
        assert max(sizes) <= room
        parts = convergence.convergence(variables)
        np.testing.assert_array_equal(parts.ess_bulk, whole.ess_bulk)
        np.testing.assert_array_equal(parts.r_hat, whole.r_hat)
        np.testing.assert_array_equal(parts.still, whole.still)


# The verdict


def test_independent_draws_pass(rng):
    stats = {
        "diverging": np.zeros((CHAINS, DRAWS), bool),
        "energy": rng.normal(size=(CHAINS, DRAWS)),
        "tree_depth": rng.integers(1, 5, size=(CHAINS, DRAWS)),
        "reached_max_treedepth": np.zeros((CHAINS, DRAWS), bool),
        "acceptance_rate": rng.beta(8, 2, size=(CHAINS, DRAWS)),
        "lp": rng.normal(size=(CHAINS, DRAWS)),
    }
    data = tree({"a": rng.normal(size=(CHAINS, DRAWS, 20)), "k": rng.poisson(3, (CHAINS, DRAWS))}, stats)
    verdict = judge_mcmc(data, target_accept=0.8)
    assert verdict.status == "pass"
    checked = {finding.check for finding in verdict.findings}
    assert checked == {"chains", "R-hat", "bulk ESS", "tail ESS", "divergences", "E-BFMI", "tree depth"}
    assert not any(finding.advice for finding in verdict.findings)
    assert "all 21 quantities ≤ 1.01" in one(verdict, "R-hat").message


@pytest.mark.slow(why="statistical")
def test_ten_thousand_independent_quantities_pass(rng):
    data = tree({"a": rng.normal(size=(CHAINS, 250, 100, 100))})
    verdict = judge_mcmc(data)
    assert one(verdict, "bulk ESS").status == one(verdict, "tail ESS").status == "pass"
    assert "10,000 quantities" in one(verdict, "bulk ESS").message


def test_a_quantity_that_differs_in_the_middle_draw_alone_has_no_r_hat():
    """Halves of an odd number of draws leave the middle one out."""
    x = np.zeros((1, 9))
    x[0, 4] = 1.0
    finding = one(judge_mcmc(tree({"x": x})), "R-hat")
    assert finding.status == "warn" and finding.value is None


def test_a_shifted_chain_fails_and_is_named(rng):
    a = rng.normal(size=(CHAINS, DRAWS, 3))
    a[2, :, 1] += 4
    verdict = judge_mcmc(tree({"b": a[..., 0], "a": (("county",), a)}, coords={"county": ["X", "AITKIN", "Z"]}))
    finding = one(verdict, "R-hat")
    assert verdict.status == finding.status == "fail"
    assert finding.where == "a[AITKIN]"
    assert finding.value > 1.3
    assert "1 of 4 quantities" in finding.message
    assert "different places" in finding.message
    assert "Ordered" in finding.advice
    assert "R-hat" in one(verdict, "bulk ESS").advice


@pytest.mark.parametrize("rewritable", [True, False])
@pytest.mark.parametrize("tempered", [True, False])
def test_chains_in_different_modes_are_told_of_smc_where_it_can_take_the_model(rng, rewritable, tempered):
    x = rng.normal(size=(CHAINS, DRAWS))
    x[2] += 9
    able = Remedies(rewritable=rewritable, tempered=tempered)
    advice = one(judge_mcmc(tree({"x": x}), remedies=able), "R-hat").advice
    assert advice.startswith("take method smc, ") == tempered
    assert ("Ordered" in advice) == rewritable
    assert advice.endswith("give priors that tell the modes apart")


def test_a_slightly_shifted_chain_warns(rng):
    x = rng.normal(size=(CHAINS, 4000))
    x[0] += 0.35
    finding = one(judge_mcmc(tree({"x": x})), "R-hat")
    assert 1.01 < finding.value < 1.05
    assert finding.status == "warn"


def test_slow_chains_are_not_called_several_modes(rng):
    finding = one(judge_mcmc(tree({"x": np.cumsum(rng.normal(size=(CHAINS, DRAWS)), axis=1)})), "R-hat")
    assert finding.status == "fail"
    assert finding.value > checks.APART
    assert "different places" not in finding.message
    assert "run longer" in finding.advice


def test_coordinates_of_the_sampler_have_no_private_names(rng):
    """They are judged, since the others follow from them; users never wrote ``_z``."""
    group = xr.Dataset({"_z": (("chain", "draw", "k"), rng.normal(size=(4, 500, 3)))})
    words = " ".join(finding.message for finding in judge_mcmc({"posterior": of_dataset(group)}).findings)
    assert "internal z[" in words and "_z" not in words


@pytest.mark.parametrize("axis", [2, 3])
def test_label_switching_is_recognised(rng, axis):
    mu = rng.normal(size=(CHAINS, DRAWS, 3, 2)) * 0.1 + np.array([-3, 0, 5])[:, None]
    mu[1], mu[3] = mu[1][:, [1, 0, 2]], mu[3][:, [2, 0, 1]]
    mu = np.swapaxes(mu, 2, axis)
    finding = one(judge_mcmc(tree({"tau": rng.normal(size=(CHAINS, DRAWS)), "mu": mu})), "R-hat")
    assert "label switching: chains hold the same values of mu" in finding.message
    assert "Ordered" in finding.advice


def test_advice_on_label_switching_names_what_can_be_ordered(rng):
    """Shares sum to one: users order means or rates instead."""
    share = rng.dirichlet([30, 60], size=(CHAINS, DRAWS))
    mu = rng.normal(size=(CHAINS, DRAWS, 2)) + np.array([-3, 5])
    share[1], mu[1] = share[1][:, ::-1], mu[1][:, ::-1]
    assert "distribution of mu" in one(judge_mcmc(tree({"share": share, "mu": mu})), "R-hat").advice
    assert "distribution of share" in one(judge_mcmc(tree({"share": share})), "R-hat").advice


@pytest.mark.parametrize(("phi", "status"), [(0.5, "pass"), (0.9, "warn"), (0.99, "fail")])
def test_ess_grades(rng, phi, status):
    data = tree({"good": rng.normal(size=(CHAINS, DRAWS)), "slow": ar1(rng, phi, (CHAINS, DRAWS))})
    verdict = judge_mcmc(data)
    finding = one(verdict, "bulk ESS")
    assert finding.status == status
    assert finding.where == "slow"
    assert one(verdict, "tail ESS").where == "slow"
    assert bool(finding.advice) == (status != "pass")


def test_ess_advice_says_how_many_draws(rng):
    finding = one(judge_mcmc(tree({"slow": ar1(rng, 0.9, (CHAINS, DRAWS))})), "bulk ESS")
    assert f"{math.ceil(400 / finding.value)} times as many" in finding.advice
    assert f"{100 / math.sqrt(finding.value):.0f}% of its sd" in finding.message


@pytest.mark.parametrize(("n", "status"), [(0, "pass"), (4, "pass"), (5, "warn"), (400, "warn"), (401, "fail")])
def test_divergences(rng, n, status):
    diverging = np.zeros((CHAINS, DRAWS), bool)
    diverging[2, :n] = True
    data = tree({"x": rng.normal(size=(CHAINS, DRAWS))}, {"diverging": diverging}, {"chain": [0, 1, 2, 3]})
    finding = one(judge_mcmc(data, target_accept=0.95), "divergences")
    assert (finding.status, finding.value) == (status, n)
    if n:
        assert finding.where == "chain 2"
    if status != "pass":
        assert "target_accept to 0.99" in finding.advice


def test_chains_all_of_whose_draws_diverge_are_judged(rng):
    diverging = np.ones((CHAINS, DRAWS), bool)
    data = tree({"x": rng.normal(size=(CHAINS, DRAWS))}, {"diverging": diverging})
    assert one(judge_mcmc(data, target_accept=0.95), "divergences").status == "fail"


def test_a_chain_that_comes_late_fails(rng):
    """The first draws are from elsewhere; R-hat passes, and the sd is twice what it should be."""
    draws = rng.normal(size=(CHAINS, DRAWS))
    draws[1, :40] += 18
    finding = one(judge_mcmc(tree({"x": draws})), "warm-up")
    assert finding.status == "fail"
    assert finding.value == 40
    assert draws.std() > 1.9


@pytest.mark.parametrize("kind", ["normal", "cauchy", "slow", "late by chance"])
def test_chains_that_are_where_the_others_are_have_no_finding_of_warm_up(rng, kind):
    """A thousand quantities of each kind: heavy tails, slow chains, and a few first draws outside."""
    draws = ar1(rng, 0.98 if kind == "slow" else 0.3, (1000, CHAINS, DRAWS))
    if kind == "cauchy":
        draws = np.tan(np.pi * (stats.norm.cdf(draws) - 0.5))
    if kind == "late by chance":
        draws[:, 0, :5] += 12
    assert not late(draws).any()


@pytest.mark.parametrize(("slow", "status"), [(0.98, "fail"), (0.0, "warn")])
def test_divergences_fail_where_they_begin_in_one_tail(rng, slow, status):
    """Few as they are: ten of the draws after the lowest fortieth of one of thirty quantities, the slow one."""
    x = rng.normal(size=(CHAINS, DRAWS, 30))
    x[:, :, 7] = ar1(rng, slow, (CHAINS, DRAWS))
    low = np.argwhere(x[:, :-1, 7] < np.quantile(x[:, :, 7], 0.025))
    chosen = low[rng.choice(len(low), 10, replace=False)]
    diverging = np.zeros((CHAINS, DRAWS), bool)
    diverging[chosen[:, 0], chosen[:, 1] + 1] = True
    names = [f"s{i}" for i in range(30)]
    data = tree({"log_tau": (("school",), x)}, {"diverging": diverging}, {"school": names})
    finding = one(judge_mcmc(data), "divergences")
    assert (finding.status, finding.where) == (status, "log_tau[s7]")
    assert "where log_tau[s7] is smallest" in finding.message
    # As many anywhere are 2.5 in a thousand, and in no tail.
    spread = np.zeros((CHAINS, DRAWS), bool)
    spread.reshape(-1)[rng.choice(CHAINS * DRAWS, 10, replace=False)] = True
    assert (
        "not concentrated in a tail"
        in one(judge_mcmc(tree({"log_tau": x}, {"diverging": spread})), "divergences").message
    )


def _with_edge(rng, accepted, stay):
    """Normal draws, each of the lowest repeated; in the lowest hundredth steps are accepted less often."""
    x = ar1(rng, 0.3, (CHAINS * DRAWS,))
    x = np.repeat(x, np.where(x < -1.6, stay, 1))[: x.size].reshape(CHAINS, DRAWS)
    acceptance = rng.beta(8, 2, size=x.shape)
    acceptance[:, 1:][x[:, :-1] <= np.quantile(x, 0.01)] *= accepted / 0.8
    return x, acceptance


@pytest.mark.parametrize(
    ("accepted", "stay", "status"), [(0.1, 20, "fail"), (0.4, 20, "warn"), (0.4, 1, ""), (0.8, 20, "")]
)
def test_tails_in_which_steps_are_refused_and_chains_stay(rng, accepted, stay, status):
    x, acceptance = _with_edge(rng, accepted, stay)
    data = tree({"x": x, "y": rng.normal(size=x.shape)}, {"acceptance_rate": acceptance})
    found = [f for f in judge_mcmc(data, target_accept=0.8).findings if f.check == "tails"]
    assert [f.status for f in found] == ([status] if status else [])
    if found:
        assert found[0].where == "x" and "x is smallest" in found[0].message


def _refused_in_the_lowest_hundredth(rng, x):
    acceptance = rng.beta(19, 1, size=x.shape)
    acceptance[:, 1:][x[:, :-1] <= np.quantile(x, 0.01)] *= 0.6
    return acceptance


@pytest.mark.parametrize(("phi", "flagged"), [(0.85, False), (0.95, True)])
def test_steps_refused_in_a_tail_matter_where_visits_are_long(rng, phi, flagged):
    """Eight times as many refusals as elsewhere; slow chains leave the tail after 2.3 draws, slower ones after 3.7."""
    x = ar1(rng, phi, (CHAINS, 2 * DRAWS))
    data = tree({"x": x}, {"acceptance_rate": _refused_in_the_lowest_hundredth(rng, x)})
    assert any(f.check == "tails" for f in judge_mcmc(data).findings) == flagged


def test_visits_to_a_tail_and_the_worth_of_its_draws(rng):
    """Independent draws stay 1/0.95 draws in a twentieth; draws that come k times are worth 1/k and stay k / 0.95."""
    draws = rng.normal(size=(2, CHAINS, 10 * DRAWS))
    draws[1] = np.repeat(draws[1, :, : 2 * DRAWS], 5, axis=1)
    worth, visit = stays(draws).T
    np.testing.assert_allclose(worth, [1, 1 / 5], rtol=0.15)
    np.testing.assert_allclose(visit, [1 / 0.95, 5 / 0.95], rtol=0.03)


def test_tails_are_looked_at_in_the_coordinates_of_the_sampler(rng):
    x, acceptance = _with_edge(rng, 0.1, 20)
    data = tree({"tau": np.exp(x)}, {"acceptance_rate": acceptance})
    data["unconstrained_posterior"] = tree({"tau_log__": -x})["posterior"]
    assert "where tau is largest" in one(judge_mcmc(data), "tails").message


def test_missing_mass_of_a_tail_warns_and_fails_where_it_is_much():
    coordinates = [convergence.Block("tau_log__", np.zeros((CHAINS, DRAWS, 2)), (("a", "b"),))]
    some = checks.short_tail(coordinates, 1, True, 0.03, 0.01, Remedies())
    assert (some.check, some.status, some.where, some.value) == ("tails", "warn", "tau[b]", 0.03)
    assert "tau[b] is largest" in some.message
    assert "3% of the posterior lies beyond the outermost 1% of the draws" in some.message
    much = checks.short_tail(coordinates, 0, False, 0.2, 0.0, Remedies())
    assert (much.status, much.where) == ("fail", "tau[a]")
    assert "tau[a] is smallest" in much.message
    assert "20% of the posterior lies beyond all draws" in much.message


def test_advice_is_about_the_model(rng):
    """Hierarchies that are centred are named; a family's nodes cannot be rewritten."""
    diverging = np.zeros((CHAINS, DRAWS), bool)
    diverging[1, :100] = True
    data = tree({"x": np.cumsum(rng.normal(size=(CHAINS, DRAWS)), axis=1)}, {"diverging": diverging})
    centred = str(judge_mcmc(data, remedies=Remedies(centred=("theta", "phi"))))
    assert "write 'theta' (and 1 more) non-centred" in centred and "theta_raw: Normal(0, 1)" in centred
    plain = str(judge_mcmc(data))
    assert "non-centred" not in plain and "reparametrise" in plain
    family = str(judge_mcmc(data, remedies=Remedies(rewritable=False)))
    assert not any(word in family for word in ("non-centred", "reparametrise", "Ordered"))


def test_nodes_on_the_way_are_not_judged_but_have_to_be_finite(rng):
    bad, good = np.cumsum(rng.normal(size=(CHAINS, DRAWS, 50)), axis=1), rng.normal(size=(CHAINS, DRAWS))
    data = tree({"a": good, "mu": bad})
    assert judge_mcmc(data).status == "fail"
    verdict = judge_mcmc(data, aside={"mu"})
    assert verdict.status == "pass" and "only quantity" in one(verdict, "R-hat").message
    bad[0, 0, 3] = np.nan
    assert one(judge_mcmc(tree({"a": good, "mu": bad}), aside={"mu"}), "finite").status == "fail"


def test_shapes_of_tails_are_the_known_ones(rng):
    """k of Student's t is one over its degrees of freedom; of a normal distribution 0, seen from below at 4,000 draws."""
    shape = (60, CHAINS, DRAWS)
    cauchy, three = rng.standard_cauchy(shape), rng.standard_t(3, shape)
    assert np.median(tail_shapes(cauchy)) == pytest.approx(1, abs=0.1)
    assert np.median(tail_shapes(three)) == pytest.approx(1 / 3, abs=0.1)
    assert np.isfinite(heavy(cauchy)).all()
    for light in (three, rng.normal(size=shape), rng.exponential(size=shape), rng.poisson(3.0, shape).astype(float)):
        assert np.isnan(heavy(light)).all()
    # Neither side, nor place, nor scale matters.
    one_sided = -1e8 - 1e-300 * abs(cauchy[:1])
    assert np.isfinite(
        heavy(np.concatenate([1e300 * cauchy[:1] / abs(cauchy[:1]).max(), -abs(cauchy[:1]) - 1e3]))
    ).all()
    assert np.isnan(heavy(one_sided)).all()  # constant up to rounding


def test_states_have_no_tails(rng):
    """Draws of few different values, some of them rare: nothing is divided by zero, and no mean is withheld."""
    draws = np.stack([rng.random((4, 1000)) < p for p in (0.5, 0.01, 0.0005)]).astype(float)
    assert np.isnan(heavy(draws)).all()


def test_means_of_heavy_tails_are_warned_of(rng):
    data = tree({"c": rng.standard_cauchy((CHAINS, DRAWS)), "x": rng.normal(size=(CHAINS, DRAWS))})
    finding = one(judge_mcmc(data), "heavy tails")
    assert (finding.status, finding.where) == ("warn", "c") and 0.8 < finding.value < 1.3
    assert not any(f.check == "heavy tails" for f in judge_mcmc(tree({"x": data["posterior"]["x"].values})).findings)


@pytest.mark.parametrize(("phi", "status"), [(0.5, "pass"), (0.875, "warn"), (0.97, "fail")])
def test_energies_that_change_slowly(rng, phi, status):
    """One chain with an E-BFMI of 2 (1 - phi): 1, 0.25, 0.06."""
    energy = rng.normal(size=(CHAINS, 5000))
    energy[3] = 10 * ar1(rng, phi, (5000,)) + 300
    finding = one(judge_mcmc(tree({"x": rng.normal(size=(CHAINS, 5000))}, {"energy": energy})), "E-BFMI")
    assert (finding.status, finding.where) == (status, "chain 3")
    assert finding.value == pytest.approx(2 * (1 - phi), rel=0.2)


@pytest.mark.parametrize(("share", "status"), [(0.0, "pass"), (0.005, "pass"), (0.05, "warn")])
@pytest.mark.parametrize("stat", ["reached_max_treedepth", "tree_depth"])
def test_tree_depth(rng, share, status, stat):
    deep = np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) < share * CHAINS * DRAWS
    values = deep if stat == "reached_max_treedepth" else np.where(deep, 8, 7)
    data = tree({"x": rng.normal(size=(CHAINS, DRAWS))}, {stat: values})
    finding = one(judge_mcmc(data, max_treedepth=8), "tree depth")
    assert (finding.status, finding.value) == (status, share)
    assert ("max_treedepth to 10" in finding.advice) == (status == "warn")


def test_acceptance_far_below_its_target(rng):
    rates = np.full((CHAINS, DRAWS), 0.78)
    rates[1] = 0.4
    data = tree({"x": rng.normal(size=(CHAINS, DRAWS))}, {"acceptance_rate": rates})
    finding = one(judge_mcmc(data, target_accept=0.8), "acceptance")
    assert (finding.status, finding.where) == ("warn", "chain 1")
    assert finding.value == pytest.approx(0.4)
    assert judge_mcmc(data).status == "pass"


def test_constants_are_set_aside_not_failed(rng):
    corr = np.ones((CHAINS, DRAWS, 2, 2))
    corr[..., 0, 1] = corr[..., 1, 0] = rng.uniform(-1, 1, size=(CHAINS, DRAWS))
    corr[..., 1, 1] += rng.choice([-2e-16, 0, 2e-16], size=(CHAINS, DRAWS))  # rounding
    verdict = judge_mcmc(tree({"edge": np.zeros((CHAINS, DRAWS)), "corr": corr}))
    assert verdict.status == "pass"
    finding = one(verdict, "constant")
    assert (finding.value, finding.where) == (3, "edge")
    assert "all 2 quantities" in one(verdict, "R-hat").message


def test_nothing_varies(rng):
    verdict = judge_mcmc(tree({"x": np.full((CHAINS, DRAWS), 1.5), "y": np.zeros((CHAINS, DRAWS))}))
    assert one(verdict, "movement").status == "fail"


def test_nothing_varies_where_nothing_is_rejected(rng):
    """Chains of full conditionals that agree on one value are right; apart from each other, they are not."""
    same = tree({"number": np.ones((4, 400)), "entropy": np.zeros((4, 400))})
    verdict = judge_mcmc(same, rejects=False)
    assert verdict.status == "pass" and "4 chains agree" in one(verdict, "movement").message
    apart = tree({"number": np.ones((4, 400)) * np.array([1, 1, 1, 2])[:, None]})
    assert judge_mcmc(apart, rejects=False).status == "fail"


def test_a_stuck_chain_fails(rng):
    x = rng.normal(size=(CHAINS, DRAWS, 3))
    x[1] = 0.1
    verdict = judge_mcmc(tree({"x": x, "constant": np.ones((CHAINS, DRAWS))}))
    finding = one(verdict, "movement")
    assert (finding.status, finding.where) == ("fail", "chain 1")
    x[1, 500:, 2] = 0.2
    assert not any(f.check == "movement" for f in judge_mcmc(tree({"x": x})).findings)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_draw_that_is_not_finite_fails(rng, bad):
    x = rng.normal(size=(CHAINS, DRAWS, 5))
    x[1, 7, 3] = bad
    verdict = judge_mcmc(tree({"x": x}))
    finding = one(verdict, "finite")
    assert (finding.status, finding.where, finding.value) == ("fail", "x[3]", 1)
    assert one(verdict, "R-hat").status == "pass"
    assert "all 4 quantities" in one(verdict, "R-hat").message


def test_undefined_in_every_draw(rng):
    x = rng.normal(size=(CHAINS, DRAWS, 5))
    x[..., 0] = math.nan
    finding = one(judge_mcmc(tree({"x": x})), "finite")
    assert (finding.status, finding.where) == ("warn", "x[0]")
    assert one(judge_mcmc(tree({"x": np.full((CHAINS, DRAWS), math.nan)})), "finite").status == "fail"


def test_log_density_and_energy_must_be_finite(rng):
    bad = rng.normal(size=(CHAINS, DRAWS))
    bad[0, 0] = math.inf
    verdict = judge_mcmc(tree({"x": rng.normal(size=(CHAINS, DRAWS))}, {"lp": bad, "energy": bad}))
    assert one(verdict, "log density").status == one(verdict, "E-BFMI").status == "fail"


def test_one_chain_warns_and_is_judged_by_its_halves(rng):
    x = rng.normal(size=(1, DRAWS))
    verdict = judge_mcmc(tree({"x": x}))
    assert one(verdict, "chains").status == verdict.status == "warn"
    assert one(verdict, "R-hat").status == "pass"
    x[:, DRAWS // 2 :] += 5
    assert one(judge_mcmc(tree({"x": x})), "R-hat").status == "fail"


@pytest.mark.parametrize("n_draws", [0, 1, 3])
def test_too_few_draws(rng, n_draws):
    verdict = judge_mcmc(tree({"x": rng.normal(size=(CHAINS, n_draws))}, {"energy": np.ones((CHAINS, n_draws))}))
    assert [(f.status, f.check) for f in verdict.findings] == [("fail", "chains")]


def test_four_draws_can_be_judged(rng):
    verdict = judge_mcmc(tree({"x": rng.normal(size=(CHAINS, 4))}))
    assert one(verdict, "bulk ESS").status == "fail"


def test_dimensions_in_any_order_and_text_is_passed_over(rng):
    x = rng.normal(size=(CHAINS, DRAWS, 2))
    x[..., 1] += np.arange(CHAINS)[:, None] * 9
    dataset = xr.Dataset(
        {"x": (("g", "draw", "chain"), x.T), "word": (("chain", "draw"), np.full((CHAINS, DRAWS), "a"))},
        coords={"g": np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")},
    )
    finding = one(judge_mcmc({"posterior": of_dataset(dataset)}), "R-hat")
    assert finding.where == "x[2020-01-02]"
    assert "1 of 2 quantities" in finding.message


def test_notes_are_appended_and_count(rng):
    note = Finding("warn", "interrupted", "", 120, "stopped after 120 of 1,000 draws", "resume the run")
    verdict = judge_mcmc(tree({"x": rng.normal(size=(CHAINS, DRAWS))}), notes=[note])
    assert verdict.findings[-1] is note
    assert verdict.status == "warn"


def test_the_worst_finding_is_the_status():
    def verdict(*statuses):
        return Verdict(tuple(Finding(status, "c", "", None, "m") for status in statuses)).status

    assert verdict("pass", "fail", "warn") == "fail"
    assert verdict("warn", "pass") == "warn"
    assert verdict("pass") == "pass"
    assert verdict() == "warn"


def test_verdict_survives_json(rng):
    x = np.repeat(np.arange(CHAINS), DRAWS).reshape(CHAINS, DRAWS) * 1.0  # R-hat is infinite
    verdict = judge_mcmc(tree({"x": x, "y": rng.normal(size=(CHAINS, DRAWS))}))
    assert one(verdict, "R-hat").value is None
    content = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert content["status"] == "fail"
    assert Verdict.from_dict(content) == verdict


def test_the_text_has_a_line_for_each_check_then_the_advice(rng):
    verdict = Verdict(
        (
            Finding("pass", "R-hat", "a[AITKIN]", 1.004, "all 87 quantities ≤ 1.01 (worst 1.004, a[AITKIN])"),
            Finding("warn", "divergences", "", 3, "3 of 4,000 draws", "raise target_accept to 0.95"),
        )
    )
    assert str(verdict).splitlines() == [
        "PASS  R-hat        all 87 quantities ≤ 1.01 (worst 1.004, a[AITKIN])",
        "WARN  divergences  3 of 4,000 draws",
        "→ divergences: raise target_accept to 0.95",
    ]


def test_a_point_is_no_posterior():
    verdict = point_verdict(True, 1e-6, "CONVERGENCE", restarts_agree=True)
    assert verdict.status == "pass"
    assert "a point, not a posterior: no uncertainty is reported" in str(verdict)
    assert point_verdict(True, 1e-6).status == "pass"
    assert point_verdict(True, 1e-6, restarts_agree=False).status == "warn"
    failed = point_verdict(False, 12.0, "ABNORMAL <stop>")
    assert failed.status == "fail"
    assert "ABNORMAL <stop>" in str(failed)
    assert point_verdict(True, math.nan).status == "fail"


def test_few_values_have_no_heavy_tail(rng):
    """Scores of the structures that chains visit: hardly any but the best two."""
    levels = np.array([-6215.5, -6217.5, -6220.7, -6222.7, -6223.8, -6226.1, -6231.8])
    draws = rng.choice(levels, p=[0.886, 0.108, 0.0045, 0.0009, 0.0002, 0.0002, 0.0002], size=(1, 4, 2000))
    assert np.isnan(heavy(draws)).all()
    zeta = rng.zipf(1.8, size=(1, 4, 2000)).astype(float)
    assert np.isfinite(heavy(zeta)).all()
