"""How often the table is read for a question."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from defray.controller.goals import Wish
from defray.data.source import Control, Exact, Scan, Source
from defray.engine import Engine
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.simulate.tables import synthetic
from defray.transcript import terms_of
from tests.support.overlapping import CONTRACT, DOMAIN


class Watched:
    """A source that remembers its scans."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.scans: list[Scan] = []

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        self.scans.append(scan)
        return self.source.scan(scan, control)

    def close(self) -> None:
        self.source.close()


def test_a_question_that_is_drawn_from_its_view_reads_the_table_once() -> None:
    watched = Watched(synthetic(DOMAIN, 1000, 5))
    contract = replace(CONTRACT, rho=Fraction(10))
    engine = Engine(contract, MemoryLedger(terms_of(contract)), watched, OpenDPSampler())

    def scans(question: str, within: float) -> list[Scan]:
        watched.scans.clear()
        assert engine.ask(f"SELECT COUNT(*) FROM people {question}", Wish(within=within)).met
        return list(watched.scans)

    (own,) = scans("WHERE age < 5", 50)
    assert not own.axes
    (view,) = scans("WHERE age BETWEEN 3 AND 6", 50)  # a mixture of the cells of age
    assert [axis.starts for axis in view.axes] == [tuple(range(8))]
    assert not scans("WHERE age BETWEEN 3 AND 6", 50)
