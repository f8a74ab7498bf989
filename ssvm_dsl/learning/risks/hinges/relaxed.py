"""``RelaxedProblem``: margin rescaling with the maximum over the local polytope instead of over labellings.

    risk_i(w) = max_{mu in L(x_i)} [ loss(y_i, mu) + w . Phi(x_i) mu ] - w . Phi(x_i, y_i)

(Finley and Joachims 2008; Meshi et al. 2010, equation 7).  L holds every labelling, so this is at least the margin
risk, and equal to it where the maximum is at a labelling.  It is convex whatever the graph: each point of L is a plane
``loss(y_i, mu) - w . psi`` with ``psi = Phi(x_i, y_i) - Phi(x_i) mu`` below the risk.  Planes are therefore kept as
marginals, and the certificate is one of the relaxed objective.

The value of a plane is computed here, from its marginals; bounds are the backend's.  Solvers keep the equations of L
to some accuracy only, and a point off L is no plane below the risk.  So marginals are rounded to L first
(:mod:`ssvm_dsl.ir.analysis.local_polytope`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import bounded_slices, positions
from ssvm_dsl.ir.solution import Marginals, Primal, Solution, take_marginals
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.risks.base import each_once, in_rounds, proved
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem, repeated
from ssvm_dsl.plugin_api.training import Planes
from ssvm_dsl.scores.labellings import add_labels, score_labels
from ssvm_dsl.scores.marginals import add_marginals, consistent, rounded, score_marginals

#: Marginals of as many examples as are kept at a time where their values alone count: 32 MB.
CHUNK = 2**22

#: Marginals this close to 0 and 1 are a labelling.
WHOLE_ATOL = 1e-6


class RelaxedProblem(MarginProblem):
    """Margin-rescaling risk over the local polytope.

    Parameters are those of :class:`~ssvm_dsl.learning.risks.hinges.margin.MarginProblem`.

    Raises
    ------
    OptionError
        The loss does not add up over variables.
    """

    relaxed = True
    of_sums = "risk 'relaxed'"

    def _prepare(self) -> None:
        super()._prepare()
        self._difference = Theta.zeros(self.program)  # zero between calls

    def compiled(self, tables: bool = False) -> None:
        """Return ``None``: compiled oracles return labellings."""

    def accumulate(self, planes: Planes, coef: F64, out: F64) -> F64:
        """Add ``sum_k coef_k (Phi(x_k, y_k) - Phi(x_k) marginals_k)`` to ``out`` and return it."""
        assert planes.marginals is not None
        ids, difference, program, marginals = planes.examples, self._difference, self.program, planes.marginals
        rounds = in_rounds(ids)
        if len(rounds) > 1:
            for places in rounds:
                some = take_marginals(program, marginals, ids, places)
                part = replace(planes, examples=ids[places], loss=planes.loss[places], marginals=some)
                self.accumulate(part, coef[places], out)
            return out
        add_labels(program, self.truth[positions(program.var_ptr, ids)], coef, ids, difference.node, difference.tables)
        add_marginals(program, marginals, -coef, ids, difference.node, difference.tables)
        self.parameters.adjoint(difference, out, ids)
        difference.node[positions(program.state_ptr[program.var_ptr], ids)] = 0.0
        for group, table in zip(program.groups, difference.tables, strict=True):
            table[slice(None) if group.shapes.count(ids) > len(table) else group.table_rows(ids)] = 0.0
        return out

    def predicted(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the planes of the points of L of the highest score, without the loss; ``bound`` is ``nan``.

        A point that is a labelling but for rounding is that labelling (Kulesza and Pereira 2007).
        """
        start, program, theta = self.seconds(), self.program, self._theta
        ids, back = each_once(program, examples)
        self.parameters.fill_shared(w, theta)
        self.parameters.fill_examples(w, theta, ids)
        given = self.loss.given
        if given is not None:  # zero at the truth
            states = positions(program.state_ptr[program.var_ptr], ids)
            theta.node[states] += given[states]
        of_truth = score_labels(program, theta, self.truth[positions(program.var_ptr, ids)], ids)
        task = Task.RELAXED if Task.RELAXED in self.session.tasks else Task.MAP
        marginals = self._marginals_of(self.ask(Question(theta, ids, task), of_truth, whole=True), ids, task)
        assert marginals is not None
        integral = whole(program, marginals, ids)
        if integral.any():
            full = np.zeros(program.n_variables, np.int32)
            full[positions(program.var_ptr, ids)] = rounded(program.take(ids), marginals)
            marginals = mixed(integral, marginals_of(program, full, ids), marginals, program, ids)
        marginals = consistent(program, marginals, ids)
        value = score_marginals(program, theta, marginals, ids) - of_truth
        planes = self._made(ids, marginals, value, np.full(len(ids), np.nan))
        owner = np.repeat(np.arange(len(ids)), np.diff(program.state_ptr[program.var_ptr])[ids])
        if given is not None:  # which is in the loss, too
            value -= np.bincount(owner, given[states] * marginals.node, len(ids))
        planes.value[:] = value + planes.loss
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        return planes if back is None else repeated(planes, back, program)

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of examples with a labelling that is proved a maximum over the polytope; one pass.

        The labelling is read off the marginals: between labellings that are equally good a solver may end anywhere.
        On graphs with cycles that may miss one, so that the share is at least what is returned.  With hard constraints
        marginals count only where they are a labelling themselves.
        """
        if not ask:  # exact fractional solutions need not be labellings
            return np.nan
        tight, bounded = 0, True
        for ids in self.chunks():
            planes, program = self.oracle(w, ids), self.program
            assert planes.marginals is not None
            labels = rounded(program.take(ids), planes.marginals)
            value = self._fill(w, ids) + score_labels(program, self._theta, labels, ids)
            sure = proved(value, planes.bound)
            if program.constraints:
                sure &= whole(program, planes.marginals, ids)
            tight, bounded = tight + int(sure.sum()), bounded and not np.isnan(planes.bound).any()
        return tight / self.n if bounded else np.nan

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w; marginals are kept for some examples at a time."""
        value, bound, cut_short = np.empty(self.n), np.empty(self.n), False
        for ids in self.chunks():
            planes = self.oracle(w, ids)
            if self.cut_short:
                self._require_bounds(planes)
            value[ids], bound[ids], cut_short = planes.value, planes.bound, cut_short or self.cut_short
        self.cut_short = cut_short
        self._remember(w, np.arange(self.n), value, bound)
        return self.objective.primal(w, value), self.objective.primal(w, bound)

    def chunks(self) -> list[I64]:
        """Return all examples, in parts whose marginals are few enough to be kept; one part with constraints."""
        everyone = np.arange(self.n, dtype=np.int64)
        if self.program.constraints:
            return [everyone]
        return [everyone[part] for part in bounded_slices(self._n_scores, CHUNK)]

    def _fill(self, w: F64, ids: I64) -> F64:
        """Write the loss-augmented scores of some examples; return what to add to them to get risks."""
        theta, program = self._theta, self.program
        self.parameters.fill_examples(w, theta, ids)
        of_truth = score_labels(program, theta, self.truth[positions(program.var_ptr, ids)], ids)
        states = positions(program.state_ptr[program.var_ptr], ids)
        theta.node[states] += self.loss.node[states]
        return self.loss.const[ids] - of_truth

    def _part(self, w: F64, ids: I64) -> Planes:
        """Return the planes of one part of a batch."""
        shift = self._fill(w, ids)
        task = Task.RELAXED if Task.RELAXED in self.session.tasks else Task.MAP
        solution = self._answered(Question(self._theta, ids, task), shift)
        solution.marginals = self._marginals_of(solution, ids, task)
        return self._planes(ids, solution, shift)

    def _marginals_of(self, solution: Solution, ids: I64, task: Task) -> Marginals | None:
        """Return the marginals of an answer; labellings are points of the polytope, too."""
        if task is not Task.MAP:
            return solution.marginals
        full, mine = np.zeros(self.program.n_variables, np.int32), positions(self.program.var_ptr, ids)
        full[mine] = solution.labels_or(self.truth[mine])
        return marginals_of(self.program, full, ids)

    def _answered(self, question: Question, shift: F64) -> Solution:
        """Return the backend's answer to the question of one part of a batch."""
        return self.ask(question, -shift)

    def _planes(self, ids: I64, solution: Solution, shift: F64) -> Planes:
        """Return the planes of a fractional solution; the truth's where there is none, or none better."""
        program, marginals, theta = self.program, solution.marginals, self._theta
        if marginals is None:
            raise OutOfTime("the time limit came before the fractional solutions")
        marginals = consistent(program, marginals, ids)
        value = score_marginals(program, theta, marginals, ids) + shift
        there = ((solution.primal == Primal.FEASIBLE) | (solution.primal == Primal.FRACTIONAL)) & (value > 0.0)
        if not there.all():
            marginals = mixed(there, marginals, marginals_of(program, self.truth, ids), program, ids)
            value = np.where(there, value, 0.0)
        bound = solution.bound + shift
        return self._made(ids, marginals, value, np.fmax(bound, value) if not np.isnan(bound).any() else bound)

    def _made(self, ids: I64, marginals: Marginals, value: F64, bound: F64) -> Planes:
        """Return planes of given marginals."""
        from ssvm_dsl.kernels.marginals import add_state_products

        program, loss, none = self.program, self.loss.const[ids], np.zeros(0, np.int32)
        add_state_products(program.var_ptr, program.state_ptr, self.loss.node, ids, marginals.node, loss)
        return Planes(ids, np.zeros(len(ids) + 1, np.int64), none, loss, value, bound, marginals=marginals)


def marginals_of(program: Program, labels: I32, ids: I64) -> Marginals:
    """Return the marginals of a labelling of the whole program (ones and zeros), packed over some examples."""
    node = np.zeros(program.n_states)
    node[program.state_ptr[:-1] + labels] = 1.0
    tables = []
    for group in program.groups:
        config = labels[group.shapes.variables(ids)] @ group.strides
        tables.append((config[:, None] == np.arange(group.n_configs)).astype(np.float64))
    return Marginals(node[positions(program.state_ptr[program.var_ptr], ids)], tuple(tables))


def mixed(choose: NDArray[np.bool_], first: Marginals, second: Marginals, program: Program, ids: I64) -> Marginals:
    """Return the first marginals for the chosen examples, the second for all others."""
    starts = program.state_ptr[program.var_ptr]
    node = np.where(np.repeat(choose, starts[ids + 1] - starts[ids]), first.node, second.node)
    owners = [np.repeat(choose, group.shapes.counts[ids])[:, None] for group in program.groups]
    pairs = zip(owners, first.tables, second.tables, strict=True)
    return Marginals(node, tuple(np.where(mine, one, other) for mine, one, other in pairs))


def whole(program: Program, marginals: Marginals, ids: I64) -> NDArray[np.bool_]:
    """Return which examples' marginals are a labelling (those of their variables are; factors follow)."""
    starts = program.state_ptr[program.var_ptr]
    owner = np.repeat(np.arange(len(ids)), starts[ids + 1] - starts[ids])
    between = (marginals.node > WHOLE_ATOL) & (marginals.node < 1.0 - WHOLE_ATOL)
    fractional: NDArray[np.bool_] = np.bincount(owner, between, len(ids)) > 0
    return ~fractional
