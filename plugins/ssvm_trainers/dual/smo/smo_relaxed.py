"""The state of ``smo`` for the relaxed risk: points of the local polytope, also of graphs that are not triangulated.

Where graphs have cycles, Taskar, Guestrin and Koller (2003, section 4) keep the factored dual with marginals that agree
on variables alone: the dual of margin rescaling over the local polytope.  Its points need not be mixtures of
labellings, so that weight moves between two vertices of the polytope in place of two labellings,

    mu <- mu + g (toward - away) ,    g = min( slope / (a_i/(lam n) |Phi (toward - away)|^2),  most that keeps mu >= 0 )

(Garber and Meshi 2016).  With the oracle ``toward`` is its answer, the vertex of the largest loss and score, and
``away`` the one of the least among those that have no cell which the marginals lack: a linear program over the cells
of the support, which are few.  Vertices are kept, and the passes within the supports take both among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64, I64, Marginals, labelling_marginals, polytope_equations
from ssvm_dsl.plugin_api import Planes, TrainProblem, consistent
from ssvm_trainers.dual.smo.smo_state import SMOState
from ssvm_trainers.shared.resumable import NUMBERS, ROUNDING, SHARES, StateRule, require

#: Marginals up to this are none: what steps leave by rounding.
NOTHING = 1e-12

#: Vertices that are kept of an example at most, and at least; numbers of all of them at most: 1.6 GB.
MOST, FEWEST, MAX_NUMBERS = 100, 4, 200_000_000


class SavedVertices(NamedTuple):
    """Marginals, weights, and the vertices of each example."""

    mu: Annotated[F64, SHARES]
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]
    n_vertices: Annotated[I64, StateRule(0, MOST, shape=("n",), dtype="int64")]
    vertices: Annotated[F64, StateRule(0.0, 1.0, shape=("entries",))]


class Vertices:
    """The vertices that are kept of one example, the oldest first.

    Parameters
    ----------
    points : ndarray of float64, shape (k, n_cells)
    features : ndarray of float64, shape (k, dim)
        ``Phi(x, y) - Phi(x) point`` of each, and ...
    loss : ndarray of float64, shape (k,)
        ... its loss.
    most : int
        So many at most.
    """

    def __init__(self, n_cells: int, dim: int, most: int = MOST) -> None:
        self.most, self.points = most, np.zeros((0, n_cells))
        self.features, self.loss = np.zeros((0, dim)), np.zeros(0)

    def add(self, point: F64, features: F64, loss: float) -> int:
        """Add a vertex, unless it is there; return its place.  Beyond ``most`` the oldest one goes."""
        same = np.flatnonzero((self.points == point).all(axis=1))
        if len(same):
            return int(same[0])
        first = max(len(self.loss) + 1 - self.most, 0)
        self.points = np.concatenate([self.points[first:], point[None]])
        self.features = np.concatenate([self.features[first:], features[None]])
        self.loss = np.append(self.loss[first:], loss)
        return len(self.loss) - 1


class RelaxedState(SMOState):
    """Points of the local polytopes of all examples.

    Parameters
    ----------
    problem : TrainProblem
        Of the risk ``relaxed``.
    """

    def __init__(self, problem: TrainProblem) -> None:
        program = problem.parameters.program
        if program.constraints:
            kinds = ", ".join(sorted({group.kind for group in program.constraints}))
            text = f"trainer 'smo' does not know the marginals that hard constraints ({kinds}) leave"
            raise TrainingError(f"{text}; use trainer='bcfw'")
        super().__init__(problem, problem.parameters.flat, labelling_marginals(program, problem.loss.truth))
        self._equations: dict[int, tuple[Any, F64]] = {}  # by shape
        self._cells = [self._cells_of(i) for i in range(problem.n)]
        numbers = sum(len(cells) + problem.dim for cells in self._cells)
        self._most = min(MOST, MAX_NUMBERS // max(numbers, 1))
        if self._most < FEWEST:
            text = f"trainer 'smo' keeps vertices of the relaxation, {numbers} numbers for one of each example"
            raise TrainingError(f"{text}, which is too much memory; use trainer='bcfw'")
        self._vertices = [self._empty(i) for i in range(problem.n)]
        self._here = [(np.zeros(problem.dim), 0.0)] * problem.n  # psi and loss of the marginals, from a visit on

    def take(self, planes: Planes) -> float:
        """Visit the examples of new fractional labellings; return the gain of the dual."""
        assert planes.marginals is not None
        program, gain, first = self.problem.parameters.program, 0.0, 0
        rows = [0] * len(program.groups)
        for i in planes.examples.tolist():
            size = int(np.diff(program.state_ptr[program.var_ptr[i : i + 2]])[0])
            parts = [planes.marginals.node[first : first + size]]
            first += size
            for g, (group, table) in enumerate(zip(program.groups, planes.marginals.tables, strict=True)):
                n = int(group.ptr[i + 1] - group.ptr[i])
                parts.append(table[rows[g] : rows[g] + n].ravel())
                rows[g] += n
            gain += self._ask(i, np.concatenate(parts))
        return gain

    def visit_kept(self, ids: I64) -> float:
        """Visit examples without the oracle; return the gain of the dual."""
        return sum(self._visit(i) for i in ids.tolist())

    def plane(self) -> tuple[F64, float]:
        """Return the plane of the marginals, rounded to the polytope."""
        problem, program, share = self.problem, self.problem.parameters.program, self.fixed.share
        ids = np.arange(problem.n)
        marginals = consistent(program, self._marginals(ids, self.mu), ids)
        v = problem.accumulate(_planes(ids, marginals), share, np.zeros(problem.dim))
        owner = np.repeat(ids, np.diff(program.state_ptr[program.var_ptr]))
        b = np.dot(share, problem.loss.const) + np.dot(share[owner] * marginals.node, problem.loss.node)
        return v, float(b)

    def packed(self) -> SavedVertices:  # type: ignore[override]
        """Return the dual variables and the vertices as the arrays of a checkpoint."""
        sizes = np.array([len(one.loss) for one in self._vertices], dtype=np.int64)
        points = [one.points.ravel() for one in self._vertices]
        return SavedVertices(self.mu, self.w, self.free, sizes, np.concatenate([np.zeros(0), *points]))

    def unpack(self, record: SavedVertices) -> None:  # type: ignore[override]
        """Load dual variables and vertices from the arrays of a checkpoint."""
        self.mu[...], self.w[...], self.free[...] = record.mu, record.w, record.free
        first = 0
        for i, size in enumerate(record.n_vertices.tolist()):
            self._vertices[i], n = self._empty(i), len(self._cells[i])
            for point in record.vertices[first : first + size * n].reshape(size, n):
                self._vertices[i].add(point, *self._measured(i, point))
            first += size * n

    def _empty(self, i: int) -> Vertices:
        """Return room for the vertices of an example."""
        return Vertices(len(self._cells[i]), self.problem.dim, self._most)

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse marginals and vertices that do not add up to 1, or of factors that do not agree with variables."""
        counts, first = state["n_vertices"], 0
        total = sum(int(n) * len(cells) for n, cells in zip(counts, self._cells, strict=True))
        require(len(state["vertices"]) == total, "'vertices'", "vertices of all examples")
        for i, cells in enumerate(self._cells):
            matrix, right = self._equations_of(i)
            n = int(counts[i]) * len(cells)
            points = [state["mu"][cells], *state["vertices"][first : first + n].reshape(int(counts[i]), len(cells))]
            off = max(float(np.abs(matrix @ point - right).max(initial=0.0)) for point in points)
            require(off <= ROUNDING, "'mu' or 'vertices'", "marginals that add up to 1 and agree")
            first += n

    def _ask(self, i: int, toward: F64) -> float:
        """Visit an example with the oracle's answer; return the gain of the dual."""
        if self.fixed.share[i] == 0.0 or not len(self._cells[i]):
            return 0.0
        self.problem.pause()
        mu, kept = self.mu[self._cells[i]], self._vertices[i]
        self._here[i] = self._measured(i, mu)
        away = self._worst(i, np.flatnonzero(mu > 0.0))
        kept.add(away, *self._measured(i, away))
        return self._visit(i, kept.add(toward, *self._measured(i, toward)))

    def _visit(self, i: int, toward: int | None = None) -> float:
        """Take a step on an example, towards a kept vertex or the best one of its face; return the gain of the dual."""
        kept, cells = self._vertices[i], self._cells[i]
        if not len(kept.loss) or self.fixed.share[i] == 0.0:
            return 0.0
        share, mu, (psi, loss) = float(self.fixed.share[i]), self.mu[cells], self._here[i]
        value = kept.loss - kept.features @ self.w
        inside = np.flatnonzero(~(kept.points[:, mu == 0.0] > 0.0).any(axis=1))
        if toward is None:
            if not len(inside):
                self.gap[i] = 0.0
                return 0.0
            toward = int(inside[np.argmax(value[inside])])
        self.gap[i] = share * max(float(value[toward] - loss + psi @ self.w), 0.0)
        if not len(inside):
            return 0.0
        away = int(inside[np.argmin(value[inside])])
        slope = float(value[toward] - value[away])
        if slope <= 0.0:
            return 0.0
        move, change = kept.points[toward] - kept.points[away], kept.features[toward] - kept.features[away]
        falls = np.flatnonzero(move < 0.0)
        most = float(np.min(mu[falls] / -move[falls], initial=1.0))
        objective = self.problem.objective
        metric = change / (objective.lam * objective.scale)
        bend = share * float(np.dot(change, metric))
        amount = min(most, slope / bend) if bend > 0.0 else most
        mu = mu + amount * move
        self.mu[cells] = np.where(mu > NOTHING, mu, 0.0)
        self._here[i] = psi + amount * change, loss + amount * float(kept.loss[toward] - kept.loss[away])
        self.free += share * amount * metric
        if self.free is not self.w:
            np.maximum(self.free, objective.lower, out=self.w)
        return share * amount * (slope - 0.5 * amount * bend)

    def _measured(self, i: int, point: F64) -> tuple[F64, float]:
        """Return psi and loss of a point of an example."""
        one, out = np.array([i], dtype=np.int64), np.zeros(self.problem.dim)
        marginals = self._marginals(one, point)
        self.problem.accumulate(_planes(one, marginals), np.ones(1), out)
        program = self.problem.parameters.program
        lo, hi = program.state_ptr[program.var_ptr[i : i + 2]]
        return out, float(np.dot(self.problem.loss.node[lo:hi], marginals.node) + self.problem.loss.const[i])

    def _worst(self, i: int, support: I64) -> F64:
        """Return the vertex of the least loss and score that has no other cells."""
        program, out = self.problem.parameters.program, np.zeros(len(self._cells[i]))
        lo, hi = program.var_ptr[i : i + 2]
        if np.count_nonzero(support < program.state_ptr[hi] - program.state_ptr[lo]) == hi - lo:
            out[support] = 1.0  # every variable has one state
            return out
        (matrix, right), score = self._equations_of(i), self._scores(i)[support]
        scale = max(float(np.abs(score).max()), 1e-300)
        found = linprog(score / scale, A_eq=matrix[:, support], b_eq=right, method="highs-ds")
        if found.x is None:  # rounding has made the face empty: the marginals are the only point known
            return np.asarray(self.mu[self._cells[i]])
        out[support] = np.where(found.x > NOTHING, np.minimum(found.x, 1.0), 0.0)
        return out

    def _scores(self, i: int) -> F64:
        """Return loss and score of each cell of example i."""
        program, problem = self.problem.parameters.program, self.problem
        example = np.array([i], dtype=np.int64)
        theta = problem.scores(self.w, example)
        lo, hi = program.state_ptr[program.var_ptr[i : i + 2]]
        tables = [t[g.table_rows(example)].ravel() for g, t in zip(program.groups, theta.tables, strict=True)]
        return np.concatenate([theta.node[lo:hi] + problem.loss.node[lo:hi], *tables])

    def _cells_of(self, i: int) -> I64:
        """Return where the numbers of example i are in mu: states, then joint states, group by group."""
        program = self.problem.parameters.program
        first, parts = program.n_states, [np.arange(*program.state_ptr[program.var_ptr[i : i + 2]])]
        for group in program.groups:
            parts.append(np.arange(*(first + group.ptr[i : i + 2] * group.n_configs)))
            first += group.n_factors * group.n_configs
        return np.concatenate(parts)

    def _equations_of(self, i: int) -> tuple[Any, F64]:
        """Return matrix and right-hand side of the equations of an example's local polytope."""
        program = self.problem.parameters.program
        shape, (lo, hi) = int(program.shape[i]), program.var_ptr[i : i + 2].tolist()
        if shape not in self._equations:
            example = np.array([i], dtype=np.int64)
            factors = [(g.cards, g.shapes.variables(example).astype(np.int64) - lo) for g in program.groups]
            rows = polytope_equations(program.state_ptr[lo : hi + 1] - program.state_ptr[lo], factors)
            matrix = csc_array((rows.values, (rows.rows, rows.columns)), shape=(rows.n_rows, rows.n_columns))
            self._equations[shape] = matrix, (np.arange(rows.n_rows) < hi - lo).astype(np.float64)
        return self._equations[shape]

    def _marginals(self, ids: I64, flat: F64) -> Marginals:
        """Return the numbers of one example, or of all, as marginals."""
        program = self.problem.parameters.program
        every = len(ids) == program.n_examples and len(flat) == len(self.mu)
        starts = program.state_ptr[program.var_ptr]
        first, tables = int(program.n_states if every else starts[ids[0] + 1] - starts[ids[0]]), []
        node = flat[:first]
        for group in program.groups:
            n = group.n_factors if every else int(group.ptr[ids[0] + 1] - group.ptr[ids[0]])
            tables.append(flat[first : first + n * group.n_configs].reshape(n, group.n_configs))
            first += n * group.n_configs
        return Marginals(node, tuple(tables))


def _planes(ids: I64, marginals: Marginals) -> Planes:
    """Return planes of marginals, of which the features alone count."""
    nothing = np.zeros(len(ids))
    ptr, labels = np.zeros(len(ids) + 1, np.int64), np.zeros(0, np.int32)
    return Planes(ids, ptr, labels, nothing, nothing, nothing, marginals=marginals)
