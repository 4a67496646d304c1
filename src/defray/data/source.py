"""The seam to the private side: a source turns a scan into exact numbers.

What a source returns is private.  It goes into :mod:`defray.engine`'s noise line and nowhere else: not
into errors, logs, progress texts or the ledger.  Errors a source raises are DataErrors whose text names
the step and the cure only; a backend's own text may quote rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from defray.errors import Cancelled
from defray.query.descriptor import Axis
from defray.query.region import Region


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything one question needs, for one pass over the table: rows in ``region``, by the cells of
    ``axes`` (row-major, as :func:`defray.query.descriptor.cells`), the row count and for each of
    ``columns`` the non-null count, and for each of ``sums`` the sum of clamped values in units."""

    region: Region
    axes: tuple[Axis, ...] = ()
    columns: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Exact:
    """The true numbers of a scan, one per cell, as unbounded integers.  Has no repr on purpose."""

    rows: list[int]
    non_null: dict[str, list[int]]
    sums: dict[str, list[int]]


@dataclass(slots=True)
class Control:
    """How a caller follows and stops a scan: ``progress`` is told a fraction in [0, 1] (it depends on
    time and file sizes only), ``cancelled`` is polled, ``timeout`` is in seconds."""

    progress: Callable[[float], None] | None = None
    cancelled: Callable[[], bool] | None = None
    timeout: float | None = None

    def check(self) -> None:
        """Raises Cancelled where the caller wants no more."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled("the ask was cancelled", hint="nothing was charged")


class Source(Protocol):
    def fingerprint(self) -> str:
        """The keyed identity of the data's content now.  Cheap when nothing moved (path, size, mtime,
        inode unchanged); raises SourceUnavailable."""

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        """One pass.  Raises SourceUnavailable, Cancelled, or SourceChanged where the data did not hold
        still.  Whether it raises never depends on the values of rows."""

    def close(self) -> None: ...


@runtime_checkable
class OneMoment(Protocol):
    """A source that holds a moment still for several scans, and may need one pass for all of them."""

    def scan_together(self, scans: Sequence[Scan], control: Control | None = None) -> list[Exact]:
        """As :meth:`Source.scan` of each, all of the same rows."""


@runtime_checkable
class Glanced(Protocol):
    """A source whose fingerprint may take long, since it looks at files and reads those that changed."""

    def glance(self) -> str | None:
        """The fingerprint, where it is known at once."""


def glance_of(source: Source) -> Callable[[], str | None]:
    """What tells the fingerprint of a source, or None where it would have to be waited for.  It raises
    SourceUnavailable."""
    return source.glance if isinstance(source, Glanced) else source.fingerprint


def scan_all(source: Source, scans: Sequence[Scan], control: Control | None) -> list[Exact]:
    """Several scans, of one moment where the source can hold it."""
    if len(scans) > 1 and isinstance(source, OneMoment):
        return source.scan_together(scans, control)
    return [source.scan(scan, control) for scan in scans]
