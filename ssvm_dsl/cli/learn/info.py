"""``ssvm info FILE``: what a model file or a file of data holds."""

from __future__ import annotations

import zipfile
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.command import Subcommand, add_json, add_trust
from ssvm_dsl.cli.learn.reading import add_format_arguments
from ssvm_dsl.cli.screen import write_json

if TYPE_CHECKING:
    from ssvm_dsl.cli.learn.saved_models import LoadedModel

#: Classes that are listed.
MOST_CLASSES = 20


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm info``."""
    parser.add_argument("file", metavar="FILE", help="a model file, or data; - is standard input")
    add_format_arguments(parser)
    add_trust(parser)
    add_json(parser)


def run(args: Namespace) -> int:
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
    report = vars(estimator).get("report_")
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


COMMAND = Subcommand("info", "show the content of a model file or a file of data", run, arguments)
