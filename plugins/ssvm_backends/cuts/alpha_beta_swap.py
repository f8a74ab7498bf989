"""``alpha-beta-swap``: a heuristic for pairwise models of many labels whose tables are semimetrics.

Each move lets all variables that have label alpha or beta choose again between the two, by a minimum cut, until no
pair of labels helps (Boykov, Veksler and Zabih, PAMI 2001; moves in
:mod:`ssvm_backends.cuts.moves.move_kernels`).  It asks less of the tables than expansion (no triangle inequality) and
finds weaker optima, most of all with P^n Potts factors: a move gains from these only where all of their
variables had one of the two labels.  No a-priori factor bounds the distance of the result from the optimum
(:mod:`ssvm_dsl.ir.analysis.energies`); ``bound="dual"`` computes a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.cuts.moves.move_session import MoveSession
from ssvm_backends.graphs.graph import graph_bytes
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import Verdict

_WANTED = "t(a, a) + t(b, b) >= t(a, b) + t(b, a) for all states a, b of finite pairwise tables (a semimetric)"


class AlphaBetaSwap:
    """Local search by swaps (Boykov, Veksler and Zabih 2001): a few rounds of one cut for each pair of labels."""

    def check(self, need: Need) -> Verdict:
        """Accept pairwise problems; whether tables are semimetrics is checked at solve time."""
        cost = 100.0 * need.max_card**2 * (need.n_variables + need.n_factors)
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MoveSession:
        """Open the backend on a program; the session answers ``map`` by swap moves, each a minimum cut."""
        pairs = np.triu_indices(int(program.card.max(initial=1)), 1)
        return MoveSession("alpha-beta-swap", _WANTED, program, options, np.stack(pairs, axis=1).astype(np.int32))
