"""The template of a page."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d8dee4;--box:#f6f8fa;--pos:#b3261e;
--neg:#1f5fbf;--ok:#1a7f37;--c0:#e4e7eb;--c1:#1f5fbf;--c2:#c2700c;--c3:#1a7f37;--c4:#8250df;--c5:#b3261e;--c6:#0e7c86;--c7:#7d6608}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9da7b1;--line:#3d444d;--box:#161b22;--pos:#ff8a80;
--neg:#79b8ff;--ok:#56d364;--c0:#30363d;--c1:#79b8ff;--c2:#f0a94b;--c3:#56d364;--c4:#c297ff;--c5:#ff8a80;--c6:#56d4dd;--c7:#e3d26f}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1000px;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6em;margin:.2em 0}h2{font-size:1.2em;margin:1.6em 0 .4em;border-bottom:1px solid var(--line)}
h3{font-size:1em;margin:1.2em 0 .3em}p{margin:.4em 0}nav a{margin-right:1em;color:var(--neg)}
.dim,.missing,footer{color:var(--dim)}.missing{border-left:3px solid var(--line);padding-left:10px}
.scroll{overflow-x:auto;max-width:100%}.side{display:flex;flex-wrap:wrap;gap:16px}
table{border-collapse:collapse;font-size:13px}
th,td{text-align:left;vertical-align:top;padding:2px 12px 2px 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--dim);font-weight:500;white-space:nowrap}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:13px ui-monospace,monospace}svg{max-width:100%;height:auto}svg text{fill:var(--fg);font:11px system-ui,sans-serif}
svg text.d{fill:var(--dim)}.box rect{fill:var(--box);stroke:var(--line)}.box.factor rect{stroke:var(--neg)}
.box.label rect{stroke:var(--ok)}.edge{stroke:var(--dim);fill:none}.axis{stroke:var(--line);fill:none}
.value{stroke:var(--neg);fill:var(--neg)}.bound{stroke:var(--pos);fill:var(--pos)}.estimate{stroke:var(--dim);fill:var(--dim)}
polyline{fill:none!important;stroke-width:1.6}.bound polyline{stroke-dasharray:6 3}.estimate polyline{stroke-dasharray:2 3}
circle{stroke:none}.p{fill:var(--pos)}.m{fill:var(--neg)}.frame{fill:var(--box)}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)}.c5{fill:var(--c5)}
.c6{fill:var(--c6)}.c7{fill:var(--c7)}.c9{fill:var(--pos)}.c10{fill:var(--c0)}
.labels{display:flex;flex-wrap:wrap;gap:2px}.labels div{border:1px solid var(--line);padding:0 4px;font-size:12px;text-align:center}
.labels .w{color:var(--pos);border-color:var(--pos);font-weight:600}.labels .head{border-color:transparent;color:var(--dim);text-align:left}
.conf td,.conf th{text-align:center;padding:1px 4px;border:0;font-size:11px}.conf td.z{color:var(--dim)}
.conf .r{background:color-mix(in srgb,var(--ok) 25%,transparent)}.conf .x{background:color-mix(in srgb,var(--pos) 25%,transparent)}
"""

MACROS = """
{% macro missing(text) %}<p class="missing">{{ text }}</p>{% endmacro %}
{% macro model(b) %}
<div class="scroll"><svg width="{{ b.width }}" height="{{ b.height }}" viewBox="0 0 {{ b.width }} {{ b.height }}" role="img" aria-label="the model: inputs, factors, labels" style="min-width:640px">
{% for x, y, u, v in b.lines %}<path class="edge" d="M{{ x }} {{ y }}C{{ x + 35 }} {{ y }} {{ u - 35 }} {{ v }} {{ u }} {{ v }}"/>{% endfor %}
{% for one in b.boxes %}
<g class="box {{ one.kind }}"><rect x="{{ one.x }}" y="{{ one.y }}" width="{{ b.box_width }}" height="{{ b.box }}" rx="{{ 16 if one.kind == 'label' else 3 }}"/>
<text x="{{ one.x + 12 }}" y="{{ one.y + 14 }}">{{ one.name }}</text><text class="d" x="{{ one.x + 12 }}" y="{{ one.y + 28 }}">{{ one.note }}</text></g>
{% endfor %}
</svg></div>
{% endmacro %}
{% macro chart(c) %}
<figure style="margin:0;max-width:100%"><figcaption>{{ c.title }}</figcaption>
<svg width="{{ c.width }}" height="{{ c.height }}" viewBox="0 0 {{ c.width }} {{ c.height }}" role="img" aria-label="{{ c.title }}">
<path class="axis" d="M{{ c.left }} 4V{{ c.bottom }}H{{ c.width - 4 }}"/>
{% for x, text in c.x_ticks %}<text class="d" x="{{ x }}" y="{{ c.bottom + 13 }}" text-anchor="middle">{{ text }}</text>{% endfor %}
{% for y, text in c.y_ticks %}<text class="d" x="{{ c.left - 5 }}" y="{{ y + 4 }}" text-anchor="end">{{ text }}</text>{% endfor %}
<text class="d" x="{{ (c.left + c.width) / 2 }}" y="{{ c.height - 3 }}" text-anchor="middle">{{ c.x_name }}</text>
{% for one in c.lines %}<g class="{{ one.kind }}"><polyline points="{{ one.points|join(' ') }}"/>
{% if one.points|length <= 40 %}{% for p in one.points %}<circle cx="{{ p.split(',')[0] }}" cy="{{ p.split(',')[1] }}" r="2"/>{% endfor %}{% endif %}</g>{% endfor %}
</svg><div class="dim">{% for kind, name in c.legend %}<svg width="26" height="8" viewBox="0 0 26 8"><g class="{{ kind }}"><polyline points="0,4 26,4"/></g></svg> {{ name }} &ensp;{% endfor %}</div></figure>
{% endmacro %}
{% macro heat(m) %}
{% set cell = 14 if m.rows or m.columns else 5 %}{% set left = 110 if m.rows else 4 %}{% set above = 84 if m.columns else 4 %}
{% set w = left + cell * m.n_columns + 4 %}{% set h = above + cell * m.n_rows + 4 %}
<div class="scroll"><svg width="{{ w }}" height="{{ h }}" viewBox="0 0 {{ w }} {{ h }}" role="img" aria-label="heat map of weights">
{% for name in m.rows %}<text x="{{ left - 4 }}" y="{{ above + cell * loop.index0 + 11 }}" text-anchor="end">{{ name }}</text>{% endfor %}
{% for name in m.columns %}<text transform="translate({{ left + cell * loop.index0 + 11 }} {{ above - 4 }}) rotate(-90)">{{ name }}</text>{% endfor %}
<g transform="translate({{ left }} {{ above }}) scale({{ cell }})"><rect class="frame" width="{{ m.n_columns }}" height="{{ m.n_rows }}"/>
{% for level, path in m.paths.items() %}<path class="{{ 'p' if level > 0 else 'm' }}" fill-opacity="{{ (level|abs) / 4 }}" d="{{ path }}"/>{% endfor %}</g></svg></div>
<p class="dim"><span style="color:var(--pos)">red</span>: positive, <span style="color:var(--neg)">blue</span>: negative; full colour: {{ m.largest }}</p>
{% endmacro %}
"""

BODY = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{ name }}: report</title><style>{{ style }}</style></head><body>
<h1>{{ name }}</h1>
<p>{% if certificate is none %}Given weights.{% elif certified %}A certified fit.{% else %}A fit without a certificate.{% endif %}</p>
<nav><a href="#model">Model</a><a href="#plan">Plan</a><a href="#certificate">Certificate</a><a href="#curves">Curves</a><a href="#weights">Weights</a><a href="#confusion">Confusion</a><a href="#costly">Costly examples</a></nav>
<section id="model"><h2>Model</h2>{{ model(boxes) }}
<div class="scroll"><table>{% for a, b, c in symbols %}<tr><td><code>{{ a }}</code></td><td><code>{{ b }}</code></td><td>{{ c }}</td></tr>{% endfor %}</table></div></section>
<section id="plan"><h2>Plan</h2>{% if plan is none %}{{ missing(no_report) }}{% else %}
<p>Answers by <b>{{ plan.backend }}</b>: {{ plan.reason }}</p><p class="dim">Asked for: {{ plan.need }}</p>
<details><summary>Every backend's verdict</summary><table>{% for a, b, c in plan.candidates %}<tr><th>{{ a }}</th><td>{{ b }}</td><td>{{ c }}</td></tr>{% endfor %}</table></details>{% endif %}</section>
<section id="certificate"><h2>Certificate</h2>{% if certificate is none %}{{ missing(no_report) }}{% else %}
<table>{% for a, b in certificate %}<tr><th>{{ a }}</th><td>{{ b }}</td></tr>{% endfor %}</table>{% endif %}</section>
<section id="curves"><h2>Curves</h2>{% if curves %}<div class="side">{% for one in curves %}{{ chart(one) }}{% endfor %}</div>{% else %}{{ missing(no_history) }}{% endif %}</section>
<section id="weights"><h2>Weights</h2>{% for one in weights %}<h3>{{ one.name }} <span class="dim">{{ one.shape }}</span></h3>
{% if one.map %}{{ heat(one.map) }}{% endif %}{% if one.note %}<p class="dim">{{ one.note }}</p>{% endif %}
<details{{ '' if one.map else ' open' }}><summary>Largest weights</summary><table>{% for a, b, c in one.top %}<tr><td class="n">{{ a }}</td><td>{{ b }}</td><td>{{ c }}</td></tr>{% endfor %}</table></details>{% endfor %}
{% if left_out %}{{ missing('%d more factors are not drawn: svm.weights_ has them.'|format(left_out)) }}{% endif %}</section>
<section id="confusion"><h2>Confusion</h2>{% if data is none %}{{ missing(no_data) }}{% else %}
<p>{{ data.n }} examples, {{ data.wrong }} with a loss above 0; mean loss {{ data.mean }}.</p>
{% if data.confusion.missing is defined %}{{ missing(data.confusion.missing) }}{% else %}
<p class="dim">Rows: truth; columns: prediction. {{ data.confusion.right }} of {{ data.confusion.total }} are right.</p>
<div class="scroll"><table class="conf"><tr><th></th>{% for one in data.confusion.classes %}<th>{{ one }}</th>{% endfor %}</tr>
{% for row, cells in data.confusion.rows %}{% set i = loop.index0 %}<tr><th>{{ row }}</th>{% for n, share in cells %}<td class="{{ 'z' if not n else 'r' if loop.index0 == i else 'x' }}">{{ n or '·' }}</td>{% endfor %}</tr>{% endfor %}</table></div>{% endif %}{% endif %}</section>
<section id="costly"><h2>Examples that cost most</h2>{% if data is none %}{{ missing(no_data) }}{% else %}
{% for one in data.costly %}<h3>Example {{ one.number }}: loss {{ one.loss }}</h3>
{% if one.maps %}<div class="side">{% for title, paths, h, w in one.maps %}<figure style="margin:0"><figcaption class="dim">{{ title }}</figcaption><svg width="{{ 240 if w > h else 240 * w / h }}" height="{{ 240 * h / w if w > h else 240 }}" viewBox="0 0 {{ w }} {{ h }}" shape-rendering="crispEdges">{% for k, d in paths.items() %}<path class="c{{ k }}" d="{{ d }}"/>{% endfor %}</svg></figure>{% endfor %}</div>{% endif %}
{% if one.labels %}<div class="labels"><div class="head">truth<br>predicted</div>{% for a, b, wrong in one.labels %}<div{% if wrong %} class="w"{% endif %}>{{ a }}<br>{{ b }}</div>{% endfor %}</div>{% endif %}
<p>{{ one.why }}</p>{% if one.changes %}<div class="scroll"><table><tr><th>change</th><th>factor</th><th>of</th><th>predicted</th><th>truth</th></tr>
{% for row in one.changes %}<tr>{% for text in row %}<td{% if loop.first %} class="n"{% endif %}>{{ text }}</td>{% endfor %}</tr>{% endfor %}</table></div>{% endif %}{% else %}<p>No example has a loss above 0.</p>{% endfor %}{% endif %}</section>
<footer><hr>ssvm-dsl {{ version }}</footer></body></html>
"""

PAGE = MACROS + BODY.replace("{{ style }}", STYLE)
