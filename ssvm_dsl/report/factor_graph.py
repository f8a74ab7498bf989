"""Draw the graph of a model, or the factor graph of an example: variables, factors and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.errors import OptionError
from ssvm_dsl.io.networkx_graph import FACTOR, to_networkx
from ssvm_dsl.report.plots import axes_for

if TYPE_CHECKING:
    from networkx import Graph

    from ssvm_dsl.compiler.ground import Grounded
    from ssvm_dsl.ir.graph_problem import GraphProblem
    from ssvm_dsl.lang.model import Model

#: Larger graphs are refused: nobody could see anything.
MOST_NODES = 2000

#: Graphs with more nodes than ``FEW`` have no names on them; forces are worked out pair by pair up to ``SOME``.
FEW, SOME = 60, 300

#: Names shown along each axis of weights.
NAMES = 3

#: Variables are circles, factors squares in one colour for each template.
VARIABLE_COLOR, COLORS = "#dddddd", "tab10"


def plot_factor_graph(model: type[Model] | Grounded | GraphProblem | Graph, example: int = 0, ax: Any = None) -> Any:
    """Draw a model (labels, factor templates, weights and their names), or the factor graph of one example.

    Parameters
    ----------
    model : Model class, Grounded, GraphProblem or networkx.Graph
        An argument of :func:`~ssvm_dsl.to_networkx`, or its result.
    example : int
        Which example of grounded data.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    OptionError
        The graph has more than 2000 nodes, or there is no matplotlib.
    """
    import networkx

    graph = model if isinstance(model, networkx.Graph) else to_networkx(model, example)
    if len(graph) > MOST_NODES:
        raise OptionError(f"a graph of {len(graph)} nodes is too large to draw; {MOST_NODES} are the most")
    ax = axes_for(ax)
    ax.set_axis_off()
    if graph.is_multigraph():
        _draw_model(graph, ax)
    else:
        _draw_example(graph, ax)
    return ax


# -- models --------------------------------------------------------------------------------------------------


def _draw_model(graph: Any, ax: Any) -> None:
    """Draw labels on the left, factor templates with their weights on the right."""
    import networkx

    labels, factors = _parts(graph)
    place = _column(labels, 0.0) | _column(factors, 1.0)
    networkx.draw_networkx_edges(graph, place, edgelist=list(dict.fromkeys(graph.edges())), edge_color="grey", ax=ax)
    counts = {edge: graph.number_of_edges(*edge) for edge in graph.edges()}
    times = {edge: f"{n} times" for edge, n in counts.items() if n > 1}
    networkx.draw_networkx_edge_labels(graph, place, times, ax=ax)
    _draw_nodes(graph, place, labels, factors, size=300, ax=ax)
    for label in labels:
        facts = graph.nodes[label]
        text = f"{label}[{', '.join(facts['axes'])}]" if facts["axes"] else label
        _write(ax, place[label], f"{text}\n{facts['n_states']} states", "right")
    for factor in factors:
        facts = graph.nodes[factor]
        target = f"{facts['target']}, {facts['features']}" if facts["features"] else facts["target"]
        lines = [f"{factor}: {target}", facts["weights"], names_text(facts["weight_names"])]
        _write(ax, place[factor], "\n".join(filter(None, lines)), "left")
    ax.set_xlim(-0.6, 2.2)
    ax.set_title(graph.name)


def names_text(axes: Sequence[Sequence[Any]] | None) -> str:
    """Return the names of weights in short: the first few along each axis."""
    if axes is None:
        return "named in training"
    shown = []
    for names in axes:
        first = ", ".join(str(name) for name in names[:NAMES])
        shown.append(first + (" ..." if len(names) > NAMES else ""))
    return "  by  ".join(shown)


def _column(nodes: Sequence[Any], x: float) -> dict[Any, tuple[float, float]]:
    """Return places in a column, the first on top."""
    return {node: (x, -(k + 0.5) / len(nodes)) for k, node in enumerate(nodes)}


def _write(ax: Any, place: tuple[float, float], text: str, side: str) -> None:
    gap = -0.08 if side == "right" else 0.08
    ax.text(place[0] + gap, place[1], text, ha=side, va="center", fontsize="small")


# -- examples ------------------------------------------------------------------------------------------------


def _draw_example(graph: Any, ax: Any) -> None:
    """Draw variables where the model has them, or where springs put them, and factors between them."""
    import networkx

    variables, factors = _parts(graph)
    place = _places(graph, variables, factors)
    size = float(np.clip(6000.0 / max(len(graph), 1), 8.0, 300.0))
    networkx.draw_networkx_edges(graph, place, edge_color="grey", ax=ax)
    _draw_nodes(graph, place, variables, factors, size, ax)
    if len(variables) <= FEW:
        names = {node: str(node) for node in variables}
        networkx.draw_networkx_labels(graph, place, names, font_size=7, ax=ax)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _places(graph: Any, variables: list[Any], factors: list[Any]) -> dict[Any, Any]:
    """Return a place for each node."""
    import networkx

    place = _positions(graph, variables, factors)
    if place is None:
        arrange = networkx.kamada_kawai_layout if len(graph) <= SOME else networkx.spring_layout
        places: dict[Any, Any] = arrange(graph) if len(graph) <= SOME else arrange(graph, seed=0)
        return places
    beside: dict[Any, int] = {}
    for factor in factors:
        scope = graph.nodes[factor]["scope"]
        key = frozenset(scope)
        beside[key] = beside.get(key, -1) + 1  # several factors over the same variables
        place[factor] = np.mean([place[v] for v in scope], axis=0) + beside[key] * np.array([0.12, 0.12])
    return place


def _positions(graph: Any, variables: list[Any], factors: list[Any]) -> dict[Any, Any] | None:
    """Return variables' places by their positions on one or two axes, where factors join neighbours only."""
    place: dict[Any, Any] = {}
    down = 0
    for label in dict.fromkeys(graph.nodes[v].get("label") for v in variables):
        mine = [v for v in variables if graph.nodes[v].get("label") == label]
        at = [graph.nodes[v].get("position", (0, 0, 0)) for v in mine]
        if any(len(one) > 2 for one in at):
            return None
        rows = [(0, *one)[-2:] if one else (0, 0) for one in at]
        place |= {v: np.array([column, -down - row], dtype=float) for v, (row, column) in zip(mine, rows, strict=True)}
        down += 2 + max(row for row, _ in rows)
    for factor in factors:
        scope = graph.nodes[factor]["scope"]
        same = len({graph.nodes[v]["label"] for v in scope}) == 1
        if same and np.ptp([place[v] for v in scope], axis=0).max() > len(scope) - 1:
            return None
    return place


def _draw_nodes(graph: Any, place: Any, variables: list[Any], factors: list[Any], size: float, ax: Any) -> None:
    """Draw circles for variables and squares for factors, named in the legend by their templates."""
    import matplotlib
    import networkx

    style = {"ax": ax, "edgecolors": "black", "linewidths": 0.5}
    texts = {v: _legend(graph.nodes[v].get("label", ""), graph.nodes[v].get("unary", {})) for v in variables}
    for text in dict.fromkeys(texts.values()):
        mine = [v for v in variables if texts[v] == text]
        networkx.draw_networkx_nodes(graph, place, mine, node_size=size, node_color=VARIABLE_COLOR, label=text, **style)
    colors = matplotlib.colormaps[COLORS]
    templates = list(dict.fromkeys(graph.nodes[f].get("factor", f) for f in factors))
    for k, template in enumerate(templates):
        mine = [f for f in factors if graph.nodes[f].get("factor", f) == template]
        text = f"{template}  {graph.nodes[mine[0]].get('weights', '')}".strip()
        more = {"node_shape": "s", "label": text, **style}
        networkx.draw_networkx_nodes(graph, place, mine, node_size=0.6 * size, node_color=[colors(k % 10)], **more)


def _legend(label: str, unary: dict[str, str]) -> str:
    """Return the legend of the variables of a label."""
    return "\n".join([label or "variables", *(f"  {name}  {weights}" for name, weights in unary.items())])


def _parts(graph: Any) -> tuple[list[Any], list[Any]]:
    """Return (variables, factors)."""
    factors = [node for node, kind in graph.nodes(data="kind") if kind == FACTOR]
    known = set(factors)
    return [node for node in graph if node not in known], factors
