"""What stands around the package: the commands of the Makefile, and CI's rule about real data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib

import pytest
from sources import ROOT

TARGETS = ("demo", "test", "test-sensitive", "test-pythons", "test-plugins", "check", "bench", "docs")

DATA_TESTS = """
import pytest

def test_with_folder(data_dir):
    assert data_dir.is_dir()

@pytest.mark.data
def test_with_file():
    pytest.skip("the file is not there")

def test_other():
    pytest.skip("needs something else")
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_lists_its_targets():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert set(TARGETS) <= set(listed)
    for target in TARGETS:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)


def test_ci_runs_checks_and_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert lines[-5:] == ["make check", "make test", "make test-plugins", "make test-sensitive", "make test-numba"]
    assert "set -euo pipefail" in lines


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_what_is_sensitive_meets_another_processor_and_no_data():
    env = {**os.environ, "SSVM_DATA": "there", "SSVM_REQUIRE_DATA": "1"}
    command = ["make", "--dry-run", "test-sensitive", "CORE=Sandybridge"]
    recipe = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    for words in ("-u SSVM_DATA", "-u SSVM_REQUIRE_DATA", "OPENBLAS_CORETYPE=Sandybridge", "-m sensitive"):
        assert words in recipe


def test_the_lowest_versions_are_those_of_the_project():
    lines = subprocess.run([ROOT / ".ci" / "floors", "test"], capture_output=True, text=True, check=True).stdout.split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert len(lines) == len(asked)
    for line in lines:
        name, _, version = line.removesuffix(".*").partition("==")
        assert any(one.startswith(f"{name}>={version}") for one in asked)


@pytest.fixture
def run_data_tests(tmp_path):
    """Run DATA_TESTS under this project's conftest with the given variables; return pytest's counts."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_data.py").write_text(DATA_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = data: needs data\n")

    def run(**variables: str) -> str:
        env = {key: value for key, value in os.environ.items() if not key.startswith("SSVM_")}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
        done = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()[-1].split(" in ")[0]

    return run


def test_data_tests_are_skipped_without_data(run_data_tests):
    assert run_data_tests() == "3 skipped"


def test_ci_counts_a_skipped_data_test_as_failed(run_data_tests):
    assert run_data_tests(SSVM_REQUIRE_DATA="1") == "1 failed, 1 skipped, 1 error"


def test_data_tests_run_with_data(run_data_tests, tmp_path):
    assert run_data_tests(SSVM_DATA=str(tmp_path)) == "1 passed, 2 skipped"
