"""Runs that can be stopped and go on: what a run keeps from one iterate to the next is told by name.

A trainer makes a *run* for a problem, and a run makes one iterate at a time.  Between two iterates everything the next
one depends on is in attributes that classes list in ``STATE``; a checkpoint is their values, and going on is a run
begun anew that takes them over.  So there is no second way through a trainer for fits that are resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem

F64 = NDArray[np.float64]


class Stateful:
    """Something whose state is in the attributes named in ``STATE``.

    They are arrays, plain values, random generators, or parts that are stateful themselves (those of part ``a`` are
    told as ``a.b``).
    """

    STATE: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return the state: arrays, and values that JSON can hold."""
        told: dict[str, Any] = {}
        for name in self.STATE:
            value = getattr(self, name)
            if isinstance(value, Stateful):
                told |= {f"{name}.{inner}": part for inner, part in value.state().items()}
            elif isinstance(value, np.random.Generator):
                told[name] = value.bit_generator.state
            else:
                told[name] = value.item() if isinstance(value, np.generic) else value
        return told

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        for name in self.STATE:
            value, lead = getattr(self, name), f"{name}."
            if isinstance(value, Stateful):
                value.restore({key.removeprefix(lead): part for key, part in state.items() if key.startswith(lead)})
            elif isinstance(value, np.random.Generator):
                value.bit_generator.state = state[name]
            else:
                setattr(self, name, state[name])


    def go_on(self, state: dict[str, Any]) -> None:
        """Take over a state, whose arrays must be as large as those here and whose numbers finite.

        Raises
        ------
        TrainingError
            It is the state of something else, or damaged.
        """
        now = self.state()
        for name, value in now.items():
            found: Any = state.get(name)
            if isinstance(value, np.ndarray):
                same = isinstance(found, np.ndarray) and (found.dtype, found.shape) == (value.dtype, value.shape)
                known = same and bool(np.isfinite(found).all())
            elif isinstance(value, int | float) and not isinstance(value, bool):
                known = type(found) in (int, type(value)) and bool(np.isfinite(found)) and found >= 0
            else:
                known = type(found) is type(value)
            if not known:
                raise TrainingError(f"the state to go on from is of another model, or damaged: its '{name}'")
        try:
            self.restore(state)
        except (KeyError, TypeError, ValueError) as err:
            raise TrainingError(f"the state to go on from is damaged ({type(err).__name__}: {err})") from err


class Run(Stateful, ABC):
    """One run of a trainer on a problem."""

    @abstractmethod
    def iterate(self, stop: StopRule) -> Iterate | None:
        """Take the next outer iteration; ``None`` when there is nothing left to do."""

    def certified(self) -> Iterate | None:
        """Return the newest iterate with its certificate; ``None`` where iterates come with what is known of them."""
        return None

    def newest(self) -> F64 | None:
        """Return the weights at hand inside an iteration; ``None`` where those of the last iterate are the newest."""
        return None


class Resumable(ABC):
    """A trainer whose fits can go on from a checkpoint (:class:`~ssvm_dsl.plugin_api.ResumableTrainer`)."""

    @abstractmethod
    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run that has not made an iterate yet."""

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each outer iteration; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        self._run = self._begun(problem, start)
        yield from self._go_on(stop)

    def certified(self) -> Iterate | None:
        """Return the newest iterate with its certificate; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        run: Run | None = getattr(self, "_run", None)
        return None if run is None else run.certified()

    def newest(self) -> F64 | None:
        """Return the weights at hand inside an iteration; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        run: Run | None = getattr(self, "_run", None)
        return None if run is None else run.newest()

    def state(self) -> dict[str, Any]:
        """Return everything the next iterate depends on."""
        return self._run.state()

    def resume(self, problem: TrainProblem, stop: StopRule, state: dict[str, Any]) -> Iterator[Iterate]:
        """Yield the iterates that follow a state."""
        self._run = self._begun(problem, None)
        self._run.restore(state)
        yield from self._go_on(stop)

    def _begun(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run with options of its own: one with this trainer, which keeps the run, would be a cycle."""
        options = copy(self)
        vars(options).pop("_run", None)
        return options.begin(problem, start)

    def _go_on(self, stop: StopRule) -> Iterator[Iterate]:
        return iter(partial(self._run.iterate, stop), None)  # holds no iterate while the next one is made
