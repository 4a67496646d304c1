"""Several analysts of one contract through the whole engine, beside the pure rule in exact quanta."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from defray.access import Access
from defray.config.reader import parse_contract
from defray.core.amounts import QUANTA
from defray.core.target import precision_for, two_sided
from defray.engine import Engine
from defray.errors import BudgetRefused
from defray.ledger.memory import MemoryLedger
from defray.ledger.records import account_of
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.policy.sharing import Pool, Rule
from defray.policy.stakes import price_of
from defray.session import Session
from defray.simulate.tables import CountedSource
from defray.simulate.through_engine import half_width
from defray.transcript import terms_of

ITEMS = 4
PRICE = price_of(Fraction(1), Fraction(1))


def engine_of(rule: Rule, folder: Path | None = None, support: str = "exact") -> Engine:
    """A contract of rho 1 over rows of some items, with these options; its ledger in a folder or in
    memory."""
    sharing = f'sharing = "{rule.sharing}"\n' if support == "exact" else ""
    top = f'version = 1\ntable = "t"\nrho = 1\nm_floor = 10\nsupport = "{support}"\ngate = "{rule.alone}"\n'
    top += f'surplus = "{rule.surplus}"\n{sharing}[source]\nkind = "csv"\npath = "t.csv"\n'
    columns = f'[columns.item]\ntype = "integer"\nmin = 0\nmax = {ITEMS - 1}\nnull = "drop"\n'
    columns += '[columns.half]\ntype = "integer"\nmin = 0\nmax = 1\nnull = "drop"\n'
    contract = parse_contract(top + columns, Path("t.toml"))
    rows = [[i % ITEMS for i in range(800)], [i // ITEMS % 2 for i in range(800)]]
    source = CountedSource(contract.domain, dict(zip(("item", "half"), rows, strict=True)))
    ledger: Ledger = MemoryLedger(terms_of(contract))
    if folder is not None:
        ledger = SqliteLedger.open(folder / "t.ledger", terms_of(contract))
    return Engine(contract, ledger, source, OpenDPSampler())


@dataclass
class Analysts:
    """The engine and the rule, side by side."""

    rule: Rule
    shares: dict[str, Fraction]
    folder: Path | None = None
    support: str = "exact"
    asks: int = 0
    pool: Pool = field(default_factory=lambda: Pool(QUANTA))

    def __post_init__(self) -> None:
        self.engine = engine_of(self.rule, self.folder, self.support)
        self.session = Session(self.engine)
        self.access = Access(self.engine.ledger)
        for name, share in self.shares.items():
            self.access.add(name, share=share)
            self.pool = self.pool.assigned(name, share)

    def ask(self, name: str, item: int, demand: float) -> bool:
        """Whether an ask for the count of an item, worth so much rho from scratch, is met."""
        sql = f"SELECT COUNT(*) FROM t WHERE item = {item}"
        return self.tell(name, sql, half_width(demand))

    def tell(self, name: str, sql: str, within: object) -> bool:
        mine = self.session.on_behalf_of(name)
        quote = mine.quote(sql, within=within)
        before = self.paid(name)
        try:
            answer = mine.ask(sql, within=within)
        except BudgetRefused:
            assert not quote.fits
            return False
        assert quote.exact
        told = answer.charged_rho, answer.to_others_rho
        assert told == (quote.charged_rho, quote.to_others_rho)
        assert abs(sum(told) * QUANTA - (self.paid(name) - before)) < 1
        return answer.met

    def settle(self, name: str, item: int, demand: float) -> bool:
        """The same by the rule."""
        support = precision_for(half_width(demand), two_sided(float(Fraction(5, 100))))
        wanted = int(support * PRICE)
        found = self.pool.settle(self.rule, name, str(item), wanted)
        self.pool = self.pool.after(str(item), found)
        return found.held.support >= wanted

    def spent(self, account: str) -> int:
        with self.engine.ledger.view() as view:
            return view.spent(account)

    def paid(self, name: str) -> int:
        return self.spent(account_of("answer", name))

    def bound(self, name: str) -> int:
        return self.spent(account_of("answer", name, alone=True))

    def check(self) -> None:
        """I1 and I2, in whole quanta."""
        paid = {name: self.paid(name) for name in self.shares}
        assert sum(paid.values()) == self.spent("answer") <= QUANTA, "I1"
        for name, share in self.shares.items():
            assert 0 <= paid[name] <= self.bound(name) <= share * QUANTA, "I2"
