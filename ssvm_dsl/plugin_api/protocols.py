"""What backends and executors implement, and what they are given; trainers: :mod:`ssvm_dsl.plugin_api.training`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.messages import Messages
from ssvm_dsl.ir.need import Limits, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta

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
    n_bytes : float
        About how much memory a session takes at its peak, beside program and scores; the planner refuses what does
        not fit.
    """

    ok: bool
    cost: float = np.inf
    reasons: tuple[str, ...] = ()
    n_bytes: float = 0.0


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
