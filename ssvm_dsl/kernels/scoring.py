"""Compiled joint-feature kernels: ``w . Phi(x, y)``, ``w += c Phi(x, y)``, scores of one example.

They read the feature maps in their flat form (:class:`~ssvm_dsl.kernels.flat.FlatMaps`).  This module and the
backends' kernels are the only ones that need numba; import it where a kernel is called.
"""

from __future__ import annotations

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.shapes import GroupFactors
from ssvm_dsl.kernels.compiling.jit import njit
from ssvm_dsl.kernels.flat import (
    ARITY,
    BASIS_INDEX,
    BASIS_PTR,
    BASIS_STRIDE,
    BASIS_VALUE,
    CONSTANT,
    CSR_INDICES,
    CSR_PTR,
    DENSE,
    FEATURE_STRIDE,
    FEATURES,
    IDENTITY,
    JOINT,
    KIND,
    MEMBERS,
    N_BASIS,
    N_CONFIGS,
    N_UNITS,
    NO_FEATURES,
    OFFSET,
    PLACE,
    POOL,
    PTR,
    ROW,
    ROW_BASE,
    SCOPE,
    SHAPE,
    SIZE,
    SLOT,
    SPANS,
    SPARSE,
    STRIDES,
    TABLE,
    TABLE_BASE,
    UNIT,
    UNIT_STRIDE,
    WEIGHTS,
    WIDTH,
    FixedTables,
    FlatMaps,
    ScoreSpace,
    StateScores,
)
from ssvm_dsl.kernels.intrinsics import borrow
from ssvm_dsl.kernels.rows import (
    add_scaled,
    dense_rows,
    dot,
    observed_add,
    observed_dot,
    observed_scores,
    sparse_scores,
)


@njit(cache=True, nogil=True, borrowed=True)
def factors_of(maps: FlatMaps, m: int, i: int) -> tuple[int, int]:
    """Return the first factor of map m that example i's shape has, and the one after its last."""
    desc, longs = maps.desc, maps.longs
    at = desc[m, PTR] + maps.ints[desc[m, SHAPE] + i]
    return longs[at], longs[at + 1]


@njit(cache=True, nogil=True, borrowed=True)
def factor_config(maps: FlatMaps, m: int, f: int, labels: I32, at: int) -> int:
    """Return the joint state of factor f of map m; ``labels[at]`` is the state of the example's first variable.

    It is -1 for a factor of spans where no segment begins, or another one.  Factors are counted among those of the
    map's shapes, here and in all kernels that take a factor.
    """
    desc, ints = maps.desc, maps.ints
    arity, scope = desc[m, ARITY], desc[m, SCOPE]
    if desc[m, SPANS] == 1:
        return segment_state(ints, scope + 3 * f, maps.longs[desc[m, STRIDES]], labels, at)
    if desc[m, SPANS]:
        place = scope + 4 * f
        return span_state(ints[place], ints[place + 1], ints[place + 2], ints[place + 3], labels, at)
    if arity == 1:
        return int(labels[at + ints[scope + f]])
    config = 0
    for k in range(arity):
        config += labels[at + ints[scope + f * arity + k]] * maps.longs[desc[m, STRIDES] + k]
    return config


@njit(cache=True, nogil=True, borrowed=True)
def segment_state(scope: I32, place: int, longest: int, labels: I32, at: int) -> int:
    """Return the class times L, and the length less 1, of the segment that begins at a position; -1 if none does.

    Parameters
    ----------
    scope : ndarray of int32
    place : int
        The variables of the factor of the position stand there, then those of the positions after it: of each the
        class, whether a segment begins, and whether one begins at the next position (its own of the last position).
    longest : int
        L; longer segments, which no labelling that keeps the constraints has, count as so long.
    labels : ndarray of int32
    at : int
        States of the variables of the example stand there.
    """
    if labels[at + scope[place + 1]] == 0:
        return -1
    first, length = labels[at + scope[place]] * longest, 1
    while length < longest and scope[place + 2] != scope[place + 1] and labels[at + scope[place + 2]] == 0:
        length, place = length + 1, place + 3
    return int(first + length - 1)


@njit(cache=True, nogil=True, borrowed=True)
def span_state(label: int, begin: int, last: int, after: int, labels: I32, at: int) -> int:
    """Return the class of a span that is a segment; -1 if it is none.

    Parameters
    ----------
    label, begin, last, after : int
        Variables: the class of its first position, whether a segment begins there, at its last position (beginnings
        are variables one after the other), and after it (its first position again, if there is none).
    labels : ndarray of int32
    at : int
        States of the variables of the example stand there.
    """
    if labels[at + begin] == 0 or (after != begin and labels[at + after] == 0):
        return -1
    for v in range(begin + 1, last + 1):
        if labels[at + v] == 1:
            return -1
    return int(labels[at + label])


@njit(cache=True, nogil=True, borrowed=True)
def feature_row(maps: FlatMaps, m: int, i: int, f: int, config: int) -> int:
    """Return the feature row of factor f of example i (in a joint state, for features that depend on it)."""
    desc = maps.desc
    row = maps.longs[desc[m, ROW_BASE] + i] + maps.ints[desc[m, ROW] + f]
    return int(row * desc[m, N_CONFIGS] + config) if desc[m, JOINT] else row


@njit(cache=True, nogil=True, borrowed=True)
def weight_start(maps: FlatMaps, m: int, f: int) -> int:
    """Return where the weights of a factor's unit start."""
    desc = maps.desc
    unit = 0 if desc[m, UNIT] < 0 else maps.ints[desc[m, UNIT] + f]
    return desc[m, WEIGHTS] + unit * desc[m, UNIT_STRIDE]


@njit(cache=True, nogil=True, borrowed=True)
def factor_dot(maps: FlatMaps, m: int, i: int, f: int, config: int, w: F64) -> float:
    """Return the score of factor f of map m in the joint state s: ``sum_q basis[q, s] <w[u, q], x>``, 0 for s = -1.

    Parameters
    ----------
    maps : FlatMaps
    m, i, f, config : int
        The map, the example, the factor, and its joint state.
    w : ndarray of float64, shape (dim,)
        Read only.
    """
    if config < 0:
        return 0.0
    desc, ints, longs, features, values = maps
    start, kind, total = weight_start(maps, m, f), desc[m, KIND], 0.0
    row = feature_row(maps, m, i, f, config)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        value = values[desc[m, BASIS_VALUE] + entry]
        if kind == NO_FEATURES:
            total += value * w[at]
        elif kind == DENSE:
            width = desc[m, WIDTH]
            x = desc[m, FEATURES] + row * width
            total += value * dot(features[x : x + width], w[at : at + width])
        elif kind == SPARSE:
            lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
            for k in range(lo, hi):
                column = ints[desc[m, CSR_INDICES] + k]
                total += value * features[desc[m, FEATURES] + k] * w[at + column * desc[m, FEATURE_STRIDE]]
        else:
            total += observed_dot(maps, m, row, config, at, w)
    return total


@njit(cache=True, nogil=True, borrowed=True)
def factor_add(maps: FlatMaps, m: int, i: int, f: int, config: int, coef: float, out: F64) -> None:
    """Add ``coef`` times the features of factor f of map m in one joint state to ``out``.

    This is the adjoint of :func:`factor_dot`; ``out`` is changed where the factor has features.

    Parameters
    ----------
    maps, m, i, f, config
        As for :func:`factor_dot`.
    coef : float
    out : ndarray of float64, shape (dim,)
        Changed in place.
    """
    if config < 0:
        return
    desc, ints, longs, features, values = maps
    start, kind = weight_start(maps, m, f), desc[m, KIND]
    row = feature_row(maps, m, i, f, config)
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        value = coef * values[desc[m, BASIS_VALUE] + entry]
        if kind == NO_FEATURES:
            out[at] += value
        elif kind == DENSE:
            width = desc[m, WIDTH]
            x = desc[m, FEATURES] + row * width
            add_scaled(features[x : x + width], value, out[at : at + width])
        elif kind == SPARSE:
            lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
            for k in range(lo, hi):
                column = ints[desc[m, CSR_INDICES] + k]
                out[at + column * desc[m, FEATURE_STRIDE]] += value * features[desc[m, FEATURES] + k]
        else:
            observed_add(maps, m, row, config, value, at, out)


@njit(cache=True, nogil=True, borrowed=True)
def dot_joint_features(maps: FlatMaps, examples: I64, label_ptr: I64, labels: I32, w: F64, out: F64) -> None:
    """Write ``w . Phi(x_i, y_i)`` of each listed example to ``out``.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    examples : ndarray of int64, shape (n_listed,)
    label_ptr : ndarray of int64, shape (n_listed + 1,)
    labels : ndarray of int32
        A labelling of each listed example, packed by ``label_ptr``; read only.
    w : ndarray of float64, shape (dim,)
        Read only.
    out : ndarray of float64, shape (n_listed,)
        Written.
    """
    maps, labels, out = borrow(maps), borrow(labels), borrow(out)
    for k in range(len(examples)):
        i, total = examples[k], 0.0
        for m in range(len(maps.desc)):
            first, last = factors_of(maps, m, i)
            for f in range(first, last):
                config = factor_config(maps, m, f, labels, label_ptr[k])
                total += factor_dot(maps, m, i, f, config, w)
        out[k] = total


@njit(cache=True, nogil=True, borrowed=True)
def add_joint_features(maps: FlatMaps, examples: I64, label_ptr: I64, labels: I32, coef: F64, out: F64) -> None:
    """Add ``sum_k coef_k Phi(x_k, y_k)`` over the listed examples to ``out``.

    Parameters
    ----------
    maps, examples, label_ptr, labels
        As for :func:`dot_joint_features`.
    coef : ndarray of float64, shape (n_listed,)
    out : ndarray of float64, shape (dim,)
        Changed in place.
    """
    maps, labels, out = borrow(maps), borrow(labels), borrow(out)
    for k in range(len(examples)):
        i = examples[k]
        if coef[k] == 0.0:
            continue
        for m in range(len(maps.desc)):
            first, last = factors_of(maps, m, i)
            for f in range(first, last):
                config = factor_config(maps, m, f, labels, label_ptr[k])
                factor_add(maps, m, i, f, config, coef[k], out)


@njit(cache=True, nogil=True, borrowed=True)
def add_node_scores(
    node: F64, state_ptr: I64, var_ptr: I64, examples: I64, label_ptr: I64, labels: I32, out: F64
) -> bool:
    """Add the unary scores of a labelling of each listed example to ``out``; return whether all labels are states.

    Nothing is read or added for a label that is no state of its variable.

    Parameters
    ----------
    node : ndarray of float64, shape (S,)
        Scores of the states of all variables; read only.
    state_ptr : ndarray of int64, shape (V + 1,)
        States of each variable.
    var_ptr : ndarray of int64, shape (n + 1,)
        Variables of each example.
    examples, label_ptr, labels
        As for :func:`dot_joint_features`.
    out : ndarray of float64, shape (n_listed,)
        Changed in place.
    """
    states = True
    for k in range(len(examples)):
        first, total = var_ptr[examples[k]], 0.0
        for j in range(label_ptr[k + 1] - label_ptr[k]):
            v, label = first + j, labels[label_ptr[k] + j]
            if label < 0 or label >= state_ptr[v + 1] - state_ptr[v]:
                states = False
            else:
                total += node[state_ptr[v] + label]
        out[k] += total
    return states


@njit(cache=True, nogil=True, borrowed=True)
def table_state(scope: I32, strides: I64, f: int, labels: I32, at: int) -> int:
    """Return the joint state of factor f of a group, as :func:`factor_config` does of a map."""
    if scope.shape[1] > len(strides) + 1:
        return span_state(scope[f, 0], scope[f, 1], scope[f, 2], scope[f, 3], labels, at)
    if scope.shape[1] > len(strides):
        if labels[at + scope[f, 1]] == 0:
            return -1
        last = f
        while last - f < strides[0] - 1 and scope[last, 2] != scope[last, 1] and labels[at + scope[last, 2]] == 0:
            last += 1
        return int(labels[at + scope[f, 0]] * strides[0] + last - f)
    config = 0
    for r in range(len(strides)):
        config += labels[scope[f, r] + at] * strides[r]
    return int(config)


@njit(cache=True, nogil=True, borrowed=True)
def add_table_scores(factors: GroupFactors, tables: F64, examples: I64, label_ptr: I64, labels: I32, out: F64) -> None:
    """Add the scores of one group's factors for a labelling of each listed example to ``out``.

    Parameters
    ----------
    factors : GroupFactors
        Read only.
    tables : ndarray of float64, shape (n_tables, n_configs)
        Scores of the joint states of all factors; read only.
    examples, label_ptr, labels
        As for :func:`dot_joint_features`.
    out : ndarray of float64, shape (n_listed,)
        Changed in place.
    """
    shape, start, scope, row, base, strides = borrow(factors)
    tables, labels = borrow(tables), borrow(labels)
    for k in range(len(examples)):
        i, at, total = examples[k], label_ptr[k], 0.0
        for f in range(start[shape[i]], start[shape[i] + 1]):
            config = table_state(scope, strides, f, labels, at)
            if config >= 0:
                total += tables[base[i] + row[f], config]
        out[k] += total


@njit(cache=True, nogil=True, borrowed=True)
def basis_scores(maps: FlatMaps, m: int, row: int, start: int, w: F64, scale: float, out: F64) -> None:
    """Add ``scale sum_p w[u, q, p] x[p]`` for every basis function q to ``out``.

    Parameters
    ----------
    maps : FlatMaps
    m, row, start : int
        The map, the feature row x, as of :func:`feature_row`, and where the weights of the factor's unit start, as of
        :func:`weight_start`.
    w : ndarray of float64, shape (dim,)
        Read only.
    scale : float
    out : ndarray of float64, shape (n_basis,)
        Changed in place.
    """
    desc, ints, longs, features, _ = maps
    kind = desc[m, KIND]
    if kind == NO_FEATURES:
        add_scaled(w[start : start + len(out)], scale, out)
    elif kind == DENSE:
        width = desc[m, WIDTH]
        x = desc[m, FEATURES] + row * width
        dense_rows(features[x : x + width], w[start : start + width * len(out)], scale, out)
    elif kind == SPARSE:
        lo, hi = longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]
        columns, x = desc[m, CSR_INDICES], desc[m, FEATURES]
        sparse_scores(ints[columns + lo : columns + hi], features[x + lo : x + hi], w[start:], scale, out)
    else:
        observed_scores(maps, m, row, start, w, scale, out)


@njit(cache=True, nogil=True, borrowed=True)
def factor_scores(
    maps: FlatMaps, m: int, row: int, start: int, w: F64, scale: float, work: F64, out: F64
) -> None:  # fmt: skip
    """Add ``scale`` times the scores of all joint states of one factor to ``out``.

    With joint features the score of s is ``w[u] . x[row + s]``, else ``sum_q basis[q, s] (w[u, q] . x[row])``, whose
    products are taken once for all s.

    Parameters
    ----------
    maps, m, row, start, w, scale
        As for :func:`basis_scores`; with joint features, the row of joint state 0.
    work : ndarray of float64, shape (at least n_basis,)
        Work space; used for factors with a form only.
    out : ndarray of float64, shape (n_configs,)
        Changed in place.
    """
    desc, ints, _, features, values = maps
    if desc[m, IDENTITY]:
        basis_scores(maps, m, row, start, w, scale, out)
        return
    if desc[m, JOINT]:
        width = desc[m, WIDTH]
        for config in range(len(out)):
            x = desc[m, FEATURES] + (row + config) * width
            out[config] += scale * dot(features[x : x + width], w[start : start + width])
        return
    products = work[: desc[m, N_BASIS]]
    products[:] = 0.0
    basis_scores(maps, m, row, start, w, scale, products)
    for config in range(len(out)):
        first = desc[m, BASIS_PTR] + config
        for entry in range(ints[first], ints[first + 1]):
            out[config] += values[desc[m, BASIS_VALUE] + entry] * products[ints[desc[m, BASIS_INDEX] + entry]]


@njit(cache=True, nogil=True, borrowed=True)
def rows_of_factors(maps: FlatMaps, m: int, examples: I64, w: F64, work: F64, out: F64) -> None:
    """Add the scores of all joint states of the factors of map m to ``out``, of one listed example after the other."""
    maps, w, work, out, at = borrow(maps), borrow(w), borrow(work), borrow(out), 0
    n = maps.desc[m, N_CONFIGS]
    for i in examples:
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            start, row = weight_start(maps, m, f), feature_row(maps, m, i, f, 0)
            factor_scores(maps, m, row, start, w, 1.0, work, out[at : at + n])
            at += n


@njit(cache=True, nogil=True, borrowed=True)
def add_rows_of_factors(maps: FlatMaps, m: int, examples: I64, coef: F64, out: F64) -> None:
    """Add the adjoint of :func:`rows_of_factors` to ``out``; ``coef`` has a number for each joint state."""
    maps, coef, out, at = borrow(maps), borrow(coef), borrow(out), 0
    for i in examples:
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            for config in range(maps.desc[m, N_CONFIGS]):
                if coef[at + config] != 0.0:
                    factor_add(maps, m, i, f, config, coef[at + config], out)
            at += maps.desc[m, N_CONFIGS]


@njit(cache=True, nogil=True, borrowed=True)
def score_example(maps: FlatMaps, states: StateScores, i: int, w: F64, scales: F64, scores: ScoreSpace) -> None:
    """Write ``bonus + Phi w`` of example i to the scores of its states and tables.

    Tables that examples share are written too: they follow w.  The weights of map m are ``scales[m]`` times those in w.
    """
    desc, ints, longs, _, values = maps
    state_ptr, bonus, node, pool, work = states.state_ptr, states.bonus, scores.node, scores.pool, scores.work
    lo, hi = states.var_ptr[i], states.var_ptr[i + 1]
    for s in range(state_ptr[lo], state_ptr[hi]):
        node[s] = bonus[s]
    for m in range(len(desc)):
        n, in_pool = desc[m, N_CONFIGS], desc[m, POOL] >= 0
        target = pool if in_pool else node
        # without features a unit has one table for all examples: all of them are written, as w may have moved
        shared = in_pool and desc[m, KIND] == NO_FEATURES
        first, last = factors_of(maps, m, i)
        table = longs[desc[m, TABLE_BASE] + i] if in_pool else 0
        for f in range(0 if shared else first, desc[m, N_UNITS] if shared else last):
            if shared:
                at, start, row = desc[m, POOL] + f * n, desc[m, WEIGHTS] + f * desc[m, UNIT_STRIDE], 0
            else:
                start, row = weight_start(maps, m, f), feature_row(maps, m, i, f, 0)
                if in_pool:
                    at = desc[m, POOL] + (table + ints[desc[m, TABLE] + f]) * n
                else:
                    at = state_ptr[lo + ints[desc[m, SCOPE] + f]]
            own = target[at : at + n]
            if in_pool:  # no other map fills this table; scores of states begin with the bonus
                own[:] = 0.0
                if desc[m, CONSTANT] >= 0:
                    add_scaled(values[desc[m, CONSTANT] : desc[m, CONSTANT] + n], 1.0, own)
            factor_scores(maps, m, row, start, w, scales[m], work, own)


# -- tables that no weight multiplies ------------------------------------------------------------------------------
#
# Scores of joint states that no weight multiplies, in compiled kernels: :class:`~ssvm_dsl.kernels.flat.FixedTables`.
#
# A trainer that calls a compiled oracle writes the tables of an example into the pool before the call, and adds them to
# the score and to the loss of the labelling that it found.


@njit(cache=True, nogil=True, borrowed=True)
def fill_tables(tables: FixedTables, i: int, pool: F64) -> None:
    """Write the tables of example i to ``pool``."""
    factors, scale, values = tables.factors, tables.scale, tables.values
    for f in range(tables.ptr[2 * i], tables.ptr[2 * i + 1]):
        to, at = factors[f, PLACE], factors[f, OFFSET]
        for c in range(factors[f, SIZE]):
            pool[to + c] = scale[f] * values[at + c]


@njit(cache=True, nogil=True, borrowed=True)
def tables_score(tables: FixedTables, first: int, last: int, labels: I32) -> float:
    """Return the score of factors ``first:last`` under the ``labels`` of their example."""
    factors, slots, total = tables.factors, tables.slots, 0.0
    for f in range(first, last):
        at = factors[f, OFFSET]
        if factors[f, MEMBERS] < 0:
            k = factors[f, SLOT]
            state = span_state(slots[k, 0], slots[k + 1, 0], slots[k + 2, 0], slots[k + 3, 0], labels, 0)
            total += tables.scale[f] * tables.values[at + state] if state >= 0 else 0.0
            continue
        for k in range(factors[f, SLOT], factors[f, SLOT] + factors[f, MEMBERS]):
            at += labels[slots[k, 0]] * slots[k, 1]
        total += tables.scale[f] * tables.values[at]
    return total
