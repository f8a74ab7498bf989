"""``ssvm info FILE``: what a model file or a file of data holds; ``ssvm weights FILE``: its largest weights."""

from __future__ import annotations

import zipfile
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_shared, positive_int
from ssvm_dsl.cli.learn.reading import add_format_arguments
from ssvm_dsl.cli.screen import console, write_json

if TYPE_CHECKING:
    from ssvm_dsl.cli.learn.saved_models import LoadedModel


#: Classes that are listed.
MOST_CLASSES = 20


def info_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm info``."""
    parser.add_argument("file", metavar="FILE", help="a model file, or data; - is standard input")
    add_format_arguments(parser)
    add_shared(parser, "--trust", "--json")


def run_info(args: Namespace) -> int:
    """Show a file."""
    from ssvm_dsl.cli.learn.saved_models import load_model
    from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM, write_text

    facts = _of_model(load_model(args.file, args.trust)) if _is_model(args.file) else _of_data(args)
    if args.json:
        write_json(facts)
        return 0
    write_text(STANDARD_STREAM, (f"{name.replace('_', ' '):11} {_indented(value)}" for name, value in facts.items()))
    return 0


def _indented(value: Any) -> str:
    """Return a value as text whose lines stand below its first one."""
    text = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
    return text.rstrip().replace("\n", "\n" + 12 * " ")


def _is_model(path: str) -> bool:
    """Whether this is an archive with the JSON text of a model."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "json.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _of_model(loaded: LoadedModel) -> dict[str, Any]:
    """Return the facts about a model."""
    estimator, settings = loaded.estimator, loaded.settings
    facts: dict[str, Any] = {"model": loaded.name or type(estimator).__name__}
    if settings is not None:
        facts["data"] = settings.format
        facts |= {"template": "\n".join(settings.template)} if settings.template else {}
    facts["declaration"] = str(estimator.model)
    facts["weights"] = len(estimator.coef_)
    facts["not_zero"] = int((estimator.coef_ != 0).sum())
    report = getattr(estimator, "report_", None)
    facts |= {} if report is None else {"report": str(report)}
    return facts


def _of_data(args: Namespace) -> dict[str, Any]:
    """Return the sizes and classes of data."""
    from collections import Counter

    from ssvm_dsl.cli.learn.measures import flat_labels
    from ssvm_dsl.cli.learn.reading import read_data, settings_of
    from ssvm_dsl.datasets.formats.lines import source_name
    from ssvm_dsl.report.confusion import by_position

    data = read_data(args.file, settings_of(args, args.file))
    facts: dict[str, Any] = {"file": source_name(args.file), "format": data.settings.format}
    facts["examples"] = data.n_examples
    if data.Y is None:
        return facts | {"labels": "none"}
    if data.settings.format == "conllu":
        return facts | {"words": sum(map(len, data.Y))}
    labels = flat_labels(map(by_position, data.Y))
    counts = Counter(name for one in labels for name in one)
    facts["labels"] = sum(map(len, labels))
    facts["different"] = len(counts)
    return facts | {"classes": dict(counts.most_common(MOST_CLASSES))}


INFO = Subcommand("info", "show the content of a model file or a file of data", run_info, info_arguments)


# -- ``ssvm weights FILE``: the largest weights of a saved model, with their names ---------------------------------


def weights_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm weights``."""
    parser.add_argument("file", metavar="FILE", help="a model that svm.save wrote")
    parser.add_argument("--factor", metavar="NAME", help="only weights of this factor (default: all)")
    parser.add_argument("--state", metavar="CLASS", help="only weights that score this class")
    parser.add_argument("-k", type=positive_int, default=20, metavar="N", help="show this many (default: 20)")
    add_shared(parser, "--trust", "--json")


def run_weights(args: Namespace) -> int:
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


WEIGHTS = Subcommand("weights", "show the largest weights of a saved model by name", run_weights, weights_arguments)
