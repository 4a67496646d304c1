"""An older copy of a ledger that is put back in its place is noticed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from defray.errors import LedgerMismatch
from tests.cli.conftest import Terminal
from tests.tables import open_session, write_contract, write_people

COUNT = "SELECT COUNT(*) FROM people WHERE age < {}"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_people(tmp_path, 500)
    return write_contract(tmp_path)


def ask(contract: Path, *ages: int) -> None:
    with open_session(contract) as session:
        for age in ages:
            session.ask(COUNT.format(age), within=50)


def backed_up(contract: Path) -> Path:
    copy = contract.with_name("copy")
    with open_session(contract) as session:
        session.backup(copy)
    return copy


def put_back(contract: Path, copy: Path) -> None:
    for part in ("-wal", "-shm", ""):
        contract.with_name(f"contract.ledger{part}").unlink(missing_ok=True)
    shutil.copy(copy, contract.with_name("contract.ledger"))


def test_an_older_copy_is_refused(contract: Path):
    ask(contract, 20)
    copy = backed_up(contract)
    ask(contract, 30)
    put_back(contract, copy)
    for _ in range(2):
        with pytest.raises(LedgerMismatch, match="ends at entry") as refused:
            ask(contract, 40)
        assert refused.value.context["newest"] < refused.value.context["seen"]


def test_an_older_copy_that_went_on_elsewhere_is_refused(contract: Path):
    ask(contract, 20)
    copy = backed_up(contract)
    ask(contract, 30)
    witness = contract.with_name("contract.ledger.witness")
    kept = witness.read_text()
    put_back(contract, copy)
    witness.unlink()
    ask(contract, 40, 50, 60)
    witness.write_text(kept)
    with pytest.raises(LedgerMismatch, match="is another one"):
        ask(contract, 70)


def test_the_newest_copy_and_a_newer_one_are_fine(contract: Path):
    ask(contract, 20)
    witness = contract.with_name("contract.ledger.witness")
    kept = witness.read_text()
    ask(contract, 30)
    put_back(contract, backed_up(contract))
    ask(contract, 40)
    witness.write_text(kept)
    ask(contract, 50)
    assert witness.read_text() != kept


@pytest.mark.parametrize("left", [None, "", "{}", "[1]", '{"seq": "x", "head": 1}'])
def test_without_a_witness_that_can_be_read_a_ledger_is_taken_as_it_is(
    contract: Path, left: str | None
):
    ask(contract, 20)
    witness = contract.with_name("contract.ledger.witness")
    kept = witness.read_text()
    if left is None:
        witness.unlink()
    else:
        witness.write_text(left)
    open_session(contract).close()
    assert witness.read_text() == kept  # from now on there is one again


def test_a_ledger_that_is_gone_is_not_begun_anew(contract: Path):
    ask(contract, 20)
    contract.with_name("contract.ledger").unlink()
    with pytest.raises(LedgerMismatch, match="is gone"):
        ask(contract, 30)
    assert not contract.with_name("contract.ledger").exists()


@pytest.mark.long
def test_no_command_takes_a_ledger_that_is_gone_for_one_that_was_never_made(contract: Path):
    defray = Terminal(contract.parent)
    ask(contract, 20)
    contract.with_name("contract.ledger").unlink()
    for command in ("balance", "history", "check", "audit", "analyst list", "ledger backup copy"):
        told = defray(*command.split())
        assert told.code == 5 and "is gone" in told.err and "new budget" in told.err, command
    for accept in ([], ["--yes"]):
        assert "there is no ledger" in defray("ledger", "accept-older", *accept).err


def test_before_anything_was_spent_there_is_nothing_to_forget(contract: Path):
    open_session(contract).close()
    assert not contract.with_name("contract.ledger.witness").exists()


def test_a_witness_that_cannot_be_written_is_told_once(contract: Path, caplog: Any):
    with contract.open("a") as text:
        text.write('\n[ledger]\nwitness = "nowhere/at/all"\n')
    ask(contract, 20, 30)
    told = [record.message for record in caplog.records if "witness" in record.message]
    assert len(told) == 1
    assert "cannot be written" in told[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_does_not_stop_an_ask(contract: Path, caplog: Any):
    folder = contract.parent / "sealed"
    folder.mkdir(mode=0o500)
    with contract.open("a") as text:
        text.write('\n[ledger]\nwitness = "sealed/witness"\n')
    ask(contract, 20)
    assert "cannot be written" in caplog.text


def test_a_declared_witness_outlives_its_folder(contract: Path, tmp_path_factory: Any):
    witness = tmp_path_factory.mktemp("elsewhere") / "people.witness"
    with contract.open("a") as text:
        text.write(f'\n[ledger]\nwitness = "{witness}"\n')
    ask(contract, 20)
    copy = contract.with_name("all of it")
    shutil.copytree(contract.parent, copy, ignore=shutil.ignore_patterns(copy.name))
    ask(contract, 30)
    with pytest.raises(LedgerMismatch, match=r"people\.witness"):
        ask(copy / contract.name, 40)


@pytest.mark.long
def test_an_older_ledger_may_be_accepted_and_that_is_told_ever_after(contract: Path):
    defray = Terminal(contract.parent)
    ask(contract, 20)
    copy = backed_up(contract)
    ask(contract, 30)
    put_back(contract, copy)
    assert defray("balance").code == 5
    assert "promise holds no more" in defray("ledger", "accept-older").err
    assert defray("balance").code == 5
    assert defray("ledger", "accept-older", "--yes").code == 0
    assert defray("balance").code == 0
    ask(contract, 40)
    told = defray("audit", "--json").json["accepted_older"]
    assert len(told) == 1
    assert told[0]["entries"] < told[0]["instead_of"]["entries"]
    assert "had been seen" in defray("audit").out
