"""``msd``: max-sum diffusion by edges or stars, plain or soft; see :mod:`ssvm_backends.dual.descent.block_descent`.

With ``temperature`` T above 0 maxima are soft: ``T log sum exp(. / T)``, that is K = 1/T in equation 13 of
Meshi et al. (2010).  Bounds of labellings are the plain ones all the same; those of ``dual_bound`` and of compiled
messages, on which ``dlpw`` trains, are soft (:mod:`ssvm_backends.dual.descent.compiled`).

No maintained library for Python offers it: OpenGM and libDAI are not on PyPI.  ``make bench ARGS=loopy`` compares it
with HiGHS and the other message passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssvm_backends.dual.descent.session import DescentSession
from ssvm_backends.dual.session import dual_bytes, sweep_cost
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import Verdict


class MSD:
    """Max-sum diffusion (Werner 2007); the updates are in :mod:`ssvm_backends.dual.descent.block_descent`."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 500 iterations."""
        return Verdict(True, 500.0 * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> DescentSession:
        """Open the backend on a program; the session answers ``map`` with bounds by max-sum diffusion."""
        return DescentSession(program, options)
