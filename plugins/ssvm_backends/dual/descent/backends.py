"""``msd``, ``mplp`` and ``tbcd``: messages that lower the dual bound block by block.

Store, decoding, bound and loop are those of :mod:`ssvm_backends.dual.driver`, as of ``trws`` and ``ad3``; the three
differ in their blocks: a slot or a variable (``msd``), a factor (``mplp``; the updates of both are in
:mod:`ssvm_backends.dual.descent.block_descent`), a spanning tree (:mod:`ssvm_backends.dual.descent.tree_blocks`).

No maintained library for Python offers ``msd`` or ``tbcd``: OpenGM and libDAI are not on PyPI.  ``make bench
ARGS=loopy`` compares them with HiGHS and the other message passing.  In processor time ``mplp`` takes 0.7 ms (30
iterations) for a bound within 0.05 % of the relaxation of a 10 x 10 grid of 3 states; ``Mplp`` of pgmpy 1.1.2, which is
pure Python, 1.6 s (50).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange, dual_bytes, message_pointers, sweep_cost
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import Ability, DualBound, Marginals, Messages, Need, Program, Question, members, pointers, runs
from ssvm_dsl.plugin_api import CompiledMessages, Verdict


def _accept(need: Need, sweeps: float, in_training: float) -> Verdict:
    """Accept everything; the cost is that of some iterations, and of others where messages are asked for."""
    n = in_training if Ability.MESSAGES in need.abilities else sweeps
    return Verdict(True, n * sweep_cost(need), n_bytes=dual_bytes(need))


class MSD:
    """Max-sum diffusion (Werner 2007) by edges or stars, plain or soft.

    With ``temperature`` T above 0 maxima are soft: ``T log sum exp(. / T)``, that is K = 1/T in equation 13 of
    Meshi et al. (2010).  Bounds of labellings are the plain ones all the same; those of ``dual_bound`` and of compiled
    messages, on which ``dlpw`` trains, are soft (:mod:`ssvm_backends.dual.descent.compiled`).
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 500 iterations."""
        return _accept(need, 500.0, 500.0)

    def open(self, program: Program, options: Mapping[str, Any]) -> DescentSession:
        """Open the backend on a program; the session answers ``map`` with bounds by max-sum diffusion."""
        return DescentSession(program, options)


class MPLP:
    """Message passing factor by factor: MPLP++ (Tourani et al. 2018), GMPLP (Globerson and Jaakkola 2008)."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 300 iterations, and more where messages are asked for.

        Their bound has many subgradients, most of them of no use to training; diffusion leaves few.
        """
        return _accept(need, 300.0, 3000.0)

    def open(self, program: Program, options: Mapping[str, Any]) -> DescentSession:
        """Open the backend on a program; the session answers ``map`` with bounds by MPLP messages."""
        return DescentSession(program, options)


class TBCD:
    """Tree block coordinate descent (Sontag and Jaakkola 2009): updates all messages of a spanning tree together."""

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of 300 iterations, and more where messages are asked for.

        Training calls ``msd`` and ``mplp`` from within its own kernels, so that it gets them unless others are named.
        """
        return _accept(need, 300.0, 3000.0)

    def open(self, program: Program, options: Mapping[str, Any]) -> TBCDSession:
        """Open the backend on a program; the session answers ``map`` with bounds by descent over trees."""
        return TBCDSession(program, options)


class DescentSession(DualSession):
    """Descent of ``msd`` and ``mplp``, which differ in the option ``update``, on the graphs of one program."""

    def solver(
        self, instance: Instance, part: ExampleRange, rule: PassingRule
    ) -> tuple[MessageTask, Callable[[float], bool]]:
        """Return a task, and the function that continues it."""
        from ssvm_backends.dual.descent.block_descent import STAR, DescentRule, descend

        update, temperature = self._rule()
        task = message_task(instance, part.ids, part.messages, part.progress, rule._replace(by_factor=update != STAR))
        how = DescentRule.start(instance, part.ids, update, temperature)
        return task, lambda budget: descend(task, how, budget)

    def compiled_messages(self) -> CompiledMessages:
        """Return message passing for trainers that call it inside their own kernels."""
        from ssvm_backends.dual.descent.compiled import compiled_messages

        offer, self.graph = compiled_messages(self.graph, *self._rule())
        return offer

    def dual_bound(self, question: Question) -> DualBound | None:
        """Lower soft bounds by messages; see :class:`~ssvm_dsl.plugin_api.DualBoundSession`."""
        from ssvm_backends.dual.descent.compiled import CompiledRule, SoftAnswers, soften_examples, work_size

        update, temperature = self._rule()
        if temperature == 0.0 or not self.shows_messages(question):
            return None
        theta, ids, passes = question.theta, question.ids(self.program), self.most_iterations(question.limits)
        graph, ptr = self.graph, message_pointers(self.graph, ids)
        warm = question.warm
        messages = warm.of(ids, ptr) if isinstance(warm, Messages) else np.zeros(int(ptr[-1]))
        states = graph.state_ptr[graph.var_ptr]
        sizes = pointers(graph.table_size)[graph.factor_ptr]
        n_states, n_joint = (p[ids + 1] - p[ids] for p in (states, sizes))
        out_ptr = pointers(n_states + n_joint)
        out, bound = np.empty(int(out_ptr[-1])), np.empty(len(ids))
        instance, rule = Instance(graph, theta.node, theta.pool, theta.const), CompiledRule(update, temperature)
        answers = SoftAnswers(ptr, out_ptr, messages, out, bound)
        soften_examples(instance, rule, ids, passes, answers, np.empty(work_size(graph)))
        node, joint = out[runs(out_ptr[:-1], n_states)], out[runs(out_ptr[:-1] + n_states, n_joint)]
        owner = np.repeat(self.groups_of(ids), graph.table_size[members(graph.factor_ptr, ids)])
        groups = enumerate(self.program.groups)
        tables = tuple(joint[owner == k].reshape(-1, group.n_configs) for k, group in groups)
        kept = Messages(ids.copy(), ptr, messages)
        return DualBound(temperature, bound + theta.const[ids], Marginals(node, tables), kept)

    def _rule(self) -> tuple[int, float]:
        """Return the number of the update, and the temperature of its maxima (0 where there is no such option)."""
        from ssvm_backends.dual.descent.block_descent import UPDATES

        return UPDATES[self.options["update"]], float(self.options.get("temperature", 0.0))


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
