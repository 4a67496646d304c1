"""A cube says what its source says, of one scan, in memory or from a file."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from defray.core.contract import MOST_CUBED, Unit
from defray.core.domain import Domain
from defray.data.cube import CubedSource
from defray.data.source import Control, Exact, Scan, Source
from defray.errors import Cancelled, SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from tests.contract import nasty
from tests.contract.sources import ParquetUnderTest
from tests.tables import open_session, write_contract, write_people

SECRET = b"k" * 32
ROWS = nasty.rows()


@dataclass
class Counting:
    """A source, and how many scans it made."""

    source: Source
    scans: int = 0
    version: str = ""

    def fingerprint(self) -> str:
        return self.source.fingerprint() + self.version

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        self.scans += 1
        return self.source.scan(scan, control)

    def close(self) -> None:
        self.source.close()


def small(policy: str) -> Domain:
    """As many of the nasty columns as a cube can be made of, those that are summed among them."""
    chosen: list[Any] = []
    columns = nasty.domain(policy).columns
    for column in sorted(columns, key=lambda c: (c.bounds is None, c.width)):
        if prod(c.width for c in (*chosen, column)) <= MOST_CUBED // 8:
            chosen.append(column)
    return Domain(tuple(sorted(chosen, key=lambda c: c.name)))


def source_of(folder: Path, domain: Domain) -> Counting:
    return Counting(ParquetUnderTest(folder, ROWS).open(domain, Unit()))


@pytest.fixture(scope="module", params=nasty.POLICIES)
def cubed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Domain, Counting, CubedSource]]:
    domain = small(request.param)
    source = source_of(tmp_path_factory.mktemp("cube"), domain)
    cube = CubedSource(source, domain, SECRET)
    yield domain, source, cube
    cube.close()


@st.composite
def scans(draw: st.DrawFn, domain: Domain) -> Scan:
    regions = Regions(domain.widths)
    region = EVERYWHERE
    for column in draw(st.lists(st.integers(0, len(domain.columns) - 1), max_size=3)):
        width = domain.widths[column]
        low = draw(st.integers(0, width - 1))
        part = regions.where(column, ((low, draw(st.integers(low + 1, width))),))
        region = draw(st.sampled_from([regions.both, regions.either]))(region, part)
        region = regions.negate(region) if draw(st.booleans()) else region
    grouped = [i for i, column in enumerate(domain.columns) if column.levels]
    by = draw(st.lists(st.sampled_from(grouped), max_size=2, unique=True))
    axes = tuple(Axis(i, draw(st.sampled_from(domain.columns[i].levels))) for i in by)
    named = st.lists(st.sampled_from(domain.names), max_size=2, unique=True)
    summed = [c.name for c in domain.columns if c.bounds is not None]
    sums = draw(st.lists(st.sampled_from(summed), max_size=2, unique=True))
    return Scan(region, axes, tuple(draw(named)), tuple(sums))


def told(exact: Exact) -> tuple[Any, ...]:
    return exact.rows, exact.non_null, exact.sums


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_scan_is_what_the_source_says(
    cubed: tuple[Domain, Counting, CubedSource], data: st.DataObject
):
    domain, source, cube = cubed
    scan = data.draw(scans(domain))
    said = told(cube.scan(scan))
    before = source.scans
    assert said == told(source.source.scan(scan))
    cube.scan(scan)
    assert source.scans == before == 1


def test_another_version_is_counted_anew(tmp_path: Path):
    domain = small(nasty.POLICIES[0])
    source = source_of(tmp_path, domain)
    cube = CubedSource(source, domain, SECRET)
    for version in ("", "", "2", "2", "3"):
        source.version = version
        cube.scan(Scan(EVERYWHERE))
    assert source.scans == 3
    cube.close()


def test_a_file_is_private_and_read_by_the_next(tmp_path: Path):
    domain, file = small(nasty.POLICIES[0]), tmp_path / "people.cube"
    source = source_of(tmp_path, domain)
    first = CubedSource(source, domain, SECRET, file).scan(Scan(EVERYWHERE))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert told(CubedSource(source, domain, SECRET, file).scan(Scan(EVERYWHERE))) == told(first)
    assert source.scans == 1
    assert [path.name for path in tmp_path.glob("*.cube*")] == ["people.cube"]
    source.close()


@pytest.mark.parametrize("what", ["bit", "short", "empty", "secret", "version", "domain"])
def test_a_file_that_is_not_what_was_written_is_made_anew(tmp_path: Path, what: str):
    domain, file = small(nasty.POLICIES[0]), tmp_path / "people.cube"
    source, secret = source_of(tmp_path, domain), SECRET
    wanted = told(CubedSource(source, domain, SECRET, file).scan(Scan(EVERYWHERE)))
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    match what:
        case "bit":
            file.write_bytes(body)
        case "short":
            file.write_bytes(body[:-9])
        case "empty":
            file.write_bytes(b"")
        case "secret":
            secret = b"other" * 8
        case "version":
            source.version = "2"
        case "domain":
            domain = Domain(domain.columns[:-1])
            source.source.close()
            source = Counting(source_of(tmp_path, domain).source, 1)
    assert told(CubedSource(source, domain, secret, file).scan(Scan(EVERYWHERE))) == wanted
    assert source.scans == 2
    source.close()


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path):
    domain = small(nasty.POLICIES[0])
    source = source_of(tmp_path, domain)
    with pytest.raises(SourceUnavailable, match="cannot be written"):
        CubedSource(source, domain, SECRET, tmp_path / "no" / "a.cube").scan(Scan(EVERYWHERE))
    (tmp_path / "b.cube").mkdir()
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        CubedSource(source, domain, SECRET, tmp_path / "b.cube").scan(Scan(EVERYWHERE))
    source.close()


def test_sums_beyond_doubles_are_exact(tmp_path: Path):
    from defray.data.cube import _numbers, _whole

    for numbers in ([], [1, -2], [2**53, 1], [-(2**70), 3]):
        kept = _whole(numbers)
        path = tmp_path / "a.npz"
        np.savez(path, kept=kept)
        with np.load(path, allow_pickle=False) as arrays:
            assert _numbers(arrays["kept"]).tolist() == numbers


def test_whoever_waits_for_a_cube_can_give_up(tmp_path: Path):
    domain = small(nasty.POLICIES[0])
    source = source_of(tmp_path, domain)
    cube = CubedSource(source, domain, SECRET)
    with cube._lock, pytest.raises(Cancelled):
        cube.scan(Scan(EVERYWHERE), Control(cancelled=lambda: True))
    threads = [threading.Thread(target=cube.scan, args=(Scan(EVERYWHERE),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.scans == 1
    cube.close()


def test_a_large_domain_has_no_cube(tmp_path: Path):
    domain = nasty.domain(nasty.POLICIES[0])
    assert prod(domain.widths) > MOST_CUBED
    with pytest.raises(ValueError, match="too many cells"):
        CubedSource(source_of(tmp_path, domain), domain, SECRET)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_contract_with_a_cube_reads_its_table_once(tmp_path: Path, kind: str):
    write_people(tmp_path, 2_000)
    contract = write_contract(tmp_path)
    text = contract.read_text().replace("[source]\n", f'[source]\ncube = "{kind}"\n')
    contract.write_text(text)
    with open_session(contract) as session:
        cube: Any = session._engine._source
        cube._source = source = Counting(cube._source)
        for sex in ("F", "M"):
            sql = f"SELECT COUNT(*), AVG(income) FROM people WHERE sex = '{sex}' AND age < 40"
            assert session.ask(sql, within={"count": 30, "avg_income": "10%"}).charged_rho > 0
        assert source.scans == 1
    assert (tmp_path / "contract.cube").exists() == (kind == "disk")
    with open_session(contract) as session:
        cube = session._engine._source
        cube._source = source = Counting(cube._source)
        session.ask("SELECT COUNT(*) FROM people WHERE age > 70", within=30)
        assert source.scans == (kind == "memory")
