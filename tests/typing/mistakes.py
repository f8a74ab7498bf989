"""Mistakes a type checker must find; each line names its error code (see test_typing.py)."""

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain, pairs
from ssvm_dsl.datasets import load_letters


class Wrong(Model):
    T = Dim("six")  # [arg-type]
    x = Input(T, "128")  # [arg-type]
    y = Label(T, 3)
    emit = Factor(y, featurs=x)  # [call-arg]
    trans = Factor(chain(x))  # [arg-type]
    horiz = Factor(pairs(y, "W"))  # [arg-type]
    loss = Hamming(x)  # [arg-type]


_ = Wrong.tran  # [attr-defined]
Wrong.y.n_states = 4  # [misc]
load_letters(fold=1, train="most")  # [call-overload]
