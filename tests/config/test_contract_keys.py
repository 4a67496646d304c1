import re
import tomllib
from pathlib import Path

import pytest

from defray.config.keys import KEYS, cure_for_unknown, key_at, names_in
from defray.config.reader import parse_contract

DOCS = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_is_documented_with_its_example(key):
    rows = [line for line in DOCS.splitlines() if line.startswith(f"| `{key.path}` |")]
    assert len(rows) == 1
    assert f"`{key.example}`" in rows[0]
    assert key.leaf in tomllib.loads(key.example)


def test_nothing_is_documented_that_does_not_exist():
    named = re.findall(r"^\| `([A-Za-z_.\[\]]+)` \|", DOCS, re.MULTILINE)
    assert named == [key.path for key in KEYS]


def test_the_documented_contract_is_valid():
    text = DOCS.partition("```toml\n")[2].partition("```")[0]
    contract = parse_contract(text, Path("people.toml"))
    assert contract.domain.names == ("age", "income", "sex", "visit")
    assert contract.unit.row_key == ("visit_id",)


def test_paths_are_unique_and_families_known():
    assert len({key.path for key in KEYS}) == len(KEYS)
    assert names_in("columns") == ("NAME",)
    assert key_at("source.csv.null").family == "source.csv"


@pytest.mark.parametrize(
    ("family", "name", "cure"),
    [
        ("", "rh0", "did you mean rho?"),
        ("", "Rho", "write it in lower case: rho"),
        ("", "max_rows", "max_rows belongs in [unit]"),
        ("source", "rho", "rho belongs in the top of the file, above the first [table]"),
        ("columns.NAME", "bound", "did you mean bounds?"),
        ("unit", "qqq", "[unit] knows: column, max_rows, row_key"),
    ],
)
def test_the_cure_for_an_unknown_key(family, name, cure):
    assert cure_for_unknown(family, name) == cure
