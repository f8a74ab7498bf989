"""Every example runs by itself, is short, and shows what it promises."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
from importlib.util import find_spec

import pytest
from snippets import ROOT

import fresh
from ssvm_dsl import datasets
from ssvm_dsl.registry import registry
from ssvm_dsl.report import plot_confusion, save_for_script

DESIGN = ROOT / "tests" / "lang" / "test_design_models.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PICTURES = sorted((ROOT / "docs" / "pictures").glob("plot_*.py"))
SHOWS = {
    "alignment": r"backend decompose.*\nalignment error rate on 20 pairs: [0-9]\.",
    "bio": r"Free +[1-9]\d* tags that cannot.*\nLegal +0 tags that cannot be; F1 of phrases 0\.(6[89]|7[0-2])",
    "budget": r"Free +chain .*%\nBudget +cardinality .* 0\.0%\nTaxonomy +junction-tree .* 0\.0%",
    "chunking": r"right chunk tags on 3 test sentences: (8|9|100)",
    "coreference": r"Pairs +chain.*F1 0\.6.*\nCoreference +relations.*gap 0\.\d%, F1 0\.(7[5-9]|8)\d?.*\nfound \[\[",
    "counting": r"ncg: .*right subsets 100%\nsgd: .* 0\.\d\d% above .*\n16064 tours.*\ncosine .*: 0\.[89](.*\n){3}",
    "dependency": r"Heads +arborescence .*new sentences: (9|100).*\nProjective +eisner .*new sentences: (9|100)",
    "factorial": r"Apart +chain .*; [1-9]\d words.*\nTogether +junction-tree .*; \d words",
    "genes": r"backend semi-markov.*\ngenes in 40 new strands: (8[5-9]|9\d)% found with both ends, (8|9)\d%",
    "horses": r"Pixels +chain +right pixels: 8\d.*\nRegions +graph-cut +right pixels: 9[1-9]",
    "latent_parts": r"without parts: [45]\d.*\nwith parts: +(9\d|100)",
    "multilabel": r"Together +junction-tree",
    "network_scores": r"alone gets wrong: (3[8-9]|4\d).*\nwith transitions .* 313 words: (2\d|3[0-6])",
    "ocr": r"OCR +│ 4004 +│ 0\.21",
    "names": r"backend semi-markov, gap 0\.\d%\nsegments found in 40 new sentences: 9\d.*\n.*\(company\)",
    "own_backend": r"all \d+ checks passed.*\nright pixels: (8|9).*certified: False",
    "parser": r"backend cky, gap 0\.\d%\nphrases of [67] of 7 .*\nS\n├─ NP\n│  ├─ D the",
    "planning": r"backend shortest-path.*\neffort on 20 larger maps: 4\d\d, the least is 443",
    "points": r"matching: 9[67].*\neach point by itself: 9[0-3].*\nbackend assignment",
    "ranking": r"backend assignment.*\ndocuments at their place in 50 new lists: 9",
    "smokers": r"margin +smokes 0\.(7[5-9]|8).*alike 0\.[5-9].*\nlog +smokes 0\.(7[5-9]|8)",
    "trees": r"Tree +tree +9\d",
    "votes": r"Alone +margin +accuracy 0\.7.*\nVotes +margin +accuracy 0\.8.*\nVotes +log +accuracy 0\.8",
    "value_functions": r"rms errors:\n +[23]\.\d  regressed.*\n +1\.\d  structured .*\n +1\.\d+  with value features",
}


#: One a domain: these draw what they found.
DOMAINS = {
    "alignment", "chunking", "coreference", "dependency", "genes", "horses", "multilabel", "names", "ocr", "parser",
    "planning", "points", "ranking",
}  # fmt: skip

#: Examples show a model in fewer lines than this.
LINES = 68

#: What a model takes at most: a line for each symbol.
SYMBOLS = 10


@pytest.fixture
def as_script(monkeypatch, capsys, tmp_path):
    """Run a file as its script would run, but in this process, which has loaded what they all need."""
    for name in [name for name in os.environ if name.startswith("SSVM_") and name not in fresh.KEPT]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)

    known = registry()
    before = list(known.plugins)

    def run(path, *arguments):
        monkeypatch.setattr("sys.argv", [str(path), *map(str, arguments)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    yield run
    if known.plugins != before:  # an example has registered its own
        registry.cache_clear()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.sensitive
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, as_script, tmp_path):
    text = path.read_text()
    assert len(text.splitlines()) < LINES
    assert re.search(SHOWS[path.stem], as_script(path, *[tmp_path / "drawn.png"] * ("FILE.png" in text)))
    draws = "save_for_script(" in text
    assert draws == ("FILE.png" in text)
    assert (tmp_path / "drawn.png").exists() == (draws and find_spec("matplotlib") is not None)
    assert draws or path.stem not in DOMAINS


def test_an_example_is_a_script(tmp_path):
    path, drawn = ROOT / "examples" / "multilabel.py", tmp_path / "drawn.png"
    done = fresh.run([str(path), str(drawn)], env=fresh.environment() | {"MPLBACKEND": "Agg"}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(SHOWS["multilabel"], done.stdout)
    assert drawn.exists() == (find_spec("matplotlib") is not None)


@pytest.mark.filterwarnings("default")
def test_without_matplotlib_an_example_tells_and_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["example.py", str(tmp_path / "drawn.png")])
    monkeypatch.setattr("ssvm_dsl.report.plots.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"no picture is written: .* pip install ssvm-dsl\[plots\]"):
        save_for_script(plot_confusion, [[0]], [[0]], [0])
    assert not list(tmp_path.iterdir())


def declarations(path):
    """Names of the model classes of a file, with the lines of their bodies."""
    models = {"Model"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and {base.id for base in node.bases if isinstance(base, ast.Name)} & models:
            models.add(node.name)
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, sum(line.end_lineno - line.lineno + 1 for line in body)


def test_models_are_declared_in_ten_lines():
    found = {f"{path.stem}: {name}": lines for path in (*EXAMPLES, DESIGN) for name, lines in declarations(path)}
    assert len(found) > 20
    assert {name: lines for name, lines in found.items() if lines > SYMBOLS} == {}


@pytest.mark.data
def test_chunking_on_real_sentences(data_dir, as_script, monkeypatch):
    """On a part of them; all take 20 s."""
    monkeypatch.setenv("SSVM_DATA", str(data_dir))
    train, test = datasets.load_conll2000()
    monkeypatch.setattr(datasets, "load_conll2000", lambda: (train[:600], test[:100]))
    shown = as_script(ROOT / "examples" / "chunking.py")
    found = re.search(r"right chunk tags on 100 test sentences: ([\d.]+)%", shown)
    assert found
    assert float(found[1]) > 90


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_are_drawn(path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.syspath_prepend(ROOT / "examples" / "catalogue")
    try:
        runpy.run_path(str(path))
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
