"""The files that ``ssvm plugins new --executor`` writes.

The executor is small and complete: threads, each with shards of its own, which end with the call at hand.
"""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the executor is not imported here."""

from ssvm_dsl.plugin_api import ExecutorSpec, Option, hookimpl


@hookimpl
def ssvm_executors():
    return [
        ExecutorSpec(
            "{name}",
            "{module}.executor:Executor",
            "threads of this process, each with shards of its own",
            keeps=True,  # shards stay open from one call to the next
            options=(Option("workers", 2, "number of threads", int, least=1),),
        )
    ]
'''

EXECUTOR = '''\
"""Calls on shards in threads: put in their place what sends calls to your machines.

Workers in other processes call ``answer_if_open(key, function, given)`` first, and ``answer(shard, function, given)``
where that returns ``NotOpen``: a shard may hold examples, and is to travel once.
"""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from math import inf

from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.plugin_api import OpenShards, time_left


class Executor:
    def __init__(self, workers=2):
        self.n_shards = self.n_workers = workers  # lists of examples are cut into so many shards
        self.pool = ThreadPoolExecutor(workers)
        self.start([])

    def start(self, shards):
        self.shards, self.open = shards, OpenShards(max(len(shards), 1))

    def run(self, function, calls):
        by_shard = {}
        for place, (number, given) in enumerate(calls):
            by_shard.setdefault(number, []).append((place, given))
        found, failed = [None] * len(calls), {}
        asked = [self.pool.submit(self.ask, function, *one, found, failed) for one in by_shard.items()]
        for future in asked:
            try:
                future.result(None if time_left() == inf else time_left())
            except Late:
                for other in asked:
                    other.cancel()
                late = OutOfTime("the time limit came before all answers")
                late.found = list(found)
                raise late from None
        if failed:
            raise failed[min(failed)]  # the first in the order of the calls
        return found

    def ask(self, function, number, mine, found, failed):
        for place, given in mine:  # one call on a shard at a time
            try:
                found[place] = function(self.open.get(self.shards[number]), *given)
            except Exception as err:
                failed[place] = err

    def close(self):
        self.start([])
        self.pool.shutdown(wait=False, cancel_futures=True)
'''

TEST = '''\
"""The conformance kit of ssvm-dsl: what the executor returns, raises and keeps, and when it ends."""


def test_conformance(executor_conformance):
    executor_conformance("{name}")
'''

TEMPLATE = PackageTemplate(
    "executor",
    HOOKS,
    {"executor.py": ("the executor: `start`, `run`, `close`", EXECUTOR)},
    ("test_{module}.py", "the conformance kit", TEST),
    "Use it by name: `StructuredSVM(MyModel, trainer=\"bundle\", executor=\"{name}\")`.",
)
