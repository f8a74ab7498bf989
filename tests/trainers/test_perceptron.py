"""Online updates against their definitions, written out over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from test_every_trainer import fitted
from test_objective import in_blocks

import small
from combinations import crossed
from model_table import independent
from small import Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import load_letters, make_chains
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.online.perceptron import Perceptron

UPDATES = ("perceptron", "pa", "pa-i", "pa-ii", "arow")


def by_definition(
    data, update: str, C: float, n_passes: int, start: np.ndarray, against: str = "max-loss"
) -> tuple[np.ndarray, np.ndarray]:
    """(last weights, average over all examples met), in the order users see."""
    dim, weight = len(data.nonneg), np.ones(len(data.X)) if data.weight is None else data.weight
    w, total, met, variance = start.copy(), np.zeros(dim), 0, np.ones(dim)
    for _ in range(n_passes):
        for (losses, planes), share in zip(data.planes, weight):
            worst = int(np.argmax((losses if against == "max-loss" else 0.0) - planes @ w))
            psi, risk, limit = planes[worst], losses[worst] - planes[worst] @ w, C * share
            if psi.any() and share > 0:
                square = float(np.sum(psi**2))
                if update == "arow":
                    w = w + risk / (variance @ psi**2 + 1.0 / limit) * variance * psi
                    variance = 1.0 / (1.0 / variance + limit * psi**2)
                else:
                    step = {
                        "perceptron": share,
                        "pa": risk / square,
                        "pa-i": min(limit, risk / square),
                        "pa-ii": risk / (square + 0.5 / limit),
                    }
                    w = w + step[update] * psi
                w = np.where(data.nonneg, np.maximum(w, 0.0), w)
            total, met = total + w, met + 1
    return w, total / met


@crossed(
    2,
    case=[Case(Word, n=8), Case(small.Costs, n=8, weighted=True), Case(small.Bounded, n=8), Case(small.Plain)],
    update=UPDATES,
    against=["max-loss", "prediction"],
    compiled=[True, False],
)
def test_updates_are_those_of_the_definition(case, update, against, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = case.make(1)
    start = 0.1 * np.abs(np.random.default_rng(0).normal(size=len(data.nonneg)))  # no two labellings score the same
    last, average = by_definition(data, update, 0.3, 3, start, against)
    for averaging, expected in ((True, average), (False, last)):
        made = Perceptron(update, averaging, 0.3, "incremental", against)
        steps = made.steps(data.problem(), StopRule(), in_blocks(data, start))
        for _ in range(3):
            iterate = next(steps)
        np.testing.assert_allclose(iterate.w, in_blocks(data, expected), rtol=1e-9, atol=1e-9)
    assert np.abs(average - start).max() > 0.01


@pytest.mark.parametrize("backend", ["auto", "brute-force"])
def test_prediction_based_updates_leave_what_is_right_alone(backend):
    """Crammer et al. (2006), section 9: where the truth scores best, a margin too small is no reason to move."""
    X, Y = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])], [["a"], ["b"]]
    for risk in ("margin", "hm"):
        moved = {}
        for against in ("max-loss", "prediction"):
            options = {"update": "pa", "against": against, "averaging": False}
            svm = StructuredSVM(Word, trainer="perceptron", risk=risk, backend=backend, warm_start=True, max_passes=1)
            svm.set_params(trainer_options=options).fit(X, Y)
            svm.coef_[:] = 0.0
            svm.weights_[Word.emit][...] = [[0.1, 0.0], [0.0, 0.1], [0.0, 0.0]]  # right, by 0.1 instead of 1
            before = svm.coef_.copy()
            assert svm.score(X, Y) == 1.0
            moved[against] = not np.array_equal(svm.fit(X, Y).coef_, before)
        assert moved == {"max-loss": True, "prediction": False}


def test_the_average_weighs_all_examples_alike():
    """An update of the first example counts for all examples met, one of the last for one."""
    data = Case(Word, n=2, ragged=(2,)).make(0)
    last, average = by_definition(data, "perceptron", 1.0, 1, np.zeros(15))
    assert not np.allclose(last, average)
    first = data.planes[0][1][np.argmax(data.planes[0][0])]
    np.testing.assert_allclose(average, first + 0.5 * (last - first))


@pytest.mark.parametrize("risk", ["perceptron", "margin"])
def test_it_ends_by_itself_when_every_example_is_right(risk):
    X, Y = make_chains(n=30, n_states=3, n_features=20, length=(2, 4), noise=0.1, random_state=0)

    Chains = independent(20, 3)

    svm = StructuredSVM(Chains, risk=risk, trainer="perceptron", max_passes=1000, n_threads=1, random_state=0)
    svm.set_params(trainer_options={"averaging": False}).fit(X, Y)
    assert svm.report_.reason == "ended"
    assert svm.report_.history[-1].extra["updates"] == 0
    assert svm.score(X, Y) == 1.0


def test_the_report_holds_the_objective_but_no_lower_bound():
    data = Case(Word, n=6, C=0.7).make(0)
    svm = fitted(data, trainer="perceptron", max_passes=5)
    assert svm.report_.primal == pytest.approx(data.objective(data.flat(svm.weights_)))
    assert svm.report_.dual == -np.inf
    assert not svm.report_.converged
    assert "no lower bound" in str(svm.report_)
    other = fitted(data, trainer="perceptron", max_passes=5, C=123.0)
    np.testing.assert_array_equal(svm.coef_, other.coef_)  # the regularisation does not enter


@pytest.mark.parametrize("update", UPDATES[1:])
def test_updates_with_a_margin_need_one(update):
    data = Case(Word).make(0)
    with pytest.raises(TrainingError, match=r"needs a margin.*risk='margin'"):
        fitted(data, trainer="perceptron", risk="perceptron", trainer_options={"update": update})
    fitted(data, trainer="perceptron", risk="hm", trainer_options={"update": update}, max_passes=2)


def test_a_stream_gives_the_weights_of_one_pass_over_it():
    data = Case(Word, n=9, ragged=(2, 3)).make(0)
    options = {"trainer": "perceptron", "trainer_options": {"order": "incremental"}, "n_threads": 1}
    stream = StructuredSVM(Word, **options)
    for lo in (0, 3, 6):
        stream.partial_fit(data.X[lo : lo + 3], data.Y[lo : lo + 3])
    whole = StructuredSVM(Word, max_passes=1, **options).fit(data.X, data.Y)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-12, atol=1e-12)


@pytest.mark.data
def test_the_letters_are_read_as_well_as_by_the_peer(data_dir):
    """CRFsuite's averaged perceptron, 100 passes over one fold: letter error 0.2507 (passive-aggressive 0.2522)."""
    from test_ocr import OCR

    letters = load_letters(fold=1, train="one")
    cases = {"perceptron": ("perceptron", 1.0, 0.2507), "pa-i": ("margin", 0.01, 0.2522)}
    for update, (risk, aggressiveness, peer) in cases.items():
        options = {"update": update, "aggressiveness": aggressiveness}
        svm = StructuredSVM(OCR, risk=risk, trainer="perceptron", trainer_options=options, max_passes=60)
        svm.set_params(random_state=0)
        svm.fit(letters.X_train, letters.Y_train)
        wrong = np.concatenate([a != b for a, b in zip(svm.predict(letters.X_test), letters.Y_test)])
        assert wrong.mean() <= peer + 0.003
