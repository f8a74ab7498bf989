"""Descriptions of the bundled inference backends; each algorithm has a file of its own in the folders below."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ssvm_dsl.ir import Ability, Caps, Guarantee, Task, Topology, Warm
from ssvm_dsl.plugin_api import Alias, BackendSpec, Option, hookimpl

#: Operations in a second, as each backend's ``check`` counts them: expected times, and with them the choice of
#: ``auto``, rest on.  Those that compete with others are means over the structures of ``make bench ARGS=speeds``, which
#: prints by how much they are off: processor time of one thread, five examples with random features and weights.
SPEED = {
    "chain": 2e9,
    "tree": 2e9,
    "junction-tree": 3e9,
    "combi": 4e8,
    "ilp": 8e9,
    "lp": 7e8,
    "trws": 6e8,
    "msd": 5e9,
    "mplp": 4e9,
    "tbcd": 2.5e9,
    "ad3": 5e9,
    "cycles": 2.5e10,
    "graph-cut": 1.1e8,
    "alpha-expansion": 4e8,
    "alpha-beta-swap": 6e8,
    "qpbo": 5e8,
    "max-product": 6e8,
    "icm": 9e6,
    "assignment": 1e9,
    "arborescence": 1e9,
    "eisner": 1e9,
    "semi-markov": 1e9,
    "cky": 1e9,
    "shortest-path": 1e9,
    "circuit": 8e9,
    "relations": 2e9,
    "cardinality": 1e9,
    "decompose": 1e9,
    "custom-exact": 1e9,
    "custom": 1e9,
    "brute-force": 8e8,
}

_ALL_EXACT = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.KBEST, Task.MARGINALS})
_WITH_RELAXED = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.RELAXED})
#: Tasks of most solvers for any graph.
_BEST_LABELLING = Caps(tasks=frozenset({Task.MAP, Task.MAP_CLAMPED}), topology=Topology.LOOPY, max_arity=64)
#: Tasks of exact methods that also find the best labelling for each count: ``CountLoss`` and slack rescaling need it.
_COUNTING = Caps(
    tasks=_ALL_EXACT,
    topology=Topology.FOREST,
    guarantee=Guarantee.EXACT,
    max_arity=2,
    abilities=frozenset({Ability.COUNTS, Ability.COMPILED}),
)
#: What local search answers, and local search by cuts.
_SEARCH = replace(_BEST_LABELLING, guarantee=Guarantee.HEURISTIC, warm=Warm.LABELS)
_MOVES = replace(_SEARCH, max_arity=2)
#: Counts also keep one bound on the number of true literals of each example.
_FORESTS = replace(_COUNTING, constraint_kinds=frozenset({"count"}))
_WORKERS = Option("num_workers", 1, "threads of one CP-SAT search; more than one is not reproducible", int, least=1)
_LP_SOLVERS = ("auto", "glop", "pdlp", "highs")
_ROUNDINGS = ("none", "argmax", "threshold", "conditional", "by-class")

_DYNAMIC_PROGRAMMING = (
    BackendSpec(
        "chain",
        "ssvm_backends.trees.chain:Chain",
        "exact dynamic programming on disjoint chains (Viterbi, forward-backward, k-best)",
        caps=replace(_FORESTS, topology=Topology.CHAIN, abilities=_COUNTING.abilities | {Ability.SUMMED_MARGINALS}),
    ),
    BackendSpec(
        "tree",
        "ssvm_backends.trees.tree:Tree",
        "exact dynamic programming on forests (max-product, sum-product, k-best)",
        caps=_FORESTS,
    ),
    BackendSpec(
        "junction-tree",
        "ssvm_backends.elimination.junction_tree:JunctionTree",
        "exact variable elimination on graphs of bounded treewidth (best, k best, marginals, log Z)",
        options=(
            Option("max_entries", 2**26, "numbers of 8 bytes that all tables together may take", int, least=1),
            Option("marginals", "all", "answers of the task marginals: 'none' computes log Z alone", ("all", "none")),
        ),
        caps=Caps(
            tasks=_ALL_EXACT,
            topology=Topology.LOOPY,
            guarantee=Guarantee.EXACT,
            max_arity=64,
            abilities=frozenset({Ability.COMPILED}),
        ),
    ),
)

_PROGRAMS = (
    BackendSpec(
        "combi",
        "ssvm_backends.search.combi:Combi",
        "exact and anytime on any graph: elimination, dual bounds, state fixing, branch and bound",
        options=(
            Option("max_entries", 64, "entries of the largest table that elimination may make", int, least=1),
            Option("max_arity", 6, "most variables of a factor that elimination may make", int, least=1),
        ),
        caps=replace(
            _BEST_LABELLING,
            tasks=_BEST_LABELLING.tasks | {Task.KBEST},
            guarantee=Guarantee.EXACT,
            max_arity=16,
            score_atol=1e-8,
            searches=True,
        ),
    ),
    BackendSpec(
        "ilp",
        "ssvm_backends.programs.ilp:ILP",
        "integer programming by CP-SAT or HiGHS: exact on any graph, exponential in the worst case",
        requires=("ortools.sat.python.cp_model",),
        install_hint="pip install ortools",
        options=(
            Option("solver", "cp-sat", "who solves", ("cp-sat", "highs")),
            _WORKERS,
        ),
        caps=replace(
            _BEST_LABELLING,
            tasks=_BEST_LABELLING.tasks | {Task.KBEST},
            guarantee=Guarantee.EXACT,
            every_constraint=True,
            by_rows=True,
            warm=Warm.LABELS,
            score_atol=1e-6,
            searches=True,
        ),
    ),
    BackendSpec(
        "lp",
        "ssvm_backends.programs.lp:LP",
        "linear programming over the local polytope: a certified bound, optimal where the solution is whole",
        requires=("ortools.math_opt.python.mathopt",),
        install_hint="pip install ortools",
        options=(
            Option("solver", "auto", "the solver; auto: GLOP, PDLP for large examples", _LP_SOLVERS),
            Option("rounding", "conditional", "how fractional solutions become labels, if at all", _ROUNDINGS),
        ),
        caps=replace(
            _BEST_LABELLING,
            tasks=_WITH_RELAXED,
            guarantee=Guarantee.BOUND,
            every_constraint=True,
            by_rows=True,
            warm=Warm.STATE,
        ),
    ),
)

_DUAL_OPTIONS = (
    Option("max_iterations", 1000, "most iterations for each example", int, least=0),
    Option(
        "tol",
        1e-6,
        "stop when ten iterations lower the bound by less, relative to the size of its terms",
        float,
        least=0,
    ),
)
_DUAL_CAPS = replace(
    _BEST_LABELLING,
    guarantee=Guarantee.BOUND,
    max_arity=16,
    warm=Warm.STATE,
    abilities=frozenset({Ability.MESSAGES}),
)

_DUAL = (
    BackendSpec(
        "trws",
        "ssvm_backends.dual.trws:TRWS",
        "sequential reweighted message passing, factors of any size: fast certified bounds and good labellings",
        options=(
            *_DUAL_OPTIONS,
            Option("smooth", True, "continue with soft maxima after plain maxima have converged", bool),
        ),
        caps=_DUAL_CAPS,
    ),
    BackendSpec(
        "msd",
        "ssvm_backends.dual.descent.backends:MSD",
        "max-sum diffusion by edges or stars, plain or soft: certified bounds on any graph",
        options=(
            *_DUAL_OPTIONS,
            Option("update", "star", "which messages are updated at once", ("edge", "star")),
            Option(
                "temperature", 0.0, "temperature of soft maxima, in units of scores; 0 for plain ones", float, least=0
            ),
        ),
        caps=_DUAL_CAPS,
    ),
    BackendSpec(
        "mplp",
        "ssvm_backends.dual.descent.backends:MPLP",
        "message passing factor by factor (MPLP++, GMPLP): certified bounds, best on dense graphs",
        options=(
            *_DUAL_OPTIONS,
            Option("update", "handshake", "MPLP++ (handshake) or GMPLP (clique)", ("handshake", "clique")),
        ),
        caps=_DUAL_CAPS,
    ),
    BackendSpec(
        "tbcd",
        "ssvm_backends.dual.descent.backends:TBCD",
        "tree block coordinate descent, messages of a spanning tree at a time: certified bounds, best on near-trees",
        options=(
            *_DUAL_OPTIONS,
            Option(
                "trees",
                "random",
                "spanning trees: new ones in each iteration (random), or one set that has every factor (cover)",
                ("random", "cover"),
            ),
        ),
        caps=_DUAL_CAPS,
    ),
    BackendSpec(
        "ad3",
        "ssvm_backends.dual.ad3:AD3",
        "alternating directions dual decomposition: the LP relaxation solved to its optimum on any graph",
        options=(
            Option("max_iterations", 5000, "most iterations for each example", int, least=0),
            Option(
                "tol",
                1e-6,
                "stop when bound and fractional solution agree to this, relative to their size",
                float,
                least=0,
            ),
        ),
        # steps continue from marginals as well as messages: a few of them at a time do not lower the bound further
        caps=replace(_DUAL_CAPS, tasks=_WITH_RELAXED, every_constraint=True, by_rows=True, abilities=frozenset()),
    ),
    BackendSpec(
        "cycles",
        "ssvm_backends.dual.cycles:Cycles",
        "message passing with clusters of cycles: certified bounds beyond the local polytope, factors of two variables",
        options=(
            Option("max_iterations", 5000, "most iterations without clusters, and as many with them", int, least=0),
            _DUAL_OPTIONS[1],
            Option("clusters", 50, "clusters that are added at a time", int, least=1),
            Option("max_clusters", 2000, "most clusters of each example; 0: the local polytope", int, least=0),
        ),
        caps=replace(_BEST_LABELLING, guarantee=Guarantee.BOUND, max_arity=2, warm=Warm.STATE),
    ),
)

_MIXED = (
    BackendSpec(
        "decompose",
        "ssvm_backends.decomposition.decompose:Decompose",
        "exact and anytime: dual decomposition into oracles of structures, sums, forests, and branch and bound",
        requires=("ortools.sat.python.cp_model",),
        install_hint="pip install ortools",
        options=(
            Option("max_iterations", 200, "most calls of the oracles in each node of the search", int, least=1),
            Option("max_nodes", None, "most nodes of each search, if any; 1: no search", int, least=1, optional=True),
            Option(
                "tol",
                1e-6,
                "a node ends when its bound can fall by less, relative to what scores can differ by",
                float,
                least=0,
            ),
            Option("max_entries", 2**14, "entries of tables up to which all factors are one part", int, least=1),
        ),
        caps=replace(
            _BEST_LABELLING,
            guarantee=Guarantee.EXACT,
            max_arity=16,
            every_constraint=True,
            by_rows=True,
            warm=Warm.STATE,
            constrained_abilities=frozenset({Ability.MESSAGES}),
            score_atol=1e-6,
            searches=True,
        ),
    ),
)

_CUTS = (
    BackendSpec(
        "graph-cut",
        "ssvm_backends.cuts.graph_cut:GraphCut",
        "minimum cuts: exact for binary submodular models with factors of up to three variables",
        caps=replace(
            _BEST_LABELLING,
            guarantee=Guarantee.EXACT,
            max_arity=3,
            requires=frozenset({"binary", "submodular"}),
            abilities=frozenset({Ability.COMPILED}),
        ),
    ),
    BackendSpec(
        "alpha-expansion",
        "ssvm_backends.cuts.move_making:AlphaExpansion",
        "local search by minimum cuts, one label against all: pairwise models with metric tables",
        options=(
            Option("bound", "none", "a bound: a priori (factor), or by message passing", ("none", "factor", "dual")),
        ),
        caps=replace(_MOVES, requires=frozenset({"metric"})),
    ),
    BackendSpec(
        "alpha-beta-swap",
        "ssvm_backends.cuts.move_making:AlphaBetaSwap",
        "local search by minimum cuts, two labels at a time: pairwise models with semimetric tables",
        options=(Option("bound", "none", "a bound, by message passing (dual)", ("none", "dual")),),
        caps=replace(_MOVES, requires=frozenset({"semimetric"})),
    ),
    BackendSpec(
        "qpbo",
        "ssvm_backends.cuts.qpbo:QPBO",
        "roof duality for binary pairwise models: a certified bound, and states that are surely optimal",
        options=(Option("rest", "icm", "the heuristic for states that are left open", ("icm", "pairs", "none")),),
        caps=replace(
            _BEST_LABELLING,
            tasks=_WITH_RELAXED,
            guarantee=Guarantee.BOUND,
            max_arity=2,
            requires=frozenset({"binary"}),
        ),
    ),
)

_LOCAL_SEARCH = (
    BackendSpec(
        "max-product",
        "ssvm_backends.local.max_product:MaxProduct",
        "loopy belief propagation with damping: good labellings of any graph, no promises",
        options=(
            Option("damping", 0.3, "part of the old message that is kept, from 0 to below 1", float, least=0),
            Option("sweeps", 100, "passes over all factors", int, least=1),
            Option("local_search", True, "whether local search improves the best labelling in the end", bool),
        ),
        caps=_SEARCH,
    ),
    BackendSpec(
        "icm",
        "ssvm_backends.local.icm:ICM",
        "local search by moves of one and two variables, with random restarts: quick, no promises",
        options=(
            Option(
                "restarts", 9, "runs from random labellings, besides the one from the best unary scores", int, least=0
            ),
            Option("pairs", True, "whether to move two variables of a factor together", bool),
            Option("seed", 0, "of the random labellings", int, least=0),
        ),
        caps=_SEARCH,
    ),
)

#: Programs of one structure in each example (or several over different variables), without tables.
_STRUCTURE = Caps(
    tasks=frozenset({Task.MAP, Task.MAP_CLAMPED}), topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=1
)
#: Abilities of backends that take constraints, and keep them in what they offer to trainers' kernels.
_COMPILED = frozenset({Ability.COMPILED})
#: Those whose oracles are quick also list the k best.
_RANKED = replace(
    _STRUCTURE, tasks=_STRUCTURE.tasks | {Task.KBEST}, abilities=_COMPILED, constrained_abilities=_COMPILED
)
_TREE = replace(_RANKED, tasks=_RANKED.tasks | {Task.MARGINALS})

_STRUCTURES = (
    BackendSpec(
        "assignment",
        "ssvm_backends.structures.matchings.assignment:Assignment",
        "matchings and permutations: shortest augmenting paths, other limits by minimum-cost flow",
        requires=("ortools.graph.python.min_cost_flow",),
        install_hint="pip install ortools",
        caps=replace(_RANKED, constraint_kinds=frozenset({"matching", "transport"})),
    ),
    BackendSpec(
        "arborescence",
        "ssvm_backends.structures.spanning_trees.spanning_trees:ArborescenceBackend",
        "directed spanning trees: best ones (Chu-Liu-Edmonds), marginals and log Z (matrix-tree theorem)",
        caps=replace(_TREE, constraint_kinds=frozenset({"arborescence"})),
    ),
    BackendSpec(
        "eisner",
        "ssvm_backends.structures.spanning_trees.spanning_trees:Eisner",
        "projective trees: best ones, marginals and log Z (dynamic programming over spans)",
        caps=replace(_TREE, constraint_kinds=frozenset({"projective-tree"})),
    ),
    BackendSpec(
        "semi-markov",
        "ssvm_backends.structures.segmentations.semi_markov:SemiMarkov",
        "segmentations with scores of whole segments: best, k best, marginals, log Z, linear in the length",
        caps=replace(
            _STRUCTURE,
            tasks=_ALL_EXACT,
            max_arity=3,
            constraint_kinds=frozenset({"segmentation", "segment-begins"}),
            of_spans=True,
            abilities=frozenset({Ability.COUNTS, Ability.SUMMED_MARGINALS}) | _COMPILED,
            constrained_abilities=frozenset({Ability.COUNTS, Ability.SUMMED_MARGINALS}) | _COMPILED,
        ),
    ),
    BackendSpec(
        "cky",
        "ssvm_backends.structures.constituency.cky:Cky",
        "parse trees of a grammar: best, k best, marginals and log Z (dynamic programming over spans)",
        caps=replace(
            _STRUCTURE,
            tasks=_ALL_EXACT,
            max_arity=2,
            constraint_kinds=frozenset({"derivable"}),
            abilities=frozenset({Ability.SUMMED_MARGINALS}) | _COMPILED,
            constrained_abilities=frozenset({Ability.SUMMED_MARGINALS}) | _COMPILED,
        ),
    ),
    BackendSpec(
        "shortest-path",
        "ssvm_backends.structures.routes.shortest_path:ShortestPath",
        "paths from a source to a target in acyclic graphs, or without cycles of positive score",
        options=(Option("cycles", "refuse", "treatment of graphs with cycles", ("refuse", "improve")),),
        caps=replace(_RANKED, constraint_kinds=frozenset({"path"})),
    ),
    BackendSpec(
        "circuit",
        "ssvm_backends.structures.routes.circuit:CircuitBackend",
        "directed circuits and tours by CP-SAT's circuit constraint: exact, exponential in the worst case",
        requires=("ortools.sat.python.cp_model",),
        install_hint="pip install ortools",
        options=(_WORKERS,),
        caps=replace(_STRUCTURE, constraint_kinds=frozenset({"circuit"}), searches=True),
    ),
    BackendSpec(
        "relations",
        "ssvm_backends.structures.relations.relations:Relations",
        "clusterings by semidefinite bounds; orders, transitive and acyclic relations by dual ascent, then CP-SAT",
        requires=("ortools.sat.python.cp_model",),
        install_hint="pip install ortools",
        options=(
            _WORKERS,
            Option(
                "max_conflicts",
                None,
                "most conflicts of each search for what the bound leaves open, or parts of a clustering; 0: no search",
                int,
                least=0,
                optional=True,
            ),
        ),
        caps=replace(
            _STRUCTURE,
            constraint_kinds=frozenset({"equivalence", "linear-order", "transitive", "acyclic"}),
            warm=Warm.STATE,
            searches=True,
        ),
    ),
    BackendSpec(
        "cardinality",
        "ssvm_backends.structures.counting:Cardinality",
        "any number of bounds on counts over different variables, without pairs: by sorting",
        caps=replace(_RANKED, constraint_kinds=frozenset({"count"})),
    ),
)

_OWN = (
    BackendSpec(
        "custom-exact",
        "ssvm_backends.structures.custom:CustomExact",
        "asks the user's class of a Custom constraint that is proved exact on small problems",
        caps=replace(_STRUCTURE, constraint_kinds=frozenset({"custom-exact"}), thread_safe=False),
    ),
    BackendSpec(
        "custom",
        "ssvm_backends.structures.custom:CustomBackend",
        "asks the user's class of a Custom constraint: a labelling, without a bound",
        caps=replace(
            _STRUCTURE,
            constraint_kinds=frozenset({"custom", "custom-exact"}),
            guarantee=Guarantee.HEURISTIC,
            thread_safe=False,
        ),
    ),
)

_REFERENCE = (
    BackendSpec(
        "brute-force",
        "ssvm_dsl.testing.brute_force:BruteForce",
        "tries every labelling: the reference for small examples of any shape",
        caps=replace(
            _COUNTING,
            topology=Topology.LOOPY,
            max_arity=64,
            every_constraint=True,
            of_spans=True,
            abilities=frozenset({Ability.COUNTS}),
            constrained_abilities=frozenset({Ability.COUNTS}),
        ),
    ),
)


#: Names in the literature and in other packages.
_ALIASES = {
    name: tuple(map(Alias, others))
    for name, others in {
        "chain": ("viterbi", "forward-backward"),
        "tree": ("belief-propagation", "sum-product", "dynamic-programming"),
        "junction-tree": ("variable-elimination", "bucket-elimination"),
        "combi": ("branch-and-bound",),
        "ilp": ("integer-programming", "cp-sat"),
        "lp": ("linear-programming",),
        "trws": ("tree-reweighted",),
        "msd": ("max-sum-diffusion",),
        "mplp": ("mplp++", "gmplp"),
        "tbcd": ("tree-block-coordinate-descent", "tbca"),
        "ad3": ("alternating-directions",),
        "graph-cut": ("min-cut", "st-cut"),
        "qpbo": ("roof-duality",),
        "max-product": ("loopy-bp", "lbp"),
        "icm": ("iterated-conditional-modes",),
        "assignment": ("hungarian", "linear-sum-assignment"),
        "arborescence": ("chu-liu-edmonds",),
        "semi-markov": ("segmental-viterbi",),
        "cky": ("cocke-kasami-younger", "inside-outside"),
        "shortest-path": ("bellman-ford", "dijkstra"),
        "cardinality": ("top-k",),
        "decompose": ("dual-decomposition", "lagrangian"),
        "brute-force": ("exhaustive",),
    }.items()
}


@hookimpl
def ssvm_backends() -> Iterable[BackendSpec]:
    """Return the bundled backends."""
    mine = (*_DYNAMIC_PROGRAMMING, *_PROGRAMS, *_DUAL, *_MIXED, *_CUTS, *_LOCAL_SEARCH, *_STRUCTURES, *_OWN)
    bundled = (*mine, *_REFERENCE)
    return [replace(s, speed=SPEED.get(s.name, s.speed), aliases=_ALIASES.get(s.name, ())) for s in bundled]
