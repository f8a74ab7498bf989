"""The interfaces of trainers and risks, and their arguments: problems, planes, gradients, iterates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Marginals, Messages, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.values import Value, same

T = TypeVar("T")


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
    """``sum_j scale_j (lam/2 w_j^2 + l1 |w_j|) + 1/n sum_i weight_i risk_i(w)^power`` subject to ``w >= lower``."""

    @property
    def lam(self) -> float:
        """Regularisation strength; 0 only for trainers that take an L1 penalty, beside which it may be 0."""

    @property
    def l1(self) -> float:
        """Strength of the L1 penalty; 0 for trainers that do not take one (``TrainerNeeds.l1``)."""

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
    def hard(self) -> bool:
        """Whether all risks must be 0; only for trainers that find hard margins (``TrainerNeeds.hard``)."""

    @property
    def power(self) -> float:
        """The power to which each risk is raised; 1 by default."""

    def regularizer(self, w: F64) -> float:
        """Return ``sum_j scale_j (lam/2 w_j^2 + l1 |w_j|)``."""

    def powered(self, risks: F64) -> F64:
        """Return ``risk ** power``."""

    def slopes(self, risks: F64) -> F64:
        """Return the derivative of ``risk ** power``."""

    def primal(self, w: F64, risks: F64) -> float:
        """Return the objective for given risks of all examples."""

    def dual(self, v: F64, b: float) -> float:
        """Return the lower bound of the aggregated plane ``risk >= b - v . w``."""

    def bound(self, v: F64, b: float) -> float:
        """Return the lower bound of the plane or, with an L1 penalty, the best one of ``t (b - v . w)``, t <= 1."""

    def weights(self, v: F64) -> F64:
        """Return the weights that attain ``dual``; 0 if ``lam`` is 0."""

    def of_some(self, places: I64) -> Objective:
        """Return the same objective of some weights alone, the others being 0."""


#: What a trainer does with the examples of one shard: ``step(problem, memory, *given)``.  A function that can be
#: imported.  ``problem`` is the :class:`TrainProblem` of these examples, with the objective of all of them; ``memory``
#: is a dict that stays with the shard until its process is lost; it is empty then.
ShardStep = Callable[..., Any]


class ShardSteps(Protocol):
    """The shards of a problem whose examples are elsewhere: where a trainer's own steps run."""

    @property
    def sizes(self) -> I64:
        """Number of examples of each shard; ``shape (n_shards,)``."""

    @property
    def keeps(self) -> bool:
        """Whether shards stay open, with their ``memory``, until the executor needs the room."""

    def each(self, step: ShardStep, given: Sequence[tuple[Any, ...]], which: I64 | None = None) -> list[Any]:
        """Return ``step(problem, memory, *given[s])`` of every shard s, or of some, in order.

        Nothing travels that is as long as n.

        Steps may be repeated, on a shard that was opened again: what depends on ``memory`` looks whether it is there.
        """


class TrainProblem(Protocol):
    """The interface of a training problem to a trainer: ``dim`` weights, ``n`` examples, oracles and cost counters.

    Every risk gives ``value`` and ``gradient``.  Risks that are a maximum over labellings (``smooth`` is False) also
    give their planes: ``oracle``, ``accumulate``, ``evaluate``, ``compiled``; where ``relaxed``, planes hold marginals.
    Risks grow with the weights like their power ``degree``: 2 for sums of squares, whose slopes have no bound.
    """

    dim: int
    n: int
    n_oracle_calls: int
    oracle_seconds: float
    smooth: bool
    relaxed: bool
    degree: float

    @property
    def shards(self) -> ShardSteps | None:
        """Where the examples are, if they are not here: then there are values, gradients and curvature, no planes."""

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

    def seconds(self) -> float:
        """Return the time on a clock that stands still while kernels are compiled, for ``oracle_seconds``."""

    def pause(self, ahead: float = 0.0) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` when the fit's time is up.

        Oracle calls do so themselves.  Trainers call it between steps of their own work, each some milliseconds long;
        Ctrl-C comes through there, too.

        Parameters
        ----------
        ahead : float
            Seconds that the next piece is expected to take, where nothing can cut it short: it is not begun unless
            there is so much time.
        """

    def side_by_side(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``; the threads of the fit share the parts.

        The functions are independent of each other: what a fit comes to depends on the parts, not on the threads.
        """

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return the backend's compiled oracle for loss-augmented maximisation, ``None`` without one.

        Parameters
        ----------
        tables : bool
            Whether the caller's kernel adds what joint states score that no weight multiplies: prices of a loss and
            given scores (:func:`ssvm_dsl.plugin_api.fixed_tables`).  Without it, there is no oracle for problems that
            have such scores.
        """

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples (in a buffer that the next call overwrites)."""

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w."""

    def gradient(self, w: F64, examples: I64 | None = None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum.

        Examples come in any order; one that is listed several times counts as often.
        """

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the most violated plane of each selected example.

        Examples come in any order; one that is listed several times is answered once, and its plane is listed as often.
        """

    def curvature(self) -> F64:
        """Return a guess of ``sum_i d^2 risk_i / dw_j^2`` of smooth risks at no weights; the receiver's."""

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
    """The state that a trainer yields after each outer iteration; the driver reports it and decides when to stop.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        Current weights; the driver copies the weights that it keeps.
    n_passes : float
        Passes over the data with the exact oracle so far.
    primal, upper : float
        What ``problem.value(w)`` or ``problem.evaluate(w)`` returned for these weights: the objective with the answers
        found, and its certified upper bound; ``nan`` when it was not computed.  The driver takes the values that the
        problem computed; numbers that come from elsewhere are estimates, until they would end the fit: then it asks.
    dual : float
        Lower bound on the optimum, or ``-inf``.  It counts with its ``plane``; without one it is an estimate.
    extra : dict
        Counters of the trainer's own, for reports; ``gap_estimate`` and ``dual_estimate`` are shown where there is no
        certificate.
    plane : tuple (v, b), optional
        The aggregated plane whose value is ``dual``: ``1/n sum_i weight_i risk_i(w')^power >= b - v . w'`` for all
        ``w' >= lower``.  The driver computes the lower bound from it, and compares it with the risks at the weights of
        every iterate that was evaluated; that it holds at all others rests with the trainer.  With b the certificate
        holds for other regularisations, too: regularisation paths need it.  It may be what the trainer goes on with;
        the driver keeps no vector of it.
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

    All other abilities are declared in its :class:`~ssvm_dsl.plugin_api.TrainerSpec`; methods are not probed for.
    """

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each outer iteration, without end.

        Parameters
        ----------
        problem : TrainProblem
        stop : StopRule
            Stopping rule of the driver, from which a trainer can tell when a certificate is worth computing.
        start : ndarray of float64, shape (dim,), optional
            Weights to start from.
        """


class ConcludingTrainer(Trainer, Protocol):
    """A trainer whose iterates do not all come with their certificate (``TrainerSpec(concluding=True)``)."""

    def certified(self) -> Iterate | None:
        """Return the newest iterate with its plane; ``None`` if the iterate already came with its plane.

        Asked when a fit ends by a limit, a callback or Ctrl-C, inside an iteration, too.  There may be no time left: an
        iterate whose objective was not computed is evaluated by the driver, as far as there is time for it.
        """


class AnytimeTrainer(Trainer, Protocol):
    """A trainer whose weights improve within an iteration (``TrainerSpec(anytime=True)``)."""

    def newest(self) -> F64 | None:
        """Return the current weights; ``None`` if they are those of the last iterate.

        Asked when a limit or Ctrl-C ends the fit inside the first iteration, so that nothing is known of any weights.
        """


class ResumableTrainer(Trainer, Protocol):
    """A trainer that can resume after an iterate with the same results (``TrainerSpec(resumable=True)``)."""

    def state(self) -> dict[str, Any]:
        """Return everything the next iterate depends on: arrays, and values that JSON can hold."""

    def resume(self, problem: TrainProblem, stop: StopRule, state: dict[str, Any]) -> Iterator[Iterate]:
        """Yield the iterates that follow a state."""


class IncrementalTrainer(Trainer, Protocol):
    """A trainer that learns from a stream (``TrainerSpec(incremental=True)``, ``partial_fit``)."""

    def partial(self, problem: TrainProblem, state: dict[str, Any] | None = None) -> tuple[F64, dict[str, Any]]:
        """Learn one pass over more examples.

        A new trainer with the same options may be asked each time, in another process, too: what it goes on from is
        in the state.

        Parameters
        ----------
        problem : TrainProblem
            The new examples.
        state : dict, optional
            What the last call returned (the receiver's); ``None`` at first.

        Returns
        -------
        (weights, state)
            The state holds everything the next call depends on: arrays, and values that JSON can hold.
        """


@dataclass(frozen=True, eq=False)
class TrainingEvent(Value):
    """The argument of the hook ``ssvm_training_event`` and of callbacks, once per outer iteration.

    Objective values are in the convention the user chose (C or lam).

    Parameters
    ----------
    iteration : int
    n_passes : float
    seconds : float
    primal : float
        Objective at the iterate's weights, or a certified upper bound of it where the oracle gives bounds; ``nan``
        where it was not computed in this iteration, and with a heuristic oracle.
    dual : float
        Lower bound of the iterate's plane; ``-inf`` without one.
    gap, relative_gap : float
        Relative gap of the best weights so far; ``nan`` if unknown.
    best_primal, best_dual : float
        Best so far.
    n_oracle_calls : int
    oracle_seconds : float
    extra : dict
        Numbers of the trainer's own: ``gap_estimate`` and ``dual_estimate``, what it takes the gap of its newest
        weights and the lower bound for, without a certificate; others in lam convention.  ``validation_score`` where
        held-out examples were scored.
    estimate : float
        Objective with the labellings that the oracle found: ``primal`` when it is exact, else at most that; ``nan``
        where it was not computed in this iteration.
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
    estimate: float = np.nan

    def model(self) -> Any:
        """Return an estimator with the best weights so far, which predicts and can be saved.

        Only while the fit calls callbacks: histories keep numbers alone.

        Raises
        ------
        OptionError
            The event is one of a history.

        Examples
        --------
        >>> svm.set_params(callbacks=[lambda event: event.model().save("newest.ssvm")]).fit(X, Y)
        """
        raise OptionError("model(): only the event that a callback is called with has a model, not those of a history")


@dataclass(frozen=True, eq=False)
class RunningEvent(TrainingEvent):
    """The event of a running fit.

    Parameters
    ----------
    make : callable
        Returns an estimator with the best weights so far.
    """

    make: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)

    def __eq__(self, other: object) -> bool:
        """Whether another event says the same, one that is kept in a report too."""
        if not isinstance(other, TrainingEvent):
            return NotImplemented
        return all(same(getattr(self, one.name), getattr(other, one.name)) for one in fields(TrainingEvent))

    __hash__ = TrainingEvent.__hash__

    def model(self) -> Any:
        """Return an estimator with the best weights so far."""
        return self.make()


# -- risks of plug-ins (``RiskSpec``) -------------------------------------------------------------------------------


class RiskContext(Protocol):
    """The arguments of a risk: the data, the objective, and the backend."""

    @property
    def parameters(self) -> ParameterMap:
        """The map from weights to scores, with the program (``parameters.program``)."""

    @property
    def loss(self) -> LossTerm:
        """The loss that ``RiskSpec.loss`` names, with the truth."""

    @property
    def objective(self) -> Objective:
        """The objective: weights of examples, and the power that each risk is raised to."""

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that is the receiver's until the next call."""

    def ask(self, question: Question) -> Solution:
        """Return the backend's answer, which ends with the time of the fit."""

    def pause(self) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` when the fit's time is up, as :meth:`ask` also does."""


class GradientRisk(Protocol):
    """A convex risk, of no example below zero, known by values and subgradients."""

    def gradient(self, w: F64, examples: I64) -> RiskGradient:
        """Return the risks of some examples and a subgradient of the weighted sum of their powers.

        The host checks shapes, that no risk is negative, and that the plane touches at w.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, shape (m,)
            Distinct examples.
        """


class PlaneRisk(Protocol):
    """A risk that is a maximum over labellings, known by its most violated planes."""

    def oracle(self, w: F64, examples: I64) -> Planes:
        """Return the most violated plane of each example, that of the truth (of value 0) where no other is above it.

        The host computes ``value`` from loss, scale and labels again, and checks that it is not negative and not above
        ``bound``.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, shape (m,)
            Distinct examples.
        """


# -- problems that answer more questions, for trainers that ask for it (``TrainerNeeds``) --------------------------


class MessageProblem(TrainProblem, Protocol):
    """A problem of the risk ``relaxed``, for trainers that work on messages (``TrainerNeeds.messages``).

    Attributes
    ----------
    smoothing : ndarray of float64, shape (n,)
        By how much soft maxima raise each risk at most; zeros for plain ones.
    """

    smoothing: F64

    def dual_losses(self, w: F64, ids: I64, warm: Messages | None, passes: int) -> tuple[Planes, Messages]:
        """Return dual losses of some examples after a few passes of message passing, and the messages.

        ``value`` is the dual loss, an upper bound of the relaxed risk, and ``accumulate`` adds the negative of its
        subgradient in w (messages fixed).
        """

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the backend's compiled message passing, ``None`` without it or where states are ruled out."""


class MixtureProblem(TrainProblem, Protocol):
    """A problem of margin rescaling, for trainers that ask for marginals (``TrainerNeeds.tasks``)."""

    def mixed_plane(self, u: F64, t: float, example: int) -> tuple[F64, float]:
        """Return (E psi, E loss) of an example under ``q(y) ~ exp(t loss(y) + u . Phi(x, y))``.

        They mix the planes of all labellings: ``risk(w) >= E loss - w . E psi`` for all w.

        Parameters
        ----------
        u : ndarray of float64, shape (dim,)
        t : float
        example : int
        """


class PredictingProblem(TrainProblem, Protocol):
    """A problem whose risk is a maximum over labellings, for trainers that also need predictions."""

    def predicted(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the planes of the labellings of the highest score, without the loss.

        ``value`` is that of these planes, at most the risk, and ``bound`` is ``nan``.
        """
