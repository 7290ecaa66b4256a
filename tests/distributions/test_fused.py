"""Fused log densities: values and derivatives of single numbers, in the bulk, in the tails and outside the support."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path

import numpy as np
import pytest

from bayeslab.distributions import DISTRIBUTIONS, maths
from bayeslab.distributions.toolbox.contract import Form
from bayeslab.distributions.toolbox.table import density_parameters, ends

# By mpmath, see fused_reference.py: [number, parameters...], [log density, derivatives...].
EVERYTHING = json.loads(Path(__file__).with_name("fused_reference.json").read_text())
REFERENCE = {label: rows for label, rows in EVERYTHING.items() if ":" not in label}
TAILS = {label: rows for label, rows in EVERYTHING.items() if ":" in label}
NAMES = {DISTRIBUTIONS.file(name): name for name in DISTRIBUTIONS if maths(name) is not None}


def functions(label):
    """The functions of a distribution, and its fused density, a form of that, or a tail (``file:log_survival``)."""
    file, _, tail = label.partition(":")
    file, _, form = file.partition(".")
    module = maths(NAMES[file])
    return module, module.FORMS[form].fused if form else getattr(module, tail or "fused")


def scaled(arguments, results):
    """Derivatives by a number relative to its size: what matters where it is 1e12, or 1e-9."""
    sizes = [1.0, *(abs(a) if a and math.isfinite(a) else 1.0 for a in arguments)]
    return np.array(results) * sizes


def test_every_distribution_and_form_has_a_reference():
    forms = {f"{file}.{form}" for file, name in NAMES.items() for form in getattr(maths(name), "FORMS", {})}
    assert REFERENCE.keys() == NAMES.keys() | forms


@pytest.mark.parametrize("label", EVERYTHING)
def test_value_and_derivatives_are_those_of_mpmath(label):
    _, fused = functions(label)
    for arguments, expected in EVERYTHING[label]:
        got = fused(*arguments)
        np.testing.assert_allclose(
            scaled(arguments, got), scaled(arguments, expected), rtol=1e-10, atol=1e-12, err_msg=str(arguments)
        )


@pytest.mark.parametrize("file", NAMES)
def test_the_fused_density_is_the_density_of_arrays(file):
    module, fused = functions(file)
    compared = 0
    for arguments, _ in REFERENCE[file]:
        with np.errstate(all="ignore"):
            value = module.log_density(*map(np.float64, arguments))
            slopes = module.slopes(*map(np.float64, arguments))
        expected = [float(value), *(0.0 if slope is None else float(slope) for slope in slopes)]
        # Arrays lose digits, or overflow, where numbers do not: near the upper end of shares, for example.
        extreme = max(map(abs, arguments)) > 1e4 or 1 - 1e-9 < arguments[0] < 1
        if np.isfinite(expected).all() and not extreme:
            got = np.array(fused(*arguments))
            if DISTRIBUTIONS[NAMES[file]].atoms and arguments[0] == 0.0:
                got[1] = expected[1] = 0.0
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=str(arguments))
            compared += 1
    assert compared >= 2


def impossible(file):
    """Arguments outside the support, or with one parameter outside its domain."""
    name, parameters = NAMES[file], density_parameters(NAMES[file])
    entry = DISTRIBUTIONS[name]
    arguments = REFERENCE[file][0][0]
    low, high = (float(end) for end in ends(name, arguments[1:]))
    if math.isfinite(low):
        yield [low - 1.0, *arguments[1:]]
        if entry.domain.values.open_low:
            yield [low, *arguments[1:]]
    if math.isfinite(high):
        yield [high + 1.0, *arguments[1:]]
        if entry.domain.values.open_high:
            yield [high, *arguments[1:]]
    if entry.discrete:
        yield [arguments[0] + 0.5, *arguments[1:]]
    for i, word in enumerate(parameters, 1):
        interval = entry.domain.parameters.get(word)
        if interval is None:
            continue
        wrong = [math.nan]
        wrong += [interval.low - 0.5] if math.isfinite(interval.low) else []
        wrong += [interval.low] if interval.open_low and math.isfinite(interval.low) else []
        wrong += [interval.high + 0.5] if math.isfinite(interval.high) else []
        for value in wrong:
            yield [*arguments[:i], value, *arguments[i + 1 :]]


@pytest.mark.parametrize("file", sorted(NAMES.keys() - {"flat"}))
def test_the_density_is_zero_outside_the_support(file):
    module = maths(NAMES[file])
    wrong = list(impossible(file))
    assert wrong or not DISTRIBUTIONS[NAMES[file]].domain.parameters
    for arguments in wrong:
        assert module.fused(*arguments) == (-math.inf, *(0.0 for _ in arguments)), arguments


@pytest.mark.parametrize(
    ("file", "arguments", "value"),
    [
        ("gamma", (0.0, 1.0, 2.0), math.log(2.0)),
        ("gamma", (0.0, 2.0, 2.0), -math.inf),
        ("gamma", (0.0, 0.5, 2.0), -math.inf),
        ("beta", (0.0, 1.0, 3.0), math.log(3.0)),
        ("beta", (1.0, 3.0, 1.0), math.log(3.0)),
        ("beta", (0.0, 0.5, 1.0), -math.inf),
        ("weibull", (0.0, 1.0, 2.0), -math.log(2.0)),
        ("chi_squared", (0.0, 2.0), -math.log(2.0)),
        ("binomial", (0.0, 4.0, 0.0), 0.0),
        ("binomial", (1.0, 4.0, 0.0), -math.inf),
        ("binomial", (4.0, 4.0, 1.0), 0.0),
        ("bernoulli", (1.0, 1.0), 0.0),
        ("bernoulli", (0.0, 1.0), -math.inf),
        ("poisson", (0.0, 0.0), 0.0),
        ("poisson", (2.0, 0.0), -math.inf),
        ("negative_binomial", (0.0, 0.0, 2.0), 0.0),
        ("geometric", (1.0, 1.0), 0.0),
        ("geometric", (2.0, 1.0), -math.inf),
        ("zero_inflated_binomial", (0.0, 0.25, 3.0, 1.0), math.log(0.75)),
        ("zero_inflated_poisson", (0.0, 0.0, 3.0), 0.0),
        ("hurdle_poisson", (0.0, 1.0, 3.0), -math.inf),
        ("hyper_geometric", (1.0, 20.0, 18.0, 6.0), -math.inf),
    ],
)
def test_ends_of_the_support(file, arguments, value):
    # As PyMC has it: a density without a finite limit at the end of its support is 0 there.
    assert maths(NAMES[file]).fused(*arguments)[0] == pytest.approx(value, abs=1e-14)


def test_forms_replace_one_parameter():
    for file, name in NAMES.items():
        module = maths(name)
        for form in getattr(module, "FORMS", {}).values():
            assert isinstance(form, Form)
            assert form.inverse in ("exp", "sigmoid")
            words = list(inspect.signature(module.fused).parameters)
            others = list(inspect.signature(form.fused).parameters)
            at = words.index(form.parameter)
            assert [w for i, w in enumerate(words) if i != at] == [w for i, w in enumerate(others) if i != at], file


def test_every_distribution_with_one_tail_has_both():
    files = {file for file, name in NAMES.items() if hasattr(maths(name), "log_cumulative")}
    assert TAILS.keys() == {f"{file}:{tail}" for file in files for tail in ("log_cumulative", "log_survival")}
    # Those that a model file may censor or truncate.
    assert files >= {"normal", "gamma", "weibull", "poisson", "student_t", "beta", "log_normal", "exponential"}


@pytest.mark.parametrize("file", sorted({label.partition(":")[0] for label in TAILS}))
def test_tails_beyond_the_support(file):
    module = maths(NAMES[file])
    arguments = TAILS[f"{file}:log_survival"][0][0]
    low, high = (float(end) for end in ends(NAMES[file], arguments[1:]))
    zeros = tuple(0.0 for _ in arguments)
    for x in {low - 1.0, -math.inf}:
        assert module.log_cumulative(x, *arguments[1:]) == (-math.inf, *zeros)
        assert module.log_survival(x, *arguments[1:]) == (0.0, *zeros)
    for x in {high + 1.0, math.inf}:
        assert module.log_cumulative(x, *arguments[1:]) == (0.0, *zeros)
        assert module.log_survival(x, *arguments[1:]) == (-math.inf, *zeros)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("label", EVERYTHING)
def test_numba_compiles_the_fused_density(label):
    from bayeslab.posterior.machine.kernels.hoisting import split

    _, fused = functions(label)
    _, compiled, _ = split(fused, [])
    for arguments, expected in EVERYTHING[label]:
        np.testing.assert_allclose(
            scaled(arguments, compiled(*map(float, arguments))), scaled(arguments, expected), rtol=1e-10, atol=1e-12
        )
    for arguments in impossible(label) if label in NAMES and label != "flat" else ():
        assert compiled(*map(float, arguments)) == (-math.inf, *(0.0 for _ in arguments)), arguments
