"""The ways from a program with constraints to programs without some of them, through one bridge or several.

A way is a list of bridges, each of which rewrites all groups of constraints that it takes of what the ones before have
left.  What was lowered is remembered for as long as the program lives: the planner looks at it, then the session that
is opened uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ssvm_dsl.errors import OutOfTime, PluginError, SsvmError
from ssvm_dsl.inference.bridging.asked import Asked
from ssvm_dsl.inference.bridging.lowering import Lowering
from ssvm_dsl.ir.program import Program
from ssvm_dsl.plugin_api.specs import BridgeSpec
from ssvm_dsl.registry import Registry

#: Bridges on a way at most.
LONGEST = 3

#: Entries of tables that are copied in a second.
COPIED = 1e8


@dataclass(frozen=True, eq=False)
class Way:
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
        """Expected time that a question takes on the way: scores are copied, answers led back."""
        return self.cost / COPIED

    @property
    def program(self) -> Program:
        """The program that it leads to."""
        return self.lowerings[-1].program


@dataclass(eq=False)
class Ways:
    """All ways of a program, and why bridges do not take its constraints.

    Parameters
    ----------
    found : list of Way
        Short ones first.
    refusals : list of (name, reasons)
        Of bridges that rewrite nothing of the program itself.
    """

    found: list[Way]
    refusals: list[tuple[str, tuple[str, ...]]]


#: Of each program, the ways that were looked at.
_known: WeakKeyDictionary[Program, dict[tuple[BridgeSpec, ...], Way]] = WeakKeyDictionary()


def ways_of(program: Program, bridges: Sequence[BridgeSpec], plugins: Registry) -> Ways:
    """Return the ways from a program through some bridges."""
    out = Ways([], [])
    ends: list[tuple[BridgeSpec, ...]] = [()]
    for _ in range(LONGEST):
        further = [(*way, spec) for way in ends for spec in bridges if spec not in way]
        ends = [way for way in further if _look(program, way, plugins, out)]
        out.found += [_known[program][way] for way in ends]
    return out


def way_through(program: Program, bridges: Sequence[str], plugins: Registry) -> Way:
    """Return the way through bridges of these names.

    Raises
    ------
    PluginError
        There is no such bridge, or it does not take what it comes to.
    """
    specs = tuple(plugins.find(BridgeSpec, name) for name in bridges)
    for n in range(1, len(specs) + 1):
        out = Ways([], [])
        if not _look(program, specs[:n], plugins, out):
            why = "; ".join(text for _, reasons in out.refusals for text in reasons)
            raise PluginError(f"bridge '{specs[n - 1].name}' does not take the constraints{why and f': {why}'}")
    return _known[program][specs]


def _look(program: Program, way: tuple[BridgeSpec, ...], plugins: Registry, out: Ways) -> bool:
    """Go one bridge further than a way that is known; return whether that leads anywhere."""
    found = _known.setdefault(program, {})
    if way in found:
        return True
    before = found.get(way[:-1], Way((), (), 0.0))
    here = before.program if before.lowerings else program
    if not any(group.n_constraints for group in here.constraints):
        return False
    spec = way[-1]
    asked = Asked.of(spec, here, plugins)
    reasons = asked.reasons
    if asked.taken:
        try:
            lowering = asked.lowered()
        except OutOfTime:
            raise
        except SsvmError as err:  # as for backends: the others are considered
            reasons = (" ".join(str(err).split()),)
        else:
            names, steps = (*before.bridges, spec.name), (*before.lowerings, lowering)
            found[way] = Way(names, steps, before.cost + asked.cost)
            return True
    if not before.lowerings:
        out.refusals.append((f"bridge '{spec.name}'", reasons))
    return False
