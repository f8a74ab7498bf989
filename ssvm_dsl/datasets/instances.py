"""MAP instances with known optima, and Bayesian networks; the instances are read by :func:`ssvm_dsl.read_problem`.

All lie in the folder that environment variable ``SSVM_DATA`` names; every loader raises
:class:`~ssvm_dsl.errors.DataError` when its file is not there, with where it comes from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from ssvm_dsl.array_types import F64
from ssvm_dsl.datasets.files import data_file
from ssvm_dsl.io.formats.bif import read_network
from ssvm_dsl.io.source_text import STANDARD, read_source


class MapInstance(NamedTuple):
    """A problem in a file, and what is known of its best labelling.

    Parameters
    ----------
    path : Path
        For ``read_problem``.
    score : float
        Largest known natural logarithm of the product of all factors.
    proved : bool
        Whether no labelling has a larger one.
    """

    path: Path
    score: float
    proved: bool


class BayesNode(NamedTuple):
    """A variable of a Bayesian network.

    Parameters
    ----------
    states : tuple of str
    parents : tuple of str
    table : ndarray, shape (*states of the parents, states)
        Conditional probabilities; they sum to 1 over the last axis.
    """

    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: F64


def load_map_instances(source: str = "uai2014") -> dict[str, MapInstance]:
    """Return the instances of ``"uai2014"`` or ``"ad3"`` by name.

    Raises
    ------
    DataError
        The file of optima is not there.
    """
    optima = data_file("load_map_instances", f"map/{source}/optima.json")
    folder = optima.parent
    return {
        one["file"]: MapInstance(folder / f"{one['file']}.gz", one["best_log_score"], one["proved_optimal"])
        for one in json.loads(optima.read_text())
    }


def load_bayes_net(name: str) -> dict[str, BayesNode]:
    """Return a Bayesian network by the names of its variables, e.g. ``"asia"``, ``"alarm"``.

    Raises
    ------
    DataError
        There is no such file.
    FileFormatError
        It is not in BIF.
    """
    path = data_file("load_bayes_net", f"bif/{name}.bif.gz")
    network = read_network(str(path), read_source(path, STANDARD), STANDARD)
    tables = ((child, *network.tables[child]) for child in network.states)
    return {child: BayesNode(network.states[child], tuple(parents), table) for child, parents, table in tables}
