"""Executors that break a promise each, for the kit that is to find it."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.plugin_api import ExecutorSpec, pause


class Honest:
    """All shards in this process, one call after the other."""

    n_shards = 2

    def start(self, shards: Any) -> None:
        self.shards, self.opened = shards, dict[int, Any]()

    def run(self, function: Any, calls: Any) -> list[Any]:
        found: list[Any] = [None] * len(calls)
        for place, (number, given) in enumerate(calls):
            try:
                pause()
            except Exception as err:
                err.found = found
                raise
            if number not in self.opened:
                self.opened[number] = self.shards[number].open()
            found[place] = function(self.opened[number], *given)
        return found

    def close(self) -> None:
        self.opened = {}


class Sorted(Honest):
    """Answers in the order of the shards, not of the calls."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        return super().run(function, sorted(calls, key=lambda call: call[0]))


class Stale(Honest):
    """Keeps the shards of the first start."""

    def start(self, shards: Any) -> None:
        if not hasattr(self, "shards"):
            super().start(shards)


class Forgetful(Honest):
    """Opens shards again for each call."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        self.opened = {}
        return super().run(function, calls)


class Silent(Honest):
    """Returns errors in the place of raising them."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        try:
            return super().run(function, calls)
        except ValueError as err:
            return [err]


class Deaf(Honest):
    """Never looks at the time."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        return [function(self.shards[number].open(), *given) for number, given in calls]


class Secretive(Honest):
    """Does not tell what was found before time was up."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        found = []
        for number, given in calls:
            pause()
            found.append(function(self.shards[number].open(), *given))
        return found


class Rounded(Honest):
    """Loses digits on the way."""

    def run(self, function: Any, calls: Any) -> list[Any]:
        found = super().run(function, calls)
        for one in found:
            sums = getattr(one, "found", one)
            if hasattr(sums, "vector"):
                sums.vector[:] = sums.vector.round(6)
        return found


class Nameless(Honest):
    """Does not say into how many shards a list is cut."""

    n_shards = None  # type: ignore[assignment]


class ClosedOnce(Honest):
    """Cannot be closed twice."""

    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


def spec(name: str) -> ExecutorSpec:
    """Return the description of one of these."""
    return ExecutorSpec(name.lower(), f"broken_executors:{name}", keeps=True)
