"""``ssvm evaluate [FILE.ssvm] --data FILE [--predicted FILE]``: compare predictions with the truth."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_json
from ssvm_dsl.cli.learn.predict import add_model_arguments, model_data, predictions
from ssvm_dsl.cli.screen import complain, escaped, write_json

if TYPE_CHECKING:
    from ssvm_dsl.cli.learn.saved_models import LoadedModel
    from ssvm_dsl.datasets.formats.examples import LabelledData


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm evaluate``."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a file that ssvm train wrote")
    parser.add_argument("--data", metavar="FILE", required=True, help="examples with labels; - is standard input")
    parser.add_argument("--predicted", metavar="FILE", help="the file of predictions that ssvm predict wrote")
    add_model_arguments(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Evaluate a model, or a file of predictions, which is read as the data of the model if both are named."""
    from ssvm_dsl.cli.learn.measures import measure
    from ssvm_dsl.compiler.labels.unseen_classes import unseen_text
    from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM, write_text

    data, predicted, kind, unseen = _compared(args)
    with data.naming_lines():
        measures = measure(data.require_labels(), predicted, kind, data.settings.labels)
    if text := unseen_text(unseen):
        complain(f"warning: {text}")
    if args.json:
        write_json(measures.plain())
    else:
        write_text(STANDARD_STREAM, map(escaped, measures.lines()))
    return 0


def _compared(args: Namespace) -> tuple[LabelledData, Any, str, Counter[Any]]:
    """Return the data, predicted labels, what kind of labels these are, and classes that the model does not know."""
    from ssvm_dsl.cli.learn.reading import read_data, settings_of
    from ssvm_dsl.cli.learn.saved_models import load_model
    from ssvm_dsl.datasets.formats.lookup import answers_of
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.learning.unseen_labels import unseen_labels

    if args.model is None and args.predicted is None:
        raise OptionError("name a model, or a file of predictions with --predicted, or both")
    if args.predicted is not None and args.data == args.predicted:
        raise OptionError(f"--predicted {args.predicted}: expected another source than --data")
    loaded = None if args.model is None else load_model(args.model, args.trust)
    data = read_data(args.data, settings_of(args, args.data)) if loaded is None else model_data(loaded, args)
    kind, Y = _kind(data, loaded), data.require_labels()
    unseen = Counter[Any]() if loaded is None else unseen_labels(loaded.estimator.model.declaration, Y)
    if loaded is not None and args.predicted is None:
        return data, predictions(loaded, data, args), kind, unseen
    return data, answers_of(data.settings, "read_answers")(args.predicted, data), kind, unseen


def _kind(data: LabelledData, loaded: LoadedModel | None) -> str:
    """Return what kind of labels data have, as far as the model and the format tell it."""
    from ssvm_dsl.cli.learn.measures import HEADS, PLACES, SETS, TREES

    if data.settings.several or len(data.settings.labels) > 1:
        return SETS
    labels = [] if loaded is None else list(loaded.estimator.model.declaration.outputs)
    if data.settings.format == "trees" or (len(labels) == 1 and labels[0].grammar is not None):
        return TREES
    if len(labels) == 1 and labels[0].pointer:
        return HEADS if labels[0].null else PLACES
    return HEADS if data.settings.format == "conllu" else ""


COMMAND = Subcommand("evaluate", "compare predictions with the truth", run, arguments)
