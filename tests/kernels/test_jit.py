"""``njit`` of the package: kernels are machine code, what they call is not made into any by itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.event import Listener, install_listener
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from numba.core.types.functions import BaseFunction
from numba.extending import intrinsic

import fresh
from own_compiler import own_compiler
from ssvm_dsl.kernels.compiling import jit
from ssvm_dsl.kernels.compiling.jit import njit

MODULE = """
import numpy as np
from ssvm_dsl.kernels.compiling.jit import njit

@njit
def leaf(x, n):
    return np.full(n, x)

@njit
def middle(x, n):
    return leaf(x, n).sum() + leaf(x, n + 1).sum()

@njit
def top(x, n):
    return middle(x, n) + x

print(top(2.0, 3), top.stats.cache_hits.total(), len(leaf.overloads), len(leaf.part.overloads))
"""


@njit(cache=False)
def inverse(x: float) -> float:
    if x == 0.0:
        raise ValueError("no inverse of zero")
    return 1.0 / x


@njit(cache=False)
def filled(x: float, n: int = 2) -> np.ndarray:
    out = np.empty(n)
    out[:] = inverse(x)
    return out


@njit(cache=False, borrowed=True)
def total(x: np.ndarray) -> float:
    out = 0.0
    for value in x[:]:
        out += value
    return out


@njit(cache=False)
def twice(x: float) -> float:
    values = filled(x)
    return values.sum() + filled(x, n=1)[0]


@own_compiler
def test_kernels_call_parts():
    assert twice(4.0) == 0.75
    assert twice.signatures
    assert not filled.signatures  # no machine code of what only kernels call


def test_a_part_is_a_kernel_too_where_python_calls_it():
    assert twice(2.0) == 1.5
    np.testing.assert_array_equal(filled(2.0, 3), [0.5, 0.5, 0.5])
    assert twice(8.0) == 0.375


def test_arrays_may_be_borrowed():
    values = np.arange(4.0)
    assert total(values) == 6.0
    assert numba.njit(lambda x: total(x[1:]) + total(np.ones(2)))(values) == 8.0


class Pair(NamedTuple):
    x: np.ndarray
    y: np.ndarray


@njit(cache=False)
def dot(pair: Pair, k: int) -> float:
    x, y, out = pair.x[k:], pair.y[k:], 0.0
    while len(x) > 0:
        for value in x[:1]:
            out += value * y[0]
        x, y = x[1:], y[1:]
    return out


@njit(cache=False)
def rest(pair: Pair, k: int) -> np.ndarray:
    return pair.x[k:]


@njit(cache=False)
def apart(pair: Pair) -> float:
    """A product of arrays with gaps makes copies, in code of numba's."""
    return pair.x[::2] @ pair.y[::2]


@intrinsic
def allocated(typingctx, size):
    """Take memory and give it back."""

    def code(context, builder, signature, args):
        made = context.nrt.meminfo_alloc(builder, args[0])
        context.nrt.decref(builder, types.MemInfoPointer(types.voidptr), made)
        return args[0]

    return size(size), code


@njit(cache=False)
def takes(pair: Pair) -> int:
    return allocated(len(pair.x))


@njit(cache=False)
def made(pair: Pair, k: int) -> float:
    return dot(Pair(rest(pair, k), np.sqrt(rest(pair, k))), 0) + apart(pair) + takes(pair)


@njit(cache=False)
def mixed(pair: Pair, k: int) -> float:
    return dot(pair, k) + made(pair, k) + dot(Pair(pair.y, pair.x), k)


@pytest.fixture
def statistics():
    """Count arrays that kernels make and free."""
    rtsys.initialize(cpu_target.target_context)
    _nrt_python.memsys_enable_stats()
    yield rtsys.get_allocation_stats
    _nrt_python.memsys_disable_stats()


@pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning")
@own_compiler
def test_only_what_makes_arrays_or_returns_them_counts_references(statistics):
    pair = Pair(np.array([4.0, 1.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    before = statistics()
    for k in (0, 1):
        roots = float(pair.x[k:] @ np.sqrt(pair.x[k:]))
        assert mixed(pair, k) == 2.0 * pair.x[k:] @ pair.y[k:] + roots + 34.0
        np.testing.assert_array_equal(rest(pair, k), pair.x[k:])
    after = statistics()
    assert after.alloc > before.alloc
    assert after.alloc - before.alloc == after.free - before.free
    counts = {one.py_func.__name__: "NRT_incref" in code_of(one) for one in (dot, rest, made, takes)}
    assert counts == {"dot": False, "rest": True, "made": True, "takes": False}


def code_of(kernel):
    (compiled,) = kernel.part.overloads.values()
    return str(compiled.library._final_module)


def test_errors_come_out_of_parts():
    with pytest.raises(ValueError, match="no inverse of zero"):
        twice(0.0)


def test_plain_numba_calls_them():
    assert numba.njit(lambda x: twice(x) + 1.0)(4.0) == 1.75
    assert numba.cfunc("float64(float64)")(lambda x: twice(x) + 1.0).ctypes(4.0) == 1.75


@own_compiler
def test_kernels_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSVM_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "kernels_of_a_test.py").write_text(MODULE)
    said = []
    for _ in range(2):
        done = fresh.run(["-c", "import kernels_of_a_test"], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said == [["16.0", "0", "0", "1"], ["16.0", "1", "0", "0"]]
    kept = {path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()}
    assert kept == {"leaf", "middle", "top", "self", "callback"}  # the last two by the self-test


def test_numba_is_left_as_it_is():
    before = BaseFunction.get_call_type, type(cpu_target.typing_context).resolve_function_type
    seen = []

    class Watch(Listener):
        def on_start(self, event):
            seen.append((BaseFunction.get_call_type, type(cpu_target.typing_context).resolve_function_type))

        def on_end(self, event):
            pass

    @njit(cache=False)
    def odd(x):
        return x + 5.0

    with install_listener("numba:compile", Watch()):
        odd(1.0)
    assert set(seen) == {before}


@own_compiler
def test_another_version_of_numba_compiles_by_itself(monkeypatch):
    monkeypatch.delenv(jit.VARIABLE, raising=False)
    assert jit.objection() == ""
    monkeypatch.setattr(numba, "__version__", "0.680.1")
    assert "numba 0.680.1 is installed" in jit.objection()
    monkeypatch.setenv(jit.VARIABLE, jit.PLAIN)
    assert "asks for it" in jit.objection()


@own_compiler
def test_a_compiler_that_is_not_as_expected_is_not_used(monkeypatch, tmp_path):
    def broken():
        raise AttributeError("no such thing")

    monkeypatch.setattr(jit, "run_self_test", broken)
    monkeypatch.setattr("ssvm_dsl.kernels.compiling.compile_cache.folder", lambda: tmp_path)
    assert "AttributeError: no such thing" in jit.objection()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(jit, "run_self_test", lambda: None)
    assert jit.objection() == ""
    monkeypatch.setattr(jit, "run_self_test", broken)  # it has passed once
    assert jit.objection() == ""


PLAIN = """
import warnings
warnings.simplefilter("error")
import numpy as np
from numba import types
from ssvm_dsl.kernels import borrow, cfunc, njit
from ssvm_dsl.kernels.intrinsics import count_bits, first_bit

@njit(cache=False, borrowed=True)
def total(x):
    out = 0.0
    for value in borrow(x):
        out += value
    return out + count_bits(7) + first_bit(8)

@cfunc(types.float64(types.float64))
def twice(x):
    return 2.0 * x

def ends(x):
    out = 0.0
    while len(x) > 0:
        out += x[0] + helper(x[1:])
        x = x[2:]
    return out

@njit(cache=False)
def helper(x):
    return np.ones(len(x)).sum()

def code_of(kernel):
    (code,) = kernel.inspect_llvm().values()
    return code

print(total(np.arange(4.0)), total.py_func(np.arange(4.0)), twice.ctypes(4.0), type(total).__module__)
for borrowed in (True, False):
    kernel = njit(ends, cache=False, borrowed=borrowed)
    print(kernel(np.arange(4.0)), "call void @NRT_incref" in code_of(kernel).split("define")[1])
"""


def test_plain_numba_compiles_where_the_environment_asks_for_it(monkeypatch, tmp_path):
    (tmp_path / "plain_of_a_test.py").write_text(PLAIN)
    monkeypatch.setenv(jit.VARIABLE, jit.PLAIN)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    done = fresh.run(["-c", "import plain_of_a_test"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    values, borrowed, counted = done.stdout.splitlines()
    assert values.split() == ["12.0", "12.0", "8.0", "numba.core.registry"]
    assert (borrowed, counted) == ("6.0 False", "6.0 True"), "what only borrows counts no references; what it calls may"


def test_a_callee_has_its_own_options_whoever_it_is_compiled_for():
    @njit(cache=False)
    def rounded(x: float) -> float:
        zeros = np.zeros(2)
        return (x + 1e16) - 1e16 + zeros[1]

    @njit(cache=False, borrowed=True, fastmath=True)
    def quick(x: float) -> float:
        return rounded(x)

    @njit(cache=False)
    def plain(x: float) -> float:
        return rounded(x)

    assert (quick(1.0), plain(1.0)) == (0.0, 0.0)
