"""What commands read: the arguments that say which data and how, and which formats ready models take."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ssvm_dsl.errors import OptionError, meant

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData


# -- ready models by name, and the formats of their data -----------------------------------------------------------

#: Classes of :mod:`ssvm_dsl.models` by name.
READY = {
    "chain-tagger": "ChainTagger",
    "segment-tagger": "SegmentTagger",
    "classifier": "Classifier",
    "multi-label": "MultiLabel",
    "grid-segmenter": "GridSegmenter",
    "graph-labeller": "GraphLabeller",
    "latent-graph": "LatentGraph",
    "matcher": "Matcher",
    "assigner": "Assigner",
    "ranker": "Ranker",
    "dependency-parser": "DependencyParser",
    "constituency-parser": "ConstituencyParser",
}

#: Formats that hold rows of numbers, and what tells sequences of them apart.
_ROWS = {"csv": "--sequence NAME", "svmlight": "qid:NAME behind each label", "npz": "an array ptr"}

#: Formats of the data of each ready model.
FORMATS_OF = {
    "chain-tagger": ("conll", "crfsuite", *_ROWS, "jsonl", "parquet"),
    "segment-tagger": ("conll", "crfsuite", *_ROWS, "jsonl", "parquet"),
    "classifier": (*_ROWS, "jsonl", "parquet"),
    "multi-label": (*_ROWS, "jsonl", "parquet"),
    "grid-segmenter": ("images", "npz", "jsonl", "parquet"),
    "graph-labeller": ("jsonl", "parquet"),
    "latent-graph": ("jsonl", "parquet"),
    "matcher": ("npz", "jsonl", "parquet"),
    "assigner": ("npz", "jsonl", "parquet"),
    "ranker": (*_ROWS, "jsonl", "parquet"),
    "dependency-parser": ("conllu", "jsonl", "parquet"),
    "constituency-parser": ("trees", "jsonl", "parquet"),
}

#: Ready models whose examples are single rows.
_OF_ROWS = ("classifier", "multi-label")


def ready_class(name: str) -> Any:
    """Return the class of a ready model."""
    from ssvm_dsl import models

    return getattr(models, READY[name])


def require_known(place: str) -> None:
    """Refuse names that are neither a ready model nor a Python file.

    Raises
    ------
    OptionError
        Lists the ready models.
    """
    if place in READY or ".py" in place:
        return
    close, listed = meant(place.lower().replace("_", "-"), READY), ", ".join(READY)
    raise OptionError(f"{place}: expected FILE.py:Model or a ready model{close}\n  ready models: {listed}")


def ready_name(estimator: Any) -> str:
    """Return the name of an estimator that is a ready model, else an empty one."""
    return next((name for name, kind in READY.items() if kind == type(estimator).__name__), "")


def require_format(model: str, name: str) -> None:
    """Refuse a format that cannot hold the examples of a ready model.

    Raises
    ------
    OptionError
        Lists the formats that can.
    """
    formats, known = FORMATS_OF.get(model, (name,)), {one for some in FORMATS_OF.values() for one in some}
    if name not in formats and name in known:  # what a plug-in reads is seen when it is read
        raise OptionError(f"{model}: {name} cannot hold its examples; formats that can: {', '.join(formats)}")


def require_form(model: str, data: LabelledData) -> None:
    """Refuse rows where a ready model takes sequences of rows, and sequences where it takes rows.

    Raises
    ------
    OptionError
        Says what tells sequences apart.
    """
    name, n_axes = data.settings.format, len(getattr(data.X, "shape", (0, 0, 0)))
    if model not in FORMATS_OF or name not in _ROWS:
        return
    if model in _OF_ROWS and n_axes != 2:
        raise OptionError(f"{model}: each row is an example; leave out what tells sequences apart: {_ROWS[name]}")
    if model not in _OF_ROWS and n_axes == 2:
        raise OptionError(f"{model}: an example is a sequence of rows; tell sequences apart by {_ROWS[name]}")


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
    from ssvm_dsl.datasets.formats.conll import read_template
    from ssvm_dsl.datasets.formats.examples import DataSettings
    from ssvm_dsl.datasets.formats.readers import format_of
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
    from ssvm_dsl.datasets.formats.readers import read_file

    require_format(model, settings.format)
    data = read_file(source, settings)
    require_form(model, data)
    return data


def input_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the inputs of the user's model."""
    return tuple(one.name for one in estimator.model.declaration.inputs)
