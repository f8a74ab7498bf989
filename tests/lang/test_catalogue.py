"""The catalogue: every model is short, learns what is true, and answers as plain Python says that it should."""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from meanings import MEANINGS, labellings

from ssvm_dsl import Label, Latent, ParseTree, StructuredSVM

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "catalogue"


def load():
    """Return the module that ``python examples/catalogue`` runs."""
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location("catalogue_main", FOLDER / "__main__.py")
    module = sys.modules["catalogue_main"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(FOLDER))
    return module


CATALOGUE = load()
MODELS = CATALOGUE.MODELS
EVERY_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)

#: A model has fewer lines than this.
LINES = 13

#: Positions of an example that is compared with all labellings, where 4 are too many.
SMALL = {
    "Annotators": 3, "Bipartite": 3, "Tracks": 3, "GraphMatching": 3, "StableMatching": 3, "Alignment": 3,
    "SecondOrder": 3,
}  # fmt: skip

#: Models whose sums no exact backend takes.
NO_MARGINALS = set()

PAGES = FOLDER.parents[1] / "docs" / "language" / "catalogue"
#: A row of the table: the model, its lines, the backend, right labels of the model and of the commonest values.
ROW = re.compile(r"\| \[`(\w+)`\]\((\w+)\.md#\w+\) \| (.*) \| (\d+) \| `([^`]+)` \| (\d+) % \| (\d+) % \|")
ROWS = {row[0]: row[1:] for row in ROW.findall((PAGES / "index.md").read_text())}


@pytest.mark.parametrize("group", CATALOGUE.GROUPS, ids=lambda group: group.__name__)
def test_pages_show_the_models(group):
    """Each has fewer than 13 lines, and the page has them with what the model says."""
    source, page = Path(group.__file__).read_text(), (PAGES / f"{group.__name__}.md").read_text()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == [model.__name__ for model in group.MODELS]
    for node in classes:
        lines = source.splitlines()[node.body[1].lineno - 1 : node.end_lineno]
        says = " ".join(ast.get_docstring(node).split())
        stands, text, n_lines, backend, *_ = ROWS[node.name]
        assert (stands, text, int(n_lines)) == (group.__name__, says, len(lines))
        assert len(lines) < LINES
        shown = page[page.index(f"## {node.name}\n") :]
        assert shown.split("\n\n")[1] == says
        assert f"class {node.name}(Model):\n" + "\n".join(lines) + "\n```\n\n`auto` takes `" + backend in shown


def test_the_catalogue_is_whole():
    assert len(MODELS) >= 40
    assert {model.__name__ for model in MODELS} == set(MEANINGS) == set(ROWS)


@EVERY_MODEL
def test_what_is_true_is_learnt(model):
    svm, right, commonest = CATALOGUE.learn(model)
    *_, backend, shown, of_commonest = ROWS[model.__name__]
    assert svm.plan_.backend == backend
    assert right == pytest.approx(int(shown) / 100, abs=0.035)  # rounded; another processor ends at another point
    assert commonest == pytest.approx(int(of_commonest) / 100, abs=0.006)
    assert right > max(0.85, commonest + 0.05)


@EVERY_MODEL
@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_plain_python(model, seed):
    name, (draw, given) = model.__name__, MODELS[model]
    cells, score = MEANINGS[name]
    rng = np.random.default_rng(seed)
    weights = CATALOGUE.true_weights(model, given if seed == 0 else {}, rng)
    x = draw(rng, SMALL.get(name, 4))
    hidden = {symbol.name for symbol in vars(model).values() if isinstance(symbol, Latent)}
    total, best, seen = [], {}, {}
    for y in labellings(cells(x)):
        value = score(weights, x, y)
        if value is None:
            continue
        total.append(float(value))
        shown = plain({label: one for label, one in y.items() if label not in hidden})
        best[shown] = max(best.get(shown, -math.inf), total[-1])
        for key in shown:
            seen.setdefault(key, []).append(total[-1])

    svm = StructuredSVM.from_weights(model, weights)
    ranked = sorted(best.values(), reverse=True)[:4]
    found = svm.predict_kbest([x], 4)[0]
    assert [value for _, value in found] == pytest.approx(ranked, abs=1e-8)
    for y, value in [*found, (svm.predict([x])[0], ranked[0])]:
        assert best[plain(as_numbers(model, y, cells(x)))] == pytest.approx(value, abs=1e-8)
    if name not in NO_MARGINALS:
        probabilities = svm.predict_marginals([x])[0]
        for (label, cell, value), values in seen.items():
            if label == "phrases":  # marginals of trees are those of tags
                continue
            share = math.exp(logsumexp(values) - logsumexp(total))
            assert probability(model, probabilities, label, cell, value) == pytest.approx(share, abs=1e-8)


def logsumexp(values):
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))


def plain(y):
    """Return a labelling as a set of (label, position, value)."""
    return frozenset((label, cell, int(value)) for label, values in y.items() for cell, value in values.items())


def visible(model):
    """Return the labels that predictions have."""
    return [one for one in vars(model).values() if isinstance(one, Label) and not isinstance(one, Latent)]


def as_numbers(model, y, cells):
    """Return a predicted labelling as ``meanings`` has it: values by position, classes by number."""
    labels = visible(model)
    if isinstance(y, ParseTree):
        return as_phrases(y)
    arrays = y if len(labels) > 1 else {labels[0].name: y}
    found = {}
    for label in labels:
        array = np.asarray(np.ma.getdata(arrays[label.name]))
        number = (lambda value, names=label.classes: names.index(value)) if label.classes else int
        found[label.name] = {cell: number(array[cell].item()) for cell in cells[label.name][0]}
    return found


def as_phrases(tree):
    """Return a tree as ``meanings`` has it: the rule of each phrase by its start, end and middle, and tags."""
    found = {"phrases": {}, "tags": {}}

    def walk(node, first):
        if node.is_tag:
            found["tags"][first] = "NV".index(node.label)
            return first + 1
        middle = walk(node.trees[0], first)
        last = walk(node.trees[1], middle)
        names = node.trees[0].label, node.trees[1].label
        found["phrases"][first, last, middle] = [("N", "S"), ("N", "V"), ("S", "V")].index(names)
        return last

    walk(tree, 0)
    return found


def probability(model, found, label, cell, value):
    """Return the probability that the package gives a value; that of pointing nowhere stands last."""
    labels = visible(model)
    array = found[label] if len(labels) > 1 and label in found else found
    return array[cell][value]
