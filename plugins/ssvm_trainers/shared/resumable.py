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
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

import numpy as np

from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem

# --------------------------------------------------------------------------------------------------------------------
# Rules for the values of a trainer's state, checked when a fit resumes from a file, before any kernel sees them.
#
# A file may be damaged or edited, and kernels trust their arrays: an index out of range is a crash or a wrong model.
# So a class that keeps a state lists a :class:`StateRule` for each of its values, and :func:`check_values` compares.
# Most arrays are as large as in a run that was just begun; the shapes of those that grow are named in sizes, such as
# ``("planes", "dim")``.  Sizes that are not known are those of the first array that has them.

#: Ints beyond this do not fit the counters of kernels.
MOST = 2**53

#: The type of scipy's indices: 32 bits where that is enough.
INDEX = "int32 or int64"

#: The largest rounding error of a number that is at most 1.
ROUNDING = 1e-6


@dataclass(frozen=True)
class StateRule:
    """The rule for a value of a state.

    Parameters
    ----------
    least, most : float
        Bounds of the number, or of all numbers of the array.
    below : str
        A size that the ints of the array stay below; empty for none.
    shape : tuple of int and str, optional
        Numbers and names of sizes; as in a run that was just begun when left out.
    dtype : str
        The type of an array with a ``shape``; with the others it is that of a run just begun.
    finite : bool
        Whether infinities and ``nan`` are wrong.
    optional : bool
        Whether ``None`` stands for "not yet".
    """

    least: float = -np.inf
    most: float = np.inf
    below: str = ""
    shape: tuple[int | str, ...] | None = None
    dtype: str = "float64"
    finite: bool = True
    optional: bool = False


#: Any finite numbers; also where nothing is known yet; none below 0; from 0 to 1; a part that keeps a state itself.
NUMBERS, OPEN, COUNTS, SHARES, PART = (
    StateRule(), StateRule(finite=False), StateRule(least=0), StateRule(-ROUNDING, 1 + ROUNDING), StateRule()
)  # fmt: skip


def require(ok: bool | np.bool_, name: str, expected: str) -> None:
    """Refuse a state.

    Raises
    ------
    FileFormatError
        ``ok`` is false.
    """
    if not ok:
        raise FileFormatError(f"the state of the trainer is damaged: {name}: expected {expected}")


def check_values(
    rules: Mapping[str, StateRule], now: Mapping[str, Any], state: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Compare the values of a state with their rules; return all sizes.

    Parameters
    ----------
    rules : mapping
    now : mapping
        The values of a run that was just begun.
    state : mapping
        The values of a file.
    sizes : mapping
        The sizes that are known.

    Raises
    ------
    FileFormatError
        A value is missing or breaks its rule; names it.
    """
    known = dict(sizes)
    for name, rule in rules.items():
        require(name in state, f"'{name}'", "a value")
        value, fresh = state[name], now.get(name)
        if value is None and rule.optional:
            continue
        require(fresh is not None or rule.shape is not None, f"'{name}'", "nothing")
        if rule.shape is not None or isinstance(fresh, np.ndarray):
            _check_array(name, rule, fresh, value, known)
        else:
            _check_number(name, rule, fresh, value)
    return known


def _check_array(name: str, rule: StateRule, fresh: Any, value: Any, sizes: dict[str, int]) -> None:
    require(isinstance(value, np.ndarray), f"'{name}'", "an array")
    dtype = rule.dtype if rule.shape is not None else fresh.dtype
    known = value.dtype in ("int32", "int64") if dtype == INDEX else value.dtype == dtype
    require(known, f"'{name}'", f"{dtype}, found {value.dtype}")
    if rule.shape is None:
        wanted: tuple[int, ...] = fresh.shape
    else:
        require(value.ndim == len(rule.shape), f"'{name}'", f"{len(rule.shape)} axes, found {value.ndim}")
        wanted = tuple(_size(axis, size, sizes) for axis, size in zip(rule.shape, value.shape, strict=True))
    require(value.shape == wanted, f"'{name}'", f"shape {wanted}, found {value.shape}")
    if not value.size:
        return
    if value.dtype.kind == "f":
        require(not rule.finite or np.isfinite(value).all(), f"'{name}'", "finite numbers")
    most = sizes[rule.below] - 1 if rule.below else rule.most
    inside = not ((value < rule.least) | (value > most)).any()
    require(inside, f"'{name}'", f"numbers from {rule.least:g} to {most:g}")


def _size(axis: int | str, size: int, sizes: dict[str, int]) -> int:
    """Return the size of an axis; an unknown one becomes the size found."""
    return axis if isinstance(axis, int) else sizes.setdefault(axis, size)


def _check_number(name: str, rule: StateRule, fresh: Any, value: Any) -> None:
    if isinstance(fresh, bool):
        require(isinstance(value, bool), f"'{name}'", "true or false")
        return
    kinds = (int,) if isinstance(fresh, int) else (int, float)
    require(type(value) in kinds, f"'{name}'", " or ".join(kind.__name__ for kind in kinds))
    require(not rule.finite or abs(value) < np.inf, f"'{name}'", "a finite number")
    require(isinstance(value, float) or abs(value) <= MOST, f"'{name}'", "an int that fits 54 bits")
    require(not (value < rule.least or value > rule.most), f"'{name}'", f"from {rule.least:g} to {rule.most:g}")


def check_pointers(ptr: np.ndarray[Any, Any], n: int, name: str) -> None:
    """Check that pointers begin at 0, end at n and do not fall.

    Raises
    ------
    FileFormatError
        The pointers are others.
            """
    falls = bool((np.diff(ptr) < 0).any())
    require(len(ptr) > 0 and ptr[0] == 0 and ptr[-1] == n and not falls, f"'{name}'", f"pointers from 0 to {n}")


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
