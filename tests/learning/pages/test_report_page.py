"""Pages about models: self-contained, escaped, complete; opened in Chromium where there is one."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.cli.main import main
from ssvm_dsl.cli.ocr import OCR
from ssvm_dsl.datasets import load_letters
from ssvm_dsl.errors import OptionError

SECTIONS = ["model", "plan", "certificate", "curves", "weights", "confusion", "costly"]
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=y>', "{{ 7 * 7 }}")


class Page(HTMLParser):
    """Tags, ids and texts; everything that refers elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.texts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.links.append(value)
            assert not name.startswith("on"), f"{tag} has {name}"

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.texts.append(data)


def checked(path):
    """The page; it is small, complete, and refers to nothing outside."""
    text = path.read_text("utf-8")
    page = Page(text)
    assert len(text.encode()) <= 2_000_000
    assert [one for one in page.ids if one in SECTIONS] == SECTIONS
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "link", "iframe", "object", "img", "base"} & set(page.tags)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme:dark" in text
    return page


class Odd(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, HOSTILE)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def odd():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(8)]
    Y = [[HOSTILE[k] for k in rng.integers(3, size=4)] for _ in X]
    return StructuredSVM(Odd, C=0.1, random_state=0).fit(X, Y), X, Y


def test_hostile_class_names_are_text(tmp_path):
    svm, X, Y = odd()
    svm.report_.to_html(tmp_path / "page.html", X, Y)
    page = checked(tmp_path / "page.html")
    assert all(any(name in text for text in page.texts) for name in HOSTILE)
    assert page.tags.count("polyline") >= 2
    for shown in (svm.plan_, svm.weights_, svm.report_, Odd):
        assert not {"script", "img"} & set(Page(shown._repr_html_()).tags)
        assert "prefers-color-scheme" in shown._repr_html_()


def test_what_is_missing_is_said(tmp_path, capsys):
    svm, _, _ = odd()
    svm.save(tmp_path / "model.ssvm")
    assert main(["report", str(tmp_path / "model.ssvm")]) == 0
    text = " ".join(checked(tmp_path / "model.html").texts)
    assert "model files do not hold it" in text
    assert "No data were given" in text
    given = StructuredSVM.from_weights(Odd, {"emit": np.ones((3, 2)), "trans": np.eye(3)})
    given.to_html(tmp_path / "given.html")
    assert "there is no report of a fit" in " ".join(checked(tmp_path / "given.html").texts)


def test_a_report_knows_its_estimator(tmp_path):
    svm, X, _ = odd()
    for one in (svm, pickle.loads(pickle.dumps(svm)), copy.deepcopy(svm)):
        one.report_.to_html(tmp_path / "page.html")
    alone = pickle.loads(pickle.dumps(svm.report_))
    with pytest.raises(OptionError, match=r"svm\.to_html"):
        alone.to_html(tmp_path / "page.html")
    with pytest.raises(OptionError, match="Y is missing"):
        svm.to_html(tmp_path / "page.html", X)
    with pytest.raises(OptionError, match="nowhere"):
        svm.to_html(tmp_path / "nowhere" / "page.html")
    assert not hasattr(StructuredSVM(Odd), "report_")
    with pytest.raises(OptionError, match="asks about no labels"):
        svm.why_not(X[0], None)


def test_chromium_shows_the_page_of_letters(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium")
    letters = load_letters()
    svm = StructuredSVM(OCR, C=1.0, tol=0.1, random_state=0).fit(letters.X[:30], letters.Y[:30])
    svm.report_.to_html(tmp_path / "page.html", letters.X[30:50], letters.Y[30:50])
    checked(tmp_path / "page.html")
    for scheme in ("light", "dark"):
        shot = tmp_path / f"{scheme}.png"
        dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *dark]
        options += ["--window-size=1000,2000", f"--screenshot={shot}", (tmp_path / "page.html").as_uri()]
        subprocess.run([browser, *options], check=True, capture_output=True, timeout=60, env={**os.environ})
        from matplotlib.image import imread

        image = imread(shot)[..., :3]
        assert image.shape[:2] == (2000, 1000)
        assert (image.mean() > 0.7) == (scheme == "light")
        assert image.std() > 0.02  # something is drawn
