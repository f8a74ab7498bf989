"""Measured speeds of the bundled backends, from which plans expect their times."""

from __future__ import annotations

#: Operations in a second, as each backend's ``check`` counts them: expected times, and with them the choice of
#: ``auto``, rest on.  Those that compete with others are means over the structures of ``make bench ARGS=speeds``, which
#: prints by how much they are off: processor time of one thread, five examples with random features and weights.
SPEED = {
    "chain": 2e9,
    "tree": 2e9,
    "junction-tree": 3e9,
    "combi": 4e8,
    "ilp": 8e9,
    "lp": 7e8,
    "trws": 6e8,
    "msd": 5e9,
    "mplp": 4e9,
    "tbcd": 2.5e9,
    "ad3": 5e9,
    "cycles": 2.5e10,
    "graph-cut": 1.1e8,
    "alpha-expansion": 4e8,
    "alpha-beta-swap": 6e8,
    "qpbo": 5e8,
    "max-product": 6e8,
    "icm": 9e6,
    "assignment": 1e9,
    "arborescence": 1e9,
    "eisner": 1e9,
    "semi-markov": 1e9,
    "cky": 1e9,
    "shortest-path": 1e9,
    "circuit": 8e9,
    "relations": 2e9,
    "cardinality": 1e9,
    "decompose": 1e9,
    "custom-exact": 1e9,
    "custom": 1e9,
    "brute-force": 8e8,
}
