"""``ConstituencyParser``: phrase structure trees of sentences, learnt from a treebank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.grammars.brackets import bracket_scores
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.grammars.parse_tree import ParseTree
from ssvm_dsl.lang.inputs import Attributes, Input
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import rules, spans
from ssvm_dsl.learning.estimators.parameters import check_flag
from ssvm_dsl.learning.estimators.svm import either
from ssvm_dsl.learning.pcfg import MaximumLikelihoodPCFG, word_class
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import in_form

#: What ends a part of speech that is a phrase, too, within the model; predicted trees have it without.
TAG = "@tag"

#: Features of a span of words: whether it is one word, whether it ends the sentence, its share of the words, 1.
N_ENDS = 4

#: Words that are seen at most so often in training count as their class, as words do that are not seen.
RARE = 1


class ConstituencyParser(ReadyModel):
    """Divides sentences into nested phrases.

    X is a list of sentences, each a list of words; Y has their trees: :class:`~ssvm_dsl.ParseTree`, text in brackets,
    nested lists, or trees of NLTK.  ``fit(trees)`` takes the words of the trees.  The grammar has the rules of the
    trees, phrases of more than two children being binarised.  Trees in which a symbol stands above itself with the same
    words lose the lower one, and a part of speech that is also a phrase is told apart; a warning says so.

    Parameters
    ----------
    horizontal : int or None
        How many of the children that follow binarised parts remember; ``None`` for all.
    vertical : {1, 2}
        2 where symbols also note the symbol above them.
    baseline : bool
        Count instead of train: the probabilistic grammar of the trees
        (:class:`~ssvm_dsl.MaximumLikelihoodPCFG`), in a second.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> parser = ConstituencyParser().fit(read_trees("treebank.mrg"))
    >>> print(parser.predict([["the", "cat", "sleeps"]])[0].draw())
    """

    horizontal: int | None = 2
    vertical: int = 1
    baseline: bool = False

    # -- sentences and trees ---------------------------------------------------------------------------

    def _read_examples(self, X: Any) -> Any:
        sentences = [one if isinstance(one, Mapping) else _words(one, i) for i, one in enumerate(X)]
        if not self.baseline:
            return [one if isinstance(one, Mapping) else _features(one) for one in sentences]
        if self._learns_frames:  # in fit
            counts = Counter(word for one in sentences if not isinstance(one, Mapping) for word in one)
            known = {word for word, n in counts.items() if n > RARE}
        else:
            self._check_fitted()
            known = set(self.weights_.names("leaf")[1])
        return [
            one if isinstance(one, Mapping)
            else {"words": [[word if word in known else word_class(word)] for word in one]}
            for one in sentences
        ]  # fmt: skip

    def _read_labels(self, Y: Any) -> Any:
        """Return trees without cycles, tags that are phrases being marked; parts of trees and ``None`` as they are."""
        trees = [_tree(one, i) for i, one in enumerate(Y)]
        plain = [one.without_cycles() if isinstance(one, ParseTree) else one for one in trees]
        whole = [one for one in plain if isinstance(one, ParseTree)]
        phrases = {one.label for tree in whole for one in tree.subtrees() if not one.is_tag}
        both = {leaf.label for tree in whole for leaf in tree.leaves()} & phrases
        if not self._learns_frames and (grammar := self._grammar()) is not None:
            both |= {tag.removesuffix(TAG) for tag in grammar.tags if tag.endswith(TAG)}
        elif self._learns_frames:
            self._say(sum(one != other for one, other in zip(trees, plain, strict=True)), len(trees), both)
        return [_marked(one, both) if isinstance(one, ParseTree) else one for one in plain]

    def _say(self, n_cycles: int, n: int, both: set[str]) -> None:
        """Warn of what was changed in the trees of training."""
        if n_cycles:
            text = f"{n_cycles} of {n} trees have a symbol above itself with the same words"
            warn_caller(f"{text}; the lower one is left out (tree.without_cycles())")
        if both:
            listed = ", ".join(sorted(both)[:8]) + (", ..." if len(both) > 8 else "")
            warn_caller(f"symbols that are parts of speech and phrases are told apart in the grammar: {listed}")

    def _grammar(self) -> Grammar | None:
        if "model_" not in vars(self):
            return None
        return self.model_.declaration.outputs[0].grammar

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        trees = [tree for tree in Y if isinstance(tree, ParseTree)]
        check_flag(self.baseline, "baseline")
        grammar = Grammar.from_trees(
            trees, horizontal=self.horizontal, vertical=self.vertical, above_tags=self.baseline
        )

        class Constituency(Model):
            T = Dim()
            words = Attributes(T)
            if not self.baseline:
                ends = Input(T, T, N_ENDS)
            y = Label(T, grammar=grammar)
            leaf = Factor(y, features=words)
            span = Factor(spans(y)) if self.baseline else Factor(spans(y), features=ends)
            rule = Factor(rules(y))
            loss = Cost(spans(y), "wrong")

        return Constituency

    # -- what it is for --------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None, validation: Any = None, *, y: Any = None) -> Self:
        """Make the grammar of the trees and learn; ``fit(trees)`` takes their words.

        Parameters
        ----------
        X : list of sentences, or of trees
        Y : list of trees, optional
        sample_weight, validation
            As for ``StructuredSVM.fit``; a baseline takes none.
        y : list of trees, optional
            Another name of ``Y``.
        """
        Y = either(Y, y, "fit")
        if Y is None and not isinstance(X, PartitionedDataset):
            X, Y = _of_trees(X)
        return super().fit(X, Y, sample_weight, validation)

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        if not self.baseline:
            return super()._fit_examples(X, Y, sample_weight, validation, deadline)
        if sample_weight is not None or validation is not None or isinstance(X, PartitionedDataset):
            raise OptionError("baseline=True counts in a list of trees: no sample_weight, validation or parts")
        X, Y = self._read(X, Y)
        self.model_ = self._declaration(X, Y)
        words = [[name for (name,) in one["words"]] for one in X]
        self.fitted_ = MaximumLikelihoodPCFG(self.model_, rare=0).fit(words, Y).svm_.fitted_
        return self

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the tree of each sentence, with its words; of trees, of their words."""
        predicted = super().predict(X, **options)
        if isinstance(X, PartitionedDataset):
            return predicted
        return in_form(predicted, lambda trees: list(map(_over_words, trees, X)))

    def score(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, time_limit: float | None = None, y: Any = None
    ) -> float:
        """Return F1 of the brackets (:func:`~ssvm_dsl.bracket_scores`), 0 .. 1; ``score(trees)`` takes their words."""
        Y = either(Y, y, "score")
        if isinstance(X, PartitionedDataset) or sample_weight is not None:
            return super().score(X, Y, sample_weight, time_limit=time_limit)
        if Y is None:
            X, Y = _of_trees(X)
        trees = [_tree(one, i) for i, one in enumerate(Y)]
        return bracket_scores(trees, self.predict(X, time_limit=time_limit)).f1


def _words(one: Any, i: int) -> list[str]:
    """Return the words of a sentence, or of a tree."""
    if isinstance(one, ParseTree):
        return list(one.words)
    listed = isinstance(one, Sequence | np.ndarray) and not isinstance(one, str)
    if not listed or not len(one) or not all(isinstance(word, str) for word in one):
        raise DataError("X", example=i, expected="a list of words, at least one", found=describe(one))
    return [str(word) for word in one]


def _tree(one: Any, i: int) -> Any:
    """Return a tree; what is not known, and parts of trees, as they are."""
    if one is None or isinstance(one, ParseTree) or not isinstance(one, str | list | tuple):
        return one
    try:
        return ParseTree.of(one)
    except DataError as err:
        raise DataError("Y", example=i, expected=f"a tree: {err.expected}", found=err.found) from err


def _of_trees(trees: Any) -> tuple[list[list[str]], list[ParseTree]]:
    """Return the words of trees, and the trees."""
    if isinstance(trees, str) or not hasattr(trees, "__iter__"):
        raise DataError("X", expected="a list of trees, or sentences with trees as Y", found=describe(trees))
    parsed = [_tree(one, i) for i, one in enumerate(trees)]
    wrong = next((i for i, one in enumerate(parsed) if not isinstance(one, ParseTree)), None)
    if wrong is not None:
        raise DataError("X", example=wrong, expected="a tree, where no Y is given", found=describe(parsed[wrong]))
    return [list(tree.words) for tree in parsed], parsed


def _marked(tree: ParseTree, both: set[str]) -> ParseTree:
    """Return a tree whose parts of speech are no phrases."""
    if tree.is_tag:
        return ParseTree(tree.label + TAG, tree.children) if tree.label in both else tree
    return ParseTree(tree.label, tuple(_marked(child, both) for child in tree.trees))


def _over_words(tree: Any, one: Any) -> Any:
    """Return a predicted tree over the words of a sentence, its parts of speech as they were."""
    if not isinstance(tree, ParseTree):
        return tree
    plain = tree.map_labels(lambda label: label.removesuffix(TAG))
    return plain if isinstance(one, Mapping) else plain.with_words(_words(one, 0))


def _features(words: list[str]) -> dict[str, Any]:
    """Return the features of words and spans: words, their ends and classes, neighbours; what a span is like."""
    n, padded = len(words), ["<", *words, ">"]
    named = [
        [
            f"w={word}", f"c={word_class(word)}", f"2={word[-2:].lower()}", f"3={word[-3:].lower()}",
            f"-1={padded[t]}", f"+1={padded[t + 2]}", f"b={word_class(padded[t])}|{word_class(padded[t + 2])}", "1",
        ]
        for t, word in enumerate(words)
    ]  # fmt: skip
    first, last = np.indices((n, n))
    ends: F64 = np.stack([first == last, last == n - 1, (last - first + 1) / n, np.ones((n, n))], axis=2).astype(float)
    return {"words": named, "ends": ends}
