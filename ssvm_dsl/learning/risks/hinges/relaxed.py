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
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime, TrainingError
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.messages import Messages
from ssvm_dsl.ir.need import Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import bounded_slices, positions
from ssvm_dsl.ir.solution import Marginals, Primal, Solution, take_marginals
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.driver.evaluations import proved
from ssvm_dsl.learning.risks.base import in_rounds
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api.kinds.compiled import CompiledMessages
from ssvm_dsl.plugin_api.training import Planes
from ssvm_dsl.scores.labellings import add_labels, score_labels
from ssvm_dsl.scores.marginals import add_marginals, consistent, score_marginals
from ssvm_dsl.scores.rounding import rounded

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
        self._made_by: WeakKeyDictionary[Messages, Plan] = WeakKeyDictionary()

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

    @property
    def tightness_is_free(self) -> bool:
        """Return False: exact fractional solutions need not be labellings."""
        return False

    def tightness(self, w: F64) -> float:
        """Return the share of examples with a labelling that is proved a maximum over the polytope; one pass.

        The labelling is read off the marginals: between labellings that are equally good a solver may end anywhere.
        On graphs with cycles that may miss one, so that the share is at least what is returned.  With hard constraints
        marginals count only where they are a labelling themselves.
        """
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
            planes = self._known(self.oracle(w, ids))
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

    def dual_losses(self, w: F64, ids: I64, warm: Any, passes: int) -> tuple[Planes, Any]:
        """Return dual losses, upper bounds of the risks, after a few passes of message passing; and the messages.

        ``value`` and ``bound`` are the dual losses g of Meshi et al. (2010), equation 8, at this w, and ``-psi`` is a
        subgradient of g in w for these messages.  Nothing here is below the risks, and marginals are choices that
        need not agree with each other.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        ids : ndarray of int64
            Distinct examples.
        warm : object
            What an earlier call for these examples returned; ``None`` at first.
        passes : int

        Returns
        -------
        (Planes, warm)

        Raises
        ------
        TrainingError
            The backend has no messages to show.
        """
        begin = self.seconds()
        self.parameters.fill_shared(w, self._theta)
        shift = self._fill(w, ids)
        question = Question(self._theta, ids, warm=warm, limits=Limits(iterations=passes))
        found, marginals = self._messages(question, shift)
        if marginals is None:
            backend = self.session.plan.title
            text = f"backend '{backend}' does not expose dual messages here: some states or scores are ruled out"
            raise TrainingError(f"{text}; use trainer='bcfw', which asks for fractional solutions")
        value = found.bound + shift
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - begin
        return self._made(ids, marginals, value, value), found.warm

    def _messages(self, question: Question, shift: F64) -> tuple[Solution, Marginals | None]:
        """Return messages and the slope at them, of one backend: another one may take over at any call."""
        plan, warm = self.session.plan, question.warm
        if warm is not None and self._made_by.get(warm, plan) is not plan:
            question = question.replace(warm=None)  # messages are laid out as the backend likes that made them
        found = self.ask_all(question, -shift)
        marginals = self.session.slope(question.replace(warm=found.warm, limits=Limits()))
        if marginals is not None:
            self._made_by[found.warm] = self.session.plan
        elif self.session.plan is not plan:
            return self._messages(question.replace(warm=None), shift)
        return found, marginals

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the backend's compiled message passing, ``None`` without it or where states are ruled out."""
        return self.session.compiled_messages()

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
        shift, program = self._fill(w, ids), self.program
        task = Task.RELAXED if Task.RELAXED in self.session.tasks else Task.MAP
        solution = self.ask(Question(self._theta, ids, task), -shift)
        if task is Task.MAP:  # labellings are points of the polytope, too
            full = np.zeros(program.n_variables, np.int32)
            mine = positions(program.var_ptr, ids)
            full[mine] = solution.labels_or(self.truth[mine])
            solution.marginals = marginals_of(program, full, ids)
        return self._planes(ids, solution, shift)

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
