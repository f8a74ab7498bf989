"""Objectives and optima of every risk from all labellings, by general solvers: what trainers are compared with.

An optimum is enclosed: the reference returns ``(low, high, w)`` with ``low <= optimum <= high``, ``high`` the objective
of w, so that the accuracy of the solver is known.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

import naive

F64 = np.ndarray

#: Risks that are a maximum of planes, one for each labelling.
OF_PLANES = ("margin", "slack", "hm", "perceptron")


def truth_of(data: Any, i: int) -> int:
    """Return the row of the truth among the labellings of example i."""
    losses, psi = data.planes[i]
    row = 0
    for label in data.model.declaration.labels:
        states, free = (np.ravel(of[i][label.name]) for of in (data.labels, data.ignored))
        for state, ignored in zip(states.tolist(), free.tolist(), strict=True):
            row = row if ignored else row * label.n_states + int(state)
    assert not psi[row].any()
    assert losses[row] == 0.0
    return row


def planes_of(data: Any, risk: str) -> list[tuple[F64, F64]]:
    """Return (values at 0, negative slopes) of the planes whose maximum the risk of each example is."""
    out = []
    for i, (losses, psi) in enumerate(data.planes):
        wrong = np.arange(len(losses)) != truth_of(data, i)
        margin = {"margin": losses, "slack": losses, "hm": wrong.astype(float), "perceptron": 0.0 * losses}[risk]
        out.append((margin, losses[:, None] * psi if risk == "slack" else psi))
    return out


def regression_planes(data: Any, i: int, least: float, most: float) -> tuple[F64, F64]:
    """Return the planes of ``max(0, max_y s(y) - most) + max(0, least - s(truth))``: each sum of two of its pieces."""
    truth = naive.joint_features(
        data.model.declaration, data.inputs[i], data.labels[i], data.grounded.fitted, data.shapes
    )
    above = [(0.0, 0.0 * truth), *((-most, psi - truth) for psi in data.planes[i][1])]
    below = [(0.0, 0.0 * truth), (least, truth)]
    pairs = [(a + b, p + q) for (a, p), (b, q) in product(above, below)]
    return np.array([a for a, _ in pairs]), np.array([p for _, p in pairs])


def objective_of_planes(
    planes: list[tuple[F64, F64]], w: F64, C: float, s: Any, scale: Any = 1.0, power: float = 1.0
) -> float:
    """Return ``1/2 sum_j scale_j w_j^2 + C sum_i s_i risk_i^power``, risk_i the largest ``loss - psi . w`` there is."""
    risks = np.array([np.max(losses - psi @ w) for losses, psi in planes])
    return float(0.5 * np.sum(scale * w**2) + C * np.dot(s, risks**power))


def least_over_planes(
    planes: list[tuple[F64, F64]], C: float, s: Any = None, scale: Any = 1.0, nonneg: Any = None, power: float = 1.0
) -> tuple[float, F64]:
    """Return the least :func:`objective_of_planes`, and its w."""
    dim, s = planes[0][1].shape[1], np.ones(len(planes)) if s is None else s
    program = ConeProgram(np.broadcast_to(scale, dim), np.zeros(dim, bool) if nonneg is None else nonneg)
    for (losses, psi), weight in zip(planes, s, strict=True):
        program.price(program.above(psi, losses), C * weight, power)
    return program.solve()


class Reference:
    """``1/2 sum_j scale_j w_j^2 + C sum_i s_i risk_i(w)^power``, and its optimum."""

    def __init__(
        self, data: Any, risk: str, power: float = 1.0, values: F64 | None = None, epsilon: tuple[float, ...] = (),
        C: float | None = None,
    ) -> None:  # fmt: skip
        self.data, self.risk, self.power, self.C = data, risk, power, data.C if C is None else C
        self.of_planes = risk in OF_PLANES or values is not None
        if risk in OF_PLANES:
            self.planes = planes_of(data, risk)
        if values is not None:
            below, above = epsilon
            self.planes = [regression_planes(data, i, v - below, v + above) for i, v in enumerate(values)]
        if risk == "relaxed":
            self.polytopes = [Polytope(data, i) for i in range(len(data.X))]

    def risks(self, w: F64) -> tuple[F64, F64]:
        """Return the risks and their (sub)gradients."""
        if self.of_planes:
            pairs = [_largest(at_zero, psi, w) for at_zero, psi in self.planes]
        elif self.risk == "relaxed":
            pairs = [one.risk(w) for one in self.polytopes]
        else:
            pairs = [self._of_sums(i, w) for i in range(len(self.data.X))]
        return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])

    def _of_sums(self, i: int, w: F64) -> tuple[float, F64]:
        losses, psi = self.data.planes[i]
        above = losses - psi @ w
        if self.risk in ("log", "softmax-margin"):
            scores = above if self.risk == "softmax-margin" else -(psi @ w)
            value = float(logsumexp(scores))
            return value, -np.exp(scores - value) @ psi
        above[truth_of(self.data, i)] = -1.0
        if self.risk == "weston-watkins":
            return float(np.maximum(above, 0.0).sum()), -(above > 0.0).astype(float) @ psi
        if self.risk == "squared-weston-watkins":
            hinges = np.maximum(above, 0.0)
            return float((hinges**2).sum()), -2.0 * hinges @ psi
        assert self.risk == "smooth-hinge"
        slope = np.clip(above, 0.0, 1.0)
        return float(np.where(above > 1.0, above - 0.5, 0.5 * slope**2).sum()), -slope @ psi

    def objective(self, w: F64) -> tuple[float, F64]:
        """Return the objective and a (sub)gradient of it."""
        values, slopes = self.risks(w)
        weight = self.C * self.data.s
        bent = weight * self.power * np.maximum(values, 0.0) ** (self.power - 1.0)
        total = 0.5 * float(self.data.scale @ w**2) + float(weight @ np.maximum(values, 0.0) ** self.power)
        return total, self.data.scale * w + bent @ slopes

    def optimum(self) -> tuple[float, float, F64]:
        """Return (lower bound of the optimum, objective, weights)."""
        if self.risk in ("log", "softmax-margin", "smooth-hinge", "squared-weston-watkins"):
            return self._by_gradients()
        return self._by_a_cone_program()

    def _by_gradients(self) -> tuple[float, float, F64]:
        """Follow gradients; the lower bound is that of the tangent with the regulariser, which is exact."""
        data = self.data
        bounds = [(0.0 if nonneg else None, None) for nonneg in data.nonneg]
        options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
        w = np.zeros(len(data.nonneg))
        for _ in range(3):
            w = minimize(self.objective, w, jac=True, bounds=bounds, options=options, method="L-BFGS-B").x
        value, grad = self.objective(w)
        if (data.scale == 0.0).any():  # the optimum may be far away, or nowhere
            return -np.inf, value, w
        return value - _most_below(grad, data.scale, w, data.nonneg), value, w

    def _by_a_cone_program(self) -> tuple[float, float, F64]:
        """Solve ``1/2 w' scale w + C sum_i s_i t_i`` with the risks written out as inequalities."""
        data, program = self.data, ConeProgram(self.data.scale, self.data.nonneg)
        for i, s in enumerate(data.s):
            psi, losses = self.planes[i][::-1] if self.of_planes else (np.zeros((0, program.dim)), np.zeros(0))
            slack = program.above(psi, losses)
            if self.risk == "relaxed":
                self.polytopes[i].add_dual(program, slack)
            elif not self.of_planes:
                self._add_hinges(program, slack, i)
            program.price(slack, self.C * s, self.power)
        low, w = program.solve()
        w = np.where(data.nonneg, np.maximum(w, 0.0), w)
        return low, self.objective(w)[0], w

    def _add_hinges(self, program: ConeProgram, slack: int, i: int) -> None:
        """Add ``slack >= sum of hinges``."""
        losses, psi = self.data.planes[i]
        hinges = []
        for y in range(len(losses)):
            if y != truth_of(self.data, i):
                hinges.append(program.column(0.0))
                program.rows(psi[y : y + 1], {hinges[-1]: [1.0]}, [losses[y]])
                program.rows(0.0 * psi[:1], {hinges[-1]: [1.0]}, [0.0])
        program.rows(0.0 * psi[:1], {slack: [1.0], **{h: [-1.0] for h in hinges}}, [0.0])


def _largest(at_zero: F64, psi: F64, w: F64) -> tuple[float, F64]:
    values = at_zero - psi @ w
    best = int(values.argmax())
    return float(values[best]), -psi[best]


def _most_below(grad: F64, scale: F64, w: F64, nonneg: F64) -> float:
    """Return how far ``grad . d + 1/2 d' scale d`` goes below 0 for steps d that keep the bounds."""
    d = -grad / scale
    d = np.where(nonneg, np.maximum(d, -w), d)
    return -float(grad @ d + 0.5 * scale @ d**2)


class ConeProgram:
    """``min 1/2 w' scale w + prices`` over w and more columns, subject to rows ``psi w + columns >= bound``."""

    def __init__(self, scale: F64, nonneg: F64) -> None:
        self.dim = len(scale)
        self.quadratic, self.linear = list(scale), [0.0] * self.dim
        self.rows_: list[tuple[F64, dict[int, Any], F64]] = []
        self.equal: list[tuple[dict[int, float], float]] = []
        self.powers: list[tuple[int, int, float]] = []
        for j in np.flatnonzero(nonneg):
            self.rows(np.eye(self.dim)[j : j + 1], {}, [0.0])

    def column(self, price: float) -> int:
        """Add a free column."""
        self.quadratic.append(0.0)
        self.linear.append(price)
        return len(self.linear) - 1

    def rows(self, of_w: F64, columns: dict[int, Any], bound: Any) -> None:
        """Add ``of_w w + sum of columns >= bound``."""
        self.rows_.append((np.asarray(of_w, float), columns, np.asarray(bound, float)))

    def above(self, psi: F64, losses: F64) -> int:
        """Add a column that is at least 0 and ``losses - psi w``."""
        slack = self.column(0.0)
        self.rows(np.vstack([np.zeros(self.dim), psi]), {slack: np.ones(len(losses) + 1)}, np.append(0.0, losses))
        return slack

    def price(self, slack: int, weight: float, power: float) -> None:
        """Add ``weight slack^power``."""
        if power == 1.0:
            self.linear[slack] += weight
        elif power == 2.0:
            self.quadratic[slack] += 2.0 * weight
        else:
            self.powers.append((self.column(weight), slack, power))

    def solve(self) -> tuple[float, F64]:
        """Return (optimal value of the dual, w)."""
        size, blocks, bounds = len(self.linear), [], []
        for of_w, columns, bound in self.rows_:
            block = np.zeros((len(bound), size))
            block[:, : self.dim] = of_w
            for j, values in columns.items():
                block[:, j] = values
            blocks.append(block)
            bounds.append(bound)
        cones: list[Any] = [clarabel.NonnegativeConeT(sum(map(len, bounds)))]
        for top, slack, power in self.powers:
            block = np.zeros((3, size))
            block[0, top], block[2, slack] = 1.0, 1.0
            blocks.append(block)
            bounds.append(np.array([0.0, -1.0, 0.0]))
            cones.append(clarabel.PowerConeT(1.0 / power))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        A, b = sparse.csc_array(-np.vstack(blocks)), -np.concatenate(bounds)
        # In units of the largest price: the solver ends at a small absolute gap, too, and C may be 1e-6.
        largest = max(map(abs, (*self.linear[self.dim :], *self.quadratic[self.dim :])), default=0.0) or 1.0
        for tol, unit in product((1e-10, 1e-8), (largest, 1.0)):  # some problems let it come no closer
            P = sparse.diags_array(np.array(self.quadratic) / unit, format="csc")
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
            found = clarabel.DefaultSolver(P, np.array(self.linear) / unit, A, b, cones, settings).solve()
            if str(found.status) in ("Solved", "AlmostSolved"):
                break
        assert str(found.status) in ("Solved", "AlmostSolved"), found.status
        return unit * float(found.obj_val_dual), np.array(found.x)[: self.dim]


#: The defaults of HiGHS, 1e-7, are seen in powers of values.
ACCURATE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Polytope:
    """The local polytope of an example: a table for each factor of several variables, which agrees with its variables.

    The risk is ``max { (loss + Psi' w) . mu : A mu = b, mu >= 0 } - truth . w``.
    """

    def __init__(self, data: Any, i: int) -> None:
        declaration, inputs, truth = data.model.declaration, data.inputs[i], data.labels[i]
        sizes = naive.sizes_of(declaration, inputs)
        self.at: dict[tuple[Any, ...], int] = {}
        spots = [(y, p) for y in declaration.labels for p in np.ndindex(np.shape(truth[y.name]))]
        for y, p in spots:
            for state in range(y.n_states):
                self.at[y.name, p, state] = len(self.at)
        rows: list[dict[int, float]] = []
        right: list[float] = []
        for y, p in spots:
            rows.append({self.at[y.name, p, state]: 1.0 for state in range(y.n_states)})
            right.append(1.0)
        dim, at = int(sum(np.prod(shape) for shape in data.shapes.values())), len(self.at)
        features = {column: np.zeros(dim) for column in range(at)}
        for factor in declaration.factors:
            unit = _unit_blocks(data, factor)
            for number, (members, where) in enumerate(naive.scopes(factor.target, sizes, inputs)):
                cells = {}
                for states in product(*(range(c) for c in factor.target.cards)):
                    psi = _joint(factor, unit, inputs, where, number, data.grounded.fitted, states)
                    if len(members) == 1:
                        column = self.at[members[0][0], members[0][1], states[0]]
                    else:
                        column = cells[states] = len(features)
                        features[column] = np.zeros(dim)
                    features[column] = features[column] + psi
                for k, (name, p) in enumerate(members if len(members) > 1 else []):
                    for state in range(factor.target.cards[k]):
                        row = {column: 1.0 for states, column in cells.items() if states[k] == state}
                        rows.append(row | {self.at[name, p, state]: -1.0})
                        right.append(0.0)
        self.features = np.array([features[column] for column in range(len(features))]).reshape(len(features), dim)
        self.matrix, self.right = np.zeros((len(rows), len(features))), np.array(right)
        for r, row in enumerate(rows):
            for column, value in row.items():
                self.matrix[r, column] = value
        self.loss = np.zeros(len(features))
        for (name, p, state), column in self.at.items():  # additive losses: change one variable at a time
            changed = {key: np.array(value) for key, value in truth.items()}
            changed[name][p] = state
            self.loss[column] = naive.naive_loss(declaration.loss, truth, changed)
        self.truth = naive.joint_features(declaration, inputs, truth, data.grounded.fitted, data.shapes)

    def risk(self, w: F64) -> tuple[float, F64]:
        """Return the risk and a subgradient."""
        if not len(self.loss):
            return 0.0, np.zeros(len(w))
        scores = self.loss + self.features @ w
        found = linprog(-scores, A_eq=self.matrix, b_eq=self.right, bounds=(0, None), options=ACCURATE)
        assert found.status == 0, found.message
        return float(-found.fun - self.truth @ w), self.features.T @ found.x - self.truth

    def add_dual(self, program: ConeProgram, slack: int) -> None:
        """Add ``slack + truth . w >= b . v``, ``A' v >= loss + features w``."""
        v = [program.column(0.0) for _ in self.right]
        program.rows(self.truth[None], {slack: [1.0], **{j: [-b] for j, b in zip(v, self.right)}}, [0.0])
        if len(self.loss):
            program.rows(-self.features, {j: self.matrix[r] for r, j in enumerate(v)}, self.loss)


def _unit_blocks(data: Any, factor: Any) -> Any:
    """Return the weights of a factor as unit vectors, ``shape (*shape users see, dim)``."""
    eye, at = np.eye(int(sum(np.prod(shape) for shape in data.shapes.values()))), 0
    for name, shape in data.shapes.items():
        size = int(np.prod(shape))
        if name == (factor.tie or factor).name:
            return eye[at : at + size].reshape(*shape, -1)
        at += size
    raise AssertionError(factor.name)


def _joint(
    factor: Any, unit: Any, inputs: Any, where: Any, number: int, fitted: Any, states: tuple[int, ...]
) -> F64:
    """Return the features of one factor in joint states."""
    part = unit[number] if factor.per == "edge" else unit[tuple(where[dim.name] for dim in factor.per)]
    part = part[..., None, :] if factor.features is None else part
    x = naive.feature_vector(factor.features, inputs, where, number, fitted, list(states))
    return x @ (part if factor.joint else naive.form_weights(factor, list(states), part))
