"""``MultiLabel``: a set of labels for a row of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import complete
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import input_of


class MultiLabel(ReadyModel):
    """Predicts sets of labels: each label from the features, and every two labels together.

    X is a matrix ``(n, n_features)``, a sparse one or a data frame; Y a matrix ``(n, n_labels)`` of 0 and 1, as
    scikit-learn's ``MultiLabelBinarizer`` makes it.

    Parameters
    ----------
    together : bool
        Whether every two labels have a table of weights; without it labels are independent.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> MultiLabel(C=0.1).fit(X, Y).predict(X_test)
    """

    together: bool = True

    def _read_examples(self, X: Any) -> Any:
        return X.to_numpy() if hasattr(X, "to_numpy") else X

    def _read_labels(self, Y: Any) -> Any:
        return Y.to_numpy() if hasattr(Y, "to_numpy") else Y

    def _declaration(self, X: Any, Y: Any) -> type[Model]:
        class LabelSet(Model):
            K = Dim(len(Y[0]))
            x = input_of(X)
            y = Label(K, 2)
            unary = Factor(y, features=x, per=K)
            bias = Factor(y, per=K)
            pair = Factor(complete(y), per="edge") if self.together and len(Y[0]) > 1 else None
            loss = Hamming(y)

        return LabelSet

    def predict(self, X: Any, **options: Any) -> Any:
        """Return a matrix of 0 and 1, ``shape (n, n_labels)``; ``options`` as for ``StructuredSVM.predict``."""
        found = super().predict(X, **options)
        return np.array(found) if isinstance(found, list) and all(one is not None for one in found) else found
