"""The name under which older pickles of estimators hold what they knew of shapes: it has to be there to read them."""

from __future__ import annotations


class StructureCache:
    """Holds nothing: models keep what shapes need (:mod:`ssvm_dsl.compiler.prepared`), and pickles never did."""
