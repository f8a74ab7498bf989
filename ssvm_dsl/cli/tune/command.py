"""``ssvm tune [MODEL]``: choose parameters by cross-validation, judge the choice by a nested one."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive_int
from ssvm_dsl.cli.learn.reading import add_format_arguments
from ssvm_dsl.cli.screen import aside, console, progress_bar, write_json
from ssvm_dsl.cli.tune.sources import parse_grid

if TYPE_CHECKING:
    from ssvm_dsl.cli.tune.sources import TuningSource
    from ssvm_dsl.cli.tune.tuned import KeptFits, Tuned
    from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm tune``."""
    text = "a Python file (it is run) and a model class or an estimator in it, or a ready model such as chain-tagger; "
    parser.add_argument("place", metavar="MODEL", nargs="?", help=text + "without it the letters of ssvm demo")
    parser.add_argument(
        "--data", metavar="X,Y",
        help="a file as for ssvm train; or variables (or functions) of FILE with the examples and their labels, or one "
        "with both (default: X,Y)",
    )  # fmt: skip
    add_format_arguments(parser)
    parser.add_argument(
        "--grid", type=parse_grid, action="append", default=[], metavar="C=0.1,1,10",
        help="values of a parameter, all combinations are tried; a single one sets it; trainer_options.keep=2,4 is an "
        "option of the trainer (default: C=0.001,0.01,0.1,1)",
    )  # fmt: skip
    parser.add_argument("--executor", metavar="NAME", help="train on shards of the examples: stream, processes, ...")
    parser.add_argument(
        "--executor-options", type=parse_grid, action="append", default=[], metavar="shards=4",
        help="an option of the executor (ssvm plugins show NAME lists them; may be repeated)",
    )  # fmt: skip
    parser.add_argument("--folds", type=_folds, default=5, metavar="K", help="number of folds (default: %(default)s)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--groups", metavar="NAME", help="a variable of FILE: examples of one group stay in one fold")
    kind.add_argument("--shuffle", action="store_true", help="folds of examples drawn at random, not of neighbours")
    parser.add_argument(
        "--scoring", metavar="NAME",
        help="a function (estimator, X, Y) -> float of FILE, or a scorer of scikit-learn; larger is better "
        "(default: the estimator's score)",
    )  # fmt: skip
    parser.add_argument(
        "--nested", action="store_true", help="estimate the score of the whole procedure on new data (K times the fits)"
    )
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="of fits and of --shuffle (default: 0)")
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="number of processes (default: all processors)")
    parser.add_argument("--results", metavar="FILE", type=Path, help="save finished fits in FILE; resume from them")
    parser.add_argument("--save", metavar="FILE", type=Path, help="fit the best on all examples, and write the model")
    parser.add_argument("--plot", metavar="DIR", type=Path, help="draw scores into this folder (needs matplotlib)")
    add_shared(parser, "--json")


def _folds(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise ArgumentTypeError(f"expected an int of at least 2, got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise ArgumentTypeError(f"expected a non-negative int, got {text!r}")
    return int(text)


def run(args: Namespace) -> int:
    """Tune; after an interrupt show the results so far, and return the exit status 130."""
    from ssvm_dsl.cli.tune.sources import check_grid, read_source
    from ssvm_dsl.cli.tune.tuned import KeptFits, Tuned, TuningPlan, plot, show, summary
    from ssvm_dsl.learning.tuning.fitting import Trials
    from ssvm_dsl.learning.tuning.folds import make_folds, size_of
    from ssvm_dsl.learning.tuning.grid import combinations

    begin = perf_counter()
    source = read_source(args.place, args.data, args.groups, args.scoring, args.seed, args)
    grid = combinations(check_grid(source.estimator, _grid([*args.grid, *_executor(args)]), source.declared))
    shuffled = args.seed if args.shuffle else None
    folds = make_folds(size_of(source.data[0]), args.folds, source.groups, shuffled)
    plan = TuningPlan(grid, folds, source.groups, shuffled, args.nested)
    trials = Trials.of(source.estimator, source.data)
    _require_places(args, source)
    kept = None if args.results is None else KeptFits(args.results, trials)
    tuned = Tuned(source, plan, args.seed)
    try:
        _fit(tuned, trials, plan.tasks, kept, args)
        if args.save is not None:
            _save(tuned.refit(trials), source, args)
            tuned.saved = str(args.save)
    except KeyboardInterrupt:
        tuned.interrupted = True
    tuned.seconds = perf_counter() - begin
    if args.json:
        write_json(summary(tuned))
    else:
        show(console(), tuned)
    if args.plot is not None and tuned.scores is not None:
        aside().print(f"figure in {plot(tuned, args.plot)}", markup=False, soft_wrap=True)
    if tuned.interrupted:
        hint = "" if args.results is None else f"; the same command resumes from {args.results}"
        text = f"interrupted after {len(tuned.outcomes)} of {len(plan.tasks)} fits{hint}"
        aside().print(text, style="yellow", markup=False, soft_wrap=True)
    return 130 if tuned.interrupted else 0


def _save(model: Any, source: TuningSource, args: Namespace) -> None:
    """Write the model; with how its data are read, if they are of a file."""
    from ssvm_dsl.cli.learn.saved_models import save_model

    if source.settings is None:
        model.save(args.save)
    else:
        save_model(args.save, args.place, model, source.settings)


def _executor(args: Namespace) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the executor and its options as what sets parameters; refuse options without an executor."""
    from ssvm_dsl.errors import OptionError

    options = [(f"executor_options.{name}", values) for name, values in args.executor_options]
    if args.executor is None:
        if options and not any(name == "executor" for name, _ in args.grid):
            raise OptionError("--executor-options: these are of an executor; name it with --executor")
        return options
    return [("executor", (args.executor,)), *options]


def _grid(given: Sequence[tuple[str, tuple[Any, ...]]]) -> dict[str, tuple[Any, ...]]:
    """Return the grid of the command line; refuse a parameter that comes twice."""
    from ssvm_dsl.errors import OptionError

    names = [name for name, _ in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"--grid {twice}: given twice; write all its values after one, {twice}=1,2,3")
    return dict(given)


def _require_places(args: Namespace, source: TuningSource) -> None:
    """Check before any fit that all outputs can be written, not to fail after hours."""
    from tempfile import TemporaryFile

    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.files.opening import check_path
    from ssvm_dsl.report.plots import new_figure

    if args.plot is not None:
        new_figure(1.0, 1.0)  # complains where there is no matplotlib
        args.plot.mkdir(parents=True, exist_ok=True)
    if args.save is not None:
        check_path(args.save, "--save")
        if not hasattr(source.estimator, "save"):
            raise OptionError(f"--save: {type(source.estimator).__name__} cannot be saved")
        if hasattr(source.estimator, "model"):
            source.estimator.model.to_json()  # complains of functions that have no import path
    for folder in (args.plot, None if args.save is None else args.save.parent):
        if folder is not None:
            with TemporaryFile(dir=folder):
                pass


def _fit(tuned: Tuned, trials: Trials, tasks: Sequence[FittingTask], kept: KeptFits | None, args: Namespace) -> None:
    """Do all fits that are not done yet, and show how far they are."""
    if kept is not None:
        tuned.outcomes |= {k: found for k, task in enumerate(tasks) if (found := kept.find(task)) is not None}
        tuned.n_kept = len(tuned.outcomes)
    missing = [k for k in range(len(tasks)) if k not in tuned.outcomes]
    with progress_bar("tune") as progress:
        for k, outcome in _outcomes(trials, [tasks[k] for k in missing], args.jobs, tuned.source, progress):
            tuned.outcomes[missing[k]] = outcome
            if kept is not None:
                kept.keep(tasks[missing[k]], outcome)
            progress(f"{tasks[missing[k]].name}: score {outcome.score:.4f}", len(tuned.outcomes) / len(tasks))


def _outcomes(
    trials: Trials, tasks: Sequence[FittingTask], jobs: int | None, source: TuningSource,
    progress: Callable[[str, float], None],
) -> Iterator[tuple[int, Outcome]]:  # fmt: skip
    """Yield (number, outcome) of fits as they are done, in this process or in several."""
    from dataclasses import replace

    from ssvm_dsl.cli.tune.workers import in_processes, rehearse
    from ssvm_dsl.learning.tuning.fitting import configured
    from ssvm_dsl.processors import available

    n = min(jobs or available(), len(tasks))
    if not n:
        return
    progress("preparing kernels", 0.0)
    rehearse(trials, tasks[0])
    if n == 1:
        yield from enumerate(map(trials.outcome, tasks))
        return
    if "n_threads" in trials.estimator.get_params(deep=False):
        trials = replace(trials, estimator=configured(trials.estimator, {"n_threads": 1}))
    yield from in_processes(trials, tasks, n, source.module)


COMMAND = Subcommand("tune", "choose parameters by cross-validation, nested if asked for", run, arguments)
