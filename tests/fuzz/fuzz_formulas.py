"""Attacks the promise that rules over positions mean what they say, hard and with weights, of any shape and size.

Random models have labels over one axis and over pairs (some, symmetric, with converse classes), pointers, and rules:
literals at positions that are shifted, read, counted from the end or missing, formulas inside formulas, ``where=``,
``over=``, ``outside=False``, bounds and states that come with the data.  Every labelling is judged and scored by plain
Python that walks over assignments of the indices.  The program must have exactly one completion of each labelling that
is left, of the same score; the best ones, sums and marginals of the backends must be those of the user's variables.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import ssvm_dsl as s
from ssvm_dsl.compiler.agreements import set_auxiliary
from ssvm_dsl.compiler.inputs import read_examples
from ssvm_dsl.errors import InfeasibleError, ModelError, NoBackendError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.registry import registry
from ssvm_dsl.requirements.programs import program_need

UNIT, SHORT, LIMIT = "labellings", 12, 60.0

#: Labellings of a model, and of its program, that are gone through.
MOST, MOST_OF_PROGRAM = 800, 60_000


# -- worlds: what there is, drawn and by hand ------------------------------------------------------------------------


class World:
    """A model under construction, the numbers of its one example, and its variables by hand."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.n, self.m = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        fixed = rng.random() < 0.3
        self.N = s.Dim(self.n if fixed else None)
        self.M = s.Dim()
        self.K = s.Dim(2)
        names = ("i", "j", "k")
        self.index = dict(zip(names, self.N.index(3), strict=True))
        self.index |= {"m": self.M.index(), "d": self.K.index()}
        self.symbols: dict[str, Any] = {"N": self.N, "M": self.M, "K": self.K, **self.index}
        self.size = {"i": self.n, "j": self.n, "k": self.n, "m": self.m, "d": 2}
        self.data: dict[str, Any] = {}
        n = self.n
        self.add("friend", s.Input(self.N, self.N), (rng.random((n, n)) < 0.5).astype(float))
        self.add("word", s.Input(self.N), rng.integers(2, size=n).astype(float))
        self.add("lex", s.Input(self.N), rng.integers(-1, 2, size=n).astype(float))
        self.add("cap", s.Input(self.N), rng.integers(0, 3, size=n).astype(float))
        self.add("score", s.Input(self.N), rng.normal(size=n).round(2))
        self.add("up", s.Positions(self.N, over=self.N), rng.integers(-1, n, size=n))
        pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
        if not pairs:
            self.m = self.size["m"] = 0
        chosen = [pairs[int(rng.integers(len(pairs)))] for _ in range(self.m)]
        self.add("e", s.Edges(self.M, over=self.N), np.array(chosen, dtype=np.int64).reshape(self.m, 2))
        self.labels: dict[str, Any] = {}
        self.variables: list[tuple[str, tuple[int, ...], int]] = []  # label, position, states
        self.add_label("y", s.Label(self.N, "ab"), [(a,) for a in range(n)], 2)
        if rng.random() < 0.5:
            self.add_label("c", s.Label(self.N, "abx"[: 2 + (rng.random() < 0.5)]), [(a,) for a in range(n)], None)
        if rng.random() < 0.4:
            self.add_label("z", s.Label("ab"), [()], 2)
        if rng.random() < 0.5 and n <= 3:
            i, j = self.index["i"], self.index["j"]
            kind = str(rng.choice(["full", "half", "friends", "symmetric", "converse"]))
            cells = [(a, b) for a in range(n) for b in range(n)]
            if kind == "full":
                made = s.Label(self.N, self.N, 2)
                cells = cells if n <= 2 else []
            elif kind == "half":
                made, cells = s.Label(i, j, 2, where=i < j), [(a, b) for a, b in cells if a < b]
            elif kind == "friends":
                made = s.Label(i, j, 2, where=self.symbols["friend"][i, j])
                cells = [(a, b) for a, b in cells if self.data["friend"][a, b]]
            else:
                swapped = True if kind == "symmetric" else {"lt": "gt"}
                classes = 2 if kind == "symmetric" else ["lt", "gt"]
                made, cells = s.Label(i, j, classes, symmetric=swapped), [(a, b) for a, b in cells if a < b]
            self.kind = kind
            if kind != "full" or n <= 2:
                self.add_label("r", made, cells, 2)
        if rng.random() < 0.25 and n <= 3:
            null = bool(rng.random() < 0.5)
            self.add_label("h", s.Label(self.N, over=self.N, null=null), [(a,) for a in range(n)], n + null)

    def add(self, name: str, symbol: Any, value: Any) -> None:
        self.symbols[name] = symbol
        self.data[name] = value

    def add_label(self, name: str, label: Any, cells: list[Any], states: int | None) -> None:
        self.labels[name] = self.symbols[name] = label
        self.variables += [(name, cell, states or label.n_states) for cell in cells]

    @property
    def n_labellings(self) -> float:
        return float(np.prod([float(states) for _, _, states in self.variables]))

    def find(self, label: str, at: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], bool] | None:
        """Return (variable at a position, whether its classes are turned), ``None`` where there is none."""
        turned = False
        if label == "r" and self.kind in ("symmetric", "converse") and at[0] > at[1]:
            at, turned = (at[1], at[0]), self.kind == "converse"
        known = any(name == label and cell == at for name, cell, _ in self.variables)
        return ((label, at), turned) if known else None


# -- expressions: nested tuples, for the package and by hand -----------------------------------------------------------


def position(world: World, p: Any) -> Any:
    """Return a position in the language."""
    kind = p[0]
    if kind == "at":
        return world.index[p[1]]
    if kind == "shift":
        return world.index[p[1]] + p[2]
    if kind == "ring":
        return (world.index[p[1]] + p[2]) % world.N
    if kind == "end":
        return p[2] - world.index[p[1]]
    if kind == "int":
        return p[1]
    if kind == "edge":
        return world.symbols["e"][world.index["m"], p[1]]
    return world.symbols["up"][position(world, p[1])]


def where_is(world: World, p: Any, env: dict[str, int], size: int) -> int | None:
    """Return a position by hand; ``None`` where it does not exist."""
    kind = p[0]
    if kind == "at":
        found: int | None = env[p[1]]
    elif kind == "shift":
        found = env[p[1]] + p[2]
    elif kind == "ring":
        found = (env[p[1]] + p[2]) % world.n
    elif kind == "end":
        found = size + p[2] - env[p[1]]
    elif kind == "int":
        found = p[1] + (size if p[1] < 0 else 0)
    elif kind == "edge":
        found = int(world.data["e"][env["m"], p[1]])
    else:
        inner = where_is(world, p[1], env, size)
        found = None if inner is None else int(world.data["up"][inner])
    return found if found is not None and 0 <= found < size else None


def indices_in(x: Any) -> set[str]:
    """Return the names of the indices in an expression, those that are collected over left out."""
    if isinstance(x, dict):
        inner = set().union(*(indices_in(part) for part in x["parts"]), indices_in(x.get("where")))
        return (inner | indices_in(x.get("bound"))) - set(x.get("over", ()))
    if isinstance(x, tuple) and x:
        if x[0] in ("at", "shift", "ring", "end"):
            return {x[1]}
        if x[0] in ("edge", "index"):
            return {"m" if x[0] == "edge" else "d"}
        if x[0] == "lit":
            return set().union(*(indices_in(p) for p in x[2]), indices_in(x[3]))
        return set().union(*(indices_in(part) for part in x[1:])) if len(x) > 1 else set()
    if isinstance(x, list):
        return set().union(*(indices_in(part) for part in x))
    return set()


def condition(world: World, c: Any) -> Any:
    """Return a condition in the language."""
    op = c[0]
    if op == "friend":
        return world.symbols["friend"][position(world, c[1]), position(world, c[2])]
    if op == "word":
        word = world.symbols["word"]
        return word[position(world, c[1])].is_(word[position(world, c[2])])
    if op == "and":
        return _condition(world, c[1]) & _condition(world, c[2])
    if op == "or":
        return _condition(world, c[1]) | _condition(world, c[2])
    if op == "not":
        return s.Not(condition(world, c[1]))
    a, b = position(world, c[1]), position(world, c[2])
    return a < b if op == "<" else a.is_(b) if op == "==" else a.is_not(b)


def _condition(world: World, c: Any) -> Any:
    return condition(world, c)


def holds(world: World, c: Any, env: dict[str, int]) -> bool | None:
    """Return whether a condition is true, false or unknown, by hand."""
    op = c[0]
    if op in ("and", "or"):
        a, b = (holds(world, one, env) for one in c[1:])
        decides = op == "or"
        if a is decides or b is decides:
            return decides
        return None if a is None or b is None else not decides
    if op == "not":
        inner = holds(world, c[1], env)
        return None if inner is None else not inner
    if op in ("friend", "word"):
        a, b = (where_is(world, p, env, world.n) for p in c[1:])
        if a is None or b is None:
            return None
        return bool(world.data["friend"][a, b] if op == "friend" else world.data["word"][a] == world.data["word"][b])
    a, b = (_number(world, p, env) for p in c[1:])
    if a is None or b is None:
        return None
    return a < b if op == "<" else a == b if op == "==" else a != b


def _number(world: World, p: Any, env: dict[str, int]) -> int | None:
    """Return a position as a number of a comparison: it need not exist, but reads must."""
    if p[0] == "at":
        return env[p[1]]
    if p[0] == "shift":
        return env[p[1]] + p[2]
    return where_is(world, p, env, world.n)


OPS = {
    "not": s.Not, "all": s.AllOf, "any": s.AnyOf, "implies": s.Implies, "iff": s.Iff, "xor": s.Xor,
    "atmost": s.AtMost, "atleast": s.AtLeast, "exactly": s.Exactly, "one": s.ExactlyOne, "same": s.Same,
    "different": s.Different, "count": s.Count,
}  # fmt: skip


def language(world: World, f: Any) -> Any:
    """Return a formula in the language."""
    if isinstance(f, tuple):
        _, label, places, state = f
        reference = world.labels[label]
        if places:
            at = tuple(position(world, p) for p in places)
            reference = reference[at if len(at) > 1 else at[0]]
        if isinstance(state, tuple):
            if state[0] == "lex":
                state = world.symbols["lex"][position(world, state[1])]
            elif state[0] == "index":
                state = world.index["d"]
            elif state[0] == "to":
                state = position(world, state[1])
        return reference.is_(state) if f[0] == "lit" and state != "all" else reference
    parts = [language(world, one) for one in f["parts"]]
    options: dict[str, Any] = {}
    if f.get("over"):
        over = tuple(world.index[name] for name in f["over"])
        options["over"] = over if len(over) > 1 else over[0]
    if f.get("where") is not None:
        options["where"] = condition(world, f["where"])
    if f.get("outside") is False:
        options["outside"] = False
    if f.get("most") is not None:
        options["most"] = f["most"]
    op = f["op"]
    if op in ("atmost", "atleast", "exactly"):
        bound = f["bound"]
        bound = world.symbols["cap"][position(world, bound[1])] if isinstance(bound, tuple) else bound
        return OPS[op](bound, parts if len(parts) > 1 else parts[0], **options)
    if op in ("one", "count"):
        return OPS[op](parts if len(parts) > 1 else parts[0], **options)
    return OPS[op](*parts, **options)


class Judge:
    """Judges rules by hand."""

    def __init__(self, world: World) -> None:
        self.world = world

    def atom(self, f: Any, env: dict[str, int]) -> tuple[Any, int] | None:
        """Return (variable, state) of a literal; ``None`` where there is none.  ``"all"``: the variable alone."""
        world = self.world
        _, label, places, state = f
        at = [where_is(world, p, env, world.n) for p in places]
        if any(one is None for one in at):
            return None
        found = world.find(label, tuple(int(one) for one in at if one is not None))
        if found is None:
            return None
        variable, turned = found
        if label == "h":
            if state is None:
                return variable, world.n
            to = where_is(world, state[1], env, world.n)
            return None if to is None else (variable, to)
        number: int | None
        if state == "all":
            return variable, int(turned)
        if isinstance(state, tuple):
            if state[0] == "index":
                number = env["d"]
            else:
                place = where_is(world, state[1], env, world.n)
                number = None if place is None else int(world.data["lex"][place])
            if number is None or number < 0:
                return None
        else:
            names = list(world.labels[label].classes or range(world.labels[label].n_states))
            number = names.index(state)
        return variable, (1 - number if turned else number)

    def own(self, f: Any) -> list[Any]:
        """Return the literals that are not collected over indices."""
        if isinstance(f, tuple):
            return [f]
        return [] if f.get("over") else [lit for part in f["parts"] for lit in self.own(part)]

    def own_bounds(self, f: Any) -> list[Any]:
        if isinstance(f, tuple):
            return []
        mine = [f["bound"]] if isinstance(f.get("bound"), tuple) else []
        return mine + ([] if f.get("over") else [b for part in f["parts"] for b in self.own_bounds(part)])

    def instances(self, f: Any) -> list[dict[str, int]]:
        """Return the assignments of the free indices of a rule for which there is an instance."""
        world = self.world
        names = sorted(indices_in(f), key="ijkmd".index)
        mine, _ = self.split(f)
        out = []
        outside = isinstance(f, tuple) or f.get("outside", True)
        for values in product(*(range(world.size[name]) for name in names)):
            env = dict(zip(names, values, strict=True))
            if any(holds(world, c, env) is not True for c in mine):
                continue
            literals = self.own(f)
            found = [self.atom(one, env) for one in literals]
            if outside and any(one is None for one in found):
                continue
            variables: dict[str, Any] = {}
            for one, atom in zip(literals, found, strict=True):
                if one[1] != "h":
                    atom = self.atom((*one[:3], "all"), env)
                if atom is not None:
                    to = atom[1] if one[1] == "h" else None
                    variables[repr((one[1], one[2], one[3] if one[1] == "h" else None))] = (atom[0], to)
            if len(set(variables.values())) < len(variables):
                continue
            if any(where_is(world, b[1], env, world.n) is None for b in self.own_bounds(f)):
                continue
            out.append(env)
        return out

    def split(self, f: Any) -> tuple[list[Any], list[Any]]:
        if isinstance(f, tuple) or f.get("where") is None:
            return [], []
        parts = _conjuncts(f["where"])
        over = set(f.get("over", ()))
        return [c for c in parts if not indices_in(c) & over], [c for c in parts if indices_in(c) & over]

    def members(self, f: Any, env: dict[str, int]) -> list[dict[str, int]]:
        """Return the assignments that a formula collects."""
        if not f.get("over"):
            return [env]
        world, out = self.world, []
        for values in product(*(range(world.size[name]) for name in f["over"])):
            one = env | dict(zip(f["over"], values, strict=True))
            if any(holds(world, c, one) is not True for c in self.split(f)[1]):
                continue
            if any(self.atom(lit, one) is None for part in f["parts"] for lit in self.own(part)):
                continue
            out.append(one)
        return out

    def any_variable(self, f: Any, env: dict[str, int]) -> bool:
        if isinstance(f, tuple):
            return self.atom(f, env) is not None
        return any(self.any_variable(part, one) for one in self.members(f, env) for part in f["parts"])

    def value(self, f: Any, env: dict[str, int], labels: dict[Any, int]) -> Any:
        """Return the truth of a formula, or the number of a count."""
        if isinstance(f, tuple):
            atom = self.atom(f, env)
            return atom is not None and labels[atom[0]] == atom[1]
        op, parts = f["op"], f["parts"]
        if op == "not":
            return not self.value(parts[0], env, labels)
        if op == "implies":
            return not self.value(parts[0], env, labels) or self.value(parts[1], env, labels)
        if op in ("iff", "xor"):
            return (self.value(parts[0], env, labels) == self.value(parts[1], env, labels)) == (op == "iff")
        members = self.members(f, env)
        if op in ("same", "different"):
            seen = {}
            for one in members:
                for part in parts:
                    atom = self.atom(part, one)
                    assert atom is not None
                    state = 1 - labels[atom[0]] if atom[1] else labels[atom[0]]
                    label = self.world.labels[part[1]]
                    seen[(atom[0], atom[1])] = (label.classes or range(label.n_states))[state]
            classes = list(seen.values())
            return len(set(classes)) <= 1 if op == "same" else len(set(classes)) == len(classes)
        total, known = 0, set()
        n = 0
        for one in members:
            for part in parts:
                key = self.key(part, one)
                if key is not None:
                    if key in known:
                        continue
                    known.add(key)
                n += 1
                total += bool(self.value(part, one, labels))
        if op == "all":
            return total == n
        if op == "any":
            return total > 0
        if op == "count":
            return min(total, f["top"])
        bound = f.get("bound", 1)
        if isinstance(bound, tuple):
            place = where_is(self.world, bound[1], env, self.world.n)
            bound = int(self.world.data["cap"][place])  # type: ignore[index]
        return total <= bound if op == "atmost" else total >= bound if op == "atleast" else total == bound

    def key(self, f: Any, env: dict[str, int]) -> Any:
        """Return what makes literals the same; ``None`` for other formulas, and literals that do not exist."""
        negated = False
        while isinstance(f, dict) and f["op"] == "not":
            f, negated = f["parts"][0], not negated
        if isinstance(f, dict):
            return None
        atom = self.atom(f, env)
        return None if atom is None else (atom, negated)


def _conjuncts(c: Any) -> list[Any]:
    return [*_conjuncts(c[1]), *_conjuncts(c[2])] if c[0] == "and" else [c]


# -- drawing -----------------------------------------------------------------------------------------------------------


class Author:
    """Draws rules."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng

    def one(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def place(self, names: list[str]) -> Any:
        rng, name = self.rng, self.one(names)
        if name == "m":
            return ("edge", int(rng.integers(2)))
        roll = rng.random()
        if roll < 0.6:
            return ("at", name)
        if roll < 0.78:
            return ("shift", name, int(self.one([-1, 1])))
        if roll < 0.84:
            return ("ring", name, 1)
        if roll < 0.89:
            return ("end", name, -1)
        if roll < 0.93:
            return ("int", int(self.one([0, -1])))
        return ("up", ("at", name))

    def literal(self, names: list[str], alone: bool = False) -> Any:
        world, rng = self.world, self.rng
        label = self.one([name for name in world.labels if not (alone and name == "h")])
        n_places = {"z": 0, "r": 2}.get(label, 1)
        places = [self.place(names) for _ in range(n_places)]
        if label == "r" and world.kind == "half" and rng.random() < 0.7:
            places = [("at", names[0]), ("shift", names[0], 1)] if names[0] != "m" else places
        if alone:
            return ("lit", label, places, "all")
        if label == "h":
            if world.labels["h"].null and rng.random() < 0.3:
                return ("lit", label, places, None)
            return ("lit", label, places, ("to", self.place(names)))
        classes = list(world.labels[label].classes or range(world.labels[label].n_states))
        roll = rng.random()
        if roll < 0.12:
            return ("lit", label, places, ("lex", self.place(names)))
        if roll < 0.16 and len(classes) == 2:
            return ("lit", label, places, ("index",))
        return ("lit", label, places, self.one(classes))

    def condition(self, names: list[str], depth: int = 0) -> Any:
        roll = self.rng.random()
        if depth < 2 and roll < 0.3:
            return (self.one(["and", "and", "or"]), self.condition(names, depth + 1), self.condition(names, depth + 1))
        if depth < 2 and roll < 0.4:
            return ("not", self.condition(names, depth + 1))
        names = [name for name in names if name != "m"] or ["i"]
        simple = [("at", name) for name in names] + [("shift", names[0], 1)]
        a, b = self.one(simple), self.one([*simple, ("up", ("at", names[0]))])
        return (self.one(["<", "==", "!=", "friend", "word", "<"]), a, b)

    def formula(self, names: list[str], depth: int, top: bool = False) -> Any:
        rng = self.rng
        if not top and (depth <= 0 or rng.random() < 0.45):
            found = self.literal(names)
            return {"op": "not", "parts": [found]} if rng.random() < 0.3 else found
        op = str(self.one(["all", "any", "implies", "iff", "xor", "atmost", "atleast", "exactly", "one", "same",
                           "different", "not", "any", "all"]))  # fmt: skip
        if op == "not" and depth <= 0:
            op = "any"
        f: dict[str, Any] = {"op": op}
        inner = list(names)
        if op in ("all", "any", "atmost", "atleast", "exactly", "one", "same", "different") and rng.random() < 0.45:
            fresh = [name for name in "ijk" if name not in names]
            if fresh:
                f["over"] = [fresh[0]]
                inner = [fresh[0], *names] if rng.random() < 0.7 else [fresh[0]]
        n = {"not": 1, "implies": 2, "iff": 2, "xor": 2}.get(op, int(rng.integers(1, 4)))
        if op in ("same", "different"):
            parts = [self.literal(inner, alone=True) for _ in range(max(n, 2 - bool(f.get("over"))))]
            first = self.world.labels[parts[0][1]]
            f["parts"] = [p for p in parts if self.world.labels[p[1]].classes == first.classes]
        else:
            f["parts"] = [self.formula(inner, depth - 1) for _ in range(n)]
            if op in ("atmost", "atleast", "exactly", "one"):  # of whole labels a literal counts as often as it stands
                f["parts"] = list({repr(part): part for part in f["parts"]}.values())
        if f.get("over") and not any(f["over"][0] in indices_in(part) for part in f["parts"]):
            del f["over"]
            return self.formula(names, depth, top)
        if op in ("atmost", "atleast", "exactly"):
            f["bound"] = int(rng.integers(0, 3))
            bare = [name for name in indices_in(f) if name in "ijk"]
            if bare and rng.random() < 0.2:
                f["bound"] = ("cap", ("at", self.one(sorted(bare))))
        if f.get("over") and rng.random() < 0.5:
            f["where"] = self.member_condition(f["over"], inner)
        return f

    def member_condition(self, over: list[str], names: list[str]) -> Any:
        for _ in range(20):
            found = self.condition(names)
            if all(indices_in(c) & set(over) for c in _conjuncts(found)):
                return found
        return ("==", ("at", over[0]), ("at", over[0]))

    def rule(self) -> Any:
        rng = self.rng
        names = [["i"], ["i", "j"], ["m"], ["i"]][int(rng.integers(4))]
        f = self.formula(names, int(rng.integers(0, 3)), top=True)
        if rng.random() < 0.35:
            extra = self.condition([name for name in names if name in "ij"] or ["i"])
            f["where"] = extra if f.get("where") is None else ("and", f["where"], extra)
        if rng.random() < 0.25 and not _has(f, ("same", "different")):
            f["outside"] = False
        return f

    def count(self) -> Any:
        rng = self.rng
        names = ["i"] if rng.random() < 0.5 else []
        parts = [self.formula(["j", *names], int(rng.random() < 0.3)) for _ in range(int(rng.integers(1, 3)))]
        most = int(rng.integers(1, 4))
        f = {"op": "count", "over": ["j"], "parts": parts, "most": most, "top": most}
        return f if any("j" in indices_in(part) for part in parts) else self.count()


def _has(f: Any, ops: tuple[str, ...]) -> bool:
    return isinstance(f, dict) and (f["op"] in ops or any(_has(part, ops) for part in f["parts"]))


# -- the trial ---------------------------------------------------------------------------------------------------------


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a model with rules and compare its program with the rules."""
    world = World(rng)
    while world.n_labellings > MOST:
        world = World(rng)
    author, judge = Author(world), Judge(world)
    y = world.labels["y"]
    loss = s.Hamming(y)
    world.symbols["loss"] = loss
    hard: dict[str, Any] = {}
    soft: dict[str, tuple[Any, str]] = {}
    for k in range(int(rng.integers(1, 4))):
        roll = rng.random()
        if roll < 0.45:
            hard[f"rule{k}"] = author.rule()
        elif roll < 0.9:
            soft[f"rule{k}"] = author.rule(), str(rng.choice(["w", "w", "features", "given"]))
        else:
            soft[f"rule{k}"] = author.count(), "w"
    built = declare(world, hard, soft)
    if built is None:
        return 0
    return compare(world, judge, built, hard, soft)


def declare(world: World, hard: dict[str, Any], soft: dict[str, tuple[Any, str]]) -> Any:
    """Return the model; ``None`` where it says that it makes no sense."""
    symbols = dict(world.symbols)
    i, y = world.index["i"], world.labels["y"]
    symbols["base"] = s.Given(y[i].is_("a"), scores=symbols["score"][i])
    try:
        for name, f in hard.items():
            symbols[name] = language(world, f)
        for name, (f, how) in soft.items():
            formula = language(world, f)
            has_index = "i" in indices_in(f)
            if how == "features" and has_index:
                symbols[name] = s.Factor(formula, features=symbols["score"][i])
            elif how == "given" and has_index:
                symbols[name] = s.Given(formula, scores=symbols["score"][i])
            else:
                symbols[name] = s.Factor(formula)
        model = type("Ruled", (s.Model,), symbols)
    except ModelError as err:
        known = (
            "is never true", "cannot be true", "where= belongs", "same position", "written twice",
            "an index of its members", "the bound", "unlike classes", "no position", "in the bound only",
            "two different labels", "and used outside", "has no effect", "variables with the same",
            "or a formula of such",
        )  # fmt: skip
        if any(text in str(err) for text in known):
            return None
        raise
    assert s.Model.from_json(model.to_json()).declaration == model.declaration
    return model


def compare(world: World, judge: Judge, model: Any, hard: dict[str, Any], soft: dict[str, tuple[Any, str]]) -> int:
    """Compare the program of a model with all labellings by hand."""
    rng = world.rng
    every = [
        {(name, cell): state for (name, cell, _), state in zip(world.variables, states, strict=True)}
        for states in product(*(range(n) for _, _, n in world.variables))
    ]
    laid = {name: judge.instances(f) for name, f in hard.items()}
    scored = {name: [env for env in judge.instances(f) if judge.any_variable(f, env)] for name, (f, _) in soft.items()}
    sizes = {name: f["top"] + 1 if f["op"] == "count" else 1 for name, (f, _) in soft.items()}
    weights = {name: rng.normal(size=n).round(2) for name, n in sizes.items()}
    expected = np.full(len(every), -np.inf)
    for k, labels in enumerate(every):
        if all(judge.value(hard[name], env, labels) for name, envs in laid.items() for env in envs):
            expected[k] = by_hand(world, judge, model, labels, soft, scored, weights)
    try:
        grounded = s.ground(model, [dict(world.data)])
    except InfeasibleError:
        assert not np.isfinite(expected).any(), "no labelling is left, says the package"
        return len(every)
    except ModelError as err:
        if "does not exist in this order" not in str(err):
            raise
        return 0
    if not world.variables:
        return 0
    program = with_rules(grounded.program, registry())
    blocks = [weights[block.name].reshape(-1) for block in program.blocks]
    w = np.concatenate(blocks) if blocks else np.zeros(0)
    theta = grounded.parameters.scores(w)
    states = np.array([to_states(world, grounded, labels) for labels in every], dtype=np.int32)
    layout, examples = grounded.layout, read_examples(model.declaration.lowered, [dict(world.data)], False, {})
    for row in states:
        set_auxiliary(layout, examples, row, None)
    found = program_scores(program, theta, states)
    close = 1e-9 * (1 + np.abs(found[np.isfinite(found)]).max(initial=0.0))
    same = np.isfinite(found) == np.isfinite(expected)
    assert same.all(), f"labelling {every[int(np.argmin(same))]}: left by hand {np.isfinite(expected)[np.argmin(same)]}"
    there = np.isfinite(found)
    off = np.abs(found[there] - expected[there])
    assert (off <= close).all(), f"labelling {every[np.flatnonzero(there)[np.argmax(off)]]}: off by {off.max()}"
    n_all = float(np.prod(program.card.astype(float)))
    if n_all <= MOST_OF_PROGRAM:
        grid = np.indices(tuple(program.card)).reshape(len(program.card), -1).T.astype(np.int32)
        whole = program_scores(program, theta, grid)
        assert np.isfinite(whole).sum() == there.sum(), "auxiliary variables are no functions of the others"
    if rng.random() < 0.2:
        ask(rng, program, theta, layout, states[there], expected[there], close)
    return len(every)


def by_hand(world, judge, model, labels, soft, scored, weights) -> float:
    total = sum(float(world.data["score"][a]) for a in range(world.n) if labels[("y", (a,))] == 0)
    for name, (f, how) in soft.items():
        for env in scored[name]:
            value = judge.value(f, env, labels)
            score = float(world.data["score"][env["i"]]) if "i" in indices_in(f) and how != "w" else 1.0
            if how == "given" and "i" in indices_in(f):
                total += score * value
            elif f["op"] == "count":
                total += float(weights[name][value]) * score
            else:
                total += float(weights[name][0]) * score * value
    return total


def to_states(world: World, grounded: Any, labels: dict[Any, int]) -> np.ndarray:
    """Return the states of the program's variables for a labelling, those of auxiliary ones 0."""
    layout = grounded.layout
    out = np.zeros(len(grounded.program.card), dtype=np.int32)
    for name, cell, _ in world.variables:
        label, state = world.labels[name], labels[(name, cell)]
        first = int(layout.start(label)[0])
        if name == "h":
            if state == world.n:
                out[int(layout.start(label.none)[0]) + cell[0]] = 1
            else:
                out[first + cell[0] * world.n + state] = 1
            continue
        flat = 0
        for at in cell:
            flat = flat * world.n + at
        domain = layout.domains.get(name)
        if domain is not None:
            flat = int(domain.numbers(label, np.array([0]), np.array([flat]))[0])
        out[first + flat] = state
    return out


def program_scores(program: Any, theta: Any, states: np.ndarray) -> np.ndarray:
    """Return the scores of labellings of the only example, ``-inf`` where something rules them out."""
    at = program.state_ptr[:-1] + states
    out = theta.node[at].sum(axis=1) + theta.const[0]
    if program.allowed is not None:
        out[~program.allowed[at].all(axis=1)] = -np.inf
    for group, tables in zip(program.groups, theta.tables, strict=True):
        rows = group.table_rows()
        for factor, scope in enumerate(group.shapes.variables()):
            number = np.zeros(len(states), dtype=np.int64)
            for v, card in zip(scope, group.cards, strict=True):
                number = number * card + states[:, v]
            out += tables[rows[factor], number]
    for group in program.constraints:
        for k in range(group.n_constraints):
            mine = group.literals(k)
            true = (states[:, group.variable[mine]] == group.state[mine]) != group.negated[mine]
            coefficient = group.literal_meta["coefficient"][mine] if group.kind == "linear" else np.ones(true.shape[1])
            total = true @ coefficient
            assert group.kind in ("count", "linear"), group.kind
            wrong = (total < group.meta["lower"][k] - 1e-9) | (total > group.meta["upper"][k] + 1e-9)
            out[wrong] = -np.inf
    return out


def ask(rng, program, theta, layout, states, expected, close) -> None:
    """Compare answers of backends with the labellings that are left."""
    def asked(task: Task, k: int = 1) -> Any:
        opened = open_plan(plan(program_need(program, frozenset({task}))), program)
        return opened.solve(Question(theta, None, task, k=k))

    best = asked(Task.MAP)
    if not len(expected):
        assert best.score[0] == -np.inf
        return
    assert abs(best.score[0] - expected.max()) <= close, (best.score, expected.max())
    try:
        ranked = asked(Task.KBEST, 4)
        listed = ranked.score[:, 0][np.isfinite(ranked.score[:, 0])]
        assert np.allclose(listed, np.sort(expected)[::-1][:4], rtol=0.0, atol=close)
    except NoBackendError:
        pass
    try:
        sums = asked(Task.MARGINALS)
    except NoBackendError:
        return
    log_z = float(np.logaddexp.reduce(expected))
    assert abs(sums.log_partition[0] - log_z) <= 1e-7 * (1 + abs(log_z)), (sums.log_partition, log_z)
    chances = np.exp(expected - log_z)
    for v in np.flatnonzero(~layout.auxiliary).tolist():
        own = np.bincount(states[:, v], weights=chances, minlength=int(program.card[v]))
        found = sums.marginals.node[program.state_ptr[v] : program.state_ptr[v + 1]]
        assert np.allclose(found, own, rtol=0.0, atol=1e-6), (v, found, own)
