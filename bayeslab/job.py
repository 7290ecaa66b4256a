"""The input of an engine, :class:`Job`, and its output, :class:`Outcome`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import ValidationError

from bayeslab.data.bound import Data
from bayeslab.errors import OptionError, hint
from bayeslab.labelled import Group
from bayeslab.language.spec import Model, Spec
from bayeslab.language.wording import (
    code_of,
    expected,
    place,
    subject,
)
from bayeslab.posterior.contract import Posterior
from bayeslab.progress import Progress

if TYPE_CHECKING:
    import pymc

    from bayeslab.posterior.machine.model import MachineModel
    from bayeslab.results.verdict import Verdict
    from bayeslab.run_folder.segments import SegmentStore

__all__ = ["ChainStore", "Job", "MemoryStore", "Outcome", "options_of"]


class ChainStore(Protocol):
    """Where each chain is stored as soon as it is finished."""

    def finished(self) -> list[int]: ...
    def read(self, chain: int) -> dict[str, np.ndarray]: ...
    def write(self, chain: int, arrays: Mapping[str, np.ndarray]) -> None: ...
    def segments(self) -> SegmentStore | None: ...


class MemoryStore:
    """A chain store in memory, for a run without a folder."""

    def __init__(self) -> None:
        self._chains: dict[int, dict[str, np.ndarray]] = {}

    def finished(self) -> list[int]:
        return sorted(self._chains)

    def read(self, chain: int) -> dict[str, np.ndarray]:
        return self._chains[chain]

    def write(self, chain: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._chains[chain] = dict(arrays)

    def segments(self) -> None:
        """None: segments of chains are not stored."""


@dataclass(frozen=True)
class Job:
    """One inference to be done.

    Attributes
    ----------
    posterior : Posterior
        The model on its data.
    options : Spec
        The engine's ``Options``.
    seed : int
    built : pymc.Model, optional
        The model on its data as a graph, if it is known already.
    machine : MachineModel, optional
        The model on its data as a program of the density machine, if an engine shall use it.
    """

    posterior: Posterior
    options: Any
    seed: int
    progress: Progress
    store: ChainStore = field(default_factory=MemoryStore)
    built: pymc.Model | None = None
    machine: MachineModel | None = None

    @property
    def model(self) -> Model:
        return self.posterior.model

    @property
    def data(self) -> Data:
        return self.posterior.data

    @cached_property
    def graph(self) -> pymc.Model:
        """The model on its data, discrete latents summed out."""
        return self.built or self.posterior.graph()

    @property
    def latent(self) -> tuple[str, ...]:
        """The nodes and missing cells that are summed out, to be recovered."""
        return self.posterior.latent


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an engine.

    Attributes
    ----------
    groups : dict of str to Group
        ArviZ's groups: ``posterior``, ``sample_stats``, ...
    verdict : Verdict
    complete : bool
        False when the run was interrupted and ``groups`` hold a partial result.
    timings : dict of str to float
        Seconds of each phase.
    """

    groups: dict[str, Group]
    verdict: Verdict
    complete: bool = True
    timings: dict[str, float] = field(default_factory=dict)


def options_of(kind: type[Spec], given: Mapping[str, Any], method: str) -> Any:
    """Validate an engine's options; the error for an unknown option names the most similar one."""
    for name in given:
        if name not in kind.model_fields:
            raise OptionError(
                f"method {method} has no option '{name}'{hint(name, kind.model_fields)}",
                path=("inference", name),
                code="unknown-option",
            )
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        path = place(errors[0]["loc"], given)
        message = errors[0]["msg"].removeprefix("Value error, ")
        if errors[0]["type"] != "value_error":
            message = f"{subject(path)} is {expected(e for e in errors if place(e['loc'], given) == path)}"
        raise OptionError(
            f"{message}; given: {errors[0]['input']!r}", path=("inference", *path), code=code_of(errors)
        ) from None
