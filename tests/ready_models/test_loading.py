"""``ssvm_dsl.load`` reads whatever was saved; what cannot be read elsewhere is said when it is saved."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import ssvm_dsl
from ssvm_dsl import CountingPredictor, Dim, Factor, Feature, Hamming, Input, Label, Model, StructuredSVM, Subsets
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.io import read_arrays, write_arrays
from ssvm_dsl.models import ChainTagger, Classifier, MultiLabel

SEQUENCES, TAGS = [[["a"], ["b"]]] * 3, [["D", "N"]] * 3
ROWS = np.random.default_rng(0).normal(size=(20, 3))
SIGNS = (ROWS[:, 0] > 0).astype(int)


class Small(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    loss = Hamming(y)


def of_each_kind():
    x = [np.eye(2)] * 2
    return [
        (ChainTagger().fit(SEQUENCES, TAGS), SEQUENCES),
        (Classifier().fit(ROWS, SIGNS), ROWS),
        (MultiLabel().fit(ROWS, np.c_[SIGNS, 1 - SIGNS]), ROWS),
        (StructuredSVM(Small).fit(x, [[0, 1]] * 2), x),
        (CountingPredictor(Subsets(2)).fit(ROWS, np.c_[SIGNS, 1 - SIGNS]), ROWS),
    ]


def test_whatever_was_saved(tmp_path):
    for estimator, X in of_each_kind():
        estimator.save(tmp_path / "m.ssvm")
        again = ssvm_dsl.load(tmp_path / "m.ssvm")
        assert type(again) is type(estimator)
        assert np.array_equal(np.array(again.predict(X)), np.array(estimator.predict(X)))


def test_files_of_earlier_versions_do_not_name_their_class(tmp_path):
    for estimator, _ in of_each_kind()[:4]:
        estimator.save(tmp_path / "m.ssvm")
        content, arrays = read_arrays(tmp_path / "m.ssvm")
        del content["kind"]
        write_arrays(tmp_path / "m.ssvm", content, arrays)
        again = ssvm_dsl.load(tmp_path / "m.ssvm")
        assert set(again.get_params()) == set(estimator.get_params())
        content["kind"] = 3
        write_arrays(tmp_path / "m.ssvm", content, arrays)
        with pytest.raises(FileFormatError, match="kind"):
            ssvm_dsl.load(tmp_path / "m.ssvm")


def test_classes_of_ones_own_read_their_files(tmp_path):
    class Tagger(ChainTagger):
        pass

    Tagger().fit(SEQUENCES, TAGS).save(tmp_path / "m.ssvm")
    with pytest.raises(FileFormatError, match=r"Tagger\.load"):
        ssvm_dsl.load(tmp_path / "m.ssvm")
    assert Tagger.load(tmp_path / "m.ssvm").predict(SEQUENCES)[0].tolist() == TAGS[0]
    with pytest.raises(OptionError, match="space"):
        ssvm_dsl.load(tmp_path / "m.ssvm", space=Subsets(2))
    (tmp_path / "m.ssvm").write_text("no model")
    with pytest.raises(FileFormatError):
        ssvm_dsl.load(tmp_path / "m.ssvm")


MAIN = """
import warnings
import numpy as np
from ssvm_dsl import Dim, Factor, Feature, Hamming, Input, Label, Model, StructuredSVM

def twice(x):
    return 2.0 * x

class Squares(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=Feature(twice, T, width=2))
    loss = Hamming(y)

svm = StructuredSVM(Squares).fit([np.eye(2)] * 2, [[0, 1]] * 2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    svm.save("m.ssvm")
print(*(one.message for one in caught))
"""


def test_functions_of_a_script_are_warned_of(tmp_path):
    done = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "twice of __main__" in done.stdout
    assert "put it into a module" in done.stdout


def square(x):
    return x**2


def test_functions_of_modules_are_not_warned_of(tmp_path):
    class Squares(Small):
        own = Factor(Small.y, features=Feature(square, Small.T, width=2))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StructuredSVM(Squares).fit([np.eye(2)] * 2, [[0, 1]] * 2).save(tmp_path / "m.ssvm")
