"""What is predicted for an example does not depend on the examples it is predicted with."""

from __future__ import annotations

import numpy as np
import pytest

from model_table import graph
from ssvm_dsl import POTTS, StructuredSVM
from ssvm_dsl.errors import NoBackendError

RNG = np.random.default_rng(0)


Graph = graph(2, 2, 1, form=POTTS, nonneg=True)


def example(n, *edges):
    """An example with strong node scores."""
    return {"x": RNG.normal(size=(n, 2)), "e": np.array(edges, int).reshape(-1, 2), "f": RNG.random((len(edges), 1))}


CYCLE, CHAIN, STAR, ALONE = (
    example(3, (0, 1), (1, 2), (2, 0)),
    example(3, (0, 1), (1, 2)),
    example(4, (0, 1), (0, 2), (0, 3)),
    example(2),
)
ALL = [CYCLE, CHAIN, STAR, ALONE]


@pytest.fixture(scope="module", params=["graph-cut", "alpha-expansion", "alpha-beta-swap", "auto"])
def fitted(request):
    svm = StructuredSVM(Graph, trainer="perceptron", backend=request.param, max_passes=3, random_state=0)
    return svm.fit(ALL, [(one["x"][:, 0] > 0).astype(int) for one in ALL])


def test_examples_alone_are_answered_as_in_company(fitted):
    together = fitted.predict(ALL)
    for k, one in enumerate(ALL):
        np.testing.assert_array_equal(fitted.predict([one])[0], together[k])
        np.testing.assert_array_equal(fitted.predict(ALL[k:])[0], together[k])


def test_data_that_break_the_property_are_named_alone_and_in_company(fitted):
    broken = CHAIN | {"f": -1.0 - CHAIN["f"]}
    if fitted.backend == "auto":  # another backend answers
        np.testing.assert_array_equal(fitted.predict([broken])[0], fitted.predict([*ALL, broken])[-1])
        return
    for given, number in (([broken], 0), ([*ALL, broken], 4)):
        with pytest.raises(NoBackendError, match=rf"input 'f' of factor 'edge' is negative in example {number} \(-1\."):
            fitted.predict(given)
