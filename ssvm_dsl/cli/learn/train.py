"""``ssvm train MODEL --data FILE --out FILE``: learn a model from a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_json
from ssvm_dsl.cli.learn.estimators import add_training_arguments, training_model
from ssvm_dsl.cli.learn.reading import add_format_arguments
from ssvm_dsl.cli.screen import aside, complain, console, write_json

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData


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
    add_json(parser)


def run(args: Namespace) -> int:
    """Train and save; after Ctrl-C save the best weights so far, and return the exit status 130."""
    from ssvm_dsl.cli.learn.reading import read_data, settings_of
    from ssvm_dsl.cli.learn.ready import require_known
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
    from ssvm_dsl.datasets.formats.templates import AttributeTemplate

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
