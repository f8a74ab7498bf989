"""Run the code of a Markdown page from top to bottom and compare what it prints with what the page shows.

A ``text`` block shows exactly what the ``python`` block before it prints; in an ``output`` block numbers may
differ.  A ``py`` block is not run: code of other packages, or that needs what is not installed.  After a change:
``python tests/cli/snippets.py README.md docs/*.md`` writes what is printed now.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```([\w{}]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(< )?-?(\d+(\.\d*)?(e[+-]?\d+)?)( (us|ms|s|min)\b( \d+ s\b)?)?")


@dataclass
class Shown:
    """An expected output: what the page shows, what was printed, and where it is in the page."""

    language: str
    expected: str
    printed: str
    span: tuple[int, int]

    @property
    def same(self):
        return tidy(self.expected, self.language) == tidy(self.printed, self.language)


def tidy(text, language):
    """Lines without trailing blanks; in ``output`` blocks without numbers, units of time and runs of blanks.

    Where its lines are broken depends on the lengths of numbers: indented lines belong to the one above.
    """
    if language == "output":
        text = re.sub(r"\n {8,}", " ", text)
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if language == "output":
        lines = [re.sub(r" +", " ", NUMBER.sub("#", line)) for line in lines]
    return "\n".join(lines)


def run_page(path):
    """Run all Python blocks in one namespace; return the expected outputs in order."""
    page, printed, shown = path.read_text(), "", []
    module = ModuleType(f"page_{path.stem}")
    sys.modules[module.__name__] = module
    for block in FENCE.finditer(page):
        language, code = block[1], block[2]
        if language == "python":
            out = StringIO()
            with redirect_stdout(out):
                exec(compile(code, "model.py", "exec"), module.__dict__)
            printed = out.getvalue()
        elif language in ("text", "output"):
            shown.append(Shown(language, code, printed, block.span(2)))
    return shown


def commands(path):
    """Every ``ssvm`` command in the ``sh`` blocks of a page, as lists of arguments."""
    lines = [line for block in FENCE.finditer(path.read_text()) if block[1] == "sh" for line in block[2].splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("ssvm ")]


def update(path):
    """Write what is printed now into the page."""
    page = path.read_text()
    for one in reversed(run_page(path)):
        page = page[: one.span[0]] + one.printed.strip("\n") + "\n" + page[one.span[1] :]
    path.write_text(page)


if __name__ == "__main__":
    pages = [Path(name).absolute() for name in sys.argv[1:]]
    with TemporaryDirectory() as folder, chdir(folder):
        for page in pages:
            update(page)
