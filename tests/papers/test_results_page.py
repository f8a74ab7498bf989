"""The results in ``docs``: the pages are what the data say, and numbers on other pages are those of the data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssvm_papers.experiments.catalogue import EXPERIMENTS
from ssvm_papers.results.page import QUOTE, quotes_in, write_page
from ssvm_papers.results.running import Size, read_record
from ssvm_papers.results.statements import Judgement

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
#: What writes everything anew after a run, or after a rule was changed.
ANEW = "ssvm reproduce --kept --page docs/results.md --quotes docs"

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Numbers that look like results: with decimals, or counted in per cent, seconds, or times.
RESULT = re.compile(r"(?<![\w.\-^/(])(?:\d+\.\d+|\d+(?= (?:%|s|ms|min|times|points)\b))(?![\w.]*[-/]\w)")
#: Numbers on the pages of the papers that are no results of the experiments: what is published, and settings.
GIVEN = {
    "counting.md": {"0.01", "0.15", "0.19", "0.1", "0.2", "3.1", "3.2", "3.3", "4.1", "4.2", "2.0", "1.0"},
    "dual_losses.md": {"1", "10", "3.2", "43"},
    "extensions.md": {"5.1", "5.2", "5.3", "5.4", "5.5"},
    "posets.md": {"16"},
    "subgradient.md": {"4.1", "5.1", "5.2", "5.3", "6.1", "6.2", "7.1", "7.2", "7.3", "0.20", "0.21", "0.13", "0.1",
                       "0.3", "0.5", "17"},
    "thesis.md": {"0.01", "99.63", "99.65", "10", "20", "30", "2.3", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7",
                  "3.1", "3.2", "3.3", "3.4", "2.1", "2.6", "0.005", "1.2"},
}  # fmt: skip


@pytest.fixture(scope="module")
def record():
    """The stored results by experiment."""
    return read_record(DOCS / "results.json", EXPERIMENTS)


def test_the_pages_are_what_the_data_say(record, tmp_path):
    assert set(record) == {one.name for one in EXPERIMENTS}
    write_page(tmp_path / "results.md", [record[one.name] for one in EXPERIMENTS], {})
    assert (tmp_path / "results.md").read_text() == (DOCS / "results.md").read_text(), f"write it anew: {ANEW}"
    folders = (tmp_path / "results", DOCS / "results")
    written, kept = ({page.name: page.read_text() for page in folder.glob("*.md")} for folder in folders)
    assert written == kept, f"write them anew: {ANEW}"
    assert set(written) == {f"{one.name}.md" for one in EXPERIMENTS}


def test_stored_runs_are_not_quick_and_their_code_is_known(record):
    assert not [name for name, one in record.items() if one.size is Size.QUICK or not one.circumstances.commit]
    assert not [name for name, one in record.items() if one.circumstances.commit.endswith("-dirty")]


def test_quoted_numbers_are_those_of_the_stored_runs(record):
    quotes = [(path.name, quote) for path in PAGES for quote in quotes_in(path.read_text(), record, "results.md")]
    wrong = [
        f"{name}, line {quote.line}: {quote.found} for '{quote.key}' of {quote.name}, is {quote.right or 'no number'}"
        for name, quote in quotes if quote.found != quote.right
    ]  # fmt: skip
    assert not wrong, f"{wrong}; write them anew: {ANEW}"
    assert len(quotes) > 10


@pytest.mark.parametrize("path", sorted((DOCS / "papers").glob("*.md")), ids=lambda path: path.name)
def test_pages_of_papers_state_no_result_of_their_own(path):
    """A number of ours is a quote, so that it can be checked; what else looks like one is listed above."""
    text = QUOTE.sub("", FENCE.sub(lambda found: "\n" * found[0].count("\n"), path.read_text()))
    text = re.sub(r"`[^`\n]*`", "", text)
    given = GIVEN.get(path.name, set())
    found = [f"line {text.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in RESULT.finditer(text)
             if one[0] not in given]  # fmt: skip
    assert not found


def test_verdicts_of_stored_runs_follow_from_their_numbers(record):
    """Whoever changes a number, or a verdict, by hand is found out."""
    for experiment in EXPERIMENTS:
        declared = {one.key: one for one in experiment.statements}
        for row in record[experiment.name].findings.rows:
            if row.verdict in (Judgement.OURS, Judgement.NOT_COMPARABLE, Judgement.TOO_SHORT, Judgement.EARLIER):
                continue
            rule = declared[row.key].rule
            if type(rule).__name__ in ("Between", "Near", "Rising") and len(row.numbers) == 1:
                agrees = rule.agrees(row.numbers)
                assert agrees == (row.verdict is Judgement.AGREES) or row.ours.startswith(">"), (experiment.name, row)
