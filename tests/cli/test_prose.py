"""How the pages of docs are written: none is too long, and people who learn read short sentences."""

from __future__ import annotations

import pytest
from prose import count_words, long_sentences, sentences
from snippets import ROOT

DOCS = ROOT / "docs"
#: What ``make docs`` writes, pages of other origin, and docstrings.
GENERATED = ("_", "gallery", "reference/api", "plugins/reference")
PAGES = [
    page for page in sorted(DOCS.rglob("*.md"))
    if not page.relative_to(DOCS).as_posix().startswith(GENERATED)
]  # fmt: skip
#: Those with prose of ours: experiments write the pages of results.
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
WRITTEN = OTHERS + [page for page in PAGES if page.relative_to(DOCS).parts[0] != "results"]
#: Folders that people learn from.
FOLDERS = {"coming_from", "howto", "inference", "language", "plugins", "theory", "training", "tutorial"}

MOST_WORDS = 2500
MOST_WORDS_OF_A_SENTENCE = 30


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "changelog.md"], ids=name)
def test_a_page_is_read_in_ten_minutes(page):
    n_words = count_words(page.read_text())
    assert n_words <= MOST_WORDS, f"{name(page)} has {n_words} words, at most {MOST_WORDS}: split it by subject"


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_sentences_are_short(page):
    found = long_sentences(page.read_text(), MOST_WORDS_OF_A_SENTENCE)
    assert not found, "\n".join([f"{name(page)} has sentences of more than {MOST_WORDS_OF_A_SENTENCE} words:", *found])


def test_the_folders_that_people_learn_from_are_looked_at():
    assert {page.parent.name for page in WRITTEN} >= FOLDERS


PAGE = """# A heading is no sentence

One sentence. Another one, of `f(x, y)` and [a link](page.md#there) by Ross et al. 2011, with
a second line? Yes.

* an item that says
  something
* one more; it has $a + b$ in it

| a cell | with one sentence. And two |
|---|---|

```python
print("no prose")
```

    a formula
"""


def test_sentences_are_found():
    assert list(filter(None, sentences(PAGE))) == [
        "One sentence.",
        "Another one, of X and a link by Ross et al 2011, with a second line?",
        "Yes.",
        "an item that says something",
        "one more; it has X in it",
        "a cell",
        "with one sentence.",
        "And two",
        "---",
        "---",
    ]
    (longest,) = long_sentences(PAGE, 15)
    assert longest.startswith("16 words: Another one, of X")
    assert not long_sentences(PAGE, 16)
