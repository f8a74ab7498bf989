"""Probabilistic context-free grammars by counting: the generative baseline of a declared parser.

The weights that maximise likelihood are logarithms of relative frequencies (Manning and Schuetze 1999, chapter 11)::

    P(A -> a) = c(A -> a) / sum_b c(A -> b),      P(word | tag) = (c(tag, word) + s) / (c(tag) + s V)

A chain of symbols has the product of its rules; V words and word classes are known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import ground
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.diagnosis.true_labels import require_feasible_truth
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.lang.arrays import describe, is_number
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.forms import FULL
from ssvm_dsl.lang.grammars.grammar import Chain, Grammar, Rule
from ssvm_dsl.lang.inputs import Attributes
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.estimator import Estimator, not_fitted
from ssvm_dsl.learning.estimators.parameters import check_labels
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.learning.estimators.weights import Weights

#: What a factor is to the grammar, by the target it stands on.
WORDS, PHRASES, RULES = "words", "phrases", "rules"

_UNFITTED = "this MaximumLikelihoodPCFG is not fitted yet; call fit first"


def word_class(word: str) -> str:
    """Return what is counted in place of a rare word: capitals, digits, a hyphen, and the last two letters."""
    marks = "C" * word[:1].isupper() + "0" * any(map(str.isdigit, word)) + "-" * ("-" in word)
    return f"<{marks}{word[-2:].lower() if len(word) > 3 and word[-2:].isalpha() else ''}>"


class MaximumLikelihoodPCFG(Estimator):
    """Probabilistic context-free grammar of a declared parser, by counting in trees.

    The model has a label of trees and three factors: ``Factor(y, features=words)`` with an ``Attributes``,
    ``Factor(spans(y))`` and ``Factor(rules(y))``.  Its grammar is ``Grammar.from_trees(..., above_tags=True)``: else
    nothing would score the rules above tags.  All start symbols are as likely.

    Parameters
    ----------
    model : Model class
    smoothing : float
        What is added to the count of each word with each tag, above 0.
    rare : int
        Words that are seen at most so often count as their class, as words do that are not seen.
    classes : callable
        Returns the class of a word.
    rule_smoothing : float
        What is added to the count of each rule; above 0 where the grammar has rules that the trees lack.
    backend : str
        What predicts.
    n_threads : int, optional
        As for :class:`~ssvm_dsl.StructuredSVM`.

    Attributes
    ----------
    svm_ : StructuredSVM
        The model with these weights; it takes what :meth:`known` returns.
    weights_ : Weights
        Logarithms by factor.

    Examples
    --------
    >>> pcfg = MaximumLikelihoodPCFG(Parser).fit(sentences, trees)
    >>> bracket_scores(test_trees, pcfg.predict(test_sentences)).f1
    """

    svm_: StructuredSVM
    weights_: Weights

    def __init__(
        self,
        model: type[Model],
        smoothing: float = 0.1,
        rare: int = 1,
        classes: Callable[[str], str] = word_class,
        rule_smoothing: float = 0.0,
        backend: str = AUTO,
        n_threads: int | None = None,
    ) -> None:
        self.model, self.smoothing, self.rare, self.classes = model, smoothing, rare, classes
        self.rule_smoothing, self.backend, self.n_threads = rule_smoothing, backend, n_threads

    def fit(self, X: Sequence[Sequence[str]], Y: Sequence[Any]) -> Self:
        """Count.

        Parameters
        ----------
        X : sequence of sequence of str
            The words of each sentence.
        Y : sequence
            A tree for each, in any form that labels of trees take.

        Raises
        ------
        OptionError
            The model is no such parser, or a setting is out of range.
        DataError
            Bad data, trees that are not known, or that the grammar does not derive.
        """
        self._check_parameters()
        svm = StructuredSVM(self.model, backend=self.backend, n_threads=self.n_threads)
        svm._check()
        roles, grammar = parser_roles(self.model.declaration)
        counts = Counter(word for words in _sentences(X) for word in words)
        self.words_ = frozenset(word for word, n in counts.items() if n > self.rare)
        known = self.known(X)
        grounded = ground(self.model, known, check_labels(Y, "a list with the tree of each sentence"))
        if grounded.ignored is not None and grounded.ignored.any():
            raise DataError("Y", expected="trees that are all known", found="some that are not")
        require_feasible_truth(grounded)
        assert grounded.truth is not None
        total = np.zeros(grounded.parameters.dim)
        grounded.parameters.accumulate(grounded.truth, np.ones(grounded.n_examples), total)
        seen = {block.name: block.view(total) for block in grounded.parameters.blocks}
        words, chains, rules = (seen[roles[role].name] for role in (WORDS, PHRASES, RULES))
        added = words + float(self.smoothing)
        weights = {
            roles[WORDS].name: np.log(added / added.sum(axis=1, keepdims=True)),
            **_rule_weights(grammar, roles, chains, rules, float(self.rule_smoothing)),
        }
        parameters = {"backend": self.backend, "n_threads": self.n_threads}
        self.svm_ = StructuredSVM.from_weights(self.model, weights, fitted_on=known, **parameters)
        self.weights_ = self.svm_.weights_
        return self

    def known(self, X: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        """Return sentences as the model takes them: words that are known, and the classes of others."""
        if not hasattr(self, "words_"):
            raise not_fitted(_UNFITTED)
        return [[[word if word in self.words_ else self.classes(word)] for word in words] for words in _sentences(X)]

    def predict(self, X: Sequence[Sequence[str]]) -> Any:
        """Return the most probable tree of each sentence."""
        return self._fitted_svm().predict(self.known(X))

    def score(self, X: Sequence[Sequence[str]], Y: Sequence[Any]) -> float:
        """Return what :meth:`~ssvm_dsl.StructuredSVM.score` does by the declared loss."""
        return self._fitted_svm().score(self.known(X), Y)

    def _check_parameters(self) -> None:
        for name, least, open_ in (("smoothing", 0.0, True), ("rule_smoothing", 0.0, False), ("rare", 0, False)):
            value = getattr(self, name)
            if not is_number(value) or not least <= value < np.inf or (open_ and value == least):
                limit = f"{'above' if open_ else 'of at least'} {least}"
                raise OptionError(f"{name} must be a number {limit}, got {value!r}")
        if not callable(self.classes):
            raise OptionError(f"classes must be a function of a word, got {self.classes!r}")

    def _fitted_svm(self) -> StructuredSVM:
        if not hasattr(self, "svm_"):
            raise not_fitted(_UNFITTED)
        return self.svm_


def _sentences(X: object) -> list[list[str]]:
    """Return sentences as lists of words.

    Raises
    ------
    DataError
        It is no list of lists of str; names the example.
    """
    if not isinstance(X, Sequence) or isinstance(X, str):
        raise DataError("X", expected="a list with the words of each sentence", found=describe(X))
    for i, words in enumerate(X):
        if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(one, str) for one in words):
            raise DataError("X", example=i, expected="a list of words", found=describe(words))
    return [list(words) for words in X]


def parser_roles(declaration: Declaration) -> tuple[dict[str, Factor], Grammar]:
    """Return the factors of a parser by what they are to a probabilistic grammar, and its grammar.

    Raises
    ------
    OptionError
        A factor is none of them, two are the same, one is missing, or the grammar does not tell rules above tags.
    """
    label = declaration.outputs[0] if len(declaration.outputs) == 1 else None
    if label is None or label.grammar is None:
        raise OptionError(f"model {declaration.name} is no parser: it has no label of trees alone")
    roles = {_role(factor): factor for factor in declaration.factors}
    if sorted(map(str, roles)) != sorted((WORDS, PHRASES, RULES)) or len(roles) < len(declaration.factors):
        kinds = "Factor(y, features=Attributes), Factor(spans(y)) and Factor(rules(y))"
        names = ", ".join(factor.name for factor in declaration.factors)
        raise OptionError(f"a probabilistic grammar has the factors {kinds}, one each, got {names}")
    grammar = label.grammar
    ends = {chain for chain, own in zip(grammar.chains, grammar.phrase_chains, strict=True) if chain != own}
    if any(chain not in ends for chain, _ in grammar.chains_above_tags):
        text = "nothing would score the rules above tags"
        raise OptionError(f"{text}: make the grammar with Grammar.from_trees(..., above_tags=True)")
    return {str(role): factor for role, factor in roles.items()}, grammar


def _role(factor: Factor) -> str | None:
    """Return what a factor is to a probabilistic grammar."""
    target, features = factor.target, factor.features
    if factor.form != FULL or factor.n_units != 1 or factor.tie is not None or factor.nonneg:
        return None
    if isinstance(features, Attributes):
        return WORDS if target.constructor == "each" else None
    return {"spans": PHRASES, "rules": RULES}.get(target.constructor) if features is None else None


def _rule_weights(
    grammar: Grammar, roles: dict[str, Factor], chains: F64, rules: F64, smoothing: float
) -> dict[str, F64]:
    """Return the weights of phrases and of rules, by the names of their factors.

    Parameters
    ----------
    grammar, roles
        As :func:`parser_roles` returns them.
    chains : ndarray of float64, shape (K + 1,)
        How often each chain is seen, after spans that are no phrases.
    rules : ndarray of float64, shape (D, D)
        How often each rule of two children is, by the digits of its code.
    smoothing : float

    Raises
    ------
    OptionError
        A rule is never seen and nothing is added.
    """
    counts: dict[Rule, float] = {(left, (one, other)): 0.0 for left, one, other in grammar.binary}
    counts |= dict.fromkeys((pair for chain in grammar.chains for pair in _steps(chain)), 0.0)
    for n, chain in zip(chains[1:].tolist(), grammar.chains, strict=True):
        for step in _steps(chain):
            counts[step] += n
    codes = 1 + np.arange(len(grammar.binary))
    for n, (left, one, other) in zip(rules.ravel()[codes].tolist(), grammar.numbered_rules, strict=True):
        counts[left, (one, other)] += n
    totals: dict[str, float] = defaultdict(float)
    for (left, _), n in counts.items():
        totals[left] += n + smoothing
    if unseen := [rule for rule, n in counts.items() if n + smoothing == 0.0]:
        left, right = unseen[0]
        text = f"the rule {left} -> {' '.join(right)} is in no tree; set rule_smoothing to a number above 0"
        raise OptionError(f"MaximumLikelihoodPCFG: {text}")
    logs = {rule: float(np.log((n + smoothing) / totals[rule[0]])) for rule, n in counts.items()}
    phrase, pair = np.zeros(chains.shape), np.zeros(rules.shape)
    phrase[1:] = [sum(logs[step] for step in _steps(chain)) for chain in grammar.chains]
    pair.reshape(-1)[codes] = [logs[left, (one, other)] for left, one, other in grammar.numbered_rules]
    return {roles[PHRASES].name: phrase, roles[RULES].name: pair}


def _steps(chain: Chain) -> list[Rule]:
    """Return the rules of one child that a chain follows."""
    return [(left, (child,)) for left, child in pairwise(chain)]
