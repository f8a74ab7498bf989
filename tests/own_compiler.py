"""Tests of how kernels are compiled, linked and kept: plain numba does it with versions that were not tested."""

from __future__ import annotations

import pytest

from ssvm_dsl.kernels.compiling import jit

#: For modules (``pytestmark``) and tests.
own_compiler = pytest.mark.skipif(bool(jit.objection()), reason="plain numba compiles kernels")
