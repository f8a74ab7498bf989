"""``ssvm convert FILE OUT``: data into another format; a model of CRFsuite into a model file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.learn.reading import add_format_arguments
from ssvm_dsl.cli.screen import aside

#: First bytes of a model of CRFsuite.
CRFSUITE_MODEL = b"lCRF"


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm convert``."""
    parser.add_argument("source", metavar="FILE", help="data, or a model that CRFsuite wrote; - is standard input")
    parser.add_argument("out", metavar="OUT", help="where to write; - is standard output")
    add_format_arguments(parser)
    parser.add_argument("--to", metavar="NAME", help="format of OUT (default: by the end of its name)")


def run(args: Namespace) -> int:
    """Convert."""
    from ssvm_dsl.cli.learn.reading import read_data, settings_of
    from ssvm_dsl.datasets.formats.lines import require_place, source_name
    from ssvm_dsl.datasets.formats.readers import format_of, writer_of

    require_place(args.out, "OUT", (args.source, args.template))
    if _is_crfsuite_model(args.source):
        return _convert_model(args)
    target = format_of(args.out, args.to, "--to")
    write = writer_of(target)
    data = read_data(args.source, settings_of(args, args.source))
    write(args.out, data)
    text = f"{source_name(args.source)}: {data.n_examples} examples written to {args.out} as {target.name}"
    aside().print(text, markup=False, soft_wrap=True)
    return 0


def _is_crfsuite_model(source: str) -> bool:
    """Whether this is a regular file that begins as models of CRFsuite do."""
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(CRFSUITE_MODEL)) == CRFSUITE_MODEL


def _convert_model(args: Namespace) -> int:
    """Write a model file with the weights of a model of CRFsuite; it reads CRFsuite's format."""
    from ssvm_dsl.cli.learn.saved_models import save_model
    from ssvm_dsl.datasets.formats.examples import DataSettings
    from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM
    from ssvm_dsl.errors import OptionError
    from ssvm_dsl.models.crfsuite import CRF

    if args.out == STANDARD_STREAM or args.to is not None:
        raise OptionError("a model of CRFsuite becomes a model file: name one, without --to")
    save_model(args.out, "", CRF(model_filename=args.source).svm_, DataSettings("crfsuite", learnt=True))
    text = f"{args.source}: a model of CRFsuite, written to {args.out}"
    aside().print(text, markup=False, soft_wrap=True)
    return 0


COMMAND = Subcommand("convert", "convert data to another format, or a model of CRFsuite", run, arguments)
