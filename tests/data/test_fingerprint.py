from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from defray.data import fingerprint as module
from defray.data.fingerprint import Fingerprint
from defray.errors import SourceUnavailable


class Store(dict[str, str]):
    def memo(self, key: str, text: str) -> None:
        self[key] = text


@pytest.fixture
def store() -> Store:
    return Store()


def make(
    pattern: Path, store: Store, secret: bytes = b"s" * 32, version: str | None = None
) -> Fingerprint:
    later = lambda: time.time_ns() + 10**10  # noqa: E731  as if the files had been there for long
    return Fingerprint(pattern, secret, store.get, store.memo, version, clock_ns=later)


def value(pattern: Path, store: Store, **others: object) -> str:
    return make(pattern, store, **others).current()[1]  # type: ignore[arg-type]


def test_it_names_content_and_secret_and_version(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age\n1\n")
    first = value(file, store)
    assert value(file, Store()) == first
    assert value(file, Store(), secret=b"t" * 32) != first
    assert value(file, Store(), version="2024") != first
    assert value(file, store, secret=b"t" * 32) != first, "a memo of another secret does not count"
    file.write_text("age\n2\n")
    assert value(file, store) != first


def test_a_touched_file_with_the_same_content_is_the_same_version(
    tmp_path: Path, store: Store
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age\n1\n")
    first = value(file, store)
    os.utime(file, ns=(1, 1))
    assert value(file, store) == first
    moved = tmp_path / "b.csv"
    moved.write_text("age\n1\n")
    moved.replace(file)
    assert value(file, store) == first


def test_nothing_is_read_again_while_nothing_moved(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age\n1\n")
    one = make(file, store)
    first = one.current()
    monkeypatch.setattr(Fingerprint, "_content", lambda self, files: pytest.fail("read again"))
    assert one.current() == first
    assert make(file, store).current() == first


def test_a_young_file_is_read_again_and_never_remembered(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age\n1\n")
    young = Fingerprint(file, b"s" * 32, store.get, store.memo)
    before = young.current()[1]
    assert not store
    stamp = file.stat().st_mtime_ns
    file.write_text("age\n2\n")
    os.utime(file, ns=(stamp, stamp))
    assert young.current()[1] != before


def test_it_is_told_at_once_only_where_few_files_stayed_as_they_were(
    tmp_path: Path, store: Store
) -> None:
    for i in range(module.FEW_FILES):
        (tmp_path / f"{i}.csv").write_text("age\n1\n")
    found = make(tmp_path / "*.csv", store)
    assert found.glance() is None, "nothing was read yet"
    first = found.current()[1]
    assert found.glance() == first
    (tmp_path / "0.csv").write_text("age\n2\n")
    assert found.glance() is None
    second = found.current()[1]
    assert found.glance() == second != first
    (tmp_path / "more.csv").write_text("age\n1\n")
    assert found.current()[1] != second
    assert found.glance() is None, "to look at so many takes a while"


def test_names_and_order_of_a_glob_count(tmp_path: Path, store: Store) -> None:
    (tmp_path / "b.csv").write_text("age\n1\n")
    (tmp_path / "a.csv").write_text("age\n2\n")
    first = value(tmp_path / "*.csv", store)
    (tmp_path / "a.csv").rename(tmp_path / "c.csv")
    assert value(tmp_path / "*.csv", store) != first
    (tmp_path / "c.csv").rename(tmp_path / "a.csv")
    assert value(tmp_path / "*.csv", store) == first
    (tmp_path / "d.csv").write_text("")
    assert value(tmp_path / "*.csv", store) != first


def test_boundaries_between_files_count(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.csv").write_text("12")
    (tmp_path / "b.csv").write_text("3")
    first = value(tmp_path / "*.csv", store)
    (tmp_path / "a.csv").write_text("1")
    (tmp_path / "b.csv").write_text("23")
    assert value(tmp_path / "*.csv", store) != first


def test_what_is_remembered_is_opaque(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "secret-name.csv"
    file.write_text("age\n41\n")
    first = value(file, store)
    ((key, text),) = store.items()
    signature, kept = text.split(":")
    assert kept == first
    assert all(set(part) <= set("0123456789abcdef") for part in (signature, kept))
    assert "secret-name" not in key + text


@pytest.mark.parametrize("name", ["none.csv", "none-*.csv"])
def test_no_file(tmp_path: Path, store: Store, name: str) -> None:
    with pytest.raises(SourceUnavailable, match="no data file at none") as found:
        value(tmp_path / name, store)
    assert "source.path" in found.value.hint


def test_a_file_that_cannot_be_read(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age\n1\n")

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("a backend's own words")

    monkeypatch.setattr(module, "open", refuse, raising=False)
    with pytest.raises(SourceUnavailable) as found:
        value(file, store)
    assert "own words" not in repr(found.value.__context__) + str(found.value)
