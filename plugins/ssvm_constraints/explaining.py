"""What is wrong with labels that break a structure, in its own words: rows that have two, arcs that cross, gaps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, matching_limits

#: So many things are named in one message.
FEW = 3

#: Bounds beyond this are none.
NO_BOUND = 1e9


def listed(parts: Iterable[str]) -> str:
    """Return the first few complaints in words."""
    complaints = list(parts)
    return "; ".join(complaints[:FEW]) + (f"; and {len(complaints) - FEW} more" if len(complaints) > FEW else "")


def numbers(values: NDArray[np.integer]) -> str:
    """Return the first few numbers in words."""
    listed_values = values.tolist()
    return ", ".join(map(str, listed_values[:FEW])) + (", ..." if len(listed_values) > FEW else "")


def bounds_words(least: float, most: float) -> str:
    """Return in words what a number must lie between."""
    if least == most:
        return f"exactly {most:g}"
    low = f"at least {least:g}" if least > -NO_BOUND else ""
    high = f"at most {most:g}" if most < NO_BOUND else ""
    return " and ".join(one for one in (low, high) if one)


def sides_of(group: ConstraintGroup, k: int, true: Bools) -> str:
    """Return which rows and columns of a matching have too many true literals, or too few."""
    part, complaints = group.literals(k), []
    places = {side: group.literal_meta[side][part][true] for side in ("row", "col")}
    for side, other, name, others in (("row", "col", "row", "columns"), ("col", "row", "column", "rows")):
        ptr, *limits = matching_limits(group, side)
        least, most = (limit[ptr[k] : ptr[k + 1]] for limit in limits)
        count = np.bincount(places[side], minlength=len(least))
        for number in np.flatnonzero((count < least) | (count > most)).tolist():
            where = f" ({others} {numbers(places[other][places[side] == number])})" if count[number] else ""
            bounds = bounds_words(least[number] if least[number] > 0 else -np.inf, most[number])
            complaints.append(f"{name} {number} has {count[number]}{where}, {bounds}")
    return listed(complaints)


def unmet_sides(group: ConstraintGroup, k: int, gain: F64) -> str:
    """Return which rows or columns cannot get what they need at least, or that all together cannot; "" if they can.

    Parameters
    ----------
    group : ConstraintGroup
        Of the kind ``matching`` or ``transport``.
    k : int
    gain : ndarray of float64, shape (literals of k,)
        ``-inf``: never true.
    """
    part, names = group.literals(k), {"row": ("row", "rows"), "col": ("column", "columns")}
    able, complaints, least, most = gain > -np.inf, [], {}, {}
    for side, (name, _) in names.items():
        ptr, *limits = matching_limits(group, side)
        least[side], most[side] = (one[ptr[k] : ptr[k + 1]] for one in limits)
        places = np.bincount(group.literal_meta[side][part][able], minlength=len(least[side]))
        most[side] = np.minimum(most[side], places)
        for one in np.flatnonzero(least[side] > most[side]).tolist():
            limit = f"only {places[one]} may be true" if most[side][one] == places[one] else "its limit is lower"
            complaints.append(f"{name} {one} needs {least[side][one]}, {limit}")
    for side, other in (("row", "col"), ("col", "row")) if not complaints else ():
        needed, there = int(least[side].sum()), int(most[other].sum())
        if needed > there:
            complaints.append(f"the {names[side][1]} need {needed} in all, the {names[other][1]} take {there} at most")
    return listed(complaints)


def tree_faults(group: ConstraintGroup, k: int, true: Bools) -> str:
    """Return what is no tree about true arcs; positions count from 0, as in ``Y``."""
    part, n = group.literals(k), int(group.meta["n"][k])
    head, dependent = (group.literal_meta[name][part][true].astype(np.int64) for name in ("head", "dependent"))
    count = np.bincount(dependent, minlength=n + 1)[1:]
    faults = [f"position {at} has {count[at] or 'no'} head{'s' * bool(count[at])}" for at in np.flatnonzero(count != 1)]
    below = head[dependent == 0]
    faults += [f"an arc leads to the root from {f'position {one - 1}' if one else 'itself'}" for one in below.tolist()]
    if not faults:
        faults += _cycles(head, dependent, n)
    roots = dependent[head == 0] - 1
    if group.meta["single_root"][k] and n and len(roots) != 1:
        which = f" ({numbers(roots)})" if len(roots) else ""
        faults.append(f"{len(roots)} positions are roots{which}, exactly 1 may be")
    return listed(faults)


def _cycles(head: I64, dependent: I64, n: int) -> list[str]:
    """Return the circles of heads, each once."""
    above, seen, complaints = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=bool), []
    above[dependent] = head
    seen[0] = True
    for start in range(1, n + 1):
        path, at = [], start
        while not seen[at]:
            seen[at] = True
            path.append(at)
            at = int(above[at])
        if at in path:
            circle = [*path[path.index(at) :], at]
            complaints.append("heads lead round in a circle: " + " -> ".join(str(one - 1) for one in circle))
    return complaints


def crossing_arcs(group: ConstraintGroup, k: int, true: Bools) -> str:
    """Return which arcs of a tree cross, the root before the first position."""
    part = group.literals(k)
    head, dependent = (group.literal_meta[name][part][true] for name in ("head", "dependent"))
    low, high = np.minimum(head, dependent), np.maximum(head, dependent)
    inside = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    arcs = zip(head.tolist(), dependent.tolist(), strict=True)
    words = [f"{'root' if h == 0 else h - 1} -> {d - 1}" for h, d in arcs]
    return listed(f"the arcs {words[a]} and {words[b]} cross" for a, b in np.argwhere(inside).tolist())


def route_faults(tail: I64, head: I64, n_nodes: int, ends: tuple[int, int] | None) -> str:
    """Return what is no route about true arcs.

    Parameters
    ----------
    tail, head : ndarray of int, shape (a,)
        The true arcs.
    n_nodes : int
    ends : tuple (source, target), optional
        Of a path; without it the arcs are to form one circuit.
    """
    if not len(tail):
        return "no edge is chosen" if ends is None or ends[0] != ends[1] else ""
    out, into = np.bincount(tail, minlength=n_nodes), np.bincount(head, minlength=n_nodes)
    wanted = np.zeros(n_nodes, dtype=np.int64)
    complaints = [f"{int(times)} edges {verb} node {node}" for count, verb in ((out, "leave"), (into, "enter"))
             for node, times in enumerate(count) if times > 1]  # fmt: skip
    if ends is not None and ends[0] != ends[1]:
        source, target = ends
        wanted[source], wanted[target] = 1, -1
        complaints += [f"no edge leaves the source {source}"] if not out[source] else []
        complaints += [f"no edge enters the target {target}"] if not into[target] else []
        complaints += [f"an edge enters the source {source}"] if into[source] else []
        complaints += [f"an edge leaves the target {target}"] if out[target] else []
    named = set() if ends is None else set(ends)
    for node in np.flatnonzero(out - into != wanted).tolist():
        if node not in named and max(out[node], into[node]) == 1:
            complaints.append(f"the edges end at node {node}" if into[node] else f"edges begin at node {node}")
    complaints += [f"an edge leads from node {node} to itself" for node in tail[tail == head].tolist()]
    return listed(complaints or ["the edges fall into several pieces"])
