"""The contract, its columns and the books, as the library has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from defray.config.reader import parse_contract
from defray.example import open_demo
from defray.service.terms import contract_document, schema_document
from tests.service.conftest import COUNT, House

HEAD = 'version = 1\nrho = 1\ntable = "t"\n[source]\nkind = "csv"\npath = "t.csv"\n'


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_demo(tmp_path_factory.mktemp("demo")) as session:
        house = House(session)
        with house.client:
            yield house


def test_the_contract_in_words_and_numbers(demo: House):
    told = demo.get("ana", "/contract").json()
    assert (told["table"], told["rho"], told["xi"]) == ("randhie", 0.5, 0.1)
    assert told["unit"] == "all rows of one zper (at most 5 kept)"
    assert told["epsilon"]["epsilon"] == pytest.approx(5.23, abs=0.01)
    assert any("all rows of one zper" in words for words in told["words"])
    assert "path" not in json.dumps(told)
    assert str(demo.session.contract.directory) not in json.dumps(told)


def test_every_example_can_be_asked(demo: House):
    examples = demo.get("ana", "/schema").json()["examples"]
    assert len(examples) == 3
    for sql in examples:
        quote = demo.send("ana", "POST", "/quote", {"sql": sql})
        assert quote.status_code == 200, (sql, quote.text)
        assert quote.json()["fits"]


def test_the_columns_are_those_of_the_contract(demo: House):
    columns = {c["name"]: c for c in demo.get("ana", "/schema").json()["columns"]}
    assert set(columns) == set(demo.session.contract.domain.names)
    assert columns["plan"]["domain"] == {"values": ["free", "25%", "50%", "95%", "deductible"]}
    assert columns["plan"]["null"] == "rows with NULL are left out"
    assert columns["age"]["domain"] == {"min": 0, "max": 66}
    assert columns["age"]["bounds"] == [0, 66]
    assert columns["ghindx"]["domain"] == {"start": 0, "step": 5, "bins": 20}
    assert columns["outpdol"]["domain"]["edges"][:3] == [0, 10, 25]
    assert columns["physlm"]["levels"] == ["value"]


@pytest.mark.parametrize(
    ("column", "domain", "words"),
    [
        ('type = "date"\nmin = 2020-01-01\nmax = 2020-12-31',
         {"min": "2020-01-01", "max": "2020-12-31"}, "every day"),
        ('type = "timestamp"\nmin = 2020-01-01T00:00:00\nmax = 2020-01-02T00:00:00\nstep = "1 hour"',
         {"start": "2020-01-01 00:00:00", "step_microseconds": 3600 * 10**6, "bins": 24}, "24 bins"),
        ('type = "boolean"', {"values": [False, True]}, "one of 2 values"),
        ('type = "integer"\nbounds = [0, 5]\nunit_step = 1', {"any": True}, "any value"),
    ],
)  # fmt: skip
def test_domains_of_other_kinds(column: str, domain: dict[str, object], words: str):
    contract = parse_contract(f"{HEAD}[columns.c]\n{column}\n", Path("contract.toml"))
    (told,) = schema_document(contract)["columns"]
    assert told["domain"] == domain
    assert words in told["words"]
    assert json.dumps(contract_document(contract), allow_nan=False)


def test_promises_are_told(tmp_path: Path):
    promise = '[[promise]]\ncolumns = ["c"]\nkind = "ranges"\nwithin = 50\n'
    column = '[columns.c]\ntype = "integer"\nmin = 1\nmax = 9\n'
    told = contract_document(parse_contract(HEAD + column + promise, Path("contract.toml")))
    assert told["promises"][0]["words"] == "ranges of c, within 50 at 0.95"
    assert told["words"][-1] == "never refused: ranges of c, within 50 at 0.95"


def test_history_comes_in_pages_newest_first(house: House):
    for age in range(5):
        assert house.ask("ana", f"{COUNT} WHERE age = {age}").status_code == 200
    whole = house.get("ana", "/history").json()
    assert whole["next"] is None
    ids = [ask["id"] for ask in whole["asks"]]
    assert ids == sorted(ids, key=int, reverse=True)
    paged, cursor = [], None
    while True:
        page = house.get(
            "ana", "/history", limit=2, **({"cursor": cursor} if cursor else {})
        ).json()
        paged += page["asks"]
        if cursor is None:
            house.ask("ana", f"{COUNT} WHERE age = 50")  # what comes meanwhile moves no page
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == whole["asks"]
    assert house.get("ana", "/history", cursor="bm90aGluZw").json()["code"] == "bad-input"


def test_history_as_known_now(house: House):
    house.ask("ana", within=100)
    house.ask("ben", within=20)
    (ask,) = house.get("ana", "/history", refresh=True).json()["asks"]
    then, now = ask["rows"][0]["then"], ask["rows"][0]["now"]
    assert now["half_width"] < then["half_width"]
    assert house.get("ana", f"/answers/{ask['id']}").json() == ask


def test_the_balance_is_the_librarys(house: House):
    house.ask("ana")
    told = house.get("ana", "/balance", within="20", confidence="0.9", by="sex").json()
    ana = house.session.on_behalf_of("ana")
    assert told == ana.balance(within=20, confidence=0.9, by="sex")
    assert house.get("ana", "/balance", by="").status_code == 422  # it names no column
    assert told["account"]["share"] == 0.5
