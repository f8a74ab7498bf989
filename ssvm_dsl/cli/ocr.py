"""The model of ``ssvm demo``, in a separate file so that the command can show its source."""

from __future__ import annotations

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain

# fmt: off


class OCR(Model):
    """A word: T images of letters -> T letters."""

    T     = Dim()                    # ragged: differs from word to word
    x     = Input(T, 128)            # 16 x 8 pixels at each position
    y     = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit  = Factor(y, features=x)    # a weight per letter and pixel: w[26, 128]
    trans = Factor(chain(y))         # a weight per pair of letters: w[26, 26]
    loss  = Hamming(y)               # number of wrong letters
