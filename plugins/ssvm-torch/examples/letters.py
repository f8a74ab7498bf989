"""Handwritten words: a small convolutional network reads the letters, a chain knows which letter follows which.

    python plugins/ssvm-torch/examples/letters.py

Both learn together, from the likelihood of whole words; nine folds of the OCR letters train, one tests.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

from ssvm_dsl import Dim, Factor, Given, Hamming, Input, Label, Model, chain
from ssvm_dsl.datasets import load_letters
from ssvm_torch import StructuredLayer

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Word(Model):
    T = Dim()
    logits = Input(T, 26)
    y = Label(T, LETTERS)
    net = Given(y, scores=logits)
    trans = Factor(chain(y))
    loss = Hamming(y)


def examples(X, Y):
    """Images of 16 x 8 pixels and numbers of letters, word by word."""
    images = [torch.tensor(x).float().reshape(-1, 1, 16, 8) for x in X]
    return list(zip(images, [torch.tensor([LETTERS.index(c) for c in y]) for y in Y], strict=True))


def main(epochs=12):
    torch.manual_seed(0)
    X, Y, X_test, Y_test = load_letters(fold=0, train="rest")
    seen = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    read = [nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 32, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 26)]
    network, layer = nn.Sequential(*seen, *read), StructuredLayer(Word, risk="log")
    weights = [*network.parameters(), *layer.parameters()]
    words = DataLoader(examples(X, Y), batch_size=64, shuffle=True, collate_fn=lambda batch: zip(*batch, strict=True))
    steps = torch.optim.Adam(weights, lr=2e-3)
    slower = torch.optim.lr_scheduler.OneCycleLR(steps, max_lr=4e-3, total_steps=epochs * len(words))
    for _ in range(epochs):
        for images, letters in words:
            logits = network(torch.cat(images)).split([len(one) for one in images])
            layer(list(logits), list(letters)).backward()
            steps.step(), slower.step(), steps.zero_grad()
    images, letters = zip(*examples(X_test, Y_test), strict=True)
    with torch.no_grad():
        logits = network.eval()(torch.cat(images))
        found = layer.decode(list(logits.split([len(one) for one in images])))
    truth = nn.utils.rnn.pad_sequence(letters, batch_first=True, padding_value=-1)
    print(f"letters that are wrong: {(found != truth).sum() / (truth >= 0).sum():.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
