"""The layers of ssvm-torch beside pytorch-crf, where torch is there: the script is the package's own."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "ssvm-torch"


def main():
    if find_spec("torch") is None:
        print("torch is not installed here: skipped")
        return
    sys.path.insert(0, str(PACKAGE / "src"))
    runpy.run_path(str(PACKAGE / "benchmarks" / "crf_speed.py"), run_name="__main__")
