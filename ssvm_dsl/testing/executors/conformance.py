"""Runs the conformance checks on an executor: answers, errors and kept shards, compared with shards in this process."""

from __future__ import annotations

from typing import Any, Unpack

from ssvm_dsl.plugin_api import ExecutorSpec, ShardExecutor
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.contract import EXECUTOR
from ssvm_dsl.testing.executors.checks import EXECUTOR_RULES, ExecutorTrial
from ssvm_dsl.testing.kit import HowToRun, Kit, Rule
from ssvm_dsl.testing.report import ConformanceReport

#: Numbers of shards.
SIZES = (1, 3, 5)


def check_executor(
    executor: str | ExecutorSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check an executor in everything it claims.

    Parameters
    ----------
    executor : str or ExecutorSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same shards.
    options : dict, optional
        Options of the executor.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Raises
    ------
    PluginError, OptionError
        Unknown executor; unknown option or check.  (Faults of the executor are in the report.)
    """
    spec = executor if isinstance(executor, ExecutorSpec) else registry().find(ExecutorSpec, executor)
    kit = ExecutorKit(spec, seed=seed, n_problems=len(SIZES), options=spec.resolve(options))
    try:
        return kit.run(**how)
    finally:
        if kit.made is not None and callable(getattr(kit.made, "close", None)):
            kit.made.close()


class ExecutorKit(Kit[ExecutorSpec, Rule[ExecutorSpec, ExecutorTrial], ExecutorTrial]):
    """The kit of executors; a case is a number of shards."""

    kind, methods, rules = "executor", EXECUTOR, EXECUTOR_RULES

    def arguments(self) -> dict[str, Any]:
        """Return the executor's options."""
        return dict(self.options)

    def prepare(self) -> None:
        """Make the cases."""

        def make() -> ShardExecutor:
            made: ShardExecutor = self.spec.load()(**self.options)
            return made

        for number, n_shards in enumerate(SIZES):
            self.cases.append(ExecutorTrial(self.spec, self.made, make, n_shards, self.report.seed + 10 * number))
