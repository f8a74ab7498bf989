"""One wheel carries the package, both bundled plug-ins and the letters, and nothing else."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile

import pytest
from sources import BUNDLED, PAPERS, ROOT, product_files

PACKAGES = ("ssvm_dsl", *BUNDLED)
SHIPPED = ("pyproject.toml", "README.md", "LICENSE", "ssvm_dsl", "plugins", "tests", "examples", "docs")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The built wheel, from a copy of the sources (a build leaves files behind)."""
    folder = tmp_path_factory.mktemp("wheel")
    source, out = folder / "source", folder / "out"
    source.mkdir()
    for name in SHIPPED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif path.exists():
            shutil.copy(path, source / name)
    out.mkdir()
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"  # what pip asks of a project
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_all_modules_ship(wheel):
    files = [path for path in product_files() if not path.is_relative_to(ROOT / PAPERS)]
    expected = {path.relative_to(ROOT).as_posix().removeprefix("plugins/") for path in files}
    assert expected <= set(wheel.namelist())
    for package in PACKAGES:
        assert any(name.startswith(f"{package}/") for name in expected)


def test_data_markers_and_licences_ship(wheel):
    names = wheel.namelist()
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    assert "ssvm_dsl/datasets/letters.txt" in names
    assert wheel.getinfo("ssvm_dsl/datasets/letters.npz").file_size <= 700_000
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_nothing_else_ships(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in wheel.namelist() if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_entry_points(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(wheel.read(name).decode())
    assert dict(points["ssvm"]) == {package.removeprefix("ssvm_"): package for package in BUNDLED}
    assert dict(points["console_scripts"]) == {"ssvm": "ssvm_dsl.cli.main:main"}
    assert dict(points["pytest11"]) == {"ssvm_dsl": "ssvm_dsl.testing.pytest_plugin"}
