"""``ssvm train MODEL --data FILE --out FILE``: learn a model from a file."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive
from ssvm_dsl.cli.learn.reading import READY, add_format_arguments, input_names
from ssvm_dsl.cli.screen import aside, complain, console, write_json
from ssvm_dsl.cli.tune.sources import find_estimator, option_value

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData


# -- the estimator: a ready model or one of the user's file, with the options of the command -----------------------

#: Options of the command that are parameters of estimators.
PARAMETERS = {
    "C": "C", "lam": "lam", "l1": "l1", "risk": "risk", "trainer": "trainer", "backend": "backend",
    "guarantee": "guarantee", "tol": "tol", "max_passes": "max_passes", "max_seconds": "max_seconds",
    "threads": "n_threads", "executor": "executor", "checkpoint": "checkpoint", "scoring": "scoring",
}  # fmt: skip

#: Parameters that the command sets itself, and how.
OWN = {"verbose": "it shows progress anyway", "warm_start": "resume with --checkpoint", "callbacks": "not from a shell",
       "model": "name it first"}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingModel:
    """The estimator to train.

    Parameters
    ----------
    name : str
        A ready model, or FILE:Model.
    estimator : estimator
    """

    name: str
    estimator: Any

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the user's model; none for a ready model."""
        return () if self.name in READY else input_names(self.estimator)


def add_training_arguments(parser: ArgumentParser) -> None:
    """Add what ``fit`` is to do."""
    strength = parser.add_mutually_exclusive_group()
    strength.add_argument("--C", type=positive, metavar="C", help="weight of the training errors (default: 1)")
    strength.add_argument("--lam", type=positive, metavar="L", help="regularisation instead of --C: 1 / (C n)")
    parser.add_argument("--l1", type=positive, metavar="L", help="strength of an L1 penalty")
    parser.add_argument("--risk", metavar="NAME", help="margin (default), log for a conditional random field, ...")
    parser.add_argument("--trainer", metavar="NAME", help="a trainer of ssvm plugins list (default: auto)")
    parser.add_argument("--backend", metavar="NAME", help="a backend of ssvm plugins list (default: auto)")
    parser.add_argument("--guarantee", choices=("exact", "bound", "heuristic"), help="of answers (default: exact)")
    parser.add_argument("--tol", type=positive, metavar="T", help="relative gap at which it stops (default: 0.001)")
    parser.add_argument("--max-passes", type=positive, metavar="N", help="most passes over the data (default: 500)")
    parser.add_argument("--max-seconds", type=positive, metavar="S", help="time limit; the fit keeps its best weights")
    add_shared(parser, "--threads")
    parser.add_argument("--executor", metavar="NAME", help="where it runs: threads (default), processes, stream, ...")
    parser.add_argument("--checkpoint", metavar="FILE", help="keep the state of training; the same command resumes")
    parser.add_argument(
        "--set", type=parse_setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="another parameter of the model, e.g. order=2 or trainer_options.keep=4 (may be repeated)",
    )  # fmt: skip


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``: a number, true, false, none, or a word."""
    name, equals, value = text.partition("=")
    if not equals or not value or not name.replace(".", "_").isidentifier():
        raise ArgumentTypeError(f"expected NAME=VALUE, e.g. order=2, got {text!r}")
    return name, option_value(value)


def training_model(place: str, args: Namespace, known: Mapping[str, Any]) -> TrainingModel:
    """Return the estimator, with all options set.

    Parameters
    ----------
    place : str
    args : Namespace
        Of the arguments above.
    known : mapping
        Parameters that follow from the data, unless they are set.

    Raises
    ------
    OptionError
        There is no such model, or it has no such parameter.
    """
    from ssvm_dsl.errors import OptionError, meant
    from ssvm_dsl.learning.tuning.fitting import configured

    source = find_estimator(place)
    names = source.estimator.get_params(deep=False)
    given = {PARAMETERS[key]: getattr(args, key) for key in PARAMETERS if getattr(args, key, None) is not None}
    for name, value in args.settings:
        if name in given:
            raise OptionError(f"--set {name}: given twice")
        given[name] = value
    for name in given:
        outer = name.partition(".")[0]
        if outer in OWN:
            raise OptionError(f"--set {name}: {OWN[outer]}")
        if outer not in names:
            listed = ", ".join(sorted(set(names) - set(OWN)))
            raise OptionError(f"{place} has no parameter '{outer}'{meant(outer, names)}\n  it has: {listed}")
    if names.get("random_state", 0) is None and "random_state" not in given:
        given["random_state"] = 0
    given = {name: value for name, value in known.items() if name in names} | given
    return TrainingModel(place, configured(source.estimator, given))


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm train``."""
    parser.add_argument("model", metavar="MODEL", help="a ready model, such as chain-tagger, or FILE.py:Model")
    parser.add_argument(
        "--data", metavar="FILE", required=True, nargs="+",
        help="examples with labels; - is standard input; several files are parts, read by --executor stream, ...",
    )  # fmt: skip
    parser.add_argument("--out", metavar="FILE", required=True, help="the model file to write")
    add_format_arguments(parser)
    add_training_arguments(parser)
    parser.add_argument("--validation", metavar="FILE", help="held-out examples: stop when the score on them is best")
    parser.add_argument("--scoring", metavar="NAME", help="the score for --validation, e.g. span-f1")
    add_shared(parser, "--json")


def run(args: Namespace) -> int:
    """Train and save; after Ctrl-C save the best weights so far, and return the exit status 130."""
    from ssvm_dsl.cli.learn.reading import read_data, require_known, settings_of
    from ssvm_dsl.cli.learn.saved_models import save_model
    from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM, require_place, source_name
    from ssvm_dsl.errors import OptionError

    require_known(args.model)
    if args.out == STANDARD_STREAM:
        raise OptionError("--out -: a model file is no text; name a file")
    if args.scoring is not None and args.validation is None:
        raise OptionError("--scoring: the score on held-out examples, name them with --validation")
    for option in ("out", "checkpoint"):
        place, inputs = getattr(args, option), (*args.data, args.template, args.validation)
        if place is not None:
            require_place(place, f"--{option}", inputs)
    _check_several(args)
    settings = settings_of(args, args.data[0], args.model)
    made = training_model(args.model, args, _known(settings))
    if made.inputs:
        made.estimator.model.to_json()  # complains before training of functions that have no import path
    begin = perf_counter()
    data = read_data(args.data[0], replace(settings, inputs=made.inputs), args.model)
    held_out = None if args.validation is None else read_data(args.validation, data.settings, args.model)
    seconds = perf_counter() - begin
    side = aside()
    side.quiet = args.json
    text = f"{source_name(args.data[0])}: {data.n_examples} examples, read in {seconds:.1f} s"
    text += f"; {len(args.data) - 1} more files" if args.data[1:] else ""
    side.print(text, markup=False, soft_wrap=True)
    interrupted = _fit(made.estimator, data, args.data, held_out, quiet=args.json)
    save_model(args.out, made.name, made.estimator, data.settings)
    if args.json:
        report = made.estimator.report_.summary()
        n = made.estimator.report_.n_examples
        write_json({"model": made.name, "n_examples": n, "report": report, "saved": args.out})
    else:
        console().print(str(made.estimator.report_), markup=False, soft_wrap=True)
        console().print(f"saved       {args.out}", markup=False, soft_wrap=True)
    return 130 if interrupted else 0


def _known(settings: DataSettings) -> dict[str, Any]:
    """Return parameters that follow from how data are read: without a line ``B`` labels do not depend on each other."""
    from ssvm_dsl.datasets.formats.conll import AttributeTemplate

    if not settings.template:
        return {}
    template = AttributeTemplate.of_lines(enumerate(settings.template, 1), "the template")
    return {} if template.transitions else {"order": 0}


def _check_several(args: Namespace) -> None:
    """Refuse several files where nobody reads them one by one."""
    from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM
    from ssvm_dsl.errors import OptionError

    if len(args.data) == 1:
        return
    if STANDARD_STREAM in args.data:
        raise OptionError("--data -: standard input is one source; name files only, or - only")
    if args.executor in (None, "threads"):
        text = "several files are parts of the data, which are read where they are trained on"
        raise OptionError(f"--data: {text}: set --executor stream, or --executor processes")


def _fit(estimator: Any, data: LabelledData, files: Sequence[str], held_out: LabelledData | None, quiet: bool) -> bool:
    """Fit, show progress, and tell warnings; return whether Ctrl-C ended it."""
    import warnings

    from ssvm_dsl.datasets.formats.readers import parts_of_files

    validation = None if held_out is None else (held_out.X, held_out.require_labels())
    estimator.set_params(verbose=not quiet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with data.naming_lines():
            if len(files) > 1:
                parts, data = parts_of_files(files, data.settings), replace(data, X=(), Y=None)  # read again, as needed
                estimator.fit(parts, validation=validation)
            else:
                estimator.fit(data.X, data.require_labels(), validation=validation)
    estimator.set_params(verbose=False)
    for one in caught:
        complain(f"warning: {one.message}")
    return bool(estimator.report_.reason == "interrupt")


COMMAND = Subcommand("train", "learn a model from a file", run, arguments)
