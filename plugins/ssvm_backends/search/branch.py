"""Branch and bound on a component of the problem, slice by slice, with neighbourhood search and larger tables.

Between slices of the search, *neighbourhoods* of the best labelling are solved: some variables near each other are set
free, all others stay (large neighbourhood search; Ouali et al. 2017), and local search starts from random labellings:
on dense graphs that finds optima that no neighbourhood of a few variables reaches.  When the gap hardly closes,
the problem is taken through elimination again with larger tables, whose dual bound is tighter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Graph
from ssvm_backends.search.core import NODES, Core, State
from ssvm_backends.search.search import FOUND, Root, SearchTree, grow_tree, make_tree, root_of, search
from ssvm_backends.search.subproblem import Subproblem
from ssvm_dsl.ir import I32

#: Table entries looked at in a slice.
WORK_PART = 3_000_000

#: Slices before neighbourhoods are searched, and before larger tables are tried.
WARM_UP, FIRST_CHECK = 8, 24

#: Searches in vain after which there is one slice more between two searches, and the most slices between them.
PATIENCE, RAREST_LOOK = 16, 4

#: Entries of tables beyond which they do not grow.
LARGEST_TABLE = 1 << 12


class Branch:
    """Branch and bound.

    Parameters
    ----------
    part : Part
        Hears of labellings and bounds.
    core : Core
    state : State
        Propagated root.
    """

    def __init__(self, part: Subproblem, core: Core, state: State) -> None:
        self.part, self.core, self.state = part, core, state
        self.tree: SearchTree = make_tree(core.n_states, core.n_variables)
        self.root: Root = root_of(state)
        self.possible = True
        self.next_improvement, self.in_vain = WARM_UP, 0
        self.neighbourhoods = Neighbourhoods(part.instance.graph)

    def solve(self) -> None:
        """Search until all is closed or time is up."""
        part = self.part
        slices, check, gap = 0, FIRST_CHECK, part.bound - part.best
        while True:
            status = self._slice()
            slices += 1
            if status == 0 or not self.possible:
                part.proved()
                return
            part.lower(float(part.instance.const[0] - self.tree.heap_bound[0]))
            part.pause(slices)
            if status == 2:
                self.tree = grow_tree(self.tree)
            if part.setup.brief:
                continue
            if slices >= self.next_improvement:
                self._improve_best()
                self.next_improvement = slices + 1 + min(self.in_vain // PATIENCE, RAREST_LOOK)
            if slices == check:
                if part.bound - part.best > 0.75 * gap and self._with_larger_tables():
                    return
                check, gap = 2 * check, part.bound - part.best

    def _slice(self) -> int:
        """Search a little; return the status of :func:`~ssvm_backends.search.search.search`."""
        before = int(self.state.tally[NODES])
        status = search(self.core, self.state, self.tree, self.root, WORK_PART)
        stats = self.part.setup.stats
        stats["nodes"] = stats.get("nodes", 0) + int(self.state.tally[NODES]) - before
        if self.tree.tally[FOUND]:
            self.tree.tally[FOUND] = 0
            self.part.offer(self.state.best)
            self.part.improve(self.state.best)
            self._restart_from_root()
        return status

    def _restart_from_root(self) -> None:
        """Propagate the root again with the new upper bound."""
        self.part.set_upper_bound(self.state)
        self.root.restore(self.state)
        self.possible = self.part.propagate(self.core, self.state)
        self.root = root_of(self.state)

    def _improve_best(self) -> None:
        """Look for a better labelling: in a neighbourhood of the best, then from a random one."""
        before = self.part.best
        settled = self.part.search_neighbourhood(self.neighbourhoods.draw())
        if self.part.best == before:
            self.neighbourhoods.resize(settled)
            self.part.improve(self.neighbourhoods.random_labels())
        self.in_vain = 0 if self.part.best > before else self.in_vain + 1
        if self.part.best > before:
            self._restart_from_root()

    def _with_larger_tables(self) -> bool:
        """Start again with larger tables if that makes the problem smaller; return whether it did."""
        setup = self.part.setup
        if setup.most_entries >= LARGEST_TABLE:
            return False
        self.root.restore(self.state)
        larger = replace(setup, most_entries=8 * setup.most_entries, most_arity=setup.most_arity + 3)
        return self.part.restart(self.core, self.state, larger, 0.9)


class Neighbourhoods:
    """Random sets of variables near each other, and random labellings.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.random = np.random.default_rng(0)
        self.size = 10.0

    def draw(self) -> NDArray[np.bool_]:
        """Return the members of a connected set that grows from a random variable."""
        g, n = self.graph, self.graph.n_variables
        inside = np.zeros(n, dtype=bool)
        fringe = [int(self.random.integers(n))]
        known = set(fringe)
        for _ in range(min(n, int(self.size))):
            if not fringe:
                break
            at = int(self.random.integers(min(len(fringe), 6)))
            v = fringe.pop(at)
            inside[v] = True
            for slot in g.touch_slot[g.touch_ptr[v] : g.touch_ptr[v + 1]]:
                f = g.slot_factor[slot]
                scope = g.scope[g.slot_ptr[f] : g.slot_ptr[f + 1]].tolist()
                fresh = [w for w in scope if w not in known]
                known.update(fresh)
                fringe.extend(fresh)
        return inside

    def random_labels(self) -> I32:
        """Return a labelling drawn uniformly; local search from many finds optima outside of neighbourhoods."""
        return self.random.integers(0, self.graph.card).astype(np.int32)

    def resize(self, settled: bool) -> None:
        """Draw larger sets after one that was settled without a better labelling, smaller ones otherwise."""
        factor = 1.1 if settled else 0.8
        self.size = float(np.clip(self.size * factor, 3.0, max(3.0, float(self.graph.n_variables))))
