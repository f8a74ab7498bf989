"""All feature maps of a model as flat arrays, so that one compiled kernel serves every template kind.

For each factor the joint state c of its variables picks basis entries (q, value), and each of them a row of
weights that is multiplied with (or moved along) the factor's features.

Factors are those of the shapes of examples (:class:`ssvm_dsl.ir.shapes.Shapes`): the factors of example i are
``longs[PTR + k] : longs[PTR + k + 1]`` with ``k = ints[SHAPE + i]``, and so many numbers stand at ``SCOPE`` (times the
arity, counted from the first variable of the example), ``ROW`` (counted from ``longs[ROW_BASE + i]``), ``UNIT`` and
``TABLE`` (counted from ``longs[TABLE_BASE + i]``).  In the batch, factor f of example i is number
``longs[NUMBER + i] + f``.
"""

from __future__ import annotations

from typing import NamedTuple

from ssvm_dsl.array_types import F64, I32, I64

#: Columns of ``FlatMaps.desc``.  Offsets point into the pools; -1 marks what a map does not have.
COLUMNS = (
    *("arity", "kind", "width", "joint", "n_configs"),
    *("scope", "ptr", "row", "unit"),
    *("features", "csr_ptr", "csr_indices", "pairs"),
    *("weights", "unit_stride", "basis_stride", "feature_stride"),
    *("basis_ptr", "basis_index", "basis_value", "strides"),
    *("identity", "n_basis", "n_units", "table", "pool"),
    *("shape", "row_base", "table_base", "number"),
    *("constant", "spans"),
)
ARITY, KIND, WIDTH, JOINT, N_CONFIGS = range(5)
SCOPE, PTR, ROW, UNIT = range(5, 9)
FEATURES, CSR_PTR, CSR_INDICES, PAIRS = range(9, 13)
WEIGHTS, UNIT_STRIDE, BASIS_STRIDE, FEATURE_STRIDE = range(13, 17)
BASIS_PTR, BASIS_INDEX, BASIS_VALUE, STRIDES = range(17, 21)
IDENTITY, N_BASIS, N_UNITS, TABLE, POOL = range(21, 26)
SHAPE, ROW_BASE, TABLE_BASE, NUMBER = range(26, 30)
CONSTANT, SPANS = 30, 31

#: Kinds of features.  ``OBSERVED`` are sparse ones with weights for some pairs of a feature and a joint state only.
#: ``PAIRS`` then has for each feature where its weights start, and a bit for each joint state that has one.
NO_FEATURES, DENSE, SPARSE, OBSERVED = 0, 1, 2, 3

#: Bits of a word.
WORD = 64


class FlatMaps(NamedTuple):
    """Every feature map of a model as a row of ``desc``, whose offsets point into four pools.

    Parameters
    ----------
    desc : ndarray of int64, shape (M, len(COLUMNS))
        A row for each map, read by the names below, the numbers of its columns; -1 marks what a map does not have.

        ``ARITY``, ``KIND``, ``WIDTH``, ``JOINT``, ``N_CONFIGS``
            Variables of a factor; kind of features, one of the numbers above; features of a row; 1 where features
            depend on the joint state; joint states of a factor.
        ``SCOPE``, ``ROW``, ``UNIT``
            In ``ints``, for factor f of a shape: its variables, from ``f * arity`` on, counted from the example's first
            one; its feature row, counted from ``ROW_BASE``; its unit (-1: 0).
        ``SHAPE``, ``PTR``
            In ``ints``: the shape of each example; in ``longs``: where the factors of each shape start.
        ``ROW_BASE``, ``TABLE_BASE``, ``NUMBER``
            In ``longs``, for each example: where its feature rows start, its tables, and its factors among all.
        ``FEATURES``
            In ``features``: dense rows one after the other, or the values of rows in CSR form.
        ``CSR_PTR``, ``CSR_INDICES``
            In ``longs`` and in ``ints``: the rest of the CSR form.
        ``PAIRS``
            In ``longs``: which weights there are, for the kind ``OBSERVED``; see there.
        ``WEIGHTS``, ``UNIT_STRIDE``, ``BASIS_STRIDE``, ``FEATURE_STRIDE``
            The weight of unit u, basis function q and feature p is the entry ``WEIGHTS + u UNIT_STRIDE + q BASIS_STRIDE
            + p FEATURE_STRIDE`` of w, but for the kind ``OBSERVED``.
        ``BASIS_PTR``, ``BASIS_INDEX``, ``BASIS_VALUE``
            In ``ints``, ``ints`` and ``values``: for each joint state the basis functions that are not zero there.
        ``STRIDES``
            In ``longs``: a joint state is the sum of the states of its variables, each times its stride (C order).
        ``IDENTITY``, ``N_BASIS``, ``N_UNITS``
            1 where basis functions are joint states; how many there are; copies of the weights.
        ``TABLE``, ``POOL``
            In ``ints``: the table of each factor, counted from ``TABLE_BASE``; and where in ``theta.pool`` those of the
            group start, -1 for maps of single variables, whose scores are in ``theta.node``.
        ``CONSTANT``
            In ``values``: what each entry of the table scores without weights, for maps without features whose factors
            all share one table.
        ``SPANS``
            1 where factors score the segments that begin at their positions (``ssvm_dsl.ir.Group``, kind ``"spans"``):
            they have three variables, whatever ``ARITY`` is, and no joint state (-1) where none begins.  2 where each
            scores one span (``"one-span"``), by four variables.
    ints : ndarray of int32
    longs : ndarray of int64
    features, values : ndarray of float64
        The pools.  They are shared: an offset is in elements, from the start of the pool.
    """

    desc: I64
    ints: I32
    longs: I64
    features: F64
    values: F64


class StateScores(NamedTuple):
    """The states of all variables, and their scores without weights.

    Parameters
    ----------
    var_ptr, state_ptr : ndarray of int64, shape (n + 1,) and (V + 1,)
        Variables of each example, and states of each variable.
    bonus : ndarray of float64, shape (S,)
        Scores of states without weights; -inf where masks rule them out.
    """

    var_ptr: I64
    state_ptr: I64
    bonus: F64


class ScoreSpace(NamedTuple):
    """Where the scores of examples are written.

    Parameters
    ----------
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Scores of states and of tables, as in :class:`~ssvm_dsl.ir.Theta`.
    work : ndarray of float64
        Work space: of :func:`~ssvm_dsl.kernels.score_example`, as long as the largest form of a map has functions; or
        that of whoever reads the scores.
    """

    node: F64
    pool: F64
    work: F64


class FactorLists(NamedTuple):
    """Some factors of a batch, and the factors of each variable, for kernels that walk over the graph.

    Parameters
    ----------
    card : ndarray of int32, shape (V,)
        States of each variable.
    state_ptr : ndarray of int64, shape (V + 1,)
    slot_ptr : ndarray of int64, shape (F + 1,)
        Slots of each factor.
    scope : ndarray of int32
        The variable of each slot.
    table : ndarray of int64, shape (F,)
        Where the table of each factor begins in some pool, C order.
    factor_ptr : ndarray of int64, shape (V + 1,)
    factor : ndarray of int64
        The factors of each variable.
    """

    card: I32
    state_ptr: I64
    slot_ptr: I64
    scope: I32
    table: I64
    factor_ptr: I64
    factor: I64


#: Columns of ``FixedTables.factors``.
PLACE, OFFSET, SIZE, SLOT, MEMBERS = range(5)


class FixedTables(NamedTuple):
    """What joint states score that no weight multiplies: prices of a loss and given scores, for each factor.

    Parameters
    ----------
    ptr : ndarray of int64, shape (2 n + 1,)
        Factors ``ptr[2 i]:ptr[2 i + 1]`` of example i are in tables of the pool beside those of feature maps; those up
        to ``ptr[2 i + 2]`` are added to the loss alone.
    factors : ndarray of int64, shape (F, 5)
        Of each factor: where its table is in the pool (``PLACE``) and how many entries of it are to be written
        (``SIZE``; 0 where it is there for good); where its row is in ``values`` (``OFFSET``); its first entry in
        ``slots`` and how many it has (``SLOT``, ``MEMBERS``; -4 of a span, whose variables they are).
    scale : ndarray of float64, shape (F,)
        Factor of the row.
    slots : ndarray of int64, shape (m, 2)
        A variable, counted from the first one of the example, and what its state is multiplied by in a joint state.
    values : ndarray of float64
        Rows with an entry for each joint state; factors may share them.
    truth : ndarray of float64, shape (n,)
        Score of the true joint states of all factors of an example.
    """

    ptr: I64
    factors: I64
    scale: F64
    slots: I64
    values: F64
    truth: F64
