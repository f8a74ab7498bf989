"""Parsers of the WSJ sample (``SSVM_DATA``): the F1 of probabilistic grammars, and of margins and log-loss.

Sentences of up to 25 words; the last tenth of all trees is the test, the tenth before it chooses C.  The learnt parsers
have the smallest grammar, whose symbols remember nothing, and features of the words at the ends of phrases in its place
(Hall, Durrett and Klein, ACL 2014).  Seconds are of processor time.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ssvm_dsl import (
    Attributes,
    Cost,
    Dim,
    Factor,
    Grammar,
    Input,
    Label,
    MaximumLikelihoodPCFG,
    Model,
    ParseTree,
    StructuredSVM,
    bracket_scores,
    rules,
    spans,
)
from ssvm_dsl.datasets import load_treebank

#: Words of a sentence, columns that features of phrases are hashed to.
MOST_WORDS, WIDTH = 25, 2**15

#: What is learnt: trainer, risk, and the C that are tried.
FITS = (("bcfw", "margin", (0.1, 0.3, 1.0)), ("lbfgs", "log", (0.03, 0.1, 0.3)))

#: Which C is best is seen with every fourth sentence, to a gap of 10 %.
EVERY, ROUGH = 4, 0.1


def shape_of(word: str) -> str:
    """Return the kinds of the characters of a word, each run once: ``Xx`` of ``Mary``."""
    kinds = "".join("X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c for c in word)
    return "".join(kind for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1])


def ending_of(word: str) -> str:
    """Return what stands for a rare word: capitals, digits, a hyphen, the last three letters."""
    marks = "C" * word[:1].isupper() + "0" * any(map(str.isdigit, word)) + "-" * ("-" in word)
    return f"{marks}:{word[-3:].lower()}"


@dataclass(frozen=True)
class Words:
    """Words that are seen three times, and the most frequent 150 and 40."""

    known: frozenset[str]
    common: frozenset[str]
    small: frozenset[str]

    @classmethod
    def of(cls, trees: list[ParseTree]) -> Words:
        """Count."""
        seen = Counter(word for tree in trees for word in tree.words)
        ranked = [word for word, _ in seen.most_common(150)]
        return cls(frozenset(word for word, n in seen.items() if n > 2), frozenset(ranked), frozenset(ranked[:40]))

    def at(self, words: tuple[str, ...], i: int) -> str:
        """Return a word, or what stands for it."""
        if not 0 <= i < len(words):
            return "<begin>" if i < 0 else "<end>"
        return words[i] if words[i] in self.known else ending_of(words[i])

    def rough(self, words: tuple[str, ...], i: int) -> str:
        """Return a frequent word, or the shape of another."""
        if not 0 <= i < len(words):
            return "<begin>" if i < 0 else "<end>"
        return words[i] if words[i] in self.common else shape_of(words[i])

    def example(self, tree: ParseTree) -> dict[str, Any]:
        """Return what the parser knows of a sentence."""
        words, n = tree.words, len(tree.words)
        rows, columns = [], []
        for i in range(n):
            for j in range(i, n):
                found = list(self.of_phrase(words, i, j))
                rows += [i * n + j] * len(found)
                columns += [zlib.crc32(one.encode()) % WIDTH for one in found]
        ends = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), (n * n, WIDTH))
        return {"words": [self.of_word(words, t) for t in range(n)], "ends": ends}

    def of_word(self, words: tuple[str, ...], t: int) -> list[str]:
        """Return the features of a word."""
        word = words[t]
        around = [f"w={self.at(words, t)}", f"p={self.at(words, t - 1)}", f"n={self.at(words, t + 1)}"]
        own = [f"W={word}", f"s1={word[-1:]}", f"s2={word[-2:]}", f"s3={word[-3:]}", f"b={word[:2].lower()}"]
        return [*around, *own, f"shape={shape_of(word)}", f"cap={word[:1].isupper()}{t == 0}"]

    def of_phrase(self, words: tuple[str, ...], i: int, j: int) -> list[str]:
        """Return the features of the words i..j as a phrase."""
        n, at, rough = j - i + 1, self.at, self.rough
        size = str(n) if n < 5 else "5" if n < 8 else "8" if n < 13 else "13"
        first, last, before, after = rough(words, i), rough(words, j), rough(words, i - 1), rough(words, j + 1)
        out = ["", f"size{size}", f"first{at(words, i)}", f"last{at(words, j)}", f"before{at(words, i - 1)}"]
        out += [f"after{at(words, j + 1)}", f"size{size}first{first}", f"size{size}last{last}"]
        out += [f"in{before} {first}", f"out{last} {after}", f"around{before} {after}", f"ends{first} {last}"]
        if n < 9:
            out.append("shape" + "".join(w + " " if w in self.small else shape_of(w)[:1] for w in words[i : j + 1]))
        if n == 3:
            out.append(f"middle{at(words, i + 1)}")
        if i == 0:
            out.append(f"begins{size}")
        return [*out, f"ends{len(words) - j}{size}"] if j >= len(words) - 2 else out


def baseline(trees: list[ParseTree], tests: list[ParseTree], vertical: int, horizontal: int) -> float:
    """Return the F1 of a probabilistic grammar."""
    grammar = Grammar.from_trees(trees, horizontal=horizontal, vertical=vertical, above_tags=True)

    class Counted(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, grammar=grammar)
        leaf = Factor(y, features=words)
        span = Factor(spans(y))
        rule = Factor(rules(y))
        loss = Cost(spans(y), "wrong")

    made = MaximumLikelihoodPCFG(Counted, smoothing=0.01, n_threads=1).fit([one.words for one in trees], trees)
    return bracket_scores(tests, made.predict([one.words for one in tests])).f1


def main() -> None:
    """Show F1, gap and seconds."""
    every = [tree.without_cycles() for tree in load_treebank()]
    cut = len(every) - len(every) // 10
    trees, tests = ([tree for tree in part if len(tree.words) <= MOST_WORDS] for part in (every[:cut], every[cut:]))
    print(f"{len(trees)} sentences to learn from, {len(tests)} to test")
    for vertical, horizontal in ((1, 0), (1, 1), (2, 1)):
        f1 = baseline(trees, tests, vertical, horizontal)
        print(f"probabilistic grammar, vertical {vertical}, horizontal {horizontal}: F1 {f1:.3f}", flush=True)

    class Parser(Model):
        T = Dim()
        words = Attributes(T)
        ends = Input(T, T, WIDTH, sparse=True)
        y = Label(T, grammar=Grammar.from_trees(trees, horizontal=0))
        leaf = Factor(y, features=words)
        span = Factor(spans(y), features=ends)
        rule = Factor(rules(y))
        loss = Cost(spans(y), "wrong")

    words = Words.of(trees)
    X, others = [words.example(tree) for tree in trees], [words.example(tree) for tree in tests]
    for trainer, risk, tried in FITS:
        start = time.process_time()
        made = {"trainer": trainer, "risk": risk, "random_state": 0, "n_threads": 1}
        C = best_constant(StructuredSVM(Parser, tol=ROUGH, **made), tried, X, trees)
        choosing, start = time.process_time() - start, time.process_time()
        svm = StructuredSVM(Parser, C=C, tol=0.01, max_seconds=3000.0, **made).fit(X, trees)
        spent, report = time.process_time() - start, svm.report_
        f1 = bracket_scores(tests, svm.predict(others)).f1
        text = f"gap {100 * report.relative_gap:.2f} % after {report.n_passes:.1f} passes, {spent:.0f} s"
        print(f"{trainer}, {risk}, C = {C} (chosen in {choosing:.0f} s): F1 {f1:.3f}, {text}", flush=True)


def best_constant(svm: StructuredSVM, tried: tuple[float, ...], X: list[Any], trees: list[ParseTree]) -> float:
    """Return the C with the best F1 on the last ninth of the training trees, learnt from a part of the others."""
    cut = len(trees) - len(trees) // 9
    found = {}
    for C in tried:
        svm.set_params(C=C).fit(X[:cut:EVERY], trees[:cut:EVERY])
        found[C] = bracket_scores(trees[cut:], svm.predict(X[cut:])).f1
    print("  F1 on the development part: " + ", ".join(f"C = {C}: {f1:.3f}" for C, f1 in found.items()), flush=True)
    return max(found, key=found.__getitem__)
