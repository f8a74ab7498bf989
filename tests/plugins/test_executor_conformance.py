"""The kit for executors: bundled ones pass, and each broken promise is found by the check that is about it."""

import pytest
from broken_executors import spec

from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.plugin_api import ExecutorSpec
from ssvm_dsl.testing import check_executor

#: Kind of broken executor -> the check that finds it.
LIES = {
    "Nameless": "number of shards",
    "Sorted": "order",
    "Stale": "other shards",
    "Forgetful": "shards stay open",
    "Silent": "errors",
    "Rounded": "sums of a fit",
    "Deaf": "limits",
    "Secretive": "limits",
    "ClosedOnce": "close",
}


def test_an_honest_executor_passes():
    report = check_executor(spec("Honest"))
    assert report.ok, str(report)
    assert report.not_claimed == ["lost workers"]  # all shards are in this process


@pytest.mark.parametrize("kind", LIES)
def test_each_broken_promise_is_found(kind):
    report = check_executor(spec(kind), only=[LIES[kind]])
    assert [check.name for check in report.checks if not check.ok] == [LIES[kind]]


@pytest.mark.parametrize(("name", "options"), [("stream", {}), ("processes", {"workers": 2})])
def test_bundled_executors_pass(executor_conformance, name, options):
    report = executor_conformance(name, options=options)
    assert ("lost workers" in report.not_claimed) == (name == "stream")


def test_what_cannot_be_checked_is_said():
    assert not check_executor(ExecutorSpec("lost", "broken_executors:Gone")).ok
    with pytest.raises(OptionError, match="there is no check 'speed'"):
        check_executor(spec("Honest"), only=["speed"])
    with pytest.raises(PluginError, match="no executor 'cluster'"):
        check_executor("cluster")
