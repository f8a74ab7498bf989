"""Weizmann horses at 64 pixels: right pixels of 128 new images, pixels alone beside grids that like to agree.

The model and its features (colours, places, contrast of neighbours) are those of ``examples/horses.py``.  C is chosen
on the last 50 of the 200 images that are learnt from.  ``SSVM_BENCH_PICTURES=FOLDER`` keeps a picture of each of the
first 24 new images: the image, pixels alone, the grid, the truth.  Needs ``SSVM_DATA``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

N_TRAIN, N_FIT, N_SHOWN = 200, 150, 24
STRENGTHS = (0.001, 0.01, 0.1)


def overlap(found: list[Any], truth: list[Any]) -> float:
    """Return the mean over images of the intersection of two masks by their union."""
    return float(np.mean([(a & b).sum() / max((a | b).sum(), 1) for a, b in zip(found, truth, strict=True)]))


def show(folder: Path, number: int, rgb: NDArray[np.float64], masks: list[NDArray[Any]]) -> None:
    """Write an image and masks side by side."""
    from matplotlib.image import imsave

    folder.mkdir(parents=True, exist_ok=True)
    grey = [np.repeat(mask[..., None].astype(float), 3, axis=2) for mask in masks]
    imsave(folder / f"horse{number:03}.png", np.concatenate([rgb, *grey], axis=1))


def main() -> None:
    """Train both models and show what they find."""
    console, data = Console(width=110), os.environ.get("SSVM_DATA")
    if not data:
        console.print("needs SSVM_DATA")
        return
    from horses import Pixels, Regions, read

    from ssvm_dsl import StructuredSVM
    from ssvm_dsl.datasets import pixel_features

    images = read(data, 328)
    X, Y = [pixel_features(rgb) for rgb, _ in images], [np.asarray(mask, dtype=int) for _, mask in images]
    bare = [{"x": one["x"]} for one in X]
    table = Table(title=f"{N_TRAIN} images to learn from, {len(X) - N_TRAIN} new ones", title_justify="left")
    for column in ("model", "backend", "C", "right pixels", "overlap", "fit CPU s", "gap", "predict CPU s"):
        table.add_column(column)
    found = []
    for model, inputs in ((Pixels, bare), (Regions, X)):
        scores = []
        for c in STRENGTHS:
            svm = StructuredSVM(model, C=c, tol=0.02, random_state=0).fit(inputs[:N_FIT], Y[:N_FIT])
            scores.append((svm.score(inputs[N_FIT:N_TRAIN], Y[N_FIT:N_TRAIN]), c))
        c, begin = max(scores)[1], time.process_time()
        svm = StructuredSVM(model, C=c, tol=0.02, random_state=0).fit(inputs[:N_TRAIN], Y[:N_TRAIN])
        fitted = time.process_time()
        found.append(svm.predict(inputs[N_TRAIN:]))
        told = time.process_time()
        right = np.mean(np.concatenate([(a == b).ravel() for a, b in zip(found[-1], Y[N_TRAIN:], strict=True)]))
        table.add_row(
            model.__name__, svm.plan_.backend, f"{c:g}", f"{right:.2%}", f"{overlap(found[-1], Y[N_TRAIN:]):.3f}",
            f"{fitted - begin:.1f}", f"{svm.report_.relative_gap:.1%}", f"{told - fitted:.2f}",
        )  # fmt: skip
    majority = 1.0 - np.mean(np.concatenate([mask.ravel() for mask in Y[N_TRAIN:]]))
    table.add_row("no horse", "", "", f"{majority:.2%}", "0.000", "", "", "")
    console.print(table)
    if pictures := os.environ.get("SSVM_BENCH_PICTURES"):
        for number in range(min(N_SHOWN, len(found[0]))):
            at = N_TRAIN + number
            show(Path(pictures), number, images[at][0], [found[0][number], found[1][number], Y[at]])
