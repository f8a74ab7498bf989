"""``trws``: sequential reweighted message passing for factors of any size; :mod:`ssvm_backends.dual.sequential`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import Ability, Need, Program
from ssvm_dsl.plugin_api import Verdict


class TRWS:
    """Sequential reweighted message passing: TRW-S (Kolmogorov 2006), SRMP (Kolmogorov 2015) for larger factors.

    The bound is ``sum_v max_s (node_v + sum_f d_fv)(s) + sum_f max_c (table_f(c) - sum_v d_fv(c_v))`` at messages d; no
    iteration raises it.  The updates are in :mod:`ssvm_backends.dual.sequential`.
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 100 iterations, and more where messages are asked for.

        Training calls ``msd`` and ``mplp`` from within its own kernels, so that it gets them unless others are named.
        """
        sweeps = 1000.0 if Ability.MESSAGES in need.abilities else 100.0
        return Verdict(True, sweeps * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> TRWSSession:
        """Open the backend on a program; the session answers ``map`` with bounds by sequential reweighted messages."""
        return TRWSSession(program, options)


class TRWSSession(DualSession):
    """Message passing on the graphs of one program."""

    def solver(
        self, instance: Instance, part: ExampleRange, rule: PassingRule
    ) -> tuple[MessageTask, Callable[[float], bool]]:
        """Return a task, and the function that continues it."""
        from ssvm_backends.dual.sequential import sweep_space, trws

        rule = rule._replace(smooth=bool(self.options["smooth"]))
        task = message_task(instance, part.ids, part.messages, part.progress, rule)
        space = sweep_space(instance, part.ids)
        return task, lambda budget: trws(task, space, budget)
