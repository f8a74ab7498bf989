"""``ssvm warm [FILE[:Model]]``: compile ahead what training and prediction need, on all processors.

Kernels of other questions, such as marginals, take seconds to compile as well; ``--also`` names those that are asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive_int
from ssvm_dsl.cli.screen import aside, console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ssvm_dsl.kernels.compiling.rehearsal import Job
    from ssvm_dsl.lang.model import Model
    from ssvm_dsl.learning.estimators.svm import StructuredSVM

#: Examples and passes of the rehearsal: enough for each kernel to be called.
EXAMPLES, PASSES = 3, 3

#: Questions that ``--also`` names, beside labels and their score.
ALSO: dict[str, Callable[[StructuredSVM, Any], object]] = {
    "marginals": lambda svm, X: svm.predict_marginals(X),
    "kbest": lambda svm, X: svm.predict_kbest(X, 2),
    "explain": lambda svm, X: svm.explain(X[0]),
}

#: Processor seconds that compiling takes for each byte of Python's code, measured over all trainers and backends.
SECONDS_PER_BYTE = 5.5e-4


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm warm``."""
    text = "a Python file (it is run) and a model class in it; without it the model of ssvm demo is taken"
    parser.add_argument("place", metavar="FILE[:Model]", nargs="?", help=text)
    parser.add_argument("--trainer", default="auto", help="the trainer (default: %(default)s)")
    parser.add_argument("--backend", default="auto", help="the backend (default: %(default)s)")
    parser.add_argument("--risk", default="margin", help="the risk (default: %(default)s)")
    parser.add_argument(
        "--data", metavar="NAME", help="take examples X from this variable (or function) of FILE; made up by default"
    )
    text = "questions to compile for, beside labels and their score"
    text = f"{text}: {', '.join(ALSO)}"
    parser.add_argument("--also", nargs="+", choices=ALSO, default=[], metavar="QUESTION", help=text)
    add_shared(parser, "--trees")
    parser.add_argument(
        "--processes", type=positive_int, metavar="N", help="compile in this many processes (default: all processors)"
    )


def run(args: Namespace) -> int:
    """Compile ahead; the exit status is 1 when something could not be compiled."""
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.kernels.compiling import compile_cache
    from ssvm_dsl.kernels.compiling.jit import LINKED, OBJECTION
    from ssvm_dsl.processors import available

    if not LINKED:
        text = "nothing can be compiled ahead, as plain numba compiles kernels when they are first called"
        raise OptionError(f"{text}: {OBJECTION}")
    from ssvm_dsl.kernels.compiling.rehearsal import Rehearsal

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = compile_cache.folder()
    if folder is None:
        why = caught[0].message if caught else "SSVM_CACHE_DIR=off: compiled code is not kept"
        raise OptionError(f"nothing can be compiled ahead: {why}")
    screen, begin = console(), perf_counter()
    for one in caught:
        screen.print(str(one.message), style="yellow")
    with Rehearsal() as rehearsal, aside().status("looking for the kernels that are needed"):
        _rehearse(args)
    jobs = [job for job in rehearsal.jobs if job.state() != "kept"]
    failed = _compile(jobs, min(args.processes or available(), len(jobs))) if any(job.arguments for job in jobs) else {}
    rehearsal.catch_up()
    for job, complaint in failed.items():
        screen.print(f"{job.text} could not be compiled: {complaint}", style="red", markup=False)
    ready = f"{len(rehearsal.jobs) - len(failed)} kernels are ready in {folder}"
    screen.print(f"{ready} after {perf_counter() - begin:.1f} s", soft_wrap=True)
    return 1 if failed else 0


def _rehearse(args: Namespace) -> None:
    """Fit, predict and score with a few examples, kernels being Python."""
    from ssvm_dsl.learning.estimators.svm import StructuredSVM

    model, X, Y = _examples(args)
    options: dict[str, Any] = {"trainer": args.trainer, "backend": args.backend, "risk": args.risk}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(model, **options, max_passes=PASSES, tol=1e-9, random_state=0, n_threads=1).fit(X, Y)
        svm.predict(X)
        svm.score(X, Y)
        for name in args.also:
            ALSO[name](svm, X)


def _examples(args: Namespace) -> tuple[type[Model], Any, list[Any]]:
    """Return a model with a few labelled examples; labels are made up."""
    import numpy as np

    from ssvm_dsl.cli.explain.command import with_all_weights
    from ssvm_dsl.cli.explain.examples import find_data, find_model, make_examples
    from ssvm_dsl.cli.ocr import OCR
    from ssvm_dsl.compiler import ground
    from ssvm_dsl.errors import OptionError

    if args.place is None and args.data is not None:
        raise OptionError("--data: it names examples of FILE, and there is none")
    model, module = find_model(args.place) if args.place is not None else (OCR, None)
    if args.data is None or module is None:
        X: Any = make_examples(model.declaration, EXAMPLES, {}, trees=args.trees)
    else:
        X = find_data(module, args.data)[:EXAMPLES]
    layout = ground(with_all_weights(model.declaration), X).layout
    states = np.random.default_rng(0).integers(layout.card).astype(np.int32)
    return model, X, layout.decode(states)


def _compile(jobs: list[Job], n: int) -> dict[Job, str]:
    """Compile jobs in n processes and show how far they are; return those that failed, and why."""
    side, failed = aside(), {}
    total, left = sum(job.extent for job in jobs), dict(enumerate(jobs))
    about = f"{len(jobs)} kernels to compile, about {max(total * SECONDS_PER_BYTE / n, 1.0):.0f} s in {n} processes"
    with ExitStack() as stack:
        if side.is_terminal:
            bar = stack.enter_context(_bar(side))
            task = bar.add_task("", total=total, text=about)
        else:
            side.print(about, soft_wrap=True)
        for line in stack.enter_context(_workers(jobs, n)):
            job = left.pop(line["job"], None)
            if job is None:  # another process has told it
                continue
            if line["complaint"]:
                failed[job] = line["complaint"]
            if side.is_terminal:
                bar.update(task, advance=job.extent, text=", ".join(one.name for one in list(left.values())[:n]))
            else:
                side.print(f"{job.text}: {line['seconds']:.1f} s", soft_wrap=True)
    return failed | dict.fromkeys(left.values(), "the process that compiled it has ended")


def _bar(side: Console) -> Progress:
    """Return the bar: what is compiled now, and how long the rest may take."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("[bold]compiling[/bold]")
    return Progress(
        text, BarColumn(bar_width=24), TextColumn("{task.fields[text]}"), TimeRemainingColumn(), console=side
    )


@contextmanager
def _workers(jobs: list[Job], n: int) -> Iterator[Iterator[dict[str, Any]]]:
    """Start n processes that compile jobs; give an iterator over the lines that they write until all have ended."""
    from ssvm_dsl.kernels.compiling.code_store import packed

    lines: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def read(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(json.loads(line))
        lines.put(None)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "jobs"
        path.write_bytes(packed(jobs))
        command = [sys.executable, "-m", "ssvm_dsl.kernels.compiling.compile_worker", str(path)]
        for _ in range(n):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.terminate)
            threading.Thread(target=read, args=(process,), daemon=True).start()

        def messages() -> Iterator[dict[str, Any]]:
            ended = 0
            while ended < n:
                line = lines.get()
                if line is None:
                    ended += 1
                else:
                    yield line

        yield messages()


COMMAND = Subcommand("warm", "compile the kernels that a model needs, on all processors", run, arguments)
