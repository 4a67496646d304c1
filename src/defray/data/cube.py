"""The exact cells of a small domain, counted in one scan: later scans read no row.

A cube is as private as the table: it holds true counts and sums.  It lives in memory, and on the disk only
where the curator names a file.  It belongs to one version of the data: another fingerprint has it counted
anew.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import secrets
import stat
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from defray.core.canonical import canonical
from defray.core.contract import MOST_CUBED
from defray.core.domain import Domain
from defray.data.counted import CountedSource
from defray.data.source import Control, Exact, Scan, Source, glance_of
from defray.data.watch import POLL_SECONDS
from defray.errors import SourceChanged, SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE

MAX_TRIES: Final = 3
"""How often the cells are counted because the data changed meanwhile."""

_MAC: Final = hashlib.sha256().digest_size
_FEW: Final = 2**53
"""Totals up to this are kept as whole numbers of 64 bits, and add up exactly in doubles."""


class CubedSource:
    """A :class:`~defray.data.source.Source` that asks another one once for each version of its data.

    ``secret`` keys the file, which is made (mode 0600) where there is none for this version; a file that is
    another's, or was changed, is made anew.  Safe to use from several threads.  ValueError where the domain
    has more than :data:`~defray.core.contract.MOST_CUBED` cells.
    """

    def __init__(
        self, source: Source, domain: Domain, secret: bytes, file: Path | None = None
    ) -> None:
        if prod(domain.widths) > MOST_CUBED:
            raise ValueError("the domain has too many cells for a cube")
        self._source, self._glance = source, glance_of(source)
        self._domain = domain
        self._file = None if file is None else File(file, secret)
        self._sums = tuple(c.name for c in domain.columns if c.bounds is not None)
        self._cube: tuple[str, CountedSource] | None = None
        self._lock, self._process = Lock(), os.getpid()

    def fingerprint(self) -> str:
        return self._source.fingerprint()

    def glance(self) -> str | None:
        return self._glance()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        return self._current(control or Control()).scan(scan, control)

    def close(self) -> None:
        self._cube = None
        self._source.close()

    def _current(self, control: Control) -> CountedSource:
        """The cube of the data as it is; whoever comes first makes it, and the others wait for that."""
        if self._process != os.getpid():  # forked, perhaps while a thread that is not here made it
            self._lock, self._process = Lock(), os.getpid()
        while not self._lock.acquire(timeout=POLL_SECONDS):
            control.check()
        try:
            for _ in range(MAX_TRIES):
                version = self._source.fingerprint()
                if self._cube is not None and self._cube[0] == version:
                    return self._cube[1]
                made = self._made(version, control)
                if self._source.fingerprint() == version:
                    self._cube = version, made
            raise SourceChanged(
                "the data kept changing while its cells were counted",
                hint="nothing was spent; ask again when the data is at rest",
            )
        finally:
            self._lock.release()

    def _made(self, version: str, control: Control) -> CountedSource:
        named = canonical([version, self._domain.to_json()])
        kept = None if self._file is None else self._file.read(named)
        if kept is None:
            kept = self._counted(control)
            if self._file is not None and self._source.fingerprint() == version:
                self._file.write(named, kept)
        return self._table(kept)

    def _counted(self, control: Control) -> dict[str, np.ndarray[Any, Any]]:
        """The cells with rows: their places, their counts and their sums."""
        axes = tuple(
            Axis(column, starts=tuple(range(width)))
            for column, width in enumerate(self._domain.widths)
        )
        exact = self._source.scan(Scan(EVERYWHERE, axes, (), self._sums), control)
        rows = np.array(exact.rows, np.int64)
        places = np.flatnonzero(rows)
        found = {"places": places, "rows": rows[places]}
        for name in self._sums:
            found[f"sum {name}"] = _whole([exact.sums[name][place] for place in places.tolist()])
        return found

    def _table(self, kept: dict[str, np.ndarray[Any, Any]]) -> CountedSource:
        domain = self._domain
        atoms = np.unravel_index(kept["places"], domain.widths)
        return CountedSource(
            domain,
            {name: np.asarray(of, np.int64) for name, of in zip(domain.names, atoms, strict=True)},
            kept["rows"],
            totals={name: _numbers(kept[f"sum {name}"]) for name in self._sums},
        )


@dataclass(frozen=True, slots=True)
class File:
    """A file of arrays under a name, with an HMAC-SHA256 of both under ``secret``."""

    path: Path
    secret: bytes = field(repr=False)

    def read(self, named: bytes) -> dict[str, np.ndarray[Any, Any]] | None:
        """What is kept under that name; None where nothing is, or where it is not what was written."""
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):  # a pipe would be waited for
                raise self._unusable("read")
            whole = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise self._unusable("read") from None
        seal, body = whole[:_MAC], whole[_MAC:]
        if not hmac.compare_digest(seal, self._seal(named, body)):
            return None
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def write(self, named: bytes, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        """Keep arrays under a name, in place of what was there: whole, or not at all."""
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # its stub takes one array
        body = stream.getvalue()
        part = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(self._seal(named, body) + body)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError:
            part.unlink(missing_ok=True)
            raise self._unusable("written") from None

    def _seal(self, named: bytes, body: bytes) -> bytes:
        key = hmac.new(self.secret, b"defray cube\0" + named, hashlib.sha256).digest()
        return hmac.new(key, body, hashlib.sha256).digest()

    def _unusable(self, how: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"the cube {self.path.name} cannot be {how}",
            hint='let the service write beside the contract, or write cube = "memory"',
        )


def _whole(numbers: list[int]) -> np.ndarray[Any, Any]:
    """Whole numbers as they can be kept: of 64 bits, or as text where they are larger."""
    if sum(map(abs, numbers)) <= _FEW:
        return np.array(numbers, np.int64)
    return np.array([str(number) for number in numbers])


def _numbers(kept: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return kept if kept.dtype == np.int64 else np.array([int(n) for n in kept.tolist()], object)
