"""The OCR letters: 6877 handwritten words as images of their letters (origin and licence: ``letters.txt``)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError

Words = list[NDArray[np.uint8]]
Spellings = list[NDArray[np.str_]]

N_FOLDS = 10


class Split(NamedTuple):
    """Words to train on and words to test on: ``X_train, Y_train, X_test, Y_test = load_letters(fold=0)``."""

    X_train: Words
    Y_train: Spellings
    X_test: Words
    Y_test: Spellings


@dataclass(frozen=True, eq=False)
class Letters:
    """All words.

    Parameters
    ----------
    X : list of ndarray of uint8, shape (T, 128)
        The letters of each word: 16 rows of 8 pixels, 0 or 1.  Views of one array of 6.7 MB; a model turns
        them into floats when it is laid over them.
    Y : list of ndarray of str, shape (T,)
        The letters, ``"a"`` .. ``"z"``.
    folds : ndarray of int8, shape (n,)
        The published fold of each word, 0 .. 9.
    """

    X: Words
    Y: Spellings
    folds: NDArray[np.int8]

    def split(self, fold: int, train: Literal["one", "rest"] = "one") -> Split:
        """Return one of the two published splits (see :func:`load_letters`).

        Raises
        ------
        OptionError
            No such fold or protocol.
        """
        if not isinstance(fold, int | np.integer) or not 0 <= fold < N_FOLDS:
            raise OptionError(f"fold: an int in 0..{N_FOLDS - 1}, got {fold!r}")
        if train not in ("one", "rest"):
            raise OptionError(f"train: 'one' (train on that fold) or 'rest' (on the nine others), got {train!r}")
        chosen = (self.folds == fold) == (train == "one")
        (X_train, Y_train), (X_test, Y_test) = self._words(chosen), self._words(~chosen)
        return Split(X_train, Y_train, X_test, Y_test)

    def _words(self, chosen: NDArray[np.bool_]) -> tuple[Words, Spellings]:
        ids = np.flatnonzero(chosen).tolist()
        return [self.X[i] for i in ids], [self.Y[i] for i in ids]


@overload
def load_letters(fold: None = None) -> Letters: ...
@overload
def load_letters(fold: int, train: Literal["one", "rest"] = "one") -> Split: ...


def load_letters(fold: int | None = None, train: Literal["one", "rest"] = "one") -> Letters | Split:
    """Return the OCR letters, all of them or split as published.

    Parameters
    ----------
    fold : int, optional
        0 .. 9 splits the words; without it all words are returned.
    train : {"one", "rest"}
        The two protocols of Taskar et al. (2003) and Ratliff et al. (2007), section 7.1: ``"one"`` trains on
        that fold (about 690 words) and tests on the nine others, ``"rest"`` the other way round.  Results are
        published as means over the ten folds.

    Returns
    -------
    Letters or Split

    Raises
    ------
    OptionError
        No such fold or protocol.

    Examples
    --------
    >>> X_train, Y_train, X_test, Y_test = load_letters(fold=1)
    >>> len(X_train), len(X_test)
    (704, 6173)
    >>> "".join(Y_train[0])
    'ommanding'
    """
    letters = _read()
    return letters if fold is None else letters.split(fold, train)


def _read() -> Letters:
    with files(__package__).joinpath("letters.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays: dict[str, NDArray[Any]] = dict(stored)
    pixels, spelled = arrays["pixels"], (arrays["labels"].astype(np.uint32) + ord("a")).view("<U1")
    bounds = list(pairwise(arrays["offsets"].tolist()))
    return Letters([pixels[lo:hi] for lo, hi in bounds], [spelled[lo:hi] for lo, hi in bounds], arrays["folds"])
