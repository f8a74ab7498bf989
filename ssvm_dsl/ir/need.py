"""The requirements of a problem (``Need``) and the capabilities of a backend (``Caps``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.constraints import ConstraintGroup

#: Sizes of a batch that are added up over its examples, and the binary digits that planning looks at.
SIZES, DIGITS = ("n_examples", "n_variables", "n_factors", "n_slots", "n_shapes"), 6


class Task(StrEnum):
    """A question to a backend."""

    MAP = "map"
    MAP_CLAMPED = "map_clamped"
    MARGINALS = "marginals"
    KBEST = "kbest"
    RELAXED = "relaxed"


class Guarantee(StrEnum):
    """The guarantee of a backend's answers."""

    EXACT = "exact"
    BOUND = "bound"
    HEURISTIC = "heuristic"

    def covers(self, needed: Guarantee) -> bool:
        """Whether this guarantee is at least as strong as the one needed."""
        strength = [Guarantee.HEURISTIC, Guarantee.BOUND, Guarantee.EXACT]
        return strength.index(self) >= strength.index(needed)


class Warm(StrEnum):
    """The kind of warm start of a backend."""

    NONE = "none"
    LABELS = "labels"
    STATE = "state"


class Ability(StrEnum):
    """Optional abilities of sessions beyond ``solve``; each is a protocol of :mod:`ssvm_dsl.plugin_api`.

    ``SUMMED_MARGINALS``
        Marginals that are added up as they are found (:class:`~ssvm_dsl.plugin_api.SumSession`).
    ``COUNTS``
        Best labellings by counts (:class:`~ssvm_dsl.plugin_api.CountingSession`).
    ``COMPILED``
        A compiled oracle (:class:`~ssvm_dsl.plugin_api.CompiledSession`).
    ``MESSAGES``
        The messages of dual bounds (:class:`~ssvm_dsl.plugin_api.MessageSession`).
    """

    SUMMED_MARGINALS = "summed_marginals"
    COUNTS = "counts"
    COMPILED = "compiled"
    MESSAGES = "messages"

    @property
    def word(self) -> str:
        """The ability in words."""
        return {
            "summed_marginals": "add up marginals",
            "counts": "find best labellings by counts",
            "compiled": "offer a compiled oracle",
            "messages": "expose dual messages",
        }[self.value]


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

    def begin(self) -> Callable[[], bool]:
        """Start the clock; return a function for whether time is up: ``over = limits.begin()``, later ``over()``."""
        if self.time is None:
            return lambda: False
        end = perf_counter() + self.time
        return lambda: perf_counter() >= end


@dataclass(frozen=True)
class Need:
    """The requirements of a question, computed from the IR.

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
    constraint_kinds : frozenset of str
        Hard constraints that occur.
    max_constraints : int
        Most hard constraints of an example.
    max_count : int
        Of hard bounds on counts, how far one has to count at most: up to its bound, or up to how many literals may be
        false, whichever is less; 0 for bounds that rule nothing out.
    shared_literals : bool
        Whether a variable is in several literals of hard constraints.
    segmented : bool
        Whether all hard constraints are segmentations whose variables stand in runs, which factors keep to
        (:mod:`ssvm_dsl.ir.analysis.segments`).
    free_variables : bool
        Whether some variable is in no literal of a hard constraint.
    of_spans : bool
        Whether factors score segments whose spans are no variables (:class:`~ssvm_dsl.ir.Group`, kind ``"spans"``).
    without_rows : bool
        Whether some hard constraint is a user's own class (``Custom``), of which no linear rows are known.
    cyclic : bool
        Whether literals that are arcs of a graph (``tail``, ``head``) can form a cycle.
    abilities : frozenset of Ability
        Required abilities: ``counts`` for losses that do not add up over variables, ``messages`` by
        trainers that work on dual bounds.
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
        :mod:`ssvm_dsl.requirements.treewidth`).
    properties : frozenset of str
        Properties of all tables for any weights: ``"submodular"``, ``"metric"``, ``"semimetric"``.
    doubts : tuple of (str, str)
        Properties that are not known, and why, in words.
    share : float
        Which share of the factors a backend has before it at a time (:mod:`ssvm_dsl.ir.analysis.chunks`).
    n_slots : int
        Variables of all factors together.
    crowding : float
        How many factors the variables of a factor are in, on average: of a dense part, however many variables of few
        factors (those of a bridge, say) there are beside it.  At most the bits of ``max_clique_table``: variables of
        many factors that can be eliminated make nothing dense.
    n_shapes : int
        Graphs that differ, among those of the examples.
    options : mapping
        All options that the backend will be opened with, defaults filled in; only in the need that a backend's
        ``check`` is given.
    declared : str
        What the user declared, in words, where the program looks different: segments, pointers.  Empty elsewhere.
    joined : str
        The declared targets that join variables, such as ``"chain(y), pairs(y, W)"``; empty where that is not known.
    constraints : tuple of ConstraintGroup
        The hard constraints, for backends that take some of a kind only: ``group.kind``, and the numbers of each in
        ``group.meta``.  Needs are compared without them.
    """

    tasks: frozenset[Task] = frozenset({Task.MAP})
    topology: Topology = Topology.CHAIN
    max_arity: int = 1
    max_card: int = 1
    constraint_kinds: frozenset[str] = frozenset()
    max_constraints: int = 0
    max_count: int = 0
    shared_literals: bool = False
    segmented: bool = False
    free_variables: bool = True
    of_spans: bool = False
    without_rows: bool = False
    cyclic: bool = False
    abilities: frozenset[Ability] = frozenset()
    guarantee: Guarantee = Guarantee.EXACT
    max_variables: int = 0
    max_labellings: float = 1.0
    max_table: int = 1
    n_examples: int = 1
    n_variables: int = 1
    n_factors: int = 0
    max_clique_table: float = 0.0
    properties: frozenset[str] = frozenset()
    share: float = 1.0
    doubts: tuple[tuple[str, str], ...] = ()
    n_slots: int = 0
    crowding: float = 0.0
    n_shapes: int = 1
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    declared: str = ""
    joined: str = ""
    constraints: tuple[ConstraintGroup, ...] = field(default=(), repr=False, compare=False)

    def numbers(self, kind: str, name: str) -> NDArray[Any]:
        """Return a number of all hard constraints of a kind, such as ``need.numbers("matching", "row_most")``.

        Parameters
        ----------
        kind, name : str
            One of its ``ConstraintSpec.parameters``.

        Returns
        -------
        ndarray, shape (number of such constraints,)
        """
        values = [group.meta[name] for group in self.constraints if group.kind == kind]
        return np.concatenate(values) if values else np.zeros(0)

    def asking(self, *tasks: Task) -> Need:
        """Return the same need for other tasks."""
        return replace(self, tasks=frozenset(tasks))

    def rounded(self) -> Need:
        """Return the need of batches of about this size, sizes rounded up by at most 3 %: they share a plan."""
        sizes: dict[str, Any] = {}
        for name in SIZES:
            size = getattr(self, name)
            zeros = max(size.bit_length() - DIGITS, 0)
            sizes[name] = -(-size >> zeros) << zeros
        return replace(self, **sizes)

    @property
    def structure(self) -> str:
        """The declaration in words: segments, pointers, or a graph with the targets that make it one."""
        if self.declared:
            return self.declared
        made_by = f" ({self.joined})" if self.joined and self.topology is Topology.LOOPY else ""
        return f"{self.topology.word}{made_by}"

    def declared_as(self, kind: str) -> str:
        """Return the names of the constraints of a kind in the model, as ``" (budget, once)"``; empty without names."""
        names = {group.name: None for group in self.constraints if group.kind == kind and group.name}
        return f" ({', '.join(names)})" if names else ""

    def __str__(self) -> str:
        parts = [f"{'+'.join(sorted(self.tasks))} on {self.structure}"]
        if not self.declared:  # else variables, states and kinds are those of the program, which nobody wrote
            parts.append(f"factors of up to {self.max_arity} variables, up to {self.max_card} states")
        if self.constraint_kinds and not self.declared:
            parts.append(f"constraints {', '.join(sorted(self.constraint_kinds))}")
        if self.abilities:
            parts.append(f"able to {' and '.join(ability.word for ability in sorted(self.abilities))}")
        any_will_do = self.guarantee is Guarantee.HEURISTIC
        parts.append("any guarantee" if any_will_do else f"guarantee {self.guarantee.value}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Caps:
    """The capabilities of a backend.

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
    constraint_kinds : frozenset of str
        Hard constraints it handles itself.
    every_constraint : bool
        Whether it takes hard constraints of every kind, those of other plug-ins as well, by what their kinds say
        (``ConstraintGroup.rules``): which are broken, or their linear rows.
    by_rows : bool
        Whether it is the linear rows that it takes.
    abilities : frozenset of Ability
        What its sessions do beyond ``solve`` where there are no hard constraints.
    constrained_abilities : frozenset of Ability
        What they do under hard constraints; without any, constraints reach ``solve`` alone.
    of_spans : bool
        Whether it takes factors that score segments whose spans are no variables.
    requires : frozenset of str
        Properties of the tables it relies on: ``"submodular"``, ``"metric"``, ``"binary"``.
    warm : Warm
        The kind of warm start.
    deterministic, thread_safe : bool
        Same answer every time; sessions may be used from several threads at once.
    score_atol : float
        Accuracy of its scores and bounds, relative to the size of what scores are sums of
        (:class:`~ssvm_dsl.ir.analysis.tolerance.Terms`).
    searches : bool
        Whether its time depends on the scores and may be exponential (branch and bound, integer programs): the cost
        that ``check`` tells is then a guess, not an upper limit.
    """

    tasks: frozenset[Task] = frozenset({Task.MAP})
    topology: Topology = Topology.LOOPY
    guarantee: Guarantee = Guarantee.HEURISTIC
    max_arity: int = 2
    constraint_kinds: frozenset[str] = frozenset()
    every_constraint: bool = False
    by_rows: bool = False
    abilities: frozenset[Ability] = frozenset()
    constrained_abilities: frozenset[Ability] = frozenset()
    of_spans: bool = False
    requires: frozenset[str] = field(default_factory=frozenset)
    warm: Warm = Warm.NONE
    deterministic: bool = True
    thread_safe: bool = True
    score_atol: float = 1e-9
    searches: bool = False

    def refusals(self, need: Need) -> list[str]:
        """Return the reasons why these capabilities do not cover a need; empty when they do."""
        out = []
        missing = sorted(need.tasks - self.tasks)
        if missing:
            out.append(f"does not answer {', '.join(missing)}")
        shaped = need.topology > self.topology or need.max_arity > self.max_arity
        missing_kinds = [] if self.every_constraint else sorted(need.constraint_kinds - self.constraint_kinds)
        foreign = bool(need.declared) and (shaped or bool(missing_kinds))
        if foreign:  # shapes, states and kinds are those of the program, which nobody wrote
            out.append(f"does not handle {need.declared}")
        else:
            if need.topology > self.topology:
                out.append(f"handles {self.topology.word}, this is {need.structure}")
            if need.max_arity > self.max_arity:
                out.append(f"handles factors of up to {self.max_arity} variables, this has {need.max_arity}")
            if missing_kinds:
                named = [f"{kind}{need.declared_as(kind)}" for kind in missing_kinds]
                out.append(f"does not handle constraints {', '.join(named)}")
        if need.of_spans and not self.of_spans and not foreign:
            out.append("takes scores of variables only, these are of whole segments")
        if need.without_rows and self.by_rows:
            out.append("takes constraints by their linear rows, and a Custom has none")
        able, elsewhere, where = self.abilities, self.constrained_abilities, "without"
        if need.constraint_kinds:
            able, elsewhere, where = elsewhere, able, "under"
        for ability in sorted(need.abilities - able):
            out.append(f"does not {ability.word}{f' {where} hard constraints' if ability in elsewhere else ''}")
        if not self.guarantee.covers(need.guarantee):
            out.append(f"its answers are {self.guarantee.value}, asked for {need.guarantee.value}")
        if foreign:
            return out
        if "binary" in self.requires and need.max_card > 2:
            out.append("handles two states only; alpha-expansion takes more (POTTS)")
        unknown = sorted(self.requires - {"binary"} - need.properties) if need.max_arity > 1 else []
        if unknown:
            why = dict(need.doubts).get(unknown[0], "")
            out.append(f"relies on {', '.join(unknown)} tables, which nothing guarantees here{why and f': {why}'}")
        return out
