"""The interfaces of backends; those of trainers are in :mod:`ssvm_dsl.plugin_api.training`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.ir.need import Ability, Caps, Need
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import DualBound, Marginals, Solution
from ssvm_dsl.values import Value

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Verdict(Value):
    """Whether a backend takes a problem.

    Parameters
    ----------
    ok : bool
    cost : float
        Rough number of elementary operations for one pass over the batch.  The planner takes the least expected
        time: ``cost / BackendSpec.speed``.
    reasons : tuple of str
        Reasons for a refusal, or remarks.
    n_bytes : float
        About how much memory a session takes at its peak, besides program and scores; the planner refuses what does
        not fit.
    """

    ok: bool
    cost: float = np.inf
    reasons: tuple[str, ...] = ()
    n_bytes: float = 0.0


@runtime_checkable
class Session(Protocol):
    """A backend opened on one program.  The session keeps its preparation, and gets scores with each question."""

    def solve(self, question: Question) -> Solution:
        """Answer a question.  The answer is packed over the requested examples, in their order.

        The clock of ``question.limits.time`` starts with the call and includes preparation.  Where
        time is up the session returns its best answer so far, ``Primal.NONE`` for examples without a labelling.

        Raises
        ------
        OutOfTime
            There was no time for anything: no example has an answer, and the host returns its own labellings.
        """


@runtime_checkable
class SumSession(Session, Protocol):
    """A session that adds up marginals as it finds them, for the gradients of smooth risks.

    What ``Ability.SUMMED_MARGINALS`` announces; without it marginals come from ``solve``, factor by factor.
    """

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Add ``coef_i`` times the marginals of each example asked for and return its log partition.

        Parameters
        ----------
        question : Question
            Scores and examples, for the task ``marginals``; no clamp.
        coef : ndarray of float64, shape (n,)
        node : ndarray of float64, shape (S,)
            Array to add the marginals of variables to, in the layout of ``theta.node``.  Variables that are not in
            ``question.variables`` may be left out.
        tables : sequence of ndarray
            Where to add those of factors; shaped as ``theta.tables``, factors that share a row add up.

        Returns
        -------
        ndarray of float64, shape (n,), or None
            ``-inf`` for examples without a labelling.  ``None``: not for this program; nothing was added.
        """


@runtime_checkable
class CountingSession(Session, Protocol):
    """A session that also finds best labellings for given counts, which losses of counts need.

    What ``Ability.COUNTS`` announces; ``CountLoss`` and slack rescaling ask for it.
    """

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Return the labelling that is worth most, ``offset[a, b] + scale[a, b] score`` for its counts (a, b).

        Parameters
        ----------
        question : Question
            Scores and examples; no clamp.
        tables : CountTables
            Those of the examples asked for, in that order.  Only backends that take factors of spans are asked with
            ``factors``.

        Returns
        -------
        Solution
            ``score`` is the score of the labelling (``-inf`` without one), ``bound`` an upper bound of all scores.
        """


@runtime_checkable
class CompiledSession(Session, Protocol):
    """A session whose best labellings trainers can ask for inside their own kernels.

    What ``Ability.COMPILED`` announces; without it trainers call ``solve`` on batches.
    """

    def compiled(self) -> CompiledOracle | None:
        """Return the compiled oracle; ``None``: not for this program."""


@runtime_checkable
class MessageSession(Session, Protocol):
    """A session that lowers dual bounds by messages, keeps them, and returns where the bounds are attained.

    What ``Ability.MESSAGES`` announces: ``Solution.warm`` of its answers is a :class:`~ssvm_dsl.ir.Messages`.  The
    trainer ``dlpw`` works on such messages.
    """

    def slope(self, question: Question) -> Marginals | None:
        """Return a subgradient of the dual bound in the scores, for the messages an earlier call returned.

        Parameters
        ----------
        question : Question
            Scores and examples; ``warm`` is a :class:`~ssvm_dsl.ir.Messages`, ``Solution.warm`` of a call for these
            examples.

        Returns
        -------
        Marginals or None
            A state for each variable and, apart from them, a joint state for each factor, as ones and zeros.  With m
            for them, ``bound(theta') >= bound(theta) + <m, theta' - theta>`` for all scores, messages unchanged.
            ``None``: not for this program.
        """

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the same for callers that have compiled kernels; ``None``: not offered, or not for this program."""


@runtime_checkable
class DualBoundSession(MessageSession, Protocol):
    """A message session that lowers bounds, and returns where they are attained, in one call.

    The method is optional.  Maxima in its bounds may be soft, ``T log sum exp(. / T)`` at a temperature T; and messages
    may be those of any decomposition, in which a variable is in several parts that need not choose the same state.
    Where it returns ``None``, trainers call ``solve`` and ``slope``.
    """

    def dual_bound(self, question: Question) -> DualBound | None:
        """Lower dual bounds by messages, and return them.

        Parameters
        ----------
        question : Question
            Scores and examples; ``warm`` is a :class:`~ssvm_dsl.ir.Messages` or ``None``, ``limits.iterations`` the
            number of passes over all messages; 0 for the bounds of these messages.

        Returns
        -------
        DualBound or None
            For these messages the bounds are convex in the scores, with the marginals for a subgradient.
            ``None``: ``slope`` says as much, or not for this program.
        """


#: What a session with an ability has to be, and its methods in words.
ABILITIES: Mapping[Ability, tuple[Any, str]] = {
    Ability.SUMMED_MARGINALS: (SumSession, "expect()"),
    Ability.COUNTS: (CountingSession, "best_by_count()"),
    Ability.COMPILED: (CompiledSession, "compiled()"),
    Ability.MESSAGES: (MessageSession, "slope() or compiled_messages()"),
}


def missing_methods(session: object, caps: Caps) -> str:
    """Return a sentence on methods that a session lacks although its backend announces them; empty if it has all."""
    if not isinstance(session, Session):
        return f"open() returned a {type(session).__name__}, expected a session with solve()"
    for ability in sorted(caps.abilities):
        kind, methods = ABILITIES[ability]
        if not isinstance(session, kind):
            return f"Caps announce the ability '{ability}', but its session lacks {methods}"
    return ""


class Backend(Protocol):
    """An inference method."""

    def check(self, need: Need) -> Verdict:
        """Return whether the backend takes a problem, and at what cost.  The host has checked ``Caps`` before.

        ``need.options`` are all options that ``open`` would get, for backends whose options decide what they take.
        """

    def open(self, program: Program, options: Mapping[str, Any]) -> Session:
        """Prepare for a program."""


class Executor(Protocol):
    """Runs independent calls and returns their results in the order of the calls."""

    def map(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``."""

    def share(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return the same for short calls, the last of which the caller makes."""

    def close(self) -> None:
        """Give threads or connections back."""


# -- for trainers that stay inside one compiled kernel -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CompiledOracle:
    """An oracle that trainers call inside their own compiled kernels, one example at a time.

    What a :class:`CompiledSession` returns; a ``numba.cfunc`` of the signature
    :data:`ssvm_dsl.kernels.SIGNATURE`::

        score = function(ints, longs, example, pool, node, labels, work)

    that writes the best labelling of one example to ``labels`` and returns its score (without the constant): ``-inf``
    where there is none, ``nan`` where it has no answer at these scores; then ``solve`` is asked, which says why.
    ``pool`` and ``node`` are those of a :class:`~ssvm_dsl.ir.Theta`, with ``-inf`` at states masks rule out.
    It may allocate arrays.  :func:`ssvm_dsl.kernels.pack` puts arrays of several types into ``ints`` and
    ``longs``.

    Parameters
    ----------
    function : numba cfunc
    ints : ndarray of int32
        Whatever structure the function needs.
    longs : ndarray of int64
        Likewise.
    work_size : int
        Floats of work space it needs.
    operations : float
        Multiply-adds, or what takes as long, of an average call, besides reading each score once.  Trainers decide by
        it how often to call, and when to read the clock.
    finite : bool
        Whether it takes finite scores only: it is not called where states or joint states are ruled out.
    """

    function: Any
    ints: I32
    longs: I64
    work_size: int
    operations: float = 0.0
    finite: bool = False


@dataclass(frozen=True, eq=False)
class CompiledMessages:
    """Message passing that trainers call inside their own compiled kernels, one example at a time.

    What a :class:`MessageSession` may return; without it trainers call ``solve`` and ``slope``.  It is a
    ``numba.cfunc`` of the signature :data:`ssvm_dsl.kernels.MESSAGE_SIGNATURE`::

        bound = function(ints, longs, reals, example, pool, node, passes, messages, choices, work)

    that improves the messages of one example in place, some passes over all of them, and returns the dual bound they
    give (without the constant).  It writes where the bound is attained to ``choices``: the state of each variable,
    then the joint state of each factor, one group of the program after the other.  ``pool`` and ``node`` are those of
    a :class:`~ssvm_dsl.ir.Theta` and finite.

    With ``soft`` the maxima of the bound are soft.  The function then has the signature
    :data:`ssvm_dsl.kernels.SOFT_MESSAGE_SIGNATURE` and writes the gradient of the bound in the
    scores in place of choices: numbers that sum to one for the states of each variable, then for the joint states of
    each factor.

    Parameters
    ----------
    function : numba cfunc
    ints : ndarray of int32
        Whatever structure the function needs.
    longs : ndarray of int64
        Likewise.
    reals : ndarray of float64
        Likewise.
    message_ptr : ndarray of int64, shape (B + 1,)
        Where the messages of each example start when all lie one after the other; zeros are a start.
    work_size : int
        Floats of work space it needs.
    soft : bool
        Whether maxima are soft.
    """

    function: Any
    ints: I32
    longs: I64
    reals: F64
    message_ptr: I64
    work_size: int
    soft: bool = False


# -- commands and readers of files ---------------------------------------------------------------------------------
#
# What commands and readers of files implement (``CommandSpec``, ``ReaderSpec``): what ``ssvm`` calls.
#
# Standard output holds the answer of a command; all other output goes to standard error.  So a command
# writes through the :class:`Screen` that it is given.


class Screen(Protocol):
    """The output of a command.  The host passes it to ``Command.run``."""

    def text(self, text: str, style: str = "") -> None:
        """Write a line of the answer in a style of rich, such as ``"bold"``."""

    def table(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], unbroken: Iterable[str] = ()
    ) -> None:
        """Write a table, in which cells of the columns named in ``unbroken`` are never split over lines."""

    def json(self, value: Any) -> None:
        """Write plain data as JSON: the whole answer of a command that was asked for JSON."""

    def note(self, text: str, style: str = "") -> None:
        """Write a line to standard error: warnings, and files that were written."""

    def progress(self, name: str) -> AbstractContextManager[Callable[[str, float], None]]:
        """Show how far the work is, on standard error.

        The context gives a function that is called with what is done now and the share of the work that is done.
        """


@runtime_checkable
class Command(Protocol):
    """A subcommand of ``ssvm``; the factory of a ``CommandSpec`` makes one, without arguments."""

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of the command to its parser."""

    def run(self, args: Namespace, screen: Screen) -> int:
        """Do the work and return the exit status: 0 all is well, 1 the answer is no, 2 it could not be done."""


# -- readers of files ----------------------------------------------------------------------------------------------


class ReadLimits(Protocol):
    """How much memory a file may ask for; files come from strangers, too."""

    @property
    def n_bytes(self) -> int:
        """Length of the content, which the host has looked at."""

    @property
    def n_entries(self) -> int:
        """States of all variables and entries of all tables together: compare what a file announces with it."""


class ProblemReader(Protocol):
    """A reader of factor graphs with scores, for ``ssvm solve`` and ``read_problem``: a function, or a class with it.

    It raises :class:`~ssvm_dsl.errors.FileFormatError` for a file that is not of the format, and names the file, the
    line, what was expected and what was found.
    """

    def read(self, source: str, content: bytes, limits: ReadLimits) -> GraphProblem:
        """Return the problem of a file.

        Parameters
        ----------
        source : str
            The name of the file, for messages.
        content : bytes
            Unpacked, where the file was packed.
        limits : ReadLimits
        """


class ReadSettings(Protocol):
    """How a file of examples is read: what the user asked for, or what was learnt from the training data."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The option ``--label``: names of what is to be predicted."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs of the user's model; empty for ready models."""


class ExamplesReader(Protocol):
    """A reader of examples and labels, for ``ssvm train``, ``ssvm predict`` and ``read_examples``.

    A function, or a class with ``read`` that is made without arguments.
    """

    def read(self, source: str, settings: ReadSettings) -> tuple[Any, Any]:
        """Return the examples and the labels of a file, as ``fit`` takes them; labels are ``None`` if there are none.

        Parameters
        ----------
        source : str
            The path as the user gave it; ``"-"`` is standard input.
        settings : ReadSettings
        """


@runtime_checkable
class AnswersWriter(Protocol):
    """An optional method of a class of :class:`ExamplesReader`: predictions in the same format.

    Without it ``ssvm predict`` writes a line of JSON for each example.
    """

    def write_answers(self, out: str, data: Any, predicted: Sequence[Any]) -> None:
        """Write predicted labels.

        Parameters
        ----------
        out : str
            A path; ``"-"`` is standard output.
        data : object
            The examples, ``data.X``, and the file that they came from, ``data.source``.
        predicted : sequence
            The labels of each example.
        """
