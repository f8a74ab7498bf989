"""
How close to the optimum?
=========================

Training stops when the certified gap is small enough.  The gap is the difference of the objective at the weights found
and a lower bound that no weights can beat.
"""

# %%
# Three trainers minimise the same objective.  Solid lines are certified objectives, dashed lines lower bounds, dotted
# lines estimates that are not certified.

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.report import plot_training


class Weather(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, ["sun", "rain", "snow"])
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


X, states = make_chains(200, n_states=3, n_features=5, noise=2.0, random_state=0)
Y = [[["sun", "rain", "snow"][s] for s in one] for one in states]
reports = {
    trainer: StructuredSVM(Weather, C=1.0, trainer=trainer, tol=0.02, max_passes=300, random_state=0).fit(X, Y).report_
    for trainer in ("bcfw", "one-slack", "bundle")
}
plot_training(reports, over="n_passes")

# %%
# The relative gap alone, over oracle calls.

plot_training(reports, over="n_oracle_calls", what="gap")
