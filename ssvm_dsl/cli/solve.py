"""``ssvm solve FILE``: the best labelling, or the marginals, of a factor graph in a file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import nullcontext
from dataclasses import replace
from math import inf, isfinite, nan
from time import perf_counter
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Subcommand, add_shared, positive
from ssvm_dsl.cli.screen import aside, complain, console, write_json
from ssvm_dsl.units import number_text, seconds_text

if TYPE_CHECKING:
    from ssvm_dsl.array_types import I32
    from ssvm_dsl.inference.problems import SolveAnswer
    from ssvm_dsl.ir.graph_problem import GraphProblem
    from ssvm_dsl.ir.need import Need

#: Exit statuses.
SOLVED, UNSOLVED, INTERRUPTED = 0, 1, 130


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm solve``."""
    text = "a .uai, .wcsp, .cfn, .fg, .bif, .wcnf or .opb file, plain or packed (.gz, .bz2, .xz), or of a plug-in"
    parser.add_argument("file", metavar="FILE", help=text)
    parser.add_argument("--format", help="the format, if the name of the file does not show it")
    parser.add_argument("--evidence", metavar="FILE", help="observed states: a UAI .evid file")
    parser.add_argument(
        "--observe", metavar="NAME=STATE", type=_observed, action="append", default=[],
        help="an observed state, by the names or numbers of the file (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--task", choices=("map", "marginals"), default="map", help="the task (default: map)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="the backend (default: auto, exact ones)")
    add_shared(parser, "--option")
    parser.add_argument("--time-limit", type=positive, metavar="S", help="seconds for each backend")
    parser.add_argument("--all", action="store_true", help="solve with every applicable backend in turn")
    parser.add_argument("--labels", action="store_true", help="show the labelling (or the marginals)")
    add_shared(parser, "--json")


def _observed(text: str) -> tuple[str, str]:
    """Read ``NAME=STATE``; names may hold equals signs, states hold none."""
    name, equals, state = text.rpartition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"expected NAME=STATE, got {text!r}")
    return name, state


def run(args: Namespace) -> int:
    """Solve a problem; the exit status is 1 when it has no answer or no backend fits."""
    from ssvm_dsl.errors import NoBackendError, OptionError
    from ssvm_dsl.files.opening import suffix_of
    from ssvm_dsl.io.formats.uai import read_evidence
    from ssvm_dsl.io.problem_file import read_problem
    from ssvm_dsl.plugin_api.specs import FileContent
    from ssvm_dsl.registry import reader_of, readers

    if args.all and (args.backend != "auto" or args.option):
        raise OptionError("--all asks every backend with its own defaults: leave out --backend and --option")
    if args.option and args.backend == "auto":
        raise OptionError(f"--option {args.option[0][0]}=... belongs to one backend: name it with --backend")

    start = perf_counter()
    if os.path.isdir(args.file):
        raise OptionError(f"{args.file}: expected a file, found a folder")
    suffix = suffix_of(args.file)
    if reader_of(FileContent.PROBLEM, args.format, suffix) is None:
        name = args.format or suffix[1:]
        what = f"unknown format {name!r}" if name else "the name does not show the format"
        listed = ", ".join(one.name for one in readers(FileContent.PROBLEM))
        raise OptionError(f"{args.file}: {what}; set --format to one of: {listed}")
    problem = read_problem(args.file, args.format)
    clamp = read_evidence(args.evidence, problem) if args.evidence else None
    if args.observe:
        known = [] if clamp is None else [(v, int(clamp[v])) for v in range(len(clamp)) if clamp[v] >= 0]
        clamp = problem.clamp([*known, *(problem.number(*pair) for pair in args.observe)])
    observed = clamp if clamp is not None and (clamp >= 0).any() else None
    read = perf_counter() - start

    if args.all:
        return _compare_all(args, problem, observed, read)
    try:
        answer = _ask(args, problem, observed, args.backend)
    except NoBackendError as err:
        complain(str(err) + (_weaker(_need(args, problem, observed)) if args.backend == "auto" else ""))
        return UNSOLVED
    if args.json:
        write_json(answer.summary())
    else:
        _show_answer(args, problem, observed, answer, read)
    if answer.answered:
        return SOLVED
    return INTERRUPTED if answer.status == "interrupted" else UNSOLVED


def _compare_all(args: Namespace, problem: GraphProblem, observed: I32 | None, read: float) -> int:
    """Ask every backend that fits, and show what each answers."""
    from ssvm_dsl.errors import SsvmError

    fitting, refused = _fitting(_need(args, problem, observed))
    answers: list[SolveAnswer] = []
    for name in fitting:
        if answers and answers[-1].status == "interrupted":
            refused[name] = "not asked: interrupted"
            continue
        try:
            answers.append(_ask(args, problem, observed, name))
        except (SsvmError, MemoryError) as err:  # one that fails must not hide what the others say
            refused[name] = " ".join(f"failed: {type(err).__name__}: {err}".split())
    if args.json:
        write_json({"answers": [answer.summary() for answer in answers], "refused": refused})
    else:
        _show_comparison(problem, observed, answers, refused, read)
    return SOLVED if any(answer.answered for answer in answers) else UNSOLVED


def _ask(args: Namespace, problem: GraphProblem, observed: I32 | None, backend: str) -> SolveAnswer:
    """Ask one backend, with a live line where standard error is a terminal."""
    from ssvm_dsl.inference.problems import solve_problem
    from ssvm_dsl.report.notices import announce_compiling
    from ssvm_dsl.report.progress import SolveProgress

    screen = aside()
    announce_compiling()
    named = backend if backend != "auto" else {"map": "best labelling"}.get(args.task, args.task)
    live = SolveProgress(named, screen) if screen.is_terminal else nullcontext()
    evidence = None if observed is None else observed[: problem.n_given]
    with live as progress:
        return solve_problem(
            problem, {"map": "best"}.get(args.task, args.task), backend=backend, backend_options=dict(args.option),
            evidence=evidence, time_limit=args.time_limit, progress=progress,
        )  # fmt: skip


def _need(args: Namespace, problem: GraphProblem, observed: I32 | None) -> Need:
    """Return what the question asks of a backend."""
    from ssvm_dsl.inference.session import Ask
    from ssvm_dsl.ir.need import Task

    task = Task.MARGINALS if args.task == "marginals" else Task.MAP if observed is None else Task.MAP_CLAMPED
    return Ask(frozenset({task})).need(problem.theta, problem.program)


def _weaker(need: Need) -> str:
    """Return a hint that names the backends which would fit if no proof were asked for."""
    fitting = [f"{name} ({guarantee})" for name, guarantee in _fitting(need)[0].items()]
    if not fitting:
        return ""
    return f"\n  hint: without a proof of optimality these would fit, name one with --backend: {', '.join(fitting)}"


def _fitting(need: Need) -> tuple[dict[str, str], dict[str, str]]:
    """Return (guarantees of the backends that fit, reasons of those that refuse), by name."""
    from ssvm_dsl.errors import NoBackendError
    from ssvm_dsl.inference.planning.planner import accepted_guarantee, plan
    from ssvm_dsl.plugin_api.specs import BackendSpec
    from ssvm_dsl.registry import registry

    fitting, refused = {}, {}
    for spec in registry().specs(BackendSpec):
        try:
            plan(replace(need, guarantee=accepted_guarantee(spec.name)), spec.name)
        except NoBackendError as err:
            refused[spec.name] = "; ".join(err.refusals[0][1])
        else:
            fitting[spec.name] = spec.caps.guarantee.value
    return fitting, refused


def _evidence(observed: I32 | None) -> list[tuple[str, str]]:
    return [] if observed is None else [("evidence", f"{int((observed >= 0).sum())} variables observed")]


def _show_answer(
    args: Namespace, problem: GraphProblem, observed: I32 | None, answer: SolveAnswer, read: float
) -> None:
    """Show one answer as a table, with the labelling or the marginals when asked for."""
    import numpy as np

    from ssvm_dsl.report.tables import plain_table, two_columns

    rows = [("problem", f"{problem} (read in {seconds_text(read)})"), *_evidence(observed), *answer.rows()]
    if args.labels and answer.labels is not None:
        shown = [str(label) for label in answer.labels]
        if problem.names is not None:
            shown = [f"{problem.name(v)}={problem.state_name(v, label)}" for v, label in enumerate(answer.labels)]
        rows.append(("labels", " ".join(shown)))
    console().print(two_columns("", rows))
    if args.labels and answer.node is not None:
        ends = problem.program.state_ptr[1 : problem.n_given]
        parts = np.split(answer.node, ends) if problem.n_given else []
        states = [[problem.name(v), " ".join(f"{p:.6g}" for p in part)] for v, part in enumerate(parts)]
        console().print(plain_table("", ["variable", "probability of each state"], states))


def _show_comparison(
    problem: GraphProblem, observed: I32 | None, answers: list[SolveAnswer], refused: dict[str, str], read: float
) -> None:
    """Show the answer of every backend, best score first, and why backends without an answer have none."""
    from ssvm_dsl.report.tables import plain_table

    screen = console()
    screen.print(f"{problem} (read in {seconds_text(read)})", markup=False, soft_wrap=True)
    for what, text in _evidence(observed):
        screen.print(f"{what}: {text}", markup=False)
    if any(one.log_partition is not None for one in answers):
        columns = ["backend", "status", "log Z", "time"]
        rows = [
            [one.plan.title, one.status, number_text(one.log_partition or nan), seconds_text(one.seconds)]
            for one in answers
        ]
    else:
        columns = ["backend", "status", "score", "bound", "gap", "time"]
        ranked = sorted(answers, key=lambda one: (-one.score if isfinite(one.score) else inf, one.seconds))
        rows = [
            [
                one.plan.title, one.status, number_text(one.score), number_text(one.bound),
                number_text(one.gap, ".3g"), seconds_text(one.seconds),
            ]
            for one in ranked
        ]  # fmt: skip
    screen.print(plain_table("", columns, rows))
    for name, reason in refused.items():
        screen.print(f"{name}: {reason}", markup=False, style="dim", soft_wrap=True)


COMMAND = Subcommand("solve", "find the best labelling, or marginals, of a factor graph in a file", run, arguments)
