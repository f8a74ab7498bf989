"""Which backend is chosen, why, and what is said when none fits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from model_table import picture
from ssvm_dsl import ground
from ssvm_dsl.errors import NoBackendError, OptionError, PluginError, TooLargeError
from ssvm_dsl.inference.planning.planner import plan, plan_program, tasks_for_training
from ssvm_dsl.inference.planning.plans import Plan, consider
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Ability, Caps, CountTables, Guarantee, Need, Question, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, Option, Verdict, hookimpl, program_need
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import catalogue

EXACT = Caps(topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=3)
SMALL = Need(n_examples=2, n_variables=4, max_labellings=4.0)


class Cheap(BruteForce):
    COST = 1e-3

    def check(self, need):
        return Verdict(True, self.COST)


class Cheapest(Cheap):
    COST = 1e-6


class Picky(BruteForce):
    def check(self, need):
        return Verdict(False, reasons=("not on a Friday", "nor in the rain"))


class Roomy(Cheap):
    def check(self, need):
        fits = need.n_variables <= need.options["room"]
        return Verdict(fits, self.COST, () if fits else (f"there is room for {need.options['room']} variables",))


class Recorder(Cheap):
    opened_with: dict = {}  # noqa: RUF012

    def open(self, program, options):
        Recorder.opened_with = options
        return super().open(program, options)


class Silent(BruteForce):
    def check(self, need):
        return None


class Broken:
    def __init__(self):
        raise OSError("libsolver.so not found")


def spec(kind, name=None, **changes):
    changes = {"caps": EXACT, **changes}
    return BackendSpec(name or kind.__name__.lower(), f"{__name__}:{kind.__name__}", **changes)


def known_with(*specs, allowed=True):
    """Return the installed plug-ins and more backends."""

    class Plugin:
        @hookimpl
        def ssvm_backends(self):
            return specs

    known = registry().copy()
    known.register(Plugin(), PluginInfo("toys", "toys 1.0", False, allowed))
    return known


def test_the_cheapest_is_chosen_and_the_reason_names_the_next():
    made = plan(SMALL, plugins=known_with(spec(Cheap), spec(Cheapest)))
    assert made.backend == "cheapest"
    assert made.reason.startswith("cheapest: exact for disjoint chains; next best cheap (1 000 x), ")
    shown = str(made).splitlines()
    assert shown[0] == "backend    cheapest"
    assert "cost       < 1 us expected for all examples" in shown
    assert max(map(len, shown)) <= 80


def test_what_is_chosen_is_expected_to_be_the_quickest_and_not_to_take_fewest_operations():
    slow, quick = spec(Cheapest, "slow", speed=1.0), spec(Cheap, "quick", speed=1e9)
    assert plan(SMALL, plugins=known_with(slow, quick)).backend == "quick"


@pytest.mark.parametrize(("times", "taken"), [(3.0, "exact"), (5.0, "bounds")])
def test_where_bounds_are_asked_for_exact_answers_that_take_little_longer_are_taken(times, taken):
    class Exact(Cheap):
        COST = 1e-9 * times

    class Bounds(Cheap):
        COST = 1e-9

    globals().update(Exact=Exact, Bounds=Bounds)
    known = known_with(spec(Exact), spec(Bounds, caps=replace(EXACT, guarantee=Guarantee.BOUND)))
    need = replace(SMALL, topology=Topology.LOOPY, max_arity=2)
    made = plan(replace(need, guarantee=Guarantee.BOUND), plugins=known)
    assert made.backend == taken
    assert ("than the bounds of bounds" in made.reason) is (taken == "exact")
    assert plan(replace(need, guarantee=Guarantee.HEURISTIC), plugins=known).backend == "bounds"


@pytest.mark.parametrize(
    ("search", "bounds", "taken"),
    [(3.0, 1.0, "bounds"), (1.0, 3.0, "bounds"), (1.0, 5.0, "search"), (5.0, 1.0, "bounds")],
)
def test_where_bounds_are_enough_no_search_that_may_not_end_is_taken(search, bounds, taken):
    class Search(Cheap):
        COST = 1e-9 * search

    class Bounds(Cheap):
        COST = 1e-9 * bounds

    globals().update(Search=Search, Bounds=Bounds)
    searching, bounding = replace(EXACT, searches=True), replace(EXACT, guarantee=Guarantee.BOUND)
    known = known_with(spec(Search, caps=searching), spec(Bounds, caps=bounding))
    need = replace(SMALL, topology=Topology.LOOPY, max_arity=2)
    made = plan(replace(need, guarantee=Guarantee.BOUND), plugins=known)
    assert made.backend == taken
    assert ("than the search of search" in made.reason) is (search < bounds and taken == "bounds")
    assert plan(replace(need, guarantee=Guarantee.EXACT), plugins=known).backend == "search"


@pytest.mark.parametrize(("n", "card", "exact"), [(3, 2, True), (6, 3, True), (20, 8, False), (50, 8, False)])
def test_with_bounds_small_grids_have_exact_answers_and_large_ones_an_end(n, card, exact):
    program = ground(picture(1, card), [np.zeros((n, n, 1))]).program
    made = plan_program(program, program_need(program, frozenset({Task.MAP}), Guarantee.BOUND))
    caps = registry().find(BackendSpec, made.backend).caps
    assert not caps.searches
    assert (caps.guarantee is Guarantee.EXACT) is exact


def test_equal_costs_are_decided_by_name():
    twins = [spec(Cheap, "b-twin"), spec(Cheap, "a-twin")]
    assert plan(SMALL, plugins=known_with(*twins)).backend == "a-twin"
    assert plan(SMALL, plugins=known_with(*reversed(twins))).backend == "a-twin"


def test_auto_leaves_out_backends_that_are_not_allowed():
    made = plan(SMALL, plugins=known_with(spec(Cheapest), allowed=False))
    assert made.backend != "cheapest"
    assert "cheapest" not in {candidate.name for candidate in made.candidates}
    assert plan(SMALL, "cheapest", plugins=known_with(spec(Cheapest), allowed=False)).backend == "cheapest"


def test_one_that_refuses_or_fails_is_passed_over():
    known = known_with(spec(Picky), spec(Silent), spec(Broken), spec(Cheap))
    made = plan(SMALL, plugins=known)
    assert made.backend == "cheap"
    said = {candidate.name: candidate.reasons for candidate in made.candidates if not candidate.ok}
    assert said["picky"] == ("not on a Friday", "nor in the rain")
    assert said["broken"] == ("failed: OSError: libsolver.so not found",)
    assert said["silent"][0].startswith("failed: check returned a NoneType")


@pytest.mark.parametrize(
    ("need", "caps", "reason"),
    [
        ({"tasks": frozenset({Task.KBEST})}, {}, "does not answer kbest"),
        ({"tasks": frozenset({Task.KBEST, Task.MARGINALS, Task.MAP})}, {}, "does not answer kbest, marginals"),
        (
            {"topology": Topology.LOOPY},
            {"topology": Topology.CHAIN},
            "handles disjoint chains, this is a graph with cycles or large factors",
        ),
        ({"topology": Topology.FOREST}, {"topology": Topology.CHAIN}, "handles disjoint chains, this is a forest"),
        ({"max_arity": 5}, {"max_arity": 3}, "handles factors of up to 3 variables, this has 5"),
        ({"constraint_kinds": frozenset({"b", "a"})}, {}, "does not handle constraints a, b"),
        (
            {"constraint_kinds": frozenset({"b", "a"})},
            {"constraint_kinds": frozenset({"a"})},
            "does not handle constraints b",
        ),
        ({"abilities": frozenset({Ability.COUNTS})}, {}, "does not find best labellings by counts"),
        ({"abilities": frozenset({Ability.MESSAGES})}, {}, "does not expose dual messages"),
        ({}, {"guarantee": Guarantee.BOUND}, "its answers are bound, asked for exact"),
        (
            {"max_card": 3},
            {"requires": frozenset({"binary"})},
            "handles two states only; alpha-expansion takes more (POTTS)",
        ),
    ],
)
def test_every_capability_has_its_reason(need, caps, reason):
    picky = spec(Cheap, caps=Caps(**{"topology": Topology.LOOPY, "guarantee": Guarantee.EXACT, "max_arity": 3, **caps}))
    candidate, loaded = consider(Need(**need), picky)
    assert candidate.reasons == (reason,)
    assert not candidate.ok
    assert loaded is None


def test_options_decide_where_a_backend_looks_at_them():
    roomy = spec(Roomy, options=(Option("room", 2, "variables", int, least=0),))
    known = known_with(roomy)
    with pytest.raises(NoBackendError, match="room for 2 variables"):
        plan(SMALL, "roomy", plugins=known)
    assert plan(SMALL, "roomy", {"room": 4}, known).options == {"room": 4}
    assert not consider(SMALL, roomy)[0].ok
    assert consider(SMALL, roomy, {"room": 9})[0].ok
    with pytest.raises(OptionError, match="no option 'rom'"):
        consider(SMALL, roomy, {"rom": 9})
    refused = next(c for c in plan(SMALL, plugins=known).candidates if c.name == "roomy")
    assert refused.reasons == ("there is room for 2 variables",)


@pytest.mark.parametrize(
    ("offered", "needed", "fits"),
    [
        (Guarantee.EXACT, Guarantee.HEURISTIC, True),
        (Guarantee.EXACT, Guarantee.EXACT, True),
        (Guarantee.BOUND, Guarantee.EXACT, False),
        (Guarantee.BOUND, Guarantee.BOUND, True),
        (Guarantee.HEURISTIC, Guarantee.BOUND, False),
        (Guarantee.HEURISTIC, Guarantee.HEURISTIC, True),
    ],
)
def test_a_stronger_guarantee_covers_a_weaker_need(offered, needed, fits):
    caps = Caps(guarantee=offered)
    assert (not caps.refusals(Need(guarantee=needed))) is fits


def test_code_is_not_loaded_when_capabilities_do_not_fit():
    candidate, _ = consider(Need(max_arity=9), spec(Broken))
    assert candidate.reasons == ("handles factors of up to 3 variables, this has 9",)


@pytest.mark.parametrize("module", ["no_such_module", "no_such_module.part", "json.no_such_part"])
def test_missing_modules_are_a_reason_with_a_hint(module):
    candidate, _ = consider(SMALL, spec(Cheap, requires=("json", module), install_hint="pip install it"))
    assert candidate.reasons == (f"needs {module} (pip install it)",)


def test_no_backend_says_what_would_answer():
    rough = replace(EXACT, guarantee=Guarantee.HEURISTIC, max_arity=99)
    with pytest.raises(NoBackendError, match=r"guarantee='heuristic' has answers \(rough\); else make the model"):
        plan(Need(max_arity=99), plugins=known_with(spec(Cheap, name="rough", caps=rough)))
    with pytest.raises(NoBackendError, match="predict, predict_kbest and best_score ask for no sums"):
        plan(Need(max_arity=99, tasks=frozenset({Task.MARGINALS})))


class Full(BruteForce):
    def check(self, need):
        return Verdict(False, reasons=("it would take too much: option max_entries",))


def test_an_option_that_would_help_is_named():
    with pytest.raises(NoBackendError, match=r"backend='full', backend_options={'max_entries': \.\.\.} has"):
        plan(Need(max_arity=99), plugins=known_with(spec(Full, name="full", caps=replace(EXACT, max_arity=99))))


def test_no_backend_names_installed_ones_that_auto_may_not_take():
    need = Need(max_arity=99)
    able = spec(Cheap, "outsider", caps=Caps(topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=99))
    with pytest.raises(NoBackendError, match="these installed ones would fit: outsider") as caught:
        plan(need, plugins=known_with(able, allowed=False))
    assert "outsider" not in dict(caught.value.refusals)


def test_a_named_backend_that_does_not_fit_says_which_would():
    known = known_with(spec(Picky), spec(Cheap))
    with pytest.raises(NoBackendError) as caught:
        plan(SMALL, "picky", plugins=known)
    assert caught.value.refusals == (("picky", ("not on a Friday", "nor in the rain")),)
    hint = str(caught.value).splitlines()[-1]
    assert hint.startswith("  hint: these would fit: ")
    assert "cheap" in hint
    with pytest.raises(NoBackendError, match="no other backend would fit either"):
        plan(Need(max_arity=99), "picky", plugins=known)


OPTIONS = (Option("speed", 3, "how fast", int), Option("method", "a", "which way", ("a", "b")))


def test_options_reach_the_backend_with_defaults_filled_in():
    known, problem = known_with(spec(Recorder, options=OPTIONS)), catalogue()["one variable"]
    made = plan(program_need(problem.program), "recorder", {"method": "b"}, known)
    assert made.options == {"speed": 3, "method": "b"}
    open_plan(made, problem.program, known)
    assert Recorder.opened_with == {"speed": 3, "method": "b"}
    assert plan(SMALL, plugins=known).options == {"speed": 3, "method": "a"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sped": 1}, "'recorder' has no option 'sped'; its options are: speed, method"),
        ({"method": "c"}, r"option 'method' of 'recorder' must be one of \['a', 'b'\], got 'c'"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(OptionError, match=message):
        plan(SMALL, "recorder", given, known_with(spec(Recorder, options=OPTIONS)))


def test_the_summary_is_plain_data():
    made = plan(SMALL, plugins=known_with(spec(Picky), spec(Cheapest)))
    summary = made.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["backend"] == "cheapest"
    assert summary["candidates"]["cheapest"] == "fits"
    assert summary["candidates"]["picky"] == "not on a Friday; nor in the rain"


def test_an_opened_plan_solves_and_verifies():
    problem = catalogue()["star"]
    made = plan(program_need(problem.program), "brute-force")
    session = open_plan(made, problem.program)
    assert session.solve(Question(problem.theta)).optimal().all()


def test_an_unloadable_backend_says_what_to_install():
    lost = BackendSpec("lost", "no_such_package.part:Solver", caps=EXACT, install_hint="pip install lost")
    with pytest.raises(NoBackendError, match=r"cannot be loaded from no_such_package\.part:Solver"):
        plan(SMALL, "lost", plugins=known_with(lost))
    with pytest.raises(PluginError, match="hint: pip install lost"):
        lost.load()


def test_the_need_of_a_program_counts_what_it_holds():
    problem = catalogue()["arity four"]
    need = program_need(problem.program, frozenset({Task.KBEST}), Guarantee.BOUND, frozenset({Ability.COUNTS}))
    assert (need.max_arity, need.max_card, need.max_variables, need.max_table) == (4, 3, 4, 24)
    assert (need.n_examples, need.n_variables, need.n_factors) == (1, 4, 2)
    assert need.topology is Topology.LOOPY
    assert need.max_labellings == pytest.approx(24.0)
    assert need.tasks == {Task.KBEST}
    assert need.asking(Task.MAP).tasks == {Task.MAP}
    assert str(need) == (
        "kbest on a graph with cycles or large factors; factors of up to 4 variables, up to 3 states; "
        "able to find best labellings by counts; guarantee bound"
    )


@pytest.mark.parametrize("name", catalogue())
def test_the_need_of_every_corner_case_counts_labellings(name):
    program = catalogue()[name].program
    counts = [np.prod(program.card[slice(*program.var_ptr[i : i + 2])]) for i in range(program.n_examples)]
    assert program_need(program).max_labellings == pytest.approx(max(counts, default=1.0))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("additive", (frozenset({Task.MAP}), frozenset())),
        ("zero-one", (frozenset({Task.KBEST}), frozenset())),
        ("count", (frozenset({Task.MAP}), frozenset({Ability.COUNTS}))),
    ],
)
def test_what_training_asks_for(kind, expected):
    assert tasks_for_training(kind) == expected


def test_a_plan_is_a_value():
    assert Plan("a", SMALL, "because") == Plan("a", SMALL, "because")


class Shut(Cheapest):
    def open(self, program, options):
        raise TooLargeError("it wants 9 GB; allowed are 2")


class Late(Cheapest):
    """Opens, and finds out when asked that there is no room."""

    def open(self, program, options):
        return self

    def solve(self, question):
        raise MemoryError("no room")


@pytest.mark.parametrize("kind", [Shut, Late])
def test_where_the_backend_of_auto_refuses_the_next_one_answers_and_the_plan_says_so(kind):
    problem, known, chosen = catalogue()["star"], known_with(spec(Cheap), spec(kind)), kind.__name__.lower()
    made = plan(program_need(problem.program), plugins=known)
    assert made.backend == chosen
    session = open_plan(made, problem.program, known)
    assert session.solve(Question(problem.theta)).optimal().all()
    assert session.plan.backend == "cheap"
    assert session.plan.reason.startswith(f"cheap took over from {chosen}, which refused (")
    refused = {c.name: c for c in session.plan.candidates}[chosen]
    assert not refused.ok
    assert refused.reasons[0].startswith("fits, but refused: ")
    assert Plan.of_summary(json.loads(json.dumps(session.plan.summary()))).backend == "cheap"


def test_the_next_backend_answers_the_task_that_was_refused(monkeypatch):
    """A plan for best labellings has candidates that list no second one."""
    problem = catalogue()["star"]
    program = replace(problem.program, constraints=())
    made = plan(program_need(program, guarantee=Guarantee.HEURISTIC))
    specs = {one.name: one for one in registry().specs(BackendSpec)}
    session, asked = open_plan(made, program), Question(problem.theta, task=Task.KBEST, k=2)
    for _ in range(2):

        def refuses(question):
            raise TooLargeError("so many labellings want 9 GB; allowed are 2")

        monkeypatch.setattr(session.inner, "solve", refuses)
        expected = open_plan(plan(program_need(program, frozenset({Task.KBEST}))), program).solve(asked)
        np.testing.assert_allclose(session.solve(asked).score, expected.score)
        assert Task.KBEST in specs[session.plan.backend].caps.tasks


def test_parts_whose_backend_refuses_go_on_with_the_next():
    problem, known = catalogue()["star"], known_with(spec(Cheap), spec(Shut))
    inner = plan(program_need(problem.program), plugins=known)
    assert inner.backend == "shut"
    session = open_plan(Plan("shut", inner.need, "", components=(inner,)), problem.program, known)
    assert session.plan.backend == "cheap"
    assert "cheap took over from shut" in session.plan.reason


def test_what_there_is_to_know_of_the_chosen_backend_is_in_the_reason_and_is_stored():
    loopy = replace(SMALL, topology=Topology.LOOPY, max_arity=2, n_factors=4, guarantee=Guarantee.BOUND)
    made = plan(loopy, "lp")
    assert made.reason.endswith("(rounding='conditional')")
    assert plan(loopy, "lp", {"rounding": "none"}).reason.endswith("no answers (rounding='none')")
    assert plan(replace(loopy, tasks=frozenset({Task.RELAXED})), "lp").reason == "lp was asked for"
    stored = made.summary()
    assert stored["candidates"]["lp"].startswith("fits; fractional solutions are rounded")
    assert Plan.of_summary(stored).candidates[0].reasons == made.candidates[0].reasons


def test_no_backend_lists_every_reason_and_a_hint():
    need = Need(max_arity=99)
    with pytest.raises(NoBackendError) as caught:
        plan(need, plugins=known_with(spec(Picky)))
    error, lines = caught.value, str(caught.value).splitlines()
    assert lines[0] == f"no backend can answer: {need}"
    assert {name for name, _ in error.refusals} >= {"chain", "tree", "brute-force", "picky"}
    assert "  chain: handles factors of up to 2 variables, this has 99" in lines
    assert lines[-1].endswith("make the model smaller, or install a backend (ssvm plugins list)")


def test_options_of_a_backend_without_any():
    with pytest.raises(OptionError, match="'cheap' has no option 'x'; its options are: none"):
        plan(SMALL, "cheap", {"x": 1}, known_with(spec(Cheap)))


def test_auto_takes_no_options():
    with pytest.raises(PluginError, match=r"instead of 'auto' to give it speed=1 \(estimators: .*backend_options"):
        plan(SMALL, options={"speed": 1}, plugins=known_with())


def test_where_the_backend_of_auto_refuses_to_count_the_next_one_answers(monkeypatch):
    problem = catalogue()["star"]
    program = replace(problem.program, constraints=())
    need = program_need(program, frozenset({Task.MAP}), abilities=frozenset({Ability.COUNTS}))
    made = plan(need)
    asked = Question(problem.theta)
    n, counts = program.n_examples, np.zeros((program.n_states, 2), np.int64)
    tables = CountTables.of_prices(counts, np.ones((n, 2), np.int64), np.zeros(n, np.int64), np.zeros(1))
    expected = open_plan(made, program).best_by_count(asked, tables)
    session = open_plan(made, program)

    def refuses(*args):
        raise TooLargeError("it wants 9 GB; allowed are 2")

    monkeypatch.setattr(session.inner, "best_by_count", refuses)
    found = session.best_by_count(asked, tables)
    assert session.plan.backend != made.backend
    assert "refused (TooLargeError: it wants 9 GB" in session.plan.reason
    np.testing.assert_allclose(found.score, expected.score)


def test_a_named_backend_that_refuses_is_an_error_and_so_is_the_last_one():
    problem, known = catalogue()["star"], known_with(spec(Shut))
    with pytest.raises(TooLargeError, match="9 GB"):
        open_plan(plan(program_need(problem.program), "shut", plugins=known), problem.program, known)
    made = plan(program_need(problem.program), plugins=known)
    alone = replace(made, backend="shut", candidates=tuple(c for c in made.candidates if c.name == "shut"))
    with pytest.raises(TooLargeError, match="9 GB"):
        open_plan(alone, problem.program, known)
