"""Which backends answer through which chains of bridges, and what that costs.

Each bridge of a chain rewrites all groups of constraints that it takes among those which the earlier bridges have left;
examples of one structure are checked once.  A lowered program is kept for as long as the original one lives: the
planner looks at it, then the session uses it (:class:`BridgedSession`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.deadline import pause
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.inference.bridging.lowering import Lowering, lowered
from ssvm_dsl.inference.bridging.merging import Merging
from ssvm_dsl.inference.planning.plans import Candidate, consider_resolved
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Ability, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.shapes import first_of_each
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.plugin_api.constraints import Bridge, Rewrite
from ssvm_dsl.plugin_api.hosting.contained import contained, refusal
from ssvm_dsl.plugin_api.protocols import Verdict
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.requirements.programs import program_need

#: What each example is like, -1 without constraints, and an example of each kind.
Alike = tuple[I32, list[Program]]

#: Entries of the tables of a batch, as ``check`` counts them, at most: they are stored.
MOST_ENTRIES = 2.0**27


@dataclass(frozen=True, eq=False)
class BridgeMatch:
    """The verdicts of a bridge on the groups of constraints of a program.

    Parameters
    ----------
    spec : BridgeSpec
    program : Program
        With rules.
    taken : tuple of int
        The groups it rewrites.
    reasons : tuple of str
        Why it does not rewrite the others.
    cost : float
        Entries of its tables.
    bridge : Bridge, optional
        There where it takes a group.
    alike : mapping of int to (of, examples)
        For each group, what examples are alike.
    owner_name : str
        What errors call the bridge.
    """

    spec: BridgeSpec
    program: Program
    taken: tuple[int, ...]
    reasons: tuple[str, ...]
    cost: float
    bridge: Bridge | None = None
    alike: Mapping[int, Alike] = field(default_factory=dict)
    owner_name: str = ""

    @classmethod
    def of(cls, spec: BridgeSpec, program: Program, plugins: Registry) -> BridgeMatch:
        """Ask a bridge; an exception becomes the reason of a refusal.

        Parameters
        ----------
        program : Program
            Rules are filled in.
        """
        program, owner_name = with_rules(program, plugins), plugins.describe_owner(spec)
        groups = [g for g, group in enumerate(program.constraints) if group.n_constraints]
        fitting = [g for g in groups if spec.every_constraint or program.constraints[g].kind in spec.kinds]
        names = ", ".join(sorted({program.constraints[g].kind for g in set(groups) - set(fitting)}))
        reasons = [f"does not rewrite constraints {names}"] if names else []
        if missing := spec.missing():
            hint = f" ({spec.install_hint})" if spec.install_hint else ""
            return cls(spec, program, (), (f"needs {', '.join(missing)}{hint}",), 0.0)
        if not fitting:
            return cls(spec, program, (), tuple(reasons), 0.0)
        taken, cost, alike = [], 0.0, {}
        try:
            with contained(owner_name):
                bridge = plugins.load(spec)()
            if not isinstance(bridge, Bridge):
                raise PluginError(f"{owner_name}: {spec.factory} makes no bridge: it lacks check() or lower()")
            for g in fitting:
                alike[g] = _alike(program, g)
                verdict = _verdict(bridge, alike[g], owner_name)
                if verdict.ok and cost + verdict.cost <= MOST_ENTRIES:
                    taken.append(g)
                    cost += verdict.cost
                else:
                    why = "; ".join(verdict.reasons) or f"tables of {verdict.cost:.2g} entries in all"
                    reasons.append(f"{program.constraints[g].name}: {why}")
        except SsvmError as err:
            return cls(spec, program, (), (refusal(err),), 0.0)
        return cls(spec, program, tuple(taken), tuple(reasons), cost, bridge, alike, owner_name)

    def lowered(self) -> Lowering:
        """Return the program with rewritings in place of the groups that are taken.

        Raises
        ------
        PluginError
            The bridge fails, or what it returns is not what it should be.
        """
        assert self.bridge is not None
        each = [self._rewrites(self.bridge, g) for g in self.taken]
        return lowered(self.program, self.taken, each)

    def _rewrites(self, bridge: Bridge, g: int) -> tuple[I32, list[Rewrite]]:
        of, examples = self.alike[g]
        made = []
        for example in examples:
            pause()
            with contained(self.owner_name):
                rewrite = bridge.lower(example)
            group = example.constraints[0]
            wrong = f"lower() returns a Rewrite, got a {type(rewrite).__name__}"
            if isinstance(rewrite, Rewrite):
                own = rewrite.n_own == example.n_variables and rewrite.cards[: rewrite.n_own] == example.card.tolist()
                wrong = rewrite.mistakes() if own else "a Rewrite begins with the variables of the example"
            if wrong:
                raise PluginError(f"{self.owner_name} broke its contract: lower() of '{group.name}': {wrong}")
            made.append(rewrite)
        return of, made


def _verdict(bridge: Bridge, alike: Alike, owner_name: str) -> Verdict:
    """Return what a bridge says to one group: no where it says so of an example; the cost of all kinds of examples."""
    (of, examples), cost = alike, 0.0
    for k, example in enumerate(examples):
        pause()
        with contained(owner_name):
            verdict = bridge.check(example)
        if not isinstance(verdict, Verdict) or not (verdict.cost >= 0.0):
            raise PluginError(f"{owner_name} broke its contract: check() returns a Verdict, got {verdict!r:.60}")
        if not verdict.ok:
            number = int(np.flatnonzero(of == k)[0])
            reasons = tuple(f"{' '.join(str(why).split())} (example {number})" for why in verdict.reasons)
            return Verdict(False, reasons=reasons or (f"it refuses example {number}",))
        cost += float(verdict.cost)
    return Verdict(True, cost)


def _alike(program: Program, g: int) -> Alike:
    """Return (what each example is like, -1 without constraints; an example of each kind).

    Examples are alike where variables, factors and constraints are the same.
    """
    group = program.constraints[g]
    there = np.flatnonzero(group.counts)
    shape = program.shape[there]
    keys = ((int(s), _content(group, int(i))) for s, i in zip(shape, there, strict=True))
    kinds, first = first_of_each(keys)
    of = np.full(program.n_examples, -1, dtype=np.int32)
    of[there] = kinds
    bare = replace(program, constraints=(group,), allowed=None, role=None, blocks=())
    return of, [bare.example(int(there[k])) for k in first]


def _content(group: ConstraintGroup, example: int) -> bytes:
    """Return everything about the constraints of an example."""
    pause()
    lo, hi = int(group.ptr[example]), int(group.ptr[example + 1])
    first, last = int(group.literal_ptr[lo]), int(group.literal_ptr[hi])
    arrays = [np.diff(group.literal_ptr[lo : hi + 1])]
    arrays += [one[first:last] for one in (group.variable, group.state, group.negated, *group.literal_meta.values())]
    arrays += [one[lo:hi] for one in group.meta.values()]
    return b"|".join(np.ascontiguousarray(one).tobytes() for one in arrays)


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


#: What sessions behind bridges do beyond ``solve``.
ABILITIES = frozenset({Ability.COUNTS})

#: What is asked through bridges: relaxations would be those of other tables.
TASKS = frozenset(Task) - {Task.RELAXED}

Refusals = list[tuple[str, tuple[str, ...]]]


@dataclass(eq=False)
class BridgeCandidates:
    """What fits behind bridges.

    Parameters
    ----------
    fitting : list of Candidate
    bridges : list of (name, reasons)
        Why bridges do not rewrite the constraints.
    backends : list of (title, reasons)
        Why backends do not answer behind those that do.
    """

    fitting: list[Candidate] = field(default_factory=list)
    bridges: Refusals = field(default_factory=list)
    backends: Refusals = field(default_factory=list)


def bridged(
    program: Program,
    need: Need,
    backends: Iterable[tuple[BackendSpec, Mapping[str, Any]]],
    plugins: Registry,
    strangers: bool = True,
) -> BridgeCandidates:
    """Return the backends that fit behind bridges, and why others do not.

    Parameters
    ----------
    program : Program
        With constraints.
    need : Need
        What is asked of it.
    backends : iterable of (BackendSpec, mapping)
        Those to be looked at, with their options.
    plugins : Registry
    strangers : bool
        Whether bridges that ``auto`` may not take are looked at: where others do, they are not.
    """
    if need.tasks - TASKS or need.abilities - ABILITIES:
        return BridgeCandidates()
    known = plugins.specs(BridgeSpec)
    usual = [spec for spec in known if plugins.owner(spec).allowed]
    choice = list(backends)
    choices = _behind(program, need, choice, usual, plugins)
    if strangers and not choices.fitting and len(known) > len(usual):
        return _behind(program, need, choice, known, plugins)
    return choices


def _behind(
    program: Program,
    need: Need,
    backends: list[tuple[BackendSpec, Mapping[str, Any]]],
    bridges: list[BridgeSpec],
    plugins: Registry,
) -> BridgeCandidates:
    """Return what fits behind these bridges."""
    chains = bridge_chains_of(program, bridges, plugins)
    out = BridgeCandidates(bridges=list(chains.refusals))
    for chain in chains.found:
        for spec, options in backends:
            one = behind(chain, need, spec, options)
            if one.ok:
                out.fitting.append(one)
            else:
                out.backends.append((one.title, one.reasons))
    return out


def behind(chain: BridgeChain, need: Need, spec: BackendSpec, options: Mapping[str, Any]) -> Candidate:
    """Return what a backend says to a need at the end of a chain."""
    one, _ = consider_resolved(need_after(chain, need), spec, dict(options))
    return replace(one, bridges=chain.bridges, cost=one.cost + chain.cost, seconds=one.seconds + chain.seconds)


def need_after(chain: BridgeChain, need: Need) -> Need:
    """Return what is asked of a backend at the end of a chain."""
    program = chain.program
    added = sum(len(one.tables) for one in chain.lowerings)
    properties = need.properties if not added else frozenset[str]()
    made = program_need(program, need.tasks, need.guarantee, need.abilities, properties)
    why = "hard constraints have become tables"
    return replace(made, doubts=tuple((name, why) for name in sorted(need.properties)) if added else need.doubts)
