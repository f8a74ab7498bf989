"""Training problems that answer more questions, for trainers that ask for it (``TrainerNeeds``)."""

from __future__ import annotations

from typing import Protocol

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.messages import Messages
from ssvm_dsl.plugin_api.kinds.compiled import CompiledMessages
from ssvm_dsl.plugin_api.training import Planes, TrainProblem


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
