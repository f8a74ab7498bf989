"""A structure stays in its own modules: nothing else in the core knows parse trees by name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: What parse trees are called.
NAMES = re.compile(r"grammar|derivable|parse_?tree|partial_?tree|\bcky\b", re.IGNORECASE)

#: The structure's own modules.
OWN = (
    "ssvm_dsl/lang/grammars/", "ssvm_dsl/lang/constraints/implied.py",
    "ssvm_dsl/compiler/labels/trees.py", "ssvm_dsl/kernels/derivable.py", "ssvm_dsl/ir/grammar_arrays.py",
    "ssvm_dsl/learning/pcfg.py", "ssvm_dsl/report/parse_trees.py", "ssvm_dsl/testing/tree_problems.py",
    "ssvm_dsl/datasets/", "ssvm_dsl/models/parsers.py", "ssvm_dsl/datasets/formats/trees.py",
    "plugins/ssvm_backends/structures/constituency/",
)  # fmt: skip

#: Other modules that name it, and what each does: none of them is to become more.
ELSEWHERE = {
    "ssvm_dsl/__init__.py": "public names",
    "ssvm_dsl/ir/__init__.py": "public names",
    "ssvm_dsl/ir/constraints.py": "an example in a docstring",
    "ssvm_dsl/lang/builder.py": "passes the argument on",
    "ssvm_dsl/lang/constraints/durations.py": "durations are not for labels of trees",
    "ssvm_dsl/moved_modules.py": "former names of modules",
    "ssvm_dsl/lang/outputs/labels.py": "the argument of labels, and their parts",
    "ssvm_dsl/lang/outputs/targets.py": "the targets spans, leaves and rules",
    "ssvm_dsl/lang/outputs/variables.py": "the argument of labels, and their kind",
    "ssvm_dsl/lang/serial.py": "the list of what files of models may name",
    "ssvm_dsl/learning/online.py": "streams are not for labels of trees",
    "ssvm_dsl/cli/learn/predict.py": "what kind of labels a model predicts",
    "ssvm_dsl/cli/learn/measures.py": "brackets, the measure of trees",
    "ssvm_dsl/report/__init__.py": "public names",
    "ssvm_dsl/testing/backends/conformance.py": "the list of problems for kinds of constraints",
    "plugins/ssvm_backends/__init__.py": "the description of the backend and its speed",
}


def test_nothing_else_knows_parse_trees():
    found = set()
    for folder in ("ssvm_dsl", "plugins/ssvm_backends", "plugins/ssvm_trainers", "plugins/ssvm_bridges",
                   "plugins/ssvm_constraints"):  # fmt: skip
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(OWN) and NAMES.search(path.read_text()):
                found.add(name)
    assert found == set(ELSEWHERE)
