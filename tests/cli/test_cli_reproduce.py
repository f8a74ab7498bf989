"""``ssvm reproduce``: results are kept and taken up again, missing data are told, pages hold what was found."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from foreign import inside

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.reproduce import catalogue
from ssvm_dsl.reproduce.experiment import Experiment, Findings, Table, Verdict, claim, compare, measured
from ssvm_dsl.reproduce.running import result_path, saved_result


@pytest.fixture
def runs(monkeypatch):
    """Put two toy experiments in the place of all; return the list of (name, quick) that were run."""
    done = []

    def toy(name, **more):
        def run(quick, progress):
            progress("all of it", 0.5)
            done.append((name, quick))
            rows = [compare("error", 0.2, [0.19, 0.23], 0.02), measured("time | all", "3 s")]
            return Findings(rows, ["a note"], [Table("more", ("a", "b"), [("1", "2")])], {"curve": np.arange(3.0)})

        def draw(arrays, figure):
            figure.subplots().plot(arrays["curve"])

        return Experiment(name, "toys", "Somebody, Another: Toys (1999)", "Figure 1", "a toy", run, draw, **more)

    toys = (toy("first"), toy("second", data=("no/such.npz",), substitutes=("one for the other",)))
    monkeypatch.setattr(catalogue, "EXPERIMENTS", toys)
    return done


def test_rows_agree_within_their_tolerance():
    assert compare("a", 0.2, 0.21, 0.0101).verdict is Verdict.AGREES
    assert compare("a", 0.2, [0.2, 0.24], 0.0199).verdict is Verdict.MISSES
    assert compare("a", 0.2, [0.2, 0.24], 0.021).ours == "0.220 (sd 0.020)"
    assert claim("a", "x < y", "y < x", False, "the order").verdict is Verdict.MISSES
    assert measured("a", "3 s").verdict is Verdict.OURS


def test_results_are_kept_and_taken_up_again(capsys, runs, tmp_path):
    arguments = ("reproduce", "run", "first", "--results", str(tmp_path), "--json")
    status, out, _ = inside(capsys, *arguments)
    again = inside(capsys, *arguments)
    assert (status, again[0], runs) == (0, 0, [("first", False)])
    (told,) = json.loads(out)["results"]
    assert json.loads(again[1])["results"] == [told]
    assert told["rows"][0] == {
        "what": "error", "published": "0.200", "ours": "0.210 (sd 0.020)", "tolerance": "+- 0.02", "verdict": "agrees",
    }  # fmt: skip
    inside(capsys, *arguments, "--quick")
    inside(capsys, *arguments, "--again")
    assert runs == [("first", False), ("first", True), ("first", False)]
    status, out, err = inside(capsys, "reproduce", "--kept", "--results", str(tmp_path), "--json")
    assert (status, len(runs)) == (1, 3)
    assert not json.loads(out)["results"][0]["quick"]
    assert "second: no result is kept" in err
    kept = saved_result(tmp_path, "first", quick=False)
    np.testing.assert_array_equal(kept.findings.arrays["curve"], [0.0, 1.0, 2.0])


def test_what_lacks_data_is_told_and_the_rest_runs(capsys, runs, tmp_path, monkeypatch):
    monkeypatch.delenv("SSVM_DATA", raising=False)
    page = tmp_path / "page.md"
    status, out, err = inside(capsys, "reproduce", "--results", str(tmp_path), "--page", str(page))
    assert (status, runs) == (1, [("first", False)])
    assert "a note" in out
    assert "second: needs no/such.npz in the folder SSVM_DATA" in err
    text = page.read_text()
    assert "| error | 0.200 | 0.210 (sd 0.020) | +- 0.02 | agrees |" in text
    assert "| time \\| all | - | 3 s | - | ours |" in text
    assert "needs `no/such.npz`" in text
    assert "| [first](#first) | Somebody, Another; Figure 1 | 1 | 0 | 1 |" in text


def test_an_interrupt_tells_what_is_kept(capsys, runs, tmp_path, monkeypatch):
    def interrupted(quick, progress):
        raise KeyboardInterrupt

    first, second = catalogue.EXPERIMENTS
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (first, replace(second, run=interrupted, data=())))
    status, out, err = inside(capsys, "reproduce", "--results", str(tmp_path))
    assert (status, runs) == (130, [("first", False)])
    assert "a note" in out
    assert f"second begins anew next time; results of finished experiments are kept in {tmp_path}" in err
    assert saved_result(tmp_path, "first", quick=False) is not None


def test_figures_are_drawn(capsys, runs, tmp_path):
    pytest.importorskip("matplotlib")
    inside(capsys, "reproduce", "first", "--quick", "--results", str(tmp_path), "--plot", str(tmp_path / "figures"))
    assert (tmp_path / "figures" / "first-quick.png").stat().st_size > 1000


def test_experiments_are_listed(capsys, runs):
    assert "a toy" in inside(capsys, "reproduce", "list")[1]
    first, second = json.loads(inside(capsys, "reproduce", "list", "toys", "--json")[1])
    assert (first["missing_data"], second["missing_data"]) == ([], ["no/such.npz"])
    assert runs == []


def test_unknown_names_and_damaged_results_are_refused(capsys, runs, tmp_path):
    status, _, err = inside(capsys, "reproduce", "frist")
    assert status == 2
    assert "there is no experiment 'frist'; did you mean 'first'?" in err
    result_path(tmp_path, "first", quick=True).write_bytes(b"something else")
    with pytest.raises(FileFormatError):
        saved_result(tmp_path, "first", quick=True)


def test_names_are_unique_and_typeable():
    names = [one.name for one in catalogue.EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert not {"run", "list"} & {*names, *(one.family for one in catalogue.EXPERIMENTS)}


@pytest.mark.parametrize("option", ["--results", "--plot", "--page"])
def test_places_that_cannot_be_written_are_refused_before_anything_runs(capsys, runs, tmp_path, option):
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / "file" / "page.md" if option == "--page" else tmp_path / "file"
    results = () if option == "--results" else ("--results", str(tmp_path / "kept"))
    status, _, err = inside(capsys, "reproduce", "first", *results, option, str(place))
    assert (status, runs) == (2, [])
    assert "file" in err
