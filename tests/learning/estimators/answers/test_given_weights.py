"""Weights that are given: one number in every form that numbers have."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.errors import OptionError


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y.is_(1), features=x)
    same = Factor(chain(y), form=POTTS)
    begin = Factor(y.is_(0))
    loss = Hamming(y)


@pytest.mark.parametrize("one", [0.5, 1, np.float32(0.5), np.array(0.5), [0.5], np.array([0.5]), (0.5,), True])
def test_one_weight_is_a_number_in_any_form(one):
    svm = StructuredSVM.from_weights(Word, {"emit": [1.0, -1.0], "same": one, Word.begin: one})
    value = float(np.ravel(one)[0])
    assert svm.coef_.tolist() == [1.0, -1.0, value, value]
    assert float(np.ravel(svm.weights_["same"])[0]) == value


@pytest.mark.parametrize("wrong", [[0.5, 0.5], [], [[0.5, 0.5]], "0.5"])
def test_other_shapes_are_refused(wrong):
    with pytest.raises(OptionError, match="weights of 'same'"):
        StructuredSVM.from_weights(Word, {"emit": [1.0, -1.0], "same": wrong, "begin": 0.0})
    with pytest.raises(OptionError, match="weights of 'emit': expected shape"):
        StructuredSVM.from_weights(Word, {"emit": 1.0, "same": 0.0, "begin": 0.0})
