"""Lower the bounds of a batch of examples: oracles, planes, prices, until bound and labelling meet or progress ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np

from ssvm_backends.decomposition.bundle import PriceBundle, add_planes, choose_prices, clear, move_center, write_scores
from ssvm_backends.decomposition.incumbents import Incumbents, oracle_limits
from ssvm_backends.decomposition.parts import DualSubproblem
from ssvm_backends.graphs.graph import top_states
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I8, I32, I64, Bools, Program, Question, Stop, Terms, Theta, pointers, positions
from ssvm_dsl.plugin_api import Clock

#: The center moves where the bound falls by this share of the predicted fall; the step grows above the other share.
SERIOUS, GOOD = 0.1, 0.5

#: By how much steps grow and shrink.
LONGER, SHORTER, MUCH_LONGER = 1.5, 0.7, 10.0

#: Squared distance between the parts' combinations below which they agree.
AGREED = 1e-4

#: Rounding of one operation, relative to its result.
UNIT = 2.0**-53


@dataclass(eq=False)
class Calls:
    """The answers of the oracles of all parts at the trial prices of some examples.

    Parameters
    ----------
    bound : ndarray of float64, shape (n,)
        Certified; ``inf`` where an oracle was cut short without one, ``-inf`` where there is no labelling.
    labels : list of ndarray of int32
        Of each part.
    whole : ndarray of bool, shape (n,)
        Where every part has a labelling.
    stop : ndarray of int8, shape (n,)
        The limit that ended an oracle early.
    """

    bound: F64
    labels: list[I32]
    whole: Bools
    stop: I8


class PriceDescent:
    """Runs the method; its state is a bundle and the step of each example.

    Parameters
    ----------
    program : Program
    parts : list of DualSubproblem
    bundle : Bundle
    terms : Terms
        Of all examples.
    tol : float
        Ends where the planes promise less, relative to what scores can differ by.
    """

    def __init__(
        self, program: Program, parts: list[DualSubproblem], bundle: PriceBundle, terms: Terms, tol: float
    ) -> None:
        self.program, self.parts, self.bundle, self.terms, self.tol = program, parts, bundle, terms, tol
        self.step = terms.spread / np.maximum(terms.count, 1)
        self.calls = 0

    def run(
        self, ids: I64, theta: Theta, best: Incumbents, clock: Clock, most: int, bound: F64, stop: I8,
        share: float = 0.0,
    ) -> None:  # fmt: skip
        """Lower bounds and find labellings.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        theta : Theta
            Scores, with ``-inf`` at the states that are ruled out here.
        best : Incumbents
        clock : Clock
        most : int
            Calls of the oracles for each example.
        bound : ndarray of float64, shape (B,)
            Lowered; upper bounds on the scores of labellings that are not ruled out.
        stop : ndarray of int8, shape (B,)
            Written where time or the number of calls ends the descent.
        share : float
            Ends where the planes promise less than this share of the gap.
        """
        clear(self.bundle, ids)
        center = np.full(self.program.n_examples, np.inf)
        promised = np.full(self.program.n_examples, -np.inf)
        for round_ in range(most):
            if clock.over:
                stop[ids] = Stop.TIME
                return
            calls = self._call(ids, theta, clock)
            np.minimum.at(bound, ids, calls.bound)
            known = calls.whole
            if round_ & (round_ - 1) == 0 or round_ % 16 == 0:
                self._look_closer(ids[known], theta, best)
            if known.any():  # an example without a labelling does not keep others from theirs
                inner = self._variables(ids, known)
                best.offer_parts(ids[known], [labels[inner] for labels in calls.labels])
            going = known & ~self.closed(ids, best.score[ids], bound[ids])
            cut = calls.stop != Stop.FINISHED  # planes of oracles that were cut short promise nothing
            stop[ids[~known | cut]] = calls.stop[~known | cut]
            going &= ~cut
            self._judge(ids[going], calls.bound[going], center, promised)
            ids = ids[going]
            model, apart = np.zeros(len(ids)), np.zeros(len(ids))
            choose_prices(self.bundle, ids, self.step[ids], model, apart)
            promised[ids] = model
            fall, least = center[ids] - model, self.tol * self.terms.spread[ids]
            # what short steps promise is little, however far apart the parts are
            short = (fall <= least) & (apart > AGREED)
            self.step[ids[short]] *= MUCH_LONGER
            with np.errstate(invalid="ignore"):
                worth_it = ~(fall <= share * (center[ids] - best.score[ids]))
            ids = ids[((fall > least) & worth_it) | short]
            if not len(ids):
                return
        stop[ids] = Stop.ITERATIONS

    def lower(self, ids: I64, theta: Theta, clock: Clock, most: int) -> Calls:
        """Lower bounds alone, and return the lowest with the answers that attain them; these prices are the centers.

        The trial prices are the centers to begin with.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        theta : Theta
        clock : Clock
        most : int
            Calls of the oracles, the first of them at the centers.  A single one is where the planes are least, if
            there are any, whether the bound is lower there or not; 0 is one at the centers.

        Raises
        ------
        OutOfTime
            Time was up before the first answers.
        """
        center = np.full(self.program.n_examples, np.inf)
        promised = np.full(self.program.n_examples, -np.inf)
        if most == 1:  # no call to spare for the centers
            known = ids[(self.bundle.size[:, ids] > 0).any(axis=0)]
            choose_prices(self.bundle, known, self.step[known], np.zeros(len(known)), np.zeros(len(known)))
        lowest = self._call(ids, theta, clock)
        if (lowest.stop == Stop.TIME).any():
            raise OutOfTime("the time limit came before the answers of all parts")
        going = np.flatnonzero(lowest.whole)  # others have no labelling at all
        self._judge(ids[going], lowest.bound[going], center, promised)
        ptr = pointers(self.program.var_ptr[ids + 1] - self.program.var_ptr[ids])
        for _ in range(most - 1):
            some = ids[going]
            model, apart = np.zeros(len(some)), np.zeros(len(some))
            choose_prices(self.bundle, some, self.step[some], model, apart)
            promised[some] = model
            worth_it = (apart > AGREED) | (center[some] - model > self.tol * self.terms.spread[some])
            going, some = going[worth_it], some[worth_it]
            if not len(going) or clock.over:
                break
            calls, before = self._call(some, theta, clock), center[some]
            if not calls.whole.all():  # time was up
                break
            self._judge(some, calls.bound, center, promised)
            moved = np.flatnonzero(center[some] < before)
            lowest.bound[going[moved]] = calls.bound[moved]
            inner = self._variables(some, center[some] < before)
            for mine, labels in zip(lowest.labels, calls.labels, strict=True):
                mine[positions(ptr, going[moved])] = labels[inner]
        return lowest

    def closed(self, ids: I64, score: F64, bound: F64) -> Bools:
        """Return where no labelling can be better than the one known."""
        terms = Terms(self.terms.count[ids], self.terms.size[ids], self.terms.spread[ids], self.terms.integers[ids])
        both = (score > -np.inf) & (bound < np.inf)
        with np.errstate(invalid="ignore"):  # where terms are large, all that is left may be rounding
            near = np.asarray(terms.closed(score, bound)) | (bound - score <= self._margin(ids, self.terms.size[ids]))
        return (near & both) | (bound <= score)

    def _margin(self, ids: I64, size: F64) -> F64:
        """Return what rounding may take off bounds of some examples, the sizes of whose prices are given.

        Each oracle adds up as many terms as there are, and prices sum to zero up to rounding.
        """
        operations = self.terms.count[ids] + 2 * len(self.parts) + 4
        return UNIT * operations * (self.terms.size[ids] + size)

    def _call(self, ids: I64, theta: Theta, clock: Clock) -> Calls:
        """Ask all oracles at the trial prices, and take their labellings in as planes."""
        program, n = self.program, len(ids)
        ptr = pointers(program.var_ptr[ids + 1] - program.var_ptr[ids])
        bound, size, whole = theta.const[ids].copy(), np.zeros(n), np.ones(n, dtype=bool)
        labels, scores, stop = [], np.zeros(program.n_states), np.zeros(n, dtype=np.int8)
        for k, part in enumerate(self.parts):
            write_scores(self.bundle, k, theta.node, ids, scores, size)
            question = Question(part.theta(theta, scores), ids, limits=oracle_limits(clock))
            solution = part.session.solve(question)
            with np.errstate(invalid="ignore"):  # what one part proves to be impossible is so whatever others lack
                bound += np.where(np.isnan(solution.bound), np.inf, solution.bound)
            whole &= solution.score > -np.inf
            stop = np.maximum(stop, solution.stop)
            labels.append(solution.labels)
            done = np.flatnonzero(solution.score > -np.inf)
            if len(done) == n:
                add_planes(self.bundle, k, ids, ptr, solution.labels, solution.score)
            else:
                for e in done:
                    mine = solution.labels[ptr[e] : ptr[e + 1]]
                    ends = np.array([0, len(mine)], dtype=np.int64)
                    add_planes(self.bundle, k, ids[e : e + 1], ends, mine, solution.score[e : e + 1])
        self.calls += n
        bound += self._margin(ids, size)
        return Calls(np.where(np.isnan(bound), -np.inf, bound), labels, whole, stop)

    def _variables(self, ids: I64, chosen: Bools) -> I64 | slice:
        """Return the places of some examples' variables in arrays packed over all examples."""
        ptr = pointers(self.program.var_ptr[ids + 1] - self.program.var_ptr[ids])
        return positions(ptr, np.flatnonzero(chosen))

    def _judge(self, ids: I64, value: F64, center: F64, promised: F64) -> None:
        """Move centers where the bound fell enough; lengthen and shorten steps."""
        before, hoped = center[ids], promised[ids]
        with np.errstate(invalid="ignore"):
            share = np.where(np.isinf(before), 1.0, (before - value) / np.maximum(before - hoped, 1e-300))
        serious = share >= SERIOUS
        move_center(self.bundle, ids[serious])
        center[ids[serious]] = value[serious]
        first = np.isinf(before)
        self.step[ids] *= np.where(first, 1.0, np.where(share >= GOOD, LONGER, np.where(share < 0.0, SHORTER, 1.0)))

    def _look_closer(self, ids: I64, theta: Theta, best: Incumbents) -> None:
        """Round the combination of planes to labellings, and improve the best ones."""
        program = self.program
        variables = positions(program.var_ptr, ids)
        states = positions(program.state_ptr[program.var_ptr], ids)
        mine = np.where(theta.node[states] > -np.inf, self.bundle.mean[states], -np.inf)
        votes, others = np.zeros(program.n_states), np.zeros(program.n_variables, dtype=np.int32)
        votes[states], others[variables] = mine, top_states(mine, program.card[variables])
        best.offer_best(ids, votes, others)
        best.improve(ids)


# --------------------------------------------------------------------------------------------------------------------
# Branch and bound over decompositions: the open node of highest bound of every example, all examples in one batch.
#
# A node rules states out.  Its bound is lowered from its parent's prices; where that leaves a gap, the variable that
# the parts agree on least is split into its state of most votes and all others.

#: A node ends where the planes promise less than this share of its gap: splitting it does more.
SHARE = 0.05

#: Why the search of an example ends, and not only a node.
CUT_SHORT = (Stop.TIME, Stop.INTERRUPTED)


@dataclass(order=True, frozen=True)
class BranchNode:
    """An open node of one example.

    Parameters
    ----------
    key : float
        Its bound, negative, so that the highest one comes first.
    number : int
        Older ones first among equals.
    open : ndarray of bool
        The states of the example's variables that are not ruled out.
    prices : ndarray of float64, shape (K, states of the example)
    """

    key: float
    number: int
    open: Bools = field(compare=False)
    prices: F64 = field(compare=False)


class Branching:
    """The trees of a batch of examples.

    Parameters
    ----------
    program : Program
    descent : Descent
    theta : Theta
        Scores, with ``-inf`` at the states that are ruled out from the start.
    best : Incumbents

    Attributes
    ----------
    roots : ndarray of float64, shape (K, S)
        Prices of all examples before anything is branched on.
    steps : ndarray of float64, shape (B,)
        The lengths of the steps there.
    """

    def __init__(self, program: Program, descent: PriceDescent, theta: Theta, best: Incumbents) -> None:
        self.program, self.descent, self.theta, self.best = program, descent, theta, best
        self.node = theta.node.copy()
        self.heaps: dict[int, list[BranchNode]] = {}
        self.leaves = np.full(program.n_examples, -np.inf)  # highest bound of closed nodes
        self.numbers = count()
        self.roots, self.steps = descent.bundle.center, descent.step

    def run(self, ids: I64, clock: Clock, most: int, n_nodes: int, bound: F64, stop: I8) -> None:
        """Lower bounds, node by node.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        clock : Clock
        most : int
            Calls of the oracles for each node.
        n_nodes : int
            Nodes of each example.
        bound : ndarray of float64, shape (B,)
            Written.
        stop : ndarray of int8, shape (B,)
            Written.
        """
        whole, first = self.theta.node > -np.inf, True
        for i in ids:
            states = self._states(i)
            self.heaps[i] = [BranchNode(-np.inf, next(self.numbers), whole[states], self._prices(states))]
        for _ in range(n_nodes):
            if clock.over or not len(ids):
                break
            bounds = np.full(len(bound), np.inf)
            stop[ids] = Stop.FINISHED
            parents = [heappop(self.heaps[i]) for i in ids]
            for i, node in zip(ids, parents, strict=True):
                states = self._states(i)
                self.node[states] = np.where(node.open, self.theta.node[states], -np.inf)
                self.descent.bundle.center[:, states] = node.prices
                bounds[i] = -node.key
            scores = Theta(self.node, self.theta.pool, self.theta.tables, self.theta.const)
            try:
                self.descent.run(ids, scores, self.best, clock, most, bounds, stop, SHARE if n_nodes > 1 else 0.0)
            except KeyboardInterrupt:
                stop[ids] = Stop.INTERRUPTED
            except OutOfTime:  # raised within an oracle, which was preparing
                stop[ids] = Stop.TIME
            if first:
                self.roots, first = self.descent.bundle.center.copy(), False
                self.steps = self.descent.step.copy()
            for i, node in zip(ids, parents, strict=True):
                self._expand(int(i), node, bounds[i], stop)
                bound[i] = self._bound(i)
                clock.tell(self.best.score[i], bound[i])
            # what ended a node only, and not the whole search, does not count
            going = np.array([bool(self.heaps[i]) and stop[i] not in CUT_SHORT for i in ids], dtype=bool)
            done = self.descent.closed(ids, self.best.score[ids], bound[ids]) | (bound[ids] == -np.inf)
            ended = np.where(going, stop[ids], np.maximum(stop[ids], Stop.ITERATIONS))
            stop[ids] = np.where(done, Stop.FINISHED, ended)
            ids = ids[going & ~done]
        stop[ids] = Stop.TIME if clock.over else Stop.ITERATIONS

    def _states(self, i: int) -> slice:
        """Return where the states of an example are."""
        program = self.program
        return slice(*program.state_ptr[program.var_ptr[i : i + 2]].tolist())

    def _prices(self, states: slice) -> F64:
        return self.descent.bundle.center[:, states].copy()

    def _bound(self, i: int) -> float:
        """Return the highest bound of an example's open nodes, and of those that are done."""
        heap = self.heaps[i]
        return max(float(self.leaves[i]), -heap[0].key if heap else -np.inf, float(self.best.score[i]))

    def _expand(self, i: int, node: BranchNode, bound: float, stop: I8) -> None:
        """Put the children of a node on the heap, or the bound of a leaf among those of leaves."""
        example = np.array([i], dtype=np.int64)
        if self.descent.closed(example, self.best.score[example], np.array([bound]))[0]:
            self.leaves[i] = max(self.leaves[i], bound)
            return
        place, states = self._least_agreed(i, node.open), self._states(i)
        if stop[i] in CUT_SHORT:
            self.leaves[i] = max(self.leaves[i], bound)
            return
        if place is None:
            self.leaves[i] = max(self.leaves[i], min(bound, self._score_of_last(example, node.open)))
            return
        prices = self._prices(states)
        first, state, last = place
        taken, others = node.open.copy(), node.open.copy()
        taken[first:state], taken[state + 1 : last], others[state] = False, False, False
        for child in (taken, others):
            heappush(self.heaps[i], BranchNode(-bound, next(self.numbers), child, prices))

    def _score_of_last(self, example: I64, open_: Bools) -> float:
        """Offer the only labelling of a node in which no variable has a choice; return an upper bound of its score.

        Its score has the rounding of one sum, while the node's bound has that of all parts.
        """
        card = self.program.card[positions(self.program.var_ptr, example)]
        last = np.flatnonzero(open_)
        if len(last) < len(card):  # a variable has no state at all
            return -np.inf
        self.best.offer(example, (last - pointers(card)[:-1]).astype(np.int32))
        return float(self.best.score[example[0]])

    def _least_agreed(self, i: int, open_: Bools) -> tuple[int, int, int] | None:
        """Return the first state of the variable to split, its state of most votes, and its end.

        ``None`` where no variable has a choice.  States are counted from the first one of the example.
        """
        program, states = self.program, self._states(i)
        if states.start == states.stop:
            return None
        ptr = program.state_ptr[program.var_ptr[i] : program.var_ptr[i + 1] + 1] - states.start
        votes = np.where(open_, self.descent.bundle.mean[states], -np.inf)
        left = np.add.reduceat(open_.astype(np.int64), ptr[:-1])
        top = np.where(left > 1, np.maximum.reduceat(votes, ptr[:-1]), np.inf)
        v = int(top.argmin())
        if left[v] <= 1:
            return None
        first, last = int(ptr[v]), int(ptr[v + 1])
        return first, first + int(votes[first:last].argmax()), last
