"""``GridSegmenter``: a class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.forms import FULL, POTTS
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import pairs
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import classes_of, input_of


class GridSegmenter(ReadyModel):
    """Labels the pixels of images, whose neighbours like to agree.

    X is a list of images ``(height, width, n_features)``; they may differ in size.  Y is a list of label maps
    ``(height, width)``.

    Parameters
    ----------
    ignore : int or str, optional
        The class of pixels that are not counted, such as 255; it is never predicted.
    associative : bool
        Neighbours may only be rewarded for agreeing.  Two classes are then exact by graph cuts; False learns a weight
        for every two classes, which asks for ``guarantee="bound"`` on all but small images.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> GridSegmenter(C=0.01, ignore=255).fit(images, masks).predict(new_images)
    """

    ignore: int | str | None = None
    associative: bool = True

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        form: Any = {"form": POTTS, "nonneg": True} if self.associative else {"form": FULL}

        class PixelGrid(Model):
            H, W = Dim(), Dim()
            x = input_of(X, H, W)
            y = Label(H, W, [one for one in classes_of(Y) if one != self.ignore])
            data = Factor(y, features=self._scaled(x, X))
            bias = Factor(y)
            horizontal = Factor(pairs(y, W), **form)
            vertical = Factor(pairs(y, H), **form)
            loss = Hamming(y) if self.ignore is None else Hamming(y, ignore=self.ignore)

        return PixelGrid
