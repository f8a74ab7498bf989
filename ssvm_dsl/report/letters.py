"""Letter images and spellings on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

#: Bit of each of the 4 x 2 dots of a Braille character (Unicode 2800).
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def draw_word(images: NDArray[Any]) -> str:
    """Return a word's letter images side by side in Braille dots: 4 lines, 4 characters a letter.

    Parameters
    ----------
    images : ndarray, shape (T, 128)
        Letters of 16 rows of 8 pixels; ink where not 0.
    """
    pixels = images.reshape(-1, 16, 8) != 0
    wide = pixels.transpose(1, 0, 2).reshape(16, -1)
    cells = wide.reshape(4, 4, -1, 2).transpose(0, 2, 1, 3)
    codes = 0x2800 + (cells * _DOTS).sum(axis=(2, 3))
    return "\n".join("".join(map(chr, row)) for row in codes)


def mark_mistakes(found: str, truth: str, spread: int = 1) -> Text:
    """Return a spelling with the wrong letters marked.

    Parameters
    ----------
    found, truth : str
        The predicted and the true word, of the same length.
    spread : int
        Characters a letter takes.
    """
    text = Text()
    for mine, right in zip(found, truth, strict=True):
        text.append(mine, style=None if mine == right else "red reverse")
        text.append(" " * (spread - 1))
    return text
