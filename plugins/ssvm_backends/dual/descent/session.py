"""The session of ``mplp`` and ``msd``, which differ in the messages of an update (the option ``update``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange, message_pointers
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import DualBound, Marginals, Messages, Question, members, pointers, runs
from ssvm_dsl.plugin_api import CompiledMessages


class DescentSession(DualSession):
    """Block-coordinate descent on the graphs of one program."""

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
        tables = tuple(joint[owner == k].reshape(-1, one.n_configs) for k, one in groups)
        kept = Messages(ids.copy(), ptr, messages)
        return DualBound(temperature, bound + theta.const[ids], Marginals(node, tables), kept)

    def _rule(self) -> tuple[int, float]:
        """Return the number of the update, and the temperature of its maxima (0 where there is no such option)."""
        from ssvm_backends.dual.descent.block_descent import UPDATES

        return UPDATES[self.options["update"]], float(self.options.get("temperature", 0.0))
