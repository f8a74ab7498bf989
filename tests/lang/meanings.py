"""What each model of the catalogue means, in plain Python: its variables, and the score of a labelling.

Nothing here is computed by the package.  ``MEANINGS[name]`` is a pair of functions: ``cells(x)`` returns for each label
(the positions that have a variable, its values), ``score(w, x, y)`` the score of a labelling, ``None`` for one that is
ruled out.  y holds a dict of values by position for each label; classes are numbers.
"""

from __future__ import annotations

import itertools

MEANINGS = {}


def means(cells):
    """Keep a score under the name of its model."""

    def keep(score):
        MEANINGS[score.__name__] = cells, score
        return score

    return keep


def labellings(cells):
    """Yield every labelling, ruled out or not; of trees they are listed already."""
    if not isinstance(cells, dict):
        yield from cells
        return
    names = [(label, cell) for label, (where, _) in cells.items() for cell in where]
    values = [value for where, value in cells.values() for _ in where]
    for chosen in itertools.product(*values):
        y = {label: {} for label in cells}
        for (label, cell), value in zip(names, chosen, strict=True):
            y[label][cell] = value
        yield y


def dot(a, b):
    return sum(float(p) * float(q) for p, q in zip(a, b, strict=True))


def row(x, t):
    return x[t] if 0 <= t < len(x) else [0.0] * len(x[0])


def along(n, k):
    """Cells of n variables of k states."""
    return list(range(n)), list(range(k))


def words(**labels):
    return lambda x: {label: along(len(x["x"]), k) for label, k in labels.items()}


def square(x):
    return [(i, j) for i in range(len(x)) for j in range(len(x))]


def table(x):
    return [(i, j) for i in range(len(x)) for j in range(len(x[0]))]


# -- sequences -----------------------------------------------------------------------------------------------------


@means(words(y=3))
def Chain(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    total = sum(dot(w["emit"][y[t]], [*row(x, t - 1), *x[t], *row(x, t + 1)]) for t in range(n))
    return total + sum(w["trans"][y[t], y[t + 1]] for t in range(n - 1))


@means(words(y=2))
def ThirdOrder(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    total = sum(dot(w["emit"][y[t]], x[t]) for t in range(n)) + w["first"][y[0]]
    return total + sum(w["four"][y[t], y[t + 1], y[t + 2], y[t + 3]] for t in range(n - 3))


@means(words(y=3))
def SkipChain(w, x, y):
    word, x, y, n = x["word"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["emit"][y[t]], x[t]) for t in range(n))
    total += sum(w["trans"][y[t], y[t + 1]] for t in range(n - 1))
    return total + sum(w["skip"] for j in range(n) for i in range(j) if word[i] == word[j] and y[i] == y[j])


@means(words(tag=3, chunk=2))
def Factorial(w, x, y):
    x, tag, chunk, n = x["x"], y["tag"], y["chunk"], len(x["x"])
    total = sum(dot(w["emit"][tag[t]], x[t]) + w["both"][tag[t], chunk[t]] for t in range(n))
    return total + sum(w["tags"][tag[t], tag[t + 1]] + w["chunks"][chunk[t], chunk[t + 1]] for t in range(n - 1))


@means(words(y=3))
def Bio(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    text = "".join("BIO"[y[t]] for t in range(n))
    if text[0] == "I" or "OI" in text:
        return None
    total = sum(dot(w["emit"][y[t]], x[t]) for t in range(n))
    return total + sum(w["trans"][y[t], y[t + 1]] for t in range(n - 1))


@means(words(y=3))
def Stages(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    if any(y[t + 1] - y[t] not in (0, 1) for t in range(n - 1)):
        return None
    stretches = [len(list(some)) for _, some in itertools.groupby(y[t] for t in range(n))]
    if any(length < 2 for length in stretches[1:-1]):
        return None
    return sum(dot(w["emit"][y[t]], x[t]) for t in range(n))


@means(words(seen=2, ann=2, bob=2))
def Annotators(w, x, y):
    x, seen, n = x["x"], y["seen"], len(x["x"])
    total = sum(dot(w["emit"][seen[t]], x[t]) for t in range(n))
    total += sum(dot(w["ann_reads"], x[t]) for t in range(n) if seen[t] == y["ann"][t])
    total += sum(dot(w["bob_reads"], x[t]) for t in range(n) if seen[t] == y["bob"][t])
    return total + sum(w["trans"][seen[t], seen[t + 1]] for t in range(n - 1))


@means(words(y=3))
def ChangePoints(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    if sum(y[t] != y[t + 1] for t in range(n - 1)) > 2:
        return None
    return sum(dot(w["emit"][y[t]], x[t]) for t in range(n))


# -- graphs --------------------------------------------------------------------------------------------------------


@means(lambda x: {"y": (table(x["x"]), [0, 1, 2])})
def Neighbours(w, x, y):
    x, y = x["x"], y["y"]
    total = sum(dot(w["unary"][y[cell]], x[cell]) for cell in y)
    for a, b in itertools.combinations(y, 2):
        if y[a] == y[b]:
            steps = sorted((abs(a[0] - b[0]), abs(a[1] - b[1])))
            total += w["four"] if steps == [0, 1] else w["eight"] if steps == [1, 1] else 0.0
    return total


@means(lambda x: {"y": (table(x["x"]), [0, 1])})
def Contrast(w, x, y):
    x, y = x["x"], y["y"]
    total = sum(dot(w["unary"][y[cell]], x[cell]) for cell in y)
    for a, b in itertools.combinations(y, 2):
        if y[a] == y[b] and abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1:
            total += dot(w["right"], [2.718281828459045 ** -abs(p - q) for p, q in zip(x[a], x[b], strict=True)])
    return total


@means(words(y=3))
def LabelCosts(w, x, y):
    e, x, y, n = x["e"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["unary"][y[t]], x[t]) for t in range(n)) + sum(w["edge"] for a, b in e if y[a] == y[b])
    return total + sum(w["used"][k] for k in set(y.values()))


@means(words(y=3))
def Superpixels(w, x, y):
    region, size, x, y, n = x["region"], x["size"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["unary"][y[t]], x[t]) for t in range(n))
    for s in range(len(size)):
        if len({y[t] for t in range(n) if region[t] == s}) <= 1:
            total += w["alike"][0] * size[s]
    return total


@means(words(y=3))
def NodeTypes(w, x, y):
    e, kind, x, y, n = x["e"], x["kind"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["unary"][kind[t], y[t]], x[t]) for t in range(n))
    return total + sum(w["edge"][kind[a], kind[b], y[a], y[b]] for a, b in e)


@means(words(y=3))
def ParentTree(w, x, y):
    parent, x, y, n = x["parent"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["unary"][y[t]], x[t]) for t in range(n))
    return total + sum(w["edge"][y[t], y[parent[t]]] for t in range(n) if parent[t] >= 0)


@means(lambda x: {"topic": ([()], [0, 1, 2]), "y": along(len(x["x"]), 2)})
def Star(w, x, y):
    x, y, topic, n = x["x"], y["y"], y["topic"][()], len(x["x"])
    return w["prior"][topic] + sum(dot(w["unary"][y[t]], x[t]) + w["ray"][topic, y[t]] for t in range(n))


@means(words(y=2))
def Hypergraph(w, x, y):
    e, f, x, y, n = x["e"], x["f"], x["x"], y["y"], len(x["x"])
    total = sum(dot(w["unary"][y[t]], x[t]) for t in range(n))
    return total + sum(dot(w["triple"][y[a], y[b], y[c]], row) for (a, b, c), row in zip(e, f, strict=True))


# -- sets ----------------------------------------------------------------------------------------------------------


@means(lambda x: {"y": along(5, 2)})
def MultiLabel(w, x, y):
    x, y = x["x"], y["y"]
    total = sum(dot(w["unary"][k, y[k]], x) for k in range(5))
    return total + sum(w["pair"][i, j, y[i], y[j]] for j in range(5) for i in range(j))


@means(lambda x: {"y": along(6, 2)})
def Topics(w, x, y):
    x, y = x["x"], y["y"]
    if any(y[k] and not y[parent] for k, parent in enumerate([-1, 0, 0, 1, 1, 2]) if parent >= 0):
        return None
    return sum(dot(w["unary"][k, y[k]], x) for k in range(6))


@means(lambda x: {"y": along(6, 2)})
def Groups(w, x, y):
    x, y = x["x"], y["y"]
    if (y[0] + y[1], y[2] + y[3] + y[4], y[5]) != (1, 1, 1):
        return None
    return sum(dot(w["unary"][k], x) for k in range(6) if y[k])


@means(words(y=2))
def Teams(w, x, y):
    team, places, x, y, n = x["team"], x["places"], x["x"], y["y"], len(x["x"])
    if any(sum(y[t] for t in range(n) if team[t] == g) > places[g] for g in range(len(places))):
        return None
    return sum(dot(w["worth"], x[t]) for t in range(n) if y[t])


@means(words(y=2))
def Cardinality(w, x, y):
    x, y, n = x["x"], y["y"], len(x["x"])
    return sum(dot(w["worth"], x[t]) for t in range(n) if y[t]) + w["size"][min(sum(y.values()), 4)]


@means(words(y=2))
def Summary(w, x, y):
    alike, length, x, y, n = x["alike"], x["words"], x["x"], y["y"], len(x["x"])
    chosen = [t for t in range(n) if y[t]]
    if sum(length[t] for t in chosen) > 10:
        return None
    pairs = itertools.combinations(chosen, 2)
    return sum(dot(w["worth"], x[t]) for t in chosen) + sum(w["repeats"][0] * alike[a, b] for a, b in pairs)


@means(words(y=2))
def Knapsack(w, x, y):
    weight, clash, x, y, n = x["weight"], x["clash"], x["x"], y["y"], len(x["x"])
    chosen = [t for t in range(n) if y[t]]
    if sum(weight[t] for t in chosen) > 8 or any(y[a] and y[b] for a, b in clash):
        return None
    return sum(dot(w["worth"], x[t]) for t in chosen)


# -- relations -----------------------------------------------------------------------------------------------------


def above(x):
    return [(i, j) for i, j in square(x) if i < j]


def is_clustering(linked, n):
    """Whether some clustering puts just the linked pairs together, among those whose state is known."""
    cluster = list(range(n))
    for (i, j), state in linked.items():
        if state:
            old, new = cluster[j], cluster[i]
            cluster = [new if one == old else one for one in cluster]
    return all(state == (cluster[i] == cluster[j]) for (i, j), state in linked.items())


@means(lambda x: {"same": (above(x["x"]), [0, 1])})
def Coreference(w, x, y):
    x, y = x["x"], y["same"]
    return sum(dot(w["link"][y[p]], x[p]) for p in y) if is_clustering(y, len(x)) else None


@means(lambda x: {"same": ([p for p in above(x["sign"]) if x["near"][p]], [0, 1])})
def CorrelationClustering(w, x, y):
    sign, y = x["sign"], y["same"]
    return sum(sign[p] + w["tie"] for p in y if y[p]) if is_clustering(y, len(sign)) else None


@means(lambda x: {"r": ([(i, j) for i, j in square(x["x"]) if i != j], [0, 1])})
def RankingWithTies(w, x, y):
    x, y, n = x["x"], y["r"], len(x["x"])
    if any(not (y[i, j] or y[j, i]) for i, j in above(x)):
        return None
    if any(y[i, j] and y[j, k] and not y[i, k] for i, j, k in itertools.permutations(range(n), 3)):
        return None
    return sum(dot(w["better"], x[p]) for p in y if y[p])


@means(lambda x: {"before": (above(x["x"]), [0, 1])})
def Ranking(w, x, y):
    x, y, n = x["x"], y["before"], len(x["x"])
    first = lambda i, j: y[i, j] if i < j else 1 - y[j, i]  # noqa: E731
    if any(first(i, j) and first(j, k) and first(k, i) for i, j, k in itertools.permutations(range(n), 3)):
        return None
    return sum(dot(w["better"], x[p]) for p in y if y[p])


@means(lambda x: {"edge": (above(x["x"]), [0, 1])})
def Adjacency(w, x, y):
    hands, x, y, n = x["hands"], x["x"], y["edge"], len(x["x"])
    if any(sum(y[p] for p in y if v in p) > hands[v] for v in range(n)):
        return None
    return sum(dot(w["link"], x[p]) for p in y if y[p])


@means(lambda x: {"touch": ([(i, j) for i, j in square(x["x"]) if j - i >= 3], [0, 1])})
def ContactMap(w, x, y):
    x, y = x["x"], y["touch"]
    total = sum(dot(w["unary"][y[p]], x[p]) for p in y)
    total += sum(w["along"][y[i, j], y[i + 1, j + 1]] for i, j in y if (i + 1, j + 1) in y)
    return total + sum(w["across"][y[i, j], y[i + 1, j - 1]] for i, j in y if (i + 1, j - 1) in y)


# -- matchings -----------------------------------------------------------------------------------------------------


def is_matching(pairs):
    return all(len({p[axis] for p in pairs}) == len(pairs) for axis in (0, 1))


@means(lambda x: {"y": (table(x["x"]), [0, 1])})
def Bipartite(w, x, y):
    chosen = [p for p, state in y["y"].items() if state]
    return sum(dot(w["near"], x["x"][p]) for p in chosen) if is_matching(chosen) else None


@means(lambda x: {"y": ([(f, *p) for f, one in enumerate(x["x"]) for p in table(one)], [0, 1])})
def Tracks(w, x, y):
    chosen = [p for p, state in y["y"].items() if state]
    if not all(is_matching([p[1:] for p in chosen if p[0] == f]) for f in range(len(x["x"]))):
        return None
    return sum(dot(w["near"], x["x"][p]) for p in chosen)


@means(lambda x: {"y": (table(x["x"]), [0, 1])})
def GraphMatching(w, x, y):
    chosen = sorted(p for p, state in y["y"].items() if state)
    if not is_matching(chosen):
        return None
    total = sum(dot(w["near"], x["x"][p]) for p in chosen)
    for (i, j), (k, l) in itertools.combinations(chosen, 2):
        total += w["fits"][0] * x["g"][i, k] * x["h"][j, l]
    return total


@means(lambda x: {"y": (table(x["x"]), [0, 1])})
def StableMatching(w, x, y):
    likes, liked, y = x["likes"], x["liked"], y["y"]
    chosen = [p for p, state in y.items() if state]
    if not is_matching(chosen):
        return None
    of_row, of_column = dict(chosen), {j: i for i, j in chosen}
    for i, j in y:
        if y[i, j]:
            continue
        row_wants = i not in of_row or likes[i, j] > likes[i, of_row[i]]
        column_wants = j not in of_column or liked[i, j] > liked[of_column[j], j]
        if row_wants and column_wants:
            return None
    return sum(dot(w["near"], x["x"][p]) for p in chosen)


@means(lambda x: {"y": (table(x["x"]), [0, 1])})
def Alignment(w, x, y):
    x, y = x["x"], y["y"]
    chosen = [p for p, state in y.items() if state]
    if len({j for _, j in chosen}) < len(chosen):
        return None
    counts = [sum(p[0] == i for p in chosen) for i in range(len(x))]
    return sum(dot(w["link"], x[p]) for p in chosen) + sum(w["fertility"][min(count, 2)] for count in counts)


# -- trees and paths -----------------------------------------------------------------------------------------------


def heads(x):
    return list(range(len(x))), list(range(-1, len(x)))


def is_tree(head):
    """Whether following heads ends at the root from everywhere."""
    for t in head:
        for _ in head:
            t = head[t] if t >= 0 else t
        if t >= 0:
            return False
    return True


@means(lambda x: {"head": heads(x["x"])})
def Dependency(w, x, y):
    head = y["head"]
    if not is_tree(head) or list(head.values()).count(-1) != 1:
        return None
    return sum(dot(w["arc"], x["x"][i, j]) for i, j in head.items() if j >= 0)


@means(lambda x: {"head": heads(x["x"])})
def SecondOrder(w, x, y):
    head = y["head"]
    if not is_tree(head):
        return None
    total = sum(dot(w["arc"], x["x"][i, j]) for i, j in head.items() if j >= 0)
    total += sum(w["siblings"] for j in head for i in range(j) if head[i] == head[j] >= 0)
    return total + sum(w["above"] for i, j in head.items() if j >= 0 and head[j] >= 0)


@means(lambda x: {"y": along(len(x["e"]), 2)})
def Route(w, x, y):
    e, f, n = x["e"], x["f"], len(x["z"])
    chosen = {m for m, state in y["y"].items() if state}
    at, left, seen = 0, set(chosen), {0}
    while at != n - 1:
        out = [m for m in left if e[m][0] == at]
        if len(out) != 1 or int(e[out[0]][1]) in seen:
            return None
        left -= {out[0]}
        at = int(e[out[0]][1])
        seen.add(at)
    return None if left else sum(dot(w["worth"], f[m]) for m in chosen)


@means(lambda x: {"y": ([(i, j) for i, j in square(x["x"]) if i != j], [0, 1])})
def Tour(w, x, y):
    n, chosen = len(x["x"]), [p for p, state in y["y"].items() if state]
    after = dict(chosen)
    if len(chosen) != n or len(after) != n:
        return None
    at, seen = 0, set()
    while at not in seen:
        seen.add(at)
        at = after[at]
    return sum(dot(w["worth"], x["x"][p]) for p in chosen) if (at, len(seen)) == (0, n) else None


# -- joint ---------------------------------------------------------------------------------------------------------


@means(lambda x: {"ent": along(len(x["x"]), 3), "rel": along(len(x["e"]), 2)})
def EntitiesAndRelations(w, x, y):
    ent, rel = y["ent"], y["rel"]
    if any(rel[m] and (ent[a], ent[b]) != (1, 2) for m, (a, b) in enumerate(x["e"].tolist())):
        return None
    total = sum(dot(w["what"][ent[t]], x["x"][t]) for t in ent)
    return total + sum(dot(w["which"][rel[m]], x["f"][m]) for m in rel)


@means(lambda x: {"tag": along(len(x["x"]), 3), "head": heads(x["x"])})
def TagAndParse(w, x, y):
    tag, head = y["tag"], y["head"]
    if not is_tree(head):
        return None
    total = sum(dot(w["word"][tag[t]], x["z"][t]) for t in tag)
    return total + sum(dot(w["arc"], x["x"][i, j]) + w["governs"][tag[j]] for i, j in head.items() if j >= 0)


@means(lambda x: {"scene": ([()], [0, 1, 2]), "region": along(len(x["x"]), 3)})
def Scene(w, x, y):
    scene, region = y["scene"][()], y["region"]
    total = dot(w["whole"][scene], x["z"])
    total += sum(dot(w["part"][region[r]], x["x"][r]) + w["both"][scene, region[r]] for r in region)
    return total + sum(w["near"][region[a], region[b]] for a, b in x["e"].tolist())


@means(lambda x: {"smokes": along(len(x["z"]), 2), "cancer": along(len(x["z"]), 2)})
def Smokers(w, x, y):
    smokes, cancer, n = y["smokes"], y["cancer"], len(x["z"])
    total = sum(dot(w["habit"], x["z"][a]) for a in range(n) if smokes[a])
    total += sum(w["causes"] for a in range(n) if not smokes[a] or cancer[a])
    total += sum(w["rare"] for a in range(n) if cancer[a])
    return total + sum(w["alike"] for a, b in above(x["z"]) if x["friend"][a, b] and smokes[a] == smokes[b])


@means(lambda x: {"vote": along(len(x["z"]), 2)})
def Votes(w, x, y):
    vote, n = y["vote"], len(x["z"])
    total = sum(dot(w["own"][vote[a]], x["z"][a]) for a in range(n))
    return total + sum(w["alike"] for a, b in above(x["z"]) if x["friend"][a, b] and vote[a] == vote[b])


@means(lambda x: {"y": ([()], [0, 1]), "topic": along(len(x["x"]), 3)})
def LatentTopics(w, x, y):
    topic, y, n = y["topic"], y["y"][()], len(x["x"])
    total = sum(dot(w["words"][topic[t]], x["x"][t]) + w["about"][y, topic[t]] for t in range(n))
    return total + sum(w["flow"][topic[t], topic[t + 1]] for t in range(n - 1))


@means(lambda x: {"bag": ([()], [0, 1]), "one": along(len(x["x"]), 2)})
def MultipleInstances(w, x, y):
    one, bag = y["one"], y["bag"][()]
    if bag != any(one.values()):
        return None
    return sum(dot(w["each"][one[t]], x["x"][t]) for t in one)


def phrases(first, last):
    """Yield every tree of the grammar S -> N S | N V | S V over words: its phrases by (start, end, middle, rule)."""
    for middle in range(first + 1, last):
        alone = middle - first == 1, last - middle == 1
        for rule, (left, right) in enumerate((("N", "S"), ("N", "V"), ("S", "V"))):
            if alone == (left == "N", right == "V"):
                for a in phrases(first, middle) if left == "S" else [{}]:
                    for b in phrases(middle, last) if right == "S" else [{}]:
                        yield a | b | {(first, last, middle): rule}


def trees(x):
    """Return every tree over the words: rules of phrases, and tags of words (those in front of a phrase are nouns)."""
    for tree in phrases(0, len(x["x"])):
        tags = {}
        for (first, last, _), rule in tree.items():
            if rule < 2:
                tags[first] = 0
            if rule > 0:
                tags[last - 1] = 1
        yield {"phrases": tree, "tags": tags}


@means(trees)
def Constituency(w, x, y):
    total = sum(dot(w["tags"][tag], x["x"][t]) for t, tag in y["tags"].items())
    total += w["rule"][0, 0]  # the first word begins no second child
    return total + sum(w["rule"].ravel()[1 + rule] for rule in y["phrases"].values())
