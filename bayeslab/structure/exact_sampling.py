r"""Independent draws of DAGs from their exact posterior.

*Uniform over DAGs.* Every DAG has a unique sequence of layers: the variables without parents, then the variables with
all parents in earlier layers and at least one in the preceding layer, and so on [1]_. With z_v(S) the sum over the
parent sets of v inside S, and L the last layer of S, the sum over the ways to add the variables outside S is

.. math:: f(S, L) = \sum_{\emptyset \ne T \subseteq V \setminus S} f(S \cup T, T)
   \prod_{v \in T} \big(z_v(S) - z_v(S \setminus L)\big), \quad f(V, \cdot) = 1,

in 4^n steps and 3^n numbers. All terms are positive, so that layers can be drawn one after another, followed by the
parents of each variable [2]_.

*Order-modular.* The sum over orders of the variables outside S takes 2^n n steps; an order is drawn from its first
variable on, followed by the parents of each variable among its predecessors [3]_.

References
----------
.. [1] Kuipers, Moffa (2017). Partition MCMC for inference on acyclic digraphs. JASA 112(517), 282-299.
.. [2] Talvitie, Vuoksenmaa, Koivisto (2020). Exact sampling of directed acyclic graphs from modular distributions.
   UAI 35, PMLR 115, 965-974.
.. [3] He, Tian, Wu (2016). Structure learning in Bayesian networks of a moderate size by efficient sampling.
   JMLR 17(101), 1-54.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.exact_posterior import _checked, _impossible, _subset_sums
from bayeslab.structure.score_table import ScoreTable

__all__ = ["Sampler", "sampler"]


@dataclass(frozen=True, eq=False)
class Sampler:
    """A sampler of independent DAGs; create it with :func:`sampler`.

    Attributes
    ----------
    table : ScoreTable
    draws_of : str
        ``dags``: the posterior of the table; ``orders``: each DAG counts once for each consistent order.
    """

    table: ScoreTable
    draws_of: Literal["dags", "orders"]
    _sums: tuple[Any, ...]

    def draws(self, rng: np.random.Generator, n: int) -> NDArray[np.int32]:
        """Draw n DAGs as numbers of parent sets in the table, shape (n, n_variables)."""
        from bayeslab.structure import exact_sampling_kernels as kernels

        table, out = self.table, np.empty((n, self.table.n), np.int32)
        draw: Any = kernels.draw_by_layers if self.draws_of == "dags" else kernels.draw_by_orders
        uniforms = rng.random((n, 2 * table.n))
        draw(table.n, table.pointer, table.sets[:, 0], table.scores, *self._sums, uniforms, out)
        return out


def sampler(table: ScoreTable, draws_of: Literal["dags", "orders"] = "dags", *, memory: float | None = None) -> Sampler:
    """Create a sampler by computing the sums that draws are based on.

    Parameters
    ----------
    table
        Scores of parent sets; sets that are not in it have probability zero.
    draws_of
        ``dags`` for the prior of the table, ``orders`` for the order-modular one.
    memory
        Memory limit in megabytes; default: half of the machine's memory.

    Raises
    ------
    EngineRefusal
        There are too many variables; the message has the forecast and the alternative.
    ModelError
        The parent sets form no DAG.
    """
    from bayeslab.structure import exact_sampling_kernels as kernels

    what = "independent draws of DAGs"
    if draws_of == "dags":
        n = _checked(table, what, 8e-9 * 4.0**table.n, memory, extra=8 * 3.0**table.n)
    else:
        n = _checked(table, what, 1e-8 * table.n * 2.0**table.n, memory)
    value, exponent = _subset_sums(table, table.scores)
    sums = kernels.layer_sums if draws_of == "dags" else kernels.order_rest
    rest, scale = sums(n, value, exponent)
    if not rest[0] > 0:
        raise _impossible()
    return Sampler(table, draws_of, (value, exponent, rest, scale))
