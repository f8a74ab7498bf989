"""What executors implement (``ExecutorSpec``): they run calls on shards of the data, wherever the shards are.

A *shard* is a recipe: it says where some examples are and how a training problem is made of them.  It is small, it can
be pickled, and it opens anywhere, again after a process was lost.  A call is a function of the opened shard and of a
few arrays, and returns sums; nothing as long as the data travels in an iteration.

Executors keep shards open where they are (:func:`answer`, :func:`answer_if_open`); the host chooses the functions, adds
up what they return in the order of the shards, and so gets the same numbers from any number of workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from ssvm_dsl.errors import OptionError
from ssvm_dsl.loading import loading, loading_time


class Shard(Protocol):
    """A picklable recipe for the training problem of some examples."""

    @property
    def key(self) -> str:
        """A name that no other shard has, in any fit."""

    def open(self) -> Any:
        """Read the examples and return the object that calls are made on."""


#: Trains in this process: examples are not cut into shards.
THREADS = "threads"

#: A function of an opened shard and of what travels to it; importable, so that it can be pickled.
ShardFunction = Callable[..., Any]


@runtime_checkable
class ShardExecutor(Protocol):
    """Runs calls on shards.  The factory of an ``ExecutorSpec`` makes one for each fit, with its options."""

    @property
    def n_shards(self) -> int:
        """Into how many shards a list of examples is cut."""

    def start(self, shards: Sequence[Shard]) -> None:
        """Take over shards, in the place of those before: one set to learn features from, then one to train on.

        Raises
        ------
        OptionError
            No worker is available; the message says what to do.
        """

    def run(self, function: ShardFunction, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return ``function(shards[number].open(), *given)`` for each ``(number, given)``, in order.

        Calls on one shard are made one after the other.  What a call raises is raised here, the first in order.  A
        worker that is lost is replaced: its shards are opened again elsewhere and the calls are repeated.

        Raises
        ------
        OutOfTime
            The call at hand must end (:func:`~ssvm_dsl.plugin_api.time_left`); ``found`` of the error holds an answer
            for each call, ``None`` for those that did not come.  Calls under way are left alone.
        """

    def close(self) -> None:
        """Close processes and connections."""


class NotOpen:
    """Stands for the answer of a process that does not have a shard (any more)."""


class OpenShards:
    """The shards that are open in this process.

    Parameters
    ----------
    most : int
        Number of shards that stay open.  Shards of a new fit replace those of a finished one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def find(self, key: str) -> Any:
        """Return an opened shard, :class:`NotOpen` if it is not open."""
        with self._lock:
            if key not in self._open:
                return NotOpen()
            self._open.move_to_end(key)
            return self._open[key]

    def holds(self, key: str) -> bool:
        """Whether a shard is open."""
        return key in self._open

    def get(self, shard: Shard) -> Any:
        """Return an opened shard, opening it now where it is not."""
        opened = self.find(shard.key)
        if not isinstance(opened, NotOpen):
            return opened
        with self._lock:
            while len(self._open) >= self.most:  # before the next one is read: memory holds so many, not one more
                self._open.popitem(last=False)
        made = shard.open()
        with self._lock:
            self._open[shard.key] = made
        return made

    def forget(self, keys: Sequence[str]) -> None:
        """Close shards."""
        with self._lock:
            for key in keys:
                self._open.pop(key, None)


#: So many shards a worker keeps open unless it is told otherwise.
MOST_OPEN = 64

#: Those of this process, where it is a worker.
_HERE = OpenShards(MOST_OPEN)


def ready(most: int | None = None) -> str:
    """Import the modules that shards need into this process, a new worker; return its version of ssvm-dsl.

    Parameters
    ----------
    most : int, optional
        So many shards it keeps open, 64 by default; others are opened again in each call.
    """
    _HERE.most = most or MOST_OPEN
    for module in ("ssvm_dsl.learning.estimators.svm", "ssvm_dsl.learning.shards.recipe"):
        import_module(module)
    import_module("ssvm_dsl.registry").registry()
    loading_time()
    return str(import_module("ssvm_dsl.version").__version__)


class TravellingShard:
    """A recipe on its way: pickled where it comes from, so that what cannot be is an error there, not elsewhere.

    Parameters
    ----------
    key : str
    pickled : bytes
    loads : callable
        Reads it.
    """

    def __init__(self, key: str, pickled: bytes, loads: Callable[[bytes], Any]) -> None:
        self.key, self.pickled, self.loads = key, pickled, loads

    def open(self) -> Any:
        """Open the shard; what is imported for it counts as loading.

        Raises
        ------
        OptionError
            This process cannot import what the recipe needs.
        """
        with loading():
            try:
                shard = self.loads(self.pickled)
            except (ImportError, AttributeError) as err:
                text = f"a worker cannot import the model, or the function that reads a part: {err}"
                hint = "put them into a module that workers find (installed there, or on their PYTHONPATH)"
                raise OptionError(f"{text}; {hint}") from err
        return shard.open()


#: What the fields of recipes are for users.
_FIELDS = {
    "part": "a part of the data, or the function that reads it",
    "learner": "the model, or a parameter of the estimator",
    "predictor": "the model, or a parameter of the estimator",
}


def travelling(shard: Shard, dumps: Callable[[Any], bytes], loads: Callable[[bytes], Any]) -> TravellingShard:
    """Return a recipe to send in the place of this one.

    Parameters
    ----------
    shard : Shard
    dumps, loads : callable
        How the executor's library pickles; ``loads`` is found by name where the recipe goes.

    Raises
    ------
    OptionError
        It cannot be pickled; says what of it.
    """
    try:
        return TravellingShard(shard.key, dumps(shard), loads)
    except Exception as err:
        what, why = "a shard", err
        for name, value in getattr(shard, "__dict__", {}).items():
            try:
                dumps(value)
            except Exception as its:
                what, why = _FIELDS.get(name, what), its
                break
        hint = "leave locks, open files and connections out of features and parts: make them inside the function"
        raise OptionError(f"{what} cannot be sent to workers ({type(why).__name__}: {why}); {hint}") from err


def answer(shard: Shard, function: ShardFunction, given: tuple[Any, ...]) -> Any:
    """Return the result of a function on a shard; open the shard in this process if necessary."""
    return function(_HERE.get(shard), *given)


def answer_if_open(key: str, function: ShardFunction, given: tuple[Any, ...]) -> Any:
    """Return the result of a function on a shard that is open in this process, else :class:`NotOpen`.

    So the recipe, which may hold the examples themselves, travels once, and after a worker was lost.
    """
    opened = _HERE.find(key)
    return opened if isinstance(opened, NotOpen) else function(opened, *given)


def forget(keys: Sequence[str]) -> None:
    """Close shards that are open in this process."""
    _HERE.forget(keys)
