"""Ready models: estimators that declare their model from the data they are fitted to.

Each is below fifteen lines of the language; ``declare(X, Y)`` returns the model class for some data, to print, extend
and pass to :class:`~ssvm_dsl.StructuredSVM`.  :mod:`ssvm_dsl.models.crfsuite` is a drop-in for ``sklearn_crfsuite``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.models.assignments import Assigner as Assigner
    from ssvm_dsl.models.assignments import Matcher as Matcher
    from ssvm_dsl.models.classifier import Classifier as Classifier
    from ssvm_dsl.models.graphs import GraphLabeller as GraphLabeller
    from ssvm_dsl.models.graphs import LatentGraph as LatentGraph
    from ssvm_dsl.models.grids import GridSegmenter as GridSegmenter
    from ssvm_dsl.models.multi_label import MultiLabel as MultiLabel
    from ssvm_dsl.models.parsers import ConstituencyParser as ConstituencyParser
    from ssvm_dsl.models.sequences import ChainTagger as ChainTagger
    from ssvm_dsl.models.sequences import SegmentTagger as SegmentTagger
    from ssvm_dsl.models.structures import DependencyParser as DependencyParser
    from ssvm_dsl.models.structures import Ranker as Ranker
