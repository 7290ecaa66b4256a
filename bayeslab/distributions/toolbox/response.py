"""How the linear predictor of a regression enters a univariate distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CONCENTRATION", "DEGREES", "SHAPE", "SHARE", "UNIT", "Response", "driven"]

# Default priors of the other parameters. {rate} is one over the sd of the response, {sd} that sd.
UNIT = "Exponential({rate})"  # parameters in units of the response; rstanarm's prior of sigma
SHAPE = "InverseGamma(0.4, 0.3)"  # positive parameters without a unit; brms's prior of shape
DEGREES = "Gamma(2, 0.1)"  # degrees of freedom; Juárez and Steel (2010), JBES 28, 52-66
CONCENTRATION = "Gamma(2, 0.01)"  # of angles; brms's prior of kappa
SHARE = "Beta(1, 1)"  # probabilities

_LINKS = {
    "real": ("identity",),
    "location": ("identity", "log"),
    "positive": ("log",),
    "probability": ("logit", "probit", "cloglog"),
}


@dataclass(frozen=True, slots=True)
class Response:
    """The quantity that a regression predicts, and the other parameters of the distribution.

    Attributes
    ----------
    quantity : str
        The quantity that the inverse link of the linear predictor gives: mean, location, scale, probability, ...
    call : str
        The distribution in the model language: ``{mu}`` is that quantity, ``{trials}`` the number of trials; any other
        name is a parameter that is the same for all rows.
    links : tuple of str
        Allowed links; the first is the default.
    priors : mapping of str to str
        Default priors of the other parameters.
    working : {"identity", "log", "logit", "angle", ""}
        The function of the response whose mean and sd scale the default priors; "" if none is needed.
    logits : str
        The parameter that takes the linear predictor itself under the link logit.
    needed, optional : tuple of str
        Numeric parameters: required ones, and optional ones.
    positive_part : bool
        Whether the quantity describes the non-zero values only.
    tails : bool
        Whether tail probabilities are available, so that the response may be censored.
    """

    quantity: str
    call: str
    links: tuple[str, ...]
    priors: Mapping[str, str] = field(default_factory=dict)
    working: Literal["identity", "log", "logit", "angle", ""] = ""
    logits: str = ""
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    positive_part: bool = False
    tails: bool = True


def driven(
    quantity: str,
    kind: Literal["real", "location", "positive", "probability"],
    call: str,
    *,
    working: Literal["identity", "log", "logit", "angle", ""] = "",
    logits: str = "",
    needed: str = "",
    optional: str = "",
    positive_part: bool = False,
    tails: bool = True,
    **priors: str,
) -> Response:
    """Declare the response form of a distribution, from its file.

    Parameters
    ----------
    kind
        The range of the quantity, which determines its links; a ``location`` also has the link log.
    **priors
        Default priors of the parameters in ``call`` that are learned.
    """
    return Response(
        quantity, call, _LINKS[kind], priors, working, logits, tuple(needed.split()), tuple(optional.split()),
        positive_part, tails,
    )  # fmt: skip
