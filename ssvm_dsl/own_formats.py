"""The formats of files that the package reads itself, described as those of plug-ins are."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api.hookspecs import hookimpl
from ssvm_dsl.plugin_api.specs import FileContent, ReaderSpec

#: Factor graphs: name and suffix, and what they are.
_PROBLEMS = {
    "uai": "Markov and Bayesian networks of the UAI competitions",
    "wcsp": "weighted constraint satisfaction",
    "cfn": "cost function networks in JSON",
    "fg": "factor graphs of libDAI",
    "bif": "Bayesian networks",
    "wcnf": "weighted clauses: MaxSAT",
    "opb": "pseudo-Boolean constraints",
}

#: Examples: name, module, what they are, suffixes.
_EXAMPLES = (
    ("conll", "conll", "tokens in columns, the label last", (".conll", ".txt", ".data")),
    ("crfsuite", "crfsuite", "label and attributes of a token, with tabs", (".crfsuite", ".crf")),
    ("jsonl", "jsonl", 'an object {"x": ..., "y": ...} on each line', (".jsonl", ".ndjson")),
    ("csv", "tables", "a header, a row for each example or position", (".csv", ".tsv")),
    ("npz", "arrays", "arrays X and Y of numpy", (".npz",)),
    ("svmlight", "svmlight", "LABEL INDEX:VALUE ...", (".svmlight", ".svm", ".libsvm", ".dat")),
    ("conllu", "conllu", "tokens in ten columns, with the head of each", (".conllu", ".conllx", ".dp")),
    ("trees", "trees", "trees in brackets", (".mrg", ".ptb", ".trees")),
    ("parquet", "parquet", "columns x and y, or one for each input", (".parquet", ".pq")),
    ("images", "images", "a folder with images/ and masks/", ()),
)


@hookimpl
def ssvm_readers() -> Iterable[ReaderSpec]:
    """Return the readers of the package."""
    for name, summary in _PROBLEMS.items():
        factory = f"ssvm_dsl.io.formats.{name}:parse_{name}"
        yield ReaderSpec(name, factory, summary, content=FileContent.PROBLEM, suffixes=(f".{name}",))
    for name, module, summary, suffixes in _EXAMPLES:
        factory = f"ssvm_dsl.datasets.formats:{module}"
        yield ReaderSpec(name, factory, summary, content=FileContent.EXAMPLES, suffixes=suffixes)
