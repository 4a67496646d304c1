"""The block of one column in a drafted contract."""

from __future__ import annotations

from pathlib import Path

from defray.config.fields import toml_string
from defray.config.reader import parse_contract
from defray.errors import ContractError


def left_out(name: str, why: str) -> str:
    """The block of a column that cannot be asked about."""
    return f"# {toml_string(name)} is not declared: {why}\n"


def is_readable(block: str) -> bool:
    """Whether the contract reader takes a column's block as it is."""
    head = 'version = 1\nrho = 1\nunit = "row"\nsource = {kind = "csv", path = "x"}\n'
    try:
        parse_contract(head + block, Path("draft.toml"))
    except ContractError:
        return False
    return True
