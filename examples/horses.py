"""Separate animals from background: colours and places of pixels, and neighbours that tend to agree.

    python examples/horses.py [FILE.png]               made-up animals; FILE.png shows the first new one
    SSVM_DATA=folder python examples/horses.py         Weizmann horses: 40 to learn from, 20 others to test
"""

import os

import numpy as np
from scipy.ndimage import gaussian_filter

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, pairs
from ssvm_dsl.datasets import load_horses, pixel_features
from ssvm_dsl.report import plot_label_maps, save_for_script


class Pixels(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 55)
    y = Label(H, W, 2)
    data = Factor(y.is_(1), features=x)
    loss = Hamming(y)


class Regions(Pixels):
    left, above = Input(Pixels.H, Pixels.W, 2), Input(Pixels.H, Pixels.W, 2)
    horizontal = Factor(pairs(Pixels.y, Pixels.W), form=POTTS, features=left, nonneg=True)
    vertical = Factor(pairs(Pixels.y, Pixels.H), form=POTTS, features=above, nonneg=True)


def read(folder, n=60):
    """Return n pairs of an image, three colours from 0 to 1 at each pixel, and where the animal is."""
    rng = np.random.default_rng(0)
    if folder:
        images, masks = load_horses()
        return [(images[k] / 255, masks[k]) for k in rng.permutation(len(images))[:n]]
    masks = (gaussian_filter(rng.normal(size=(n, 24, 30)), (0, 4, 4)) > 0.03).astype(int)
    tints = rng.uniform(0.3, 0.5, size=(n, 2, 3)) + np.array([[0.15], [0.0]])
    return [((t[m] + 0.2 * rng.normal(size=(24, 30, 3))).clip(0, 1), m) for t, m in zip(tints, masks, strict=True)]


def main():
    data = read(os.environ.get("SSVM_DATA"))
    X, Y = [pixel_features(rgb) for rgb, _ in data], [mask for _, mask in data]
    shown = {"image": data[40][0], "truth": Y[40]}
    for model, inputs in ((Pixels, [{"x": one["x"]} for one in X]), (Regions, X)):
        svm = StructuredSVM(model, C=0.01, tol=0.02, random_state=0).fit(inputs[:40], Y[:40])
        print(f"{model.__name__:8} {svm.report_.plan.backend:10} right pixels: {svm.score(inputs[40:], Y[40:]):.1%}")
        shown[model.__name__] = svm.predict(inputs[40:41])[0]
    save_for_script(plot_label_maps, shown)


if __name__ == "__main__":
    main()
