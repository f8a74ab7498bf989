"""What errors say of names of trainers and risks that are usual elsewhere: each is a setting that works."""

from __future__ import annotations

import numpy as np
import pytest

import ssvm_dsl
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.learning.check_parameters import check_parameters
from ssvm_dsl.learning.other_names import REGRESSOR, USUAL, advice
from ssvm_dsl.learning.risks import RISKS, check_pairing, find_risk
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry

TRAINERS = [spec.name for spec in registry().specs(TrainerSpec)]


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.mark.parametrize("name", USUAL)
def test_every_advice_is_a_setting_that_goes_together(name):
    settings = dict(USUAL[name])
    if estimator := settings.pop("estimator", None):
        assert estimator == REGRESSOR
        assert hasattr(ssvm_dsl, estimator)
    svm = StructuredSVM(Word, **settings)
    check_parameters(svm)
    spec = registry().find(TrainerSpec, svm.trainer)
    spec.load()(**spec.resolve(svm.trainer_options), random_state=0)
    check_pairing(spec, find_risk(svm.risk), svm.power)


def test_names_are_told_apart_without_case_and_punctuation():
    bare = ["".join(filter(str.isalnum, name)).lower() for name in USUAL]
    assert len(set(bare)) == len(bare)
    assert not set(USUAL) & set(TRAINERS)  # a name that means a trainer needs no advice


@pytest.mark.parametrize(
    ("parameter", "name", "text"),
    [
        ("trainer", "pegasos", "trainer='subgradient', trainer_options={'radius': 'pegasos'}"),
        ("trainer", "BMRM", "trainer='bundle'"),
        ("trainer", "Passive_Aggressive", "trainer='perceptron', trainer_options={'update': 'pa-i'}"),
        ("trainer", "aROW", "trainer='perceptron', trainer_options={'update': 'arow'}"),
        ("trainer", "FrankWolfeSSVM", "trainer='bcfw'"),
        ("trainer", "crf", "risk='log', trainer='lbfgs'"),
        ("trainer", "One Slack", "trainer='one-slack'"),
        ("trainer", "slack", "risk='slack', trainer='bundle'"),
        ("risk", "CRF", "risk='log', trainer='lbfgs'"),
        ("risk", "crammer-singer", "risk='margin'"),
        ("risk", "Margin", "risk='margin'"),
        ("risk", "mmsr", "StructuredRegressor"),
        ("risk", "one-slack", "trainer='one-slack'"),
    ],
)
def test_errors_say_what_to_write(parameter, name, text):
    with pytest.raises((PluginError, OptionError)) as raised:
        StructuredSVM(Word, **{parameter: name}).fit([np.zeros((1, 2))], [[0]])
    first, second = str(raised.value).splitlines()
    assert first == f"there is no {parameter} '{name}'; write {text}"
    assert second.startswith("  known: ")
    assert all(one in second for one in (TRAINERS if parameter == "trainer" else RISKS))


def test_other_mistakes_are_compared_with_what_there_is():
    with pytest.raises(OptionError, match="there is no risk 'margn'; did you mean 'margin'"):
        StructuredSVM(Word, risk="margn").fit([np.zeros((1, 2))], [[0]])
    for strange in ("zzz", 3, None):
        assert advice(strange, trainer=TRAINERS, risk=RISKS) == ""
        with pytest.raises(PluginError, match=f"there is no trainer '{strange}'\n"):
            StructuredSVM(Word, trainer=strange).fit([np.zeros((1, 2))], [[0]])
