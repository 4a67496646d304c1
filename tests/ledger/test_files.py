"""Where a SQLite ledger may live and what its failures are called."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError
from defray.ledger.audit import audit
from defray.ledger.files import from_sqlite, network_file_system
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.forks import in_child
from tests.ledger.makers import DOMAIN, derive, release, terms
from tests.ledger.processes import ROOT

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /srv/nfs rw shared:1 - nfs4 host:/x rw
31 30 254:1 / /srv/nfs/local rw - xfs /dev/vdb rw
32 22 0:41 / /mnt/my\\040share rw - cifs //host/x rw
33 22 0:42 / /mnt/c rw - 9p drvfs rw
34 22 0:43 / /home/me/remote rw - fuse.sshfs me@host: rw
35 22 0:44 / /over rw - ext4 /dev/vdc rw
36 35 0:45 / /over rw - nfs host:/y rw
37 22 0:46 / /mnt/\\303\\274 rw - smb3 //host/y rw
38 22 0:47 / /fuse rw - fuseblk /dev/sdb rw
broken line
39 22 0:48 - -
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/a", None),
        ("/srv/nfs/a", "nfs4"),
        ("/srv/nfsx/a", None),
        ("/srv/nfs/local/a", None),
        ("/mnt/my share/a", "cifs"),
        ("/mnt/c/Users/a", "9p"),
        ("/home/me/remote/deep/a", "fuse.sshfs"),
        ("/over/a", "nfs"),
        ("/mnt/ü/a", "smb3"),
        ("/fuse/a", None),
    ],
)
def test_network_file_systems(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_a_ledger_on_a_network_drive_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {os.path.realpath(tmp_path)} rw - nfs4 host:/x rw\n")
    with pytest.raises(LedgerError, match="network file system \\(nfs4\\)") as caught:
        SqliteLedger.open(tmp_path / "a", terms(), mounts=mounts)
    assert "local disk" in caught.value.hint
    assert not (tmp_path / "a").exists()
    SqliteLedger.open(tmp_path / "a", terms(), mounts=tmp_path / "absent").close()


def test_all_its_files_are_private(tmp_path: Path) -> None:
    ledger = SqliteLedger.open(tmp_path / "a", terms())
    with ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
    ledger.backup(tmp_path / "b")
    files = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert files == dict.fromkeys(("a", "a-wal", "a-shm", "b"), 0o600)
    ledger.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_symlink_leads_to_one_ledger(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    first = SqliteLedger.open(tmp_path / "link", terms())
    second = SqliteLedger.open(tmp_path / "real" / "a", terms())
    assert first.path == second.path
    assert first.secret == second.secret
    first.close()
    second.close()


@pytest.mark.parametrize(
    "name", ["with space", "per%20cent", "quest?ion", "ha#sh", "ü", "-x", "a'b"]
)
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    SqliteLedger.open(tmp_path / name, terms()).close()
    SqliteLedger.read(tmp_path / name).close()
    assert [p.name for p in tmp_path.iterdir()] == [name]


# ------------------------------------------------------------------------------- what goes wrong


def whole(path: Path) -> Path:
    ledger = SqliteLedger.open(path, terms())
    with ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
        for i in range(50):
            transaction.append(release(weights=str(i)))
    ledger.close()
    return path


def empty(path: Path) -> None:
    path.touch()


def folder(path: Path) -> None:
    path.mkdir()


def text(path: Path) -> None:
    path.write_text("secret text of somebody " * 1000)


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE people(name)")


def cut(path: Path) -> None:
    size = whole(path).stat().st_size
    os.truncate(path, size // 2 // 4096 * 4096)


def cut_to_a_page(path: Path) -> None:
    os.truncate(whole(path), 4096)


def cut_in_the_header(path: Path) -> None:
    os.truncate(whole(path), 50)


def overwritten(path: Path) -> None:
    size = whole(path).stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def wal_only(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"x")


def fifo(path: Path) -> None:
    os.mkfifo(path)


BROKEN: list[tuple[Callable[[Path], object], type[LedgerError], str]] = [
    (empty, LedgerCorrupt, "empty"),
    (folder, LedgerError, "is a folder"),
    (text, LedgerCorrupt, "not a ledger file"),
    (other_database, LedgerCorrupt, "not a Defray ledger"),
    (cut, LedgerCorrupt, "damaged"),
    (cut_to_a_page, LedgerCorrupt, "damaged"),
    (cut_in_the_header, LedgerCorrupt, "damaged"),
    (overwritten, LedgerCorrupt, "damaged"),
    (wal_only, LedgerCorrupt, "is missing"),
    (fifo, LedgerError, "not a regular file"),
]


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize(
    ("make", "error", "said"), BROKEN, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_broken_file_has_a_typed_error_and_is_left_alone(
    tmp_path: Path,
    make: Callable[[Path], object],
    error: type[LedgerError],
    said: str,
    reading: bool,
) -> None:
    path = tmp_path / "a"
    make(path)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(LedgerError) as caught:
        SqliteLedger.read(path) if reading else SqliteLedger.open(path, terms())
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert caught.value.hint or error is LedgerError
    assert str(path) in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    for leaked in ("sqlite3.", "malformed", "file is not a database", "secret text"):
        assert leaked not in shown
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.endswith(("-shm", "-wal"))) == [
        n for n in before if not n.endswith("-wal")
    ]


def test_reading_makes_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        SqliteLedger.read(tmp_path / "a")
    with pytest.raises(LedgerError, match="mkdir -p"):
        SqliteLedger.open(tmp_path / "none" / "a", terms())
    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_cannot_be_made(tmp_path: Path) -> None:
    with SqliteLedger.open(tmp_path / "a", terms()) as ledger:
        with pytest.raises(LedgerError):
            ledger.backup(tmp_path / "none" / "b")
        with pytest.raises(LedgerError, match="never overwrites"):
            ledger.backup(tmp_path / "a")
        with pytest.raises(LedgerError, match="never overwrites"):
            ledger.backup(tmp_path)


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs to become another user"
)
def test_permission_denied(tmp_path: Path) -> None:
    for part in (tmp_path, *tmp_path.parents):
        if stat.S_IMODE(part.stat().st_mode) & 0o011 == 0:
            part.chmod(part.stat().st_mode | 0o711)
    path = whole(tmp_path / "a")
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    opened = tmp_path / "copies"
    opened.mkdir()
    shutil.copy(path, opened / "a")
    (opened / "a").chmod(0o444)
    opened.chmod(0o555)

    def attempt(step: Callable[[], SqliteLedger]) -> str:
        def run() -> str:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            try:
                ledger = step()
            except LedgerError as error:
                return f"{type(error).__name__}: {error}"
            return f"fine: {audit(ledger, derive).releases}"

        return in_child(run)

    for step in (
        lambda: SqliteLedger.open(path, terms()),
        lambda: SqliteLedger.read(path),
        lambda: SqliteLedger.open(hidden / "a", terms()),
        lambda: SqliteLedger.open(tmp_path / "new", terms()),
        lambda: SqliteLedger.open(opened / "a", terms()),
    ):
        said = attempt(step)
        assert said.startswith("LedgerError: "), said
        assert "sqlite" not in said
    assert attempt(lambda: SqliteLedger.read(opened / "a")) == "fine: 50"


def test_a_full_disk_keeps_what_was_committed(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = (
        'mount -t tmpfs -o size=512k none "$0" || exit 77; "$@"; code=$?;'
        ' cp "$0"/ledger* "$0/.."; exit $code'
    )
    outer = ["unshare", "-m", "sh", "-c", command, str(small)]
    worker = [sys.executable, "-m", "tests.ledger.worker", "sqlite", str(small / "ledger"), "fill"]
    done = subprocess.run(
        [*outer, *worker],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (1, 77, 127) and not done.stdout:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    failed, counted = done.stdout.splitlines()
    kept, seq = map(int, counted.split())
    assert failed.startswith("LedgerError SQLITE_")
    assert seq == kept + 2 > 10
    with SqliteLedger.read(tmp_path / "ledger") as ledger:
        report = audit(ledger, derive)
        assert report.ok
        assert report.releases == kept


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, LedgerBusy),
        (sqlite3.SQLITE_BUSY | 2 << 8, LedgerBusy),
        (sqlite3.SQLITE_CORRUPT, LedgerCorrupt),
        (sqlite3.SQLITE_NOTADB, LedgerCorrupt),
        (sqlite3.SQLITE_CONSTRAINT | 3 << 8, LedgerCorrupt),
        (sqlite3.SQLITE_FULL, LedgerError),
        (sqlite3.SQLITE_IOERR | 4 << 8, LedgerError),
        (sqlite3.SQLITE_INTERNAL, LedgerError),
        (None, LedgerError),
    ],
)
def test_codes_become_types(code: int | None, kind: type[LedgerError]) -> None:
    error = sqlite3.OperationalError("text of the database")
    if code is not None:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_X"
    made = from_sqlite(error, Path("/x"))
    assert type(made) is kind
    assert made.hint
    assert "text of" not in str(made.to_dict())
