"""Environments of kept code come back without their modules, and are shared by their name."""

from __future__ import annotations

import json
import pickle
import sys

from numba.core.environment import Environment, lookup_environment

from own_compiler import own_compiler
from ssvm_dsl.kernels.compiling.code_store import KeptEnvironment, rebuilt

pytestmark = own_compiler


def test_an_environment_is_rebuilt_without_importing_its_module():
    made = Environment({"__name__": "antigravity"})  # opens a browser when it is imported
    made.consts[:], made.env_name = [("a text",)], "environment of a test"
    data = pickle.dumps(KeptEnvironment(made))
    found = pickle.loads(data)
    assert found.globals["__name__"] == "antigravity"
    assert (list(found.consts), found.env_name) == ([("a text",)], "environment of a test")
    assert "antigravity" not in sys.modules
    assert lookup_environment("environment of a test") is found
    assert pickle.loads(data) is found
    assert found.can_cache()


def test_the_globals_are_those_of_a_module_that_is_there():
    found = rebuilt("json", [], "another environment of a test")
    assert found.globals is json.__dict__
