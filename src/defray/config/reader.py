"""Contract file (TOML) -> :class:`~defray.core.contract.Contract`, or every mistake in it at once.

Numbers are taken exactly as written.  Nothing outside the file is looked at: whether the source exists
and has the declared columns is the source's to say.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, cast

from defray.config import keys
from defray.config.columns import read_column
from defray.config.document import parse_toml, read_text
from defray.config.fields import Findings, Section, is_name, shown, toml_string
from defray.config.places import check_cube, read_ledger, read_source, table_name
from defray.config.promises import read_promises
from defray.config.scarcity import read_sharing
from defray.config.toml_lines import key_lines
from defray.core.column import Column
from defray.core.contract import Contract, Sharing, Unit
from defray.core.domain import MOST_CELLS, Domain
from defray.core.zcdp import rho_for
from defray.errors import ContractError

LEAST_RHO: Final = Fraction(1, 10**18)
MOST_RHO: Final = Fraction(10**9)
MAX_UNIT_ROWS: Final = 10**6


def read_contract(path: Path) -> Contract:
    """The contract in a file.  Raises ContractError with all mistakes, in file order."""
    path = Path(path)
    return parse_contract(read_text(path), path)


def parse_contract(text: str, path: Path) -> Contract:
    """The contract in a text that stands (or would stand) at ``path``."""
    text = text.replace("\r\n", "\n")
    data = parse_toml(text, path)
    findings = Findings(key_lines(text))
    top = Section(data, (), "", findings)
    top.check_names()
    if "version" not in top:
        top.problem("version", "the version is missing", "add version = 1 as the first line")
    elif (version := top.number("version")) is not None and version != 1:
        cure = "write version = 1; a later version needs a later Defray"
        top.problem("version", f"{shown(data['version'])} is not a version known here", cure)
    rho, epsilon, delta = _budget(top)
    unit = _unit(top)
    source = read_source(top)
    xi = top.number("xi")
    if xi is not None and not 0 <= xi < 1:
        cure = "it is the share of rho kept for diagnostics: xi = 0.1"
        top.problem("xi", f"{shown(data['xi'])} is not from 0 up to (not including) 1", cure)
    support = top.choice("support", ("linear", "exact"))
    sharing = read_sharing(top, xi)
    m_floor = top.number("m_floor", positive=True)
    if m_floor is not None and not Fraction(1, 1000) <= m_floor <= 10**15:
        top.problem("m_floor", "is out of range", "m_floor = 100: a count of rows")
    n_max = top.whole("n_max", low=1, high=2**62)
    surplus = top.choice("surplus", ("none", "partial", "allornothing"))
    reuse = _reuse(top, support or "linear")
    ledger = read_ledger(top, path, source)
    domain = _domain(top, support or "linear")
    check_cube(top, source, domain)
    promises = read_promises(top, domain, support or "linear")
    table = top.text("table") if "table" in top else table_name(source)
    if problems := findings.problems():
        raise ContractError(problems, path=str(path))
    assert rho is not None
    assert table is not None
    return Contract(
        table=table,
        rho=rho,
        unit=unit,
        source=source,
        domain=domain,
        directory=path.absolute().parent,
        xi=xi or Fraction(0),
        epsilon=None if epsilon is None else float(epsilon),
        delta=None if delta is None else float(delta),
        horizon=sharing.horizon,
        support=cast(Any, support or "linear"),
        gate=sharing.gate,
        forecast=sharing.forecast,
        weights=sharing.weights,
        m_floor=m_floor,
        n_max=n_max,
        promises=promises,
        surplus=cast(Any, surplus or "allornothing"),
        sharing=reuse,
        ledger=ledger,
        path=path,
    )


def _reuse(top: Section, support: str) -> Sharing:
    """Whether reuse is shared: by default where support is exact, and there alone."""
    chosen = top.choice("sharing", ("none", "shapley"))
    if chosen == "shapley" and support != "exact":
        message = f'support = "{support}" cannot tell whose part of an answer is reused'
        top.problem("sharing", message, 'add support = "exact", or write sharing = "none"')
    return cast(Sharing, chosen or ("shapley" if support == "exact" else "none"))


# -- budget and unit ----------------------------------------------------------------------


def _budget(top: Section) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    """rho, and the epsilon and delta that it was derived from."""
    rho = top.number("rho", positive=True)
    epsilon = top.number("epsilon", positive=True)
    delta = top.number("delta", positive=True)
    if delta is not None and delta >= 1:
        top.problem("delta", f"{shown(top.data['delta'])} is not between 0 and 1")
        delta = None
    pair = [f"{k} = {shown(top.data[k])}" for k in ("epsilon", "delta") if k in top]
    if "rho" in top:
        if pair:
            both = f"rho = {shown(top.data['rho'])} and {' and '.join(pair)} are both given"
            top.problem("rho", both, "keep rho, or keep epsilon and delta")
        elif rho is not None and not LEAST_RHO <= rho <= MOST_RHO:
            message = f"{shown(top.data['rho'])} is no meaningful budget"
            top.problem("rho", message, "rho lies between 1e-18 and 1e9; 0.5 is typical")
        return rho, None, None
    if not pair:
        cure = "choose the whole budget: rho = 0.5, or epsilon = 5 and delta = 1e-6"
        top.problem("rho", "the budget is missing", cure)
    elif len(pair) == 1:
        key = "delta" if "epsilon" in top else "epsilon"
        top.problem(key, f"{key} is missing next to {pair[0]}", f"add {keys.key_at(key).example}")
    elif epsilon is not None and delta is not None:
        if epsilon <= MOST_RHO:
            rho = rho_for(epsilon, delta)
        if rho is None or not LEAST_RHO <= rho <= MOST_RHO:
            message = f"{' and '.join(pair)} make no meaningful budget"
            top.problem("epsilon", message, "typical are epsilon = 5 and delta = 1e-6")
    return rho, epsilon, delta


def _unit(top: Section) -> Unit:
    choose = 'write unit = "row", or under [unit]: column = "person_id" and max_rows = 5'
    if "unit" not in top:
        return Unit()
    if isinstance(top.data["unit"], str):
        if top.data["unit"] != "row":
            top.problem("unit", f"{shown(top.data['unit'])} is no privacy unit", choose)
        return Unit()
    unit = top.table("unit", "unit")
    if unit is None:
        return Unit()
    column, row_key = unit.text("column"), unit.names("row_key")
    max_rows = unit.whole("max_rows", low=1, high=MAX_UNIT_ROWS)
    if "column" not in unit:
        unit.problem("column", "the unit's column is missing", choose)
    elif "max_rows" not in unit:
        cure = "add max_rows = 5: how many rows of one unit are kept; charges grow with its square"
        unit.problem("max_rows", "max_rows is missing next to column", cure)
    return Unit(column, max_rows or 1, row_key or ())


# -- columns ---------------------------------------------------------------------------------------


def _domain(top: Section, support: str) -> Domain:
    cure = 'add for each column: [columns.NAME] with type = "integer", min = 0 and max = 120'
    if top.data.get("columns", {}) == {}:
        top.problem("columns", "no column is declared", cure)
        return Domain(())
    tables = top.table("columns", "columns")
    if tables is None:
        return Domain(())
    columns: list[Column] = []
    for name in sorted(tables.data):
        if not is_name(name):
            message = f"{toml_string(name)} is empty or has control characters"
            tables.findings.add(("columns", name), message, "rename the column in the source")
            continue
        section = tables.table(name, "columns.NAME")
        column = None if section is None else read_column(section, name)
        if column is not None:
            columns.append(column)
    return Domain(_charged_apart(top, columns, support))


def _charged_apart(top: Section, columns: list[Column], support: str) -> tuple[Column, ...]:
    """The columns, of which those of ``charge_by`` are marked."""
    names = top.names("charge_by") or ()
    declared = {column.name: column.width for column in columns}
    if names and support != "linear":
        cure = "remove charge_by, or support"
        top.problem("charge_by", f'support = "{support}" charges no cells', cure)
    for name in names:
        if name not in top.data["columns"]:
            cure = f"the columns are {', '.join(declared)}" if declared else ""
            top.problem("charge_by", f"there is no column {toml_string(name)}", cure)
    if (cells := math.prod(declared.get(name, 1) for name in names)) > MOST_CELLS:
        message = f"these columns have {cells} cells together, of at most {MOST_CELLS}"
        top.problem("charge_by", message, "name fewer columns, or coarser ones")
    return tuple(replace(column, charged_by=column.name in names) for column in columns)
