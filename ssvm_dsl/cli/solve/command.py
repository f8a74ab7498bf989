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
    from ssvm_dsl.inference.deadline import Deadline
    from ssvm_dsl.inference.planning.plans import Plan
    from ssvm_dsl.ir.need import Need
    from ssvm_dsl.scoring.problems import SolveAnswer, SolveRequest

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
    request, read = _request(args)
    return _run_all(args, request, read) if args.all else _run_one(args, request, read)


def _request(args: Namespace) -> tuple[SolveRequest, float]:
    """Return the problem of the files, and the seconds it took to read them."""
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.files.unpacking import suffix_of
    from ssvm_dsl.io.formats.uai import read_evidence
    from ssvm_dsl.io.problem_file import problem_format, read_problem
    from ssvm_dsl.plugin_api.specs import FileContent
    from ssvm_dsl.registry import readers
    from ssvm_dsl.scoring.problems import SolveRequest

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
    return SolveRequest(problem, args.task == "marginals", observed, args.time_limit), perf_counter() - start


def _run_one(args: Namespace, request: SolveRequest, read: float) -> int:
    from ssvm_dsl.cli.solve.show import show_answer
    from ssvm_dsl.errors import NoBackendError, OutOfTime
    from ssvm_dsl.inference.planning.plans import Plan
    from ssvm_dsl.pausing import within

    deadline = request.deadline()
    try:
        with within(deadline):
            need = request.need()
            plan = request.plan(need, args.backend, dict(args.option))
    except NoBackendError as err:
        complain(str(err) + _weaker(need, args.backend))
        return UNSOLVED
    except OutOfTime:  # what is asked then answers at once
        plan = Plan(args.backend, "", "time was up before there was a plan")
    answer = _ask(plan, request, deadline)
    if args.json:
        write_json(answer.summary())
    else:
        show_answer(console(), request, answer, read, args.labels)
    if answer.answered:
        return SOLVED
    return INTERRUPTED if answer.status == "interrupted" else UNSOLVED


def _weaker(need: Need, backend: str) -> str:
    """Return a hint that names the backends which would fit if no proof were asked for."""
    from ssvm_dsl.inference.planning.planner import AUTO

    if backend != AUTO:
        return ""
    fitting = [f"{plan.backend} ({word})" for plan, word in _fitting(need)[0]]
    if not fitting:
        return ""
    return f"\n  hint: without a proof of optimality these would fit, name one with --backend: {', '.join(fitting)}"


def _fitting(need: Need) -> tuple[list[tuple[Plan, str]], dict[str, str]]:
    """Return ((plan, its guarantee) of each backend that fits, reasons of those that refuse)."""
    from ssvm_dsl.errors import NoBackendError
    from ssvm_dsl.inference.planning.planner import accepted_guarantee, plan
    from ssvm_dsl.plugin_api.specs import BackendSpec
    from ssvm_dsl.registry import registry

    fitting, refused = [], {}
    for spec in registry().specs(BackendSpec):
        try:
            made = plan(replace(need, guarantee=accepted_guarantee(spec.name)), spec.name)
        except NoBackendError as err:
            refused[spec.name] = "; ".join(err.refusals[0][1])
        else:
            fitting.append((made, spec.caps.guarantee.value))
    return fitting, refused


def _run_all(args: Namespace, request: SolveRequest, read: float) -> int:
    from ssvm_dsl.cli.solve.show import show_comparison
    from ssvm_dsl.errors import SsvmError

    fitting, refused = _fitting(request.need())
    answers: list[SolveAnswer] = []
    for plan, _ in fitting:
        if answers and answers[-1].status == "interrupted":
            refused[plan.backend] = "not asked: interrupted"
            continue
        try:
            answers.append(_ask(plan, request))
        except (SsvmError, MemoryError) as err:  # one that fails must not hide what the others say
            refused[plan.backend] = " ".join(f"failed: {type(err).__name__}: {err}".split())
    if args.json:
        write_json({"answers": [answer.summary() for answer in answers], "refused": refused})
    else:
        show_comparison(console(), request, answers, refused, read)
    return SOLVED if any(answer.answered for answer in answers) else UNSOLVED


def _ask(plan: Plan, request: SolveRequest, deadline: Deadline | None = None) -> SolveAnswer:
    """Ask one backend, with a live line where standard error is a terminal."""
    from ssvm_dsl.report.notices import announce_compiling
    from ssvm_dsl.report.progress import SolveProgress
    from ssvm_dsl.scoring.problems import ask

    screen = aside()
    announce_compiling()
    live = SolveProgress(plan.backend, screen) if screen.is_terminal else nullcontext()
    with live as progress:
        return ask(plan, request, progress, deadline)


COMMAND = Subcommand("solve", "find the best labelling, or marginals, of a factor graph in a file", run, arguments)
