"""The signatures of what trainers call inside their own kernels.

See :class:`ssvm_dsl.plugin_api.CompiledOracle` and :class:`ssvm_dsl.plugin_api.CompiledMessages`.
"""

from numba import types

_I32, _I64, _F64 = types.int32[::1], types.int64[::1], types.float64[::1]

#: score = function(ints, longs, example, pool, node, labels, work)
SIGNATURE = types.float64(_I32, _I64, types.int64, _F64, _F64, _I32, _F64)

#: bound = function(ints, longs, reals, example, pool, node, passes, messages, choices, work)
MESSAGE_SIGNATURE = types.float64(_I32, _I64, _F64, types.int64, _F64, _F64, types.int64, _F64, _I32, _F64)

#: bound = function(ints, longs, reals, example, pool, node, passes, messages, marginals, work)
SOFT_MESSAGE_SIGNATURE = types.float64(_I32, _I64, _F64, types.int64, _F64, _F64, types.int64, _F64, _F64, _F64)
