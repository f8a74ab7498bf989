"""Chains of bridges, each from a program with constraints to a program without some of them.

Each bridge of a chain rewrites all groups of constraints that it takes among those which the earlier bridges have left.
A lowered program is kept for as long as the original one lives: the planner looks at it, then the session uses it
(:class:`BridgedSession`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.inference.bridging.bridge_match import BridgeMatch
from ssvm_dsl.inference.bridging.lowering import Lowering
from ssvm_dsl.inference.bridging.merging import Merging
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.plugin_api.hosting.contained import refusal
from ssvm_dsl.plugin_api.specs import BridgeSpec
from ssvm_dsl.registry import Registry

#: Most bridges of a chain.
LONGEST = 3

#: Entries of tables that are copied in a second.
COPIED = 1e8


@dataclass(frozen=True, eq=False)
class BridgeChain:
    """Some bridges and where they lead.

    Parameters
    ----------
    bridges : tuple of str
        Their names, in order.
    lowerings : tuple of Lowering
        One for each bridge.
    cost : float
        Entries of all tables that were added.
    """

    bridges: tuple[str, ...]
    lowerings: tuple[Lowering, ...]
    cost: float

    @property
    def seconds(self) -> float:
        """Expected time that a question takes through the chain: scores are copied, answers mapped back."""
        return self.cost / COPIED

    @property
    def program(self) -> Program:
        """The program that it leads to."""
        return self.lowerings[-1].program


@dataclass(eq=False)
class BridgeChains:
    """All chains of bridges of a program, and why bridges do not take its constraints.

    Parameters
    ----------
    found : list of BridgeChain
        Short ones first.
    refusals : list of (name, reasons)
        Of bridges that rewrite nothing of the program itself.
    """

    found: list[BridgeChain]
    refusals: list[tuple[str, tuple[str, ...]]]


#: Of each program, the chains found so far.
_known: WeakKeyDictionary[Program, dict[tuple[BridgeSpec, ...], BridgeChain]] = WeakKeyDictionary()


def bridge_chains_of(program: Program, bridges: Sequence[BridgeSpec], plugins: Registry) -> BridgeChains:
    """Return the chains from a program through some bridges."""
    out = BridgeChains([], [])
    ends: list[tuple[BridgeSpec, ...]] = [()]
    for _ in range(LONGEST):
        further = [(*chain, spec) for chain in ends for spec in bridges if spec not in chain]
        ends = [chain for chain in further if _extends(program, chain, plugins, out)]
        out.found += [_known[program][chain] for chain in ends]
    return out


def bridge_chain_through(program: Program, bridges: Sequence[str], plugins: Registry) -> BridgeChain:
    """Return the chain of the bridges of these names.

    Raises
    ------
    PluginError
        There is no such bridge, or it does not take what it comes to.
    """
    specs = tuple(plugins.find(BridgeSpec, name) for name in bridges)
    for n in range(1, len(specs) + 1):
        out = BridgeChains([], [])
        if not _extends(program, specs[:n], plugins, out):
            why = "; ".join(text for _, reasons in out.refusals for text in reasons)
            raise PluginError(f"bridge '{specs[n - 1].name}' does not take the constraints{why and f': {why}'}")
    return _known[program][specs]


def _extends(program: Program, chain: tuple[BridgeSpec, ...], plugins: Registry, out: BridgeChains) -> bool:
    """Go one bridge further than a known chain; return whether that leads anywhere."""
    chains = _known.setdefault(program, {})
    if chain in chains:
        return True
    before = chains.get(chain[:-1], BridgeChain((), (), 0.0))
    here = before.program if before.lowerings else program
    if not any(group.n_constraints for group in here.constraints):
        return False
    spec = chain[-1]
    asked = BridgeMatch.of(spec, here, plugins)
    reasons = asked.reasons
    if asked.taken:
        try:
            lowering = asked.lowered()
        except SsvmError as err:
            reasons = (refusal(err),)
        else:
            names, steps = (*before.bridges, spec.name), (*before.lowerings, lowering)
            chains[chain] = BridgeChain(names, steps, before.cost + asked.cost)
            return True
    if not before.lowerings:
        out.refusals.append((f"bridge '{spec.name}'", reasons))
    return False


class BridgedSession:
    """Answers through bridges, or merged factors, the last of which leads to the program of the backend's session.

    Other abilities it does not have: scores, messages and sums of the lowered program are not those of the original.

    Parameters
    ----------
    inner : Session
        On that program.
    lowerings : sequence of Lowering or Merging
        From the original program on.
    """

    def __init__(self, inner: Any, lowerings: Sequence[Lowering | Merging]) -> None:
        self.inner, self._lowerings = inner, tuple(lowerings)

    def solve(self, question: Question) -> Solution:
        """Answer a question about the original program."""
        asked = [question]
        for one in self._lowerings:
            asked.append(one.question(asked[-1]))
        return self._lifted(asked, self.inner.solve(asked[-1]))

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Answer by counts; auxiliary states count nothing."""
        asked = [question]
        for one in self._lowerings:
            assert isinstance(one, Lowering), "factors are merged for bounds, which no counts are asked for"
            asked.append(one.question(asked[-1]))
            tables = one.counts(tables)
        return self._lifted(asked, self.inner.best_by_count(asked[-1], tables))

    def _lifted(self, asked: list[Question], solution: Solution) -> Solution:
        for one, question in zip(reversed(self._lowerings), reversed(asked[:-1]), strict=True):
            solution = one.lift(question, solution)
        return solution
