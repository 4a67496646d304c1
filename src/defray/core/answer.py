"""What an analyst gets: answers and quotes, the same names in every face.

A row carries ``value, low, high, half_width, confidence, met, charged_rho, reused_rho, id``.  Values are
unbiased: a count may be negative.  pandas, polars and pyarrow are imported only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from math import inf
from typing import Any, Final, Self

from defray.core.contract import RELATION
from defray.core.grouping import Label
from defray.core.validity import DEFAULT
from defray.errors import MissingExtra

DRY_RUN: Final = "dry run: made-up rows, not the data"
"""What an answer to a dry run says of itself, and so does each of its rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One aggregate of one group.

    ``group`` maps grouping columns to the group's labels (empty without GROUP BY); ``value`` is None where
    nothing beyond the declared bounds is known; ``met`` tells whether the asked accuracy was reached;
    ``charged_rho`` is this cell's own charge and ``reused_rho`` the support credited from earlier releases
    (``releases`` of them); ``id`` names the newest release behind the row; ``asks`` is how many asks made
    those releases.
    """

    group: Mapping[str, Label]
    aggregate: str
    value: float | None
    low: float
    high: float
    half_width: float
    confidence: float
    met: bool
    charged_rho: float
    reused_rho: float
    releases: int
    id: str
    note: str = ""
    asks: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "group": dict(self.group),
            "aggregate": self.aggregate,
            "value": self.value,
            "low": _finite(self.low),
            "high": _finite(self.high),
            "half_width": _finite(self.half_width),
            "confidence": self.confidence,
            "met": self.met,
            "charged_rho": self.charged_rho,
            "reused_rho": self.reused_rho,
            "releases": self.releases,
            "asks": self.asks,
            "id": self.id,
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`: an end that is missing lies infinitely far off."""
        value = document["value"]
        return cls(
            group=dict(document["group"]),
            aggregate=document["aggregate"],
            value=None if value is None else float(value),
            low=_number(document["low"], -inf),
            high=_number(document["high"], inf),
            half_width=_number(document["half_width"], inf),
            confidence=float(document["confidence"]),
            met=document["met"],
            charged_rho=float(document["charged_rho"]),
            reused_rho=float(document["reused_rho"]),
            releases=document["releases"],
            id=document["id"],
            note=document["note"],
            asks=document["asks"],
        )


def _finite(x: float) -> float | None:
    return x if abs(x) != inf else None


def _number(x: float | None, missing: float) -> float:
    return missing if x is None else float(x)


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a bill: a measure, the purse it is paid from, what it costs and how many cells it has."""

    measure: str
    purse: str
    charged_rho: float
    cells: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "purse": self.purse,
            "charged_rho": self.charged_rho,
            "cells": self.cells,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        return cls(
            measure=document["measure"],
            purse=document["purse"],
            charged_rho=float(document["charged_rho"]),
            cells=document["cells"],
        )


@dataclass(frozen=True)
class Answer:
    """The answer to one ask.

    ``question`` is the canonical SQL that was answered (a snapped predicate is visible there);
    ``charged_rho`` is what the contract was charged, ``items`` its bill; ``remaining_rho`` is what is left
    for answers; ``met`` tells whether every cell, shown or not, reached its target, and ``shortfall_rho``
    how much rho was not granted to reach it.  ``to_others_rho`` is what an analyst's account gave to those
    who had paid for what was used, where the contract shares reuse: no privacy is spent on it.  ``dry_run``:
    its values are made up.  A one-row answer has the row's fields as its own: ``answer.value``,
    ``answer.low`` ...
    """

    question: str
    rows: tuple[Row, ...]
    confidence: float
    simultaneous: bool
    charged_rho: float
    reused_rho: float
    remaining_rho: float
    items: tuple[Item, ...]
    data_version: int
    met: bool
    shortfall_rho: float = 0.0
    validity: str = DEFAULT.label
    notes: tuple[str, ...] = ()
    relation: str = RELATION
    dry_run: bool = False
    to_others_rho: float = 0.0

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    @property
    def only(self) -> Row:
        """The row of a one-row answer; ValueError for a table."""
        if len(self.rows) != 1:
            raise ValueError(
                f"this answer has {len(self.rows)} rows; use .rows, .to_pandas() or .to_dict()"
            )
        return self.rows[0]

    @property
    def value(self) -> float | None:
        return self.only.value

    @property
    def low(self) -> float:
        return self.only.low

    @property
    def high(self) -> float:
        return self.only.high

    @property
    def half_width(self) -> float:
        return self.only.half_width

    @property
    def id(self) -> str:
        return self.only.id

    @property
    def releases(self) -> int:
        """The number of releases that the answer rests on, the largest over its rows."""
        return max((row.releases for row in self.rows), default=0)

    @property
    def asks_so_far(self) -> int:
        """How many asks the answer rests on, the largest number over its rows: the looks at it so far."""
        return max((row.asks for row in self.rows), default=0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "rows": [row.to_dict() for row in self.rows],
            "confidence": self.confidence,
            "simultaneous": self.simultaneous,
            "met": self.met,
            "shortfall_rho": self.shortfall_rho,
            "charged_rho": self.charged_rho,
            "reused_rho": self.reused_rho,
            "to_others_rho": self.to_others_rho,
            "remaining_rho": self.remaining_rho,
            "items": [item.to_dict() for item in self.items],
            "data_version": self.data_version,
            "validity": self.validity,
            "asks_so_far": self.asks_so_far,
            "relation": self.relation,
            "dry_run": self.dry_run,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; names that are not known here are passed over.

        Raises KeyError, TypeError, ValueError or AttributeError where the document is none of an answer.
        """
        return cls(
            question=document["question"],
            rows=tuple(map(Row.from_dict, document["rows"])),
            confidence=float(document["confidence"]),
            simultaneous=document["simultaneous"],
            charged_rho=float(document["charged_rho"]),
            reused_rho=float(document["reused_rho"]),
            remaining_rho=float(document["remaining_rho"]),
            items=tuple(map(Item.from_dict, document["items"])),
            data_version=document["data_version"],
            met=document["met"],
            shortfall_rho=float(document["shortfall_rho"]),
            validity=document["validity"],
            notes=tuple(document["notes"]),
            relation=document["relation"],
            dry_run=document.get("dry_run", False),
            to_others_rho=float(document.get("to_others_rho", 0.0)),
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Flat rows for tables: grouping columns first, then the row fields.  A grouping column named like
        a field is called ``group_NAME``."""
        out = []
        for row in self.rows:
            fields = row.to_dict()
            del fields["group"]
            group = {f"group_{n}" if n in fields else n: label for n, label in row.group.items()}
            out.append({**group, **fields})
        return out

    def _columns(self) -> dict[str, list[Any]]:
        records = self.to_records()
        names = list(records[0]) if records else []
        return {name: [r[name] for r in records] for name in names}

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``; raises MissingExtra without pyarrow."""
        return _extra("pyarrow", "arrow").table(self._columns())

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; raises MissingExtra without pandas."""
        return _extra("pandas", "pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``; raises MissingExtra without polars."""
        return _extra("polars", "polars").DataFrame(self._columns(), strict=False)

    def _repr_html_(self) -> str:
        names = ("value", "low", "high", "half_width", "met", "charged_rho", "reused_rho")
        groups = list(self.rows[0].group) if self.rows else []
        head = "".join(f"<th>{escape(n)}</th>" for n in (*groups, "aggregate", *names))
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(_show(r.group[g]))}</td>" for g in groups)
            + f"<td>{escape(r.aggregate)}</td>"
            + "".join(f"<td>{escape(_show(getattr(r, n)))}</td>" for n in names)
            + "</tr>"
            for r in self.rows
        )
        mark = f"<strong>{escape(DRY_RUN)}</strong><br>" if self.dry_run else ""
        return (
            f"<table><caption>{mark}{escape(self.question)} &mdash; {self.confidence:.4g} confidence, "
            f"charged {self.charged_rho:.4g} rho</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody><tfoot><tr><td colspan='99'>"
            + "<br>".join(
                escape(text)
                for text in (
                    f"{self.relation}; {self.validity}; asks so far: {self.asks_so_far}",
                    *self.notes,
                )
            )
            + "</td></tr></tfoot></table>"
        )


def _show(x: Any) -> str:
    if x is None:
        return "NULL"
    return f"{x:.6g}" if isinstance(x, float) else str(x)


def _extra(module: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            f"{module} is not installed", hint=f"pip install 'defray[{extra}]'"
        ) from None


@dataclass(frozen=True)
class Quote:
    """What an ask would cost now; nothing is spent.

    ``charged_rho`` is the exact charge where ``exact``, else the lower end: only ``first_rho`` is certain
    then (it buys the count or magnitude the rest depends on), and the whole lies in
    ``[low_rho, high_rho]``.  ``fits`` tells whether the budget covers it (the upper end, where not exact).
    ``best`` is the best accuracy that fits where it does not.

    Where the contract's gate grants less than the targets need, the quote tells so: ``needs_rho`` is what
    meeting them would take, ``shortfall_rho`` how much of it is not granted, and ``achieves`` the half-widths
    that will be reached, by alias (None: all targets, or nothing, would be met).

    ``to_others_rho`` is what an analyst's account would give to those who had paid for what is used, where
    the contract shares reuse: no privacy is spent on it.  It is that of the first step where not ``exact``.
    """

    question: str
    exact: bool
    charged_rho: float
    low_rho: float
    high_rho: float
    first_rho: float
    reused_rho: float
    remaining_rho: float
    fits: bool
    items: tuple[Item, ...]
    data_version: int
    needs_rho: float
    shortfall_rho: float = 0.0
    achieves: Mapping[str, float] | None = None
    best: Mapping[str, str] | None = None
    notes: tuple[str, ...] = field(default=())
    validity: str = DEFAULT.label
    to_others_rho: float = 0.0

    @property
    def hopeless(self) -> bool:
        """Whether the ask would buy nothing of what it needs: it would be refused, or granted nothing."""
        return not self.fits and self.high_rho == 0 < self.needs_rho

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "exact": self.exact,
            "charged_rho": self.charged_rho,
            "low_rho": self.low_rho,
            "high_rho": self.high_rho,
            "first_rho": self.first_rho,
            "reused_rho": self.reused_rho,
            "to_others_rho": self.to_others_rho,
            "remaining_rho": self.remaining_rho,
            "fits": self.fits,
            "items": [item.to_dict() for item in self.items],
            "data_version": self.data_version,
            "needs_rho": self.needs_rho,
            "shortfall_rho": self.shortfall_rho,
            "achieves": None if self.achieves is None else dict(self.achieves),
            "best": None if self.best is None else dict(self.best),
            "validity": self.validity,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; raises as :meth:`Answer.from_dict` does."""
        achieves, best = document["achieves"], document["best"]
        return cls(
            question=document["question"],
            exact=document["exact"],
            charged_rho=float(document["charged_rho"]),
            low_rho=float(document["low_rho"]),
            high_rho=float(document["high_rho"]),
            first_rho=float(document["first_rho"]),
            reused_rho=float(document["reused_rho"]),
            remaining_rho=float(document["remaining_rho"]),
            fits=document["fits"],
            items=tuple(map(Item.from_dict, document["items"])),
            data_version=document["data_version"],
            needs_rho=float(document["needs_rho"]),
            shortfall_rho=float(document["shortfall_rho"]),
            achieves=None if achieves is None else {k: float(v) for k, v in achieves.items()},
            best=None if best is None else dict(best),
            notes=tuple(document["notes"]),
            validity=document["validity"],
            to_others_rho=float(document.get("to_others_rho", 0.0)),
        )
