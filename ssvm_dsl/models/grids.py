"""``GridSegmenter``: a class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.datasets.features import pixel_features
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.io.image_file import image_array
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.forms import FULL, POTTS
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import pairs
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import array_of, classes_of, input_of, require_names

#: How images are written.
EXPECTED = "an image (height, width) or (height, width, 3), a file of one, or features (height, width, n)"


class GridSegmenter(ReadyModel):
    """Labels the pixels of images, whose neighbours like to agree.

    X is a list of images: arrays ``(height, width)`` or ``(height, width, 3)``, of bytes or of numbers from 0 to 1,
    images of Pillow, or names of files.  They may differ in size.  Features of their pixels and of neighbours are those
    of :func:`~ssvm_dsl.datasets.pixel_features`.  Features of your own are arrays ``(height, width, n_features)`` of
    other numbers; or dicts of ``x`` and, for each pixel with those to the left and above, ``left`` and ``above``,
    ``(height, width, n)``.  Y is a list of label maps ``(height, width)``, of images or of files of these.

    Parameters
    ----------
    ignore : int or str, optional
        The class of pixels that are not counted, such as 255; it is never predicted.
    associative : bool
        Neighbours may only be rewarded for agreeing.  Two classes are then exact by graph cuts, more are answered by
        cuts that improve a labelling step by step; False learns a weight for every two classes.
    bias : bool
        Whether each class has a bias; as all weights, it is regularised.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> GridSegmenter(ignore=255).fit(images, masks).predict(["new.jpg"])
    """

    ignore: int | str | None = None
    associative: bool = True
    bias: bool = True
    _weighs_classes = True

    def _read_examples(self, X: Any) -> Any:
        if isinstance(X, PartitionedDataset):
            return X
        arrays = [one if isinstance(one, Mapping) else _pixels(one, i) for i, one in enumerate(X)]
        if "model_" in vars(self) and not self._learns_frames:  # as in fit
            colours = len(self.model.declaration.inputs) > 1
        else:
            colours = all(not isinstance(one, Mapping) and _is_photograph(one) for one in arrays)
        for i, one in enumerate(arrays):
            if isinstance(one, Mapping) or any(isinstance(other, Mapping) for other in arrays):
                require_names(one, i, ("x", *_near(arrays)), EXPECTED)
        if not colours:
            return arrays
        out = []
        for i, one in enumerate(arrays):
            if not isinstance(one, Mapping) and not _is_photograph(one):
                expected = "an image as in fit, (height, width) or (height, width, 3), of bytes or numbers from 0 to 1"
                raise DataError("X", example=i, expected=expected, found=describe(one))
            out.append(one if isinstance(one, Mapping) else pixel_features(_colours(one)))
        return out

    def _read_labels(self, Y: Any) -> Any:
        if not isinstance(Y, list | tuple):
            return Y
        return [image_array(one, False) if isinstance(one, str | Path) or _is_pillow(one) else one for one in Y]

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        form: Any = {"form": POTTS, "nonneg": True} if self.associative else {"form": FULL}
        x_of = [one["x"] if isinstance(one, Mapping) else one for one in X]
        near = _near(X)
        for name in near:
            if self.associative and not all(np.min(one[name], initial=0.0) >= 0 for one in X):
                hint = "set associative=False for others"
                raise OptionError(f"{name}: features of neighbours are not negative where these only agree; {hint}")
        classes = [one for one in classes_of(Y) if one != self.ignore]

        class PixelGrid(Model):
            H, W = Dim(), Dim()
            x = input_of(x_of, H, W)
            left = Input(H, W, np.shape(X[0]["left"])[-1]) if "left" in near else None
            above = Input(H, W, np.shape(X[0]["above"])[-1]) if "above" in near else None
            y = Label(H, W, classes)
            data = Factor(y, features=self._scaled(x, x_of))
            bias = Factor(y) if self.bias else None
            horizontal = Factor(pairs(y, W), features=left, **form)
            vertical = Factor(pairs(y, H), features=above, **form)
            loss = Hamming(y, ignore=self.ignore, weights=self._prices(classes, Y))

        return PixelGrid


def _near(X: Sequence[Any]) -> list[str]:
    """Return the names of features of neighbours that examples have."""
    return [name for name in ("left", "above") if any(isinstance(one, Mapping) and name in one for one in X)]


def _is_pillow(one: Any) -> bool:
    """Whether this is an image of Pillow."""
    return hasattr(one, "getbands") and hasattr(one, "convert")


def _pixels(one: Any, i: int) -> NDArray[Any]:
    """Return an example as an array; files and images of Pillow as bytes."""
    if isinstance(one, str | Path) or _is_pillow(one):
        return image_array(one, True)
    if hasattr(one, "toarray"):
        raise DataError("X", example=i, expected=EXPECTED, found=describe(one))
    pixels = array_of(one, "X", i, EXPECTED)
    if pixels.ndim not in (2, 3):
        raise DataError("X", example=i, expected=f"{EXPECTED}: 2 axes, and one of features", found=describe(pixels))
    return pixels


def _is_photograph(one: NDArray[Any]) -> bool:
    """Whether an array holds colours: bytes, or numbers from 0 to 1, of one, three or four channels."""
    if one.ndim == 3 and one.shape[2] not in (3, 4):
        return False
    if one.dtype.kind == "f":
        return bool(one.size) and bool(np.min(one) >= 0.0) and bool(np.max(one) <= 1.0)
    return one.dtype == np.uint8


def _colours(one: NDArray[Any]) -> NDArray[np.float64]:
    """Return red, green and blue from 0 to 1, ``shape (H, W, 3)``."""
    scaled = one / 255.0 if one.dtype == np.uint8 else np.asarray(one, dtype=np.float64)
    return np.repeat(scaled[..., None], 3, axis=2) if scaled.ndim == 2 else scaled[..., :3]
