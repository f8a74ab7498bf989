"""What a plug-in changes in its process is put back and named; scores that are no numbers, and limits that are none."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import broken_backends as broken
import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import BackendFault, PluginWarning
from ssvm_dsl.ir import Guarantee, Primal, Stop
from ssvm_dsl.plugin_api import Iterate, TrainerSpec
from ssvm_dsl.plugin_api.hosting.contained import kept_surroundings
from toy_backends import plugged

Word = tagger(2, 3)


RNG = np.random.default_rng(0)
X = [RNG.normal(size=(t, 2)) for t in (2, 3, 4)]
Y = [RNG.integers(3, size=len(x)) for x in X]


def fit(backend="auto", **options):
    settings = {"backend": backend, "max_passes": 6, "random_state": 0, "n_threads": 1} | options
    return StructuredSVM(Word, **settings).fit(X, Y)


def around():
    return np.geterr(), os.getcwd(), list(warnings.filters), signal.getsignal(signal.SIGINT)


def ignore(number, frame):
    """A handler that takes Ctrl-C away."""


CHANGES = {
    "numpy's error state": lambda: np.seterr(divide="raise", invalid="raise"),
    "the working directory": lambda: os.chdir("/"),
    "the warnings filters": lambda: warnings.simplefilter("error", BytesWarning),
    "signal handlers": lambda: signal.signal(signal.SIGINT, ignore),
}


@pytest.fixture
def unharmed(tmp_path, monkeypatch):
    """Puts back here what a test is about, should it fail."""
    monkeypatch.chdir(tmp_path)
    with np.errstate(), warnings.catch_warnings():
        handler = signal.getsignal(signal.SIGINT)
        yield
        signal.signal(signal.SIGINT, handler)


class Disturbing(broken.Honest):
    change_of = staticmethod(lambda: None)

    def change(self, session, question, solution):
        self.change_of()
        return solution


def spec_of(backend, **caps):
    """The description of a backend of this module."""
    return replace(broken.spec_of(backend, **caps), factory=f"{__name__}:{backend.__name__}")


@pytest.mark.parametrize("what", CHANGES)
def test_what_answers_leave_changed_is_put_back_and_named_once(what, unharmed, monkeypatch):
    monkeypatch.setattr(Disturbing, "change_of", staticmethod(CHANGES[what]))
    plugged(ssvm_backends=[spec_of(Disturbing)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit("brute-force", trainer="n-slack")  # what is imported on the way brings filters of its own
        before = around()
        report = fit("Disturbing", trainer="n-slack").report_
        assert around() == before
    assert report.n_oracle_calls > 3
    mine = [str(one.message) for one in caught if one.category is PluginWarning]
    assert len(mine) == 1
    assert mine[0].startswith("backend 'Disturbing' (plug-in 'stranger'")
    assert what in mine[0]


class Opening(broken.Honest):
    def open(self, program, options):
        os.environ["SSVM_TEST_LEFT_BEHIND"] = "1"
        return super().open(program, options)


def test_environment_variables_are_looked_at_where_a_backend_is_opened(unharmed):
    plugged(ssvm_backends=[spec_of(Opening)])
    with pytest.warns(PluginWarning, match="changed environment variables"):
        fit("Opening", trainer="n-slack")
    assert "SSVM_TEST_LEFT_BEHIND" not in os.environ


class Descent:
    """A trainer that forgets what it has set."""

    def __init__(self, random_state=None):
        pass

    def steps(self, problem, stop, start=None):
        np.seterr(all="raise")
        for t in range(1, 10):
            yield Iterate(np.zeros(problem.dim), float(t))


def test_what_steps_of_a_trainer_leave_changed_is_put_back_and_named(unharmed):
    plugged(ssvm_trainers=[TrainerSpec("descent", f"{__name__}:Descent", "of a test", certifies=False)])
    before = np.geterr()
    with pytest.warns(PluginWarning, match=r"trainer 'descent' \(plug-in 'stranger'.* changed numpy's error state"):
        fit(trainer="descent")
    assert np.geterr() == before


def test_a_folder_that_is_gone_is_no_trouble(tmp_path, monkeypatch, unharmed):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    with kept_surroundings("backend 'x'", set()):
        Path(gone).rmdir()
        os.chdir(tmp_path)


def test_filters_that_an_import_brings_stay(monkeypatch, unharmed):
    with warnings.catch_warnings():
        with kept_surroundings("backend 'x'", set()):
            monkeypatch.setitem(sys.modules, "a_library_of_nobody", SimpleNamespace())
            warnings.filterwarnings("ignore", message="a warning of that library")
        assert any("a warning of that library" in str(one[1]) for one in warnings.filters)


# -- scores that are no numbers, and time that is not up -------------------------------------------------------


class NotANumber(broken.Honest):
    """Has no labelling, it says, as if a limit had come; its scores are no numbers."""

    primal, stop = Primal.FEASIBLE, Stop.FINISHED

    def change(self, session, question, solution):
        solution.score[:], solution.primal[:], solution.stop[:] = np.nan, self.primal, self.stop
        return solution


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("trainer", ["bcfw", "n-slack", "subgradient", "perceptron"])
@pytest.mark.parametrize(
    ("primal", "stop", "text"),
    [
        (Primal.FEASIBLE, Stop.FINISHED, "a score is nan"),
        (Primal.NONE, Stop.ITERATIONS, "a score is nan"),
        (Primal.NONE, Stop.TIME, "a time limit ended answer 0, and was given none"),
    ],
)
def test_scores_that_are_no_numbers_end_no_fit_well(guarantee, trainer, primal, stop, text, monkeypatch):
    monkeypatch.setattr(NotANumber, "primal", primal)
    monkeypatch.setattr(NotANumber, "stop", stop)
    plugged(ssvm_backends=[spec_of(NotANumber, guarantee=guarantee)])
    with pytest.raises(BackendFault, match=rf"(?s)backend 'NotANumber' \(plug-in 'stranger'.*{text}"):
        fit("NotANumber", trainer=trainer, guarantee=guarantee.value)


def test_scores_that_are_no_numbers_are_not_filled_in_at_a_limit(monkeypatch):
    monkeypatch.setattr(NotANumber, "primal", Primal.NONE)
    monkeypatch.setattr(NotANumber, "stop", Stop.TIME)
    plugged(ssvm_backends=[spec_of(NotANumber)])
    with pytest.raises(BackendFault, match="a score is nan"):
        fit("NotANumber", trainer="n-slack", max_seconds=1000.0)
