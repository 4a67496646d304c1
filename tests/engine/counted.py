"""The whole engine over a table in memory: real plans, real noise, a real log, no database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from defray.config.reader import parse_contract
from defray.engine import Engine
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.session import Session
from defray.simulate.tables import CountedSource
from defray.transcript import terms_of


def whole(name: str, most: int, more: str = 'null = "drop"') -> str:
    """A column of whole numbers from 0."""
    return f'[columns.{name}]\ntype = "integer"\nmin = 0\nmax = {most}\n{more}\n'


def amount(name: str, low: int, high: int) -> str:
    """A column that may be summed."""
    return f'[columns.{name}]\ntype = "integer"\nbounds = [{low}, {high}]\n'


class Table:
    """A session over random rows, and what is true of them."""

    def __init__(
        self,
        columns: str,
        top: str = "rho = 10",
        rows: int = 3000,
        seed: int = 0,
        n_max: int = 100_000,
    ) -> None:
        top = f'version = 1\ntable = "t"\nn_max = {n_max}\n{top}\n'
        text = f'{top}[source]\nkind = "csv"\npath = "t.csv"\n'
        contract = parse_contract(text + columns, Path("t.toml"))
        rng = np.random.default_rng(seed)
        domain = contract.domain
        self.atoms = {c.name: rng.integers(0, c.width, rows) for c in domain.columns}
        source = CountedSource(domain, self.atoms)
        ledger = MemoryLedger(terms_of(contract))
        self.session = Session(Engine(contract, ledger, source, OpenDPSampler()))

    def ask(self, sql: str, within: Any) -> Any:
        return self.session.ask(f"SELECT {sql}", within=within)

    def price(self, sql: str, within: Any) -> float:
        return self.session.quote(f"SELECT {sql}", within=within).charged_rho
