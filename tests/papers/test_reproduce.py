"""``ssvm reproduce``: results are kept and taken up again, missing data are told, pages hold what was found."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from foreign import inside
from ssvm_dsl.errors import FileFormatError
from ssvm_papers.experiments import catalogue
from ssvm_papers.results.experiment import Experiment, Findings, Table
from ssvm_papers.results.page import fill_quotes, quotes_in
from ssvm_papers.results.running import Size, read_record, result_path, saved_result
from ssvm_papers.results.statements import (
    Answers,
    Between,
    EachNear,
    Judgement,
    Near,
    OneOfDraws,
    Rising,
    Statement,
    near,
)

TOY_STATEMENTS = (
    near("error", "error", 0.2, 0.02),
    Statement("time", "time | all"),
    Statement("ratio", "ratio of times", "6", why="another machine"),
)


@pytest.fixture
def runs(monkeypatch):
    """Put two toy experiments in the place of all; return the list of (name, quick) that were run."""
    done = []

    def toy(name, **more):
        def run(quick, progress):
            progress("all of it", 0.5)
            done.append((name, quick))
            answers = Answers(TOY_STATEMENTS)
            answers.draws("error", [0.19, 0.23])
            answers.text("time", "3 s", 3.0)
            answers.text("ratio", "54", 54.0)
            more = [Table("more", ("a", "b"), [("1", "2")])]
            return Findings(answers.rows, ["a note"], more, {"curve": np.arange(3.0)})

        def draw(arrays, figure):
            figure.subplots().plot(arrays["curve"])

        paper = "Somebody, Another: Toys (1999)"
        known = {"notes": ("a reason why",), **more}
        return Experiment(name, "toys", paper, "Figure 1", "a toy", run, TOY_STATEMENTS, draw, **known)

    toys = (toy("first"), toy("second", data=("no/such.npz",), substitutes=("one for the other",)))
    monkeypatch.setattr(catalogue, "EXPERIMENTS", toys)
    return done


@pytest.mark.parametrize(
    ("rule", "agree", "miss"),
    [
        (Near(0.2, 0.0101), [[0.21], [0.19], [0.1, 0.3]], [[0.211], [0.189]]),
        (Between(3, 12), [[3.0], [12.0], [4.0, 5.0]], [[2.9], [12.1], [4.0, 54.0]]),
        (OneOfDraws(1.0), [[1.1, 0.9, 1.2], [1.2, 1.3, 1.1]], [[1.2, 1.21, 1.19]]),
        (EachNear((1.0, 5.0), (0.1, 1.0)), [[1.09, 4.0]], [[1.11, 5.0], [1.0, 6.1]]),
        (Rising(), [[1.0, 2.0, 3.0]], [[1.0, 3.0, 2.0], [1.0, 1.0]]),
        (Rising(0.1), [[1.0, 2.0, 1.95]], [[1.0, 2.0, 1.8], [1.0, 0.95]]),
    ],
)
def test_rules_have_two_sides(rule, agree, miss):
    statement = Statement("a", "a", "something", rule)
    assert {statement.verdict(one, False) for one in agree} == {Judgement.AGREES}
    assert {statement.verdict(one, False) for one in miss} == {Judgement.MISSES}


def test_what_was_not_reached_is_not_judged():
    ratio = Statement("a", "a", "6", Between(3, 12))
    assert ratio.verdict((), False) is Judgement.TOO_SHORT
    assert [ratio.verdict([bound], True) for bound in (2.0, 5.0, 13.0)] == [Judgement.TOO_SHORT] * 2 + [
        Judgement.MISSES
    ]
    longer = Statement("a", "a", "longer", Between(3, np.inf))
    assert [longer.verdict([bound], True) for bound in (2.0, 5.0)] == [Judgement.TOO_SHORT, Judgement.AGREES]
    assert Statement("a", "a", "6", why="another machine").verdict([54.0], False) is Judgement.NOT_COMPARABLE
    assert Statement("a", "a").verdict([54.0], False) is Judgement.OURS


def test_answers_are_those_of_the_declaration():
    answers = Answers(TOY_STATEMENTS)
    answers.text("time", "3 s", 3.0, np.inf)
    answers.draws("error", [0.2, 0.24])
    error, time = answers.rows
    assert (error.ours, error.verdict) == ("0.220 (sd 0.020)", Judgement.AGREES)
    assert error.numbers == pytest.approx((0.22, 0.02))
    assert (time.verdict, time.numbers) == (Judgement.OURS, (3.0,))
    with pytest.raises(ValueError, match="has a rule"):
        answers.text("error", "small")


def test_every_experiment_declares_its_statements_once():
    for one in catalogue.EXPERIMENTS:
        keys = [statement.key for statement in one.statements]
        assert len(set(keys)) == len(keys) > 0
        assert not any(" " in key for key in keys), "quotes name a number by the key and its place"
        for statement in one.statements:
            assert statement.rule is None or statement.published != "-", f"{one.name}: {statement.key}"
            assert statement.rule is not None or bool(statement.why) == (statement.published not in ("-", "no number"))


def test_results_are_kept_and_taken_up_again(capsys, runs, tmp_path):
    arguments = ("reproduce", "run", "first", "--results", str(tmp_path), "--json")
    status, out, _ = inside(capsys, *arguments)
    again = inside(capsys, *arguments)
    assert (status, again[0], runs) == (0, 0, [("first", False)])
    (told,) = json.loads(out)["results"]
    assert json.loads(again[1])["results"] == [told]
    assert told["rows"][0] == {
        "key": "error", "what": "error", "published": "0.200", "ours": "0.210 (sd 0.020)", "tolerance": "+- 0.02",
        "verdict": "agrees", "numbers": pytest.approx([0.21, 0.02]), "why": "",
    }  # fmt: skip
    inside(capsys, *arguments, "--quick")
    inside(capsys, *arguments, "--again")
    assert runs == [("first", False), ("first", True), ("first", False)]
    status, out, err = inside(capsys, "reproduce", "--kept", "--results", str(tmp_path), "--json")
    assert (status, len(runs)) == (1, 3)
    assert json.loads(out)["results"][0]["size"] == "usual"
    assert "second: no result is kept" in err
    kept = saved_result(tmp_path, "first", Size.USUAL)
    np.testing.assert_array_equal(kept.findings.arrays["curve"], [0.0, 1.0, 2.0])


def test_what_lacks_data_is_told_and_the_rest_runs(capsys, runs, tmp_path, monkeypatch):
    monkeypatch.delenv("SSVM_DATA", raising=False)
    page = tmp_path / "page.md"
    status, out, err = inside(capsys, "reproduce", "--results", str(tmp_path), "--page", str(page))
    assert (status, runs) == (1, [("first", False)])
    assert "a note" in out
    assert "second: needs no/such.npz in the folder SSVM_DATA" in err
    text = (tmp_path / "page" / "first.md").read_text()
    assert "[All results](../page.md)" in text
    assert "| error | 0.200 | 0.210 (sd 0.020) | +- 0.02 | agrees |" in text
    assert "| time \\| all | - | 3 s | - | ours |" in text
    assert "| ratio of times | 6 | 54 | - | not comparable |" in text
    assert "*ratio of times* is not compared: another machine." in text
    assert "a reason why" in text
    text = page.read_text()
    assert "needs `no/such.npz`" in text
    assert "| [first](page/first.md) | Somebody, Another; Figure 1 | 1 | 0 | 1 | 0 | 0 | 1 |" in text


def test_a_quick_run_judges_nothing(capsys, runs, tmp_path):
    _, out, _ = inside(capsys, "reproduce", "first", "--quick", "--results", str(tmp_path), "--json")
    (told,) = json.loads(out)["results"]
    assert [row["verdict"] for row in told["rows"]] == ["too short to judge", "ours", "not comparable"]


def test_a_full_run_stays_and_a_smaller_one_says_so(capsys, runs, tmp_path, monkeypatch):
    first, second = catalogue.EXPERIMENTS
    larger = replace(first, run_full=lambda progress: first.run(False, progress), smaller="two draws of ten")
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (larger, second))
    page, place = tmp_path / "page.md", ("--results", str(tmp_path), "--page", str(tmp_path / "page.md"))
    assert "smaller run: two draws of ten; --full takes all" in inside(capsys, "reproduce", "first", *place)[1]
    assert "*Smaller run: two draws of ten" in (tmp_path / "page" / "first.md").read_text()
    assert ", smaller |" in page.read_text()
    for more in ("--full", "--kept", "--quick"):
        inside(capsys, "reproduce", "first", more, *place)
        assert read_record(tmp_path / "page.json", catalogue.EXPERIMENTS)["first"].size is Size.FULL
    assert "maller" not in (tmp_path / "page" / "first.md").read_text()


def test_a_page_keeps_what_was_found_before(capsys, runs, tmp_path, monkeypatch):
    first, second = catalogue.EXPERIMENTS
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (first, replace(second, data=())))
    page = tmp_path / "page.md"
    for name, *more in (("first",), ("second", "--quick"), ("first", "--quick")):
        inside(capsys, "reproduce", name, *more, "--results", str(tmp_path), "--page", str(page))
    kept = read_record(tmp_path / "page.json", catalogue.EXPERIMENTS)
    assert {name: one.size for name, one in kept.items()} == {"first": "usual", "second": "quick"}
    assert kept["first"].findings.rows[0].verdict is Judgement.AGREES
    assert sorted(part.name for part in (tmp_path / "page").iterdir()) == ["first.md", "second.md"]
    assert page.read_text().count("](page/") == 2
    (tmp_path / "page.json").write_text("{}")
    with pytest.raises(FileFormatError):
        read_record(tmp_path / "page.json", catalogue.EXPERIMENTS)


def test_a_stored_verdict_by_another_rule_is_taken_back(capsys, runs, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    inside(capsys, "reproduce", "first", "--results", str(tmp_path), "--page", str(page))
    stricter = (near("error", "error", 0.2, 0.001), *TOY_STATEMENTS[1:], Statement("new", "what else there is"))
    first, second = catalogue.EXPERIMENTS
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (replace(first, statements=stricter), second))
    kept = read_record(tmp_path / "page.json", catalogue.EXPERIMENTS)["first"]
    verdicts = [row.verdict for row in kept.findings.rows]
    assert verdicts == [Judgement.EARLIER, Judgement.OURS, Judgement.NOT_COMPARABLE]
    inside(capsys, "reproduce", "second", "--kept", "--results", str(tmp_path), "--page", str(page))
    text = (tmp_path / "page" / "first.md").read_text()
    assert "| error | 0.200 | 0.210 (sd 0.020) | +- 0.02 | older rule |" in text
    assert "Not in the stored run: what else there is." in text
    inside(capsys, "reproduce", "first", "--results", str(tmp_path))
    assert len(runs) == 2, "what was kept by an older rule is run again"


def test_pages_quote_numbers_of_results(capsys, runs, tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "deep" / "other.md"
    other.parent.mkdir()
    other.write_text(
        'takes [9](../page/first.md "time") s, [0.2](../page/first.md "error"), [0.020](page/first.md "error 1")\n'
    )
    inside(capsys, "reproduce", "first", "--results", str(tmp_path), "--page", str(page), "--quotes", str(tmp_path))
    kept = read_record(tmp_path / "page.json", catalogue.EXPERIMENTS)
    right = 'takes [3](../page/first.md "time") s, [0.2](../page/first.md "error"), [0.020](page/first.md "error 1")\n'
    assert other.read_text() == right
    assert fill_quotes(tmp_path, kept, page.name) == []
    other.write_text('about\n[3](page/first.md "time 1")')
    (quote,) = quotes_in(other.read_text(), kept, page.name)
    assert (quote.line, quote.found, quote.right) == (2, "3", "")
    with pytest.raises(FileFormatError, match=r"line 2: quotes 'time 1' of first, which page\.md does not have"):
        fill_quotes(tmp_path, kept, page.name)


@pytest.mark.parametrize("wrong", [("--page", "page.json"), ("--page", "page"), ("--quotes", ".")])
def test_pages_that_cannot_be_are_refused(capsys, runs, wrong):
    status, _, err = inside(capsys, "reproduce", "first", *wrong)
    assert (status, runs) == (2, [])
    assert wrong[0] in err


def test_an_interrupt_tells_what_is_kept(capsys, runs, tmp_path, monkeypatch):
    def interrupted(quick, progress):
        raise KeyboardInterrupt

    first, second = catalogue.EXPERIMENTS
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (first, replace(second, run=interrupted, data=())))
    status, out, err = inside(capsys, "reproduce", "--results", str(tmp_path))
    assert (status, runs) == (130, [("first", False)])
    assert "a note" in out
    assert f"second starts again next time; results of finished experiments are kept in {tmp_path}" in err
    assert saved_result(tmp_path, "first", Size.USUAL) is not None


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
    result_path(tmp_path, "first", Size.QUICK).write_bytes(b"something else")
    with pytest.raises(FileFormatError):
        saved_result(tmp_path, "first", Size.QUICK)


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
