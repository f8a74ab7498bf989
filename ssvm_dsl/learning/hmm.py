"""Hidden Markov models by counting: the generative baseline of a declared chain.

The joint feature map of a chain counts: how often a state follows another, and how often a state comes with a value of
a feature, split between the two knots of a piecewise-linear function beside it (thesis of Iglesias Garcia, Eq. 4.2).
The weights that maximise likelihood are logarithms of relative frequencies of these counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import ground
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.sources import PLiF
from ssvm_dsl.lang.forms import FULL
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.estimator import Estimator, not_fitted
from ssvm_dsl.learning.estimators.parameters import check_labels
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.learning.estimators.weights import Weights

#: What a factor is to the hidden Markov model, by the target it stands on.
START, STOP, TRANSITION, EMISSION = "start", "stop", "transition", "emission"


class MaximumLikelihoodHMM(Estimator):
    """Hidden Markov model of a declared chain, by counting in labelled sequences.

    With the counts ``c`` over all training sequences and the smoothing ``a``, weights are

    * start: ``log (c_s + a) / sum_s' (c_s' + a)`` for a factor ``Factor(y.at(0))``,
    * transitions: ``log (c_st + a) / (sum_t' (c_st' + a) + e_s)`` for ``Factor(chain(y))``, where ``e_s``, the ends in
      s plus a, is there with a factor for ends only,
    * stop: ``log e_s / (sum_t' (c_st' + a) + e_s)`` for ``Factor(y.at(-1))``,
    * emissions: ``log (c_sfp + a) / sum_p' (c_sfp' + a)`` for ``Factor(y, features=PLiF(x, Quantiles(P)))``: for each
      state and feature the share of each knot, features being independent of each other given the state.

    Scores of emissions are no probabilities of the values (the thesis, section 4.1): knots at quantiles have the same
    share of all values, so that only differences between states matter.

    Parameters
    ----------
    model : Model class
        A chain with these four kinds of factors; start and stop may be left out.
    smoothing : float
        What is added to each count (1: Laplace's rule).  With 0 frequencies are as counted; for one of 0 the weight is
        -708, the logarithm of the least number that is not 0 in double precision.
    backend : str
        What predicts.
    n_threads : int, optional
        As for :class:`~ssvm_dsl.StructuredSVM`.

    Attributes
    ----------
    svm_ : StructuredSVM
        The model with these weights; it also gives marginals, the k best labellings, and so on.
    weights_ : Weights
        Logarithms by factor.

    Examples
    --------
    >>> hmm = MaximumLikelihoodHMM(Gesture).fit(X, Y)
    >>> hmm.score(X_test, Y_test), hmm.weights_[Gesture.trans]
    """

    svm_: StructuredSVM

    def __init__(
        self, model: type[Model], smoothing: float = 1.0, backend: str = AUTO, n_threads: int | None = None
    ) -> None:
        self.model, self.smoothing, self.backend, self.n_threads = model, smoothing, backend, n_threads

    def fit(self, X: Sequence[Any], Y: Sequence[Any]) -> Self:
        """Count.

        Raises
        ------
        OptionError
            The model is no such chain, or the smoothing is no number of 0 or more.
        DataError
            Bad data, or labels that are not known.
        """
        if not (is_number(self.smoothing) and 0 <= self.smoothing < np.inf):
            raise OptionError(f"smoothing must be a number of 0 or more, got {self.smoothing!r}")
        svm = StructuredSVM(self.model, backend=self.backend, n_threads=self.n_threads)
        svm._check()
        roles = chain_roles(self.model.declaration)
        grounded = ground(self.model, X, check_labels(Y))
        if grounded.ignored is not None and grounded.ignored.any():
            raise DataError("Y", expected="labels that are all known", found="some that are not")
        assert grounded.truth is not None
        counts = np.zeros(grounded.parameters.dim)
        grounded.parameters.accumulate(grounded.truth, np.ones(grounded.n_examples), counts)
        by_factor = {block.name: block.view(counts) for block in grounded.parameters.blocks}
        weights = log_frequencies(roles, by_factor, float(self.smoothing))
        parameters = {"backend": self.backend, "n_threads": self.n_threads}
        self.svm_ = StructuredSVM.from_weights(self.model, weights, fitted_on=X, **parameters)
        return self

    @property
    def weights_(self) -> Weights:
        """The logarithms by factor."""
        return self._fitted_svm().weights_

    def predict(self, X: Sequence[Any]) -> Any:
        """Return the most probable states of each sequence."""
        return self._fitted_svm().predict(X)

    def score(self, X: Sequence[Any], Y: Sequence[Any]) -> float:
        """Return the share of right states, as :meth:`~ssvm_dsl.StructuredSVM.score` does by the declared loss."""
        return self._fitted_svm().score(X, Y)

    def _fitted_svm(self) -> StructuredSVM:
        if not hasattr(self, "svm_"):
            raise not_fitted("this MaximumLikelihoodHMM is not fitted yet; call fit first")
        return self.svm_


def chain_roles(declaration: Declaration) -> dict[str, Factor]:
    """Return the factors of a chain by their role in a hidden Markov model.

    Raises
    ------
    OptionError
        A factor is none of them, two are the same, or transitions or emissions are missing.
    """
    roles: dict[str, Factor] = {}
    for factor in declaration.factors:
        role = _role(factor)
        if role is None or role in roles:
            kinds = "chain(y), y.at(0), y.at(-1), and y with features PLiF(...)"
            what = "is none of these" if role is None else f"is a second one for the {role}s"
            raise OptionError(f"a hidden Markov model has one factor each of {kinds}; '{factor.name}' {what}")
        roles[role] = factor
    missing = [role for role in (TRANSITION, EMISSION) if role not in roles]
    if missing or len(declaration.labels) != 1:
        text = f"no factor for {' and '.join(f'{one}s' for one in missing)}" if missing else "several labels"
        raise OptionError(f"model {declaration.name} is no hidden Markov model: {text}")
    return roles


def _role(factor: Factor) -> str | None:
    """Return the role of a factor in a hidden Markov model."""
    target, features = factor.target, factor.features
    if factor.form != FULL or factor.n_units != 1 or factor.tie is not None or factor.nonneg:
        return None
    if target.is_whole and len(target.label.dims) == 1 and isinstance(features, PLiF):
        return EMISSION
    if features is not None:
        return None
    if target.fixed_position is not None:
        return {0: START, -1: STOP}.get(target.fixed_position)
    return TRANSITION if target.offsets == (0, 1) else None


def log_frequencies(roles: Mapping[str, Factor], counts: Mapping[str, F64], smoothing: float) -> dict[str, F64]:
    """Return the weights by the names of factors: logarithms of relative frequencies.

    Parameters
    ----------
    roles : mapping of str to Factor
    counts : mapping of str to ndarray
        By factor, in the shapes of its weights.
    smoothing : float
        What is added to each count.

    Raises
    ------
    OptionError
        There is no smoothing, and a state without any count.
    """
    added = {role: counts[factor.name] + smoothing for role, factor in roles.items()}
    leaving = added[TRANSITION].sum(axis=1) + added.get(STOP, 0.0)
    totals = {TRANSITION: leaving[:, None]}
    if START in added:
        totals[START] = added[START].sum()
    if STOP in added:
        totals[STOP] = leaving
    plif = roles[EMISSION].features
    assert isinstance(plif, PLiF)
    knots = added[EMISSION].reshape(len(leaving), -1, plif.n_knots)
    sums = np.broadcast_to(knots.sum(axis=2, keepdims=True), knots.shape)
    totals[EMISSION] = sums.reshape(added[EMISSION].shape)
    least, weights = np.finfo(np.float64).tiny, dict[str, F64]()
    for role, total in totals.items():
        name = roles[role].name
        if not np.all(total > 0):
            raise OptionError(f"'{name}' has no counts for some state, and so no frequencies: set smoothing above 0")
        weights[name] = np.log(np.maximum(added[role] / total, least))
    return weights
