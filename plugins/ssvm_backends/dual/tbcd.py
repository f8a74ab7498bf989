"""``tbcd``: tree block coordinate descent; see :mod:`ssvm_backends.dual.descent.tree_blocks`.

No maintained library for Python offers it.  ``make bench ARGS=loopy`` compares it with HiGHS and the other message
passing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import Ability, Need, Program
from ssvm_dsl.plugin_api import Verdict


class TBCD:
    """Tree block coordinate descent (Sontag and Jaakkola 2009): updates all messages of a spanning tree together."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 300 iterations, and more where messages are asked for.

        Training calls ``msd`` and ``mplp`` from within its own kernels, so that it gets them unless others are named.
        """
        sweeps = 3000.0 if Ability.MESSAGES in need.abilities else 300.0
        return Verdict(True, sweeps * sweep_cost(need), n_bytes=dual_bytes(need))

    def open(self, program: Program, options: Mapping[str, Any]) -> TBCDSession:
        """Open the backend on a program; the session answers ``map`` with bounds by descent over trees."""
        return TBCDSession(program, options)


class TBCDSession(DualSession):
    """Descent by trees on the graphs of one program."""

    price = 3.0  # trees are drawn, and each factor of a tree is visited three times

    def solver(
        self, instance: Instance, part: ExampleRange, rule: PassingRule
    ) -> tuple[MessageTask, Callable[[float], bool]]:
        """Return a task, and the function that continues it."""
        from ssvm_backends.dual.descent.tree_blocks import TreeSpace, descend_trees

        task = message_task(instance, part.ids, part.messages, part.progress, rule._replace(by_factor=True))
        space = TreeSpace.start(instance, part.ids, self.options["trees"] == "random")
        return task, lambda budget: descend_trees(task, space, budget)
