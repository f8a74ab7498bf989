"""The table of parameters is what constructors, docstrings, the command and ready models say; older pickles load."""

from __future__ import annotations

import pickle
import re
from argparse import ArgumentParser
from inspect import getdoc, signature

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredRegressor, StructuredSVM, chain
from ssvm_dsl.cli.learn.train import PARAMETERS as OF_COMMAND
from ssvm_dsl.cli.learn.train import add_training_arguments
from ssvm_dsl.compiler.prepared import StructureCache
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.estimators.parameters import PARAMETERS
from ssvm_dsl.models import ChainTagger


class Tagged(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


RNG = np.random.default_rng(0)
Y = [RNG.integers(3, size=n) for n in (4, 2, 5, 3)]
X = [np.eye(3)[y] + 0.1 * RNG.normal(size=(len(y), 3)) for y in Y]


@pytest.mark.parametrize("kind", [StructuredSVM, StructuredRegressor])
def test_constructors_and_docstrings_list_the_table(kind):
    given = {name: one.default for name, one in signature(kind).parameters.items() if name != "model"}
    table = {name: one.default for name, one in kind._parameters.items() if name != "model"}
    assert given == table
    assert {type(one) for one in given.values()} == {type(one) for one in table.values()}
    listed = set(re.findall(r"\w+", getdoc(kind).partition("Attributes\n")[0]))
    assert listed >= set(table)
    assert kind(Tagged).get_params(deep=False).keys() == {"model", *table}


def test_each_parameter_has_a_line():
    for name, one in PARAMETERS.items():
        assert one.name == name
        assert one.doc
        assert "\n" not in one.doc


def test_the_command_knows_the_parameters_and_their_defaults():
    assert set(OF_COMMAND.values()) <= set(PARAMETERS)
    parser = ArgumentParser()
    add_training_arguments(parser)
    told = {OF_COMMAND[one.dest]: re.search(r"default: ([\w.]+)", one.help or "")
            for one in parser._actions if one.dest in OF_COMMAND}  # fmt: skip
    numbers = {name: PARAMETERS[name].default for name, one in told.items() if one and one.group(1)[0].isdigit()}
    assert numbers.keys() >= {"C", "tol", "max_passes"}
    assert {name: float(told[name].group(1)) for name in numbers} == numbers


def test_ready_models_have_rules_of_their_own():
    assert set(signature(ChainTagger).parameters) > set(StructuredSVM._parameters) - {"model"}
    with pytest.raises(OptionError, match="guarantee must be one of 'exact', 'bound', 'heuristic', 'auto', got 'any'"):
        ChainTagger(guarantee="any").fit(X, Y)
    with pytest.raises(OptionError, match="guarantee must be one of 'exact', 'bound', 'heuristic', got 'auto'"):
        StructuredSVM(Tagged, guarantee="auto").fit(X, Y)


@pytest.mark.parametrize("stream", [False, True])
def test_pickles_with_weights_among_the_attributes_load(stream):
    svm = StructuredSVM(Tagged, C=0.5, trainer="subgradient" if stream else "auto", tol=0.05, random_state=0)
    svm = svm.partial_fit(X, Y) if stream else svm.fit(X, Y)
    fitted = svm.fitted_
    state = {name: value for name, value in vars(svm).items() if name != "fitted_"}
    state |= {"coef_": fitted.coef, "_blocks": fitted.blocks, "_fitted": fitted.learnt, "report_": fitted.report}
    state |= {"_certificate": fitted.certificate, "plan_": svm.plan_, "_stream": fitted.stream}
    state["_structures"] = StructureCache()
    old = StructuredSVM.__new__(StructuredSVM)
    old.__setstate__(pickle.loads(pickle.dumps(state)))
    assert vars(old).keys() == vars(svm).keys()
    assert str(old.report_) == str(svm.report_)
    assert all(np.array_equal(a, b) for a, b in zip(old.predict(X), svm.predict(X), strict=True))
    assert old.certified_gap(1.0) == pytest.approx(svm.certified_gap(1.0), nan_ok=True)
    if stream:
        assert (old.partial_fit(X, Y).coef_ == svm.partial_fit(X, Y).coef_).all()


def test_what_a_fit_leaves_is_one_record():
    svm = StructuredSVM.from_weights(Tagged, {"emit": np.eye(3), "trans": np.zeros((3, 3))})
    assert svm.fitted_.report is None
    with pytest.raises(AttributeError, match="report_: the weights were given"):
        _ = svm.report_
    with pytest.raises(AttributeError, match=r"plan_: the weights were given .* prediction_plan"):
        _ = svm.plan_
    svm.coef_ = 2.0 * svm.coef_
    assert svm.weights_["emit"].tolist() == (2.0 * np.eye(3)).tolist()
    unfitted = StructuredSVM(Tagged)
    assert not hasattr(unfitted, "coef_")
    with pytest.raises(AttributeError, match="coef_: this StructuredSVM is not fitted yet; call fit first"):
        _ = unfitted.coef_
