"""The keyed identity of files' content, recomputed only when something about them moved.

A fingerprint is HMAC-SHA256 under the ledger's secret over the sorted files' names and bytes, the declared
``data_version`` and how the files are read (another table of a database, or another quote sign of a CSV
file, is other rows): unkeyed, it would let anyone verify a guess at the table.  Where the files lie does
not count, nor does the name of a single file but for the ending of a compressed one.  What is remembered
between runs is that and an HMAC of the files' sizes, times and inodes: two opaque hex strings.

A file touched less than ``YOUNG_NS`` ago is not trusted to show a later change in its times, since the
clock of a file system ticks coarsely; it is read again until it has settled.
"""

from __future__ import annotations

import glob
import hashlib
import hmac
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from defray.errors import SourceUnavailable

YOUNG_NS = 100_000_000
_CHUNK = 1 << 20

FEW_FILES = 64
"""So many are looked at in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a directory says about a file; equal stamps mean an unchanged file once it has settled."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


def find(pattern: Path, extra: tuple[str, ...] = ()) -> list[Path]:
    """The files of a path or glob in sorted order, then those with the suffixes ``extra`` that exist."""
    text = str(pattern)
    if not glob.has_magic(text) or os.path.exists(text):
        files = [pattern] if os.path.isfile(text) else []
    else:
        files = sorted(Path(f) for f in glob.glob(text, recursive=True) if os.path.isfile(f))
    if not files:
        raise SourceUnavailable(
            f"no data file at {pattern.name}",
            hint="check source.path in the contract; relative paths start at the contract's folder",
        )
    return files + [Path(str(f) + e) for f in files for e in extra if os.path.isfile(str(f) + e)]


def stamps(files: list[Path]) -> tuple[Stamp, ...]:
    failed = False
    out = []
    try:
        for file in files:
            s = file.stat()
            out.append(Stamp(str(file), s.st_size, s.st_mtime_ns, s.st_ino, s.st_ctime_ns))
    except OSError:
        failed = True
    if failed:
        raise _unreadable()
    return tuple(out)


def _unreadable() -> SourceUnavailable:
    return SourceUnavailable(
        "a data file cannot be read",
        hint="check that it exists and that this user may read it",
    )


def declared(secret: bytes, reading: str, version: str) -> str:
    """The fingerprint of data whose content is not looked at: how it is read, and the declared version."""
    mac = hmac.new(secret, b"defray declared\0", hashlib.sha256)
    _add(mac, b"reading", reading.encode())
    _add(mac, b"version", version.encode())
    return mac.hexdigest()


@dataclass(slots=True)
class Fingerprint:
    """The fingerprint of the files ``lister(pattern, extra)``; ``remember`` and ``memo`` keep it between
    runs."""

    pattern: Path
    secret: bytes
    remember: Callable[[str], str | None]
    memo: Callable[[str, str], None]
    version: str | None = None
    extra: tuple[str, ...] = ()
    reading: str = ""
    clock_ns: Callable[[], int] = time.time_ns
    lister: Callable[[Path, tuple[str, ...]], list[Path]] = find
    _last: tuple[tuple[Stamp, ...], str] | None = None
    _lock: Lock = field(default_factory=Lock)

    def current(self) -> tuple[tuple[Stamp, ...], str]:
        """The files' stamps and the fingerprint of their content now."""
        seen = stamps(self.lister(self.pattern, self.extra))
        with self._lock:
            last = self._last
            if last is not None and last[0] == seen and self._settled(seen):
                return last
            known_by = repr((seen, self.version, self.reading)).encode()
            key, signature = self._key(), self._mac("stamps", known_by)
            stored = (self.remember(key) or "").split(":")
            if (
                len(stored) == 2
                and hmac.compare_digest(stored[0], signature)
                and self._settled(seen)
            ):
                self._last = (seen, stored[1])
                return self._last
            value = self._content([Path(s.path) for s in seen])
            self._last = (seen, value)
            if self._settled(seen):
                self.memo(key, f"{signature}:{value}")
            return self._last

    def glance(self) -> str | None:
        """The fingerprint, where nothing about the files moved since it was last taken and they are few; no
        file is read."""
        last = self._last
        if last is None or len(last[0]) > FEW_FILES:
            return None
        seen = stamps(self.lister(self.pattern, self.extra))
        return last[1] if last[0] == seen and self._settled(seen) else None

    def after_fork(self) -> None:
        """In the child of a fork: the lock may have been held by a thread that is not here."""
        self._lock = Lock()

    def _settled(self, seen: tuple[Stamp, ...]) -> bool:
        now = self.clock_ns()
        return all(now - max(s.mtime_ns, s.ctime_ns) > YOUNG_NS for s in seen)

    def _key(self) -> str:
        return f"source:{self._mac('path', str(self.pattern).encode())[:32]}"

    def _mac(self, purpose: str, data: bytes) -> str:
        return hmac.new(
            self.secret, f"defray {purpose}\0".encode() + data, hashlib.sha256
        ).hexdigest()

    def _content(self, files: list[Path]) -> str:
        mac = hmac.new(self.secret, b"defray content\0", hashlib.sha256)
        root = os.path.commonpath([str(f.parent) for f in files])
        _add(mac, b"reading", self.reading.encode(errors="surrogateescape"))
        if self.version is not None:
            _add(mac, b"version", self.version.encode())
        failed = False
        try:
            for file in files:
                inner = hashlib.sha256()
                with open(file, "rb") as stream:
                    while chunk := stream.read(_CHUNK):
                        inner.update(chunk)
                name = os.path.relpath(file, root) if len(files) > 1 else _packed(file)
                _add(mac, name.encode(errors="surrogateescape"), inner.digest())
        except OSError:
            failed = True
        if failed:
            raise _unreadable()
        return mac.hexdigest()


def _packed(file: Path) -> str:
    """The ending by which a compressed file is told."""
    return file.suffix if file.suffix in (".gz", ".zst") else ""


def _add(mac: hmac.HMAC, name: bytes, data: bytes) -> None:
    for part in (name, data):
        mac.update(len(part).to_bytes(8, "big") + part)
