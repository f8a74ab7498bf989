"""Chunking with hundred thousands of named features: F1 on part of CoNLL-2000, the certificate, sparse kernels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from model_table import token_tagger
from ssvm_dsl import StructuredSVM, ground
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, chunk_f1, load_conll2000

#: A sentence: named features of each word -> chunk tags.
Chunks = token_tagger(CHUNK_TAGS)


@pytest.fixture(scope="module")
def sentences(data_dir):
    """1000 sentences to train on and 500 others: (X, Y, X_test, Y_test)."""
    train, test = load_conll2000()
    parts = train[:1000], test[:500]
    X, X_test = ([chunk_attributes(s.words, s.pos) for s in part] for part in parts)
    return X, [s.chunks for s in parts[0]], X_test, [s.chunks for s in parts[1]]


@pytest.mark.data
def test_bcfw_on_a_thousand_sentences(sentences):
    X, Y, X_test, Y_test = sentences
    svm = StructuredSVM(Chunks, C=0.1, tol=0.05, random_state=0, n_threads=1).fit(X, Y)
    report = svm.report_
    assert report.certified
    assert report.dual <= report.primal <= report.dual + 0.05 * report.primal
    assert chunk_f1(Y_test, svm.predict(X_test)) > 0.905


@pytest.mark.data
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"risk": "perceptron", "trainer": "perceptron", "max_passes": 5}, 0.90),
        ({"risk": "log", "trainer": "lbfgs", "C": 0.5, "max_passes": 15}, 0.885),
    ],
)
def test_other_trainers_on_a_thousand_sentences(sentences, options, least):
    X, Y, X_test, Y_test = sentences
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they stop early
        svm = StructuredSVM(Chunks, random_state=0, n_threads=1, **options).fit(X, Y)
    assert chunk_f1(Y_test, svm.predict(X_test)) > least


@pytest.mark.data
def test_encoding_counts_every_name(sentences):
    X, Y, _, _ = sentences
    g = ground(Chunks, X, Y)
    names = sorted({name for tokens in X for token in tokens for name in token})
    assert sorted(g.fitted["words"]["names"]) == names
    assert g.parameters.dim == len(CHUNK_TAGS) * (len(names) + len(CHUNK_TAGS))
    rows = g.parameters.maps[0].features
    columns = {name: k for k, name in enumerate(g.fitted["words"]["names"])}
    flat = [token for tokens in X for token in tokens]
    for t in np.random.default_rng(0).integers(len(flat), size=200):
        lo, hi = rows.ptr[t], rows.ptr[t + 1]
        found = dict(zip(rows.indices[lo:hi].tolist(), rows.data[lo:hi].tolist(), strict=True))
        assert found == dict.fromkeys((columns[name] for name in flat[t]), 1.0)
