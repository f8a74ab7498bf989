"""``alpha-expansion``: a heuristic for pairwise models of many labels whose tables are metrics.

Each move lets any set of variables take label alpha, and finds the best such set by a minimum cut, until no label
helps (Boykov, Veksler and Zabih, PAMI 2001; moves in :mod:`ssvm_backends.cuts.moves.move_kernels`).  The result is
within a known factor of the least energy, 2 for Potts tables (:mod:`ssvm_dsl.ir.analysis.energies`); with
``bound="factor"`` that is a certified bound, with ``"dual"`` one by message passing, by default there is none.

P^n Potts factors, which auxiliary variables stand for, take part with the same moves, each the best of all under these
factors (Kohli, Kumar and Torr, CVPR 2007); there is no claim about the distance of the result from the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_backends.cuts.moves.move_session import MoveSession
from ssvm_backends.graphs.graph import graph_bytes
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import Verdict

_WANTED = "t(a, b) + t(c, c) >= t(a, c) + t(c, b) for all states a, b, c of finite pairwise tables (a metric)"


class AlphaExpansion:
    """Local search by expansions (Boykov, Veksler and Zabih 2001): a few rounds of one minimum cut for each label."""

    def check(self, need: Need) -> Verdict:
        """Accept pairwise problems; whether tables are metrics is checked at solve time."""
        cost = 200.0 * need.max_card * (need.n_variables + need.n_factors)
        return Verdict(True, cost, n_bytes=graph_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> MoveSession:
        """Open the backend on a program; the session answers ``map`` by expansion moves, each a minimum cut."""
        labels = np.arange(program.card.max(initial=1), dtype=np.int32)
        moves = np.stack([labels, np.full_like(labels, -1)], axis=1)
        return MoveSession("alpha-expansion", _WANTED, program, options, moves)
