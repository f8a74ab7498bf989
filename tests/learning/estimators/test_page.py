"""Pages of HTML about fits: complete, safe, in one file."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.report.page import MOST, PageTable, Section, html_page

EVIL = '<script>alert("x")</script>'


class Words(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["a", EVIL, "&c"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Reader(HTMLParser):
    """Collects tags, attributes and headings, and checks that elements are closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (3, 4, 5, 6)]
    return X, [[Words.y.classes[k] for k in (x + 0.8 * rng.normal(size=x.shape)).argmax(axis=1)] for x in X]


@pytest.fixture(scope="module")
def svm(data):
    return StructuredSVM(Words, C=0.3).fit(*data)


def page_of(path):
    page = path.read_text(encoding="utf-8")
    reader = Reader(page)
    assert not reader.open
    assert "script" not in reader.tags
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in reader.links)
    assert not re.search(r"(?:src|href|url\()=?[\"'(]?\s*https?:", page)
    assert len(page) <= MOST
    return page, reader


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_a_page_has_the_model_the_certificate_the_weights_and_the_mistakes(svm, data, tmp_path):
    svm.write_page(tmp_path / "page.html", *data)
    page, reader = page_of(tmp_path / "page.html")
    assert headings(page) == [
        *("Model", "Certificate", "Plan", "Training curves", "Weights of emit", "Weights of trans"),
        *("Confusion", "Examples with most mistakes"),
    ]
    assert reader.tags.count("svg") == 6
    assert f"{svm.report_.primal:.5g}"[:4] in page
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    right = sum(a.tolist() == list(b) for a, b in zip(svm.predict(data[0]), data[1], strict=True))
    assert right < len(data[0])
    assert f"{right} of 4 examples are predicted without one" in page


def test_what_a_saved_model_lacks_is_said(svm, tmp_path):
    svm.save(tmp_path / "words.ssvm")
    assert main(["report", str(tmp_path / "words.ssvm")]) == 0
    page, _ = page_of(tmp_path / "words.html")
    assert "does not hold the history" in page
    assert "Pass examples with their labels" in page


def test_a_report_alone_writes_its_page(svm, tmp_path):
    svm.report_.to_html(tmp_path / "fit.html")
    page, _ = page_of(tmp_path / "fit.html")
    assert headings(page) == ["Certificate", "Plan", "Training curves"]


def test_given_weights_claim_nothing(tmp_path):
    svm = StructuredSVM.from_weights(Words, {Words.emit: np.eye(3), Words.trans: np.zeros((3, 3))})
    svm.write_page(tmp_path / "page.html")
    assert "given, not learnt" in page_of(tmp_path / "page.html")[0]


def test_wrong_calls_write_nothing(svm, data, tmp_path):
    with pytest.raises(OptionError, match="X and Y, or neither"):
        svm.write_page(tmp_path / "page.html", data[0])
    with pytest.raises(OptionError, match="path of a file"):
        svm.write_page(3)
    with pytest.raises(DataError):
        svm.write_page(tmp_path / "page.html", [np.zeros((2, 9))], [["a", "a"]])
    assert not list(tmp_path.iterdir())


def test_pictures_that_do_not_fit_are_left_out():
    picture = f"<svg>{'x' * (MOST // 2)}</svg>"
    page = html_page("large", [Section("one", pictures=[picture]), Section("two", pictures=[picture])])
    assert len(page) <= MOST
    assert page.count("<svg>") == 1
    assert "is left out" in page


def test_texts_are_escaped():
    page = html_page(EVIL, [Section(EVIL, EVIL, EVIL, [PageTable([[EVIL]], [EVIL], EVIL)])])
    assert EVIL not in page
