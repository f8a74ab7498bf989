"""Scores in every form that may be mixed (padded, packed, lists), with masks that have gaps: the same answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "scoring"))

from scored_structures import STRUCTURES

from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.scoring import Scorer

UNIT, SHORT, LIMIT = "answers", 12, 60.0

#: Models whose label is a state at each position, which truth is padded for.
PLAIN = ("chain", "second order", "given, form, rule", "tree", "grid", "complete, budget", "matching", "all alike",
         "candidates")  # fmt: skip

#: What stands where there are no positions.
JUNK = (np.nan, np.inf, -np.inf, 1e300, 0.0)


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw scores, and compare answers for lists with those for other forms, and with all labellings."""
    name = list(STRUCTURES)[rng.integers(len(STRUCTURES))]
    structure, scorer = STRUCTURES[name], Scorer(STRUCTURES[name].model)
    scores = structure.draw(rng)
    if rng.random() < 0.3:
        scores = {key: _scaled(value, 10.0 ** rng.uniform(-6, 6)) for key, value in scores.items()}
    every = [structure.all(scores, i) for i in range(len(structure.sizes))]
    places = [int(rng.integers(len(mine))) for mine in every]
    truth = [mine[k][0] for mine, k in zip(every, places, strict=True)]
    lengths = structure.lengths(structure.sizes)
    sizes: dict[str, Any] = {"lengths": lengths, "data": structure.data}
    kept = {dim: _kept(lengths[dim], rng) for dim in lengths} if rng.random() < 0.7 else {}
    asked = sizes | ({"mask": {dim: _mask(*one) for dim, one in kept.items()}} if kept else {})
    if kept:
        del asked["lengths"]
    forms = {key: "table" if key in structure.tied else rng.choice(["list", "padded", "packed"]) for key in scores}
    mixed = {key: _formed(scorer, key, value, forms[key], kept, rng) for key, value in scores.items()}
    if not any(form in ("list", "padded") for form in forms.values()) and not lengths:
        return 0  # no scores tell examples apart
    tried = 0
    for task in ("best", "kbest", "log_z", "marginals"):
        more = {"task": task, "k": 3, "weights": rng.normal(size=len(truth))}
        try:
            first = scorer.answer(scores, **sizes, truth=truth, **more)
        except NoBackendError:
            continue
        other = scorer.answer(mixed, **asked, truth=_padded_truth(scorer, name, truth, kept, rng), **more)
        _compare(first, other, every, places, task)
        found = {key: _formed(scorer, key, value, forms[key], kept, None) for key, value in first.counts().items()}
        for key, expected in found.items():
            _close(other.counts()[key], expected, f"{name}: counts of {key}, {forms[key]}")
        tried += 1
    return tried


def _compare(first: Any, other: Any, every: list[Any], places: list[int], task: str) -> None:
    """Compare two answers with each other and with all labellings."""
    for i, (mine, k) in enumerate(zip(every, places, strict=True)):
        values = np.array([score for _, score in mine])
        _close(first.truth_score[i], values[k], "score of the truth")
        if task in ("log_z", "marginals"):
            _close(first.log_z[i], np.logaddexp.reduce(values), "log Z")
        else:
            _close(np.atleast_2d(first.score)[0, i], values.max(), "best score")
    for what in ("truth_score", "log_z" if task in ("log_z", "marginals") else "score"):
        _close(getattr(other, what), getattr(first, what), what)


def _close(found: Any, expected: Any, what: str) -> None:
    pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
    for one, two in pairs:
        one, two = np.asarray(one), np.asarray(two)
        size = 1.0 + np.abs(two[np.isfinite(two)]).max(initial=0.0)
        assert np.shape(one) == np.shape(two), f"{what}: shape {np.shape(one)} in place of {np.shape(two)}"
        assert np.allclose(one, two, rtol=0.0, atol=1e-9 * size), f"{what}: {one} in place of {two}"


def _scaled(value: Any, by: float) -> Any:
    return [by * one for one in value] if isinstance(value, list) else by * value


def _kept(lengths: list[int], rng: np.random.Generator) -> tuple[list[Any], int]:
    """Return (which positions of a padded array are those of each example, the width of the array)."""
    width = max(lengths) + int(rng.integers(3))
    return [np.sort(rng.choice(width, size=n, replace=False)) for n in lengths], width


def _mask(kept: list[Any], width: int) -> Any:
    mask = np.zeros((len(kept), width), dtype=bool)
    for row, some in zip(mask, kept, strict=True):
        row[some] = True
    return mask


def _formed(scorer: Scorer, name: str, value: Any, form: str, kept: dict[str, Any], rng: Any) -> Any:
    """Return numbers in a form; what a padded array has besides is junk, or 0 without a generator."""
    template = scorer.templates[name]
    if form == "packed":
        if name == "whole":
            return np.concatenate([one[_fits(one)] for one in value])
        return np.concatenate([one.reshape(-1, *template.shape) for one in value])
    if form != "padded":
        return value
    if name == "whole" and rng is None:
        value = [np.where(_fits(one)[..., None], one, 0.0) for one in value]
    n_axes = len(template.axes)
    width = np.max([one.shape[:n_axes] for one in value], axis=0, initial=0) if n_axes else np.array([], dtype=int)
    for k, axis in enumerate(template.axes):
        if axis.name in kept:
            width[k] = max(kept[axis.name][1] - axis.less, 0)
    out = np.zeros((len(value), *width.astype(int), *template.shape))
    if rng is not None:
        out[...] = 0.5 if template.nonneg else JUNK[rng.integers(len(JUNK))]
    for i, one in enumerate(value):
        at = [np.arange(size) for size in one.shape[:n_axes]]
        for k, axis in enumerate(template.axes):
            if axis.name in kept:
                at[k] = kept[axis.name][0][i][at[k] + axis.less] - axis.less
        out[(i, *np.ix_(*at))] = one
    return out


def _fits(scores: Any) -> Any:
    """Return which spans do not end beyond the last position."""
    return np.add.outer(np.arange(len(scores)), np.arange(scores.shape[1])) < len(scores)


def _padded_truth(scorer: Scorer, name: str, truth: list[Any], kept: dict[str, Any], rng: Any) -> Any:
    """Return labels as padded states where they are plain, at times; else as they are."""
    if name not in PLAIN or rng.random() < 0.5:
        return truth
    label = scorer.declaration.labels[0]
    classes = list(label.classes or range(label.n_states))
    states = [np.vectorize(classes.index, otypes=[int])(y) for y in truth]
    names = [dim.name for dim in label.dims]
    width = np.max([one.shape for one in states], axis=0)
    for k, dim in enumerate(names):
        width[k] = kept[dim][1] if dim in kept else width[k]
    out = np.full((len(states), *width), -100)
    for i, one in enumerate(states):
        at = [kept[dim][0][i] if dim in kept else np.arange(size) for dim, size in zip(names, one.shape, strict=True)]
        out[(i, *np.ix_(*at))] = one
    return out


