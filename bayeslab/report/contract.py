"""The interface of a fit for a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from bayeslab.data.bound import Data
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import Posterior
from bayeslab.results.fitted import Fitted
from bayeslab.results.rope import Regions
from bayeslab.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Reported", "record"]


class Reported(Protocol):
    """A fit with its summary, checks and plots: :class:`bayeslab.results.fit.Fit`."""

    bound_model: Posterior
    verdict: Verdict
    folder: Path | None
    info: dict[str, Any]

    @property
    def model(self) -> Model: ...
    @property
    def data(self) -> Data: ...
    @property
    def method(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def timings(self) -> dict[str, float]: ...
    @property
    def data_tree(self) -> xr.DataTree: ...
    @property
    def posterior(self) -> xr.DataTree: ...
    def has_group(self, name: str) -> bool: ...

    def summary(
        self,
        var_names: str | list[str] | None = None,
        *,
        ci_prob: float = 0.89,
        ci_kind: Literal["eti", "hdi"] = "eti",
        rope: Regions | None = None,
    ) -> pd.DataFrame: ...

    def plot(
        self,
        kind: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        var_names: str | Sequence[str] | None = None,
    ) -> Any: ...


def record(fit: Reported) -> Fitted:
    """The record of a run, the argument of the functions behind a fit's methods."""
    return Fitted(fit.bound_model, fit.data_tree, fit.verdict, fit.info, fit.folder)
