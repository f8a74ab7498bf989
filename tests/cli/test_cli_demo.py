"""``ssvm demo``: what it reports is what a fit gives, and what it draws is what is in the data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from foreign import inside
from ssvm_dsl import StructuredSVM
from ssvm_dsl.cli.demo import draw_word, mark_mistakes
from ssvm_dsl.cli.ocr import OCR
from ssvm_dsl.datasets import load_letters

QUICK = ("--tol", "0.05", "--threads", "1")


@pytest.fixture(scope="module")
def fitted():
    X, Y, X_test, Y_test = load_letters(fold=2)
    return StructuredSVM(OCR, C=0.1, tol=0.05, random_state=0).fit(X, Y), X_test, Y_test


def test_json_tells_what_a_fit_gives(capsys, fitted):
    svm, X_test, Y_test = fitted
    status, out, err = inside(capsys, "demo", "--json", "--fold", "2", *QUICK)
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert (told["fold"], told["n_train"], told["n_test"]) == (2, 6877 - len(X_test), len(X_test))
    assert told["letter_error"] == pytest.approx(1 - svm.score(X_test, Y_test), abs=1e-12)
    right = [list(a) == list(b) for a, b in zip(svm.predict(X_test), Y_test)]
    assert told["word_error"] == pytest.approx(1 - np.mean(right), abs=1e-12)
    for name in ("primal", "dual", "relative_gap"):
        assert told["report"][name] == pytest.approx(getattr(svm.report_, name), rel=1e-9)
    assert told["report"]["certified"]
    assert told["words"][0]["truth"] == "".join(Y_test[0])
    assert len({word["truth"] for word in told["words"]}) == len(told["words"])


def test_the_screen_shows_model_certificate_words_and_what_next(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    status, out, err = inside(capsys, "demo", *QUICK)
    assert status == 0
    for text in (
        "class OCR(Model):", "trans = Factor(chain(y))", "704 words to train on, 6173 to test on",
        "gap ", "(certified)", "of the letters", "ommanding", "demo --protocol large", "plugins list",
    ):  # fmt: skip
        assert text in out
    assert "the first run compiles them" in err
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--fold", "12"], "--fold: invalid choice: 12"),
        (["--C", "-1"], "--C: expected a positive"),
        (["--tol", "-1"], "--tol"),
    ],
)
def test_values_that_cannot_be(capsys, arguments, word):
    with pytest.raises(SystemExit, match="2"):
        inside(capsys, "demo", "--json", *arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert word in err


def test_letters_are_drawn_dot_by_dot():
    images = np.random.default_rng(0).integers(0, 2, size=(3, 128)).astype(np.uint8)
    lines = draw_word(images).splitlines()
    assert [len(line) for line in lines] == [12] * 4
    bits = {(0, 0): 0, (1, 0): 1, (2, 0): 2, (0, 1): 3, (1, 1): 4, (2, 1): 5, (3, 0): 6, (3, 1): 7}
    for t, image in enumerate(images):
        for p, ink in enumerate(image):
            row, column = divmod(p, 8)
            cell = ord(lines[row // 4][4 * t + column // 2]) - 0x2800
            assert (cell >> bits[row % 4, column % 2]) & 1 == ink


def test_mistakes_are_marked():
    text = mark_mistakes("cot", "cat", spread=3)
    assert text.plain == "c  o  t  "
    assert [(span.start, span.end) for span in text.spans if "red" in str(span.style)] == [(3, 4)]
    assert not mark_mistakes("cat", "cat").spans
