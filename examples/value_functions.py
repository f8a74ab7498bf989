"""Predict the cost of plans: structured regression from paths on simpler graphs.

The true plans turn and step over (row, column, heading); the paths are on squares, and cannot see turns.

    python examples/value_functions.py [FILE.png]      FILE.png shows true and predicted costs
"""

import numpy as np

from ssvm_dsl import Dim, Edges, Factor, Given, Hamming, Input, Label, Model, Path, StructuredRegressor, StructuredSVM
from ssvm_dsl.report import save_for_script
from ssvm_papers.generators import make_plans  # pip install ssvm-papers

#: Where no cycle earns anything, best paths are found by the rounds of Bellman and Ford.
ROUNDS = {"backend": "shortest-path", "backend_options": {"cycles": "improve"}}


class Walk(Model):
    N, M = Dim(), Dim()
    place = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 5)  # minus the features of each step
    start, goal, far = Input(1), Input(1), Input(4)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f, nonneg=True)
    route = Path(y.is_(1), e, source=start, target=goal)
    loss = Hamming(y)


class Valued(Walk):
    once = Label(1)
    value = Factor(once, features=Walk.far)  # not a cost of steps: fitted to the value


class Planning(Walk):
    least = Given(Walk.y.is_(1), scores=[-1.0])  # steps cost as much as the loss pays, so that no cycle earns anything


def plot_costs(truth, found):
    from matplotlib.figure import Figure

    ax = Figure(figsize=(5, 4)).add_subplot()
    for name, guess in found.items():
        ax.scatter(-truth, -guess, s=12, label=name)
    ax.axline((50, 50), slope=1, color="0.7", zorder=0)
    ax.set(xlabel="true cost of the best plan", ylabel="predicted cost")
    ax.legend(fontsize="small")
    return ax


def main():
    (X, Y, values), (X_test, _, values_test) = make_plans(60, random_state=1), make_plans(60, random_state=2)
    svm = StructuredSVM(Planning, C=1.0, tol=0.0001, **ROUNDS).fit(X, Y)
    line = np.polyfit(svm.best_score(X), values, 1)
    found = {"regressed max-margin planning": np.polyval(line, svm.best_score(X_test))}
    for name, model in (("structured regression", Walk), ("with value features", Valued)):
        paths = [{"y": y, "once": 0} for y in Y] if model is Valued else Y
        reg = StructuredRegressor(model, C=10.0, tol=0.0001, **ROUNDS).fit(X, values, paths)
        found[f"{name} (gap {reg.report_.relative_gap:.1%})"] = reg.predict(X_test)
    print(f"plans cost {-values_test.mean():.1f} on average, standard deviation {values_test.std():.1f}; rms errors:")
    for name, guess in found.items():
        print(f"{np.sqrt(np.mean((guess - values_test) ** 2)):5.1f}  {name}")
    save_for_script(plot_costs, values_test, found)


if __name__ == "__main__":
    main()
