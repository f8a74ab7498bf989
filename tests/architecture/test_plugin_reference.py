"""The reference of the plug-in interface is what the docstrings say, and has what authors ask for."""

from __future__ import annotations

import runpy

from sources import ROOT

WRITER = runpy.run_path(str(ROOT / "docs" / "plugin_reference.py"))


def test_the_page_is_what_the_docstrings_say():
    assert WRITER["PAGE"].read_text() == WRITER["page"](), "run python docs/plugin_reference.py"


def test_it_has_members_with_their_signatures():
    entry = WRITER["entry"]("ssvm_dsl.plugin_api", "Clock")
    assert "\n    left\n        Seconds left, at least 0." in entry
    assert "\n    afford(seconds: float) -> None\n" in entry
    assert "least, most : ndarray of float64" in WRITER["entry"]("ssvm_dsl.ir", "LinearRows")
    assert "packed_longs(longs: I64, number: int) -> I64" in WRITER["entry"]("ssvm_dsl.kernels", "packed_longs")
