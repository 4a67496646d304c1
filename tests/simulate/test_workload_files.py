"""Workloads from files: what is read, and how everything that is wrong is told."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.config.reader import read_contract
from defray.errors import SHOWN, BadInput, WorkloadError
from defray.simulate.pricing import Prices, least_rho
from defray.simulate.workload import Workload
from defray.simulate.workload_files import TYPICAL, read_workload
from tests.tables import write_contract

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
numbers = st.floats(1e-3, 1e6)
lines = st.lists(
    st.fixed_dictionaries(
        {"key": texts, "within": numbers},
        optional={"confidence": st.floats(0.5, 0.99), "analyst": texts},
    ),
    min_size=1,
    max_size=30,
)


def json_lines(folder: Path, records: list[Any], name: str = "w.jsonl") -> Path:
    path = folder / name
    written = (r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records)
    path.write_text("\n".join(written) + "\n", encoding="utf-8", newline="")
    return path


def comma_separated(folder: Path, records: list[dict[str, Any]], delimiter: str = ",") -> Path:
    path = folder / "w.csv"
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    path.write_bytes(text.getvalue().encode("utf-8"))
    return path


def columns(workload: Workload) -> tuple[Any, ...]:
    arrays = workload.keys, workload.demands, workload.truths, workload.analysts
    return *(array.tolist() for array in arrays), workload.labels, workload.asks


def mistakes(path: Path, **arguments: Any) -> list[tuple[int, str]]:
    """Line and field of each, once every one has a message and a cure."""
    with pytest.raises(WorkloadError) as error:
        read_workload(path, **arguments)
    found = error.value.to_dict()["problems"]
    assert all(p["message"] and p["cure"] for p in found)
    for p in found[:SHOWN]:
        assert f"line {p['line']}: {p['field']}: {p['message']}" in str(error.value)
    return [(p["line"], p["field"]) for p in found]


@given(lines, st.sampled_from(",;\t|"))
def test_both_formats_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], delimiter: str
) -> None:
    folder = tmp_path_factory.mktemp("both")
    one = read_workload(json_lines(folder, records)).workload
    other = read_workload(comma_separated(folder, records, delimiter)).workload
    assert columns(one) == columns(other)
    assert [one.labels[k] for k in one.keys] == [r["key"] for r in records]
    assert one.demands.tolist() == [least_rho(r["within"], r.get("confidence")) for r in records]
    names = list(dict.fromkeys(r.get("analyst", "") for r in records))
    assert [names[a] for a in one.analysts] == [r.get("analyst", "") for r in records]
    assert one.asks == ()
    assert one.ceilings is None


def test_what_a_line_can_say(tmp_path: Path) -> None:
    path = json_lines(
        tmp_path,
        [
            {"key": "a", "within": 10},
            {"key": "a", "within": "5", "confidence": "99%", "truth": -3, "analyst": 7},
            "",
            {"key": "b", "rho": 0.25, "analyst": "ann", "scale": 3, "within": None},
            {"key": "b", "within": 10},
        ],
    )
    loaded = read_workload(path)
    workload = loaded.workload
    assert workload.name == "w.jsonl"
    assert workload.labels == ("a", "b")
    assert workload.keys.tolist() == [0, 0, 1, 1]
    ten, tight = least_rho(10), least_rho(5, 0.99)
    assert workload.demands.tolist() == [ten, tight, 0.25, 9 * ten]  # rho is the support itself
    assert workload.truths.tolist() == [-3, -3, TYPICAL, TYPICAL]
    assert workload.analysts.tolist() == [0, 1, 2, 0]
    assert loaded.notes == ()


def test_a_csv_with_everything_that_csv_can_have(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(b'\xef\xbb\xbf\r\nKey; Within ;truth\r\n"a;\r\n""b""";5;\r\n\r\na;5;12\r\n')
    workload = read_workload(path).workload
    assert workload.labels == ('a;\r\n"b"', "a")
    assert workload.truths.tolist() == [TYPICAL, 12]


def test_keys_are_exact_text(tmp_path: Path) -> None:
    path = json_lines(tmp_path, [{"key": k, "within": 5} for k in ("a", "A", " a", "a ", "á")])
    assert read_workload(path).workload.questions == 5


def test_a_file_tells_its_format_by_name_or_content(tmp_path: Path) -> None:
    records = [{"key": "a", "within": 5}]
    odd = json_lines(tmp_path, records, "workload")
    assert read_workload(odd).workload.labels == ("a",)
    odd.write_text("key,within\na,5\n")
    assert read_workload(odd).workload.labels == ("a",)
    odd.rename(tmp_path / "w.json")
    assert mistakes(tmp_path / "w.json") == [(1, "(line)"), (2, "(line)")]


# -- under a contract ------------------------------------------------------------------------------

QUESTIONS = [
    {"sql": "SELECT COUNT(*) FROM people WHERE age >= 40", "within": 20, "analyst": "ann"},
    {"sql": "SELECT COUNT(1) FROM people WHERE NOT age < 40 ERROR WITHIN 10", "analyst": "bob"},
    {"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "15"},
    {"sql": "SELECT AVG(income) FROM people", "within": 2000, "confidence": "90%"},
    {"sql": "SELECT COUNT(*) FROM people WHERE sex = 'F'", "within": "5%"},
    {"sql": "SELECT COUNT(*) FROM people WHERE sex = 'F'", "rho": 0.25},
    {"key": "SELECT COUNT(*) FROM people WHERE sex = 'F'", "within": 20, "scale": 2},
]


def test_sql_is_priced_under_a_contract(tmp_path: Path) -> None:
    contract = read_contract(write_contract(tmp_path, "rho = 2\nm_floor = 50\nn_max = 20_000"))
    loaded = read_workload(json_lines(tmp_path, QUESTIONS), contract)
    workload, prices = loaded.workload, Prices(contract)
    assert workload.keys.tolist() == [0, 0, 1, 2, 3, 3, 4]  # any spelling; a key is never SQL
    expected = [prices.of(q["sql"], q.get("within"), q.get("confidence")) for q in QUESTIONS[:5]]
    closed = 4 * least_rho(20)
    assert workload.demands.tolist() == [*(p.low for p in expected), 0.25, closed]
    assert workload.ceilings is not None
    assert workload.ceilings.tolist() == [*(p.high for p in expected), 0.25, closed]
    assert [p.exact for p in expected] == [True, True, True, False, False]
    assert loaded.notes[0].startswith("2 of 7 asks are averages or percentages")
    ask = workload.asks[3]
    assert (ask.sql, ask.within, ask.confidence) == (QUESTIONS[3]["sql"], "2000", "90%")
    assert [a.analyst for a in workload.asks] == ["ann", "bob", "", "", "", "", ""]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["contract.toml", "w.jsonl"]


def test_without_a_contract_sql_is_a_name(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM people WHERE age >= 40"
    spelt = [sql, sql.lower(), sql]
    loaded = read_workload(json_lines(tmp_path, [{"sql": s, "within": 5} for s in spelt]))
    assert loaded.workload.keys.tolist() == [0, 1, 0]
    assert [ask.sql for ask in loaded.workload.asks] == spelt
    assert "only a name" in loaded.notes[0]
    path = json_lines(
        tmp_path, [{"sql": sql}, {"sql": f"{sql} ERROR WITHIN 5"}, {"sql": sql, "within": "5%"}]
    )
    assert mistakes(path) == [(1, "within"), (2, "within"), (3, "within")]


def test_mistakes_in_sql_are_shown_with_their_place(tmp_path: Path) -> None:
    contract = read_contract(write_contract(tmp_path))
    asks = [
        {"sql": "SELECT COUNT(*) FROM people", "within": 5},
        {"sql": "SELECT MAX(age) FROM people", "within": 5},
        {"sql": "SELECT MAX(age) FROM people", "rho": 1},
        {"sql": "SELECT COUNT(*) FROM people"},
        {"sql": "SELECT COUNT(*) FROM people", "within": "5%"},  # no m_floor
        {"sql": "SELECT COUNT(*) FROM people WHERE age > 3 AND age < 2", "within": 5},
        {"sql": "SELECT COUNT(*) FROM people", "within": 5, "confidence": 2},
    ]
    path = json_lines(tmp_path, asks)
    found = [(2, "sql"), (3, "sql"), (4, "within"), (5, "within"), (6, "within"), (7, "confidence")]
    assert mistakes(path, contract=contract) == found
    with pytest.raises(WorkloadError, match=r"SELECT MAX\(age\) FROM people\n +\^\^\^"):
        read_workload(path, contract)


def test_what_a_table_is_to_be_asked_must_be_askable(tmp_path: Path) -> None:
    contract = read_contract(write_contract(tmp_path))
    asks = [
        {"sql": "SELECT COUNT(*) FROM people", "within": 5},
        {"key": "a", "within": 5},
        {"sql": "SELECT SUM(income) FROM people", "rho": 0.25, "confidence": None},
        {"sql": "SELECT AVG(income) FROM people", "rho": 1},
        {"sql": "SELECT COUNT(*) FROM people", "rho": 1e50},
        {"sql": "SELECT COUNT(*) FROM people ERROR WITHIN 5", "rho": 1},
        {"sql": "SELECT COUNT(*) FROM people WHERE age > 3 AND age < 2", "rho": 1},
        {"key": "b", "rho": 1},
    ]
    path = json_lines(tmp_path, asks)
    found = [(2, "key"), (4, "rho"), (6, "within"), (7, "within"), (8, "key")]
    assert mistakes(path, contract=contract, askable=True) == found
    assert len(read_workload(path, contract).workload) == len(asks)  # for accounting all are fine
    workload = read_workload(json_lines(tmp_path, asks[::2][:2]), contract, askable=True).workload
    assert [ask.rho for ask in workload.asks] == ["", "0.25"]


# -- what is wrong ---------------------------------------------------------------------------------

WRONG: list[tuple[Any, str]] = [
    ({"within": 5}, "(line)"),
    ({"key": "a", "sql": "SELECT", "within": 5}, "(line)"),
    ({"key": "", "within": 5}, "key"),
    ({"key": True, "within": 5}, "key"),
    ({"key": 1.5, "within": 5}, "key"),
    ({"key": ["a"], "within": 5}, "key"),
    ('{"key": "\\ud800", "within": 5}', "key"),
    ({"sql": {}, "within": 5}, "sql"),
    ({"key": "a"}, "within"),
    ({"key": "a", "within": 0}, "within"),
    ({"key": "a", "within": -1}, "within"),
    ({"key": "a", "within": float("nan")}, "within"),
    ('{"key": "a", "within": 1e400}', "within"),
    ({"key": "a", "within": True}, "within"),
    ({"key": "a", "within": [5]}, "within"),
    ({"key": "a", "within": "5%"}, "within"),
    ({"key": "a", "within": "five"}, "within"),
    ({"key": "a", "within": 5, "confidence": "120%"}, "confidence"),
    ({"key": "a", "within": 5, "confidence": {}}, "confidence"),
    ({"key": "a", "within": 5, "rho": 1}, "rho"),
    ({"key": "a", "confidence": 0.9, "rho": 1}, "rho"),
    ({"key": "a", "rho": 0}, "rho"),
    ({"key": "a", "rho": False}, "rho"),
    ({"key": "a", "rho": "nan"}, "rho"),
    ('{"key": "a", "rho": 1e999}', "rho"),
    ({"key": "a", "within": 5, "analyst": ""}, "analyst"),
    ({"key": "a", "within": 5, "analyst": 0.5}, "analyst"),
    ({"key": "a", "within": 5, "truth": "x"}, "truth"),
    ({"key": "a", "within": 5, "truth": float("inf")}, "truth"),
    ({"key": "a", "within": 5, "scale": 0}, "scale"),
    ({"key": "a", "witin": 5}, "witin"),
    ('{"key": "a", "key": "b", "within": 5}', "(line)"),
    ([1], "(line)"),
    ("a,5", "(line)"),
    ("[" * 100_000, "(line)"),
    ('{"key": "a", "within": ' + "9" * 5000 + "}", "(line)"),
]


@pytest.mark.parametrize(("record", "field"), WRONG, ids=lambda v: str(v)[:40])
def test_a_bad_line(tmp_path: Path, record: Any, field: str) -> None:
    good = {"key": "z", "within": 5}
    assert mistakes(json_lines(tmp_path, [good, record, good])) == [(2, field)]


def test_all_bad_lines_are_told_at_once(tmp_path: Path) -> None:
    good = {"key": "z", "within": 5}
    records = [line for record, _ in WRONG for line in (good, record)]
    expected = [(2 * i + 2, field) for i, (_, field) in enumerate(WRONG)]
    assert mistakes(json_lines(tmp_path, records)) == expected


def test_two_mistakes_of_one_line(tmp_path: Path) -> None:
    path = json_lines(tmp_path, [{"key": "a", "within": 0, "analyst": ""}])
    assert mistakes(path) == [(1, "within"), (1, "analyst")]


@pytest.mark.parametrize("name", ["truth", "scale"])
def test_a_question_has_one_truth_and_one_scale(tmp_path: Path, name: str) -> None:
    asks = [{"key": "a", "within": 5, name: x} for x in (2, 2.0, 3)] + [{"key": "a", "within": 5}]
    assert mistakes(json_lines(tmp_path, asks)) == [(3, name)]
    workload = read_workload(json_lines(tmp_path, [*asks[:2], *asks[3:]])).workload
    assert len(np.unique(workload.demands)) == 1
    assert len(np.unique(workload.truths)) == 1


def test_lines_of_a_csv_are_those_an_editor_counts(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text('key,within\n"a\nb",5\n\nc,0\nd,5,6\n"e\n\n",5\nf\ng,x\n')
    assert mistakes(path) == [(5, "within"), (6, "(line)"), (10, "(line)"), (11, "within")]
    path.write_text('key,within\na,5\nb,"5\nc,5\n')
    assert mistakes(path) == [(3, "(line)")]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("question,within", [(1, "question"), (1, "(line)")]),
        ("key,within,key", [(1, "key")]),
        ("key,within,wat ever", [(1, '"wat ever"')]),
        ("a", [(1, "a"), (1, "(line)")]),
    ],
)
def test_a_bad_header(tmp_path: Path, header: str, found: list[tuple[int, str]]) -> None:
    path = tmp_path / "w.csv"
    path.write_text(header + "\n" + ",".join("5" * len(header.split(","))) + "\n")
    assert mistakes(path) == found


@pytest.mark.parametrize("content", ["", "\n", "key,within\n", " \n\n"])
@pytest.mark.parametrize("name", ["w.csv", "w.jsonl", "w"])
def test_nothing_is_no_workload(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert mistakes(path) == [(1, "(line)")]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path in (
        tmp_path,
        tmp_path / "nowhere.csv",
        Path("/dev/null"),
        Path("a\0b"),
        Path("x" * 999),
    ):
        with pytest.raises(BadInput) as error:
            read_workload(path)
        assert error.value.hint
    path = tmp_path / "w.csv"
    path.write_bytes(b"key,within\na,5\n\xff,5\n")
    assert mistakes(path) == [(3, "(line)")]
    assert mistakes(json_lines(tmp_path, ["[", '{"key": "a"}', "]"])) == [(1, "(line)")]


def test_many_mistakes_are_counted(tmp_path: Path) -> None:
    path = json_lines(tmp_path, [{"key": "a"}] * (SHOWN + 50))
    assert len(mistakes(path)) == SHOWN + 50
    with pytest.raises(WorkloadError, match=r"150 mistakes(.|\n)*and 50 more$"):
        read_workload(path)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = json_lines(tmp_path, [{"key": "a", "within": 5}] * 600)
    read_workload(path, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 600), (256, 600), (512, 600)]
