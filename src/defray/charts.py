"""Charts: Vega-Lite specs as SVG, as PNG, and together on one page that needs no network.

A spec says what is drawn; its ink comes from a theme, so that one spec is read on light and dark ground.
Whatever a workload named is data here: it is escaped where it meets markup, and the page's own policy lets
no script run but the two it was written with, and nothing be fetched.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib import import_module
from typing import Any, Final

from defray.errors import MissingExtra

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH: Final = 640
"""Pixels of a drawing that stands alone; on the page a chart is as wide as the page."""

LIGHT: Final = ("#14327b", "#a78e10", "#b1547e", "#1a9bd2", "#3d682e", "#844dcd", "#5b1810")
DARK: Final = ("#69aef9", "#b1bb27", "#c682ad", "#3bdfee", "#bef095", "#966cd7", "#d55948")
"""The same seven hues for light and for dark ground: at least 3:1 against it, and apart from each other for
every kind of colour blindness."""

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES: Final = ((1, 0), (6, 3), (2, 2), (9, 3, 2, 3))

TITLE: Final = 82
"""Letters on a line of a title."""

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart for everyone: ``title`` says the finding, ``summary`` what the picture shows, ``columns`` and
    ``rows`` its numbers as a table.  ``name`` (lower case letters, digits, hyphens) names its files."""

    name: str
    title: str
    summary: str
    spec: Spec
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


# -- one look ----------------------------------------------------------------------------------------


def coded(field: str, title: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and shape of each name, equal in every figure that is given the same names in the same
    order.  Seven colours differ; beyond, dash and shape tell apart.  The legend shows colour and shape."""
    base = {"field": field, "type": "nominal", "title": title}
    domain = list(names)
    dashes = [DASHES[i // len(LIGHT) % len(DASHES)] for i in range(len(domain))]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(domain))]
    return {
        "color": {**base, "scale": {"domain": domain}},
        "strokeDash": {
            **base,
            "scale": {"domain": domain, "range": [list(d) for d in dashes]},
        },
        "shape": {**base, "scale": {"domain": domain, "range": shapes}},
    }


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Ink, ground and type, as a Vega-Lite config."""
    ink, soft, grid = (
        ("#e8eaed", "#b4bac4", "#343a44") if dark else ("#1b1f24", "#4d5560", "#e3e6ea")
    )
    return {
        "background": "transparent" if dark else "white",
        "font": "Helvetica, Arial, Liberation Sans, sans-serif",
        "range": {"category": list(DARK if dark else LIGHT)},
        "view": {"stroke": None},
        "mark": {"color": ink},
        "rule": {"color": soft},
        "text": {"color": soft, "fontSize": 11},
        "axis": {
            "labelColor": soft,
            "titleColor": ink,
            "gridColor": grid,
            "domainColor": soft,
            "tickColor": soft,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 140,
            "labelOverlap": "greedy",
            "labelFlush": False,
        },
        "legend": {
            "orient": "bottom",
            "columns": 5,
            "labelColor": ink,
            "titleColor": soft,
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "labelLimit": 100,
            "symbolStrokeWidth": 0,
            "symbolSize": 70,
            "symbolOpacity": 1,
        },
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": ink,
            "subtitleColor": soft,
            "fontSize": 14,
            "offset": 20,
        },
    }


# -- drawings ----------------------------------------------------------------------------------------


def svg(figure: Figure) -> str:
    """The figure alone, as the text of an SVG file on white; equal figures give equal text."""
    drawn: str = _vega().vegalite_to_svg(_alone(figure))
    numbers = {name: i for i, name in enumerate(re.findall(r'<\w+ id="(\w+)"', drawn))}
    for name, i in numbers.items():  # counted on from earlier drawings of the process
        drawn = re.sub(rf'(id="|url\(#){name}(?=["\)])', rf"\g<1>part-{i}", drawn)
    return drawn


def png(figure: Figure) -> bytes:
    """The figure alone, as a PNG file on white, two pixels to a point."""
    drawn: bytes = _vega().vegalite_to_png(_alone(figure), scale=2)
    return drawn


def _alone(figure: Figure) -> str:
    """The spec with a title and the light theme.  Letters beyond U+FFFF are spelled out: the converter cuts
    long labels between the halves of such a letter, and fails."""
    lines = max(1, -(-len(figure.title) // TITLE))
    width = -(-len(figure.title) // lines) + 8
    spec = {
        "$schema": SCHEMA,
        "description": figure.summary,
        "title": {"text": textwrap.wrap(figure.title, width, break_on_hyphens=False)},
        "width": WIDTH,
        "config": theme(),
        **figure.spec,
    }
    return _json(_plain(spec, _BEYOND))


def _vega() -> Any:
    try:
        return import_module("vl_convert")
    except ImportError as error:
        raise MissingExtra(
            "Charts need the package vl-convert-python, which is not installed.",
            hint="pip install 'defray[plot]'",
        ) from error


def _json(value: object) -> str:
    """As JSON that can stand in a script element: no ``<``, and what JSON has no number for is null."""
    text = json.dumps(
        _plain(value, _ODD), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: object, odd: re.Pattern[str]) -> object:
    """Without numbers that JSON lacks, and with ``odd`` letters spelled out."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v, odd) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, odd) for v in value]
    if isinstance(value, str):
        return odd.sub(_spelled, value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _spelled(letter: re.Match[str]) -> str:
    code = ord(letter[0])
    return chr(0x2400 + code) if code < 0x20 else f"U+{code:04X}"


_ODD: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""XML and HTML have no such letters."""

_BEYOND: Final = re.compile(f"{_ODD.pattern[:-1]}\U00010000-\U0010ffff]")


# -- the page ----------------------------------------------------------------------------------------


def page(
    title: str,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[Figure],
    *,
    notes: Sequence[str] = (),
    choose: tuple[str, str, Sequence[str]] | None = None,
) -> str:
    """One HTML document with everything in it.

    ``facts`` are named under the title.  ``choose`` = (field, what it is called, its names) lets a reader
    hide rows of the charts by the value of that field.  Equal arguments give equal text.
    """
    bundle = _bundle()
    charts = {
        "specs": {f.name: {"$schema": SCHEMA, "width": "container", **f.spec} for f in figures},
        "themes": {
            "light": {**theme(), "background": "transparent"},
            "dark": theme(dark=True),
        },
        "field": choose[0] if choose else "",
        "names": list(choose[2]) if choose else [],
    }
    scripts = "".join(f'<script type="module">{code}</script>\n' for code in (bundle, _DRAW))
    allowed = " ".join(f"'sha256-{_digest(code)}'" for code in (bundle, _DRAW))
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(title)}</title>\n<!-- {_NOTICE} -->\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{_text(title)}</h1>\n{_facts(facts)}</header>\n"
        f"{_contents(figures)}<main>\n{_choice(choose) if choose and figures else ''}"
        "<noscript><p>The charts need JavaScript; without it, read the tables.</p></noscript>\n"
        f"{''.join(map(_section, figures))}</main>\n"
        f"<footer>{''.join(f'<p>{_text(note)}</p>' for note in notes)}</footer>\n"
        f'<script type="application/json" id="charts">{_json(charts)}</script>\n{scripts}'
        "</body>\n</html>\n"
    )


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return str(_vega().javascript_bundle())


def _digest(code: str) -> str:
    return b64encode(sha256(code.encode()).digest()).decode()


def _text(text: str) -> str:
    return escape(_ODD.sub(_spelled, text))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<div><dt>{_text(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in facts)
    return f"<dl>{items}</dl>\n" if facts else ""


def _contents(figures: Sequence[Figure]) -> str:
    items = "".join(f'<li><a href="#{_text(f.name)}">{_text(f.title)}</a></li>' for f in figures)
    if not items:
        return ""
    return (
        f'<nav aria-labelledby="findings"><h2 id="findings">Findings</h2><ol>{items}</ol></nav>\n'
    )


def _choice(choose: tuple[str, str, Sequence[str]]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{i}"> {_text(name)}</label> '
        for i, name in enumerate(choose[2])
    )
    return f'<fieldset id="choice"><legend>{_text(choose[1])}</legend>{boxes}</fieldset>\n'


def _section(figure: Figure) -> str:
    name = _text(figure.name)
    head = "".join(f'<th scope="col">{_text(c)}</th>' for c in figure.columns)
    body = "".join(
        "<tr>" + "".join(map(_cell, range(len(row)), row)) + "</tr>\n" for row in figure.rows
    )
    return (
        f'<figure id="{name}">\n<figcaption><h2 id="{name}-title">{_text(figure.title)}</h2>'
        f'<p id="{name}-summary">{_text(figure.summary)}</p></figcaption>\n'
        f'<div class="chart" data-name="{name}" role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-summary"></div>\n'
        f"<details><summary>The numbers as a table</summary>\n"
        f'<div class="table" tabindex="0" role="region" aria-labelledby="{name}-title"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></details>\n</figure>\n"
    )


def _cell(place: int, value: object) -> str:
    number = isinstance(value, (int, float))
    text = (
        f"{value:,}" if isinstance(value, int) else shown(value) if isinstance(value, float) else ""
    )
    if not number and value is not None:
        text = _text(str(value))
    if place == 0:
        return f'<th scope="row">{text}</th>'
    return f"<td>{text}</td>" if number else f'<td class="words">{text}</td>'


def shown(value: float, digits: int = 4) -> str:
    """A number for people.

    >>> shown(1234.5678), shown(0.000012), shown(3.0), shown(2.203, 3), shown(float("nan"))
    ('1,235', '1.2e-05', '3', '2.2', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


_NOTICE: Final = (
    "Charts by Vega, Vega-Lite and Vega-Embed, copyright University of Washington Interactive Data Lab, "
    "BSD 3-Clause licence"
)

_STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #4d5560; --line: #d5d9df;
  --link: #14327b }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171c; --ink: #e8eaed; --soft: #b4bac4; --line: #343a44; --link: #69aef9 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 Helvetica, Arial, "Liberation Sans", sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 }
h2 { font-size: 1.15rem; line-height: 1.3; margin: 0 }
a { color: var(--link) }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
dl { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0 }
dt { color: var(--soft); font-size: .85rem }
dd { margin: 0 }
nav h2 { margin-top: 1.25rem }
nav ol { margin: .5rem 0 1.25rem; padding-left: 1.75rem }
fieldset { border: 1px solid var(--line); border-radius: .4rem; display: flex; flex-wrap: wrap;
  gap: 0 1rem; margin: 0 }
fieldset label { padding: .35rem 0 }
figure { margin: 2.5rem 0 0 }
figcaption p { color: var(--soft); margin: .25rem 0 .75rem }
.chart { width: 100%; overflow: hidden }
.chart svg { display: block; max-width: 100% }
details { margin-top: .5rem }
summary { cursor: pointer; padding: .35rem 0 }
.table { overflow: auto; max-height: 24rem }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right;
  overflow-wrap: normal; white-space: nowrap }
th { font-weight: 600 }
th:first-child, .words { text-align: left }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .9rem }
"""

_DRAW: Final = """
const { specs, themes, field, names } = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const boxes = [...document.querySelectorAll("#choice input")];
const views = new Map();
const columns = () => Math.max(2, Math.floor(document.querySelector("main").clientWidth / 125));

function kept(node, hidden) {
  if (Array.isArray(node)) return node.map((part) => kept(part, hidden));
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(Object.entries(node).map(([key, part]) => [key,
    key === "values" && Array.isArray(part)
      ? part.filter((row) => !hidden.has(row[field]))
      : kept(part, hidden)]));
}

async function draw() {
  const config = structuredClone(dark.matches ? themes.dark : themes.light);
  config.legend.columns = columns();
  const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => names[Number(box.value)]));
  for (const place of document.querySelectorAll(".chart")) {
    const name = place.dataset.name;
    try {
      views.get(name)?.finalize();
      views.set(name, await vegaEmbed(place, kept(specs[name], hidden), {
        mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, config,
        tooltip: { theme: dark.matches ? "dark" : "light" } }));
    } catch (error) {
      place.textContent = "This chart could not be drawn here; its numbers are in the table. " + error;
    }
  }
  document.body.dataset.drawn = String(views.size);
}

let last = Promise.resolve();
const again = () => { last = last.then(draw); };
let fitted = columns();
dark.addEventListener("change", again);
boxes.forEach((box) => box.addEventListener("change", again));
addEventListener("resize", () => { if (columns() !== fitted) { fitted = columns(); again(); } });
again();
"""
