"""A drop-in for ``sklearn_crfsuite``: ``from ssvm_dsl.models.crfsuite import CRF``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.models.crfsuite.estimator import CRF as CRF
    from ssvm_dsl.models.crfsuite.estimator import CrfsuiteModel as CrfsuiteModel
    from ssvm_dsl.models.crfsuite.estimator import read_crfsuite as read_crfsuite
