"""How much longer ``auto`` takes than the best backend that gives the same guarantee, over structures and sizes.

Processor time of one thread.  Every run is a process of its own, which is ended where it takes longer than the quickest
one before it.  What counts as the same: proved answers to questions; fits that reach their tolerance with a
certificate, by backends that are exact or prove as a rule.  Where backends of bounds happen to do as well and quicker,
they are shown apart: nobody can know that beforehand.

``SSVM_BENCH_REGRET=chain,grid`` takes the structures whose names hold one of these.
"""

from __future__ import annotations

import os
import pickle
import signal
import statistics
import sys
import warnings
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time, sleep
from typing import Any

import numpy as np
from regret_problems import STRUCTURES, Structure
from rich.console import Console
from rich.table import Table

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Guarantee, Question, Task, Terms, Theta
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry

CONSOLE = Console(width=130)

#: A run ends after so many times the time of the quickest one so far, and some seconds at least.
CAP, LEAST = 1.1, 0.1

#: What took so many times as long as the quickest at a question of one example is not asked about more.
HOPELESS = 20.0

#: Whose answers are proved as a rule: they are what ``auto`` is compared with where exact answers are asked for.
PROVING = {"decompose"}

#: Seconds for ``auto``, which runs first.
MOST = 4.0

#: Short runs are repeated for so many seconds, and once more at least: the first may load kernels.  Long ones are not.
REPEAT, LONG = 0.01, 0.2

#: What a process does: it returns its seconds, and whether it did what was asked.
Work = Callable[[], tuple[float, bool]]

#: The fits: all of them end at the tolerance, or have not succeeded.
FIT: dict[str, Any] = {"C": 1.0, "tol": 0.01, "max_passes": 200, "random_state": 0, "n_threads": 1}


@dataclass(frozen=True)
class Run:
    """What came of a run.

    Parameters
    ----------
    seconds : float
        Of processor time; ``inf`` where it was ended or refused.
    done : bool
        Whether all answers are proved, or a fit has reached its tolerance with a certificate.
    """

    seconds: float
    done: bool


NOTHING = Run(np.inf, False)


def spent(process: int) -> float:
    """Return the processor seconds of a process, as Linux tells them."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def apart(work: Work, most: float) -> Run:
    """Return what comes of some work in a process of its own, which may take so many processor seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with os.fdopen(writing, "wb") as out:
                pickle.dump(work(), out)
        finally:  # whatever it raises, it goes no further
            os._exit(0)
    os.close(writing)
    while not os.waitpid(child, os.WNOHANG)[0]:
        if spent(child) > most:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        sleep(0.01)
    with os.fdopen(reading, "rb") as source:
        sent = source.read()
    return Run(*pickle.loads(sent)) if sent else NOTHING


def timed(work: Callable[[], bool]) -> tuple[float, bool]:
    """Return the least processor seconds of some runs, and whether they did what was asked."""
    best, begin, n = np.inf, process_time(), 0
    while True:
        start = process_time()
        done = work()
        best, n = min(best, process_time() - start), n + 1
        if best > LONG or (n > 1 and process_time() - begin > REPEAT):
            return best, done


@dataclass(frozen=True, eq=False)
class Problem:
    """A structure of one size with random data: questions about some examples, and a fit to what is best for them."""

    structure: Structure
    size: int
    X: list[Any]

    @classmethod
    def of(cls, structure: Structure, size: int, n: int) -> Problem:
        """Draw examples."""
        rng = np.random.default_rng(0)
        return cls(structure, size, [structure.example(rng, size) for _ in range(n)])

    @property
    def model(self) -> Any:
        """The declared model."""
        return self.structure.model(self.size)

    def question(self) -> tuple[Any, Theta]:
        """Return the examples as a program, and scores by random weights."""
        grounded = StructuredSVM(self.model, n_threads=1)._ground(self.X)
        rng = np.random.default_rng(1)
        w = rng.normal(size=grounded.parameters.dim)
        for block in grounded.parameters.blocks:
            if block.lower_bound is not None and np.isfinite(block.lower_bound):
                w[block.offset : block.offset + block.size] = abs(w[block.offset : block.offset + block.size])
        theta = Theta.zeros(grounded.program)
        grounded.parameters.fill_shared(w, theta)
        grounded.parameters.fill_examples(w, theta, np.arange(len(self.X)))
        return grounded, theta


def planned(grounded: Any, backend: str) -> Plan | None:
    """Return the plan for best labellings of a backend; ``None`` where it refuses."""
    guarantee = Guarantee.EXACT if backend == "auto" else Guarantee.BOUND
    try:
        return plan_program(grounded.program, need_of(grounded.parameters, frozenset({Task.MAP}), guarantee), backend)
    except SsvmError:
        return None


def answer(grounded: Any, theta: Theta, plan: Plan) -> Any:
    """Open a backend, and ask."""
    solution = open_plan(plan, grounded.program, outwards=False).solve(Question(theta))
    solution.terms = Terms.of(grounded.program, theta, np.arange(grounded.program.n_examples))
    return solution


def answered(grounded: Any, theta: Theta, plan: Plan) -> Work:
    """Return the work of opening a backend and asking."""
    return lambda: timed(lambda: bool(answer(grounded, theta, plan).optimal().all()))


def fitted(problem: Problem, Y: list[Any], backend: str, **options: Any) -> StructuredSVM:
    """Train."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(problem.model, backend=backend, **FIT | options).fit(problem.X, Y)


def fitting(problem: Problem, Y: list[Any], backend: str) -> Work:
    """Return the work of training."""

    def work() -> bool:
        report = fitted(problem, Y, backend).report_
        return report.reason == "tolerance" and bool(report.certified)

    return lambda: timed(work)


def backends() -> list[BackendSpec]:
    """Return the bundled backends that answer with proofs or bounds."""
    known = registry()
    specs = [spec for spec in known.specs(BackendSpec) if known.owner(spec).bundled and Task.MAP in spec.caps.tasks]
    return [spec for spec in specs if spec.caps.guarantee is not Guarantee.HEURISTIC]


def warm(structure: Structure) -> None:
    """Load what all backends need, in this process, whose children have it then."""
    problem = Problem.of(structure, structure.sizes[0], 2)
    grounded, theta = problem.question()
    for spec in backends():
        plan = planned(grounded, spec.name)
        if plan is None:
            continue
        try:
            Y = grounded.layout.decode(answer(grounded, theta, plan).labels)
            fitted(problem, Y, spec.name, max_passes=3, max_seconds=2.0)
        except (SsvmError, ValueError):
            continue


def compared(works: dict[str, Work], chosen: str, before: dict[str, Run]) -> dict[str, Run]:
    """Run ``auto`` and then all others but the one it takes, and but those that were hopeless ``before``."""
    found = {"auto": apart(works["auto"], MOST)}
    best = found["auto"].seconds if found["auto"].done else np.inf
    quickest = min((run.seconds for run in before.values()), default=np.inf)
    for name, work in works.items():
        if name in found or name == chosen or (before and not before[name].seconds <= HOPELESS * quickest):
            continue
        found[name] = apart(work, min(MOST, max(CAP * best, LEAST)))
        if found[name].done:
            best = min(best, found[name].seconds)
    return found


@dataclass(frozen=True)
class Line:
    """A line of the table: who answers, and how long that takes.

    Parameters
    ----------
    structure : str
    size : int
    use : str
    taken : str
        What ``auto`` takes.
    runs : mapping of str to Run
        That of ``auto``, and those of others.
    """

    structure: str
    size: int
    use: str
    taken: str
    runs: dict[str, Run]

    def best(self, names: Container[str]) -> tuple[str, float]:
        """Return the quickest of some others that have done what was asked."""
        done = {name: run.seconds for name, run in self.runs.items() if run.done and name != "auto" and name in names}
        return min(done.items(), key=lambda one: one[1], default=("", np.inf))

    @property
    def auto(self) -> float:
        """The seconds of ``auto``."""
        return self.runs["auto"].seconds if self.runs["auto"].done else np.inf

    def peers(self) -> set[str]:
        """Return the backends that give the same guarantee."""
        return {spec.name for spec in backends() if spec.caps.guarantee is Guarantee.EXACT or spec.name in PROVING}

    @property
    def ratio(self) -> float:
        """How many times as long ``auto`` takes as the best."""
        best = min(self.auto, self.best(self.peers())[1])
        return 1.0 if best == np.inf else self.auto / best

    def cells(self) -> list[str]:
        """Return what the table shows."""
        name, seconds = self.best(self.peers())
        lucky, less = self.best({spec.name for spec in backends()} - self.peers())
        if less >= min(self.auto, seconds):
            lucky, less = "", np.inf
        shown = [self.structure, str(self.size), self.use, self.taken, milliseconds(self.auto), name]
        return [*shown, milliseconds(seconds), f"{self.ratio:.2f}", lucky, milliseconds(less)]


def lines(structure: Structure) -> Iterator[Line]:
    """Yield a line for each size and use of a structure."""
    warm(structure)
    for size in structure.sizes[1:]:
        Y: list[Any] = []
        before: dict[str, Run] = {}
        for use, n in (("one", 1), ("batch", structure.n), ("fit", structure.n)):
            problem = Problem.of(structure, size, n)
            grounded, theta = problem.question()
            plans = {name: planned(grounded, name) for name in ["auto", *(spec.name for spec in backends())]}
            known = {name: plan for name, plan in plans.items() if plan is not None}
            if "auto" not in known or (use == "fit" and not Y):
                continue
            works = {
                name: fitting(problem, Y, name) if use == "fit" else answered(grounded, theta, plan)
                for name, plan in known.items()
            }
            taken = known["auto"].backend
            runs = compared(works, taken, before)
            before = {name: runs.get(name, NOTHING) for name in works} | {taken: runs["auto"]}
            if use == "batch" and runs["auto"].done:
                Y = grounded.layout.decode(answer(grounded, theta, known["auto"]).labels)
            yield Line(structure.name, size, use, taken, runs)


def milliseconds(seconds: float) -> str:
    """Return a time in few digits."""
    return "-" if not np.isfinite(seconds) else f"{1e3 * seconds:.3g}"


def main() -> None:
    """Print the table and its summary."""
    wanted = os.environ.get("SSVM_BENCH_REGRET", "").split(",")
    heads = ("structure", "size", "use", "auto takes", "ms", "best other", "ms", "ratio", "proved by chance", "ms")
    table, ratios = Table(*heads), []
    for structure in STRUCTURES:
        if not any(part in structure.name for part in wanted):
            continue
        for line in lines(structure):
            ratios.append(line.ratio)
            table.add_row(*line.cells())
            print("  ".join(line.cells()), file=sys.stderr, flush=True)
    CONSOLE.print(table)
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    late = len(ratios) - len(known)
    CONSOLE.print(
        f"{len(ratios)} cases: median {statistics.median(ratios):.2f}, worst of those that end {max(known):.2f}, "
        f"{sum(ratio > 2.0 for ratio in ratios)} above 2, {late} where auto alone does not end in {MOST:g} s"
    )
