"""The arguments that say which data are read and how; reading them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData

#: Options of one format.
DATA_OPTIONS = {"template": "conll", "label": "csv", "sequence": "csv"}


def add_format_arguments(parser: ArgumentParser) -> None:
    """Add how data are read: ``--format`` and what some formats ask for."""
    text = "conll, csv, jsonl ... (default: by the end of the file's name); ssvm plugins list shows all readers"
    parser.add_argument("--format", metavar="NAME", help=f"format of the data: {text}")
    parser.add_argument("--template", metavar="FILE", help="conll: a feature template as for CRF++")
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME",
        help="csv: the column with the label (default: the last one); repeated for a set of labels",
    )  # fmt: skip
    parser.add_argument("--sequence", metavar="NAME", help="csv: the column whose equal values make one sequence")


def settings_of(args: Namespace, source: str, model: str = "", inputs: Sequence[str] = ()) -> DataSettings:
    """Return how training data are read.

    Parameters
    ----------
    args : Namespace
    source : str
        The file.
    model : str
        The name of a ready model, or another.
    inputs : sequence of str
        The inputs of the user's model.

    Raises
    ------
    OptionError
        An option belongs to another format, or the model cannot be trained on this one.
    """
    from ssvm_dsl.cli.learn.ready import require_format
    from ssvm_dsl.datasets.formats.examples import DataSettings
    from ssvm_dsl.datasets.formats.lookup import format_of
    from ssvm_dsl.datasets.formats.templates import read_template
    from ssvm_dsl.errors import OptionError

    chosen = format_of(source, args.format)
    require_format(model, chosen.name)
    for option, name in DATA_OPTIONS.items():
        if getattr(args, option) and chosen.name != name:
            raise OptionError(f"--{option}: for the format {name}, not for {chosen.name}")
    template = () if args.template is None else read_template(args.template)
    return DataSettings(
        chosen.name, inputs=tuple(inputs), several=model == "multi-label", template=template, labels=tuple(args.label),
        sequence=args.sequence or "",
    )  # fmt: skip


def read_data(source: str, settings: DataSettings, model: str = "") -> LabelledData:
    """Return the data of a file.

    Raises
    ------
    FileFormatError
        It is not of its format.
    OptionError
        The ready model of this name takes others.
    """
    from ssvm_dsl.cli.learn.ready import require_form, require_format
    from ssvm_dsl.datasets.formats.lookup import read_file

    require_format(model, settings.format)
    data = read_file(source, settings)
    require_form(model, data)
    return data


def input_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the inputs of the user's model."""
    return tuple(one.name for one in estimator.model.declaration.inputs)
