"""A contract whose ledger is in PostgreSQL, from the command line; and moving it there and back."""

from __future__ import annotations

import pytest

from tests.cli.conftest import WRITTEN, Terminal
from tests.postgresql.server import Server, ledger_section, the_server

ASK = ("ask", "SELECT COUNT(*) FROM people WHERE age < 40", "--within", "30")


@pytest.fixture
def served(bare: Terminal) -> Terminal:
    """The table and a contract with a ledger in a database."""
    text = WRITTEN + ledger_section()
    (bare.folder / "contract.toml").write_text(text)
    return bare


@pytest.mark.long
def test_the_books_of_a_ledger_in_a_database(served: Terminal) -> None:
    checked = served("check", "--json").json["ledger"]
    assert not checked["exists"]
    assert checked["path"].startswith("postgresql:///ledgers, schema t")
    assert "no ledger yet" in served("audit").err
    assert served("balance", "--json").json["spent_rho"] == 0
    first = served(*ASK, "--json").json
    again = served(*ASK, "--json").json
    assert again["charged_rho"] == 0
    assert first["charged_rho"] > 0
    assert served("check", "--json").json["ledger"]["exists"]
    assert served("history", "--json").json["total"] == 1
    assert served("audit").code == 0
    assert served("analyst", "add", "ana", "--share", "0.5").code == 0
    assert "ana" in served("analyst", "list").out
    assert served("ledger", "backup", "copy").code == 0
    (served.folder / "copy.toml").write_text(WRITTEN + '[ledger]\npath = "copy"\n')
    backup = served("audit", "-c", "copy.toml", "--json").json
    assert backup["head"] == served("audit", "--json").json["head"]
    assert served("close", "--yes").code == 0
    assert (served.folder / "contract.ledger.witness").exists()


@pytest.mark.long
def test_roles_and_a_dsn_from_the_environment(bare: Terminal) -> None:
    server = the_server()
    text = WRITTEN + ledger_section(server.dsn(Server.SERVICE))
    (bare.folder / "contract.toml").write_text(text)
    refused = bare(*ASK)
    assert refused.code == 5
    assert "ledger init --grant" in refused.err
    as_owner = {"DEFRAY_LEDGER_DSN": f"{server.dsn()} password=hunter2"}
    done = bare("ledger", "init", "--grant", Server.SERVICE, env=as_owner)
    assert done.code == 0
    assert "may append to it" in done.out
    assert bare("ledger", "init", "--json").json["made"] is False
    assert bare(*ASK).code == 0
    for command in (("check",), ("check", "--json"), ("audit", "--json"), ("ledger", "init")):
        said = bare(*command, env=as_owner)
        assert said.code == 0
        assert "hunter2" not in said.out + said.err
    nowhere = {"DEFRAY_LEDGER_DSN": "postgresql://me:hunter2@localhost:1/x"}
    said = bare(*ASK, env=nowhere)
    assert said.code == 5
    assert "cannot be reached" in said.err
    assert "hunter2" not in said.out + said.err


@pytest.mark.long
def test_a_ledger_is_moved_to_a_database_and_back(defray: Terminal) -> None:
    folder = defray.folder
    schema = ledger_section()
    (folder / "served.toml").write_text(WRITTEN + schema)
    (folder / "back.toml").write_text(WRITTEN + '[ledger]\npath = "back.ledger"\n')
    (folder / "other.toml").write_text(WRITTEN.replace("rho = 1", "rho = 2") + schema)
    assert defray(*ASK).code == 0
    before = defray("balance", "--json").json
    head = defray("audit", "--json").json["head"]
    assert "--yes" in defray("ledger", "copy", "contract.toml", "served.toml").err
    assert "different terms" in defray("ledger", "copy", "contract.toml", "other.toml", "--yes").err
    assert "both" in defray("ledger", "copy", "contract.toml", "contract.toml", "--yes").err
    moved = defray("ledger", "copy", "contract.toml", "served.toml", "--yes", "--json").json
    assert (moved["head"], moved["ok"]) == (head, True)
    refused = defray(*ASK)
    assert refused.code == 5
    assert "was moved to postgresql:///ledgers" in refused.err
    assert defray(*ASK, "-c", "served.toml", "--json").json["charged_rho"] == 0
    assert defray("balance", "-c", "served.toml", "--json").json["spent_rho"] == before["spent_rho"]
    assert defray("ledger", "copy", "served.toml", "back.toml", "--yes").code == 0
    assert defray("audit", "-c", "back.toml", "--json").json["head"] == head
    assert "was moved" in defray("ledger", "copy", "served.toml", "back.toml", "--yes").err


def test_only_a_database_has_roles(defray: Terminal) -> None:
    assert "has roles" in defray("ledger", "init", "--grant", "x").err
    assert defray("ledger", "init", "--json").json["made"]
