"""``ClassScores``: what scikit-learn asks of classifiers, for models whose output is a single class.

Its scorers (``roc_auc``, ``average_precision``), calibration and threshold tuning read ``decision_function``: a number
for each class that grows with how much the model prefers it.  For class c it is the best score of all labellings that
have it, ``max_(y : y = c) w . Phi(x, y)``; of two classes it is the difference of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.labels.class_states import class_array
from ssvm_dsl.errors import InfeasibleError, OptionError, memory_for
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.estimators.base import Learner


class ClassScores(Learner):
    """An estimator that is a classifier to scikit-learn where its model has one label without axes."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of ``decision_function`` (of models of a single class).

        Raises
        ------
        AttributeError
            The model has other outputs.
        """
        label = self._single_label()
        if label is None:
            raise AttributeError(self._no_classes("classes_"))
        self._check_fitted()
        return np.arange(label.n_states) if label.classes is None else class_array(label.classes).copy()

    @memory_for("decision_function", "ask for fewer examples at once, or set another backend")
    def decision_function(self, X: Sequence[Any], *, time_limit: float | None = None) -> F64:
        """Return how much the model prefers each class: ``shape (n,)`` for two classes, ``(n, n_classes)`` for others.

        The score of a class is that of the best labelling with it (latent variables at their best), ``-inf`` where the
        model rules it out.  For two classes it is the difference of theirs, positive where the second one is predicted.

        Parameters
        ----------
        X : list of examples
        time_limit : float, optional
            Seconds for the whole call, as for ``predict``.

        Raises
        ------
        OptionError
            The output is not a single class; :meth:`best_score` is the score of the best labelling of any model.
        """
        label = self._single_label()
        if label is None:
            raise OptionError(self._no_classes("decision_function"))
        parts = self._answers(X, self._node_scores, time_limit=time_limit)
        if all(part is not None for part in parts):
            scores = np.concatenate([np.zeros((0, label.n_states)), *parts])
        else:
            scores = np.stack([self._with_class(X, name, time_limit) for name in self.classes_.tolist()], axis=1)
        return np.asarray(scores[:, 1] - scores[:, 0]) if label.n_states == 2 else scores

    def _single_label(self) -> Label | None:
        """Return the only output of the model, if that is a single variable with classes."""
        outputs = self.model.declaration.outputs
        return outputs[0] if len(outputs) == 1 and not outputs[0].dims else None

    def _no_classes(self, what: str) -> str:
        declaration = self.model.declaration
        listed = ", ".join(f"{label.name} = {label!r}" for label in declaration.outputs)
        text = f"{what}: it is of models whose only output is a single class, such as y = Label(3)"
        cure = "best_score(X) is the score of the best labelling, predict_marginals(X) has probabilities"
        return f"{text}; the output of {declaration.name} is {listed}: {cure}"

    def _node_scores(self, grounded: Grounded, solution: Solution) -> F64 | None:
        """Return the scores of all classes where nothing else is decided; ``None`` where there are other variables."""
        program = grounded.program
        if program.groups or program.constraints or program.n_variables != program.n_examples:
            return None
        theta = grounded.parameters.scores(self.coef_)
        node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
        return np.asarray(node.reshape(program.n_examples, -1) + theta.const[:, None])

    def _with_class(self, X: Sequence[Any], name: Any, time_limit: float | None) -> F64:
        """Return the best score of each example with a class; ``-inf`` where the model rules it out."""
        examples = self._examples(X)
        try:
            return self._best(examples, [name] * len(examples), time_limit)
        except InfeasibleError:
            if len(examples) == 1:
                return np.array([-np.inf])
            alone = [self._with_class(examples[i : i + 1], name, time_limit) for i in range(len(examples))]
            return np.concatenate(alone)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: this is a classifier if the output is a single class."""
        tags = super().__sklearn_tags__()
        if self._single_label() is not None:
            from sklearn.utils import ClassifierTags

            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags
