"""Correct the letters of a network: its logits are scores without weights, transitions are learned.

    python examples/network_scores.py [FILE.png]       FILE.png shows the largest weights of pairs

A small network (scikit-learn) sees one letter image at a time.  Its log-probabilities come with the data as ``Given``;
what is learnt is which letter follows which, on words that the network has not seen.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ssvm_dsl import Dim, Factor, Given, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import load_letters
from ssvm_dsl.report import plot_transitions, save_for_script

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Read(Model):
    T = Dim()
    logits = Input(T, 26)
    y = Label(T, LETTERS)
    net = Given(y, scores=logits)
    trans = Factor(chain(y))
    loss = Hamming(y)


def main():
    X, Y, X_test, Y_test = load_letters(fold=0)
    X_test, Y_test = X_test[::12], Y_test[::12]
    half = len(X) // 2  # of what it has seen, a network is too sure
    network = MLPClassifier((32,), max_iter=25, random_state=0)
    warnings.simplefilter("ignore", ConvergenceWarning)
    network.fit(np.concatenate(X[:half]), np.concatenate(Y[:half]))
    inputs, new = ([network.predict_log_proba(word) for word in part] for part in (X[half:], X_test))
    alone = network.predict(np.concatenate(X_test)) != np.concatenate(Y_test)
    print(f"letters that the network alone gets wrong: {alone.mean():.1%}")
    svm = StructuredSVM(Read, C=0.3, random_state=0).fit(inputs, Y[half:])
    print(f"with transitions learnt from {len(inputs)} words: {1 - svm.score(new, Y_test):.1%}")
    save_for_script(plot_transitions, svm.weights_[Read.trans], LETTERS, 20)


if __name__ == "__main__":
    main()
