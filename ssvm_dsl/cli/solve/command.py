"""``ssvm solve FILE``: the best labelling, or the marginals, of a factor graph in a file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from ssvm_dsl.cli.command import Subcommand, add_json, add_options, positive
from ssvm_dsl.cli.screen import aside, complain, console, write_json

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
    add_options(parser, "the named backend")
    parser.add_argument("--time-limit", type=positive, metavar="S", help="seconds for each backend")
    parser.add_argument("--all", action="store_true", help="solve with every applicable backend in turn")
    parser.add_argument("--labels", action="store_true", help="show the labelling (or the marginals)")
    add_json(parser)


def _observed(text: str) -> tuple[str, str]:
    """Read ``NAME=STATE``; names may hold equals signs, states hold none."""
    name, equals, state = text.rpartition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"expected NAME=STATE, got {text!r}")
    return name, state


def run(args: Namespace) -> int:
    """Solve a problem; the exit status is 1 when it has no answer or no backend fits."""
    from ssvm_dsl.errors import OptionError

    if args.all and (args.backend != "auto" or args.option):
        raise OptionError("--all asks every backend with its own defaults: leave out --backend and --option")
    if args.option and args.backend == "auto":
        raise OptionError(f"--option {args.option[0][0]}=... belongs to one backend: name it with --backend")
    problem, observed, read = _read(args)
    return (_run_all if args.all else _run_one)(args, problem, observed, read)


def _read(args: Namespace) -> tuple[GraphProblem, I32 | None, float]:
    """Return the problem of the files, the observed states, and the seconds it took to read them."""
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.files.unpacking import suffix_of
    from ssvm_dsl.io.formats.uai import read_evidence
    from ssvm_dsl.io.problem_file import problem_format, read_problem
    from ssvm_dsl.plugin_api.specs import FileContent
    from ssvm_dsl.registry import readers

    start = perf_counter()
    if os.path.isdir(args.file):
        raise OptionError(f"{args.file}: expected a file, found a folder")
    if problem_format(args.file, args.format) is None:
        name = args.format or suffix_of(args.file)[1:]
        what = f"unknown format {name!r}" if name else "the name does not show the format"
        listed = ", ".join(one.name for one in readers(FileContent.PROBLEM))
        raise OptionError(f"{args.file}: {what}; set --format to one of: {listed}")
    problem = read_problem(args.file, args.format)
    clamp = read_evidence(args.evidence, problem) if args.evidence else None
    if args.observe:
        known = [] if clamp is None else [(v, int(clamp[v])) for v in range(len(clamp)) if clamp[v] >= 0]
        clamp = problem.clamp([*known, *(problem.number(*pair) for pair in args.observe)])
    observed = clamp if clamp is not None and (clamp >= 0).any() else None
    return problem, observed, perf_counter() - start


def _run_one(args: Namespace, problem: GraphProblem, observed: I32 | None, read: float) -> int:
    from ssvm_dsl.cli.solve.show import show_answer
    from ssvm_dsl.errors import NoBackendError

    try:
        answer = _answer(args, problem, observed, args.backend)
    except NoBackendError as err:
        complain(str(err) + (_weaker(_need(args, problem, observed)) if args.backend == "auto" else ""))
        return UNSOLVED
    if args.json:
        write_json(answer.summary())
    else:
        show_answer(console(), problem, observed, answer, read, args.labels)
    if answer.answered:
        return SOLVED
    return INTERRUPTED if answer.status == "interrupted" else UNSOLVED


def _run_all(args: Namespace, problem: GraphProblem, observed: I32 | None, read: float) -> int:
    from ssvm_dsl.cli.solve.show import show_comparison
    from ssvm_dsl.errors import SsvmError

    fitting, refused = _fitting(_need(args, problem, observed))
    answers: list[SolveAnswer] = []
    for name in fitting:
        if answers and answers[-1].status == "interrupted":
            refused[name] = "not asked: interrupted"
            continue
        try:
            answers.append(_answer(args, problem, observed, name))
        except (SsvmError, MemoryError) as err:  # one that fails must not hide what the others say
            refused[name] = " ".join(f"failed: {type(err).__name__}: {err}".split())
    if args.json:
        write_json({"answers": [answer.summary() for answer in answers], "refused": refused})
    else:
        show_comparison(console(), problem, observed, answers, refused, read)
    return SOLVED if any(answer.answered for answer in answers) else UNSOLVED


def _answer(args: Namespace, problem: GraphProblem, observed: I32 | None, backend: str) -> SolveAnswer:
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


COMMAND = Subcommand("solve", "find the best labelling, or marginals, of a factor graph in a file", run, arguments)
