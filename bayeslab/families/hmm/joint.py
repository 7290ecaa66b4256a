"""Emissions of jointly normal columns with covariance matrices, as a model file declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayeslab.data.weak_priors import refuse_constant
from bayeslab.distributions import emissions
from bayeslab.errors import ModelError
from bayeslab.posterior.observed.joint_normal import JointNormal

if TYPE_CHECKING:
    from bayeslab.families.hmm.spec import HMM

__all__ = ["joint_of"]


def joint_of(
    spec: HMM, rows: np.ndarray, scaled_by: np.ndarray, n_states: int, given: Mapping[str, Any]
) -> JointNormal:
    """Build the part for the data.

    Raises
    ------
    ModelError, DataError
        An emission is not gaussian; parameters are known; or a column is constant or a linear function of others.
    """
    if spec.emission != "gaussian":
        raise ModelError(
            f"covariance: {spec.covariance} needs emission: gaussian for all columns",
            path=("model", "covariance"),
            code="unsupported",
        )
    if given:
        raise ModelError(
            f"with covariance: {spec.covariance} all parameters are learned",
            path=("model", "parameters"),
            code="conflict",
        )
    columns = tuple(spec.columns)
    refuse_constant(scaled_by, columns)
    emissions.refuse_dependent(scaled_by, columns, "leave one out")
    emission = emissions.FullGaussian(len(columns), cast(Any, spec.covariance)).with_prior(scaled_by, n_states)
    emission.check(rows)
    return JointNormal(
        columns=columns, at=tuple(range(len(columns))), n_states=n_states, emission=emission,
        spread=np.sqrt(emissions.column_variances(scaled_by)),
    )  # fmt: skip
