"""The contract: what the curator promises about one table, as plain values.

Reading and checking the TOML file is :mod:`defray.config.reader`'s task; a Contract that exists is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

from defray.core.domain import Domain

RELATION = "add/remove one unit"

Purse = Literal["answer", "diagnostic"]
PURSES: tuple[Purse, ...] = ("answer", "diagnostic")

Surplus = Literal["none", "partial", "allornothing"]
"""What savings may be used for: nothing; a part of what is missing; all of it or nothing."""
"""The two caps inside the one budget: for answers, and for diagnostics (of relative targets; of weights)."""


Sharing = Literal["none", "shapley"]
"""Whether those who use what others paid for pay them a part of it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose presence is protected: a row (``column`` None, one row a unit), or all rows that share a
    value of ``column``, of which the table keeps at most ``max_rows`` (chosen by keyed hash of the
    declared ``row_key`` columns, else of the row's declared content).  Rows without a unit are dropped."""

    column: str | None = None
    max_rows: int = 1
    row_key: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"column": self.column, "max_rows": self.max_rows, "row_key": list(self.row_key)}

    def __str__(self) -> str:
        if self.column is None:
            return "one row"
        return f"all rows of one {self.column} (at most {self.max_rows} kept)"


MOST_CUBED: Final = 1 << 20
"""How many cells a domain may have for its exact counts to be kept."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where the table is.  ``path`` may be a glob; relative paths are relative to the contract file.
    ``options`` are the ``csv.*`` keys, or Spark's own options by their whole names; ``cube`` is where the
    exact cells are kept once they were counted."""

    kind: Literal["csv", "parquet", "duckdb", "postgresql", "spark"]
    path: str | None = None
    table: str | None = None
    dsn: str | None = None
    data_version: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cube: Literal["memory", "disk"] | None = None


@dataclass(frozen=True, slots=True)
class LedgerSpec:
    """Where the transcript is kept: in the file at ``path``, or in a ``schema`` of the database at ``dsn``,
    which bears no password."""

    kind: Literal["sqlite", "postgresql"] = "sqlite"
    path: str | None = None
    dsn: str | None = None
    witness: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Weighing:
    """How difficulty becomes weight where a scarce budget is shared out (QIF: paper, section 5)."""

    alpha: Fraction = Fraction(1)
    beta: Fraction = Fraction(1)
    g: Literal["identity", "sqrt", "log"] = "identity"


PromisedKind = Literal["ranges", "subsets", "cells"]
"""What of a column a promised question may ask for: a range of its atoms, any of them, or one."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A class of COUNT(*) questions that is never refused: all products over exactly these ``columns`` (in
    the order of the domain) of one of each column's ``kinds``, at an error of ``within`` rows at
    ``confidence``, or a looser one."""

    columns: tuple[str, ...]
    kinds: tuple[PromisedKind, ...]
    within: Fraction
    confidence: Fraction = Fraction(95, 100)

    def __str__(self) -> str:
        parts = (f"{kind} of {name}" for name, kind in zip(self.columns, self.kinds, strict=True))
        return " x ".join(parts)


@dataclass(frozen=True)
class Contract:
    """A valid contract.  ``rho`` is the whole zCDP budget; the diagnostic purse is ``xi * rho``.
    ``epsilon`` and ``delta`` are kept where rho was derived from them.  ``m_floor`` is the least count a
    relative target is scaled by; ``n_max`` a public upper bound on the number of rows.

    ``gate`` names the policy that shares the budget out over the ``horizon`` of expected paid questions, of
    which ``forecast`` gives typical prices in rho.  ``promises`` hold budget back for classes of questions
    that are never refused.  ``surplus`` is what an analyst's savings may be used for, where analysts have
    shares of the budget, and ``sharing`` whether what others paid for is paid for in part when it is reused
    (in exact support alone)."""

    table: str
    rho: Fraction
    unit: Unit
    source: SourceSpec
    domain: Domain
    directory: Path
    xi: Fraction = Fraction(0)
    epsilon: float | None = None
    delta: float | None = None
    horizon: int | None = None
    support: Literal["linear", "exact"] = "linear"
    gate: str = "refuse"
    forecast: tuple[Fraction, ...] = ()
    weights: Weighing = Weighing()
    m_floor: Fraction | None = None
    n_max: int | None = None
    promises: tuple[Promised, ...] = ()
    surplus: Surplus = "allornothing"
    sharing: Sharing = "none"
    ledger: LedgerSpec = LedgerSpec()
    path: Path | None = None
