"""The arguments that say which data are read and how; reading them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssvm_dsl.cli.data.examples import DataSettings, LabelledData

#: Names of the formats; the table of them loads more.
FORMAT_NAMES = ("conll", "crfsuite", "jsonl")


def add_format_arguments(parser: ArgumentParser) -> None:
    """Add how data are read: ``--format`` and what some formats ask for."""
    parser.add_argument(
        "--format", choices=FORMAT_NAMES, help="format of the data (default: by the end of the file's name)"
    )
    parser.add_argument("--template", metavar="FILE", help="conll: a feature template as for CRF++")


def settings_of(args: Namespace, source: str, inputs: Sequence[str] = (), several: bool = False) -> DataSettings:
    """Return how training data are read.

    Parameters
    ----------
    args : Namespace
    source : str
        The file.
    inputs : sequence of str
        The inputs of the user's model.
    several : bool
        Whether each example has a set of labels.

    Raises
    ------
    OptionError
        An option belongs to another format.
    """
    from ssvm_dsl.cli.data.examples import DataSettings
    from ssvm_dsl.cli.data.formats import format_of
    from ssvm_dsl.cli.data.templates import read_template
    from ssvm_dsl.errors import OptionError

    chosen = format_of(source, args.format)
    settings = DataSettings(chosen.name, inputs=tuple(inputs), several=several)
    if args.template is not None:
        if chosen.name != "conll":
            raise OptionError(f"--template: for the format conll, not for {chosen.name}")
        settings = replace(settings, template=read_template(args.template))
    return settings


def read_data(source: str, settings: DataSettings) -> LabelledData:
    """Return the data of a file."""
    from ssvm_dsl.cli.data.formats import FORMATS

    return FORMATS[settings.format].load().read(source, settings)
