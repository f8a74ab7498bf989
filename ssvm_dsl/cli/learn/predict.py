"""``ssvm predict FILE.ssvm --data FILE``: label new data; ``ssvm evaluate``: compare labels with the truth."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive
from ssvm_dsl.cli.learn.reading import DATA_OPTIONS, add_format_arguments
from ssvm_dsl.cli.screen import complain, escaped, write_json

if TYPE_CHECKING:
    from ssvm_dsl.cli.learn.saved_models import LoadedModel
    from ssvm_dsl.datasets.formats.examples import LabelledData


def add_model_arguments(parser: ArgumentParser) -> None:
    """Add what commands that use a model file share."""
    add_format_arguments(parser)
    parser.add_argument("--time-limit", type=positive, metavar="S", help="seconds for all predictions together")
    add_shared(parser, "--threads", "--trust")


def predict_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm predict``."""
    parser.add_argument("model", metavar="MODEL", help="a file that ssvm train wrote")
    parser.add_argument("--data", metavar="FILE", required=True, help="examples; - is standard input")
    parser.add_argument("--out", metavar="FILE", default="-", help="where to write (default: standard output)")
    add_model_arguments(parser)


def run_predict(args: Namespace) -> int:
    """Predict; labels are written in the format of the data."""
    from ssvm_dsl.cli.learn.saved_models import load_model
    from ssvm_dsl.datasets.formats.lines import require_place
    from ssvm_dsl.datasets.formats.readers import answers_of

    require_place(args.out, "--out", (args.data, args.model, args.template))
    loaded = load_model(args.model, args.trust)
    data = model_data(loaded, args)
    predicted = predictions(loaded, data, args)
    answers_of(data.settings, "write_answers")(args.out, data, predicted)
    return 0


def model_data(loaded: LoadedModel, args: Namespace) -> LabelledData:
    """Return data read as the training data were; of a model that was written in Python, as the arguments say.

    Raises
    ------
    OptionError
        The arguments contradict the model.
    """
    from ssvm_dsl.cli.learn.reading import input_names, read_data, ready_name, settings_of
    from ssvm_dsl.errors import OptionError

    settings, model = loaded.settings, loaded.name or ready_name(loaded.estimator)
    if settings is None:
        return read_data(args.data, settings_of(args, args.data, model, input_names(loaded.estimator)), model)
    for option in DATA_OPTIONS:
        if getattr(args, option):
            raise OptionError(f"--{option}: {args.model} holds that of its training data; leave it out")
    if args.format not in (None, settings.format):
        raise OptionError(f"--format {args.format}: {args.model} was trained on {settings.format}")
    return read_data(args.data, settings, model)


def predictions(loaded: LoadedModel, data: LabelledData, args: Namespace) -> Any:
    """Return the predicted labels of all examples; segments by position where the format is not ``jsonl``."""
    import warnings

    from ssvm_dsl.report.confusion import by_position

    loaded.estimator.set_params(n_threads=args.threads)
    with warnings.catch_warnings(record=True) as caught, data.naming_lines():
        warnings.simplefilter("always", UserWarning)
        labels = loaded.estimator.predict(data.X, time_limit=args.time_limit)
    for one in caught:
        complain(f"warning: {one.message}")
    return labels if data.settings.format == "jsonl" else list(map(by_position, labels))


PREDICT = Subcommand("predict", "label new data with a saved model", run_predict, predict_arguments)


# -- ``ssvm evaluate [FILE.ssvm] --data FILE [--predicted FILE]``: compare predictions with the truth --------------


def evaluate_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm evaluate``."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a file that ssvm train wrote")
    parser.add_argument("--data", metavar="FILE", required=True, help="examples with labels; - is standard input")
    parser.add_argument("--predicted", metavar="FILE", help="the file of predictions that ssvm predict wrote")
    add_model_arguments(parser)
    add_shared(parser, "--json")


def run_evaluate(args: Namespace) -> int:
    """Evaluate a model, or a file of predictions, which is read as the data of the model if both are named."""
    from ssvm_dsl.cli.learn.measures import measure
    from ssvm_dsl.compiler.labels.unknown_labels import unseen_text
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
    from ssvm_dsl.datasets.formats.readers import answers_of
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.learning.metrics import unseen_labels

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


EVALUATE = Subcommand("evaluate", "compare predictions with the truth", run_evaluate, evaluate_arguments)
