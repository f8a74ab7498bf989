"""``ssvm predict FILE.ssvm --data FILE``: label new data."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_trust, positive, positive_int
from ssvm_dsl.cli.learn.reading import DATA_OPTIONS, add_format_arguments
from ssvm_dsl.cli.screen import complain

if TYPE_CHECKING:
    from ssvm_dsl.cli.learn.saved_models import LoadedModel
    from ssvm_dsl.datasets.formats.examples import LabelledData


def add_model_arguments(parser: ArgumentParser) -> None:
    """Add what commands that use a model file share."""
    add_format_arguments(parser)
    parser.add_argument("--time-limit", type=positive, metavar="S", help="seconds for all predictions together")
    parser.add_argument("--threads", type=positive_int, metavar="N", help="number of threads (default: all processors)")
    add_trust(parser)


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm predict``."""
    parser.add_argument("model", metavar="MODEL", help="a file that ssvm train wrote")
    parser.add_argument("--data", metavar="FILE", required=True, help="examples; - is standard input")
    parser.add_argument("--out", metavar="FILE", default="-", help="where to write (default: standard output)")
    add_model_arguments(parser)


def run(args: Namespace) -> int:
    """Predict; labels are written in the format of the data."""
    from ssvm_dsl.cli.learn.saved_models import load_model
    from ssvm_dsl.datasets.formats.lines import require_place
    from ssvm_dsl.datasets.formats.lookup import answers_of

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
    from ssvm_dsl.cli.learn.reading import input_names, read_data, settings_of
    from ssvm_dsl.cli.learn.ready import ready_name
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


COMMAND = Subcommand("predict", "label new data with a saved model", run, arguments)
