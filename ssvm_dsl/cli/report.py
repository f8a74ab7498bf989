"""``ssvm report FILE [--data FILE]``: a page about a saved model, and about its mistakes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.learn.predict import add_model_arguments
from ssvm_dsl.cli.screen import complain, console

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import LabelledData


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm report``."""
    parser.add_argument("model", metavar="MODEL", help="a model that ssvm train or svm.save wrote")
    parser.add_argument(
        "-o", "--out", "--output", metavar="PAGE", help="the page to write (default: MODEL with the ending .html)"
    )
    parser.add_argument("--data", metavar="FILE", help="examples with labels: the page shows where the model errs")
    add_model_arguments(parser)


def run(args: Namespace) -> int:
    """Write the page."""
    from ssvm_dsl.datasets.formats.lines import require_place
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.learning.estimators.saved import read_fit
    from ssvm_dsl.learning.page import model_page, write_page

    place = Path(args.model).with_suffix(".html") if args.out is None else Path(args.out)
    if place.resolve() == Path(args.model).resolve():
        raise OptionError(f"-o {place}: this is the model itself; name another file for the page")
    require_place(place, "-o", (args.data, args.template))
    if args.data is None:
        _refuse_options(args)
        page = model_page(*read_fit(args.model, args.trust))
    else:
        page = _page_with_data(args)
    write_page(place, page)
    console().print(f"wrote {place}", markup=False, soft_wrap=True)
    return 0


def _refuse_options(args: Namespace) -> None:
    """Refuse options that say how data are read or answered where there are none."""
    from ssvm_dsl.errors import OptionError

    for option in ("format", "template", "label", "sequence", "time_limit", "threads"):
        if getattr(args, option):
            raise OptionError(f"--{option.replace('_', '-')}: for the examples of --data FILE")


def _page_with_data(args: Namespace) -> str:
    """Return the page with the confusion of classes and the examples that cost most."""
    from ssvm_dsl.cli.learn.predict import model_data
    from ssvm_dsl.cli.learn.saved_models import load_model
    from ssvm_dsl.learning.page import examined, model_page

    loaded = load_model(args.model, args.trust)
    svm, data = loaded.estimator, model_data(loaded, args)
    svm.set_params(n_threads=args.threads)
    kept = _with_known_labels(svm, data)
    Y = [data.Y[i] for i in kept]
    X = [data.X[i] for i in kept] if isinstance(data.X, list) else data.X[kept]
    with data.naming_lines():
        sections = examined(svm, X, Y, svm._example_losses(X, Y), args.time_limit)
    for one in sections["costly"]:
        _place(one, kept[one["number"]], data)
    return model_page(svm.model, svm.weights_, getattr(svm, "report_", None), sections)


def _with_known_labels(svm: Any, data: LabelledData) -> list[int]:
    """Return the numbers of the examples whose classes training has seen, and tell how many others there are.

    Raises
    ------
    FileFormatError
        There are no labels, or there is no such example.
    """
    import numpy as np

    from ssvm_dsl.compiler.labels.structures import structure_of
    from ssvm_dsl.datasets.formats.lines import source_name
    from ssvm_dsl.errors import FileFormatError
    from ssvm_dsl.report.confusion import by_position

    labels, outputs = data.require_labels(), svm.model.declaration.outputs
    classes = outputs[0].classes if len(outputs) == 1 else None
    if classes is None or not structure_of(outputs[0]).has_classes:
        return list(range(data.n_examples))
    known = set(classes)
    unknown = [i for i, one in enumerate(labels) if not set(np.ravel(np.asarray(by_position(one))).tolist()) <= known]
    if unknown:
        where = f", the first at line {data.lines[unknown[0]]} of {source_name(data.source)}" if data.lines else ""
        text = f"{len(unknown)} of {data.n_examples} examples have classes that the training data lack{where}"
        if len(unknown) == data.n_examples:
            raise FileFormatError(f"{source_name(data.source)}: {text}")
        complain(f"warning: {text}; the page leaves them out")
    return sorted(set(range(data.n_examples)) - set(unknown))


def _place(one: dict[str, Any], i: int, data: LabelledData) -> None:
    """Say where an example stands in its file, and in columns the words of its labels."""
    from ssvm_dsl.datasets.formats.lines import source_name

    one["number"] = i
    if i < len(data.lines):
        one["number"] = f"{i}, line {data.lines[i]} of {source_name(data.source)}"
    if data.settings.format == "conll" and len(one["labels"]) <= len(data.raw.rows[i]):
        one["words"] = [columns[0] for columns in data.raw.rows[i][: len(one["labels"])]]


COMMAND = Subcommand("report", "write a page about a saved model: plan, certificate, weights, mistakes", run, arguments)
