"""Naive readers, straight from the texts, and writers of random ones: what the real readers are held against."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ssvm_dsl.plugin_api import score_labels


def read_uai(text):
    """Return (cards, [(scope, {states: log value})])."""
    tokens = iter(text.split())
    assert next(tokens) in ("MARKOV", "BAYES")
    cards = [int(next(tokens)) for _ in range(int(next(tokens)))]
    scopes = [[int(next(tokens)) for _ in range(int(next(tokens)))] for _ in range(int(next(tokens)))]
    factors = []
    for scope in scopes:
        states = list(product(*(range(cards[v]) for v in scope)))
        assert int(next(tokens)) == len(states)
        factors.append((scope, {s: log(float(next(tokens))) for s in states}))
    return cards, factors


def read_fg(text):
    """Return (labels, cards, factors); the first variable varies fastest."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    tokens = iter(" ".join(lines).split())
    raw, card = [], {}
    for _ in range(int(next(tokens))):
        n = int(next(tokens))
        scope = [int(next(tokens)) for _ in range(n)]
        sizes = [int(next(tokens)) for _ in range(n)]
        card.update(zip(scope, sizes))
        listed = {int(next(tokens)): float(next(tokens)) for _ in range(int(next(tokens)))}
        states = [s[::-1] for s in product(*(range(c) for c in sizes[::-1]))]
        raw.append((scope, {s: log(listed.get(k, 0.0)) for k, s in enumerate(states)}))
    labels = sorted(card)
    return labels, [card[v] for v in labels], [([labels.index(v) for v in scope], t) for scope, t in raw]


def read_wcsp(text):
    """Return (cards, factors) of functions in extension, unshared; scores are minus the costs."""
    tokens = iter(text.split()[1:])
    n, _, m, top = (int(next(tokens)) for _ in range(4))
    cards = [int(next(tokens)) for _ in range(n)]
    factors = []
    for _ in range(m):
        scope = [int(next(tokens)) for _ in range(int(next(tokens)))]
        default, count = int(next(tokens)), int(next(tokens))
        costs = dict.fromkeys(product(*(range(cards[v]) for v in scope)), default)
        for _ in range(count):
            states = tuple(int(next(tokens)) for _ in scope)
            costs[states] = int(next(tokens))
        factors.append((scope, {s: -c if c < top else -math.inf for s, c in costs.items()}))
    return cards, factors


def log(value):
    return math.log(value) if value else -math.inf


def naive_score(factors, labels):
    return sum(table[tuple(labels[v] for v in scope)] for scope, table in factors)


def scores_of(problem, labellings):
    """The scores of labellings by the definition of ``Theta``."""
    return [float(score_labels(problem.program, problem.theta, np.array(y, np.int32))[0]) for y in labellings]


def assert_same_scores(problem, cards, factors, limit=3000, seed=0):
    """The problem scores every labelling (or a random choice) as the naive reader does."""
    assert problem.program.card.tolist() == cards
    total = math.prod(cards)
    if total <= limit:
        labellings = list(product(*map(range, cards)))
    else:
        rng = np.random.default_rng(seed)
        labellings = [tuple(rng.integers(0, cards).tolist()) for _ in range(40)]
    expected = [naive_score(factors, y) for y in labellings]
    np.testing.assert_allclose(scores_of(problem, labellings), expected, rtol=1e-12, atol=1e-12)
    return labellings, expected


def random_scopes(rng, n_variables, n_factors, max_arity=3):
    sizes = rng.integers(0, min(max_arity, n_variables) + 1, n_factors)
    return [rng.permutation(n_variables)[:k].tolist() for k in sizes]


def values_for(rng, size):
    values = rng.random(size).round(3)
    values[rng.random(size) < 0.2] = 0.0
    return values


def uai_text(rng, kind="MARKOV"):
    """A random UAI text with lines broken anywhere."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    tokens = [kind, len(cards), *cards, len(scopes)]
    for scope in scopes:
        tokens += [len(scope), *scope]
    for scope in scopes:
        values = values_for(rng, math.prod(cards[v] for v in scope))
        tokens += [len(values), *values.tolist()]
    return joined(rng, tokens)


def fg_text(rng):
    """A random libDAI text; labels have gaps."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    labels = np.sort(rng.choice(100, len(cards), replace=False)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    blocks = ["# a comment", str(len(scopes))]
    for scope in scopes:
        values = values_for(rng, math.prod(cards[v] for v in scope))
        listed = [(k, x) for k, x in enumerate(values.tolist()) if x]
        rng.shuffle(listed)
        names, sizes = (" ".join(str(of[v]) for v in scope) for of in (labels, cards))
        head = [len(scope), names, sizes, len(listed)]
        blocks += ["", *map(str, head), "# another", *(f"{int(k)}\t{x}" for k, x in listed)]
    return "\n".join(blocks) + "\n"


def wcsp_text(rng):
    """A random WCSP text of functions in extension."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    tokens = ["7up", len(cards), max(cards), len(scopes), 12, *cards]
    for scope in scopes:
        states = list(product(*(range(cards[v]) for v in scope)))
        chosen = [s for s in states if rng.random() < 0.6]
        tokens += [len(scope), *scope, int(rng.integers(0, 14)), len(chosen)]
        for s in chosen:
            tokens += [*s, int(rng.integers(0, 14))]
    return joined(rng, tokens)


def joined(rng, tokens):
    gaps = rng.choice([" ", "\n", "\t", "  \r\n"], len(tokens))
    return "".join(f"{token}{gap}" for token, gap in zip(tokens, gaps))


# -- cost networks, MaxSAT, pseudo-Boolean problems, Bayesian networks: writers of random ones, and what they mean ----


def shuffled(rng, n, most):
    """Some numbers below n in random order, at least one."""
    return rng.permutation(n)[: rng.integers(1, min(n, most) + 1)].tolist()


def cfn_text(rng, rules=True):
    """A random cost network with decimal costs: tables, lists of tuples, and rules over many variables."""
    return cfn_parts(rng, rules)[0]


def cfn_parts(rng, rules=True):
    """The text, and what it means: (cards, cost of a labelling or None, sign, bound)."""
    n = int(rng.integers(1, 6))
    cards = rng.integers(1, 4, n).tolist()
    values = [[f"{'ab'[v % 2]}{k}" for k in range(c)] if rng.random() < 0.4 else None for v, c in enumerate(cards)]
    sign, bound = rng.choice(["<", ">"]), round(float(rng.integers(-2, 25) * 0.5), 1)
    quote = rng.choice(['"', ""])

    def say(text):
        return f"{quote}{text}{quote}"

    def name(v):
        return str(v) if rng.random() < 0.3 else say(f"x{v}")

    def value(v, k):
        return say(values[v][k]) if values[v] and rng.random() < 0.5 else str(k)

    def domain(v):
        return f"[{' , '.join(map(say, values[v]))}]" if values[v] else str(cards[v])

    variables = ", ".join(f"{say(f'x{v}')}: {domain(v)}" for v in range(n))
    functions, costs, hard = [], [], []
    for f in range(rng.integers(0, 6)):
        scope = rng.permutation(n)[: rng.integers(0, min(n, 3) + 1)].tolist()
        shape = [cards[v] for v in scope]
        table = (rng.integers(-4, 9, shape) * 0.5).round(1)
        said = f"scope: [{' '.join(map(name, scope))}]"
        if rng.random() < 0.4 and scope:
            default = round(float(rng.integers(0, 4) * 0.5), 1)
            listed = [s for s in np.ndindex(*shape) if rng.random() < 0.5]
            rest = np.full(shape, default)
            for s in listed:
                rest[s] = table[s]
            table = rest
            rows = " ".join(f"{' '.join(value(v, k) for v, k in zip(scope, s))} {table[s]}" for s in listed)
            said += f", defaultcost: {default}, costs: [{rows}]"
        else:
            said += f", costs: [{', '.join(map(str, table.ravel().tolist()))}]"
        functions.append(f"f{f}: {{{said}}}")
        costs.append((scope, table))
    for f in range(rng.integers(0, 3) if rules else 0):
        kind = rng.choice(["knapsackv", "clique", "alldiff"])
        scope = shuffled(rng, n, n)
        if kind == "knapsackv":
            weighted = [(v, int(rng.integers(cards[v])), int(rng.integers(-3, 5))) for v in scope]
            capacity = int(rng.integers(-2, 4))
            rows = ", ".join(f"[{v}, {k}, {w}]" for v, k, w in weighted)
            params = f"capacity: {capacity}, weightedvalues: [{rows}]"
            hard.append(lambda y, t=weighted, c=capacity: sum(w for v, k, w in t if y[v] == k) >= c)
        elif kind == "clique":
            most, sets = int(rng.integers(0, 3)), {v: shuffled(rng, cards[v], 2) for v in scope}
            params = f"rhs: {most}, values: [{' '.join(f'[{chr(32).join(map(str, s))}]' for s in sets.values())}]"
            hard.append(lambda y, s=sets, m=most: sum(y[v] in s[v] for v in s) <= m)
        else:
            scope = [v for v in scope if values[v] is None]
            if len(scope) < 2:
                continue
            params = "exceptedvalues: [], deltacosts: []"
            hard.append(lambda y, s=scope: len({y[v] for v in s}) == len(s))
        functions.append(f"r{f}: {{scope: [{' '.join(map(name, scope))}] type: {kind}, params: {{{params}}}}}")
    rng.shuffle(functions)
    text = f"# a comment\n{{problem: {{name: p mustbe: \"{sign}{bound}\"}}\n variables: {{{variables}}}\n functions: {{"
    text += ",\n  ".join(functions) + "}}\n"

    def cost(y):
        return sum(t[tuple(y[v] for v in s)] for s, t in costs) if all(rule(y) for rule in hard) else None

    return text, (cards, cost, sign, bound)


def wcnf_text(rng, old=None):
    """A random MaxSAT text, in the old form or in that of 2022."""
    return wcnf_parts(rng, old)[0]


def wcnf_parts(rng, old=None):
    """The text, and what it means: (number of variables, [(weight or None where hard, literals)])."""
    old = rng.random() < 0.5 if old is None else old
    n, clauses = int(rng.integers(1, 9)), []
    for _ in range(rng.integers(1, 12)):
        size = rng.integers(0 if rng.random() < 0.05 else 1, 9)
        literals = (rng.integers(1, n + 1, size) * rng.choice([-1, 1], size)).tolist()
        clauses.append((None if rng.random() < 0.3 else int(rng.integers(1, 9)), literals))
    top = int(1 + sum(w or 0 for w, _ in clauses))
    lines = ["c a comment"]
    if old:
        lines.append(f"p wcnf {n} {len(clauses)} {top}")
    else:
        n = max((abs(x) for _, one in clauses for x in one), default=0)
    for w, one in clauses:
        lines.append(" ".join(map(str, [(top if old else "h") if w is None else w, *one, 0])))
    return "\n".join(lines) + "\n", (n, clauses)


def wcnf_cost(clauses, y):
    """What an assignment pays, None where a hard clause does not hold."""
    broken = [w for w, one in clauses if not any((y[abs(x) - 1] == 1) == (x > 0) for x in one)]
    return None if None in broken else sum(broken)


def opb_text(rng, products=True):
    """A random pseudo-Boolean text."""
    return opb_parts(rng, products)[0]


def opb_parts(rng, products=True):
    """The text, and what it means: (names, cost of a labelling or None)."""
    n, used = int(rng.integers(1, 7)), set()

    def terms(most):
        found = []
        for _ in range(rng.integers(1, most + 1)):
            size = rng.integers(1, 8) if products and rng.random() < 0.3 else 1
            literals = [(int(v), bool(rng.random() < 0.3)) for v in rng.integers(0, n, size)]
            used.update(v for v, _ in literals)
            found.append((int(rng.integers(-5, 6)), literals))
        return found

    def say(some):
        return " ".join(f"{c:+d} {' '.join(f'{chr(126) * o}x{v + 1}' for v, o in one)}" for c, one in some)

    def total(some, y):
        return sum(c * all(y[v] != o for v, o in one) for c, one in some)

    objective = terms(6) if rng.random() < 0.8 else []
    rules = [(terms(5), rng.choice([">=", "<=", "="], p=[0.6, 0.3, 0.1]), int(rng.integers(-3, 5))) for _ in range(3)]
    lines = ["* #variable= 9 #constraint= 3", *([f"min: {say(objective)} ;"] if objective else [])]
    lines += [f"{say(some)} {sign} {bound};" for some, sign, bound in rules]
    keeps = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b}

    def cost(y):
        kept = all(keeps[sign](total(some, y), bound) for some, sign, bound in rules)
        return total(objective, y) if kept else None

    return "\n".join(lines) + "\n", (sorted(used), cost)


def bif_text(rng):
    """A random Bayesian network."""
    return bif_parts(rng)[0]


def bif_parts(rng, least=1):
    """The text, and what it means: (names, states, [(child, parents, table of parents and child)])."""
    n = int(rng.integers(1, 6))
    names = [f"{'abc'[v % 3]}-{v}.x" for v in range(n)]
    states = []
    for _ in names:
        states.append([f"s{k}" if rng.random() < 0.8 else f'"{k} or more"' for k in range(rng.integers(least, 4))])
    blocks, tables = [], []
    for v, name in enumerate(names):
        blocks.append(f"variable {name} {{\n  type discrete [ {len(states[v])} ] {{ {', '.join(states[v])} }};\n}}")
        parents = rng.permutation(v)[: rng.integers(0, min(v, 3) + 1)].tolist()
        shape = [len(states[u]) for u in parents]
        table = rng.dirichlet(np.ones(len(states[v])), shape).round(4)
        table[..., -1] = (1.0 - table[..., :-1].sum(-1)).round(4).clip(0.0)
        given = f" | {', '.join(names[u] for u in parents)}" if parents else ""
        lines = []
        if not parents or rng.random() < 0.3:
            flat = np.moveaxis(table, -1, 0).ravel().tolist()
            lines.append(f"  table {', '.join(map(repr, flat))};")
        else:
            rows = list(np.ndindex(*shape))
            if rng.random() < 0.3:
                lines.append(f"  default {', '.join(map(repr, table[rows[-1]].tolist()))} ;")
                rows = rows[:-1]
            for row in rows:
                said = ", ".join(states[u][k] for u, k in zip(parents, row))
                lines.append(f"  ({said}) {', '.join(map(repr, table[row].tolist()))};")
        body = "\n".join(lines)
        blocks.append(f"probability ( {name}{given} ) {{\n  property a = b ;\n{body}\n}} // the end")
        tables.append((v, parents, table))
    plain = [[one.strip('"') for one in some] for some in states]
    return "network random {\n}\n" + "\n".join(blocks) + "\n", (names, plain, tables)
