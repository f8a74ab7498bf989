"""A module is a door, and one more to pass: a small one that a single other module imports joins that module."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from sources import ROOT, module_name, nodes_of, product_files, tree_of
from test_imports import import_graph

#: Code lines from which on a module is missed, whoever imports it.
ENOUGH = 60

#: Why small modules that one other imports are files of their own.  Names of modules, by the reason.
REASONS: dict[str, tuple[str, ...]] = {
    "a list for pickles, which changes as they age": (
        "ssvm_dsl.moved_modules",
    ),
    "public functions, loaded by their names alone": (
        "ssvm_dask.parts",
        "ssvm_dsl.ir.analysis.local_polytope",
        "ssvm_dsl.report.relations",
        "ssvm_dsl.testing.own_structures",
        "ssvm_torch.collate",
    ),
    "a structure stays in modules of its own, which nothing else knows": (
        "ssvm_dsl.report.parse_trees",
        "ssvm_dsl.testing.tree_problems",
    ),
    "a subcommand of its own": (
        "ssvm_dsl.cli.learn.convert",
    ),
    "runs in processes of its own, which load little": (
        "ssvm_dsl.cli.tune.workers",
    ),
    "not joined yet": (
        "ssvm_dsl.learning.counting.outputs.circuits",
        "ssvm_dsl.learning.driver.compile_ahead",
    ),
}

#: Tokens that are no code.
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

#: Tokens after which a text is a docstring.
STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, None}


def code_lines(text: str) -> int:
    """Return the number of lines that hold more than comments and docstrings."""
    lines: set[int] = set()
    before = None
    for token in tokenize.generate_tokens(StringIO(text).readline):
        docstring = token.type == tokenize.STRING and before in STARTS
        if token.type not in NO_CODE and not docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type != tokenize.COMMENT:
            before = token.type
    return len(lines)


def named(tree: ast.Module) -> set[str]:
    """Return the modules that texts of a module may name: factories of plug-ins, modules that processes run."""
    values = (one.value for one in nodes_of(tree) if isinstance(one, ast.Constant))
    return {value.partition(":")[0] for value in values if isinstance(value, str)}


def nobody_would_miss(texts: Mapping[str, tuple[str, ast.Module, bool]]) -> dict[str, str]:
    """Return the modules, of those given as (text, tree, whether it is a package), that one other imports, and which.

    Larger ones do not count, nor do packages, and what a text names: it is loaded by that name.
    """
    graph = import_graph({name: (tree, is_package) for name, (_, tree, is_package) in texts.items()})
    by_name = {one for name, (_, tree, _) in texts.items() for one in named(tree) if one != name}
    return {
        name: next(iter(graph.predecessors(name)))
        for name, (text, _, is_package) in texts.items()
        if name in graph and graph.in_degree(name) == 1 and not is_package and name not in by_name
        and code_lines(text) < ENOUGH
    }  # fmt: skip


def every_file() -> list[Path]:
    """Return the files of the product and of all packages under ``plugins``."""
    return sorted({*product_files(), *ROOT.glob("plugins/ssvm-*/src/**/*.py")})


def test_every_door_would_be_missed():
    small = nobody_would_miss({
        module_name(path): (path.read_text(), tree_of(path), path.name == "__init__.py") for path in every_file()
    })
    kept = {name for names in REASONS.values() for name in names}
    new = "\n".join(f"{name}, imported by {small[name]} alone" for name in sorted(small.keys() - kept))
    assert not new, f"of fewer than {ENOUGH} code lines; join them, or give a reason here:\n{new}"
    assert not kept - small.keys(), "these are gone, larger, or imported by several: take them out of REASONS"


def test_a_reason_is_given_once():
    names = [name for some in REASONS.values() for name in some]
    assert len(names) == len(set(names))


def made(**texts: str) -> dict[str, tuple[str, ast.Module, bool]]:
    return {name: (text, ast.parse(text), name == "package") for name, text in texts.items()}


def test_small_modules_of_one_importer_are_noticed():
    large = "\n".join(f"x{k} = {k}" for k in range(ENOUGH))
    texts = made(
        package="from small import f", main="import large, shared, run\nnames = 'run:main'", other="import shared",
        small="def f():\n    pass", large=large, shared="", run="", alone="",
    )  # fmt: skip
    assert nobody_would_miss(texts) == {"small": "package"}
    texts = made(main="def f():\n    from almost import x1", almost=f'"""Doc."""\n{large[: large.rindex("x")]}# none')
    assert nobody_would_miss(texts) == {"almost": "main"}


def test_comments_and_docstrings_are_no_code():
    assert code_lines('"""One.\n\nTwo.\n"""\n\n# three\ndef f(a,\n      b):\n    """Four."""\n    return "five"\n') == 3
