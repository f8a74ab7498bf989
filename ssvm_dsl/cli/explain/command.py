"""``ssvm explain FILE[:Model]``: the model, its size, and the verdict of every backend."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive_int
from ssvm_dsl.cli.screen import console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ssvm_dsl.compiler.ground import Grounded
    from ssvm_dsl.inference.planning.plans import Candidate
    from ssvm_dsl.ir.need import Need
    from ssvm_dsl.ir.program import Program
    from ssvm_dsl.lang.declaration import Declaration
    from ssvm_dsl.lang.factors import Factor
    from ssvm_dsl.lang.model import Model


#: How the questions read.
WORDS = {"predict": "[bold]To predict[/bold]", "train": "[bold]To train[/bold] (scores with the loss added)"}


@dataclass(frozen=True, eq=False)
class BackendAnswer:
    """The verdicts of the backends on one question.

    Parameters
    ----------
    question : str
        ``"predict"`` or ``"train"``.
    need : Need
    candidates : list of Candidate
        Every installed backend, those that ``auto`` does not take included.
    outsiders : set of str
        Names of those that ``auto`` does not take.
    backend, reason : str or None
        The choice of ``auto``, and why.
    """

    question: str
    need: Need
    candidates: list[Candidate]
    outsiders: set[str]
    backend: str | None
    reason: str | None


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm explain``."""
    text = "a Python file (it is run) and a model class in it; FILE alone will do where it has one model"
    parser.add_argument("place", metavar="FILE[:Model]", help=text)
    parser.add_argument(
        "--size", type=_size, action="append", default=[], metavar="T=20",
        help="size of a ragged axis in the made-up examples (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--examples", type=positive_int, default=3, metavar="N", help="make up this many (default: 3)")
    add_shared(parser, "--trees")
    parser.add_argument(
        "--data", metavar="NAME", help="take the examples X from this variable (or function) of FILE instead"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the model and the factor graph of its first example"
    )
    add_shared(parser, "--json")


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not size.isdecimal() or int(size) < 1:
        raise ArgumentTypeError(f"expected e.g. T=20, got {text!r}")
    return name, int(size)


def run(args: Namespace) -> int:
    """Explain a model; the exit status is 1 when no backend can answer."""
    from ssvm_dsl.cli.explain.examples import find_model
    from ssvm_dsl.compiler import estimate

    model, module = find_model(args.place)
    X, about = _examples(args, model, module)
    size = estimate(model, X)
    grounded, note = _grounded(model.declaration, X, made_up=args.data is None)
    answers = _answers(model.declaration, X, grounded)
    if args.plot is not None:
        _plot(model, grounded, args.plot)
    if args.json:
        write_json(_summary(model, about, size, answers, note))
    else:
        _show(console(), model, [about, note], str(size), answers)
    return 0 if all(answer.backend for answer in answers) else 1


def _examples(args: Namespace, model: type[Model], module: Any) -> tuple[Any, str]:
    """Return (examples, where they are from)."""
    from ssvm_dsl.cli.explain.examples import check_sizes, find_data, make_examples

    declaration, given = model.declaration, dict(args.size)
    if args.data is not None:
        return find_data(module, args.data), f"examples: {args.data} of {module.__file__}"
    check_sizes(declaration, given)
    X = make_examples(declaration, args.examples, given, trees=args.trees)
    ragged = any(dim.ragged for dim in declaration.dims)
    hint = " (sizes are random; --size AXIS=20 sets one, --data NAME takes your own examples)" if ragged else ""
    return X, f"examples: {args.examples}, made up{hint}"


def _grounded(declaration: Declaration, X: Any, made_up: bool) -> tuple[Grounded, str]:
    """Return the declaration laid over examples, and a note on features that failed."""
    from ssvm_dsl.compiler import ground

    declaration = with_all_weights(declaration)
    try:
        return ground(declaration, X), ""
    except Exception as err:
        if not (made_up and declaration.functions):
            raise
        note = f"a feature function failed on made-up inputs ({type(err).__name__}: {err}); planned without features"
        return ground(without_features(declaration), X), note


def _answers(declaration: Declaration, X: Any, grounded: Grounded) -> list[BackendAnswer]:
    """Return the verdicts of the backends on prediction and on training."""
    from ssvm_dsl.compiler.inputs import read_examples
    from ssvm_dsl.compiler.losses.joint_loss import priced_groups
    from ssvm_dsl.compiler.losses.loss import kind_of
    from ssvm_dsl.inference.planning.planner import need_of, tasks_for_training
    from ssvm_dsl.ir.need import Guarantee, Task

    parameters = grounded.parameters
    asked = [("predict", need_of(parameters, frozenset({Task.MAP}), Guarantee.EXACT), parameters.program)]
    if declaration.loss is not None:
        tasks, abilities = tasks_for_training(kind_of(declaration.loss))
        priced = priced_groups(declaration.loss, grounded.layout, read_examples(declaration, X, judged=True))
        trained = parameters.with_groups([one.group for one in priced])
        need = need_of(trained, tasks, Guarantee.EXACT, abilities, priced=priced)
        asked.append(("train", need, trained.program))
    return [_answer(question, need, program) for question, need, program in asked]


def _plot(model: type[Model], grounded: Grounded, path: Path) -> None:
    """Draw the model, and its first example beside it."""
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.report.factor_graph import plot_factor_graph
    from ssvm_dsl.report.plots import new_figure

    figure = new_figure(12.0, 5.0)
    if path.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise OptionError(f"--plot: expected a file that ends in one of {known}, got {path}")
    left, right = figure.subplots(1, 2)
    plot_factor_graph(model, ax=left)
    plot_factor_graph(grounded, ax=right)
    right.set_title("the first example")
    figure.savefig(path, bbox_inches="tight")


def without_features(declaration: Declaration) -> Declaration:
    """Return the declaration with bare factors: the same variables and scopes, hence the same need."""
    from ssvm_dsl.lang.factors import Factor

    bare = {
        one.name: Factor(one.target, form=one.form, nonneg=True) if one.agreements else Factor(one.target)
        for one in declaration.factors
    }
    return _with_factors(declaration, bare)


def with_all_weights(declaration: Declaration) -> Declaration:
    """Return the declaration without ``weights="observed"``, which needs labels: the need is the same."""
    from ssvm_dsl.lang.factors import Factor

    full = {}
    for factor in declaration.factors:
        if factor.observed:
            args, options = factor.arguments()
            full[factor.name] = Factor(*args, **{key: value for key, value in options.items() if key != "weights"})
    return _with_factors(declaration, full)


def _with_factors(declaration: Declaration, others: dict[str, Factor]) -> Declaration:
    """Return the declaration with other factors of the same names."""
    from dataclasses import replace

    for name, factor in others.items():
        factor.__set_name__(type(factor), name)
    return replace(declaration, symbols=tuple(others.get(symbol.name, symbol) for symbol in declaration.symbols))


def _answer(question: str, need: Need, program: Program) -> BackendAnswer:
    from ssvm_dsl.errors import NoBackendError
    from ssvm_dsl.inference.planning.planner import plan_program
    from ssvm_dsl.inference.planning.plans import Candidate, consider
    from ssvm_dsl.plugin_api.specs import BackendSpec
    from ssvm_dsl.registry import registry

    known = registry()
    specs = known.specs(BackendSpec)
    candidates = [consider(need, spec)[0] for spec in specs]
    outsiders = {spec.name for spec in specs if not known.owner(spec).allowed}
    try:
        chosen = plan_program(program, need)
    except NoBackendError as err:
        names = {one.name for one in candidates}
        refused = [Candidate(name, False, inf, why) for name, why in err.refusals if name not in names]  # bridges
        candidates += refused
        return BackendAnswer(question, need, candidates, outsiders, None, None)
    candidates += [one for one in chosen.candidates if one.bridges]
    return BackendAnswer(question, need, candidates, outsiders, chosen.title, chosen.reason)


def _summary(model: type[Model], about: str, size: Any, answers: list[BackendAnswer], note: str) -> dict[str, Any]:
    """Return everything as plain data."""
    from ssvm_dsl.cli.plugins.describe import plain

    facts: dict[str, Any] = {"model": model.declaration.name, "text": str(model), "examples": about, "note": note}
    facts["n_weights"] = model.declaration.n_weights()
    facts["size"] = plain(size) | {"total_bytes": size.total_bytes}
    for answer in answers:
        facts[answer.question] = {
            "need": plain(answer.need) | {"text": str(answer.need)},
            "backend": answer.backend,
            "reason": answer.reason,
            "candidates": [
                {
                    "name": one.name,
                    "bridges": list(one.bridges),
                    "fits": one.ok,
                    "cost": one.cost if isfinite(one.cost) else None,
                    "seconds": one.seconds if one.ok and isfinite(one.seconds) else None,
                    "n_bytes": one.n_bytes if one.ok else None,
                    "reasons": list(one.reasons),
                    "auto": one.name not in answer.outsiders,
                }
                for one in answer.candidates
            ],
        }
    return facts


def _show(screen: Console, model: type[Model], notes: list[str], size: str, answers: list[BackendAnswer]) -> None:
    screen.print(str(model), markup=False, soft_wrap=True)
    screen.print()
    for note in filter(None, notes):
        screen.print(note, markup=False, style="dim")
    screen.print(size, markup=False, soft_wrap=True)
    screen.print()
    first, *others = answers
    _show_answer(screen, first)
    for answer in others:
        if answer.need == first.need:
            screen.print(f"{WORDS[answer.question]}: the same")
        else:
            _show_answer(screen, answer)


def _show_answer(screen: Console, answer: BackendAnswer) -> None:
    """Show every backend's reply and the choice."""
    from ssvm_dsl.report.tables import plain_table
    from ssvm_dsl.units import bytes_text, seconds_text

    rows = []
    for one in answer.candidates:
        outside = ["not for auto: name it"] if one.name in answer.outsiders else []
        cost = f"{one.cost:.2g}" if one.ok else ""
        time = seconds_text(one.seconds) if one.ok and isfinite(one.seconds) else ""
        memory = bytes_text(one.n_bytes) if one.ok and one.n_bytes else ""
        rows.append([one.title, "yes" if one.ok else "no", cost, time, memory, "; ".join([*outside, *one.reasons])])
    screen.print(f"{WORDS[answer.question]}: {answer.need}")
    screen.print(plain_table("", ["backend", "fits", "operations", "time", "memory", "why"], rows))
    if answer.backend is None:
        screen.print("no backend that 'auto' may take can answer\n", style="bold red")
    else:
        screen.print(f"[bold]auto[/bold] takes {answer.reason}\n")


COMMAND = Subcommand("explain", "show a model, its size, and which backends can handle it, and why", run, arguments)
