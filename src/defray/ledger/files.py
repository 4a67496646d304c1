"""Where a ledger file may live, how it comes into being, which file it is, and what its failures are called.

SQLite's locks and its shared-memory index hold on local disks only, so a network file system is refused
before it can lose a commit.  Its log and that index go by the file's *name*: under two names one file would
be two budgets, and so would a file that is removed while it is open and made again.  Hence a ledger has one
name, and while it is open that name must stay its own.  Errors of the database leave this package as
:class:`~defray.errors.LedgerError` and its subclasses, made from the path and the stable name of the
error code: never from the database's own text.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError

MOUNTS: Final = Path("/proc/self/mountinfo")

PATIENCE: Final = 0.5
"""Seconds that a ledger in the making may take to lose its first name."""

NETWORK: Final = re.compile(
    r"""nfs.* | smb.* | 9p | afp | afs | beegfs | ceph | cifs | coda | davfs | glusterfs | gpfs | lustre
    | ncpfs | openafs | orangefs | pvfs2 | sshfs
    | fuse\.(ceph|curlftpfs|davfs2|gcsfuse|glusterfs|goofys|juicefs|rclone|s3fs|sshfs)""",
    re.VERBOSE,
)


def network_file_system(path: Path, mounts: str) -> str | None:
    """The type of the network file system that holds ``path``, or None on a local one.

    ``mounts`` is the text of ``/proc/self/mountinfo``; the last mount on the longest prefix wins.

    >>> network_file_system(Path("/data/a.ledger"), "9 1 0:5 / /data rw - nfs4 host:/x rw")
    'nfs4'
    >>> network_file_system(Path("/database"), "9 1 0:5 / /data rw - nfs4 host:/x rw") is None
    True
    """
    best, found = -1, None
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5 or not right.strip():
            continue
        point = fields[4].encode("latin-1", "replace").decode("unicode_escape")
        point = point.encode("latin-1", "replace").decode("utf-8", "replace")
        if len(point) >= best and path.is_relative_to(point):
            best, found = len(point), right.split()[0]
    return found if found is not None and NETWORK.fullmatch(found) else None


def refuse_network(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise LedgerError if the system says that ``path`` lies on a network file system."""
    try:
        text = mounts.read_text("utf-8", "replace")
    except OSError:
        return  # no such list on this system: nothing can be told
    kind = network_file_system(path, text)
    if kind is not None:
        raise LedgerError(
            f"{path} is on a network file system ({kind}), where locks cannot be trusted.",
            hint="Keep the ledger on a local disk, or use a PostgreSQL ledger for several machines.",
            path=str(path),
            file_system=kind,
        )


def check_place(path: Path) -> bool:
    """Whether a ledger file is there.  Raises LedgerError where none can be: no folder, a folder in its
    place, an empty file, or a write-ahead log whose ledger is gone."""
    folder = path.parent
    try:
        if not folder.is_dir():
            raise LedgerError(
                f"The folder {folder} of the ledger does not exist.",
                hint=f"Make it first: mkdir -p {folder}",
                path=str(path),
            )
        if path.is_dir():
            raise LedgerError(
                f"{path} is a folder, not a ledger file.", hint="Name a file.", path=str(path)
            )
        if path.exists():
            if not path.is_file():
                raise LedgerError(f"{path} is not a regular file.", path=str(path))
            if path.stat().st_size == 0:
                raise LedgerCorrupt(
                    f"{path} is empty: not a ledger, or one that was cut off.",
                    hint="Restore a backup; delete the file only if it never was a ledger.",
                    path=str(path),
                )
            return True
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size and not path.exists():
            raise LedgerCorrupt(
                f"{path} is missing, but its write-ahead log {path.name}-wal is there.",
                hint="Put the ledger file back beside its log, or restore a backup.",
                path=str(path),
            )
    except OSError as error:
        raise from_os(error, path) from None
    return False


Identity = tuple[int, int]
"""Device and inode: which file a name stands for."""


def identity(path: Path) -> Identity:
    """Which file the ledger is; LedgerError if there is none, or if it has a second name.

    A ledger that is being made has two names for a moment, and keeps both if its maker is killed then:
    that other name is taken away here.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        found = _stat(path)
        if found.st_nlink == 1:
            return found.st_dev, found.st_ino
        _finish(path, found)
        if time.monotonic() > deadline:
            raise _many(path, found.st_nlink)
        time.sleep(0.005)


def still(path: Path, expected: Identity) -> None:
    """LedgerError unless the name ``path`` stands for the file it stood for, and that has no other name."""
    found = _stat(path)
    if (found.st_dev, found.st_ino) != expected:
        raise moved(path)
    if found.st_nlink != 1:
        raise _many(path, found.st_nlink)


def sides(path: Path) -> tuple[Identity | None, ...]:
    """Which files the write-ahead log and its index are; None where there is none."""
    out: list[Identity | None] = []
    for part in ("wal", "shm"):
        try:
            found = os.stat(f"{path}-{part}")
            out.append((found.st_dev, found.st_ino))
        except FileNotFoundError:
            out.append(None)
        except OSError as error:
            raise from_os(error, path) from None
    return tuple(out)


def moved(path: Path) -> LedgerError:
    return LedgerError(
        f"The ledger file {path} was moved, replaced or deleted while it was open; nothing was spent.",
        hint="Restore it, or open the contract again.",
        path=str(path),
    )


def _many(path: Path, names: int) -> LedgerError:
    return LedgerError(
        f"The ledger file {path} has {names} names (hard links), and each would be a budget of its own;"
        " nothing was spent.",
        hint="Remove the other names (find -samefile lists them); a symbolic link may lead to it.",
        path=str(path),
    )


def _stat(path: Path) -> os.stat_result:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise moved(path) from None
    except OSError as error:
        raise from_os(error, path) from None


def _finish(path: Path, ledger: os.stat_result) -> None:
    """Remove the name under which the ledger was made."""
    with suppress(OSError):
        for name in path.parent.iterdir():
            if name.name.startswith(f".{path.name}.") and name.suffix == ".new":
                with suppress(OSError):
                    if os.path.samestat(name.lstat(), ledger):
                        name.unlink()


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read and write; it must not exist."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def publish(fresh: Path, path: Path) -> bool:
    """Give the finished file ``fresh`` the name ``path``, at once and only if that name is free.

    False if the name was taken in the meantime.  ``fresh`` is gone afterwards either way.
    """
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        discard(fresh)
    sync(path.parent)
    return True


def discard(path: Path) -> None:
    """Remove a file and the journals SQLite may have left beside it."""
    for name in (path, *(Path(f"{path}-{part}") for part in ("journal", "wal", "shm"))):
        with suppress(FileNotFoundError):
            name.unlink()


def sync(path: Path) -> None:
    """fsync a file or folder.  Never for a live ledger: closing any descriptor of a file drops all of
    this process's locks on it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def from_os(error: OSError, path: Path) -> LedgerError:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return LedgerError(
        f"The ledger {path} cannot be used: {reason}.",
        hint="Check the path, its permissions and the free space.",
        path=str(path),
    )


_MEANING: Final[dict[int, tuple[type[LedgerError], str, str]]] = {
    sqlite3.SQLITE_BUSY: (
        LedgerBusy,
        "is in use by others for longer than the timeout",
        "Try again; nothing was spent.",
    ),
    sqlite3.SQLITE_LOCKED: (LedgerBusy, "is locked", "Try again; nothing was spent."),
    sqlite3.SQLITE_NOTADB: (
        LedgerCorrupt,
        "is not a ledger file",
        "Check the path; if it once was a ledger, restore a backup.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        LedgerCorrupt,
        "is damaged",
        "Stop asking, keep the file, and restore a backup.",
    ),
    sqlite3.SQLITE_CONSTRAINT: (
        LedgerCorrupt,
        "refused a write that breaks its own rules",
        "Run the audit; nothing of the write was kept.",
    ),
    sqlite3.SQLITE_FULL: (LedgerError, "cannot grow: the disk is full", "Make room and try again."),
    sqlite3.SQLITE_IOERR: (
        LedgerError,
        "could not be read or written",
        "Check the disk; then ask again: what was committed is replayed.",
    ),
    sqlite3.SQLITE_READONLY: (
        LedgerError,
        "may not be written",
        "Check who owns it and its folder.",
    ),
    sqlite3.SQLITE_PERM: (LedgerError, "may not be opened", "Check who owns it and its folder."),
    sqlite3.SQLITE_AUTH: (LedgerError, "may not be opened", "Check who owns it and its folder."),
    sqlite3.SQLITE_CANTOPEN: (
        LedgerError,
        "cannot be opened",
        "Check that you may read and write it and its folder.",
    ),
}


def from_sqlite(error: sqlite3.Error, path: Path) -> LedgerError:
    """The typed error that stands for a failure of the database."""
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    unknown = (LedgerError, "failed", "Run the audit before you go on.")
    kind, what, hint = _MEANING.get(code & 0xFF, unknown)
    return kind(f"The ledger {path} {what}.", hint=hint, path=str(path), reason=name)
