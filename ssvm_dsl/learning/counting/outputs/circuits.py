"""Best directed cycles under policies, as a separate model: arcs with given scores that form a circuit."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.constraints.structures import Circuit
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Edges, Input
from ssvm_dsl.lang.losses.label_losses import NoLoss
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.estimators.svm import StructuredSVM


class Tour(Model):
    """A circuit whose arcs have scores."""

    N, M = Dim(), Dim()
    node = Input(N, 1)
    e = Edges(M, over=N)
    gain = Input(M, 1)
    y = Label(M, 2)
    worth = Factor(y.is_(1), features=gain)
    route = Circuit(y.is_(1), e)
    loss = NoLoss()


def best_circuits(policies: F64) -> list[list[int]]:
    """Return the nodes of the best cycle of each policy, in order.

    Parameters
    ----------
    policies : ndarray of float64, shape (n, N, N)
        What a step from u to v earns.
    """
    n_nodes = policies.shape[1]
    arcs = np.argwhere(~np.eye(n_nodes, dtype=bool))
    node = np.zeros((n_nodes, 1))
    X = [{"node": node, "e": arcs, "gain": policy[arcs[:, 0], arcs[:, 1], None]} for policy in policies]
    svm = StructuredSVM.from_weights(Tour, {"worth": [1.0]}, backend="circuit")
    return [_in_order(arcs[np.asarray(chosen) == 1].tolist()) for chosen in svm.predict(X)]


def _in_order(arcs: list[list[int]]) -> list[int]:
    """Return the nodes of the one cycle that some arcs form."""
    successor = {arc[0]: arc[1] for arc in arcs}
    nodes = [arcs[0][0]]
    while (after := successor[nodes[-1]]) != nodes[0]:
        nodes.append(after)
    return nodes
