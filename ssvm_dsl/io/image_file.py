"""Images of files, by Pillow: the colours of a photograph, and the classes of a mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError, OptionError

#: Most pixels of an image.
MOST_PIXELS = 64_000_000

#: Modes of Pillow in which a number of a pixel is a class.
MASK_MODES = ("1", "L", "P", "I", "I;16")


def pillow() -> Any:
    """Return the library that reads images.

    Raises
    ------
    OptionError
        It is not installed.
    """
    try:
        from PIL import Image
    except ImportError as err:
        raise OptionError("images are read by Pillow, which is not installed: pip install 'ssvm-dsl[images]'") from err
    return Image


def image_array(source: Any, colours: bool) -> NDArray[Any]:
    """Return the colours of an image, bytes ``(H, W, 3)``, or the classes of a mask, whole numbers ``(H, W)``.

    Parameters
    ----------
    source : str, Path or image of Pillow
    colours : bool
        Whether it is a photograph; a mask is grey or has a palette, whose numbers are the classes.

    Raises
    ------
    FileFormatError
        There is no image, too large a one, or no mask.
    """
    if not isinstance(source, str | Path):
        return _array(source, "the image", colours)
    library, path = pillow(), Path(source)
    try:
        with library.open(path) as image:
            return _array(image, str(path), colours)
    except FileFormatError:
        raise
    except Exception as err:  # of the library: damaged files raise errors of many types
        raise FileFormatError(f"{path}: expected an image, found another or a damaged file ({err})") from err


def _array(image: Any, name: str, colours: bool) -> NDArray[Any]:
    if image.width * image.height > MOST_PIXELS:
        raise FileFormatError(f"{name}: expected at most {MOST_PIXELS} pixels, found {image.size}")
    if not colours and image.mode not in MASK_MODES:
        raise FileFormatError(f"{name}: expected a mask in grey or of a palette, found mode {image.mode}")
    return np.array(image.convert("RGB")) if colours else np.array(image).astype(np.int64)
