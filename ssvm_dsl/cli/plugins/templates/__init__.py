"""The packages that ``ssvm plugins new`` writes, a module for each kind of plug-in.

In all texts ``{name}`` and ``{module}`` are filled in.  The package lies under ``src``: in the parent folder a name
without a hyphen would otherwise be the folder of the project, and not the installed package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "The {what} '{name}' for ssvm-dsl"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["ssvm-dsl"]

[project.optional-dependencies]
test = ["pytest"]

# How ssvm-dsl finds the plug-in: the module with the hooks.
[project.entry-points.ssvm]
{name} = "{module}"

[tool.setuptools]
package-dir = {"" = "src"}
packages = ["{module}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

README = """\
# {name}

The {what} `{name}` for ssvm-dsl.

    pip install --editable .[test]        # offline: pip install --no-build-isolation --no-deps --editable .
{tried}
    python -m pytest

{use}

| file | what |
|---|---|
{rows}
"""


@dataclass(frozen=True)
class PackageTemplate:
    """A package with a plug-in.

    Parameters
    ----------
    what : str
        Kind of plug-in, in words.
    hooks : str
        The module that the host reads at start.
    files : mapping of str to (what, text)
        Further files of the package, by their paths in it.
    test : (file, what, text)
        Its test.
    use : str
        How users name it.
    tried : str
        The command that shows or checks it; ``{folder}`` is the folder of the project.
    extra : mapping of str to (what, text)
        Files of the project beside these.
    """

    what: str
    hooks: str
    files: Mapping[str, tuple[str, str]]
    test: tuple[str, str, str]
    use: str
    tried: str = "ssvm plugins check {name}"
    extra: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def written(self, name: str) -> dict[str, str]:
        """Return the files of the project by their paths in it."""
        about = {"src/{module}/__init__.py": ("what ssvm-dsl reads at start", self.hooks)}
        about |= {f"src/{{module}}/{path}": entry for path, entry in self.files.items()}
        about |= {f"tests/{self.test[0]}": self.test[1:], **self.extra}
        rows = "\n".join(f"| `{path}` | {what} |" for path, (what, _) in about.items())
        tried = f"    {self.tried.replace('{folder}', '.')}"
        readme = README.replace("{rows}", rows).replace("{tried}", tried).replace("{use}", self.use)
        texts = {"pyproject.toml": PROJECT, "README.md": readme, **{path: text for path, (_, text) in about.items()}}
        return {self.filled(path, name): self.filled(text, name) for path, text in texts.items()}

    def filled(self, text: str, name: str) -> str:
        """Return a text with the names of the plug-in and of its module, ``my-solver`` and ``my_solver``."""
        for word, value in (("{name}", name), ("{module}", name.replace("-", "_")), ("{what}", self.what)):
            text = text.replace(word, value)
        return text
