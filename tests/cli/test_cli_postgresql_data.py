"""A contract whose data is in PostgreSQL, from the command line, with a ledger in a file or in a database."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cli.conftest import WRITTEN, Terminal
from tests.postgresql.server import Server, ledger_section, new_schema, the_server

ASK = ("ask", "SELECT COUNT(*) FROM people WHERE age < 40", "--within", "30")
ROWS = (
    "SELECT i % 90 AS age, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END AS sex, i * 7 % 50000 AS income"
    " FROM generate_series(1, 3000) t(i)"
)


@pytest.fixture
def schema() -> Iterator[str]:
    name, server = new_schema(), the_server()
    server.sql(
        f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO {Server.SERVICE};"
        f" CREATE TABLE {name}.people AS {ROWS}; GRANT SELECT ON {name}.people TO {Server.SERVICE}"
    )
    yield name
    server.sql(f"DROP SCHEMA {name} CASCADE")


def contract(schema: str, ledger: str = "") -> str:
    dsn = the_server().dsn(Server.SERVICE)
    source = (
        f'kind = "postgresql"\ndsn = "{dsn}"\ntable = "{schema}.people"\ndata_version = "2024-06"'
    )
    return WRITTEN.replace('kind = "csv"\npath = "people.csv"', source) + ledger


@pytest.mark.long
@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"])
def test_a_whole_story(bare: Terminal, schema: str, ledger: str) -> None:
    section = ledger_section() if ledger == "postgresql" else ""
    (bare.folder / "contract.toml").write_text(contract(schema, section))
    checked = bare("check", "--json").json
    assert checked["source"] == {
        "kind": "postgresql",
        "where": f"postgresql:///ledgers table {schema}.people",
    }
    first = bare(*ASK, "--json").json
    assert first["charged_rho"] > 0
    assert abs(first["rows"][0]["value"] - 1334) < 150
    assert bare(*ASK, "--json").json["charged_rho"] == 0
    assert bare("balance", "--json").json["spent_rho"] > 0
    if ledger == "postgresql":
        grouped = "SELECT sex, AVG(income) FROM people GROUP BY sex"
        assert len(bare("ask", grouped, "--within", "2000", "--json").json["rows"]) == 3
        assert bare("audit").code == 0


@pytest.mark.slow
def test_a_table_that_is_written_to(bare: Terminal, schema: str) -> None:
    (bare.folder / "contract.toml").write_text(contract(schema))
    assert bare(*ASK).code == 0
    server = the_server()
    server.sql(f"INSERT INTO {schema}.people VALUES (5, 'F', 1)")
    for tries in range(20):
        asked = bare(
            "ask", f"SELECT COUNT(*) FROM people WHERE age < {41 + tries}", "--within", "90"
        )
        if asked.code:
            break
        time.sleep(0.2)
    assert "declare a new data_version" in asked.err
    assert bare(*ASK, "--json").json["charged_rho"] == 0  # what is known needs no scan
    (bare.folder / "contract.toml").write_text(contract(schema).replace("2024-06", "2024-07"))
    assert bare(*ASK, "--json").json["charged_rho"] > 0


@pytest.mark.long
def test_check_says_what_is_wrong(bare: Terminal, schema: str) -> None:
    file = bare.folder / "contract.toml"
    file.write_text(contract(schema).replace("[columns.sex]", "[columns.gender]"))
    assert "no column gender" in bare("check").err
    file.write_text(contract(schema).replace(f"{schema}.people", f"{schema}.persons"))
    assert "no table persons" in bare("check").err
    the_server().sql(f"REVOKE SELECT ON {schema}.people FROM {Server.SERVICE}")
    file.write_text(contract(schema))
    refused = bare("check")
    assert refused.code != 0
    assert f'GRANT SELECT ON "{schema}"."people"' in refused.err
    as_owner = {"DEFRAY_SOURCE_DSN": f"{the_server().dsn('postgres')} password=hunter2"}
    for command in (("check",), ASK):
        said = bare(*command, env=as_owner)
        assert said.code == 0
        assert "hunter2" not in said.out + said.err


def test_a_draft_of_a_table(bare: Terminal, schema: str) -> None:
    dsn = f"postgresql:///ledgers?host={the_server().folder}&user={Server.SERVICE}"
    written = bare("init", dsn, "--table", f"{schema}.people", "-o", "draft.toml")
    assert written.code == 0, written.err
    text = (bare.folder / "draft.toml").read_text()
    assert f'dsn = "{dsn}"' in text
    assert 'data_version = "1"' in text
    assert text.count('type = "integer"') == 2
    assert "3000" not in text
    assert "source." not in bare("check", "-c", "draft.toml").err  # only what is to be filled in
    assert "--table" in bare("init", dsn, "-o", "other.toml").err
    assert "--peek" in bare("init", dsn, "--table", "x", "--peek", "-o", "other.toml").err
    secret = dsn.replace("///", "//me:hunter2@/")
    refused = bare("init", secret, "--table", "x", "-o", "other.toml")
    assert "hunter2" not in refused.err + refused.out
    assert not (bare.folder / "other.toml").exists()
