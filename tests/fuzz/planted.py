"""Single-line mutants of the product, drawn over all rooms, and the tests that catch them; to compare two revisions.

    python tests/fuzz/planted.py before.json                     draw sixty in this revision, say what catches each
    python tests/fuzz/planted.py after.json --before before.json the same mutants in this revision
    python tests/fuzz/planted.py after.json --most 10            ten more of those that are left

A mutant is one changed line of a function: a comparison that is flipped, a ``not`` that is dropped, ``+`` for ``-``, a
number one larger, ``min`` for ``max``, two arguments that are swapped.  Its place is the module, the function's
qualified name and the line's text, so that it is found where the file has moved.  Where the line was reworded, it is
planted in the one line of the room that holds most of the words around the change, and is said to be gone without one.
It is planted in a copy of the revision, in which the tests that concern the module most run until one fails: those
that caught it before, then those that import it or use names of it, or of modules that import it.  Where none fails and
the line was not run, another mutant is drawn in its place (of kernels this is not known).  What lives may be caught by
tests that were not chosen, or may make no difference: the tables of two revisions are compared.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PLUGINS = ("ssvm_backends", "ssvm_trainers", "ssvm_bridges", "ssvm_constraints")

#: Processor seconds that the tests of one mutant may take, and how many files of tests are chosen.
SECONDS, N_FILES = 20, 3

FLIPPED = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "+": "-", "-": "+", "and": "or", "or": "and", "True": "False", "False": "True",
    "+=": "-=", "-=": "+=", "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
    "all": "any", "argmin": "argmax", "argmax": "argmin",
}  # fmt: skip
EDGES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPERATOR = re.compile(r"<=|>=|==|!=|<|>|is\s+not|not\s+in|is|in|and|or|\+|-")

#: Letters that a change and the words around it have at least, where a line was reworded.
LEAST_LETTERS = 18

#: Functions whose arguments may be swapped.
SYMMETRIC = {"array_equal", "isclose", "allclose", "min", "max", "minimum", "maximum", "is_", "hypot"}

#: Functions and statements whose text is for people: a mutant there changes words, or nothing.
SPOKEN = {"__repr__", "__str__", "_repr_html_"}
QUIET = {"warn", "print", "Option", "field", "TypeVar", "cast"}


@dataclass
class Mutant:
    """One changed line, and what became of it.

    Parameters
    ----------
    module, function : str
        Dotted name of the module and qualified name of the function.
    old, new : str
        The line without its indentation, as it is and as planted.
    nth : int
        Which of the equal lines of the function.
    verdict : str
        "caught", "lives", "unreached" (no chosen test runs the line), "undecided" (time was up) or "gone".
    test : str
        The first test that fails.
    files : list of str
        The files of tests that ran.
    """

    module: str
    function: str
    old: str
    new: str
    nth: int = 0
    verdict: str = ""
    test: str = ""
    files: list[str] = field(default_factory=list)

    @property
    def room(self) -> str:
        return room(self.module)

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.module, self.function, self.old, self.new, self.nth

    def __str__(self) -> str:
        head = f"{self.verdict:9} {self.module}:{self.function}: {self.old}  ->  {self.new}"
        return f"{head}  [{self.test or ', '.join(self.files)}]"


def room(module: str) -> str:
    """Return ``ssvm_dsl.learning`` of ``ssvm_dsl.learning.driver.loop``, ``ssvm_backends`` of all its modules."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "ssvm_dsl" and len(parts) > 2 else parts[0]


def modules(tree: Path) -> dict[str, Path]:
    """Return the file of each module of the product."""
    found = {}
    for base in (tree / "ssvm_dsl", *(tree / "plugins" / name for name in PLUGINS)):
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def functions(parsed: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield (qualified name, definition) of all functions of a module that are not inside another function."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield prefix + child.name, child
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{prefix}{child.name}.")
            elif isinstance(child, (ast.If, ast.Try, ast.With)):
                yield from inside(child, prefix)

    return inside(parsed, "")


def edits(node: ast.AST, text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, text in its place) of the changes of one node that stands on one line with this text."""

    def between(left: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, str]]:
        if left.end_lineno == right.lineno and (found := OPERATOR.search(text, left.end_col_offset, right.col_offset)):
            word = re.sub(r"\s+", " ", found[0])
            yield found.start(), found.end(), FLIPPED[word]
            if word in EDGES:
                yield found.start(), found.end(), EDGES[word]

    match node:
        case ast.Compare(left=left, comparators=[right]):
            yield from between(left, right)
        case ast.BoolOp(values=[left, right, *_]):
            yield from between(left, right)
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            if not any(isinstance(one, (ast.JoinedStr, ast.List)) or _string(one) for one in (left, right)):
                yield from between(left, right)
        case ast.AugAssign(op=ast.Add() | ast.Sub(), target=target, value=value) if target.end_lineno == value.lineno:
            at = text.index("=", target.end_col_offset)
            yield at - 1, at + 1, FLIPPED[text[at - 1 : at + 1]]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node.col_offset, operand.col_offset, ""
        case ast.Constant(value=bool(value)):
            yield node.col_offset, node.end_col_offset, str(not value)
        case ast.Constant(value=int(value)):
            yield node.col_offset, node.end_col_offset, str(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in FLIPPED:
            yield node.func.col_offset, node.func.end_col_offset, FLIPPED[name]
        case ast.Call(func=ast.Attribute(attr=name)) if name in FLIPPED:
            yield node.func.end_col_offset - len(name), node.func.end_col_offset, FLIPPED[name]
        case ast.Call(func=func, args=[first, second, *_]) if getattr(func, "attr", "") in SYMMETRIC:
            return
        case ast.Call(args=[first, second, *_]) if not _string(first) and not _string(second):
            a, b = (text[one.col_offset : one.end_col_offset] for one in (first, second))
            if first.lineno == second.end_lineno and a != b and "*" not in (a[:1], b[:1]):
                yield first.col_offset, second.end_col_offset, b + text[first.end_col_offset : second.col_offset] + a


def _string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def places(module: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    lines = source.split("\n")

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arg, ast.Slice)):
            return
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in QUIET or name.endswith(("Error", "Warning")):
                return
        yield node
        for part, child in ast.iter_fields(node):
            if part not in ("annotation", "returns", "decorator_list", "args") or isinstance(node, ast.Call):
                for one in child if isinstance(child, list) else [child]:
                    if isinstance(one, ast.AST):
                        yield from walk(one)

    for function, definition in functions(ast.parse(source)):
        if definition.name in SPOKEN:
            continue
        seen = Counter()
        body = {n: lines[n - 1].strip() for n in range(definition.lineno, definition.end_lineno + 1)}
        nth = {n: (seen.update([text]), seen[text] - 1)[1] for n, text in body.items()}
        for statement in definition.body:
            for node in walk(statement):
                n = getattr(node, "lineno", None)
                if n is None or (n != node.end_lineno and not isinstance(node, ast.AugAssign)):
                    continue
                text = lines[n - 1]
                if not text.isascii():  # offsets of ast are of bytes
                    continue
                for start, end, word in edits(node, text):
                    new = text[:start] + word + text[end:]
                    yield Mutant(module, function, text.strip(), new.strip(), nth[n])


def drawn(tree: Path, seed: int) -> dict[str, list[Mutant]]:
    """Return how mutants of each room follow each other; rooms get a share by their lines, the first of all."""
    mine: dict[str, list[Mutant]] = defaultdict(list)
    for module, path in modules(tree).items():
        mine[room(module)].extend(places(module, path.read_text()))
    mine = {name: found for name, found in sorted(mine.items()) if found}
    rng = np.random.default_rng(seed)
    return {name: [found[k] for k in rng.permutation(len(found))] for name, found in mine.items()}


def quotas(n: int, pool: dict[str, list[Mutant]]) -> dict[str, int]:
    """Return how many mutants each room gets: one, and the rest by the square root of what could be drawn."""
    weight = {name: math.sqrt(len(found)) for name, found in pool.items()}
    quota = dict.fromkeys(pool, 1)
    while sum(quota.values()) < n:
        quota[max(quota, key=lambda name: weight[name] / quota[name])] += 1
    return quota


def find(mutant: Mutant, files: dict[str, Path]) -> tuple[Path, int] | None:
    """Return (file, index of the line) where a mutant stands in a tree, though its module may have moved."""

    def where(path: Path, name: str | None) -> int | None:
        lines = path.read_text().split("\n")
        if not any(mutant.old in line for line in lines):
            return None
        if name is None:
            found = [k for k, line in enumerate(lines) if line.strip() == mutant.old]
            return found[0] if len(found) == 1 else None
        for function, definition in functions(ast.parse("\n".join(lines))):
            if function == name or function.split(".")[-1] == name:
                inside = range(definition.lineno - 1, definition.end_lineno)
                found = [k for k in inside if lines[k].strip() == mutant.old]
                if found:
                    return found[min(mutant.nth, len(found) - 1)]
        return None

    here = [files[mutant.module]] if mutant.module in files else []
    near = [path for module, path in files.items() if room(module) == mutant.room]
    for name, paths in [
        (mutant.function, here), (mutant.function, list(files.values())),
        (mutant.function.split(".")[-1], near), (None, here),
    ]:  # fmt: skip
        hits = [(path, at) for path in paths if (at := where(path, name)) is not None]
        if len(hits) == 1 or (hits and name is not None and paths is here):
            return hits[0]
    hits = [(path, at) for path in files.values() if (at := where(path, None)) is not None]
    return hits[0] if len(hits) == 1 else None


def pieces(mutant: Mutant) -> Iterator[tuple[str, str]]:
    """Yield (old, new) of the change with ever fewer words around it."""
    old, new = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (mutant.old, mutant.new))
    first, both = 0, min(len(old), len(new))
    while first < both and old[first] == new[first]:
        first += 1
    last = 0
    while last < both - first and old[-1 - last] == new[-1 - last]:
        last += 1
    windows = {(lo, hi) for lo in range(first + 1) for hi in range(last + 1)}  # words left out at either end
    for lo, hi in sorted(windows, key=lambda one: sum(one)):
        was, becomes = ("".join(words[lo : len(words) - hi]).strip() for words in (old, new))
        if sum(map(str.isalnum, was)) >= LEAST_LETTERS:
            yield was, becomes


def reworded(mutant: Mutant, files: dict[str, Path]) -> tuple[Mutant, Path, int] | None:
    """Return (mutant of today's line, its file, index of the line) of a change of a line that is worded otherwise."""
    near = [path for module, path in files.items() if room(module) == mutant.room]
    lines = [(path, k, line) for path in near for k, line in enumerate(path.read_text().split("\n"))]
    for old, new in pieces(mutant):
        hits = [(path, k, line) for path, k, line in lines if line.count(old) == 1]
        if len(hits) == 1:
            path, at, line = hits[0]
            text = line.strip()
            return replace(mutant, old=text, new=text.replace(old, new)), path, at
        if hits:  # with fewer words there are no fewer
            return None
    return None


class Concern:
    """Which files of tests concern which module: by imports, by names, by modules that import it."""

    def __init__(self, tree: Path) -> None:
        self.tree, self.files = tree, modules(tree)
        self.tests = {str(p.relative_to(tree)): p.read_text() for p in sorted((tree / "tests").rglob("test_*.py"))}
        self.words = {name: set(re.findall(r"[\w-]+", text)) for name, text in self.tests.items()}
        self.known_by = Counter(word for words in self.words.values() for word in words)
        self.importers: dict[str, set[str]] = defaultdict(set)
        for module, path in self.files.items():
            for one in self._imports(path.read_text()):
                self.importers[one].add(module)
        self.imported = {name: self._imports(text) for name, text in self.tests.items()}
        self.plugins = self._plugins()
        self._names, self._scores = cache(self._names), cache(self._scores)

    def _imports(self, text: str) -> set[str]:
        found = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
            elif isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
        return found & set(self.files)

    def _plugins(self) -> dict[str, set[str]]:
        """Return the names of the plug-ins that each module makes, from ``"module:Class"`` beside a name."""
        named: dict[str, set[str]] = defaultdict(set)
        for path in self.files.values():
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    texts = [one.value for one in [*node.args, *(k.value for k in node.keywords)] if _string(one)]
                    for text in texts:
                        if ":" in text and text.split(":")[0] in self.files:
                            named[text.split(":")[0]] |= {one for one in texts if re.fullmatch(r"[\w-]+", one)}
        return named

    def _names(self, module: str) -> set[str]:
        names = set(self.plugins[module])
        for node in ast.parse(self.files[module].read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
        return {name for name in names if self.known_by[name] and not name.startswith("_")}

    def _scores(self, module: str) -> Counter[str]:
        parts, names, scores = module.split("."), self._names(module), Counter()
        for test, words in self.words.items():
            where = Path(test)
            stem = set(where.stem.removeprefix("test_").split("_"))
            scores[test] += 4.0 * (module in self.imported[test])
            scores[test] += 3.0 * len(stem & set("_".join(parts[-2:]).split("_"))) / len(stem)
            scores[test] += len(set(where.parts[1:-1]) & {*parts, parts[0].removeprefix("ssvm_")})
            scores[test] += sum(4.0 / self.known_by[name] for name in names & words)
        return scores

    def choose(self, module: str, function: str, most: int = N_FILES) -> list[str]:
        """Return the files of tests that concern a function most."""
        total: Counter[str] = Counter()
        level, weight, met = {module}, 1.0, set()
        while level and weight > 0.1:
            for one in level:
                for test, score in self._scores(one).items():
                    total[test] += weight * score / math.sqrt(len(level))
            met |= level
            level, weight = set().union(*(self.importers[one] for one in level)) - met, weight / 2.5
        for name in set(function.split(".")):
            for test in self.tests:
                if name in self.words[test] and not name.startswith("_"):
                    total[test] += 4.0 / self.known_by[name]
        return [test for test, score in total.most_common(most) if score > 0]


def run(tree: Path, tests: list[str], seconds: int) -> tuple[str, str]:
    """Return ("passed", "failed" or "time", first test that failed or was running at the end) of tests in a copy."""
    path = os.pathsep.join(map(str, (tree, tree / "plugins", tree / "plugins" / "ssvm-papers" / "src")))
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

    with tempfile.TemporaryFile("w+") as out:
        call = [sys.executable, "-m", "pytest", "-x", "-vv", "--tb=no", "--color=no", *tests]
        try:
            code = subprocess.run(
                call, cwd=tree, env=environment, stdout=out, stderr=subprocess.STDOUT, preexec_fn=limit,
                timeout=40 * seconds,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = -1
        out.seek(0)
        text = out.read()
    if failed := re.search(r"^(?:FAILED|ERROR) (tests/\S+(?: [^\n]*\])?)", text, re.MULTILINE):
        return "failed", failed[1]
    if code in (0, 5) or re.search(r"^=+ \d+ passed", text, re.MULTILINE):
        return "passed", ""
    began = re.findall(r"^(tests/\S+?\.py::[^\n]+?)(?: PASSED| SKIPPED| XFAIL|$)", text, re.MULTILINE)
    if code < 0 and began and "Fatal Python error" not in text:
        return "time", began[-1].strip()
    return "failed", "the run ends: " + text.strip().split("\n")[-1][:100]


#: Decorators of functions that Python itself runs.
PLAIN = {"property", "cached_property", "classmethod", "staticmethod", "cache", "lru_cache", "contextmanager", "setter",
         "hookimpl", "override", "wraps", "abstractmethod", "command"}  # fmt: skip


def note(source: str, at: int, mark: Path) -> tuple[int, str] | None:
    """Return (index of a line, the line put before it) so that a file appears when the line at ``at`` is run.

    ``None`` where that cannot be: in kernels, and where the line belongs to a clause of a statement.
    """
    parsed, lines = ast.parse(source), source.split("\n")
    around = [one for one in ast.walk(parsed) if isinstance(one, ast.stmt) and one.lineno - 1 <= at < one.end_lineno]
    for one in around:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
                     for whole in one.decorator_list for node in ast.walk(whole)} - {""}  # fmt: skip
            if names - PLAIN and one.decorator_list:
                return None
    first = max(one.lineno for one in around) - 1
    head = lines[first].lstrip()
    if head.startswith(("elif", "else", "except", "case", "@", "def ", "class ")):
        return None
    how = f"import sys; getattr(sys, '_met', 0) or (setattr(sys, '_met', 1), open({str(mark)!r}, 'w').close())"
    return first, lines[first][: len(lines[first]) - len(head)] + how


def plant(mutant: Mutant, tree: Path, concern: Concern, first: list[str], seconds: int) -> Mutant:
    """Run the tests that concern a mutant in a copy of the product, and note what became of it."""
    found = find(mutant, concern.files)
    place = (mutant, *found) if found else reworded(mutant, concern.files)
    if place is None:
        mutant.verdict = "gone"
        return mutant
    today, path, at = place
    source = path.read_text()
    module = next(name for name, one in concern.files.items() if one == path)
    mutant.files = list(dict.fromkeys([*first, *concern.choose(module, mutant.function)]))
    mark = tree / "the-line-was-run"
    mark.unlink(missing_ok=True)
    lines, where = source.split("\n"), note(source, at, mark)
    lines[at] = lines[at].replace(today.old, today.new)
    if where is not None:
        lines.insert(*where)
    try:
        path.write_text("\n".join(lines))
        verdict, mutant.test = run(tree, mutant.files, seconds)
        if verdict == "time":  # in one test, or in all before it
            verdict, name = run(tree, [mutant.test], seconds)
            verdict = {"passed": "undecided", "time": "failed"}.get(verdict, verdict)
            mutant.test = name or mutant.test
    finally:
        path.write_text(source)
    mutant.verdict = {"passed": "lives", "failed": "caught"}.get(verdict, verdict)
    if verdict == "passed" and where is not None and not mark.exists():
        mutant.verdict = "unreached"
    return mutant


class Table:
    """The mutants that were planted, in a file that is written after each.

    Parameters
    ----------
    path : Path
    tree : Path
        A copy of the revision.
    most, seconds : int
        How many are planted at most; processor seconds for each.
    """

    def __init__(self, path: Path, tree: Path, most: int, seconds: int) -> None:
        self.path, self.tree, self.left, self.seconds = path, tree, most, seconds
        self.concern, self.mutants = Concern(tree), read(path) if path.exists() else []

    def add(self, mutant: Mutant, first: list[str]) -> Mutant:
        """Plant a mutant; tests of the files ``first`` run first."""
        self.mutants.append(plant(mutant, self.tree, self.concern, first, self.seconds))
        self.left -= 1
        self.path.write_text(json.dumps([asdict(one) for one in self.mutants], indent=1))
        return mutant

    def again(self, known: list[Mutant], tests: tuple[str, ...]) -> None:
        """Plant mutants of another revision, those that tests in some folders caught, or all."""
        done = {one.key for one in self.mutants}
        for old in known:
            if self.left and old.key not in done and (not tests or old.test.startswith(tests)):
                first = old.test.split("::")[0]
                found = self.add(replace(old, verdict="", test="", files=[]), [first] * (self.tree / first).is_file())
                lost = old.verdict == "caught" != found.verdict
                print(f"{found}{' (caught before)' if lost else ''}", flush=True)

    def draw(self, n: int, seed: int) -> None:
        """Draw mutants of all rooms until there are ``n`` that tests reach."""
        pool = drawn(self.tree, seed)
        for name, quota in quotas(n, pool).items():
            mine = [one for one in self.mutants if one.room == name]
            known = {one.key for one in mine}
            rest = (one for one in pool[name] if one.key not in known)
            while self.left and sum(one.verdict != "unreached" for one in mine) < quota and len(mine) < 4 * quota:
                if (mutant := next(rest, None)) is None:
                    break
                mine.append(self.add(mutant, []))
                print(mutant, flush=True)


def read(path: Path) -> list[Mutant]:
    """Return the mutants of a file."""
    return [Mutant(**one) for one in json.loads(path.read_text())]


def main() -> int:
    """Read the command line, plant what is left to plant, write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("table", type=Path, help="the table: read if it is there, and written")
    parser.add_argument("--before", type=Path, help="a table of another revision, whose mutants are planted")
    parser.add_argument("--tests", nargs="*", default=[], help="with --before: only what tests in these folders caught")
    parser.add_argument("-n", type=int, default=60, help="how many are drawn (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=10_000, help="how many are planted now")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="processor seconds for each")
    parser.add_argument("--revision", default="HEAD", help="of git; its tests and its product (default: HEAD)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        packed = subprocess.run(["git", "archive", given.revision], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        table = Table(given.table, Path(folder), given.most, given.seconds)
        if given.before:
            table.again(read(given.before), tuple(given.tests))
        else:
            table.draw(given.n, given.seed)
    counts = Counter(one.verdict for one in table.mutants)
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
