"""``smo``: structural sequential minimal optimisation of the factored dual (Taskar, Guestrin and Koller 2003).

The dual of the margin risk has a distribution over the labellings of each example.  Loss and joint features are sums
over variables and factors, so that only its marginals mu_i matter, and where graphs are forests every mu_i whose
factors agree with their variables is one of a distribution:

    max_mu  D(v, b),    v = sum_i a_i/n (Phi(x_i, y_i) - Phi(x_i) mu_i),    b = sum_i a_i/n loss(y_i, mu_i)

A step moves weight between two labellings of one example, from y' to y: add g to the marginals of all that y has, take
it from those of y', with

    g = min( slope / (a_i/(lam n) |psi(y) - psi(y')|^2),  least marginal of what only y' has )

in closed form.  The pair violates optimality most: y is the loss-augmented best labelling (the oracle's), y' the worst
one with positive marginals throughout, found by dynamic programming over the support.  On a forest each such
labelling has positive weight in a distribution with these marginals: the product of those of its factors, over those
of its variables as often as they are shared.  Without a list of labellings, such steps are the decomposition-invariant
pairwise ones of Garber and Meshi (2016) and, with exact line search, of Bashiri and Zhang (2017).

After a pass with the oracle follow passes over pairs within the supports.  They need no oracle and score what is
positive only; they end when the gap within the supports is a small share of that of the pass.  The certificate is that
of every dual: D against the exact objective, at one w.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers.dual.polytope import plain_forests
from ssvm_trainers.dual.smo.smo_state import CliqueState, MarginalState, SMOState
from ssvm_trainers.shared.oracle_call import oracle_inputs
from ssvm_trainers.shared.passes import CertificationSchedule, chunks, count_calls, visit_cost
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, Resumable, Run

#: Without a compiled oracle the calls of so many batches, of at most so many examples, share one w each.
BATCHES, MAX_BATCH = 32, 256


class SMO(Resumable):
    """Pairwise steps on the marginals of one example after the other (Taskar, Guestrin and Koller 2003).

    Parameters
    ----------
    accuracy : float
        Passes within the supports continue until the gap there is this share of the gap of the pass with the oracle.
    max_inner_passes : int
        Most passes within the supports between two with the oracle.
    random_state : int or None
        Seed of the order of examples.
    """

    def __init__(self, accuracy: float = 0.3, max_inner_passes: int = 50, random_state: int | None = None) -> None:
        self.accuracy, self.max_inner_passes, self.random_state = accuracy, max_inner_passes, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run that starts at zero weights, or continues from a checkpoint."""
        return SMORun(self, problem, start)


class SMORun(Run):
    """One training run."""

    marginals: Annotated[SMOState, PART]
    passes: Annotated[float, COUNTS]  #: with the oracle
    dual: Annotated[float, NUMBERS]
    schedule: Annotated[CertificationSchedule, PART]
    random: Annotated[np.random.Generator, PART]

    def __init__(self, options: SMO, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem, self.start = options, problem, start
        self.marginals = _state_of(problem)
        self.random = np.random.default_rng(options.random_state)
        self.passes = 0.0
        self.dual, _ = self.marginals.refresh()
        self.schedule = CertificationSchedule()
        self.oracle = problem.compiled() if isinstance(self.marginals, MarginalState) else None
        self.cost = visit_cost(problem)
        if self.oracle is not None:
            self.inputs = oracle_inputs(problem, self.oracle, self.marginals.w)

    def iterate(self, stop: StopRule) -> Iterate:
        """Run one pass with the oracle and those within the supports."""
        if self.start is not None and not self.passes:
            return self.seed(self.start)
        self.dual += self._exact(self.random.permutation(self.problem.n))
        self.passes += 1.0
        gap = float(self.marginals.gap.sum())
        self._inner()
        if self.schedule.asks(stop, self.dual, gap, self.passes):
            return self._certify(gap)
        return Iterate(self.marginals.w, self.passes, extra={"gap_estimate": gap, "dual_estimate": self.dual})

    def certified(self) -> Iterate:
        """Return the newest iterate with its plane; the driver looks at its objective, as far as there is time."""
        self.dual, plane = self.marginals.refresh()
        return Iterate(self.marginals.w.copy(), self.passes, dual=self.dual, plane=plane)

    def newest(self) -> F64:
        """Return the weights at hand, whose dual value no visit of an example lowers."""
        return self.marginals.w

    def seed(self, w: F64) -> Iterate:
        """Take the labellings at given weights and optimise over them: a warm start for the dual."""
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        self.marginals.take(planes)
        self._inner()
        self.dual, plane = self.marginals.refresh()
        return Iterate(w, self.passes, primal, upper, self.dual, plane=plane)

    def _exact(self, ids: I64) -> float:
        """Visit the examples with the oracle; return the gain of the dual."""
        marginals = self.marginals
        if self.oracle is None or not isinstance(marginals, MarginalState):
            size = int(np.clip(self.problem.n // BATCHES, 1, MAX_BATCH))
            parts = [np.sort(ids[lo : lo + size]) for lo in range(0, len(ids), size)]
            return sum(self.marginals.take(self.problem.oracle(self.marginals.w, part)) for part in parts)
        total = 0.0
        for chunk in chunks(self.problem, ids, self.cost):
            begin = self.problem.seconds()
            gain, off = marginals.ask(self.oracle, self.inputs, chunk)
            count_calls(self.problem, len(chunk), begin, off, marginals.w, np.sort(chunk))
            total += gain
        return total

    def _inner(self) -> None:
        """Run passes within the supports, over examples whose gaps were not small before; a pass over all ends it."""
        gap, n = self.marginals.gap, self.problem.n
        enough, everyone = self.options.accuracy * float(gap.sum()), False
        for _ in range(self.options.max_inner_passes):
            order = self.random.permutation(n)
            some = order if everyone else order[gap[order] > enough / n]
            self.dual += sum(self.marginals.visit_kept(chunk) for chunk in chunks(self.problem, some, self.cost))
            small = float(gap.sum()) <= enough
            if small and everyone:
                return
            everyone = small

    def _certify(self, estimate: float) -> Iterate:
        """Return the iterate with its certificate; the labellings found on the way are taken."""
        self.dual, plane = self.marginals.refresh()
        dual, w = self.dual, self.marginals.w.copy()
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        self.schedule.learn(primal - dual, estimate)
        self.dual += self.marginals.take(planes)
        return Iterate(w, self.passes, primal, upper, dual, plane=plane)


def _state_of(problem: TrainProblem) -> SMOState:
    """Return the marginals that a problem is solved over, all on the truth."""
    if problem.relaxed:
        from ssvm_trainers.dual.smo.smo_relaxed import RelaxedState

        return RelaxedState(problem)
    return MarginalState(problem) if plain_forests(problem.parameters) else CliqueState(problem)
