"""The kit for trainers: an honest one passes, and each broken promise is found by the check that is about it."""

import pytest
from broken_trainers import spec

from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import Option, TrainerNeeds, TrainerSpec, hookimpl
from ssvm_dsl.registry import PluginInfo, register, registry
from ssvm_dsl.testing import check_trainer

#: Kind of broken trainer -> (the check that finds it, what else its description says).
LIES = {
    "DualAbove": ("lower bounds", {}),
    "Optimist": ("objective", {}),
    "Forgetful": ("resume", {}),
    "Unseeded": ("same seed", {}),
    "Stuck": ("optimum", {}),
    "Overwriting": ("start", {}),
    "Unbounded": ("iterates", {}),
    "Guessing": ("conclusion", {"concluding": True}),
    "Streaming": ("stream", {"incremental": True}),
}


def test_an_honest_trainer_passes():
    report = check_trainer(spec("honest"))
    assert report.ok, str(report)
    assert report.not_claimed == ["conclusion", "newest", "stream"]
    assert [check.cases for check in report.checks[1:]] == [2] * (len(report.checks) - 1)


@pytest.mark.parametrize("kind", LIES)
def test_lies_are_found(kind, monkeypatch):
    monkeypatch.setattr("ssvm_dsl.testing.trainers.PASSES", 100.0)
    check, more = LIES[kind]
    report = check_trainer(spec(kind.lower(), kind, **more), only=[check])
    assert report.failed == [check], str(report)


@pytest.mark.parametrize("draw", ["permuted", "replaced", "few", "many"])
def test_what_is_reported_does_not_depend_on_which_examples_a_trainer_asks_for(draw):
    option = Option("draw", "permuted", "which examples", str)
    asking = spec("asking", "Asking", options=(option,), certifies=False, resumable=False)
    report = check_trainer(asking, options={"draw": draw}, only=["objective", "one example", "cut short"])
    assert report.ok, str(report)


def test_a_trainer_that_ignores_limits_is_found_and_ended(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.testing.trainers.PATIENCE", 0.5)
    report = check_trainer(spec("deaf", "Deaf"), only=["limits"])
    assert report.failed == ["limits"]
    assert "OutOfTime" in str(report)


def test_a_trainer_that_ends_in_time_asks_for_the_time_or_ends_by_itself():
    endless, brief = (check_trainer(spec(kind.lower(), kind), only=["limits"]) for kind in ("Endless", "Brief"))
    assert endless.failed == ["limits"]
    assert "it makes 20 iterates when time is up" in str(endless)
    assert brief.ok, str(brief)


def test_what_cannot_be_made_or_is_not_known():
    report = check_trainer(TrainerSpec("lost", "broken_trainers:Gone"))
    assert report.failed == ["loads"]
    assert "Gone" in str(report)
    nothing = check_trainer(spec("nothing", needs=TrainerNeeds(frozenset())), only=["iterates"])
    assert nothing.failed == ["iterates"]  # no case is not a pass
    with pytest.raises(OptionError, match="there is no check 'optimism'; the checks are: loads, iterates, optimum"):
        check_trainer(spec("honest"), only=["optimism"])


@pytest.fixture
def installed():
    class Plugin:
        @hookimpl
        def ssvm_trainers(self):
            return [spec("honest"), spec("optimist", "Optimist")]

    register(Plugin(), "kit")
    yield
    registry().forget(PluginInfo("kit", "registered in this process", False, False))


@pytest.mark.usefixtures("installed")
def test_plugins_check_takes_trainers(capsys, trainer_conformance):
    assert main(["plugins", "check", "honest", "--only", "iterates"]) == 0
    assert "trainer 'honest': all 2 checks passed (seed 0, 2 training problems)" in capsys.readouterr().out
    assert main(["plugins", "check", "optimist", "--only", "objective"]) == 1
    assert "reports that the objective is at most" in capsys.readouterr().out
    trainer_conformance("honest", only=["same seed"])
    with pytest.raises(pytest.fail.Exception, match="trainer 'optimist': 1 of 2 checks failed"):
        trainer_conformance("optimist", only=["objective"])
