"""Predict what is too hard to search: subsets of labels and cyclic tours, learned by counting them.

    python examples/counting.py [FILE.png]             FILE.png shows a hidden policy and what was learned of it
"""

import numpy as np

from ssvm_dsl import CountingPredictor, Dicycles, Subsets
from ssvm_dsl.datasets import make_identity, make_tours
from ssvm_dsl.report import plot_weights, save_for_script


def cosine(a, b):
    """Return the mean cosine of the angles between rows."""
    return float(((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean())


def subsets():
    """Every subset of five labels is an output: the batch solver, and one pass of the stochastic one."""
    X, Y = make_identity(1000)
    for options in ({"solver": "ncg"}, {"solver": "sgd", "truncation": 0.19, "step": 8.0}):
        found = CountingPredictor(Subsets(5), kernel="rbf", lam=0.01, **options).fit(X, Y)
        report = found.report_
        print(f"{report.solver}: objective {report.objective:.4f}, {report.relative_gap:.2%} above the optimum", end="")
        print(f", {report.n_support} coefficients, right subsets {found.score(X, Y):.0%}")


def tours():
    """Every directed cycle through some of eight towns is an output; the best one is hard to find."""
    X, Y, policies = make_tours(600, n_policies=8, n_nodes=8)
    space = Dicycles(8)
    found = CountingPredictor(space, kernel="linear", lam=0.001).fit(X[:500], Y[:500])
    learnt = found.decision_function(X[500:])
    print(f"{space.size} tours of {space.n_nodes} towns; gap {found.report_.relative_gap:.2%}")
    print(f"cosine of learned and hidden policies: {cosine(learnt, policies[500:]):.2f}")
    for name, share in space.decoders.items():
        tours = found.set_params(decoder=name).predict(X[500:520])
        gain = np.mean([space.features(z) @ policy for z, policy in zip(tours, policies[500:520], strict=True)])
        print(f"decoder {name}, {share:.0%} guaranteed: a predicted tour earns {gain:.2f} under the hidden policy")
    edges = zip(space.tail, space.head, strict=True)
    both = np.stack([one / np.linalg.norm(one) for one in (policies[500], learnt[0])])
    save_for_script(plot_weights, both, ["hidden", "learned"], [f"{a} to {b}" for a, b in edges])


if __name__ == "__main__":
    subsets()
    tours()
