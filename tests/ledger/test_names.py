"""One ledger, one file, one name, for as long as it is open."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from defray.errors import LedgerError
from defray.ledger import creation, files
from defray.ledger.audit import audit
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.forks import in_child
from tests.ledger.makers import DOMAIN, derive, release, terms


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a"
    with SqliteLedger.open(made, terms()) as ledger, ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
    return made


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    with SqliteLedger.open(path, terms()) as opened:
        put(opened, "first")
        yield opened


def put(ledger: SqliteLedger, weights: str) -> int:
    with ledger.transaction() as transaction:
        return transaction.append(release(weights=weights))


# ------------------------------------------------------------------------------- a second name


@pytest.mark.parametrize("reading", [False, True])
def test_a_hard_link_is_refused(
    path: Path, tmp_path: Path, reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    os.link(path, tmp_path / "b")
    for name in (tmp_path / "a", tmp_path / "b"):
        with pytest.raises(LedgerError, match="2 names \\(hard links\\)") as caught:
            SqliteLedger.read(name) if reading else SqliteLedger.open(name, terms())
        assert type(caught.value) is LedgerError
        assert "Remove the other names" in caught.value.hint
    (tmp_path / "b").unlink()
    SqliteLedger.open(path, terms()).close()


def test_a_hard_link_made_later_stops_reading_and_writing(
    ledger: SqliteLedger, path: Path, tmp_path: Path
) -> None:
    os.link(path, tmp_path / "b")
    for use in (lambda: put(ledger, "second"), lambda: seq(ledger)):
        with pytest.raises(LedgerError, match="hard links"):
            use()
    (tmp_path / "b").unlink()
    assert put(ledger, "second") == 4
    assert audit(ledger, derive).ok


def test_another_opener_waits_for_the_maker_to_drop_the_first_name(path: Path) -> None:
    other = path.with_name("not-the-makers-name")
    os.link(path, other)
    timer = threading.Timer(0.15, other.unlink)
    timer.start()
    began = time.monotonic()
    SqliteLedger.open(path, terms()).close()
    assert 0.1 < time.monotonic() - began < 0.5
    timer.join()


def test_the_name_of_a_killed_maker_is_taken_away(path: Path, tmp_path: Path) -> None:
    left, strange = tmp_path / ".a.123-abcd.new", tmp_path / ".a.124-abcd.new"
    os.link(path, left)
    strange.write_bytes(b"a ledger that somebody else is making")
    SqliteLedger.open(path, terms()).close()
    assert not left.exists()
    assert strange.exists()


# ------------------------------------------------------------------------------- not that file any more


def seq(ledger: SqliteLedger) -> int:
    with ledger.view() as view:
        return view.seq


def deleted(path: Path) -> None:
    for name in path.parent.glob("a*"):
        name.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("b"))


def folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name(f"{path.parent.name}-elsewhere"))
    path.parent.mkdir()


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("b"))
    path.with_name("b").replace(path)


def made_again(path: Path) -> None:
    deleted(path)
    SqliteLedger.open(path, terms()).close()


LOST = [deleted, renamed, folder_renamed, replaced_by_a_copy, made_again]


@pytest.mark.parametrize("lose", LOST)
def test_a_lost_file_stops_reading_and_writing(
    ledger: SqliteLedger, path: Path, lose: Callable[[Path], None]
) -> None:
    lose(path)
    uses: list[Callable[[], object]] = [
        lambda: put(ledger, "second"),
        lambda: seq(ledger),
        lambda: list(ledger.entries()),
        ledger.folds,
        lambda: ledger.remembered("x"),
        lambda: ledger.remember("x", "y"),
        lambda: ledger.backup(path.with_name("copy")),
        lambda: audit(ledger, derive),
    ]
    for use in uses:
        with pytest.raises(LedgerError, match="moved, replaced or deleted") as caught:
            use()
        assert type(caught.value) is LedgerError
        assert "nothing was spent" in caught.value.message
        assert "Restore it" in caught.value.hint
    assert not path.with_name("copy").exists()


@pytest.mark.parametrize("lose", LOST)
def test_a_file_lost_within_a_transaction_keeps_nothing(
    ledger: SqliteLedger, path: Path, lose: Callable[[Path], None]
) -> None:
    def spend() -> None:
        with ledger.transaction() as transaction:
            transaction.append(release(weights="second"))
            lose(path)

    with pytest.raises(LedgerError, match="nothing was spent"):
        spend()
    if lose is renamed:
        path.with_name("b").rename(path)
        assert seq(ledger) == 3
        assert audit(ledger, derive).ok


def test_a_file_that_comes_back_is_the_ledger_again(ledger: SqliteLedger, path: Path) -> None:
    renamed(path)
    with pytest.raises(LedgerError, match="moved"):
        put(ledger, "second")
    path.with_name("b").rename(path)
    assert put(ledger, "second") == 4
    assert audit(ledger, derive).ok


def test_after_a_loss_there_is_one_budget(ledger: SqliteLedger, path: Path) -> None:
    made_again(path)
    with SqliteLedger.open(path, terms()) as second:
        with second.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        assert put(second, "other") == 3
        with pytest.raises(LedgerError, match="moved"):
            put(ledger, "second")
        ledger.close()  # and takes none of the new one's files away
        assert put(second, "third") == 4
        assert audit(second, derive).ok


def test_a_lost_log_stops_writing(ledger: SqliteLedger, path: Path) -> None:
    """Whoever opens the ledger now gets a log and locks of its own."""
    for part in ("wal", "shm"):
        Path(f"{path}-{part}").unlink()
    with pytest.raises(LedgerError, match="moved, replaced or deleted"):
        put(ledger, "second")


def test_another_ledger_in_the_same_inode_is_told_by_its_secret(
    ledger: SqliteLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection may be open around a fork, and a file system gives numbers away again."""
    deleted(path)
    SqliteLedger.open(path, terms()).close()
    monkeypatch.setattr(files, "_stat", lambda path, real=os.stat: Same(real(path), ledger._file))
    said = in_child(lambda: str(seq(ledger)))
    assert "LedgerError" in said
    assert "moved, replaced or deleted" in said


class Same:
    """What ``stat`` says, with the numbers of another file."""

    def __init__(self, real: os.stat_result, numbers: files.Identity | None) -> None:
        assert numbers is not None
        self.st_nlink = real.st_nlink
        self.st_dev, self.st_ino = numbers


def test_a_file_swapped_while_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once is put up with: a layered file system copies a file when it is first written."""
    from defray.ledger import sqlite

    connect, left = creation.connect, [1]

    def swap(path: Path, timeout: float, *, writable: bool) -> object:
        sql = connect(path, timeout, writable=writable)
        if left[0]:
            left[0] -= 1
            replaced_by_a_copy(path)
        return sql

    monkeypatch.setattr(sqlite, "connect", swap)
    with SqliteLedger.open(path, terms()) as opened:
        assert put(opened, "x") == 3
    left[0] = 9
    with pytest.raises(LedgerError, match="moved"):
        SqliteLedger.open(path, terms())


def test_a_fork_finds_the_same_file(ledger: SqliteLedger) -> None:
    assert in_child(lambda: str(put(ledger, "child"))) == "4"
    assert put(ledger, "parent") == 5
