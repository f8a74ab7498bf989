"""Fits in several processes by joblib; each process imports the user's file and receives the examples once."""

from __future__ import annotations

import pickle
import signal
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials

#: Examples and passes of a rehearsal.
FEW = 3

#: Seconds after which a process without work ends.
IDLE = 10

#: What a process fits, once it is prepared.
_prepared: list[Trials] = []


def in_processes(
    trials: Trials, tasks: Sequence[FittingTask], n: int, module: ModuleType | None
) -> Iterator[tuple[int, Outcome]]:
    """Yield (number of the task, its outcome) in the order in which they are done.

    Parameters
    ----------
    trials : Trials
    tasks : sequence of FittingTask
    n : int
        Number of processes, two or more.
    module : module, optional
        The user's file.

    Raises
    ------
    OptionError
        The estimator or the examples cannot be pickled.
    TrainingError
        A process died.
    """
    from joblib import Parallel, delayed, parallel_config

    file = None if module is None else (Path(module.__file__ or "").absolute(), module.__name__)
    given = (file, _pickled(trials), tasks[0])
    done: set[int] = set()
    with parallel_config("loky", n_jobs=n, initializer=_prepare, initargs=given, idle_worker_timeout=IDLE):
        parallel = Parallel(return_as="generator_unordered", pre_dispatch=n, batch_size=1)
        made = parallel(delayed(_outcome)(k, task) for k, task in enumerate(tasks))
    try:
        for k, outcome in made:
            done.add(k)
            yield k, outcome
    except BrokenProcessPool as err:
        fitted = [task.name for k, task in enumerate(tasks) if k not in done][:n]
        text = f"a process was killed while it fitted {' or '.join(fitted)}, usually because memory ran out"
        raise TrainingError(f"{text}; lower --jobs") from err
    finally:
        made.close()  # ends the processes where fits are left


def _pickled(trials: Trials) -> bytes:
    """Return estimator and examples as other processes receive them."""
    try:
        return pickle.dumps(trials)
    except Exception as err:
        text = f"the estimator or the examples cannot be handed to other processes ({type(err).__name__}: {err})"
        raise OptionError(f"{text}; write --jobs 1") from err


def _prepare(file: tuple[Path, str] | None, trials: bytes, task: FittingTask) -> None:
    """Import the user's file, take the examples, and load kernels; Ctrl-C is for the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if file is not None:
        from ssvm_dsl.cli.explain.examples import import_file

        import_file(*file)
    _prepared.append(pickle.loads(trials))
    rehearse(_prepared[-1], task)


def _outcome(k: int, task: FittingTask) -> tuple[int, Outcome]:
    return k, _prepared[-1].outcome(task)


def rehearse(trials: Trials, task: FittingTask) -> None:
    """Fit a few examples: kernels are compiled by one process, and no fit's time is that of loading them."""
    limit = {"max_passes": FEW} if "max_passes" in trials.estimator.get_params(deep=False) else {}
    train, test = task.fold
    few = FittingTask({**task.parameters, **limit}, (train[:FEW], test[:FEW]), task.name)
    with warnings.catch_warnings(), suppress(Exception):  # errors of all examples are reported later
        warnings.simplefilter("ignore")
        trials.outcome(few)
