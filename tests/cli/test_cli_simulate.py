"""``defray simulate`` and ``defray plan`` as a curator types them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import defray.example
from defray.cli import main, plans
from defray.cli.simulate import COMPARED, PLANNED
from defray.config.reader import read_contract
from defray.core.zcdp import epsilon_for, rho_for
from defray.errors import BadInput
from defray.policy.choices import GATES
from defray.simulate import theorems
from defray.simulate.generate import GENERATORS
from defray.simulate.planning import Requirement
from defray.simulate.schemes import SCHEMES
from defray.simulate.theorems import Row
from defray.simulate.workload import Workload

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "simulate.md"
SMALL = ("simulate", "--generate", "iid:n=30", "--rho", "0.5", "--seeds", "3")
ASKS = """\
{"sql": "SELECT COUNT(*) FROM people WHERE age >= 40", "within": 20, "analyst": "ann"}
{"sql": "SELECT COUNT(1) FROM people WHERE NOT age < 40 ERROR WITHIN 10", "analyst": "bob"}
{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "15"}
{"key": "elsewhere", "rho": 0.25}
"""


def by_policy(document: Any) -> dict[str, Any]:
    return {one["policy"]: one for one in document["policies"]}


# -- simulate --------------------------------------------------------------------------------------


def test_a_comparison(bare: Any) -> None:
    said = bare(*SMALL)
    assert said.code == 0
    assert said.err == ""
    for words in ("iid:n=30: 30 asks of 30 questions from 1 analyst", "of optimum", "cost ratio"):
        assert words in said.out
    found = bare(*SMALL, "--json").json
    assert [one["policy"] for one in found["policies"]] == list(COMPARED)
    assert (found["rho"], found["xi"], found["horizon"], found["seeds"]) == (0.5, 0.05, 30, 3)
    for one in found["policies"]:
        assert 0 < one["spent"] <= 0.5 * (1 + 1e-9)
        assert 0 <= one["nsat_ratio"] <= 1
        assert one["jw_ratio"] >= 1 - 1e-9
        shown = re.search(rf"^ {one['policy']} +[\d.,]+ \(([\d.]+) %\)", said.out, re.MULTILINE)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(100 * one["satisfied"] / 30, abs=0.051)
    assert bare(*SMALL, "--json").json == found  # seeds, not chance


def test_the_papers_two_queries(bare: Any) -> None:
    policies = ("--policy", "refuse,SA", "--policy", "BP")
    found = bare("simulate", "--generate", "two_query", "--rho", "2", *policies, "--json").json
    spent = {name: one["spent"] for name, one in by_policy(found).items()}
    assert list(spent) == ["refuse", "SA", "BP"]
    assert spent["refuse"] == pytest.approx(1.0)
    assert spent["SA"] == spent["BP"] == pytest.approx(1.7)


@pytest.mark.slow
def test_every_policy_and_every_generator_by_name(bare: Any) -> None:
    found = bare("simulate", "--generate", "burst:n=9", "--rho", "1", "--policy", "all", "--json")
    assert list(by_policy(found.json)) == list(SCHEMES)
    for name in GENERATORS:
        assert bare("simulate", "--generate", name, "--rho", "1", "--policy", "refuse").code == 0


def test_a_budget_as_epsilon(bare: Any) -> None:
    words = ("simulate", "--generate", "iid:n=9", "--policy", "refuse", "--json")
    found = bare(*words, "--epsilon", "2", "--delta", "1e-6").json
    assert found["rho"] == float(rho_for(2, 1e-6))


DUAL = 'xi = 0.1\ngate = "dual"\nhorizon = 7\nsupport = "exact"'


def test_a_workload_under_its_contract(defray: Any) -> None:
    (defray.folder / "asks.jsonl").write_text(ASKS)
    path = defray.folder / "contract.toml"
    path.write_text(path.read_text().replace("xi = 0.1", DUAL))
    said = defray("simulate", "asks.jsonl", "-c", "contract.toml", "--json")
    found = said.json
    assert (found["asks"], found["questions"], found["analysts"]) == (4, 3, 3)
    assert (found["rho"], found["xi"], found["horizon"]) == (1.0, 0.1, 7)
    assert list(by_policy(found)) == ["qif_dual", *(p for p in COMPARED if p != "qif_dual")]
    assert "the contract's own policy is qif_dual" in found["notes"]
    own = ("--rho", "0.3", "--xi", "0", "--horizon", "9", "--policy", "dual")
    other = defray("simulate", "asks.jsonl", "-c", "contract.toml", *own, "--json").json
    assert (other["rho"], other["xi"], other["horizon"]) == (0.3, 0.0, 9)
    asked = [
        ("SELECT COUNT(*) FROM people WHERE age > 39", "10"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex", "15"),
    ]
    quoted = [defray("quote", sql, "--within", w, "--json").json["charged_rho"] for sql, w in asked]
    assert found["needed_rho"] == pytest.approx(0.25 + sum(quoted), rel=1e-12)
    bare_names = defray("simulate", "asks.jsonl", "--rho", "1")
    assert bare_names.code == 2
    assert "asks.jsonl has 1 mistake\n  line 2: within: " in bare_names.err
    assert "--contract FILE" in bare_names.err


def test_weights_of_a_contract_are_those_of_the_comparison(defray: Any) -> None:
    path = defray.folder / "contract.toml"
    text = path.read_text().replace("rho = 1", 'rho = 0.2\ngate = "fluid"\nhorizon = 60')
    found = []
    for alpha in ("0", "1"):
        path.write_text(text.replace("[source]", f"[weights]\nalpha = {alpha}\n[source]"))
        words = ("--generate", "iid:n=60", "-c", "contract.toml", "--policy", "qif_fluid,w1f_fluid")
        found.append(by_policy(defray("simulate", *words, "--json").json))
    same, weighed = found
    assert same["qif_fluid"]["jw_ratio"] == same["w1f_fluid"]["jw_ratio"]
    assert weighed["qif_fluid"]["jw_ratio"] < weighed["w1f_fluid"]["jw_ratio"]


def test_a_report(bare: Any) -> None:
    pytest.importorskip("vl_convert")
    said = bare(*SMALL, "--policy", "refuse,satisfy", "--out", "report")
    assert said.code == 0
    folder = bare.folder / "report"
    assert f"wrote {Path('report') / 'report.html'} and" in said.out
    names = {path.name for path in folder.iterdir()}
    assert "report.html" in names
    assert {Path(name).suffix for name in names} >= {".html", ".svg", ".png", ".csv"}
    files = bare(*SMALL, "--policy", "refuse", "--out", "report", "--json").json["files"]
    assert all((bare.folder / name).is_file() for name in files)
    (bare.folder / "used").mkdir()
    (bare.folder / "used" / "mine.txt").write_text("keep")
    refused = bare(*SMALL, "--policy", "refuse", "--out", "used")
    assert refused.code == 2
    assert "holds other files" in refused.err
    assert refused.out == ""  # said before the run
    assert [path.name for path in (bare.folder / "used").iterdir()] == ["mine.txt"]


def test_a_report_without_the_plot_extra(bare: Any) -> None:
    absent = bare.folder / "absent"
    absent.mkdir()
    (absent / "vl_convert.py").write_text("raise ImportError('not here')\n")
    env = {"PYTHONPATH": os.pathsep.join([str(absent), str(ROOT / "src")])}
    words = (*SMALL, "--policy", "refuse", "--out", "report")
    said = bare(*words, env=env)
    assert said.code == 6
    assert "plot" in said.err
    assert "satisfied" in said.out
    document = bare(*words, "--json", env=env).json
    assert document["error"]["code"] == "missing-extra"
    assert document["policies"]
    assert list((bare.folder / "report").glob("*.csv"))


# -- on a table ------------------------------------------------------------------------------------

TABLE = ("simulate", "asks.jsonl", "-c", "contract.toml", "--table")
KINDS = """\
{"sql": "SELECT COUNT(*) FROM people WHERE age >= 40", "within": 20}
{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "15"}
{"sql": "SELECT COUNT(*) FROM people WHERE sex = 'F'", "within": 8}
{"sql": "SELECT SUM(income) FROM people ERROR WITHIN 500000"}
{"sql": "SELECT AVG(income) FROM people", "within": 2000}
{"sql": "SELECT COUNT(*) FROM people WHERE age < 60", "within": "9%"}
{"sql": "SELECT COUNT(*) FROM people WHERE age < 70", "rho": 0.02}
"""
COUNTS = "".join(
    f'{{"sql": "SELECT COUNT(*) FROM people WHERE age = {20 + i}", "within": {5 + i % 7}}}\n'
    for i in range(20)
)
CURATOR = "computed from the true table and charged to nobody: for the curator's eyes only"


def numbers_in(value: Any) -> set[float]:
    """Every number of a document, also those in its texts."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return set().union(*map(numbers_in, inside))
    return {float(x) for x in re.findall(r"(?<![\w.])\d[\d,]*\.?\d*(?![\w.])", str(value))}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("gate", sorted(GATES))
def test_a_table_is_charged_what_the_accounting_says(defray: Any, gate: str) -> None:
    (defray.folder / "asks.jsonl").write_text(COUNTS)
    terms = ("--rho", "0.5", "--xi", "0", "--policy", gate, "--json")
    real = by_policy(defray(*TABLE, "synthetic", "--seeds", "1", *terms).json)[gate]
    accounted = by_policy(defray(*TABLE[:-1], "--seeds", "1", *terms).json)[gate]
    assert real["satisfied"] == accounted["satisfied"] < 20
    for measure in ("spent", "nsat_ratio", "j1_ratio", "cost_ratio"):
        assert real[measure] == pytest.approx(accounted[measure], rel=1e-7), measure
    assert real["spent"] == pytest.approx(accounted["spent"], rel=1e-9)


def test_a_synthetic_table_needs_no_data_and_leaves_no_trace(defray: Any) -> None:
    (defray.folder / "people.csv").unlink()
    (defray.folder / "asks.jsonl").write_text(KINDS)
    before = contents(defray.folder)
    said = defray(*TABLE, "synthetic", "--seeds", "2")
    assert said.code == 0
    assert "over a made table of 10,000 rows: no data was read" in said.out
    assert "each seed has a table of its own" in said.out
    assert "some questions rest on counts or sums of others" in said.out
    assert CURATOR not in said.out
    assert "no truth is given" not in said.out
    found = defray(*TABLE, "synthetic", "--seeds", "1", "--rows", "300", "--json").json
    assert found["table"] == {"kind": "synthetic", "rows": 300}
    weighed = [f"qif_{name}" if make(9).weighted else name for name, make in GATES.items()]
    assert list(by_policy(found)) == weighed
    for one in found["policies"]:
        assert one["satisfied"] >= 6
        assert 0 < one["relerr"] < 0.5
        assert one["diagnostic"] > 0
    assert contents(defray.folder) == before
    assert defray(*TABLE, "data").code == 4  # the twin: that one would be missed


@pytest.mark.slow
def test_the_contracts_own_data_are_for_the_curator_and_its_ledger_is_left_alone(
    defray: Any,
) -> None:
    pytest.importorskip("vl_convert")
    (defray.folder / "asks.jsonl").write_text(KINDS)
    words = (*TABLE, "data", "--seeds", "2", "--policy", "refuse,satisfy")
    assert defray(*words).code == 0
    assert not (defray.folder / "contract.ledger").exists()
    assert defray("ask", "SELECT COUNT(*) FROM people", "--within", "20").code == 0
    before = contents(defray.folder)
    assert "contract.ledger" in before
    said = defray(*words, "--out", "report")
    assert said.code == 0
    assert f"note: {CURATOR}\n" in said.out
    document = defray(*words, "--out", "report", "--json").json
    assert document["table"] == {"kind": "data", "rows": None}
    assert CURATOR in document["notes"]
    report = defray.folder / "report"
    assert CURATOR in (report / "report.html").read_text("utf-8").replace("&#x27;", "'")
    assert CURATOR in json.loads((report / "report.json").read_text())["notes"]
    after = contents(defray.folder)
    assert {name: after[name] for name in before} == before
    assert all(Path(name).parts[0] == "report" for name in after.keys() - before.keys())
    # 500 people, 167 of them F, 338 are 40 or older, 300 below 60, 370 below 70; none of that is told.
    told = numbers_in({k: v for k, v in document.items() if k != "files"})
    for file in report.glob("*.csv"):
        told |= numbers_in(file.read_text().split(","))
    assert told & {2.0, 7.0}  # the twin: what is there is found
    rows = [line.split(",") for line in (defray.folder / "people.csv").read_text().split()[1:]]
    true = {
        len(rows), sum(r[1] == "F" for r in rows), sum(r[1] == "M" for r in rows),
        sum(int(r[0]) >= 40 for r in rows), sum(int(r[0]) < 60 for r in rows),
        sum(int(r[0]) < 70 for r in rows), sum(int(r[2]) for r in rows),
    }  # fmt: skip
    assert not told & {float(x) for x in true}


def test_the_contracts_own_gate_and_weights_come_first(defray: Any) -> None:
    (defray.folder / "asks.jsonl").write_text(COUNTS)
    path = defray.folder / "contract.toml"
    path.write_text(path.read_text().replace("xi = 0.1", 'xi = 0.1\ngate = "dual"\nhorizon = 20'))
    weighed = defray(*TABLE, "synthetic", "--seeds", "1", "--json").json
    assert weighed["policies"][0]["policy"] == "qif_dual"
    assert "the contract's own policy is qif_dual" in weighed["notes"]
    assert "every policy keeps xi for diagnostics, as the contract does" in weighed["notes"]
    plain = defray(*TABLE, "synthetic", "--seeds", "1", "--xi", "0", "--json").json
    assert plain["policies"][0]["policy"] == "dual"
    assert "the contract's own policy is dual" in plain["notes"]


@pytest.mark.slow
def test_what_a_table_cannot_be_asked(defray: Any) -> None:
    (defray.folder / "asks.jsonl").write_text(ASKS + KINDS.replace("COUNT(*)", "AVG(income)"))
    said = defray(*TABLE, "synthetic")
    assert said.code == 2
    assert "  line 4: key: a key names a question, and a table can only be asked SQL\n" in said.err
    problems = defray(*TABLE, "synthetic", "--json").json["error"]["problems"]
    assert [(p["line"], p["field"]) for p in problems] == [(4, "key"), (11, "rho")]
    (defray.folder / "asks.jsonl").write_text('{"key": "a", "rho": 1}\n')
    said = defray(*TABLE, "data")
    assert said.code == 2
    assert "asks.jsonl has 1 mistake\n  line 1: key: " in said.err
    (defray.folder / "asks.jsonl").write_text(COUNTS)
    (defray.folder / "used").mkdir()
    (defray.folder / "used" / "mine.txt").write_text("keep")
    for words, cure in (
        (("--policy", "SA"), "no contract with xi = 0.1 can choose SA"),
        (("--policy", "dual"), "one of refuse, greedy, qif_paper,"),
        (("--policy", "qif_dual", "--xi", "0"), "one of refuse, greedy, paper,"),
        (("--policy", "w1f_dual,refuse"), "can choose w1f_dual"),
        (("--policy", "refus"), "did you mean refuse?"),
        (
            ("--rows", "0"),
            "--rows must lie from 1 to 10,000, not 0, the contract's n_max is 10,000",
        ),
        (("--rows", "10001"), "--rows must lie from 1 to 10,000"),
        (("--out", "used"), "holds other files"),
    ):
        said = defray(*TABLE, "synthetic", *words)
        assert (said.code, said.out) == (2, ""), words
        assert cure in said.err
    assert "--rows belongs to" in defray(*TABLE, "data", "--rows", "5").err


# -- the paper -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_statements(bare: Any) -> None:
    said = bare("simulate", "--paper", "--seeds", "100")
    assert said.code == 0
    assert "all of them hold" in said.out
    found = bare("simulate", "--paper", "--seeds", "100", "--json").json
    assert found["holds"]
    assert len(found["statements"]) > 15
    assert all(row["verdict"] and row["bound"] and row["measured"] for row in found["statements"])


def test_a_statement_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Row("it holds", "Theorem 1", "<= 1", "0.5", True),
        Row("not", "E.1", "<= 1", "2", False),
    ]
    monkeypatch.setattr(theorems, "CHECKS", (lambda sequences, seed: rows,))
    assert main(["simulate", "--paper"]) == 1
    out = capsys.readouterr().out
    assert "NO" in out
    assert "1 of them FAILED" in out
    assert main(["simulate", "--paper", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["holds"]
    rows.pop()
    assert main(["simulate", "--paper"]) == 0


# -- plan ------------------------------------------------------------------------------------------
def test_a_plan_is_enough_and_no_more(bare: Any) -> None:
    spec = "zipf:n=80,distinct=20"
    found = bare("plan", "--generate", spec, "--share", "90%", "--delta", "1e-7", "--json").json
    assert list(by_policy(found)) == list(PLANNED)
    assert found["delta"] == 1e-7
    for name, need in by_policy(found).items():
        assert need["epsilon"] == epsilon_for(need["rho"], 1e-7)
        words = ("simulate", "--generate", spec, "--policy", name, "--seeds", "1", "--json")
        horizon = ("--horizon", found["contract"][1].removeprefix("horizon = "))
        for factor, enough in ((1 + 1e-9, True), (0.995, False)):
            one = bare(*words, *horizon, "--rho", repr(need["rho"] * factor)).json["policies"][0]
            assert (one["satisfied"] / 80 >= 0.9 - 1e-12) is enough, name


def test_a_plan_in_words(bare: Any) -> None:
    said = bare("plan", "--generate", "zipf:n=80,distinct=20", "--policy", "dual,satisfy")
    assert said.code == 0
    for words in ("epsilon at delta 1e-06", "by search", "errors 0.5 times as wide",
                  "10 % more asks", "For the contract (dual):"):  # fmt: skip
        assert words in said.out
    exact = bare("plan", "--generate", "zipf:n=80,distinct=20", "--policy", "refuse")
    assert "exactly (Theorem 7)" in exact.out


@pytest.mark.parametrize("policy", ["refuse", "dual", "qif_fluid", "satisfy"])
def test_the_lines_for_a_contract_are_a_contract(defray: Any, policy: str) -> None:
    (defray.folder / "asks.jsonl").write_text(ASKS)
    words = ("plan", "asks.jsonl", "-c", "contract.toml", "--policy", policy)
    found = defray(*words, "--json").json
    path = defray.folder / "contract.toml"
    rest = path.read_text().replace("rho = 1\n", "").replace("xi = 0.1\n", "")
    path.write_text("\n".join(found["contract"]) + "\n" + rest)
    contract = read_contract(path)
    need = found["policies"][0]
    assert need["rho"] <= float(contract.rho) <= need["rho"] * (1 + 1e-5)
    assert contract.horizon == 4
    assert contract.gate == policy.removeprefix("qif_")
    assert (
        f"    {found['contract'][0]}" in defray(*words[:2], "-c", "contract.toml", *words[4:]).out
    )
    if policy != "refuse":
        paid = found["sensitivity"]["needs"]
        assert len(contract.forecast) == 4
        assert paid


def test_a_policy_that_no_budget_is_enough_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plans.required

    def never(workload: Workload, name: str, **arguments: Any) -> Requirement:
        if name != "refuse":
            raise BadInput(f"{name} meets no 100% of the targets with any budget", hint="less")
        return found(workload, name, **arguments)

    monkeypatch.setattr(plans, "required", never)
    words = ["plan", "--generate", "iid:n=9", "--policy"]
    assert main([*words, "dual,refuse"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^ dual +- +- +- +no budget is enough", out, re.MULTILINE)
    assert "For the contract (refuse):" in out
    assert main([*words, "dual,satisfy"]) == 2
    assert "dual meets no 100%" in capsys.readouterr().err


# -- what is refused -------------------------------------------------------------------------------

SPEC = ("simulate", "--generate", "iid")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate",), "--generate"),
        (("plan",), "--generate"),
        (("simulate", "a.csv", "--generate", "iid", "--rho", "1"), "not both"),
        (("simulate", "--generate", "zpf", "--rho", "1"), "did you mean zipf?"),
        (("simulate", "--generate", "iid:n=0", "--rho", "1"), "n must be"),
        (("simulate", "nowhere.csv", "--rho", "1"), "cannot read nowhere.csv"),
        (("plan", "nowhere.csv"), "cannot read nowhere.csv"),
        (("simulate", ".", "--rho", "1"), "is not a file"),
        (("simulate", "people.csv", "--rho", "1"), "line 1: age: "),
        (SPEC, "--rho 0.5"),
        *(((*SPEC, "--rho", x), f"--rho must be a number from 1e-18 to 1e9, not {x}")
          for x in ("0", "nan", "inf", "1e400", "x", "1/0")),
        ((*SPEC, "--rho=-1"), "--rho must be"),
        ((*SPEC, "--epsilon", "1"), "--delta"),
        ((*SPEC, "--delta", "1e-6"), "--epsilon"),
        ((*SPEC, "--rho", "1", "--epsilon", "1", "--delta", "1e-6"), "keep one"),
        ((*SPEC, "--epsilon", "1", "--delta", "1"), "--delta must lie"),
        ((*SPEC, "--rho", "1", "--xi", "1"), "--xi must be below 100%"),
        ((*SPEC, "--rho", "1", "--xi", "nan"), "--xi must lie"),
        ((*SPEC, "--rho", "1", "--horizon", "0"), "--horizon must lie"),
        ((*SPEC, "--rho", "1", "--seeds", "0"), "--seeds must lie"),
        ((*SPEC, "--rho", "1", "--seeds", "x"), "defray simulate --help"),
        ((*SPEC, "--rho", "1", "--policy", "duel"), "did you mean dual?"),
        ((*SPEC, "--rho", "1", "--policy", "dual,"), "called nothing"),
        ((*SPEC, "--rho", "1", "--out", "people.csv"), "people.csv is not a directory"),
        ((*SPEC, "--rho", "1", "-c", "nowhere.toml"), "no such file"),
        ((*SPEC, "--rho", "1", "--table", "synthetic"), "name a workload file and its contract"),
        (("simulate", "a.csv", "--rho", "1", "--table", "data"), "name a workload file and"),
        ((*SPEC, "--rho", "1", "--table", "real"), "--table must be synthetic or data, not real"),
        ((*SPEC, "--rho", "1", "--rows", "5"), "--rows belongs to --table synthetic"),
        ((*SPEC, "--paper"), "--paper takes"),
        (("simulate", "--paper", "--table", "synthetic"), "--paper takes"),
        (("simulate", "--paper", "--seeds", "5"), "at least 100"),
        (("plan", "--generate", "iid", "--share", "0"), "--share must be above 0"),
        (("plan", "--generate", "iid", "--share", "101%"), "--share must lie"),
        (("plan", "--generate", "iid", "--delta", "0"), "--delta must lie"),
        (("plan", "--generate", "iid", "--policy", "wat ever"), "one of refuse"),
    ],
)  # fmt: skip
def test_bad_input(
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "people.csv").write_text("age,sex\n1,F\n")
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert main([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] in (
        "bad-input", "contract-invalid", "target-invalid", "workload-invalid"
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv"]


def test_all_bad_lines_at_once(defray: Any) -> None:
    (defray.folder / "bad.csv").write_text(
        "sql;key;within\nSELECT MAX(age) FROM people;;5\n;a;0\n;a;5\n;;5\n"
    )
    said = defray("simulate", "bad.csv", "-c", "contract.toml")
    assert said.code == 2
    assert said.err.startswith("error: bad.csv has 3 mistakes\n  line 2: sql: ")
    assert "    SELECT MAX(age) FROM people\n           ^^^\n" in said.err
    document = defray("plan", "bad.csv", "-c", "contract.toml", "--json").json
    assert document["error"]["code"] == "workload-invalid"
    assert document["error"]["message"] == "bad.csv has 3 mistakes"
    assert [(p["line"], p["field"]) for p in document["error"]["problems"]] == [
        (2, "sql"), (3, "within"), (5, "(line)"),
    ]  # fmt: skip


# -- the rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["check"], ["balance", "--json"]])
def test_other_commands_do_not_pay_for_the_simulator(defray: Any, words: list[str]) -> None:
    script = (
        "import sys; from defray.cli import main; code = main(sys.argv[1:]); "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('scipy', 'numpy') "
        "or m.startswith(('defray.simulate', 'defray.cli.simulate'))), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=defray.folder,
        env=defray.environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stderr == "[]\n"


def console_blocks() -> list[tuple[str, str]]:
    found = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", DOCUMENT.read_text("utf-8"))
    assert found
    return found


@pytest.mark.parametrize(("command", "printed"), console_blocks())
def test_what_the_documentation_shows_is_what_is_printed(
    bare: Any, command: str, printed: str
) -> None:
    text = DOCUMENT.read_text("utf-8")
    example = Path(defray.example.__file__).parent
    (bare.folder / "example").mkdir()
    shutil.copy(example / "contract.toml", bare.folder / "example")
    files = re.findall(r"this in `(\w+\.jsonl)`.*?```json\n(.*?)```", text, re.DOTALL)
    assert len(files) == text.count("```json")
    for name, asks in files:
        (bare.folder / name).write_text(asks)
    said = bare(*command.split()[1:], env={"COLUMNS": "100"})
    assert said.code == 0
    assert [line.rstrip() for line in said.out.splitlines()] == printed.splitlines()


def test_every_policy_generator_and_option_is_documented(bare: Any) -> None:
    text = DOCUMENT.read_text("utf-8")
    for name in [*GENERATORS, *(n for n in SCHEMES if not n.startswith(("qif_", "w1f_")))]:
        assert f"`{name}`" in text, name
    for command in ("simulate", "plan"):
        options = set(re.findall(r"--[a-z]+", bare(command, "--help").out)) - {"--help"}
        assert len(options) > 5
        missing = {option for option in options if option not in text}
        assert not missing, missing
