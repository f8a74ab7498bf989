"""Fits in several processes, each of which imports the user's file for itself and is handed the examples once."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from traceback import format_exc
from types import ModuleType
from typing import Any, cast

from ssvm_dsl.errors import OptionError, SsvmError, TrainingError
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials

#: Examples and passes of a rehearsal.
FEW = 3


def in_processes(
    trials: Trials, tasks: Sequence[FittingTask], n: int, module: ModuleType | None
) -> Iterator[tuple[int, Outcome]]:
    """Yield (number of the task, its outcome) in the order in which they are done.

    Parameters
    ----------
    trials : Trials
    tasks : sequence of Task
    n : int
        Number of processes.
    module : module, optional
        The user's file.

    Raises
    ------
    OptionError
        Estimator or examples cannot be handed to another process.
    TrainingError
        A process died.
    SsvmError
        What a fit complained of.
    """
    with _started(n, module) as connections:
        rehearse(trials, tasks[0])  # meanwhile they import what they need
        for connection in connections:
            _hand(connection, trials)
            with suppress(ConnectionError):
                connection.send(tasks[0])
        todo, busy = iter(range(len(tasks))), dict.fromkeys(connections, -1)
        while busy:
            for connection in cast(list[Connection], wait(list(busy))):
                k = busy.pop(connection)
                found = _received(connection, None if k < 0 else tasks[k])
                if found is not None:
                    yield k, found
                following = next(todo, None)
                if following is not None:
                    with suppress(ConnectionError):  # it has died, which is told when it is asked
                        connection.send(tasks[following])
                    busy[connection] = following


def _hand(connection: Connection, trials: Trials) -> None:
    """Hand estimator and examples to a process."""
    try:
        connection.send(trials)
    except ConnectionError:
        return
    except Exception as err:
        text = f"the estimator or the examples cannot be handed to other processes ({type(err).__name__}: {err})"
        raise OptionError(f"{text}; write --jobs 1") from err


def _received(connection: Connection, task: FittingTask | None) -> Outcome | None:
    """Return what a process sends; raise what it complains of.  ``None``: it is ready."""
    try:
        found = connection.recv()
    except (EOFError, ConnectionError) as err:
        doing = "it started" if task is None else f"it fitted {task.name}"
        raise TrainingError(f"a process was killed while {doing}, for want of memory as a rule; lower --jobs") from err
    if isinstance(found, SsvmError):
        raise found
    if isinstance(found, str):
        raise RuntimeError(f"a fit failed in another process\n{found}")
    return None if found is None else Outcome(*found)


@contextmanager
def _started(n: int, module: ModuleType | None) -> Iterator[list[Connection]]:
    """Start processes, and give the connections to them; at the end they are gone."""
    context = get_context("spawn")  # a copy of this process would copy the state of its threads
    processes, connections = [], []
    file = None if module is None else (Path(module.__file__ or "").absolute(), module.__name__)
    try:
        with _ctrl_c_ignored():  # so it is in what starts now: Ctrl-C is for this process, which ends the others
            for _ in range(n):
                here, there = context.Pipe()
                process = context.Process(target=_work, args=(there, file), daemon=True)
                process.start()
                there.close()
                processes.append(process)
                connections.append(here)
        yield connections
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(connection: Connection, file: tuple[Path, str] | None) -> None:
    """Run the fits requested until the connection closes; send errors back."""
    try:
        if file is not None:
            from ssvm_dsl.cli.explain.examples import import_file

            import_file(*file)
        trials: Trials = connection.recv()
        rehearse(trials, connection.recv())
        connection.send(None)
        while True:
            task: FittingTask = connection.recv()
            found = trials.outcome(task)
            connection.send((found.score, found.seconds, found.converged, found.relative_gap))
    except (EOFError, BrokenPipeError):
        return
    except BaseException as err:
        connection.send(_sendable(err))


def rehearse(trials: Trials, task: FittingTask) -> None:
    """Fit a few examples: kernels are compiled by one process, and no fit's time is that of loading them."""
    limit = {"max_passes": FEW} if "max_passes" in trials.estimator.get_params(deep=False) else {}
    train, test = task.fold
    few = FittingTask({**task.parameters, **limit}, (train[:FEW], test[:FEW]), task.name)
    with warnings.catch_warnings(), suppress(Exception):  # what is wrong with all examples is told later
        warnings.simplefilter("ignore")
        trials.outcome(few)


def _sendable(error: BaseException) -> Any:
    """Return an error of ours as it is, others as the text of their traceback."""
    return error if isinstance(error, SsvmError) else format_exc()
