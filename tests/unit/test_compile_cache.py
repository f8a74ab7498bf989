"""Where compiled kernels are kept when the package's own folders cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import ssvm_dsl
from ssvm_dsl import processors
from ssvm_dsl.ir import compile_cache

#: Compiles one small kernel of the package, kept or not, and says where.
CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import ssvm_dsl.ir
    {before}
    from ssvm_dsl.ir.assign import assign
    import numpy as np
    out = np.zeros(3)
    assign(out, np.ones(3))
import os
assert ssvm_dsl.__file__.startswith({folder!r}), ssvm_dsl.__file__
print(os.environ.get("NUMBA_CACHE_DIR"), [str(one.message) for one in caught if one.category is RuntimeWarning])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package with files where numba would make folders: nobody can write there, root neither."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(ssvm_dsl.__file__).parent, site / "ssvm_dsl", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [site / "ssvm_dsl", *(site / "ssvm_dsl").rglob("*/")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("")
    (site / "no-home").write_text("")
    return site


def run(site, before="pass", **environment):
    env = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(site / "no-home"), **environment}
    code = CODE.format(before=before, folder=str(site))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=site, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder, _, told = done.stdout.strip().partition(" ")
    return folder, told


def test_a_read_only_install_keeps_kernels_in_a_folder_of_the_users(installed, tmp_path):
    folder, told = run(installed, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (folder, told) == (str(tmp_path / "cache" / "ssvm-dsl" / "numba"), "[]")
    assert list(Path(folder).rglob("*.nbi"))


def test_without_a_home_it_is_a_temporary_one_and_says_so(installed, tmp_path):
    folder, told = run(installed, TMPDIR=str(tmp_path))
    assert Path(folder).parent.parent == tmp_path
    assert list(Path(folder).rglob("*.nbi"))
    assert "set NUMBA_CACHE_DIR to a folder that can" in told
    assert Path(folder).parent.stat().st_mode & 0o077 == 0


def test_without_any_folder_kernels_are_not_kept(installed, tmp_path):
    run(installed, before="ssvm_dsl.ir.compile_cache.keep_nothing()", TMPDIR=str(tmp_path))
    assert not list(tmp_path.rglob("*.nbi"))


def test_when_nothing_can_be_written_it_says_so_and_goes_on(monkeypatch, tmp_path):
    called = []
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compile_cache, "folders", lambda: iter(()))
    monkeypatch.setattr(compile_cache, "keep_nothing", lambda: called.append(True))
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="compiled code is not kept"):
        compile_cache.prepare(tmp_path / "file")
    assert called == [True]


def test_nothing_happens_where_numba_can_write(monkeypatch, tmp_path):
    monkeypatch.setattr(compile_cache, "use", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_cache.prepare(tmp_path)
        monkeypatch.setenv("NUMBA_CACHE_DIR", "somewhere")
        compile_cache.prepare(tmp_path / "nowhere" / "file")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_others_can_write_is_not_trusted(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert not compile_cache.writable(tmp_path / "open" / "numba", private=True)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not compile_cache.writable(tmp_path / "link" / "numba", private=True)
    assert compile_cache.writable(tmp_path / "mine" / "numba", private=True)


def test_processors_are_counted_on_every_system(monkeypatch):
    assert processors.available() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # macOS, Windows
    assert processors.available() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors.available() == 1
