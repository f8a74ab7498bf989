"""``ssvm weights FILE``: the largest weights of a saved model, with their names."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from ssvm_dsl.cli.command import Subcommand, add_json, add_trust, positive_int
from ssvm_dsl.cli.screen import console, write_json


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm weights``."""
    parser.add_argument("file", metavar="FILE", help="a model that svm.save wrote")
    parser.add_argument("--factor", metavar="NAME", help="only weights of this factor (default: all)")
    parser.add_argument("--state", metavar="CLASS", help="only weights that score this class")
    parser.add_argument("-k", type=positive_int, default=20, metavar="N", help="show this many (default: 20)")
    add_trust(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Show the largest weights."""
    from ssvm_dsl.learning.estimators.saved import read_weights

    weights = read_weights(args.file, args.trust)
    factor = None if args.factor is None else _known(args.factor, [str(name) for name in weights], "factor")
    top = weights.top(factor, args.k, None if args.state is None else _state(args.state, weights.classes))
    if args.json:
        write_json([one._asdict() for one in top])
    else:
        console().print(top)
    return 0


def _state(text: str, classes: tuple[Any, ...]) -> Any:
    """Return the class that a text names: names may be ints."""
    named = {str(one): one for one in classes}
    return named[_known(text, list(named), "class")]


def _known(name: str, names: list[str], what: str) -> str:
    """Return a name if it is one of the model's."""
    from ssvm_dsl.errors import OptionError

    if name not in names:
        raise OptionError(f"the model has no {what} '{name}'; it has: {', '.join(names)}")
    return name


COMMAND = Subcommand("weights", "show the largest weights of a saved model by name", run, arguments)
