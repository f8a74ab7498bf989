"""The README and the pages of docs: their code runs, prints what they show, and their links lead somewhere."""

from __future__ import annotations

import re
import sys
import warnings

import pytest
from snippets import FENCE, ROOT, commands, run_page, tidy
from stage import run_calls

from ssvm_dsl.cli.main import make_parser
from ssvm_dsl.cli.plugins.templates.backend import BACKEND
from ssvm_dsl.registry import registry

README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [
    README,
    *(page for page in sorted(DOCS.rglob("*.md")) if not page.relative_to(DOCS).as_posix().startswith("_")),
]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())

#: How many calls in the text of a page are run at least.
CALLS = {"cheat_sheet.md": 20, "language/targets.md": 10, "language/constraints.md": 6, "language/losses.md": 10}

LINK = re.compile(r'\]\(([^)#:\s"]+)(#[^)\s]*)?(\s+"[^"]*")?\)')


@pytest.fixture
def own_registry():
    """Plug-ins registered by a page are gone afterwards; to find the others again takes longer than many a page."""
    known = registry()
    before = list(known.plugins)
    yield
    if registry() is not known or known.plugins != before:
        registry.cache_clear()


@pytest.mark.sensitive
@EVERY_PAGE
def test_code_prints_what_the_page_shows(page, own_registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = run_page(page)
        names = vars(sys.modules[f"page_{page.stem}"])
        n_calls, failed = run_calls(FENCE.sub("", page.read_text()), names)
    for one in shown:
        assert one.same, f"{page.name} shows\n{one.expected}\nbut it prints\n{one.printed}"
    assert not failed, "\n".join(f"{page.name}: {text}: {error!r}" for text, error in failed)
    assert n_calls >= CALLS.get(page.relative_to(DOCS).as_posix() if page != README else "", 0)


@EVERY_PAGE
def test_code_that_is_not_run_is_python(page):
    for block in FENCE.finditer(page.read_text()):
        if block[1] == "py":
            compile(block[2], page.name, "exec")


@EVERY_PAGE
def test_commands_exist(page):
    for command in commands(page):
        make_parser(command).parse_args(command)


@EVERY_PAGE
def test_links_lead_somewhere(page):
    missing = [link[1] for link in LINK.finditer(page.read_text()) if not has_source((page.parent / link[1]).resolve())]
    assert not missing


def has_source(path):
    """Whether a page exists, or the script that its page of the gallery is built from."""
    if (DOCS / "gallery") not in path.parents:
        return path.exists()
    if DOCS / "gallery" / "examples" in path.parents:  # by task
        return path.stem == "index" or (ROOT / "examples" / f"{path.stem.removeprefix('plot_')}.py").exists()
    folder = DOCS / path.parent.name
    return (folder if path.stem == "index" else folder / f"{path.stem}.py").exists()


def test_the_readme_has_what_the_first_screen_promises():
    first = README.read_text().splitlines()[:70]
    for words in ("class OCR(Model):", ".fit(X, Y)", "svm.weights_[OCR.trans]", "make demo", "make test", "certified"):
        assert any(words in line for line in first), words


def test_the_backend_of_the_page_is_the_one_that_plugins_new_writes():
    text = (DOCS / "howto" / "own_backend.md").read_text()
    (block,) = [found[2] for found in FENCE.finditer(text) if "class Backend:" in found[2]]
    start = "class Backend:"
    assert block[block.index(start) :].startswith(BACKEND[BACKEND.index(start) :].rstrip())


def test_outputs_are_compared():
    assert tidy("a  1.5 s\n", "output") == tidy("a 20 ms", "output")
    assert tidy("a 1", "output") != tidy("b 1", "output")
    assert tidy("a 1", "text") != tidy("a 2", "text")
