"""Runs that can be stopped and resumed: all state between two iterates is in named fields.

A trainer makes a *run* for a problem, and a run makes one iterate at a time.  Between two iterates everything the next
one depends on is in fields that classes declare with the rule for their values, ``w: Annotated[F64, NUMBERS]``; a
checkpoint holds their values, and a resumed fit is a new run that takes them over.  So a trainer has no second path for
fits that are resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any, get_type_hints

import numpy as np

from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.shared.state_rules import StateRule, check_values


def rules_of(kind: type) -> dict[str, StateRule]:
    """Return the rules of the fields of a class that are saved: those annotated with one."""
    hints = get_type_hints(kind, include_extras=True).items()
    kept = {name: getattr(hint, "__metadata__", ())[:1] for name, hint in hints}
    return {name: rule for name, rules in kept.items() for rule in rules if isinstance(rule, StateRule)}


class Stateful:
    """Something whose state is in fields that are annotated with a rule for their values.

    They are arrays, plain values, random generators, or parts that are stateful themselves (those of part ``a`` are
    named ``a.b``).  Values that a file holds in another form than memory are packed into a record, a ``NamedTuple`` of
    fields that are annotated likewise.
    """

    def packed(self) -> Any:
        """Return a record of further saved values; ``None`` without any."""
        return None

    def unpack(self, record: Any) -> None:
        """Load what the fields of a checkpoint do not hold, after they are loaded."""

    def state(self) -> dict[str, Any]:
        """Return the state: arrays, and values that JSON can hold."""
        record = self.packed()
        state: dict[str, Any] = {} if record is None else record._asdict()
        for name in rules_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Stateful):
                state |= {f"{name}.{inner}": part for inner, part in value.state().items()}
            elif isinstance(value, np.random.Generator):
                state[name] = value.bit_generator.state
            else:
                state[name] = value.item() if isinstance(value, np.generic) else value
        return state

    def restore(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Take over a state that keeps to the rules.

        Parameters
        ----------
        state : mapping
        sizes : mapping
            Sizes that rules name: ``dim`` and ``n``, the numbers of weights and examples.

        Raises
        ------
        FileFormatError
            The state breaks a rule.
                    """
        record, own = self.packed(), rules_of(type(self))
        rules = own | rules_of(type(record))
        plain = {name: rule for name, rule in rules.items() if not isinstance(self._part(name), _PARTS)}
        self.check(state, check_values(plain, self.state(), state, sizes))
        for name in own:
            value, lead = self._part(name), f"{name}."
            if isinstance(value, Stateful):
                inner = {key.removeprefix(lead): part for key, part in state.items() if key.startswith(lead)}
                value.restore(inner, sizes)
            elif isinstance(value, np.random.Generator):
                _set_generator(value, name, state.get(name))
            else:
                setattr(self, name, _like(value, state[name]))
        if record is not None:
            self.unpack(type(record)(**{name: state[name] for name in record._fields}))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse a state whose values, each of which keeps to its rule, do not fit together."""

    def go_on(self, state: dict[str, Any]) -> None:
        """Take over the state of a stream, which restarts with every call.

        Raises
        ------
        TrainingError
            It is the state of something else, or damaged.
        """
        try:
            self.restore(state, {})
        except FileFormatError as err:
            raise TrainingError(f"the saved state is of another model, or damaged: {err}") from err

    def _part(self, name: str) -> Any:
        return getattr(self, name, None)


#: Objects with own rules.
_PARTS = (Stateful, np.random.Generator)


def _set_generator(generator: np.random.Generator, name: str, state: Any) -> None:
    """Set the state of a random generator."""
    try:
        generator.bit_generator.state = state
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as err:
        raise FileFormatError(f"the state of the trainer is damaged: '{name}': {type(err).__name__}: {err}") from err


def _like(value: Any, read: Any) -> Any:
    """Return a number of a file in the type that it has while training."""
    return float(read) if isinstance(value, float) and isinstance(read, int) else read


class Run(Stateful, ABC):
    """One run of a trainer on a problem."""

    @abstractmethod
    def iterate(self, stop: StopRule) -> Iterate | None:
        """Take the next outer iteration; ``None`` at the end of the run."""

    def certified(self) -> Iterate | None:
        """Return the newest iterate with its plane; ``None`` where iterates come with their certificate."""
        return None

    def newest(self) -> F64 | None:
        """Return the current weights inside an iteration; ``None`` where those of the last iterate are the newest."""
        return None


class Resumable(ABC):
    """A trainer whose fits can resume from a checkpoint (:class:`~ssvm_dsl.plugin_api.ResumableTrainer`)."""

    @abstractmethod
    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run that has not made an iterate yet."""

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each outer iteration; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        self._run = self._begun(problem, start)
        yield from iter(partial(self._run.iterate, stop), None)  # holds no iterate while the next one is made

    def certified(self) -> Iterate | None:
        """Return the newest iterate with its plane; see :class:`~ssvm_dsl.plugin_api.ConcludingTrainer`."""
        run: Run | None = getattr(self, "_run", None)
        return None if run is None else run.certified()

    def newest(self) -> F64 | None:
        """Return the current weights inside an iteration; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        run: Run | None = getattr(self, "_run", None)
        return None if run is None else run.newest()

    def state(self) -> dict[str, Any]:
        """Return all state that the next iterate depends on."""
        return self._run.state()

    def resume(self, problem: TrainProblem, stop: StopRule, state: dict[str, Any]) -> Iterator[Iterate]:
        """Return the iterates that follow a state.

        Raises
        ------
        FileFormatError
            It is the state of something else, or damaged.
        """
        self._run = self._begun(problem, None)
        self._run.restore(state, {"dim": problem.dim, "n": problem.n})
        return iter(partial(self._run.iterate, stop), None)

    def _begun(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run with a copy of the options: with the trainer, which holds the run, it would be a cycle."""
        options = copy(self)
        vars(options).pop("_run", None)
        return options.begin(problem, start)
