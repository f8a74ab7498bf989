"""The packages in ``plugins/`` are what a stranger would write: complete, and on exported names alone."""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module

import pytest
from sources import BUNDLED, ROOT, imports

PACKAGES = sorted(path.name for path in (ROOT / "plugins").glob("ssvm-*"))

#: What their sources may import of ssvm-dsl; their tests may use what every user may, and the kit.
CONTRACT = ("ssvm_dsl.errors", "ssvm_dsl.ir", "ssvm_dsl.kernels", "ssvm_dsl.plugin_api")
PUBLIC = ("ssvm_dsl", "ssvm_dsl.testing", *CONTRACT)

#: Packages of executors: there is no kit for these, so their tests compare with fits in one process.
EXECUTORS = {"ssvm-dask"}

#: Packages of commands, which have no kit either.
COMMANDS = {"ssvm-papers"}

#: Packages that use declared models, as every user may; all but commands register nothing.
OF_USERS = {
    "ssvm-papers": ("ssvm_dsl", "ssvm_dsl.datasets", "ssvm_dsl.io", "ssvm_dsl.models", "ssvm_dsl.testing", *CONTRACT),
    "ssvm-pystruct": ("ssvm_dsl", "ssvm_dsl.datasets", "ssvm_dsl.models", "ssvm_dsl.scoring"),
    "ssvm-torch": ("ssvm_dsl", "ssvm_dsl.errors", "ssvm_dsl.scoring"),
}


def strange_imports(source: str, allowed: tuple[str, ...], own: str) -> list[str]:
    """Return what a file imports that is not exported by ssvm-dsl and its bundled plug-ins, or that is private."""
    out = []
    for found in imports(ast.parse(source), own, False):
        if found.module.split(".")[0] in ("ssvm_dsl", *BUNDLED):
            fine = found.module in allowed and found.name in names_of(found.module)
        else:
            fine = found.module.split(".")[0] != own or not found.name.startswith("_") or found.name.startswith("__")
        if not fine:
            out.append(f"line {found.line}: {found.module}:{found.name}")
    return out


def names_of(module: str) -> set[str]:
    """Return the exported names: ``__all__``, and for the errors every class."""
    loaded = import_module(module)
    return set(getattr(loaded, "__all__", [name for name in vars(loaded) if name[0].isupper()]))


def test_there_are_packages():
    assert {"ssvm-dask", "ssvm-maxflow", "ssvm-papers", "ssvm-pystruct", "ssvm-torch", "ssvm-toulbar2"} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_complete(package):
    folder, module = ROOT / "plugins" / package, package.replace("-", "_")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == package
    assert "ssvm-dsl" in project["dependencies"]
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} >= {"README.md", "src", "tests"}
    assert (folder / "src" / module / "__init__.py").exists()
    if package in OF_USERS and package not in COMMANDS:
        assert "entry-points" not in project
        return
    assert project["entry-points"] == {"ssvm": {package.removeprefix("ssvm-"): module}}
    if package not in EXECUTORS | COMMANDS:
        assert "backend_conformance" in (folder / "tests" / "test_conformance.py").read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_exported_names_alone(package):
    folder, module = ROOT / "plugins" / package, package.replace("-", "_")
    own = OF_USERS.get(package, CONTRACT)
    for path in folder.glob("src/**/*.py"):
        assert strange_imports(path.read_text(), own, module) == [], path
    for path in folder.glob("tests/**/*.py"):  # which may look inside
        assert strange_imports(path.read_text(), (*PUBLIC, *own), "tests") == [], path


@pytest.mark.parametrize("package", PACKAGES)
def test_files_say_what_they_are(package):
    for path in (ROOT / "plugins" / package).glob("**/*.py"):
        assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "from ssvm_dsl.ir.solution import score_labels",
        "from ssvm_dsl.inference.session import open_plan",
        "from ssvm_backends.search.combi import Combi",
        "from ssvm_dsl.ir import ragged",
        "import ssvm_dsl",
    ],
)
def test_other_names_are_noticed(source):
    assert strange_imports(source, CONTRACT, "ssvm_other")


@pytest.mark.parametrize(
    "source",
    [
        "from ssvm_dsl import Nothing",
        "from ssvm_dsl.datasets.letters import load_letters",
        "from ssvm_dsl.registry import registry",
        "from ssvm_backends.trees.chain import Chain",
        "from ssvm_papers.results.page import _cells",
    ],
)
def test_other_names_are_noticed_in_packages_of_users(source):
    assert strange_imports(source, OF_USERS["ssvm-papers"], "ssvm_papers")
