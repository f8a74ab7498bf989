"""Learn every model of the catalogue from data of known truth, and test it on new data.

    python examples/catalogue                          all of them: backend, right labels of 30 new examples, and
                                                       as many as the commonest classes would have right
    python examples/catalogue Chain Votes              some of them
"""

import sys
import warnings

import graphs
import joint
import matchings
import numpy as np
import relations
import sequences
import sets
import trees
from truth import commonest, examples, true_weights

from ssvm_dsl import StructuredSVM

GROUPS = sequences, graphs, sets, relations, matchings, trees, joint
MODELS = {model: how for group in GROUPS for model, how in group.MODELS.items()}


#: Positions of an example, where six make a search long.
SIZES = {
    "RankingWithTies": 4, "SecondOrder": 4, "GraphMatching": 3, "StableMatching": 3, "TagAndParse": 4, "Alignment": 5,
}  # fmt: skip


def learn(model, n_train=60, n_test=30, seed=0):
    """Return (estimator, share of right labels of new examples, that of the commonest values)."""
    rng, (draw, given) = np.random.default_rng(seed), MODELS[model]
    weights = true_weights(model, given, rng)
    X, Y = examples(model, draw, weights, n_train + n_test, SIZES.get(model.__name__, 6), rng)
    svm = StructuredSVM(model, C=10.0, tol=0.01, random_state=0).fit(X[:n_train], Y[:n_train])
    return svm, svm.score(X[n_train:], Y[n_train:]), commonest(Y[:n_train], Y[n_train:])


def main():
    warnings.simplefilter("ignore")
    for model in MODELS:
        if len(sys.argv) == 1 or model.__name__ in sys.argv:
            svm, right, common = learn(model)
            print(f"{model.__name__:24}{svm.plan_.backend:16}{right:6.1%}{common:8.1%}")


if __name__ == "__main__":
    main()
