"""``ssvm report MODEL [-o PAGE]``: a page of HTML about a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.learn.predict import add_model_arguments, model_data
from ssvm_dsl.cli.screen import console


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm report``."""
    parser.add_argument("model", metavar="MODEL", help="a file that ssvm train or svm.save wrote")
    parser.add_argument("-o", "--out", metavar="PAGE", help="where to write the page (default: MODEL.html)")
    parser.add_argument("--data", metavar="FILE", help="examples with labels: what is predicted wrongly, and why")
    add_model_arguments(parser)


def run(args: Namespace) -> int:
    """Write the page."""
    from ssvm_dsl.cli.learn.saved_models import load_model

    loaded = load_model(args.model, args.trust)
    out = args.out or str(Path(args.model).with_suffix(".html"))
    if args.data is None:
        loaded.estimator.write_page(out)
    else:
        data = model_data(loaded, args)
        with data.naming_lines():
            loaded.estimator.write_page(out, data.X, data.require_labels())
    console().print(f"wrote {out}", markup=False, soft_wrap=True)
    return 0


COMMAND = Subcommand("report", "write a page about a saved model: certificate, weights, mistakes", run, arguments)
