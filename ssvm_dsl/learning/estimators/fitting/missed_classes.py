"""Classes of the training data that a fitted model never predicts: an answer that looks fine by its accuracy.

A margin is not consistent where no class has most of the probability, and predicts the most frequent class only where
classes are rare or noisy (Liu 2007, "Fisher consistency of multicategory support vector machines").  So may any risk
under too strong a regularisation, or with features of very different sizes.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I64, Bools
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.outputs.labels import Label

#: Predictions are looked at for so many variables, and where that takes no longer than so many seconds by estimate.
VARIABLES, SECONDS = 4000, 0.2

#: One example of so many is looked at first.
PART = 8

#: Fewer variables tell nothing; nor does a class with fewer of them, or with a smaller share.
LEAST, FEW, RARE = 100, 10, 0.01

#: (times true, times predicted) of each class of a label.
Counts = dict[str, I64]


def sample_of(var_ptr: I64, seconds: float) -> list[int]:
    """Return which examples are looked at: some that are spread evenly, by sizes alone; none where they tell nothing.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (n + 1,)
        Where the variables of each example begin.
    seconds : float
        Expected time of the answers for all of them; ``nan`` where it is not known.
    """
    n, n_variables = len(var_ptr) - 1, int(var_ptr[-1])
    share = min(1.0, VARIABLES / max(n_variables, 1), SECONDS / max(seconds, 1e-9))
    if np.isnan(seconds) or share * n < 1.0 or share * n_variables < LEAST:
        return []
    sample: list[int] = np.linspace(0, n - 1, int(share * n)).round().astype(int).tolist()
    return sample


def looks(examples: list[int]) -> list[list[int]]:
    """Return which examples are looked at first, and then, where a class is not predicted for these: all of them."""
    return [examples[::PART], examples] if len(examples) >= 4 * PART else [examples]


def known_classes(grounded: Grounded) -> dict[str, Bools]:
    """Return which classes of each label have a share of the training data that may be warned of."""
    known = {}
    for label in grounded.declaration.outputs:
        assert grounded.truth is not None
        counts = np.bincount(grounded.truth[grounded.layout.variables(label)], minlength=label.n_states)
        known[label.name] = counts > 0.5 * RARE * counts.sum()  # those looked at may have more of it than others
    return known


def are_predicted(wanted: dict[str, Bools], parts: list[Counts]) -> bool:
    """Return whether each of these classes is predicted somewhere."""
    names = {name for one in parts for name in one}
    return all(not (wanted[name] & (sum(one[name][1] for one in parts) == 0)).any() for name in names)


def class_counts(grounded: Grounded, solution: Solution) -> Counts:
    """Return how often each class of each label is true, and predicted, among the variables whose truth is known."""
    counts: Counts = {}
    for label in grounded.declaration.outputs:
        structure = structure_of(label)
        if structure is not None and not structure.has_classes:
            continue
        assert grounded.truth is not None
        variables = grounded.layout.variables(label)
        both = np.array([grounded.truth[variables], solution.labels[variables]])
        if grounded.ignored is not None:
            both = both[:, ~grounded.ignored[variables]]
        counts[label.name] = np.array([np.bincount(states, minlength=label.n_states) for states in both])
    return counts


def missed_warning(labels: tuple[Label, ...], parts: list[Counts], cure: str) -> str:
    """Return the warning about classes that are never predicted; empty where there are none.

    Parameters
    ----------
    labels : tuple of Label
    parts : list of dict
        Of :func:`class_counts`, of each chunk of the examples.
    cure : str
        What to set.
    """
    texts = []
    for label in labels:
        counts = [one[label.name] for one in parts if label.name in one]
        if not counts:
            continue
        true, predicted = np.sum(counts, axis=0)
        n = int(true.sum())
        missed = np.flatnonzero((predicted == 0) & (true >= max(FEW, RARE * n)))
        if n < LEAST or not len(missed):
            continue
        names = [repr(label.classes[state] if label.classes else state) for state in missed.tolist()]
        each = zip(names, true[missed] / n, strict=True)
        shares = ", ".join(f"{name} ({share:.0%} of the labels)" for name, share in each)
        only = np.flatnonzero(predicted)
        what = f"{shares} {'is' if len(names) == 1 else 'are'} never predicted"
        if len(only) == 1:
            one = label.classes[only[0]] if label.classes else int(only[0])
            what = f"only {one!r} is predicted, never {shares}"
        texts.append(f"label '{label.name}', on the training data: {what}")
    return f"{'; '.join(texts)}\n  {cure}" if texts else ""


def cure_of(risk_is_smooth: bool) -> str:
    """Return what to set where classes are never predicted."""
    other = "weigh the examples (sample_weight), take a larger C, or features of one scale (Standardized)"
    if risk_is_smooth:
        return other
    why = "a margin may do so where classes are rare or noisy"
    return f"set risk='log' ({why}), or risk='slack' with Hamming(y, weights=[...]); or {other}"
