"""What errors say of names of trainers and risks that are usual elsewhere: each is a setting that works."""

from __future__ import annotations

import numpy as np
import pytest

import ssvm_dsl
from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.learning.risks.kinds import check_pairing, find_risk, risks
from ssvm_dsl.plugin_api import Alias, BackendSpec, RiskSpec, TrainerSpec, hookimpl
from ssvm_dsl.registry import PluginInfo, registry

TRAINERS = [spec.name for spec in registry().specs(TrainerSpec)]
KINDS = {"risk": RiskSpec, "trainer": TrainerSpec, "backend": BackendSpec}

#: (what is set, plug-in, alias) of every alias.
ALIASES = [(what, spec, one) for what, kind in KINDS.items() for spec in registry().specs(kind) for one in spec.aliases]


Word = tagger(2, 2)


def bare(name):
    return "".join(filter(str.isalnum, name)).lower()


@pytest.mark.parametrize(("what", "spec", "alias"), ALIASES, ids=lambda one: getattr(one, "name", one))
def test_every_advice_is_a_setting_that_goes_together(what, spec, alias):
    advice = registry().advice(alias.name)
    if what == "risk" and spec.values:
        assert advice == "StructuredRegressor"
        assert hasattr(ssvm_dsl, advice)
        return
    svm = StructuredSVM(Word, **{what: spec.name, **alias.settings})
    assert advice == ", ".join(f"{name}={value!r}" for name, value in {what: spec.name, **alias.settings}.items())
    if what == "backend":
        return
    svm._check()
    chosen = svm._trainer()
    spec = chosen.spec
    spec.load()(**chosen.options, random_state=0)
    check_pairing(spec, find_risk(svm.risk), svm.power)


def test_names_are_told_apart_without_case_and_punctuation():
    names = [bare(alias.name) for _, _, alias in ALIASES]
    assert len(set(names)) == len(names)
    assert not {alias.name for _, _, alias in ALIASES} & set(TRAINERS)  # a trainer's name needs no advice


@pytest.mark.parametrize(
    ("parameter", "name", "text"),
    [
        ("trainer", "pegasos", "trainer='subgradient', trainer_options={'radius': 'pegasos'}"),
        ("trainer", "BMRM", "trainer='bundle'"),
        ("trainer", "Passive_Aggressive", "trainer='perceptron', trainer_options={'update': 'pa-i'}"),
        ("trainer", "aROW", "trainer='perceptron', trainer_options={'update': 'arow'}"),
        ("trainer", "FrankWolfeSSVM", "trainer='bcfw'"),
        ("trainer", "crf", "risk='log'"),
        ("trainer", "One Slack", "trainer='one-slack'"),
        ("trainer", "slack", "risk='slack'"),
        ("risk", "CRF", "risk='log'"),
        ("risk", "squared", "risk='margin', power=2"),
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
    assert all(one in second for one in (TRAINERS if parameter == "trainer" else risks()))


def test_other_mistakes_are_compared_with_what_there_is():
    with pytest.raises(OptionError, match="there is no risk 'margn'; did you mean 'margin'"):
        StructuredSVM(Word, risk="margn").fit([np.zeros((1, 2))], [[0]])
    for strange, error, text in (
        ("zzz", PluginError, "there is no trainer 'zzz'\n"),
        (3, OptionError, "trainer must be a name .*, got 3"),
        (None, OptionError, "trainer must be a name .*, got None"),
    ):
        assert registry().advice(strange) == ""
        with pytest.raises(error, match=text):
            StructuredSVM(Word, trainer=strange).fit([np.zeros((1, 2))], [[0]])


def test_plugins_have_aliases_too():
    class Plugin:
        @hookimpl
        def ssvm_backends(self):
            return [BackendSpec("own-solver", "nowhere:Own", aliases=(Alias("Home Made", {"guarantee": "bound"}),))]

    known = registry().copy()
    assert known.register(Plugin(), PluginInfo("own", "own 1.0", bundled=False, allowed=False))
    with pytest.raises(PluginError, match="no backend 'home-made'; write backend='own-solver', guarantee='bound'\n"):
        known.find(BackendSpec, "home-made")
    with pytest.raises(PluginError, match="no backend 'Viterbi'; write backend='chain'\n"):
        known.find(BackendSpec, "Viterbi")
