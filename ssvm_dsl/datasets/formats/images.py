"""A folder of images and label maps: ``images/NAME.png``, and ``masks/NAME.png`` of the same name and size.

Images are read as colours; features of their pixels are those of :func:`~ssvm_dsl.datasets.pixel_features`: place,
colours, colours of the neighbourhood.  A model of one's own has inputs of its names, ``x``, ``left`` and ``above``, or
some of them.  The value of a pixel of a mask (grey or of a palette) is its class.  Predictions are a folder of masks.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData
from ssvm_dsl.datasets.formats.lines import STANDARD_STREAM
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.io.image_file import image_array, pillow

#: Ends of names of files.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")

#: The folders.
IMAGES, MASKS = "images", "masks"


def _files(folder: Path) -> dict[str, Path]:
    """Return the images of a folder by name, sorted."""
    images = [one for one in sorted(folder.iterdir()) if one.suffix.lower() in SUFFIXES]
    return {one.stem: one for one in images}


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return the features of pixels, and label maps where there is a folder of masks.

    Raises
    ------
    FileFormatError
        A mask is missing, or of another size.
    """
    from ssvm_dsl.datasets.features import pixel_features

    folder = Path(source)
    images, masks = folder / IMAGES, folder / MASKS
    files = _files(images) if images.is_dir() else {}
    if not files:
        raise FileFormatError(f"{source}: expected a folder with images in {IMAGES}/, found none")
    X, Y = [], []
    labels = _files(masks) if masks.is_dir() else None
    for name, path in files.items():
        features = pixel_features(image_array(path, True) / 255)
        X.append(_inputs(features, settings.inputs, path))
        if labels is not None:
            if name not in labels:
                raise FileFormatError(f"{path}: expected a mask {masks / name}.png, found none")
            Y.append(image_array(labels[name], False))
            if Y[-1].shape != features["x"].shape[:2]:
                expected = f"{features['x'].shape[:2]} pixels, as in {path}"
                raise FileFormatError(f"{labels[name]}: expected {expected}, found {Y[-1].shape}")
    return LabelledData(source, replace(settings, learnt=True), X, Y if labels else None, (), list(files))


def _inputs(features: dict[str, Any], names: Sequence[str], path: Path) -> Any:
    """Return the features that a model asks for; for a ready model, all."""
    if not names:
        return features
    missing = [name for name in names if name not in features]
    if missing:
        raise OptionError(f"{path}: images have the inputs {', '.join(features)}; the model asks for '{missing[0]}'")
    return {name: features[name] for name in names} if len(names) > 1 else features[names[0]]


def read_answers(source: str, data: LabelledData) -> list[Any]:
    """Return the masks of a folder, in the order of the images."""
    files = _files(Path(source)) if Path(source).is_dir() else {}
    missing = [name for name in data.raw if name not in files]
    if missing:
        raise FileFormatError(f"{source}: expected a mask {missing[0]}.png, as ssvm predict writes it, found none")
    return [image_array(files[name], False) for name in data.raw]


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write a folder of masks, whole or not at all."""
    if out == STANDARD_STREAM:
        raise OptionError("masks are files: name a new folder with --out")
    target, library = Path(out), pillow()
    if target.exists():
        raise OptionError(f"--out {out}: there is such a folder or file; name a new one")
    fresh = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        fresh.mkdir()
        for name, mask in zip(data.raw, predicted, strict=True):
            library.fromarray(_grey(np.asarray(mask))).save(fresh / f"{name}.png")
        fresh.rename(target)
    except OSError as err:
        raise OSError(err.errno, err.strerror or str(err), out) from err
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _grey(mask: Any) -> Any:
    if mask.dtype.kind not in "iub" or mask.min() < 0 or mask.max() > 255:
        raise OptionError("masks hold classes 0 to 255; predict to jsonl from jsonl for others")
    return mask.astype(np.uint8)


def write_data(out: str, data: LabelledData) -> None:
    """Refuse: features of pixels are no images."""
    raise OptionError("--to images: images cannot be made from features; others: jsonl")
