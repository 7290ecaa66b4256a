"""How the linear predictor of a regression drives a distribution of single numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CONCENTRATION", "DEGREES", "SHAPE", "SHARE", "UNIT", "Response", "driven"]

# Default priors of the other parameters. {rate} is one over the sd of the response, {sd} that sd.
UNIT = "Exponential({rate})"  # what is measured in the unit of the response; rstanarm's prior of sigma
SHAPE = "InverseGamma(0.4, 0.3)"  # what has no unit and is positive; brms's prior of shape
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
    """What of a distribution a regression predicts, and what else it needs.

    Attributes
    ----------
    quantity : str
        What the inverse link of the linear predictor is: mean, location, scale, probability, ...
    call : str
        The distribution in the model language: ``{mu}`` is that quantity, ``{trials}`` the number of trials; any other
        name is a parameter that is the same for all rows.
    links : tuple of str
        The first is the default.
    priors : mapping of str to str
        Default priors of the other parameters.
    working : {"identity", "log", "logit", "angle", ""}
        Of which function of the response mean and sd are taken for the default priors; "" where none is needed.
    logits : str
        The parameter that takes the linear predictor itself under the link logit.
    needed, optional : tuple of str
        Parameters that are numbers: those that must be given, and those that may.
    positive_part : bool
        Whether the quantity is about what is not zero.
    tails : bool
        Whether the probability of a tail is known, so that the response may be censored.
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
    """A response as the file of its distribution declares it.

    Parameters
    ----------
    kind
        Which numbers the quantity may be, and so which links it has; a ``location`` has the link log too.
    **priors
        Default priors of the names that ``call`` leaves to be learned.
    """
    return Response(
        quantity, call, _LINKS[kind], priors, working, logits, tuple(needed.split()), tuple(optional.split()),
        positive_part, tails,
    )  # fmt: skip
