"""Registering plug-ins: what is taken, what is left out and why, and how names are looked up."""

from __future__ import annotations

import itertools
import pickle
import signal
import sys
from importlib.metadata import Distribution, EntryPoint
from types import ModuleType

import pytest

from ssvm_dsl import registry as module
from ssvm_dsl.errors import BackendFault, DataError, ModelError, NoBackendError, OptionError, PluginError
from ssvm_dsl.ir import Caps
from ssvm_dsl.plugin_api import (
    BackendSpec,
    LossSpec,
    Option,
    TrainerSpec,
    TrainingEvent,
    hookimpl,
)
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.registry import PluginInfo, PluginProblem, register, registry


def info(name, *, bundled=False, allowed=False):
    return PluginInfo(name, "toys 1.0", bundled, allowed)


def backend(name, **changes):
    return BackendSpec(name, "nowhere:Backend", **changes)


def plugin(*specs):
    """Return a plug-in object that offers backends."""

    class Plugin:
        @hookimpl
        def ssvm_backends(self):
            return list(specs)

    return Plugin()


@pytest.fixture
def known():
    """A copy of the installed plug-ins, to add to."""
    made = registry().copy()
    made.problems.clear()
    return made


@pytest.fixture
def fresh():
    """Forget the process-wide registry before and after."""
    registry.cache_clear()
    yield
    registry.cache_clear()


def names(known, kind=BackendSpec):
    return [spec.name for spec in known.specs(kind)]


def test_bundled_backends_and_executor_come_through_entry_points():
    assert {"chain", "tree", "brute-force"} <= set(names(registry()))
    chain = registry().find(BackendSpec, "chain")
    owner = registry().owner(chain)
    assert owner.bundled
    assert owner.allowed
    assert owner.distribution.startswith("ssvm-dsl")


def test_the_registry_is_made_once():
    assert registry() is registry()


def test_specs_of_all_kinds_are_collected(known):
    class Everything:
        @hookimpl
        def ssvm_backends(self):
            yield backend("b")

        @hookimpl
        def ssvm_trainers(self):
            return (TrainerSpec("t", "nowhere:T"),)

        @hookimpl
        def ssvm_losses(self):
            return [LossSpec("l", "nowhere:l")]

    assert known.register(Everything(), info("all"))
    assert known.problems == []
    for kind, name in ((BackendSpec, "b"), (TrainerSpec, "t"), (LossSpec, "l")):
        assert known.find(kind, name).name == name
        assert known.owner(known.find(kind, name)).name == "all"


def test_the_same_name_in_another_kind_is_no_conflict(known):
    class Two:
        @hookimpl
        def ssvm_backends(self):
            return [backend("same")]

        @hookimpl
        def ssvm_losses(self):
            return [LossSpec("same", "nowhere:l")]

    known.register(Two(), info("two"))
    assert known.problems == []


def test_a_failing_hook_is_reported_and_others_of_the_plugin_count(known):
    class Half:
        @hookimpl
        def ssvm_backends(self):
            raise OSError("disk full")

        @hookimpl
        def ssvm_losses(self):
            return [LossSpec("l", "nowhere:l")]

    known.register(Half(), info("half"))
    assert known.problems == [PluginProblem("half", "ssvm_backends failed with OSError: disk full")]
    assert "l" in names(known, LossSpec)


def test_two_plugins_of_one_name_in_one_distribution_are_told_apart(known):
    assert known.register(plugin(backend("a")), info("same"))
    assert not known.register(plugin(backend("b")), info("same"))
    assert "a" in names(known)
    assert "b" not in names(known)


def test_unknown_names_list_alternatives_and_broken_plugins(known):
    known.problems.append(PluginProblem("gone", "cannot be imported: No module named 'gone'"))
    with pytest.raises(PluginError) as caught:
        known.find(BackendSpec, "chian")
    text = str(caught.value)
    assert text.startswith("there is no backend 'chian'; did you mean 'chain'?\n  known: chain, tree, ")
    assert "gone: cannot be imported" in text
    with pytest.raises(PluginError, match="there is no loss 'x'\n  known: none"):
        known.find(LossSpec, "x")


def test_a_copy_is_independent(known):
    copy = known.copy()
    copy.register(plugin(backend("extra")), info("extra"))
    copy.problems.append(PluginProblem("x", "y"))
    assert "extra" in names(copy)
    assert "extra" not in names(known)
    assert known.problems == []


def test_training_events_reach_every_plugin_and_one_can_stop(known):
    seen = []

    class Watcher:
        def __init__(self, answer):
            self.answer = answer

        @hookimpl
        def ssvm_training_event(self, event):
            seen.append(event.iteration)
            return self.answer

    event = TrainingEvent(7, 1.0, 0.1, *[0.0] * 6, 3, 0.05)
    assert not known.listeners()
    known.register(Watcher(None), info("quiet"))
    assert [listener(event) for listener in known.listeners()] == [False]
    known.register(Watcher(True), info("stopper"))
    assert sorted(listener(event) for listener in known.listeners()) == [False, True]
    assert seen == [7, 7, 7]


def test_a_listener_that_fails_is_named_and_not_called_again(known):
    called = []

    class Failing:
        @hookimpl
        def ssvm_training_event(self, event):
            called.append(event.extra.pop("theirs"))
            sys.exit(3)

    known.register(Failing(), info("failing"))
    (listener,) = known.listeners()
    event = TrainingEvent(7, 1.0, 0.1, *[0.0] * 6, 3, 0.05, {"theirs": 1.0})
    with pytest.warns(RuntimeWarning, match="plug-in 'failing', toys 1.0: it failed with SystemExit: 3"):
        assert listener(event) is False
    assert listener(event) is False
    assert called == [1.0]
    assert event.extra == {"theirs": 1.0}


@pytest.mark.usefixtures("fresh")
class TestRegisterInProcess:
    def test_it_is_found_by_name_but_not_by_auto(self):
        register(plugin(backend("mine")), "notebook")
        mine = registry().find(BackendSpec, "mine")
        assert registry().owner(mine) == PluginInfo("notebook", "registered in this process", False, False)

    def test_the_same_name_again_takes_the_place_of_the_first(self):
        for summary in ("first", "second"):
            register(plugin(backend("mine", summary=summary), backend(summary)), "notebook")
        known = registry()
        assert known.find(BackendSpec, "mine").summary == "second"
        assert "first" not in names(known)
        assert [one.name for one in known.plugins].count("notebook") == 1
        same = plugin(backend("same"))
        register(same, "notebook")
        register(same, "notebook")
        assert {"same", "mine"} & set(names(known)) == {"same"}
        with pytest.raises(PluginError, match="plug-in 'other': backend 'same' is already registered by 'notebook'"):
            register(plugin(backend("same")), "other")

    @pytest.mark.parametrize("thing", ["myplug", 3, module])
    def test_what_has_no_hooks_is_no_plugin(self, thing):
        with pytest.raises(PluginError, match=r"plug-in 'x': it has none of the hooks \(ssvm_backends, .*@hookimpl"):
            register(thing, "x")
        assert all(one.name != "x" for one in registry().plugins)

    def test_problems_are_raised(self):
        with pytest.raises(PluginError, match="backend 'chain' is already registered"):
            register(plugin(backend("chain")), "notebook")

    def test_what_is_wrong_changes_nothing(self):
        class Both:
            @hookimpl
            def ssvm_losses(self):
                return [LossSpec("new", "nowhere:l")]

            @hookimpl
            def ssvm_backends(self):
                return [backend("fine"), backend("chain")]

        register(plugin(backend("mine")), "notebook")
        known = registry()
        before, plans = list(known.plugins), known.plans
        plans["a need"] = "a plan"
        for wrong in (Both(), plugin(backend("twice"), backend("twice")), plugin(backend("old", api_version=99)), 3):
            with pytest.raises(PluginError, match="plug-in 'notebook': "):
                register(wrong, "notebook")
            assert known.find(BackendSpec, "mine")
            assert not {"fine", "twice", "old"} & set(names(known))
            assert not known.specs(LossSpec)
            assert (known.plugins, known.problems, known.plans) == (before, [], {"a need": "a plan"})

    def test_a_bundled_plugin_cannot_be_pushed_out(self):
        import ssvm_backends

        with pytest.raises(PluginError, match="already registered"):
            register(ssvm_backends, "again")
        assert "chain" in names(registry().copy())


class FakeDistribution(Distribution):
    """A distribution that exists in memory only."""

    def __init__(self, name):
        self.text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n"

    def read_text(self, filename):
        return self.text if filename == "METADATA" else None

    def locate_file(self, path):
        raise FileNotFoundError(path)


def points(*pairs):
    return [EntryPoint(name, value, "ssvm")._for(FakeDistribution(dist)) for name, value, dist in pairs]


@pytest.mark.usefixtures("fresh")
class TestDiscovery:
    @pytest.fixture(autouse=True)
    def _environment(self, monkeypatch):
        monkeypatch.delenv("SSVM_PLUGINS", raising=False)
        monkeypatch.delenv("SSVM_DISABLE_PLUGIN_AUTOLOAD", raising=False)

    @pytest.fixture(autouse=True)
    def _modules(self, monkeypatch):
        """Two modules with a hook."""
        for name in ("plugin_a", "plugin_c"):
            made = ModuleType(name)
            made.ssvm_losses = hookimpl(lambda: ())
            monkeypatch.setitem(sys.modules, name, made)

    def installed(self, monkeypatch, *pairs):
        monkeypatch.setattr(module, "entry_points", lambda group: points(*pairs))
        return registry()

    def test_bundled_come_first_whatever_the_order(self, monkeypatch):
        known = self.installed(monkeypatch, ("a", "plugin_a", "aaa"), ("z", "ssvm_backends", "ssvm-dsl"))
        assert [(one.name, one.bundled) for one in known.plugins] == [("formats", True), ("z", True), ("a", False)]

    def test_the_name_of_the_distribution_is_normalised(self, monkeypatch):
        known = self.installed(monkeypatch, ("b", "ssvm_backends", "SSVM_DSL"))
        assert known.plugins[1].bundled

    def test_without_bundled_plugins_the_package_is_not_installed(self, monkeypatch):
        with pytest.raises(PluginError, match=r"pip install \.\n  a: cannot be imported: ModuleNotFoundError"):
            self.installed(monkeypatch, ("a", "no_such_module", "aaa"))

    def test_an_editable_install_listed_twice_counts_once(self, monkeypatch):
        twice = [("b", "ssvm_backends", "ssvm-dsl")] * 2
        known = self.installed(monkeypatch, *twice)
        assert [one.name for one in known.plugins] == ["formats", "b"]
        assert known.problems == []


class Odd(BackendSpec):
    """A description whose name is made anew each time, and fails."""

    @property
    def name(self):
        raise RuntimeError("no name today")

    @name.setter
    def name(self, value):
        pass


class Unprintable:
    def __repr__(self):
        raise RuntimeError

    __str__ = __hash__ = __eq__ = __repr__


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": 3}, "name must be a str, got 3"),
        ({"name": ["x"]}, "name must be a str, got ['x']"),
        ({"name": Unprintable()}, "name must be a str, got a Unprintable that cannot be printed"),
        ({"name": ""}, "name is one word"),
        ({"name": "a\nb"}, r"name is one word of letters, digits and . _ + -, got 'a\nb'"),
        ({"name": "auto"}, "the name 'auto' is reserved"),
        ({"factory": 3}, "factory must be a str"),
        ({"factory": "os"}, "factory is 'package.module:Class', got 'os'"),
        ({"summary": "two\nlines"}, "summary is one line"),
        ({"caps": 3}, "caps must be a Caps, got 3"),
        ({"caps": Caps(tasks=["map"])}, "caps.tasks must be a frozenset of Task, got ['map']"),
        ({"caps": Caps(max_arity=2.5)}, "caps.max_arity must be an int, got 2.5"),
        ({"caps": Caps(score_atol=float("nan"))}, "caps.score_atol must be a number of at least 0"),
        ({"requires": (3,)}, "requires must be a tuple of str"),
        ({"requires": ("..",)}, "requires lists names of modules, got '..'"),
        ({"options": (3,)}, "options must be a tuple of Option"),
        ({"options": (Option("a", 1, 3, int),)}, "options[0].doc must be a str, got 3"),
        ({"options": (Option("a", 1, "", int), Option("a", 1, "", int))}, "there are two options 'a'"),
        ({"options": (Option("a", 1, "", (2,)),)}, "option 'a' must be 2, but its default is 1"),
        ({"options": (Option("a", 2.0, "", int),)}, "option 'a' must be an int, but its default is 2.0"),
        ({"options": (Option("a", None, "", float),)}, "option 'a' must be a number, but its default is None"),
        ({"options": (Option("a", 1, "", list),)}, "option 'a' must be an int, float, str, bool or FunctionType"),
        ({"options": (Option("a", 1, "", ()),)}, "option 'a' must be an int, float, str, bool or FunctionType"),
        ({"options": (Option("a", 1, "", "int"),)}, "options[0].kind must be a type or a tuple"),
        ({"api_version": "1"}, "api_version must be an int, got '1'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_badly_typed_description_is_left_out_and_the_others_count(known, changes, text):
    wrong = BackendSpec(**{"name": "wrong", "factory": "nowhere:Backend", **changes})
    assert known.register(plugin(backend("before"), wrong, backend("after")), info("half"))
    assert [problem.plugin for problem in known.problems] == ["half"]
    assert text in known.problems[0].text
    assert {"before", "after"} <= set(names(known))


def test_what_a_description_computes_is_read_once_and_may_fail(known):
    known.register(plugin(Odd("odd", "nowhere:Backend")), info("odd"))
    assert known.problems == [PluginProblem("odd", "ssvm_backends failed with RuntimeError: no name today")]


def test_a_generator_of_descriptions_that_never_ends_is_left_out(known):
    class Endless:
        @hookimpl
        def ssvm_backends(self):
            return (backend(f"b{n}") for n in itertools.count())

    known.register(Endless(), info("endless"))
    assert "more than 1000 descriptions" in known.problems[0].text


class Quits(BaseException):
    """Neither an ``Exception`` nor one of Python's own."""


@pytest.mark.parametrize("error", [SystemExit(9), GeneratorExit(), Quits("late"), RecursionError()], ids=repr)
def test_whatever_a_plugin_raises_leaves_out_the_plugin_only(known, error):
    class Hooks:
        @hookimpl
        def ssvm_backends(self):
            raise error

    class Members:
        @hookimpl
        def ssvm_backends(self):
            return []

        @property
        def other(self):
            raise error

    known.register(Hooks(), info("hooks"))
    known.register(Members(), info("members"))
    assert {"hooks", "members"} >= {problem.plugin for problem in known.problems} >= {"hooks"}
    assert type(error).__name__ in known.problems[0].text


def test_ctrl_c_in_a_plugin_says_where_it_struck(known):
    class Hangs:
        @hookimpl
        def ssvm_backends(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        known.register(Hangs(), info("hangs"))
    assert caught.value.__notes__ == ["interrupted in ssvm_backends of plug-in 'hangs', toys 1.0"]


def test_the_exceptions_of_signal_handlers_are_not_the_plugins():
    def leave(*args):
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit), contained("a backend"):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    with pytest.raises(PluginError, match="a backend: it failed with SystemExit"), contained("a backend"):
        sys.exit(0)


@pytest.mark.parametrize(
    "error",
    [
        BackendFault("b", "it lies", "plug-in 'p'"),
        NoBackendError("map", [("chain", ["no"])], "go"),
        DataError("X", expected="a", found="b", example=3, hint="c"),
        ModelError("M", [("m.py:3", "wrong")]),
        OptionError("o"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_to_another_process(error):
    made = pickle.loads(pickle.dumps(error))
    assert (type(made), str(made), vars(made)) == (type(error), str(error), vars(error))
