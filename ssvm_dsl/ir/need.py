"""What a problem needs from a backend (``Need``) and what a backend can do (``Caps``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ssvm_dsl.ir.program import Program


class Task(StrEnum):
    """A question to a backend."""

    MAP = "map"
    MAP_CLAMPED = "map_clamped"
    MARGINALS = "marginals"
    KBEST = "kbest"
    RELAXED = "relaxed"


class Topology(IntEnum):
    """Shape of a factor graph, from special to general."""

    CHAIN = 0
    FOREST = 1
    LOOPY = 2

    @property
    def word(self) -> str:
        """The name in ordinary words."""
        return ("disjoint chains", "a forest", "a graph with cycles or large factors")[self]


class Guarantee(StrEnum):
    """What an answer of a backend is worth."""

    EXACT = "exact"
    BOUND = "bound"
    HEURISTIC = "heuristic"

    def covers(self, needed: Guarantee) -> bool:
        """Whether this guarantee is at least as strong as the one needed."""
        strength = [Guarantee.HEURISTIC, Guarantee.BOUND, Guarantee.EXACT]
        return strength.index(self) >= strength.index(needed)


class Warm(StrEnum):
    """What a backend can start from."""

    NONE = "none"
    LABELS = "labels"
    STATE = "state"


@dataclass(frozen=True)
class Limits:
    """When to stop early.

    Parameters
    ----------
    time : float, optional
        Seconds for the whole call.
    iterations : int, optional
        Inner iterations for each example.
    progress : callable, optional
        Slow backends call ``progress(score, bound)`` whenever the best labelling or the bound of the example at
        hand improves (``-inf``, ``inf`` where there is none yet).
    """

    time: float | None = None
    iterations: int | None = None
    progress: Callable[[float, float], None] | None = None


@dataclass(frozen=True)
class Need:
    """What a question asks of a backend; computed from the IR.

    Parameters
    ----------
    tasks : frozenset of Task
        Questions that will be asked.
    topology : Topology
        The most general shape among the examples.
    max_arity : int
        Largest factor.
    max_card : int
        Largest number of states of a variable.
    constraint_kinds, loss_kinds : frozenset of str
        Hard constraints and non-decomposable losses that occur.
    guarantee : Guarantee
        The weakest acceptable guarantee.
    max_variables : int
        Variables of the largest example.
    max_labellings : float
        Labellings of the largest example.
    max_table : int
        Entries of the largest factor table.
    n_examples, n_variables, n_factors : int
        Size of the whole batch.
    max_clique_table : float
        Base-2 logarithm of the largest table that exact elimination of an example needs (an upper bound;
        :mod:`ssvm_dsl.ir.treewidth`).
    properties : frozenset of str
        What is known of all tables, whatever the weights: ``"submodular"``, ``"metric"``, ``"semimetric"``.
    doubts : tuple of (str, str)
        Properties that are not known, and why, in words.
    messages : bool
        Whether messages with their dual bounds are asked for, too.
    n_slots : int
        Variables of all factors together.
    """

    tasks: frozenset[Task] = frozenset({Task.MAP})
    topology: Topology = Topology.CHAIN
    max_arity: int = 1
    max_card: int = 1
    constraint_kinds: frozenset[str] = frozenset()
    loss_kinds: frozenset[str] = frozenset()
    guarantee: Guarantee = Guarantee.EXACT
    max_variables: int = 0
    max_labellings: float = 1.0
    max_table: int = 1
    n_examples: int = 1
    n_variables: int = 1
    n_factors: int = 0
    max_clique_table: float = 0.0
    properties: frozenset[str] = frozenset()
    messages: bool = False
    doubts: tuple[tuple[str, str], ...] = ()
    n_slots: int = 0

    @classmethod
    def of(
        cls,
        program: Program,
        tasks: frozenset[Task] = frozenset({Task.MAP}),
        guarantee: Guarantee = Guarantee.EXACT,
        loss_kinds: frozenset[str] = frozenset(),
        properties: frozenset[str] = frozenset(),
    ) -> Need:
        """Return the need of a program."""
        longest = int(np.diff(program.var_ptr).max(initial=0))
        return cls(
            tasks=tasks,
            topology=program.hardest_topology,
            max_arity=program.max_arity,
            max_card=int(program.card.max(initial=1)),
            constraint_kinds=frozenset(one.kind for one in program.constraints),
            loss_kinds=loss_kinds,
            guarantee=guarantee,
            max_variables=longest,
            max_labellings=_most_labellings(program, longest),
            max_table=max((group.n_configs for group in program.groups), default=1),
            n_examples=program.n_examples,
            n_variables=program.n_variables,
            n_factors=sum(group.n_factors for group in program.groups),
            n_slots=sum(group.n_factors * group.arity for group in program.groups),
            max_clique_table=_clique_table(program),
            properties=properties,
        )

    def asking(self, *tasks: Task) -> Need:
        """Return the same need for other tasks."""
        return replace(self, tasks=frozenset(tasks))

    def __str__(self) -> str:
        parts = [f"{'+'.join(sorted(self.tasks))} on {self.topology.word}"]
        parts.append(f"factors of up to {self.max_arity} variables, up to {self.max_card} states")
        if self.constraint_kinds:
            parts.append(f"constraints {', '.join(sorted(self.constraint_kinds))}")
        if self.loss_kinds:
            parts.append(f"loss {', '.join(sorted(self.loss_kinds))}")
        if self.messages:
            parts.append("messages")
        any_will_do = self.guarantee is Guarantee.HEURISTIC
        parts.append("any guarantee" if any_will_do else f"guarantee {self.guarantee.value}")
        return "; ".join(parts)


def _clique_table(program: Program) -> float:
    """Return the largest table of exact elimination in bits; two variables of a tree make one."""
    if program.hardest_topology < Topology.LOOPY:
        return 2.0 * float(np.log2(program.card.max(initial=1)))
    from ssvm_dsl.ir.treewidth import largest_table

    return largest_table(program)


def _most_labellings(program: Program, longest: int) -> float:
    """Return the number of labellings of the example that has most (``inf`` when it overflows a float)."""
    with np.errstate(over="ignore"):
        if program.uniform_card:
            return float(np.power(float(program.uniform_card), longest))
        log_card = np.concatenate([[0.0], np.cumsum(np.log(program.card))])
        logs = log_card[program.var_ptr[1:]] - log_card[program.var_ptr[:-1]]
        return float(np.exp(logs.max(initial=0.0)))


@dataclass(frozen=True)
class Caps:
    """What a backend can do.

    Parameters
    ----------
    tasks : frozenset of Task
        Questions it answers.
    topology : Topology
        The most general shape it handles.
    guarantee : Guarantee
        ``exact`` (optimal, bound equals score), ``bound`` (a certified upper bound) or ``heuristic`` (none).
    max_arity : int
        Largest factor it handles.
    constraint_kinds, loss_kinds : frozenset of str
        Hard constraints and non-decomposable losses it handles itself.
    requires : frozenset of str
        Properties of the tables it relies on: ``"submodular"``, ``"metric"``, ``"binary"``.
    warm : Warm
        What it can start from.
    messages : bool
        Whether its sessions show the messages of dual bounds (:class:`~ssvm_dsl.plugin_api.SlopeSession`).
    deterministic, thread_safe : bool
        Same answer every time; sessions may be used from several threads at once.
    score_atol : float
        Accuracy of its scores and bounds, relative to the size of what scores are sums of
        (:class:`~ssvm_dsl.ir.tolerance.Terms`).
    """

    tasks: frozenset[Task] = frozenset({Task.MAP})
    topology: Topology = Topology.LOOPY
    guarantee: Guarantee = Guarantee.HEURISTIC
    max_arity: int = 2
    constraint_kinds: frozenset[str] = frozenset()
    loss_kinds: frozenset[str] = frozenset()
    requires: frozenset[str] = field(default_factory=frozenset)
    warm: Warm = Warm.NONE
    messages: bool = False
    deterministic: bool = True
    thread_safe: bool = True
    score_atol: float = 1e-9

    def refusals(self, need: Need) -> list[str]:
        """Return the reasons why these capabilities do not cover a need; empty when they do."""
        out = []
        missing = sorted(need.tasks - self.tasks)
        if missing:
            out.append(f"does not answer {', '.join(missing)}")
        if need.topology > self.topology:
            out.append(f"handles {self.topology.word}, this is {need.topology.word}")
        if need.max_arity > self.max_arity:
            out.append(f"handles factors of up to {self.max_arity} variables, this has {need.max_arity}")
        for what, needed, offered in (
            ("constraints", need.constraint_kinds, self.constraint_kinds),
            ("loss", need.loss_kinds, self.loss_kinds),
        ):
            if needed - offered:
                out.append(f"does not handle {what} {', '.join(sorted(needed - offered))}")
        if need.messages and not self.messages:
            out.append("shows no messages")
        if not self.guarantee.covers(need.guarantee):
            out.append(f"its answers are {self.guarantee.value}, asked for {need.guarantee.value}")
        if "binary" in self.requires and need.max_card > 2:
            out.append("handles two states only")
        unknown = sorted(self.requires - {"binary"} - need.properties) if need.max_arity > 1 else []
        if unknown:
            why = dict(need.doubts).get(unknown[0], "")
            out.append(f"relies on {', '.join(unknown)} tables, which nothing guarantees here{why and f': {why}'}")
        return out
