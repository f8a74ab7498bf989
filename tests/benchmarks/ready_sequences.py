"""Rows of ``ready`` for sequences: a class for each position, and segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from ready import Task, row
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from ssvm_dsl import label_accuracy, span_f1
from ssvm_dsl.datasets import (
    chunk_attributes,
    chunk_segments,
    chunk_tags,
    load_conll2000,
    load_dependency_treebank,
    load_letters,
)
from ssvm_dsl.models import ChainTagger, SegmentTagger

#: Classes of activities.
ACTIVITIES = ("lie", "sit", "stand", "walk", "run")


def position_by_position(task: Task) -> list[Any]:
    """Judge each position by logistic regression."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(np.concatenate(task.X), np.concatenate(task.Y))
    return [model.predict(x) for x in task.X_test]


def smoothed(task: Task, half: int = 4) -> list[Any]:
    """Judge each position, then take the class that is most frequent in a window around it."""

    def mode(labels: Any, t: int) -> Any:
        names, counts = np.unique(labels[max(t - half, 0) : t + half + 1], return_counts=True)
        return names[counts.argmax()]

    return [np.array([mode(one, t) for t in range(len(one))]) for one in position_by_position(task)]


def by_attributes(task: Task) -> list[Any]:
    """Judge each token by logistic regression of its attributes, one-hot."""
    named = [[_as_dict(token) for token in sentence] for sentence in (*task.X, *task.X_test)]
    encoder = DictVectorizer().fit([token for sentence in named[: len(task.X)] for token in sentence])
    model = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=60))
    model.fit(encoder.transform([one for x in named[: len(task.X)] for one in x]), [tag for y in task.Y for tag in y])
    return [model.predict(encoder.transform(x)) for x in named[len(task.X) :]]


def _as_dict(token: Any) -> Any:
    return token if isinstance(token, dict) else dict.fromkeys(token, 1)


def runs(labels: Sequence[Any]) -> list[tuple[int, int, Any]]:
    """Return labels of positions as segments."""
    out, start = [], 0
    for name, some in groupby(list(labels)):
        n = len(list(some))
        out.append((start, start + n, name))
        start += n
    return out


def positions_of(segments: Sequence[tuple[int, int, Any]]) -> list[Any]:
    """Return the class of each position."""
    return [name for start, end, name in segments for _ in range(start, end)]


def runs_of(learn: Any) -> Any:
    """Return what predicts positions as what predicts segments."""

    def predict(task: Task) -> list[Any]:
        return [runs(one) for one in learn(Task(task.X, list(map(positions_of, task.Y)), task.X_test, None))]

    return predict


def position_accuracy(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of positions in segments of the right class."""
    flat = [
        [[name for start, end, name in one for _ in range(start, end)] for one in side] for side in (truth, predicted)
    ]
    return label_accuracy(*flat)


def segment_f1(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return F1 of whole segments."""
    return span_f1(*[[[tuple(segment) for segment in one] for one in side] for side in (truth, predicted)])


def event_f1(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return F1 of the positions of a rare class."""
    t, p = (np.concatenate([np.asarray(one) == "event" for one in side]) for side in (truth, predicted))
    return float(2 * (t & p).sum() / max(t.sum() + p.sum(), 1))


ALONE = ("scaled logistic regression of each position", position_by_position)
SMOOTHED = ("logistic regression with a mode filter", smoothed)
NAMED = ("logistic regression of each token", by_attributes)


def days(seed: int, people: int = 8, hours: int = 300, width: int = 6) -> tuple[list[Any], list[Any]]:
    """Return what sensors of some people measured, and what these did: each stays with an activity for a while."""
    r, k = np.random.default_rng(seed), len(ACTIVITIES)
    nearby = np.exp(-np.abs(np.arange(k)[:, None] - np.arange(k)))
    np.fill_diagonal(nearby, 0)
    centres = r.normal(size=(k, width)) * np.linspace(1.2, 0.1, width)
    X, Y = [], []
    for _ in range(people):
        state, states = r.integers(k), []
        while len(states) < hours:
            states += [state] * int(3 + r.gamma(2.0, 6.0))
            state = r.choice(k, p=nearby[state] / nearby[state].sum())
        states = np.array(states[:hours])
        noise = r.normal(size=(hours, width)) * 1.3 + 0.5 * r.normal(size=width)  # each person's sensors are off
        X.append((centres[states] + noise) * np.logspace(0, 3, width))
        Y.append(np.array(ACTIVITIES)[states])
    return X, Y


def split(X: Sequence[Any], Y: Sequence[Any], share: float = 0.5) -> Task:
    """Return the first examples to learn from, the others to judge by."""
    n = int(len(X) * share)
    return Task(X[:n], Y[:n], X[n:], Y[n:])


@row("chains: activities over time", ChainTagger, SMOOTHED, label_accuracy, draws=8, small={"hours": 120})
def activities(seed: int, hours: int = 300) -> Task:
    """Sensors on scales of their own, four people to learn from."""
    return split(*days(seed, hours=hours))


@row("chains: rare events", ChainTagger, ALONE, event_f1, draws=8, small={})
def rare_events(seed: int, n: int = 400) -> Task:
    """Two to three of a hundred positions are an event."""
    r = np.random.default_rng(seed)
    X = [r.normal(size=(20, 2)) for _ in range(n)]
    return split(X, [np.where(x[:, 0] + 0.5 * r.normal(size=20) > 2.0, "event", "none") for x in X])


@row("chains: letters of words", ChainTagger, ALONE, label_accuracy)
def letters(seed: int) -> Task:
    """Handwritten words, 128 binary pixels for each letter: 704 words to learn from."""
    found = load_letters(fold=1 + seed)
    return Task(found.X_train, found.Y_train, found.X_test[:1000], found.Y_test[:1000])


def chunked(n: int, n_test: int = 2012) -> Task:
    """Return sentences with attributes, one of them an integer of another scale, and BIO tags."""
    train, test = load_conll2000()
    X, Y = [], []
    for one in (*train[:n], *test[:n_test]):
        names = chunk_attributes(one.words, one.pos)
        X.append(
            [{**dict.fromkeys(token, 1), "length": len(word)} for token, word in zip(names, one.words, strict=True)]
        )
        Y.append(one.chunks)
    return split(X, Y, n / len(X))


@row("chains: chunks, 3000 sentences", ChainTagger, NAMED, span_f1)
def chunks(seed: int) -> Task:
    """Phrases in BIO tags, attributes of CRFsuite's tutorial."""
    return chunked(3000)


@row("chains: chunks, 300 sentences", ChainTagger, NAMED, span_f1)
def few_chunks(seed: int) -> Task:
    """The same with little to learn from."""
    return chunked(300, 500)


def word_attributes(words: Sequence[str]) -> list[dict[str, float]]:
    """Return word, affixes, shape and neighbours of each token."""
    out = []
    for t, word in enumerate(words):
        names = {f"w={word.lower()}", f"s3={word[-3:]}", f"s2={word[-2:]}", f"p2={word[:2]}"}
        names |= {f"-1={words[t - 1].lower()}" if t else "first"}
        names |= {f"+1={words[t + 1].lower()}" if t + 1 < len(words) else "last"}
        names |= {"upper"} if word[0].isupper() else set()
        names |= {"digit"} if any(letter.isdigit() for letter in word) else set()
        out.append(dict.fromkeys(sorted(names), 1.0))
    return out


@row("chains: parts of speech, 500 sentences", ChainTagger, NAMED, label_accuracy)
def parts_of_speech(seed: int) -> Task:
    """Some 40 tags of the Wall Street Journal sample."""
    found = load_dependency_treebank()[:1000]
    return split([word_attributes(one.words) for one in found], [one.pos for one in found])


@row(
    "segments: activities over time", SegmentTagger, ("logistic regression, mode filter, runs", runs_of(smoothed)),
    position_accuracy, draws=8,
)  # fmt: skip
def activity_segments(seed: int, hours: int = 300) -> Task:
    """The activities as segments."""
    task = activities(seed, hours)
    return Task(task.X, list(map(runs, task.Y)), task.X_test, list(map(runs, task.Y_test)))


@row(
    "segments: words in a signal", SegmentTagger, ("logistic regression, runs", runs_of(position_by_position)),
    segment_f1, draws=2, small={"n": 60},
)  # fmt: skip
def signal(seed: int, n: int = 200) -> Task:
    """Segments of classes whose lengths tell them apart: short, middle and long ones."""
    r, names, lengths = np.random.default_rng(seed), ("click", "word", "pause"), (2, 5, 9)
    X, Y = [], []
    for _ in range(n):
        segments, t, last = [], 0, -1
        while t < 40:
            k = int(r.choice([one for one in range(3) if one != last]))
            end = min(t + max(1, lengths[k] + int(r.integers(-1, 2))), 44)
            segments.append((t, end, names[k]))
            t, last = end, k
        states = np.concatenate([[names.index(name)] * (end - start) for start, end, name in segments])
        X.append(np.eye(3)[states] + r.normal(size=(t, 3)))
        Y.append(segments)
    return split(X, Y)


def chunks_by_tokens(task: Task) -> list[Any]:
    """Tag each token with BIO tags, and read segments off them."""
    tags = [chunk_tags(one) for one in task.Y]
    return [chunk_segments(one) for one in by_attributes(Task(task.X, tags, task.X_test, None))]


@row(
    "segments: chunks, 300 sentences", SegmentTagger, ("BIO tags of each token by logistic regression",
    chunks_by_tokens), span_f1,
)  # fmt: skip
def phrases(seed: int) -> Task:
    """Chunks as segments with classes."""
    task = chunked(300, 500)
    return Task(task.X, list(map(chunk_segments, task.Y)), task.X_test, list(map(chunk_segments, task.Y_test)))
