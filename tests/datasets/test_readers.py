"""Readers of the shell's formats for Python."""

import numpy as np
import pytest

from ssvm_dsl import read_conll, read_conllu, read_examples, read_images
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.models import ChainTagger, DependencyParser, GridSegmenter

CONLL = "the DT B\ncat NN I\n\nit PRP B\nsleeps VB O\n"


def test_words_and_tags_of_columns(tmp_path):
    (tmp_path / "train.conll").write_text(CONLL)
    sentences, tags = read_conll(tmp_path / "train.conll")
    assert sentences == [["the", "cat"], ["it", "sleeps"]]
    assert tags == [["B", "I"], ["B", "O"]]
    assert ChainTagger(C=10.0).fit(sentences, tags).score(sentences, tags) == 1.0
    X, Y = read_examples(tmp_path / "train.conll")
    assert "U0[0]:the" in X[0][0]
    assert tags == Y
    (tmp_path / "one.conll").write_text("B\nI\n")
    with pytest.raises(FileFormatError, match="at least two columns"):
        read_conll(tmp_path / "one.conll")
    (tmp_path / "bad.conll").write_text("a B\nb\n")
    with pytest.raises(FileFormatError, match="2"):
        read_conll(tmp_path / "bad.conll")


def test_heads_of_trees(tmp_path):
    lines = ["1 the _ DT _ _ 2 _ _ _".replace(" ", "\t"), "2 cat _ NN _ _ 0 _ _ _".replace(" ", "\t")]
    (tmp_path / "t.conllu").write_text("\n".join(lines) + "\n")
    sentences, heads = read_conllu(tmp_path / "t.conllu")
    assert sentences == [(["the", "cat"], ["DT", "NN"])]
    assert heads == [[1, -1]]
    assert DependencyParser().fit(sentences * 2, heads * 2).predict(sentences)[0].tolist() == [1, -1]


def test_images_and_masks(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    pixels = np.random.default_rng(0).integers(256, size=(4, 5, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "images" / "a.png")
    image.fromarray((pixels[..., 0] > 128).astype(np.uint8)).save(tmp_path / "masks" / "a.png")
    X, Y = read_images(tmp_path)
    assert GridSegmenter(C=1.0).fit(X, Y).predict(X)[0].shape == (4, 5)
    np.testing.assert_array_equal(Y[0], pixels[..., 0] > 128)


def test_tables(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n")
    X, Y = read_examples(tmp_path / "t.csv", label=["kind"])
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert list(Y) == ["x", "y"]
    with pytest.raises(OptionError, match="format"):
        read_examples(tmp_path / "t.unknown")
    with pytest.raises(OptionError, match="read_examples: label must be a list"):
        read_examples(tmp_path / "t.csv", label="kind")
