"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from pathlib import Path
from types import GenericAlias, ModuleType

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from ssvm_dsl import __version__

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# Pictures are drawn without a window; kernels are compiled where they are used.
os.environ["MPLBACKEND"] = "Agg"
os.environ["SSVM_COMPILE_AHEAD"] = "off"

project, author, copyright = "ssvm-dsl", "the ssvm-dsl authors", "the ssvm-dsl authors"
release = version = __version__
templates_path = ["_templates"]
master_doc, language = "index", "en"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_examples", "gallery_header.rst", "**/GALLERY_HEADER.rst"]
suppress_warnings = ["config.cache"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
#: Blocks of what a program prints, whose numbers may differ, have no language.
lexers["output"] = TextLexer()

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "ssvm-dsl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": [],
}
#: What a page has is listed above the other pages, on the left: code takes the width that is left on the right.
html_sidebars = {"index": [], "**": ["page-toc", "sidebar-nav-bs"]}
html_show_sourcelink = False
copybutton_prompt_text = "$ "

#: Modules whose names users and authors of plug-ins import.
PUBLIC = [
    "ssvm_dsl",
    *(f"ssvm_dsl.{name}" for name in ("datasets", "errors", "io", "ir", "kernels", "plugin_api")),
    *(f"ssvm_dsl.{name}" for name in ("models", "report", "scoring", "testing")),
]

#: Pages outside this folder that are part of the site, and where.
INCLUDED = {"_pages/contributing.md": "CONTRIBUTING.md"}

LINK_UP = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]*)((?:#[^)]*)?)\)")


def link_within(app: object, name: str, source: list[str]) -> None:
    """Replace links to files outside the site: examples lead to the gallery, other names stay as text."""
    folder, up = (HERE / name).parent, "../" * name.count("/")

    def replaced(found: re.Match[str]) -> str:
        text, target = found[1], (folder / found[2]).resolve()
        if target.is_relative_to(HERE):
            return found[0]
        if target.is_relative_to(ROOT / "examples"):
            page = f"{TASK_OF[target.stem]}/plot_{target.stem}" if target.suffix == ".py" else "index"
            return f"[{text}](/gallery/examples/{page}.rst)"
        page = next((page for page, file in INCLUDED.items() if target == ROOT / file), None)
        return f"[{text}]({up}{page}{found[3]})" if page else text

    source[0] = LINK_UP.sub(replaced, source[0])


def mark_formulas(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Mark indented formulas of a docstring as literal text, and stars in shapes as stars."""
    marked: list[str] = []
    for line in lines:
        indented = line.startswith("    ") and len(marked) > 1 and not marked[-1]
        if indented and not marked[-2].startswith((" ", "-", "*", "::")):
            marked += ["::", ""]
        marked.append(re.sub(r"\(\*(?=\w)", r"(\\*", line) if "shape (" in line else line)
    lines[:] = marked


def skip_requests(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn makes for its metadata routing."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports: those of ``__all__``, or else what it defines."""
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = [name for name in getattr(module, "__all__", defined) if not name.startswith("_")]
    return sorted(name for name in names if not isinstance(getattr(module, name), GenericAlias))


#: Examples by task: a folder of the gallery, its title, its text, and the examples in order.
TASKS = {
    "sequences": (
        "Sequences", "One label for each position, or segments of several.",
        "ocr chunking names genes bio factorial network_scores latent_parts",
    ),
    "images_and_graphs": ("Images and graphs", "One label for each pixel or node; neighbours matter.", "horses trees"),
    "sets_and_orders": (
        "Sets, orders and matchings", "Several labels of one thing, rankings, and pairs.",
        "multilabel budget ranking alignment coreference points",
    ),
    "rules": ("Rules with weights", "Formulas over pairs of friends, as in Markov logic.", "votes smokers"),
    "sentence_trees": ("Trees of sentences", "Heads of words, and phrases within phrases.", "dependency parser"),
    "paths": ("Paths, plans and tours", "Outputs that are walks in a graph.", "planning value_functions counting"),
    "own_parts": ("Parts of your own", "What a plug-in looks like.", "own_backend"),
}  # fmt: skip
TASK_OF = {name: task for task, (_, _, names) in TASKS.items() for name in names.split()}

#: The names of ``ssvm_dsl`` by what people do with them; what stands nowhere here comes last.
USES = {
    "Declare a model": "Model ModelBuilder Dim Input Attributes Edges Positions Label Latent Pattern "
    "Factor Feature JointFeature Given",
    "Say what a factor joins": "chain pairs grid complete along cliques cross spans starts leaves siblings "
    "grandparents instances FULL POTTS SYMMETRIC ANTISYMMETRIC Form Target",
    "Compute features": "Standardized Scaled Whitened PLiF Quantiles Polynomial Hashed Kernel RandomFourier Nystroem "
    "Transform SpanMean SpanSum SpanLength",
    "Choose the loss": "Hamming ZeroOne Cost CountLoss CustomLoss NoLoss",
    "State constraints": "Forbid Allow BIO BIOES AtMost AtLeast Exactly ExactlyOne AllOf AnyOf Implies Iff Xor "
    "Count Not Linear Same Different Duration Constraint rules",
    "Declare structures": "AllDifferent Matching Arborescence ProjectiveTree Path Circuit Equivalence LinearOrder "
    "Transitive Acyclic Grammar ParseTree PartialTree Custom OutputSpace",
    "Train and predict": "StructuredSVM StructuredRegressor Estimator load CountingPredictor Dicycles Subsets "
    "MaximumLikelihoodHMM MaximumLikelihoodPCFG PartitionedDataset partitioned_files clusters linear_order",
    "Choose parameters": "regularization_path grid_scores nested_scores cross_val_predict",
    "Measure predictions": "score_report label_accuracy exact_match span_f1 mean_iou attachment_score bracket_scores "
    "alignment_error_rate named_scorer",
    "Solve factor graphs": "read_problem solve_problem ground estimate write_uai write_lp write_mps",
    "Read and convert data": "read_examples read_conll read_conllu read_images read_trees read_brackets as_json "
    "from_networkx to_networkx",
    "Extend": "register",
}


def groups_of(module: ModuleType, names: list[str]) -> dict[str, list[str]]:
    """Return the names of a module by what they are for; those of other modules than ``ssvm_dsl`` by what they are."""
    groups: dict[str, list[str]] = {}
    if module.__name__ == "ssvm_dsl":
        groups = {title: [name for name in listed.split() if name in names] for title, listed in USES.items()}
        known = {name for listed in groups.values() for name in listed}
        return groups | {"Others": [name for name in names if name not in known]}
    for name in names:
        value = getattr(module, name)
        kind = "Classes" if isinstance(value, type) else "Functions" if callable(value) else "Constants"
        groups.setdefault(kind, []).append(name)
    return {kind: groups[kind] for kind in ("Functions", "Classes", "Constants") if kind in groups}


def write_reference() -> None:
    """Write a page for each public module: tables of its names by what they are for, and a page for each of them."""
    folder = HERE / "reference" / "api"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    homes: dict[int, str] = {}
    for module in sorted(PUBLIC, key=lambda name: name != "ssvm_dsl.ir"):
        loaded = importlib.import_module(module)
        names = [name for name in public_names(loaded) if homes.setdefault(id(getattr(loaded, name)), module) == module]
        lines = [module, "=" * len(module), "", f".. automodule:: {module}", "", f".. currentmodule:: {module}", ""]
        for title, listed in groups_of(loaded, names).items():
            if listed:
                table = [".. autosummary::", "   :toctree: names", "   :nosignatures:", ""]
                lines += [title, "-" * len(title), "", *table, *(f"   {name}" for name in listed), ""]
        (folder / f"{module}.rst").write_text("\n".join(lines))


def copy_examples() -> None:
    """Copy the examples to where the gallery finds them, by task, each with what it does as its title.

    The first sentence of an example is ``what it does: how``; the indented lines below it say how to run it.
    """
    folder = HERE / "_examples"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(HERE / "gallery_header.rst", folder / "GALLERY_HEADER.rst")
    for task, (heading, note, names) in TASKS.items():
        (folder / task).mkdir()
        (folder / task / "GALLERY_HEADER.rst").write_text(f"{heading}\n{'-' * len(heading)}\n\n{note}\n")
        for name in names.split():
            summary, body = (ROOT / "examples" / f"{name}.py").read_text().split('"""', 2)[1:]
            first, _, rest = summary.partition("\n")
            title, _, how = first.partition(": ")
            usage = [line for line in rest.splitlines() if line.startswith("    ")]
            more = "\n".join(line for line in rest.splitlines() if not line.startswith("    ")).strip()
            how = f"{how[:1].upper()}{how[1:]}"
            text = f"{title}\n{'=' * len(title)}\n\n{how}\n\n{more}\n\n.. code-block:: sh\n\n" + "\n".join(usage)
            (folder / task / f"plot_{name}.py").write_text(f'"""\n{text}\n"""\n{body.lstrip()}')


def include_pages() -> None:
    """Copy pages from outside this folder."""
    for page, file in INCLUDED.items():
        (HERE / page).parent.mkdir(exist_ok=True)
        (HERE / page).write_text((ROOT / file).read_text().replace("](docs/", "](../"))


sphinx_gallery_conf = {
    "examples_dirs": ["_examples", "pictures"],
    "gallery_dirs": ["gallery/examples", "gallery/pictures"],
    "filename_pattern": r"plot_",
    "reset_argv": lambda conf, script: [str(HERE / "_build" / "example.png")],
    "subsection_order": [f"_examples/{task}" for task in TASKS],
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (480, 320),
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "reset_modules": (),
}


def setup(app: object) -> None:
    app.connect("source-read", link_within)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", skip_requests)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", mark_formulas, priority=100)  # type: ignore[attr-defined]


(HERE / "_build").mkdir(exist_ok=True)
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples" / "catalogue")]
write_reference()
copy_examples()
include_pages()
