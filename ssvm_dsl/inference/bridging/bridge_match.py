"""Match a bridge with the constraints of a program; examples of one structure are checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.deadline import pause
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.inference.bridging.lowering import Lowering, lowered
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.shapes import first_of_each
from ssvm_dsl.plugin_api.constraints import Bridge, Rewrite
from ssvm_dsl.plugin_api.hosting.contained import contained, refusal
from ssvm_dsl.plugin_api.protocols import Verdict
from ssvm_dsl.plugin_api.specs import BridgeSpec
from ssvm_dsl.registry import Registry

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
