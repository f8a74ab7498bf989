"""From weights to scores and back: the parameter map, products of feature rows, flat records for compiled kernels."""

from ssvm_dsl.ir.parameters.parameter_map import ParameterMap

__all__ = ["ParameterMap"]
