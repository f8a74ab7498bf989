"""Declaration + data -> IR: read and check the examples, lay the patterns over them, evaluate features."""

from ssvm_dsl.compiler.estimate import Estimate, estimate
from ssvm_dsl.compiler.ground import Grounded, ground

__all__ = ["Estimate", "Grounded", "estimate", "ground"]
