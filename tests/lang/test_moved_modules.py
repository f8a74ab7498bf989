"""Pickles name classes by module: former names of modules lead to where the classes are now."""

from __future__ import annotations

import importlib
import pickle

import pytest

from ssvm_dsl import Dim, Label, Model
from ssvm_dsl.moved_modules import MOVED

#: A class of each module that there is no more.
CLASSES = {
    "ssvm_dsl.compiler.structure": "StructureCache",
    "ssvm_dsl.ir.messages": "Prices",
    "ssvm_dsl.lang.constraints.custom": "Custom",
    "ssvm_dsl.lang.constraints.derivable": "Derivable",
    "ssvm_dsl.lang.constraints.quantities": "Parameter",
    "ssvm_dsl.lang.constraints.segments": "Segmentation",
    "ssvm_dsl.lang.features.span_features": "SpanLength",
    "ssvm_dsl.lang.given": "Given",
    "ssvm_dsl.lang.grammars.partial_tree": "PartialTree",
    "ssvm_dsl.lang.losses.count_loss": "CountLoss",
    "ssvm_dsl.lang.rules.ruled_out": "RuledOut",
    "ssvm_dsl.learning.errors_report": "ErrorReport",
    "ssvm_dsl.learning.tuning.cross_validation": "cross_val_predict",
    "ssvm_dsl.scoring.problems": "SolveAnswer",
}


@pytest.mark.parametrize("module", MOVED)
def test_former_names_lead_to_the_same_classes(module):
    found = getattr(importlib.import_module(module), CLASSES[module])
    assert (found.__module__, found.__name__) == (MOVED[module], CLASSES[module])
    assert pickle.loads(f"c{module}\n{CLASSES[module]}\n.".encode()) is found


def test_other_names_are_missing_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ssvm_dsl\.lang\.nothing'"):
        importlib.import_module("ssvm_dsl.lang.nothing")
    with pytest.raises(AttributeError):
        importlib.import_module("ssvm_dsl.lang.given").Nothing  # noqa: B018


def test_a_pickle_of_a_model_from_before():
    class Words(Model):
        T = Dim()
        y = Label(T, "ab", segments=2)

    now = pickle.dumps(Words)
    assert b"ssvm_dsl.lang.constraints.implied" not in now  # implied constraints are worked out anew
    assert pickle.loads(now).declaration == Words.declaration
