"""Where compiled kernels are kept when the package's own folders cannot be written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import fresh
import ssvm_dsl
from own_compiler import own_compiler
from ssvm_dsl import processors
from ssvm_dsl.kernels.compiling import compile_cache

pytestmark = own_compiler

#: Compiles one small kernel of the package, kept or not, and says where.
CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import ssvm_dsl.ir
    {before}
    from ssvm_dsl.kernels.vectors import assign
    import numpy as np
    out = np.zeros(3)
    assign(out, np.ones(3))
assert ssvm_dsl.__file__.startswith({folder!r}), ssvm_dsl.__file__
hits = assign.stats.cache_hits.total()
print(assign.stats.cache_path, hits, [str(one.message) for one in caught if one.category is RuntimeWarning])
"""


def copied(folder):
    """Copy the package to a folder, as another environment has it."""
    shutil.copytree(Path(ssvm_dsl.__file__).parent, folder / "ssvm_dsl", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "no-home").write_text("")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("site"))


def run(site, before="pass", **environment):
    """Compile a kernel in a fresh process: its folder, how many entries it found there, and what it warned of."""
    unset = ("SSVM_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    env |= {"PYTHONPATH": str(site), "HOME": str(site / "no-home"), **environment}
    code = CODE.format(before=before, folder=str(site))
    done = fresh.run(["-c", code], env=env, cwd=site)
    assert done.returncode == 0, done.stderr
    folder, hits, told = done.stdout.strip().split(" ", 2)
    return folder, int(hits), told


def test_kernels_are_kept_in_a_folder_of_the_users_for_all_environments(installed, tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder, hits, told = run(installed, **home)
    assert (folder, hits, told) == (str(tmp_path / "cache" / "ssvm-dsl" / "kernels"), 0, "[]")
    kept = {path.name.split("-")[0] for path in Path(folder).iterdir()}
    assert kept == {"assign", "self", "callback"}  # the last two by the self-test
    assert run(copied(tmp_path / "other"), PYTHONHASHSEED="7", **home)[1] == 1
    changed = tmp_path / "other" / "ssvm_dsl" / "kernels" / "vectors.py"
    changed.write_text(changed.read_text().replace("target[k] = ", "target[k] = 1.0 * "))
    assert run(tmp_path / "other", **home)[1] == 0


def test_without_a_home_it_is_a_temporary_one_and_says_so(installed, tmp_path):
    folder, _, told = run(installed, TMPDIR=str(tmp_path))
    assert Path(folder).parent.parent == tmp_path
    assert list(Path(folder).glob("assign*"))
    assert "set SSVM_CACHE_DIR to a folder that can" in told
    assert Path(folder).parent.stat().st_mode & 0o077 == 0


def test_without_any_folder_kernels_are_not_kept(installed, tmp_path):
    nowhere = f"import tempfile; tempfile.tempdir = {str(installed / 'no-home')!r}"
    folder, _, told = run(installed, before=nowhere, TMPDIR=str(tmp_path))
    assert folder == "None"
    assert "compiled code is not kept" in told
    assert not list(tmp_path.iterdir())


def test_the_environment_names_a_folder_or_none(installed, tmp_path):
    assert run(installed, SSVM_CACHE_DIR=str(tmp_path / "here"), NUMBA_CACHE_DIR="x")[0] == str(tmp_path / "here")
    assert run(installed, NUMBA_CACHE_DIR=str(tmp_path / "here"))[:2] == (str(tmp_path / "here"), 1)
    assert run(installed, SSVM_CACHE_DIR="off", HOME=str(tmp_path)) == ("None", 0, "[]")
    folder, _, told = run(installed, SSVM_CACHE_DIR=str(installed / "no-home"))
    assert (folder, "cannot be written" in told) == ("None", True)


def test_old_entries_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST_BYTES", 100)
    for age in range(6):
        path = tmp_path / f"f-{age}{compile_cache.SUFFIX}"
        path.write_bytes(bytes(20))
        os.utime(path, (1e9 - age, 1e9 - age))
    (tmp_path / "of somebody else").write_bytes(bytes(200))
    compile_cache.remove_oldest(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"of somebody else", *(f"f-{k}.kernel" for k in range(3))}


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
