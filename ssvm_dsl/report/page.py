"""One page of HTML about a fit: sections of tables and pictures, in a single file that needs no network.

Pictures are SVG inside the page, colours follow the reader's light or dark theme, and all texts are escaped: names of
classes and features are input that nobody has checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from ssvm_dsl.errors import OptionError

if TYPE_CHECKING:
    from ssvm_dsl.inference.planning.plans import Plan
    from ssvm_dsl.learning.driver.certificate import FitReport

#: Characters of a page at most: pictures that do not fit are left out, and the page says so.
MOST = 2_000_000

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ title }}</title>
<style>
:root { --ink: #1b1f24; --faint: #57606a; --line: #d8dee4; --page: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9da7b1; --line: #3d444d; --page: #0d1117; }
  figure { background: #ffffff; border-radius: 6px; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, td, th { overflow-wrap: anywhere; } .note { color: var(--faint); }
pre { overflow-x: auto; font-size: 13px; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 500; } td:first-child { white-space: nowrap; }
caption { text-align: left; font-weight: 600; }
figure { margin: 0.5rem 0; padding: 0.5rem; } figure svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for section in sections %}
<section id="{{ section.anchor }}">
<h2>{{ section.title }}</h2>
{% if section.note %}<p class="note">{{ section.note }}</p>{% endif %}
{% if section.text %}<pre>{{ section.text }}</pre>{% endif %}
{% for table in section.tables %}
<div class="wide"><table>{% if table.title %}<caption>{{ table.title }}</caption>{% endif %}
{% if table.columns %}<tr>{% for name in table.columns %}<th>{{ name }}</th>{% endfor %}</tr>{% endif %}
{% for row in table.rows %}<tr>{% for one in row %}<td>{{ one }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{% endfor %}
{% for picture in section.pictures %}<figure>{{ picture | safe }}</figure>
{% endfor %}
</section>
{% endfor %}
</body>
</html>
"""


@dataclass(frozen=True)
class PageTable:
    """A table of texts."""

    rows: Sequence[Sequence[str]]
    columns: Sequence[str] = ()
    title: str = ""


@dataclass
class Section:
    """A part of a page.

    Parameters
    ----------
    title : str
    note : str
        A sentence below the title, e.g. what is missing and why.
    text : str
        Shown as it is, line by line.
    tables : list of PageTable
    pictures : list of str
        SVG elements.
    """

    title: str
    note: str = ""
    text: str = ""
    tables: list[PageTable] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """The name that links to the section."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")

    def draw(self, draw: Callable[[Any], object], width: float = 7.0, height: float = 3.5) -> None:
        """Add a picture; what cannot be drawn is said in its place.

        Parameters
        ----------
        draw : callable
            Draws on the axes that it is given.
        width, height : float
            Inches.
        """
        try:
            self.pictures.append(svg_of(draw, width, height))
        except OptionError as err:
            self.note = f"{self.note} There is no picture: {err}.".strip()


def svg_of(draw: Callable[[Any], object], width: float, height: float) -> str:
    """Return a picture as an SVG element.

    Parameters
    ----------
    draw : callable
        Draws on the matplotlib axes that it is given.
    width, height : float
        Inches.

    Raises
    ------
    OptionError
        There is nothing to draw, or no matplotlib.
    """
    from ssvm_dsl.report.plots import new_figure

    figure = new_figure(width, height)
    from matplotlib import rc_context

    draw(figure.add_subplot())
    text = StringIO()
    with rc_context({"svg.hashsalt": "ssvm"}):  # the same picture is the same text
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL).strip()


def html_page(title: str, sections: Sequence[Section]) -> str:
    """Return a page of HTML, of at most :data:`MOST` characters.

    Parameters
    ----------
    title : str
    sections : sequence of Section
        In their order; the pictures of the last ones are left out where they do not fit.
    """
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_PAGE)
    kept = list(sections)
    while len(page := template.render(title=title, sections=kept)) > MOST:
        drawn = [k for k, one in enumerate(kept) if one.pictures]
        if not drawn:
            break
        last = kept[drawn[-1]]
        note = f"{last.note} A picture of {len(last.pictures[-1]) // 1000} kB is left out.".strip()
        kept[drawn[-1]] = Section(last.title, note, last.text, last.tables, last.pictures[:-1])
    return page


def _plan(plan: Plan) -> Section:
    """Return the section on how the backend was chosen."""
    rows = [("backend", plan.backend), ("needed", plan.need), ("why", plan.reason)]
    return Section("Plan", tables=[PageTable([(name, str(text)) for name, text in rows if text])])


def fit_sections(report: FitReport | None) -> Iterator[Section]:
    """Yield the sections on a fit: its certificate, its plan, its curves.

    Parameters
    ----------
    report : FitReport, optional
        ``None`` for weights that were given, not learnt.
    """
    from ssvm_dsl.report.plots import plot_training

    if report is None:
        yield Section("Certificate", "The weights were given, not learnt here: nothing is known of how good they are.")
        return
    yield Section("Certificate", tables=[PageTable(list(report.rows()))])
    yield _plan(report.plan)
    curves = Section("Training curves")
    if not report.history:
        curves.note = "A saved model does not hold the history of its fit."
    else:
        for what in ("objective", "gap"):
            curves.draw(lambda ax, what=what: plot_training(report, what=what, ax=ax))  # type: ignore[misc]
    yield curves
