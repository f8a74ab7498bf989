"""The command as an installed package brings it: what it lists, and a small run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def ssvm(*arguments):
    """Run the command line; return what it prints."""
    command = [str(Path(sys.executable).with_name("ssvm")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_experiments_are_listed():
    names = [one["name"] for one in json.loads(ssvm("reproduce", "list", "--json"))]
    assert {"ocr", "ladar", "value-functions"} <= set(names)


def test_a_quick_run_keeps_its_result_and_judges_nothing(tmp_path):
    (found,) = json.loads(ssvm("reproduce", "stripes", "--quick", "--results", str(tmp_path), "--json"))["results"]
    assert found["size"] == "quick"
    assert all(row["ours"] for row in found["rows"])
    assert list(tmp_path.iterdir())
