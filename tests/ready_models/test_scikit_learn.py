"""Ready models and scikit-learn: its own checks, its tools, its classes."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from ssvm_dsl import StructuredSVM
from ssvm_dsl.models import ChainTagger, Classifier, MultiLabel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = np.array(["a", "b", "c"])[np.sort(np.argmax(X + 0.5 * RNG.normal(size=X.shape), axis=1))]  # sorted, as of iris
X = X[np.argsort(np.argmax(X, axis=1))]

#: The checks that a tagger of sequences cannot pass, since they fit it to a matrix with one class for each row: to it
#: that is a list of sequences of numbers, each with a single tag in place of a list of tags.
OF_MATRICES = {
    *("check_complex_data", "check_dict_unchanged", "check_dont_overwrite_parameters", "check_dtype_object"),
    *("check_estimators_dtypes", "check_estimators_fit_returns_self", "check_estimators_nan_inf"),
    *("check_estimators_overwrite_params", "check_estimators_pickle", "check_f_contiguous_array_estimator"),
    *("check_fit2d_predict1d", "check_fit_check_is_fitted", "check_fit_idempotent", "check_fit_score_takes_y"),
    *("check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_pipeline_consistency"),
    *("check_positive_only_tag_during_fit", "check_readonly_memmap_input"),
    *("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    *("check_sample_weights_list",),
    *("check_sample_weights_not_overwritten", "check_sample_weights_pandas_series", "check_sample_weights_shape"),
}

#: The checks that ask for what matrices have: a number of features that is the same in all calls, two axes that an
#: array-like object is converted to, messages about their sizes and about sparse ones.
OF_FEATURES = {
    *("check_all_zero_sample_weights_error", "check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    *("check_estimators_empty_data_messages", "check_fit2d_1feature", "check_fit2d_1sample"),
    *(
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_requires_y_none",
        "check_sample_weights_not_an_array",
    ),
}


class TaggerOfMatrices(ChainTagger):
    """Claims to take matrices, so that all checks run."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation, tags.input_tags.two_d_array = False, True
        return tags


def checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_estimator(estimator, on_fail=None, on_skip=None)


@pytest.mark.parametrize("options", [{}, {"risk": "log", "trainer": "lbfgs"}], ids=["margin", "log"])
def test_classifier_passes_every_check(options):
    found = checks(Classifier(n_threads=1, **options))
    wrong = [f"{one['check_name']}: {one['exception']}" for one in found if one["status"] == "failed"]
    assert not wrong, "\n".join(wrong)
    assert sum(one["status"] == "passed" for one in found) >= 50


def test_what_a_tagger_cannot_pass():
    found = checks(TaggerOfMatrices(n_threads=1))
    failed = {one["check_name"] for one in found if one["status"] == "failed"}
    assert failed <= OF_MATRICES | OF_FEATURES
    assert {one["check_name"] for one in found} - failed >= {
        *("check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init", "check_set_params"),
        *("check_estimators_unfitted", "check_get_params_invariance", "check_parameters_default_constructible"),
    }


def ragged():
    words = [np.random.default_rng(k).normal(size=(2 + k % 3, 2)) for k in range(12)]
    return words, [np.where(word[:, 0] > 0, "up", "down") for word in words]


def test_what_the_checks_mean_holds_for_sequences():
    words, tags = ragged()
    svm = ChainTagger(n_threads=1, C=1.0, tol=1e-6, scale=False)  # both of them count words, not their weights
    assert svm.fit(words, tags) is svm
    found, before = svm.predict(words), svm.get_params()
    again = clone(svm).fit(words, tags)
    assert all(map(np.array_equal, again.predict(words), found))  # idempotent
    assert svm.get_params() == before
    assert all(np.array_equal(svm.predict([word])[0], y) for word, y in zip(words, found, strict=True))  # subsets
    assert all(map(np.array_equal, svm.predict(words[::-1])[::-1], found))  # order
    twice = clone(svm).fit(words + words[:3], tags + tags[:3])
    weighted = clone(svm).fit(words, tags, sample_weight=[2.0] * 3 + [1.0] * 9)
    assert twice.report_.primal == pytest.approx(weighted.report_.primal, rel=1e-5)


def test_tools_on_sequences():
    words, tags = ragged()
    assert len(cross_val_score(ChainTagger(), words, tags, cv=3)) == 3
    search = GridSearchCV(ChainTagger(), {"order": [0, 1], "C": [0.1, 1.0]}, cv=KFold(3)).fit(words, tags)
    assert set(search.best_params_) == {"order", "C"}
    with pytest.raises(ValueError, match=r"inhomogeneous|dimension"):  # of numpy: predictions are one array there
        cross_val_predict(ChainTagger(), words, tags, cv=3)
    with pytest.raises(ValueError, match="0"):
        ChainTagger().fit(words, tags, sample_weight=np.zeros(12))


def test_tools_on_rows():
    svm = Classifier(C=1.0)
    scores = cross_val_score(svm, X, Y, cv=3)
    assert scores.min() > 0.5  # stratified: the classes are sorted
    assert is_classifier(svm)
    assert cross_val_predict(svm, X, Y, cv=3).shape == Y.shape
    assert CalibratedClassifierCV(svm, cv=3).fit(X, Y).predict_proba(X).shape == (90, 3)
    pipe = make_pipeline(StandardScaler(), svm).fit(X, Y)
    assert pipe.score(X, Y) > 0.6
    assert cross_val_score(Classifier(risk="log", trainer="lbfgs"), X, Y, scoring="neg_log_loss", cv=3).mean() > -1.0


@pytest.mark.parametrize("C", [0.1, 3.0])
def test_log_risk_is_logistic_regression(C):
    """With a column of ones in place of the bias, which scikit-learn does not regularise."""
    ones = np.c_[X, np.ones(len(X))]
    peer = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000).fit(ones, Y)
    svm = Classifier(bias=False, C=C, risk="log", scale=False, tol=1e-9).fit(ones, Y)
    assert svm.predict_proba(ones) == pytest.approx(peer.predict_proba(ones), abs=1e-4)
    plain = Classifier(C=C, risk="log", scale=False, tol=1e-9).fit(X, Y)
    assert plain.predict_proba(X) == pytest.approx(peer.predict_proba(ones), abs=1e-4)
    with_scale = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000)
    columns = np.c_[StandardScaler().fit_transform(X), np.ones(len(X))]
    scaled = Classifier(C=C, tol=1e-9).fit(100.0 * X, Y)
    assert scaled.predict_proba(100.0 * X) == pytest.approx(with_scale.fit(columns, Y).predict_proba(columns), abs=1e-4)


@pytest.mark.parametrize("classes", [[-1, 1], [False, True], ["no", "yes"], [1.0, 2.0], [7, 3]], ids=repr)
def test_classes_come_back_as_they_were(classes, tmp_path):
    y = np.array(classes)[(X[:, 0] > 0).astype(int)]
    svm = Classifier().fit(X, y)
    assert svm.classes_.tolist() == sorted(classes)
    assert svm.predict(X).dtype == y.dtype or y.dtype.kind == "U"
    assert svm.score(X, y) > 0.9
    svm.save(tmp_path / "model")
    assert (
        Classifier.load(tmp_path / "model").predict(X).astype(svm.predict(X).dtype).tolist() == svm.predict(X).tolist()
    )


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(X, columns=["u", "v", "w"]), pandas.Series(Y)
    svm = Classifier(tol=1e-6).fit(frame, series)
    assert svm.feature_names_in_.tolist() == ["u", "v", "w"]
    assert svm.predict(frame).tolist() == Classifier(tol=1e-6).fit(X, Y).predict(X).tolist()
    assert svm.predict(frame[["w", "v", "u"]]).tolist() == svm.predict(frame).tolist()
    with pytest.raises(ValueError, match="no 'w'"):
        svm.predict(frame[["v", "u"]])
    signs = pandas.DataFrame((X > 0).astype(int))
    assert MultiLabel().fit(frame, signs).predict(frame).shape == (90, 3)


def test_equal_rows_are_one_with_their_weight():
    twice, y = np.r_[X, X[:10]], np.r_[Y, Y[:10]]
    for strength in ({"C": 2.0}, {"lam": 0.01}):
        svm = Classifier(tol=1e-7, scale=False, risk="margin", **strength).fit(twice, y)
        plain = StructuredSVM(svm.model_, tol=1e-7, **strength).fit(list(twice), y.tolist())
        assert svm.report_.primal == pytest.approx(plain.report_.primal, rel=1e-6)


def test_partial_fit_where_the_trainer_can():
    assert not hasattr(Classifier(trainer="bcfw"), "partial_fit")
    svm = Classifier()  # auto takes one that can
    for part in np.array_split(np.random.default_rng(0).permutation(90), 3):
        svm.partial_fit(X[part], Y[part], classes=["a", "b", "c"])
    assert svm.score(X, Y) > 0.5


LATE = """
import sys
from ssvm_dsl import StructuredSVM
from ssvm_dsl.models import ChainTagger
tagger = ChainTagger()
assert "sklearn" not in sys.modules, "loaded for nothing"
from sklearn.base import BaseEstimator, clone
assert isinstance(ChainTagger(), BaseEstimator)
assert isinstance(tagger, BaseEstimator)
assert issubclass(StructuredSVM, BaseEstimator)
assert "set_fit_request" in dir(StructuredSVM)
assert clone(tagger).get_params() == tagger.get_params()
"""


def test_scikit_learn_is_loaded_by_those_who_use_it():
    """An estimator that is older than scikit-learn's import becomes one of its own with the next one that is made."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_every_estimator_is_scikit_learns():
    svm = StructuredSVM(Classifier.declare(X, Y))
    assert isinstance(svm, BaseEstimator)
    assert is_classifier(svm)
    for one in (svm, Classifier(C=2.0), ChainTagger()):
        assert type(one).__name__ in one._repr_html_()


def test_labels_by_scikit_learns_name():
    svm = Classifier().fit(X, y=Y)
    assert svm.score(X, y=Y) == svm.score(X, Y)
    plain = StructuredSVM(svm.model_).fit(list(X), y=Y.tolist())
    assert plain.score(list(X), y=Y.tolist()) > 0.6
