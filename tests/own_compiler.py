"""Tests of how kernels are compiled, linked and kept: plain numba does it with versions that were not tested."""

from __future__ import annotations

import pytest

from ssvm_dsl.kernels.compiling import self_test

#: For modules (``pytestmark``) and tests.
own_compiler = pytest.mark.skipif(bool(self_test.objection()), reason="plain numba compiles kernels")
