"""The session of ``mplp`` and ``msd``, which differ in the messages of an update (the option ``update``)."""

from __future__ import annotations

from collections.abc import Callable

from ssvm_backends.dual.driver import MessageTask, PassingRule, message_task
from ssvm_backends.dual.session import DualSession, ExampleRange
from ssvm_backends.graphs.graph import Instance
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

    def _rule(self) -> tuple[int, float]:
        """Return the number of the update, and the temperature of its maxima (0 where there is no such option)."""
        from ssvm_backends.dual.descent.block_descent import UPDATES

        return UPDATES[self.options["update"]], float(self.options.get("temperature", 0.0))
