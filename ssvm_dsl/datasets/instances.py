"""MAP instances with known optima, and Bayesian networks; the instances are read by :func:`ssvm_dsl.read_problem`.

All lie in the folder that environment variable ``SSVM_DATA`` names; every loader raises
:class:`~ssvm_dsl.errors.DataError` when its file is not there, with where it comes from.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.datasets.files import data_file
from ssvm_dsl.errors import DataError


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
        There is no such file, or it is not in BIF.
    """
    path = data_file("load_bayes_net", f"bif/{name}.bif.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    states = {
        found[1]: tuple(one.strip() for one in found[2].split(","))
        for found in re.finditer(r"variable\s+(\S+)\s*\{[^}]*?\{([^}]*)\}", text)
    }
    nodes = {}
    for found in re.finditer(r"probability\s*\(([^)]*)\)\s*\{(.*?)\n\}", text, re.DOTALL):
        child, *parents = (one.strip() for one in found[1].replace("|", ",").split(",") if one.strip())
        if not {child, *parents} <= set(states):
            raise DataError(str(path), expected="variables that are declared", found=f"probability ({found[1]})")
        nodes[child] = BayesNode(states[child], tuple(parents), _table(found[2], child, parents, states, path))
    if set(nodes) != set(states) or not nodes:
        raise DataError(str(path), expected="a probability of each variable", found=f"{len(nodes)} of {len(states)}")
    return nodes


def _table(text: str, child: str, parents: list[str], states: dict[str, tuple[str, ...]], path: Path) -> F64:
    """Return the conditional probabilities of a variable."""
    table = np.full([len(states[one]) for one in (*parents, child)], np.nan)
    for line in filter(None, map(str.strip, text.split(";"))):
        given = re.match(r"\(([^)]*)\)", line)
        numbers = [float(one) for one in re.split(r"[,\s]+", line[given.end() if given else len("table") :].strip())]
        names = [one.strip() for one in given[1].split(",")] if given else []
        place = tuple(states[parent].index(name) for parent, name in zip(parents, names, strict=True))
        table[place] = numbers
    if not np.allclose(table.sum(axis=-1), 1.0, atol=1e-3):
        raise DataError(str(path), expected="probabilities that sum to 1", found=f"others for {child}")
    return table
