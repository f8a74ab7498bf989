"""Pages about models: self-contained, escaped, complete; opened in Chromium where there is one."""

from __future__ import annotations

import copy
import pickle
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import OptionError

ROOT = Path(__file__).parents[3]
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


@pytest.fixture(scope="module")
def screenshots():
    """The command that makes the pictures of the documentation."""
    made = runpy.run_path(str(ROOT / "docs" / "screenshots.py"))
    if made["browser"]() is None:
        pytest.skip("no Chromium")
    pytest.importorskip("PIL.Image")
    return SimpleNamespace(**made)


@pytest.mark.parametrize("name", ["ocr", "chunking", "horses"])
def test_chromium_shows_the_pages_of_the_documentation(screenshots, tmp_path, name):
    write, sections, height = screenshots.SHOTS[name]
    write(tmp_path / "page.html")
    checked(tmp_path / "page.html")
    for dark in (False, True) if name == "ocr" else (False,):
        shot = tmp_path / f"{dark}.png"
        screenshots.shoot(tmp_path / "page.html", shot, height, sections, dark)
        from matplotlib.image import imread

        image = imread(shot)[..., :3]
        assert image.shape[:2] == (height, 900)
        assert (image.mean() > 0.6) != dark
        assert image.std() > 0.02  # something is drawn
    kept = ROOT / "docs" / "screenshots" / f"report_{name}.png"
    assert 5_000 < kept.stat().st_size < 150_000
