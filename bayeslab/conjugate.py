"""Conjugate models on plain numbers: ``bl.conjugate("Binomial", alpha=1, beta=1)``.

The closed forms are in :mod:`bayeslab.exact.conjugate`; here numbers are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.arrays import count, number, real
from bayeslab.errors import OptionError, hint, listed
from bayeslab.exact import conjugate as closed

__all__ = ["Conjugate", "conjugate"]

type Array = np.ndarray
type Check = Callable[[Any, str], Any]


def _positive(given: Any, name: str) -> float:
    return number(given, name, 0, above=True)


def _positives(given: Any, name: str) -> Array:
    out = real(given, name)
    if (out <= 0).any():
        raise OptionError(f"{name} holds numbers above 0; given: {out.min():g}", code="out-of-range")
    return out


def _counts(given: Any, name: str) -> Array:
    out = real(given, name)
    if (out < 0).any() or (out != np.floor(out)).any():
        odd = out[(out < 0) | (out != np.floor(out))].ravel()[0]
        raise OptionError(f"{name} holds whole numbers ≥ 0; given: {odd:g}", code="out-of-range")
    return out


def _truths(given: Any, name: str) -> Array:
    out = _counts(given, name)
    if (out > 1).any():
        raise OptionError(f"{name} holds 0 and 1; given: {out.max():g}", code="out-of-range")
    return out


def _categories(given: Any, name: str) -> Array:
    out = _positives(given, name)
    if out.ndim != 1 or len(out) < 2:
        raise OptionError(f"{name} has a number for each of two or more outcomes", code="wrong-shape")
    return out


def _vector(given: Any, name: str) -> Array:
    return real(given, name, ndim=1)


def _rows(given: Any, name: str) -> Array:
    return real(given, name, ndim=2)


def _covariance(given: Any, name: str) -> Array:
    out = real(given, name, ndim=2)
    if out.shape[0] != out.shape[1] or not np.allclose(out, out.T) or np.linalg.eigvalsh(out).min() <= 0:
        raise OptionError(f"{name} is a symmetric positive definite matrix", code="out-of-range")
    return out


@dataclass(frozen=True)
class _Pair:
    """A likelihood with its conjugate prior: how numbers are checked."""

    prior: type[Any]
    parameters: dict[str, Check]
    data: Check
    # What is known of each datum, and of the next.
    known: dict[str, Check]


_SHAPES: dict[str, Check] = {"alpha": _positive, "beta": _positive}
_PAIRS = {
    "Bernoulli": _Pair(closed.BetaBinomial, _SHAPES, _truths, {}),
    "Binomial": _Pair(closed.BetaBinomial, _SHAPES, _counts, {"trials": _counts}),
    "Multinomial": _Pair(closed.DirichletMultinomial, {"a": _categories}, _counts, {}),
    "Poisson": _Pair(closed.GammaPoisson, _SHAPES, _counts, {"exposure": _positives}),
    "Exponential": _Pair(closed.GammaExponential, _SHAPES, _positives, {}),
    "Normal": _Pair(closed.NormalGamma, {"mu": number, "kappa": _positive} | _SHAPES, real, {}),
    "NormalKnownVariance": _Pair(
        closed.NormalKnownVariance, {"mu": number, "sigma": _positive, "noise": _positive}, real, {}
    ),
    "MvNormal": _Pair(
        closed.NormalWishart, {"mu": _vector, "kappa": _positive, "nu": _positive, "V": _covariance}, _rows, {}
    ),
}


@dataclass(frozen=True, eq=False)
class Conjugate:
    """A distribution of the parameters of a likelihood, prior or posterior.

    Attributes
    ----------
    likelihood : str
    parameters : object
        The distribution of the parameters, of :mod:`bayeslab.exact.conjugate`: ``mean()``, ``sd()``,
        ``quantile(probability)``, ``draws(rng, n)`` and its numbers, such as ``alpha``.
    """

    likelihood: str
    parameters: Any

    def update(self, data: Any, **known: Any) -> Conjugate:
        """The posterior after more data, which is the prior for further data.

        Parameters
        ----------
        data
            Numbers: 0 and 1 (``Bernoulli``), successes (``Binomial``), counts, times, or values; for ``Multinomial`` a
            count of each outcome, shape (outcomes,) or (rows, outcomes); for ``MvNormal`` rows, shape (rows, columns).
        **known
            ``trials=`` of ``Binomial`` and ``exposure=`` of ``Poisson``, a number or one for each datum.

        Raises
        ------
        OptionError
            The data are none of the likelihood, or do not have its shape.
        """
        values, more = self._checked(data, known)
        return Conjugate(self.likelihood, self.parameters.update(values, **more))

    def log_evidence(self, data: Any, **known: Any) -> float:
        """Log probability (or density) of data with the parameters integrated out; arguments of :meth:`update`.

        For ``Multinomial`` it is that of the outcomes in a given order.
        """
        values, more = self._checked(data, known)
        return float(self.parameters.log_evidence(values, **more))

    def predictive(self, **known: Any) -> Any:
        """The distribution of the next datum, in closed form.

        Parameters
        ----------
        **known
            ``trials=`` of ``Binomial`` and ``Multinomial`` (default 1), ``exposure=`` of ``Poisson`` (default 1).

        Returns
        -------
        frozen distribution of SciPy
            With ``mean()``, ``pmf`` or ``pdf``, ``rvs``; of single numbers also ``cdf``, ``ppf`` and ``interval``.
            Beta-binomial, Dirichlet-multinomial, negative binomial, Lomax, normal or Student t.
        """
        if self.likelihood == "Multinomial":
            from scipy import stats

            trials = count(known.pop("trials", 1), "trials")
            self._refuse_unknown(known)
            return stats.dirichlet_multinomial(self.parameters.a, trials)
        return self.parameters.predictive(**self._known(known))

    def _checked(self, data: Any, known: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        """The data and what is known of them, checked."""
        values, more = _PAIRS[self.likelihood].data(data, "data"), self._known(known)
        for name, each in more.items():
            if np.ndim(each) and np.shape(each) != values.shape:
                raise OptionError(
                    f"{name} is a number, or one for each datum: {values.shape}; given: {np.shape(each)}",
                    code="wrong-shape",
                )
        if self.likelihood in ("Bernoulli", "Binomial") and (over := values > more.get("trials", 1)).any():
            raise OptionError(
                f"{values[over].ravel()[0]:g} successes in fewer trials: give trials=, as many as there were or more",
                code="out-of-range",
            )
        width = {"Multinomial": lambda: len(self.parameters.a), "MvNormal": lambda: self.parameters.d}
        if self.likelihood in width and values.shape[-1] != width[self.likelihood]():
            raise OptionError(
                f"the last axis of the data has length {width[self.likelihood]()}, as the prior has; given:"
                f" {values.shape}",
                code="wrong-shape",
            )
        return values, more

    def _known(self, known: dict[str, Any]) -> dict[str, Any]:
        """What is known of the data, checked."""
        checks = _PAIRS[self.likelihood].known
        self._refuse_unknown({name: value for name, value in known.items() if name not in checks})
        return {name: checks[name](value, name) for name, value in known.items()}

    def _refuse_unknown(self, known: dict[str, Any]) -> None:
        for name in known:
            allowed = _PAIRS[self.likelihood].known
            raise OptionError(
                f"{self.likelihood} has no '{name}'" + (f"; it has {listed(allowed)}" if allowed else ""),
                code="unknown-option",
            )


def conjugate(likelihood: str, **prior: Any) -> Conjugate:
    """A conjugate prior, whose posteriors and predictive distributions are in closed form.

    Parameters
    ----------
    likelihood
        ``Bernoulli`` and ``Binomial`` with a prior ``Beta(alpha, beta)`` of the probability; ``Multinomial`` with
        ``Dirichlet(a)``; ``Poisson`` and ``Exponential`` with ``Gamma(alpha, beta)`` of the rate; ``Normal`` with
        ``Gamma(alpha, beta)`` of the precision and ``Normal(mu, tau=kappa * precision)`` of the mean;
        ``NormalKnownVariance`` with the standard deviation ``noise`` and ``Normal(mu, sigma)`` of the mean;
        ``MvNormal`` with ``Wishart(nu, V)`` of the precision matrix and ``MvNormal(mu, tau=kappa * precision)`` of the
        mean.
    **prior
        The numbers of the prior, with PyMC's names.

    Returns
    -------
    Conjugate
        With ``update``, ``predictive`` and ``log_evidence``.

    Raises
    ------
    OptionError
        The likelihood is unknown, a number of the prior is missing, or it is out of range.

    References
    ----------
    Bernardo, Smith (1994). Bayesian Theory, appendix A.

    Examples
    --------
    Laplace's rule of succession: after 7 successes in 10 trials, the next one succeeds with probability 8/12.

    >>> import bayeslab as bl
    >>> after = bl.conjugate("Binomial", alpha=1, beta=1).update(7, trials=10)
    >>> round(float(after.predictive().mean()), 4)
    0.6667
    """
    pair = _PAIRS.get(likelihood)
    if pair is None:
        raise OptionError(
            f"no conjugate prior is known for '{likelihood}'{hint(likelihood, _PAIRS)}", code="unknown-word"
        )
    for name in prior:
        if name not in pair.parameters:
            raise OptionError(
                f"the prior of {likelihood} has no '{name}'{hint(name, pair.parameters)}", code="unknown-option"
            )
    for name in pair.parameters:
        if name not in prior:
            raise OptionError(
                f"the prior of {likelihood} needs {listed(pair.parameters)}; '{name}' is missing", code="incomplete"
            )
    values = {name: check(prior[name], name) for name, check in pair.parameters.items()}
    if likelihood == "MvNormal":
        d = len(values["mu"])
        if values["V"].shape != (d, d) or values["nu"] <= d - 1:
            raise OptionError(
                f"with mu of length {d}, V has the shape ({d}, {d}) and nu is above {d - 1}; given: V of the shape"
                f" {values['V'].shape}, nu = {values['nu']:g}",
                code="wrong-shape",
            )
    return Conjugate(likelihood, pair.prior(**values))
