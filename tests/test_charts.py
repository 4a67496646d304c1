"""Charts: drawn the same each time, readable by everyone, and closed to what a workload is called."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct
import subprocess
import sys
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray import charts
from defray.charts import Figure, coded
from defray.errors import MissingExtra

HOSTILE = "</script ><script >document.title='broken'</script ><img src=x onerror=alert(1)> \"' & \x00\x1b"
TAME = HOSTILE.replace("\x00", "␀").replace("\x1b", "␛")


def figure(names: list[str], name: str = "one") -> Figure:
    rows = [{"scheme": n, "x": i, "y": i * i / 3} for n in names for i in range(4)]
    code = coded("scheme", "policy", names)
    spec = {
        "data": {"values": rows},
        "height": 120,
        "mark": {"type": "point", "filled": True, "clip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": "Asks"},
            "y": {"field": "y", "type": "quantitative", "title": "Spent (rho)"},
            "color": code["color"],
            "shape": code["shape"],
        },
    }
    columns = ("policy", "x", "y")
    table = tuple((r["scheme"], r["x"], r["y"]) for r in rows)
    return Figure(name, f"All about {', '.join(names)}", f"Of {names}", spec, columns, table)


def page(names: list[str]) -> str:
    drawn = [figure(names, "one"), figure(names, "two")]
    return charts.page(
        f"Of {names[0]}",
        [("Workload", names[0])],
        drawn,
        notes=names,
        choose=("scheme", "Shown", names),
    )


# -- drawings ----------------------------------------------------------------------------------------


def test_an_svg_is_the_same_text_each_time():
    first, other, again = (charts.svg(figure(n)) for n in (["a", "b"], ["c"], ["a", "b"]))
    assert first == again != other


@settings(max_examples=15)
@given(st.text(min_size=1, max_size=30))
def test_an_svg_is_xml_whatever_the_names(name: str):
    root = ElementTree.fromstring(charts.svg(figure([name])))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_long_name_may_be_cut_anywhere():
    for length in range(8, 24):
        ElementTree.fromstring(charts.svg(figure(["n" * length + "😀" * 12])))


def test_an_svg_holds_hostile_names_as_text():
    texts = "".join(ElementTree.fromstring(charts.svg(figure([HOSTILE]))).itertext())
    assert "</script ><script >" in texts


def test_a_png_has_two_pixels_to_a_point():
    drawn = charts.png(figure(["a"]))
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    width, _ = struct.unpack(">II", drawn[16:24])
    assert width >= 2 * charts.WIDTH


def test_what_json_has_no_number_for_is_not_drawn():
    plain = figure(["a"])
    rows = [{"scheme": "a", "x": 1, "y": bad} for bad in (float("nan"), float("inf"))]
    odd = Figure("odd", "t", "s", {**plain.spec, "data": {"values": rows}}, (), ())
    ElementTree.fromstring(charts.svg(odd))


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    charts._bundle.cache_clear()
    for draw in (charts.svg, charts.png, lambda f: charts.page("t", [], [f])):
        with pytest.raises(MissingExtra) as missing:
            draw(figure(["a"]))
        assert missing.value.hint == "pip install 'defray[plot]'"


# -- colours -----------------------------------------------------------------------------------------

# Machado, Oliveira and Fernandes (2009), severity 1, on linear light.
SIGHT = {
    "full": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def light_of(colour: str) -> np.ndarray:
    part = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def seen(light: np.ndarray) -> np.ndarray:
    """OKLab (Ottosson 2020): equal distances look about equally different."""
    cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
             [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
    lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
           [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip
    return np.array(lab) @ np.cbrt(np.array(cones) @ np.clip(light, 0, 1))


def closest(colours: tuple[str, ...]) -> float:
    """The smallest distance of two of them, for whoever sees it smallest."""
    return min(
        float(np.linalg.norm(seen(np.array(eye) @ light_of(a)) - seen(np.array(eye) @ light_of(b))))
        for eye in SIGHT.values()
        for a, b in combinations(colours, 2)
    )


def contrast(a: str, b: str) -> float:
    bright, dim = sorted(
        (float(light_of(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True
    )
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize(
    ("colours", "ground"), [(charts.LIGHT, "#ffffff"), (charts.DARK, "#14171c")]
)
def test_colours_are_told_apart_by_every_eye(colours: tuple[str, ...], ground: str):
    assert len(colours) == len(charts.LIGHT)
    assert closest(colours) > 0.1
    assert min(contrast(colour, ground) for colour in colours) >= 3


def test_that_measure_knows_a_bad_palette():
    assert closest(("#c00000", "#007000")) < 0.1
    assert contrast("#f0e442", "#ffffff") < 3


@given(st.lists(st.text(max_size=5), min_size=1, max_size=40, unique=True))
def test_no_two_names_look_alike(names: list[str]):
    code = coded("scheme", "policy", names)
    shapes = code["shape"]["scale"]["range"]
    dashes = code["strokeDash"]["scale"]["range"]
    colours = [charts.LIGHT[i % len(charts.LIGHT)] for i in range(len(names))]
    assert all(channel["scale"]["domain"] == names for channel in code.values())
    assert len(set(zip(colours, shapes, strict=True))) == len(names)
    lines = set(zip(colours, map(tuple, dashes), strict=True))
    assert len(lines) == min(len(names), len(charts.LIGHT) * len(charts.DASHES))


# -- the page ----------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)


def test_hostile_names_are_text_on_the_page():
    read = Reader(page([HOSTILE, "b"]))
    tags = [tag for tag, _ in read.elements]
    assert tags.count("script") == 3 and "img" not in tags
    assert not [a for _, attributes in read.elements for a in attributes if a.startswith("on")]
    assert TAME in read.texts
    data, *_ = (
        text
        for (tag, attributes), text in zip(
            [e for e in read.elements if e[0] == "script"], read.scripts, strict=True
        )
        if attributes.get("type") == "application/json"
    )
    assert json.loads(data)["names"] == [TAME, "b"]


@settings(max_examples=10)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=3, unique=True))
def test_any_name_leaves_the_page_whole(names: list[str]):
    read, usual = Reader(page(names)), Reader(page(["a", "b", "c"][: len(names)]))
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in usual.elements]


def test_only_the_two_scripts_of_the_page_may_run_and_nothing_may_be_fetched():
    read = Reader(page(["a", "b"]))
    policy = next(a["content"] for tag, a in read.elements if a.get("http-equiv")) or ""
    kinds = [a.get("type") for tag, a in read.elements if tag == "script"]
    allowed = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text, kind in zip(read.scripts, kinds, strict=True)
        if kind == "module"
    }
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules["script-src"].split()) == allowed and len(allowed) == 2
    linked = [
        (tag, a) for tag, a in read.elements if "src" in a or not a.get("href", "#").startswith("#")
    ]
    assert linked == []


def test_the_page_is_the_same_text_each_time_and_holds_the_library_once():
    text = page(["a", "b"])
    assert text == page(["a", "b"])
    assert text.count("window.vegaEmbed=") == 1


def test_who_cannot_see_the_chart_finds_its_summary_and_its_numbers():
    read = Reader(page(["a", "b"]))
    ids = {a["id"] for _, a in read.elements if "id" in a}
    for tag, attributes in read.elements:
        for points in ("aria-labelledby", "aria-describedby"):
            assert points not in attributes or attributes[points] in ids, tag
    tags = [tag for tag, _ in read.elements]
    assert tags.count("figure") == tags.count("figcaption") == tags.count("details") == 2
    assert tags.count("h1") == 1 and tags.count("table") == 2
    assert tags.count("tr") == 2 * (1 + 8)
    assert [a.get("lang") for tag, a in read.elements if tag == "html"] == ["en"]


# -- in a browser ------------------------------------------------------------------------------------

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def marks(document: Reader) -> list[str]:
    """What each point of the charts is called."""
    return [
        a["aria-label"] or "" for tag, a in document.elements if tag == "path" and "aria-label" in a
    ]


def browsed(path: Path, profile: Path, *options: str) -> tuple[Reader, list[str]]:
    """The document as a browser without network has it in the end, and what its console said."""
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
         "--proxy-server=127.0.0.1:9", "--enable-logging=stderr", "--virtual-time-budget=60000",
         *options, "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return Reader(done.stdout), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
@pytest.mark.parametrize("window", ["500,800", "1200,900"])
def test_a_browser_draws_all_charts_offline(tmp_path: Path, window: str):
    names = [HOSTILE, "b", "c"]
    place = tmp_path / "page.html"
    place.write_text(page(names), encoding="utf-8")
    document, console = browsed(place, tmp_path / "profile", f"--window-size={window}")
    assert console == []
    charts_drawn = [a for tag, a in document.elements if tag == "svg"]
    assert len(charts_drawn) == 2
    assert len(marks(document)) == 2 * 4 * len(names)
    assert f"Of {TAME}" in document.texts  # the title, which no script has changed
    widest = max(int(a["width"] or 0) for a in charts_drawn)
    assert 300 < widest <= int(window.split(",")[0])


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_a_browser_hides_a_policy_that_is_not_chosen(tmp_path: Path):
    place = tmp_path / "page.html"
    chosen = page([HOSTILE, "b", "c"]).replace(' checked value="0"', ' value="0"')
    place.write_text(chosen, encoding="utf-8")
    document, console = browsed(place, tmp_path / "profile")
    assert console == []
    assert len(marks(document)) == 2 * 4 * 2
