"""Users' own models pass ``mypy --strict``, and their mistakes do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mypy(name: str) -> list[tuple[int, str]]:
    """Return (line, error code) of every error mypy finds in a file of this folder."""
    pytest.importorskip("mypy")
    options = ["--strict", "--follow-imports=silent", "--hide-error-context", "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options, str(HERE / name)]
    env = {**os.environ, "MYPYPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")])}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found = re.findall(rf"{name}:(\d+):.*? error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert bool(found) == bool(done.returncode), done.stdout
    return [(int(line), code) for line, code in found]


def test_a_users_models_are_clean():
    assert mypy("user_model.py") == []


def test_a_users_mistakes_are_found():
    lines = (HERE / "mistakes.py").read_text().splitlines()
    expected = [(k, m.group(1)) for k, line in enumerate(lines, 1) if (m := re.search(r"# \[([a-z-]+)\]$", line))]
    assert mypy("mistakes.py") == expected
