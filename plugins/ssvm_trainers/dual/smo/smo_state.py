"""The state of ``smo``: the marginals of every example, and the weights that belong to them.

Memory is one number for each state of a variable and each joint state of a factor, whatever the number of steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64, Theta, labelling_marginals, pointers
from ssvm_dsl.kernels import FlatMaps, ScoreSpace
from ssvm_dsl.plugin_api import CompiledOracle, Planes, TrainProblem
from ssvm_trainers.dual.polytope import clique_polytope
from ssvm_trainers.dual.smo.smo_cliques import CliqueWorkspace, clique_pass, list_cells
from ssvm_trainers.dual.smo.smo_kernels import GivenLabels, MarginalPoint, aggregate, exact_pass, plain_pass
from ssvm_trainers.dual.smo.smo_pairs import Rooted, SMOWorkspace
from ssvm_trainers.shared.arrays import NO_INTS, NO_LONGS, basis_space, fixed_arrays, follow_plane, work_space
from ssvm_trainers.shared.oracle_call import OracleInputs
from ssvm_trainers.shared.resumable import NUMBERS, ROUNDING, SHARES, Stateful, require

#: Within the supports.
NO_LABELS = GivenLabels(NO_LONGS, NO_INTS)


class SavedMarginals(NamedTuple):
    """Marginals of all examples, the weights, and these without their lower bounds."""

    mu: Annotated[F64, SHARES]
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]


class SMOState(Stateful):
    """Marginals, all on the truth at first, and weights.

    ``free`` are the weights without their lower bounds: w itself when there are none.  ``gap`` has the share of each
    example in the duality gap as its last visit found it: with the oracle, or within the support.

    Parameters
    ----------
    problem : TrainProblem
    maps : FlatMaps
    mu : ndarray of float64
        The marginals of the truth.
    """

    def __init__(self, problem: TrainProblem, maps: FlatMaps, mu: F64) -> None:
        self.problem, self.mu, self.fixed = problem, mu, fixed_arrays(problem)._replace(maps=maps)
        self.work, self.space = work_space(problem, 1), work_room(problem)
        self.w = np.zeros(problem.dim)
        self.free = np.zeros(problem.dim) if self.fixed.bounded.any() else self.w
        self.gap = np.zeros(problem.n)

    @property
    def point(self) -> MarginalPoint:
        """The arrays that kernels change."""
        return MarginalPoint(self.mu, self.w, self.free, self.gap)

    @abstractmethod
    def take(self, planes: Planes) -> float:
        """Visit the examples of new labellings; return the gain of the dual."""

    @abstractmethod
    def visit_kept(self, ids: I64) -> float:
        """Visit examples without the oracle; return the gain of the dual."""

    @abstractmethod
    def plane(self) -> tuple[F64, float]:
        """Return the plane of the marginals, summed afresh."""

    def refresh(self) -> tuple[float, tuple[F64, float]]:
        """Recompute w from the marginals (rounding errors do not add up); return (dual value, plane)."""
        v, b = self.plane()
        follow_plane(self.problem, v, self.w, self.free)
        return self.problem.objective.dual(v, b), (v, b)

    def packed(self) -> SavedMarginals:
        """Return the dual variables as the arrays of a checkpoint, not copied."""
        return SavedMarginals(self.mu, self.w, self.free)

    def unpack(self, record: SavedMarginals) -> None:
        """Write to the arrays: two of them may be one."""
        for mine, saved in zip(self.packed(), record, strict=True):
            mine[...] = saved


class CliqueState(SMOState):
    """The marginals of the cliques of triangulated graphs.

    Parameters
    ----------
    problem : TrainProblem
    """

    def __init__(self, problem: TrainProblem) -> None:
        self.polytope = clique_polytope(problem)
        super().__init__(problem, self.polytope.linear.flat, self.polytope.full(self.polytope.truth()))
        trees, theta = self.polytope.trees, Theta.zeros(problem.parameters.program)
        cells, rows, cliques = np.zeros(trees.n_cells), np.zeros(trees.n_rows), np.zeros(len(trees.parent), np.int64)
        scores, loss = ScoreSpace(theta.node, theta.pool, basis_space(problem)), self.polytope.score_loss()
        self.workspace = CliqueWorkspace(
            scores, np.zeros(len(theta.node) + len(theta.pool), dtype=bool), np.zeros(trees.n_cells, np.int64),
            np.zeros(len(trees.parent), np.int64), loss, cells, cells.copy(), rows, rows.copy(),
            np.zeros(trees.n_rows, np.int64), np.zeros(trees.n_rows, np.int64), cliques, cliques.copy(),
        )  # fmt: skip
        list_cells(trees, self.workspace, self.mu)

    def unpack(self, record: SavedMarginals) -> None:
        """Load the marginals from the arrays of a checkpoint."""
        super().unpack(record)
        list_cells(self.polytope.trees, self.workspace, self.mu)

    def take(self, planes: Planes) -> float:
        """Visit the examples of new labellings; return the gain of the dual."""
        return self._visit(planes.examples, GivenLabels(planes.ptr, planes.labels))

    def visit_kept(self, ids: I64) -> float:
        """Visit examples without the oracle; return the gain of the dual."""
        return self._visit(ids, NO_LABELS)

    def _visit(self, ids: I64, given: GivenLabels) -> float:
        trees, workspace = self.polytope.trees, self.workspace
        return clique_pass(self.fixed, trees, workspace, self.space, self.work, self.point, ids, given)

    def plane(self) -> tuple[F64, float]:
        """Return the plane of the marginals, summed afresh."""
        polytope, share = self.polytope, self.fixed.share
        weighed = polytope.full(share[polytope.owner] * self.mu[polytope.kept])
        v = polytope.truth_features(share) - polytope.score_features(weighed)
        return v, float(np.dot(weighed, self.workspace.loss) + np.dot(share, polytope.const))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse marginals that do not add up to 1, or of cliques that do not agree with each other."""
        rows = self.polytope.equations
        off = np.abs(rows.matrix @ state["mu"][self.polytope.kept] - rows.right)
        require((off <= ROUNDING).all(), "'mu'", "marginals of cliques that add up to 1 and agree")


class MarginalState(SMOState):
    """The marginals of the variables and factors of forests.

    Parameters
    ----------
    problem : TrainProblem
        Its graphs are forests.
    """

    def __init__(self, problem: TrainProblem) -> None:
        program = problem.parameters.program
        super().__init__(problem, problem.parameters.flat, labelling_marginals(program, problem.loss.truth))
        self.trees, self.n_states = root_trees(problem), np.diff(program.state_ptr[program.var_ptr])

    def take(self, planes: Planes) -> float:
        """Visit the examples of new labellings; return the gain of the dual."""
        return self._visit(planes.examples, GivenLabels(planes.ptr, planes.labels))

    def visit_kept(self, ids: I64) -> float:
        """Visit examples without the oracle; return the gain of the dual."""
        return self._visit(ids, NO_LABELS)

    def _visit(self, ids: I64, given: GivenLabels) -> float:
        return plain_pass(self.fixed, self.trees, self.space, self.work, self.point, ids, given)

    def ask(self, oracle: CompiledOracle, inputs: OracleInputs, ids: I64) -> tuple[float, float]:
        """Visit examples with a compiled oracle; return (gain of the dual, largest error of its scores)."""
        return exact_pass(oracle.function, inputs, self.fixed, self.trees, self.space, self.work, self.point, ids)

    def plane(self) -> tuple[F64, float]:
        """Return the plane of the marginals, summed afresh."""
        problem, v = self.problem, np.zeros(self.problem.dim)
        aggregate(self.fixed, self.trees, self.mu, v)
        lost = self.mu[: len(problem.loss.node)] * problem.loss.node
        return v, float(np.dot(np.repeat(self.fixed.share, self.n_states), lost))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse marginals that do not add up to 1, or whose factors do not agree with their variables."""
        program, mu = self.problem.parameters.program, state["mu"]
        node, first = mu[: program.n_states], program.n_states
        total = np.add.reduceat(node, program.state_ptr[:-1]) if program.n_variables else np.zeros(0)
        require((np.abs(total - 1.0) <= ROUNDING).all(), "'mu'", "marginals of variables that add up to 1")
        for group in program.groups:
            tables = mu[first : first + group.n_factors * group.n_configs].reshape(-1, *group.cards)
            first += tables.size
            scope = group.shapes.variables()
            for k, card in enumerate(group.cards):
                wanted = node[program.state_ptr[scope[:, k]][:, None] + np.arange(card)]
                margin = tables.sum(axis=tuple(a for a in range(1, tables.ndim) if a != k + 1))
                require((np.abs(margin - wanted) <= ROUNDING).all(), "'mu'", "factors that agree with their variables")


def root_trees(problem: TrainProblem) -> Rooted:
    """Return the graphs of all examples, rooted as their elimination order says."""
    parameters = problem.parameters
    program, n = parameters.program, parameters.program.n_variables
    rank = np.empty(n, dtype=np.int64)
    rank[program.order] = np.arange(n)
    sizes = np.array([group.n_factors * group.n_configs for group in program.groups], dtype=np.int64)
    starts = program.n_states + pointers(sizes)
    base = np.array([starts[m.group] if m.group >= 0 else -1 for m in parameters.maps], dtype=np.int64)
    none = np.zeros(0, np.int64)
    child, parent, of, factor, flip = [none], [none], [none], [none], [none]
    for number, fmap in enumerate(parameters.maps):
        if fmap.group >= 0:
            scope = fmap.shapes.variables()
            first, second = scope[:, 0], scope[:, 1]
            turned = rank[first] > rank[second]
            child.append(np.where(turned, second, first))
            parent.append(np.where(turned, first, second))
            of.append(np.full(fmap.n_factors, number))
            factor.append(fmap.shapes.spread(np.arange(len(fmap.shapes.scope))))
            flip.append(turned.astype(np.int64))
    children = np.concatenate(child)
    parents = np.full(n, -1, dtype=np.int32)
    parents[children] = np.concatenate(parent)
    by_child = np.argsort(children, kind="stable")
    return Rooted(
        order=program.order,
        parent=parents,
        entry_ptr=pointers(np.bincount(children, minlength=n)),
        entry_map=np.concatenate(of)[by_child],
        entry_factor=np.concatenate(factor)[by_child],
        entry_flip=np.concatenate(flip)[by_child],
        base=base,
    )


def work_room(problem: TrainProblem) -> SMOWorkspace:
    """Return work space for the largest example."""
    program = problem.parameters.program
    longest, widest = int(np.diff(program.var_ptr).max(initial=0)), int(program.card.max(initial=1))
    n_factors = sum((fmap.shapes.counts for fmap in problem.parameters.maps), np.zeros(problem.n, np.int64))
    most, size = int(n_factors.max(initial=0)), longest * widest
    return SMOWorkspace(
        n_open=np.zeros(longest, np.int32), states=np.zeros(size, np.int32),
        mass=np.zeros(size), score=np.zeros(size), high=np.zeros(size), low=np.zeros(size),
        weight=np.zeros(widest * widest), value=np.zeros(widest * widest),
        pick_high=np.zeros(size, np.int32), pick_low=np.zeros(size, np.int32),
        place=np.zeros(longest, np.int32), pair=np.zeros(2 * longest, np.int32),
        which=np.zeros(most, np.int32), factor=np.zeros(most, np.int32),
        toward=np.zeros(most, np.int32), away=np.zeros(most, np.int32), example=np.zeros(1, np.int64),
    )  # fmt: skip
