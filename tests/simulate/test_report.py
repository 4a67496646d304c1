"""The report: every number, equal bytes for equal results, and nobody else's files."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from defray import charts
from defray.errors import BadInput, MissingExtra
from defray.simulate.report import write_numbers, write_report
from defray.simulate.results import Results, simulate
from defray.simulate.run import Budget
from defray.simulate.schemes import SCHEMES
from defray.simulate.workload import Workload

pytestmark = pytest.mark.long

HOSTILE = "</script><script>alert(1)</script>"


def asked(seed: int) -> Workload:
    chance = np.random.default_rng(seed)
    keys = chance.integers(0, 12, 30)
    demands = np.exp(chance.uniform(-8, -2, 30))
    return Workload("thirty asks", keys, demands, chance.uniform(5, 500, 12)[keys], keys % 2)


def compared() -> Results:
    names = ("refuse", "qif_dual", "SA")
    return simulate(asked, [SCHEMES[n] for n in names], Budget(0.15, 0.05, 30, 5.0), seeds=3)


@pytest.fixture(scope="module")
def found() -> Results:
    return compared()


@pytest.fixture(scope="module")
def report(found: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports") / "deep" / "report"
    write_report(found, place)
    return place


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# -- what is written ---------------------------------------------------------------------------------
def test_page_figures_and_numbers_are_listed_as_written(found: Results, tmp_path: Path):
    place = tmp_path / "new"
    written = write_report(found, place)
    assert written[0] == place / "report.html"
    assert sorted(written) == sorted(place.iterdir())
    names = {path.name for path in written}
    for kind in ("svg", "png"):
        assert {
            f"figure-{n}.{kind}" for n in ("spend", "satisfied", "targets-met", "pareto")
        } <= names
    assert set(json.loads((place / "report.json").read_bytes())["files"]) | {"report.json"} == names
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_figures_are_svg_and_png(report: Path):
    for path in report.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("}svg")
    for path in report.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def read(cell: str, value: Any) -> Any:
    if isinstance(value, bool):
        return {"true": True, "false": False}[cell]
    return None if cell == "" else type(value)(cell)


def test_the_csv_files_hold_every_number_with_all_its_digits(found: Results, report: Path):
    for name in ("totals", "series", "asks"):
        rows = getattr(found, name)
        with (report / f"numbers-{name}.csv").open(newline="") as file:
            cells = list(csv.DictReader(file))
        assert list(cells[0]) == list(rows[0])
        assert [
            {f: read(c[f], row[f]) for f in row} for c, row in zip(cells, rows, strict=True)
        ] == rows


@pytest.mark.slow
def test_more_tables_have_a_file_each_and_are_drawn(found: Results, tmp_path: Path):
    curve = [{"repeat_rate": r / 3, "saving": 1 / 3 * r, "break_even": 0.1} for r in range(3)]
    write_report(found, tmp_path / "r", extra={"amortisation": curve})
    with (tmp_path / "r" / "numbers-amortisation.csv").open(newline="") as file:
        assert [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)] == curve
    assert (tmp_path / "r" / "figure-amortisation.svg").exists()


@pytest.mark.parametrize("name", ["totals", "../outside", "a/b", "", "Ä"])
def test_a_table_cannot_take_any_name(found: Results, tmp_path: Path, name: str):
    with pytest.raises(BadInput, match="cannot be called"):
        write_report(found, tmp_path / "r", extra={name: [{"a": 1}]})
    assert list(tmp_path.iterdir()) == []


def test_the_page_tells_the_settings(report: Path):
    page = (report / "report.html").read_text(encoding="utf-8")
    for key, value in (
        ("Workload", "thirty asks"), ("Asks", "30"), ("Budget", "0.15 rho"),
        ("For diagnostics (xi)", "5 %"), ("Horizon declared", "30 asks"), ("Seeds", "3"),
    ):  # fmt: skip
        assert f"<dt>{key}</dt><dd>{value}</dd>" in page


@pytest.mark.slow
def test_names_of_workload_and_policies_are_text(found: Results, tmp_path: Path):
    hostile = replace(
        found,
        workload=HOSTILE,
        totals=[{**row, "scheme": HOSTILE + row["scheme"]} for row in found.totals],
        series=[{**row, "scheme": HOSTILE + row["scheme"]} for row in found.series],
        asks=[{**row, "scheme": HOSTILE + row["scheme"]} for row in found.asks],
    )
    write_report(hostile, tmp_path / "r")
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page and page.count("<script") == page.count("</script>") == 3
    for path in (tmp_path / "r").glob("*.svg"):
        assert not list(ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}script"))


def test_equal_results_give_equal_bytes_in_this_and_in_another_process(
    report: Path, tmp_path: Path
):
    write_report(compared(), tmp_path / "here")
    assert contents(tmp_path / "here") == contents(report)
    code = (
        "from pathlib import Path; from tests.simulate.test_report import compared, write_report;"
        f"write_report(compared(), Path({str(tmp_path / 'there')!r}))"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=paths)
    assert contents(tmp_path / "there") == contents(report)


def test_other_results_give_other_bytes(found: Results, report: Path, tmp_path: Path):
    write_report(replace(found, rho=0.16, totals=[], asks=[]), tmp_path / "r")
    for name in ("report.html", "report.json", "figure-spend.svg", "figure-spend.png"):
        assert contents(tmp_path / "r")[name] != contents(report)[name]


# -- without the extra -------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_the_extra_the_numbers_are_written_and_the_cure_is_named(
    found: Results, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    charts._bundle.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(MissingExtra) as missing:
            write_report(found, tmp_path / "r")
    assert missing.value.hint == "pip install 'defray[plot]'"
    assert str(tmp_path / "r") in missing.value.message
    numbers = {name: text for name, text in contents(report).items() if name.endswith(".csv")}
    assert {k: v for k, v in contents(tmp_path / "r").items() if k != "report.json"} == numbers
    write_report(found, tmp_path / "r")  # once it is installed
    assert contents(tmp_path / "r") == contents(report)


def test_the_numbers_alone(found: Results, report: Path, tmp_path: Path):
    written = write_numbers(found, tmp_path / "r")
    assert sorted(written) == sorted((tmp_path / "r").iterdir())
    assert (tmp_path / "r" / "numbers-asks.csv").read_bytes() == (
        report / "numbers-asks.csv"
    ).read_bytes()


# -- where it is written -----------------------------------------------------------------------------


def test_an_empty_directory_is_filled(found: Results, tmp_path: Path):
    write_numbers(found, tmp_path)
    assert (tmp_path / "numbers-totals.csv").exists()


def test_a_directory_of_others_is_left_alone(found: Results, tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    for write in (write_report, write_numbers):
        with pytest.raises(BadInput, match="holds other files"):
            write(found, tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"mine"}


@pytest.mark.parametrize(
    "manifest", ["{}", "[]", "no json", '{"format": "another-1", "files": []}']
)
def test_a_manifest_of_others_is_no_report(found: Results, tmp_path: Path, manifest: str):
    (tmp_path / "report.json").write_text(manifest)
    with pytest.raises(BadInput, match="holds other files"):
        write_numbers(found, tmp_path)


def test_a_file_is_no_place(found: Results, tmp_path: Path):
    (tmp_path / "r").write_text("mine")
    with pytest.raises(BadInput, match="not a directory"):
        write_report(found, tmp_path / "r")
    with pytest.raises(BadInput, match="cannot be written"):
        write_numbers(found, tmp_path / "r" / "below")
    assert (tmp_path / "r").read_text() == "mine"


@pytest.mark.slow
def test_an_earlier_report_is_replaced_and_what_lies_beside_it_stays(
    found: Results, tmp_path: Path
):
    place = tmp_path / "r"
    write_report(found, place)
    (place / "notes.txt").write_text("mine")
    poorer = replace(found, asks=[], series=[])
    written = write_report(poorer, place)
    assert set(contents(place)) == {path.name for path in written} | {"notes.txt"}
    assert not (place / "figure-spend.png").exists() and not (place / "numbers-asks.csv").exists()


def test_a_file_that_no_report_wrote_is_not_replaced(found: Results, tmp_path: Path):
    write_numbers(found, tmp_path)
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(BadInput, match=r"holds a report\.html that no report wrote"):
        write_report(found, tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_manifest_cannot_name_what_is_not_a_reports(found: Results, tmp_path: Path):
    (tmp_path / "keep.csv").write_text("mine")
    place = tmp_path / "r"
    write_numbers(found, place)
    said = json.loads((place / "report.json").read_bytes())
    (place / "notes.txt").write_text("mine")
    said["files"] += [
        "notes.txt",
        "../keep.csv",
        str(tmp_path / "keep.csv"),
        "figure-../../keep.csv",
        7,
    ]
    (place / "report.json").write_text(json.dumps(said))
    write_numbers(found, place)
    assert (place / "notes.txt").exists() and (tmp_path / "keep.csv").exists()


@pytest.mark.parametrize("after", range(6))
def test_a_replacement_that_stops_midway_can_be_repeated(
    found: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
):
    place = tmp_path / "r"
    write_numbers(found, place, extra={"older": [{"a": 1}]})
    moved = Path.replace
    left = [after]

    def stops(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return moved(self, target)

    newer = replace(found, rho=0.3)
    extra = {"newer": [{"a": 2}]}
    with monkeypatch.context() as full:
        full.setattr(Path, "replace", stops)
        with pytest.raises(BadInput, match="No space left"):
            write_numbers(newer, place, extra=extra)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    write_numbers(newer, place, extra=extra)
    write_numbers(newer, tmp_path / "direct", extra=extra)
    assert contents(place) == contents(tmp_path / "direct")
