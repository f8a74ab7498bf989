"""What backends, trainers and executors implement, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.messages import Messages
from ssvm_dsl.ir.need import Limits, Need, Task
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.compiled import CompiledOracle

if TYPE_CHECKING:
    from concurrent.futures import Future

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    """Whether a backend takes a problem.

    Parameters
    ----------
    ok : bool
    cost : float
        Rough number of elementary operations for one pass over the batch; the planner takes the cheapest.
    reasons : tuple of str
        Why not (or what to know).
    """

    ok: bool
    cost: float = np.inf
    reasons: tuple[str, ...] = ()


class Session(Protocol):
    """A backend opened on one program; keeps whatever it prepared, knows no scores."""

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = Limits(),
        k: int = 1,
    ) -> Solution:
        """Answer a question for the selected examples.

        Parameters
        ----------
        theta : Theta
            Scores laid out for the whole program; only those of the selected examples are looked at.
        examples : ndarray of int64, optional
            The examples to answer for; all by default.  The answer is packed in this order.
        task : Task
        clamp : ndarray of int32, shape (V,), optional
            States fixed in advance, -1 where free (task ``map_clamped``).
        warm : object, optional
            ``Solution.warm`` of an earlier call.
        limits : Limits
        k : int
            How many labellings, for the task ``kbest``.
        """


class SumSession(Session, Protocol):
    """A session that adds up marginals as it finds them, for the gradients of smooth risks.

    An offer a session may make; without it marginals come from ``solve``, factor by factor.
    """

    def expect(self, theta: Theta, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Add ``coef_i`` times the marginals of each listed example and return its log partition.

        Parameters
        ----------
        theta : Theta
            Scores, as in ``solve``.
        ids : ndarray of int64, shape (n,)
            Distinct examples.
        coef : ndarray of float64, shape (n,)
        node : ndarray of float64, shape (S,)
            Where to add the marginals of variables; laid out as ``theta.node``.
        tables : sequence of ndarray
            Where to add those of factors; shaped as ``theta.tables``, factors that share a row add up.

        Returns
        -------
        ndarray of float64, shape (n,), or None
            ``-inf`` for examples without a labelling.  ``None``: not for this program; nothing was added.
        """


class CountingSession(Session, Protocol):
    """A session that also finds best labellings by counts; losses that do not add up need it.

    Backends with ``"count"`` in ``Caps.loss_kinds`` open such sessions; ``CountLoss`` and slack rescaling use them.
    """

    def best_by_count(self, theta: Theta, tables: CountTables, examples: I64 | None = None) -> Solution:
        """Return the labelling that is worth most, ``offset[a, b] + scale[a, b] score`` for its counts (a, b).

        Parameters
        ----------
        theta : Theta
        tables : CountTables
            Those of the examples asked for, in that order.
        examples : ndarray of int64, optional

        Returns
        -------
        Solution
            ``score`` is what the labelling is worth (``-inf`` without one), ``bound`` is for what any is worth.
        """


class SlopeSession(Session, Protocol):
    """A session that lowers dual bounds by messages and tells where they are attained.

    Backends that claim ``Caps.messages`` open such sessions; ``Solution.warm`` of their answers is a ``Messages``.
    """

    def slope(self, theta: Theta, ids: I64, warm: Messages) -> Marginals | None:
        """Return a subgradient of the dual bound in the scores, for the messages an earlier call returned.

        Parameters
        ----------
        theta : Theta
        ids : ndarray of int64, shape (n,)
            Distinct examples.
        warm : Messages
            ``Solution.warm`` of a call for these examples.

        Returns
        -------
        Marginals or None
            A state for each variable and, apart from them, a joint state for each factor, as ones and zeros.  With m
            for them, ``bound(theta') >= bound(theta) + <m, theta' - theta>`` for all scores, messages unchanged.
            ``None``: not for this program.
        """


class Backend(Protocol):
    """An inference method."""

    def check(self, need: Need) -> Verdict:
        """Say whether it takes a problem, and at what cost; what ``Caps`` says is checked before."""

    def open(self, program: Program, options: Mapping[str, Any]) -> Session:
        """Prepare for a program."""


class OptionedBackend(Backend, Protocol):
    """A backend whose options decide what it takes, such as a limit on memory.

    An offer a backend may make; the planner then asks ``check_with`` instead of ``check``.
    """

    def check_with(self, need: Need, options: Mapping[str, Any]) -> Verdict:
        """Say whether it takes a problem when opened with these options, and at what cost.

        Parameters
        ----------
        need : Need
        options : mapping
            All options of the spec, defaults filled in, as ``open`` gets them; with the defaults the answer is that
            of ``check``.
        """


class Executor(Protocol):
    """Runs independent calls; results come back in order whatever ran when."""

    def map(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``."""

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Start one call."""

    def close(self) -> None:
        """Give threads or connections back."""


@dataclass(frozen=True, eq=False)
class Planes:
    """Lower bounds of the risks, one for each listed example, kept as labellings.

    The plane of example i is ``risk_i(w) >= loss - scale w . psi`` with ``psi = Phi(x_i, y_i) - Phi(x_i, labels)``.

    Parameters
    ----------
    examples : ndarray of int64, shape (m,)
    ptr : ndarray of int64, shape (m + 1,)
        Where each labelling starts in ``labels``.
    labels : ndarray of int32
        The labellings, packed.
    loss : ndarray of float64, shape (m,)
        Loss of each labelling.
    value : ndarray of float64, shape (m,)
        ``loss - scale w . psi`` at the w of the oracle call: the risk when the oracle is exact.
    bound : ndarray of float64, shape (m,)
        Certified upper bound on the risk at that w; ``nan`` without one.
    scale : ndarray of float64, shape (m,)
        Ones but for slack rescaling, where it is the loss; ones where nothing is given.
    marginals : Marginals, optional
        Instead of labellings (``labels`` is empty): fractional ones, packed over the examples;
        ``psi = Phi(x_i, y_i) - Phi' marginals``, and the loss is that of the marginals.
    """

    examples: I64
    ptr: I64
    labels: I32
    loss: F64
    value: F64
    bound: F64
    scale: F64 = field(default_factory=lambda: np.zeros(0))
    marginals: Marginals | None = None

    def __post_init__(self) -> None:
        if len(self.scale) != len(self.examples):
            object.__setattr__(self, "scale", np.ones(len(self.examples)))


@dataclass(frozen=True, eq=False)
class RiskGradient:
    """Risks of some examples at one w, and a subgradient of their weighted sum (the gradient of smooth risks).

    The plane ``sum_i weight_i risk_i(w')^power >= offset + vector . w'`` holds for all w' and touches at w (with an
    inexact oracle, it touches a lower bound of the risks).

    Parameters
    ----------
    value : ndarray of float64, shape (m,)
        The risks (not raised to the power).
    bound : ndarray of float64, shape (m,)
        Certified upper bounds on them; ``nan`` without.
    vector : ndarray of float64, shape (dim,)
        The receiver's: it may be changed.
    offset : float
    """

    value: F64
    bound: F64
    vector: F64
    offset: float

    @classmethod
    def of(cls, objective: Objective, examples: I64, value: F64, bound: F64, vector: F64, w: F64) -> RiskGradient:
        """Return the gradient at w; the offset follows from the values, so that it is as exact as scores at w are."""
        total = float(np.dot(objective.weight[examples], objective.powered(value)))
        return cls(value, bound, vector, total - float(np.dot(vector, w)))

    @classmethod
    def below(
        cls, objective: Objective, examples: I64, value: F64, bound: F64, vector: F64, at_zero: F64
    ) -> RiskGradient:
        """Return the gradient of risks with planes ``risk_i(w') >= at_zero_i + g_i . w'``.

        In ``offset = sum_i weight_i (value_i^q + q value_i^(q-1) (at_zero_i - value_i))`` are no differences of scores:
        it is true however large w is.

        Parameters
        ----------
        objective, examples, value, bound
            As for ``of``.
        vector : ndarray of float64, shape (dim,)
            ``sum_i weight_i q value_i^(q-1) g_i``.
        at_zero : ndarray of float64, shape (m,)
            The planes at no weights.
        """
        weight, q = objective.weight[examples], objective.power
        terms = at_zero if q == 1.0 else (1.0 - q) * objective.powered(value) + objective.slopes(value) * at_zero
        return cls(value, bound, vector, float(np.dot(weight, terms)))


class Objective(Protocol):
    """``lam/2 sum_j scale_j w_j^2 + 1/n sum_i weight_i risk_i(w)^power`` subject to ``w >= lower``."""

    @property
    def lam(self) -> float:
        """Regularisation strength."""

    @property
    def weight(self) -> F64:
        """Weight of each example's risk; ``shape (n,)``."""

    @property
    def scale(self) -> F64:
        """Relative regularisation of each weight; ``shape (dim,)``."""

    @property
    def lower(self) -> F64:
        """Lower bound of each weight; ``shape (dim,)``."""

    @property
    def power(self) -> float:
        """Each risk is raised to this power; 1 unless the user asked for another."""

    def regularizer(self, w: F64) -> float:
        """Return ``lam/2 sum_j scale_j w_j^2``."""

    def powered(self, risks: F64) -> F64:
        """Return ``risk ** power``."""

    def slopes(self, risks: F64) -> F64:
        """Return the derivative of ``risk ** power``."""

    def primal(self, w: F64, risks: F64) -> float:
        """Return the objective for given risks of all examples."""

    def dual(self, v: F64, b: float) -> float:
        """Return the lower bound of the aggregated plane ``risk >= b - v . w``."""

    def weights(self, v: F64) -> F64:
        """Return the weights that attain the lower bound of an aggregated plane."""


class TrainProblem(Protocol):
    """A trainer's whole world: ``dim`` weights, ``n`` examples, oracles, and counters of what they cost.

    Every risk gives ``value`` and ``gradient``.  Risks that are a maximum over labellings (``smooth`` is False) also
    give their planes: ``oracle``, ``accumulate``, ``evaluate``, ``compiled``; where ``relaxed``, planes hold marginals.
    """

    dim: int
    n: int
    n_oracle_calls: int
    oracle_seconds: float
    smooth: bool
    relaxed: bool

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The layout of w."""

    @property
    def objective(self) -> Objective:
        """The objective."""

    @property
    def parameters(self) -> ParameterMap:
        """The map from weights to scores, with the program."""

    @property
    def loss(self) -> LossTerm:
        """The loss of every labelling, with the truth."""

    def compiled(self) -> CompiledOracle | None:
        """Return the backend's compiled oracle for loss-augmented maximisation, ``None`` without one."""

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples (in a buffer that the next call overwrites)."""

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w."""

    def gradient(self, w: F64, examples: I64 | None = None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum."""

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the most violated plane of each selected example."""

    def accumulate(self, planes: Planes, coef: F64, out: F64) -> F64:
        """Add ``sum_k coef_k scale_k psi_k`` to ``out`` and return it."""

    def evaluate(self, w: F64) -> tuple[float, float, Planes]:
        """Return (objective, certified upper bound or nan, planes of all examples) at w."""


@dataclass(frozen=True)
class StopRule:
    """When training ends.

    Parameters
    ----------
    tol : float
        Relative duality gap, ``(primal - dual) / |primal|``.
    max_passes : float
        Passes over the data with the exact oracle.
    max_seconds : float
    """

    tol: float = 1e-3
    max_passes: float = np.inf
    max_seconds: float = np.inf


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a trainer yields after each outer iteration; the driver stops, reports and keeps the best.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        Current weights (the driver copies what it keeps).
    n_passes : float
        Passes over the data with the exact oracle so far.
    primal : float
        Objective at w; ``nan`` when it was not computed.
    upper : float
        Certified upper bound on the objective at w (equal to ``primal`` with an exact oracle), or ``nan``.
    dual : float
        Certified lower bound on the optimum, or ``-inf``.
    extra : dict
        Counters of the trainer's own, for reports; ``gap_estimate`` and ``dual_estimate`` are shown where there is no
        certificate.
    plane : tuple (v, b), optional
        The aggregated plane whose value is ``dual``: ``1/n sum_i weight_i risk_i(w')^power >= b - v . w'`` for all
        ``w' >= lower``.  With b the certificate holds for other regularisations, too: regularisation paths need it.
        It may be what the trainer goes on with; the driver keeps no vector of it.
    """

    w: F64
    n_passes: float
    primal: float = np.nan
    upper: float = np.nan
    dual: float = -np.inf
    extra: dict[str, float] = field(default_factory=dict)
    plane: tuple[F64, float] | None = None


class Trainer(Protocol):
    """A learning method: a generator of iterates, driven and stopped from outside.

    A trainer whose iterates do not all come with their certificate may have a method ``certified() -> Iterate | None``
    that returns the newest one with it: the driver asks for it when a fit ends by a limit, a callback or Ctrl-C.
    """

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each outer iteration, without end.

        Parameters
        ----------
        problem : TrainProblem
        stop : StopRule
            To know when it pays to compute a certificate; stopping itself is the driver's.
        start : ndarray of float64, shape (dim,), optional
            Weights to start from.
        """


class ResumableTrainer(Trainer, Protocol):
    """A trainer that can be stopped after an iterate and go on later as if it had not been."""

    def state(self) -> dict[str, Any]:
        """Return everything the next iterate depends on: arrays, and values that JSON can hold."""

    def resume(self, problem: TrainProblem, stop: StopRule, state: dict[str, Any]) -> Iterator[Iterate]:
        """Yield the iterates that follow a state."""


@dataclass(frozen=True)
class TrainingEvent:
    """What hook ``ssvm_training_event`` and callbacks are told once per outer iteration.

    Objective values are in the convention the user chose (C or lam).

    Parameters
    ----------
    iteration : int
    n_passes : float
    seconds : float
    primal, dual, gap, relative_gap : float
        ``nan`` where not computed in this iteration.
    best_primal, best_dual : float
        Best so far.
    n_oracle_calls : int
    oracle_seconds : float
    extra : dict
        Numbers of the trainer's own: ``gap_estimate`` and ``dual_estimate``, what it takes the gap of its newest
        weights and the lower bound for, without a certificate; others in lam convention.  ``validation_score`` where
        held-out examples were looked at.
    """

    iteration: int
    n_passes: float
    seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    best_primal: float
    best_dual: float
    n_oracle_calls: int
    oracle_seconds: float
    extra: dict[str, float] = field(default_factory=dict)
