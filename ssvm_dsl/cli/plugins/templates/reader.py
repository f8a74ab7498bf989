"""The files that ``ssvm plugins new --reader`` writes: factor graphs in lines, and labelled sequences in lines."""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the readers are not imported here."""

from ssvm_dsl.plugin_api import FileContent, ReaderSpec, hookimpl


@hookimpl
def ssvm_readers():
    return [
        ReaderSpec(
            "{name}",
            "{module}.problems:read",
            "factor graphs: a line for each variable and factor",
            content=FileContent.PROBLEM,  # for ssvm solve, read_problem
            suffixes=(".{module}",),
        ),
        ReaderSpec(
            "{name}-data",
            "{module}.examples:Reader",
            "sequences: numbers and a label in each line, a blank line between two",
            content=FileContent.EXAMPLES,  # for ssvm train, read_examples
            suffixes=(".{module}-data",),
        ),
    ]
'''

PROBLEMS = '''\
"""Factor graphs: ``variable NAME SCORE SCORE ...`` and ``factor NAME NAME ... : SCORE SCORE ...`` in lines."""

import numpy as np

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.ir import GraphProblem


def read(source, content, limits):
    names, cards, factors, n_entries = [], [], [], 0
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        words = line.split("#")[0].replace(":", " : ").split()
        if not words:
            continue
        try:
            if words[0] == "variable":
                scope, shape, scores = [len(names)], [len(words) - 2], np.array(words[2:], dtype=float)
                names.append(words[1])
                cards.append(len(scores))
            elif words[0] == "factor":
                colon = words.index(":")
                scope = [names.index(name) for name in words[1:colon]]
                shape, scores = [cards[v] for v in scope], np.array(words[colon + 1 :], dtype=float)
            else:
                raise ValueError(f"found {words[0]!r}")
            factors.append((scope, scores.reshape(shape)))  # the last variable varies fastest
        except ValueError as err:
            expected = "'variable NAME SCORES' or 'factor NAMES : SCORES'"
            raise FileFormatError(f"{source}, line {number}: expected {expected}: {err}") from None
        n_entries += scores.size
        if n_entries > limits.n_entries:
            raise FileFormatError(f"{source}, line {number}: expected at most {limits.n_entries} scores, found more")
    return GraphProblem.of(source, cards, factors, names=names)
'''

EXAMPLES = '''\
"""Sequences: the numbers of a position and its label in each line, a blank line between two sequences."""

import numpy as np

from ssvm_dsl.errors import FileFormatError


class Reader:
    def read(self, source, settings):
        X, Y, rows, labels = [], [], [], []
        with open(source, encoding="utf-8") as file:
            for number, line in enumerate([*file, ""], 1):
                *numbers, label = line.split() or [""]
                if label:
                    try:
                        rows.append([float(one) for one in numbers])
                    except ValueError as err:
                        raise FileFormatError(f"{source}, line {number}: expected numbers and a label: {err}") from None
                    labels.append(label)
                elif rows:
                    X.append(np.array(rows))
                    Y.append(labels)
                    rows, labels = [], []
        return X, Y

    def write_answers(self, out, data, predicted):
        with open(1 if out == "-" else out, "w", encoding="utf-8", closefd=out != "-") as file:
            for x, y in zip(data.X, predicted):
                file.writelines(f"{' '.join(map(str, row))} {label}\\n" for row, label in zip(x, y))
                file.write("\\n")
'''

EXAMPLE = """\
variable rain  0 1      # two states
variable wet   0 0.5
factor rain wet : 2 0  -1 1.5
"""

TEST = '''\
"""Files are read as they are meant, and mistakes are named with their lines."""

import numpy as np
import pytest

from ssvm_dsl import read_examples, read_problem, solve_problem
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.models import ChainTagger

PROBLEM = """variable rain  0 1
variable wet   0 0.5
factor rain wet : 2 0  -1 1.5
"""


def test_a_problem_is_read(tmp_path):
    path = tmp_path / "a.{module}"
    path.write_text(PROBLEM)
    assert solve_problem(read_problem(path)).score == 3.0


def test_mistakes_name_the_line(tmp_path):
    path = tmp_path / "a.{module}"
    path.write_text(PROBLEM + "factor rain snow : 1 2 3 4\\n")
    with pytest.raises(FileFormatError, match="line 4: expected .*'snow' is not in list"):
        read_problem(path)


def test_examples_are_read_as_a_model_takes_them(tmp_path):
    path = tmp_path / "a.{module}-data"
    path.write_text("0 1 a\\n1 1 b\\n\\n1 1 b\\n0 1 a\\n1 1 b\\n")
    X, Y = read_examples(path)
    assert [x.shape for x in X] == [(2, 2), (3, 2)]
    assert ChainTagger(C=10.0).fit(X, Y).predict(X)[1].tolist() == ["b", "a", "b"]
    assert np.array_equal(X[0], [[0.0, 1.0], [1.0, 1.0]])
'''

TEMPLATE = PackageTemplate(
    "reader",
    HOOKS,
    {
        "problems.py": ("reads factor graphs", PROBLEMS),
        "examples.py": ("reads examples, and writes predictions", EXAMPLES),
    },
    ("test_{module}.py", "reads small files", TEST),
    "Files are read by their suffixes, in `ssvm solve example.{module}` as in `ssvm train chain-tagger --data "
    "words.{module}-data --out words.json`.",
    tried="ssvm solve {folder}/example.{module}",
    extra={"example.{module}": ("a small problem", EXAMPLE)},
)
