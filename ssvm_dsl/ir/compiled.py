"""The one signature of compiled oracles (see :class:`ssvm_dsl.plugin_api.CompiledOracle`)."""

from numba import types

#: score = function(ints, longs, example, pool, node, labels, work)
SIGNATURE = types.float64(
    types.int32[::1],
    types.int64[::1],
    types.int64,
    types.float64[::1],
    types.float64[::1],
    types.int32[::1],
    types.float64[::1],
)
