"""``python -m benchmarks.peers``, from files of the recorded workloads' form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.__main__ import main

POOL = """query_id,query_type,n_blocks,utility,utility_beta,task_name,query
0,linear,1,0.05,0.001,a,"{'0': 0}"
1,linear,1,0.05,0.001,b,"{'0': 1, '1': [0, 2]}"
2,linear,1,0.05,0.001,c,"{'1': 1}"
3,linear,1,0.05,0.001,d,{}
"""
ORDER = "query_id\n2\n0\n1\n2\n3\n0\n"
DOMAINS = """databases:
- database: "toy"
  tables:
    - table: "people"
      columns:
        - name: "age"
          type: "c"
          ub: 100
          lb: 0
        - name: "town"
          type: "d"
          domain: "a,  b"
        - name: "pay"
          type: "c"
          ub: 1000
          lb: 0
"""
QUESTIONS = """order,analyst,attribute,lb,ub,target_variance
0,1,age,10,52.5,900
1,0,pay,100,400,400
2,1,age,10,52.5,900
3,1,age,0,99,2500
"""
TABLE = "".join(f"{i % 90}, {'ab'[i % 2]}, {i * 7 % 1000}\n" for i in range(300))


@pytest.fixture
def covid(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "pool.csv").write_text(POOL)
    (tmp_path / "order.csv").write_text(ORDER)
    np.save(tmp_path / "blocks.npy", np.arange(18).reshape(3, 2, 3) * 100 + 1)
    return {n: tmp_path / f for n, f in (("pool", "pool.csv"), ("order", "order.csv"))}


@pytest.fixture
def adult(tmp_path: Path) -> dict[str, Path]:
    for name, text in (("t.csv", TABLE), ("d.yaml", DOMAINS), ("q.csv", QUESTIONS)):
        (tmp_path / name).write_text(text)
    return {
        n: tmp_path / f
        for n, f in (("table", "t.csv"), ("domains", "d.yaml"), ("questions", "q.csv"))
    }


def words(command: str, files: dict[str, Path], *more: str) -> list[str]:
    return [command, *(w for name, path in files.items() for w in (f"--{name}", str(path))), *more]


def test_counts_from_files(covid, tmp_path, capsys):
    blocks = str(tmp_path / "blocks.npy")
    arguments = words("covid", covid, "--blocks", blocks, "--limit", "5", "--json", "--seeds", "20")
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["questions"], told["answered"], told["seeds"]) == (5, 5, 20)
    assert told["offline_bound_units"] <= told["units"] <= told["exact_repeats_by_cell_units"]
    assert told["broken_target_share"] <= 0.05
    assert told["ms_p50"] > 0 and told["ms_mean"] > 0
    # 0.05 of the rows but for one in a thousand: rho = (3.29 / (0.05 n))^2 / 2
    n = (np.arange(6) * 100 + 1).sum()
    assert told["rho_of_one_question"] == pytest.approx((3.2905267 / (0.05 * n)) ** 2 / 2)


def test_without_blocks_the_table_is_made_up(covid, capsys):
    assert main(words("covid", covid, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["questions"] == 6 and told["broken_target_share"] is not None


def test_ranges_from_files(adult, capsys):
    assert main(words("adult", adult, "--epsilon", "0.8", "--delta", "1e-5", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["questions"] == 4 and told["free"] >= 1
    assert told["spent_rho"] <= told["budget_rho"]
    assert told["broken_target_share"] <= 0.2


def test_a_budget_that_buys_nothing_is_told(adult, capsys):
    assert main(words("adult", adult, "--epsilon", "0.001", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["answered"], told["spent_rho"], told["broken_target_share"]) == (0, 0.0, None)
    assert main(words("adult", adult, "--epsilon", "0.001")) == 0


def test_no_value_is_an_answer_of_zero(covid, capsys):
    covid["pool"].write_text(POOL.replace("{'0': 0}", "{'0': []}"))
    assert main(words("covid", covid, "--json", "--sizes", "2,3")) == 0
    assert json.loads(capsys.readouterr().out)["answered"] == 6


def test_a_table_and_a_page_that_opens_alone(adult, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(words("adult", adult, "--epsilon", "1.6", "--html", str(page))) == 0
    assert "4 questions" in capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "Content-Security-Policy" in text
    assert "<td" in text and "src=" not in text.split("<script", 1)[0]


BAD_COVID = [
    ("pool", "", "empty"),
    ("pool", "query_id,query\n0,{}\n", "no column 'utility'"),
    ("pool", POOL.replace("{'0': 0}", "{'0': -1}"), "line 2: query is"),
    ("pool", POOL.replace("{'0': 0}", "open(1)"), "line 2: query is"),
    ("pool", POOL.replace("{'0': 0}", "{'99': 0}"), "line 2: query is"),
    ("pool", POOL.replace("{'0': 0}", "{'0': 9999}"), "mentions more than"),
    ("pool", POOL.replace("0.05", "nan", 1), "line 2: utility is 'nan'"),
    ("pool", POOL.replace("0.05", "2", 1), "line 2: utility and utility_beta"),
    ("pool", POOL.replace("1,linear", "0,linear", 1), "line 3: a second query_id 0"),
    ("pool", POOL.replace("2,linear,1,", "2,linear,", 1), "line 4: 6 cells under 7 columns"),
    ("order", "query_id\n9\n", "line 2: query_id '9' is not in the pool"),
    ("order", "query_id\n", "holds no arrival"),
    ("order", "\x00\xff", "no column 'query_id'"),
]
BAD_ADULT = [
    ("table", "1, a\n", "line 1: 2 columns, where 3 are declared"),
    ("table", "1, a, x\n", "line 1: pay is 'x'"),
    ("table", "1, a, 2\n1, a\n", "line 2: 2 cells"),
    ("table", "", "holds no row"),
    ("domains", "a: [", "line 1: a bracket"),
    ("domains", "a: b", "declares no table"),
    ("domains", DOMAINS.replace('"age"', '"years"'), "declares no column 'age'"),
    ("domains", DOMAINS.replace("ub: 100\n", "ub: -3\n"), "column 'age' has lb 0 and ub -3"),
    ("domains", DOMAINS.replace("lb: 0", "lb: x"), "column 'age' has no bounds"),
    ("questions", QUESTIONS.replace("2500", "0"), "line 5: target_variance is '0'"),
    ("questions", QUESTIONS.replace("52.5", "5", 1), "line 2: lb 10 is above ub 5"),
    ("questions", QUESTIONS.splitlines()[0], "holds no question"),
]


@pytest.mark.parametrize(("name", "text", "problem"), BAD_COVID)
def test_bad_counts_are_one_line(covid, capsys, name, text, problem):
    covid[name].write_text(text)
    assert_one_line(words("covid", covid), capsys, problem)


@pytest.mark.parametrize(("name", "text", "problem"), BAD_ADULT)
def test_bad_ranges_are_one_line(adult, capsys, name, text, problem):
    adult[name].write_text(text)
    assert_one_line(words("adult", adult, "--epsilon", "1"), capsys, problem)


@pytest.mark.parametrize("name", ["table", "domains", "questions"])
def test_absent_and_binary_files_are_one_line(adult, capsys, name):
    adult[name].write_bytes(b"\xff\xfe\x00")
    assert_one_line(words("adult", adult, "--epsilon", "1"), capsys, "not UTF-8")
    adult[name].unlink()
    assert_one_line(words("adult", adult, "--epsilon", "1"), capsys, "cannot be read")


def test_blocks_of_another_shape_are_one_line(covid, tmp_path, capsys):
    np.save(tmp_path / "blocks.npy", np.ones((1, 2, 2)))
    arguments = words("covid", covid, "--blocks", str(tmp_path / "blocks.npy"))
    assert_one_line(arguments, capsys, "beyond 2 x 2 cells")


def assert_one_line(arguments, capsys, problem):
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert told.err.startswith("error: bad-input: ") and problem in told.err


FOLDER = os.environ.get("DEFRAY_WORKLOADS", "")


@pytest.mark.long
@pytest.mark.skipif(not Path(FOLDER, "adult").is_dir(), reason="DEFRAY_WORKLOADS is not set")
def test_the_recorded_files_are_read(capsys):
    covid, adult = Path(FOLDER, "covid"), Path(FOLDER, "adult")
    files = {"pool": covid / "pool_34425.csv", "order": covid / "order_zipf1.csv"}
    assert main(words("covid", files, "--limit", "100", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answered"] == 100 and told["units"] <= 1.4 * told["offline_bound_units"]
    files = {"table": adult / "adult.csv", "domains": adult / "domains.yaml"}
    files["questions"] = adult / "ranges_random.csv"
    assert main(words("adult", files, "--limit", "300", "--epsilon", "6.4", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answered"] >= told["exact_repeats_answered"]
    assert told["spent_rho"] <= told["budget_rho"]


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["adult", "--epsilon", "-1"], ["covid", "--pool"], ["--seeds", "0"]]
)
def test_options_that_are_none_are_told_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("usage: ")


def test_the_module_runs():
    command = [sys.executable, "-m", "benchmarks.peers", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "covid --help" in done.stdout
