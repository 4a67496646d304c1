"""SQLAlchemy, and what stands on it, ask a contract as they ask a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from defray import dbapi
from tests.tables import write_contract, write_people

sqlalchemy = pytest.importorskip("sqlalchemy")
sa = sqlalchemy

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
COLUMNS = ["sex", "n", "n_half_width", "n_charged_rho"]


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    from sqlalchemy.dialects import registry

    for name, made in (
        ("defray", "DefrayDialect"),
        ("defray.http", "HttpDialect"),
        ("defray.https", "HttpsDialect"),
    ):
        registry.register(name, "defray.dbapi.dialect", made)


@pytest.fixture
def url(tmp_path: Path) -> str:
    write_people(tmp_path, 1000)
    return f"defray:///{write_contract(tmp_path)}?within=50"


@pytest.fixture
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    made = sa.create_engine(url)
    yield made
    made.dispose()


def test_text_with_parameters(engine: sqlalchemy.Engine):
    with engine.connect() as connection:
        asked = sa.text("SELECT sex, COUNT(*) AS n FROM people WHERE age > :age GROUP BY sex")
        found = connection.execute(asked, {"age": 17})
        assert list(found.keys()) == COLUMNS
        assert [row.sex for row in found] == ["F", "M", None]
        with pytest.raises(sa.exc.ProgrammingError, match="no table nobody") as raised:
            connection.execute(sa.text("SELECT COUNT(*) FROM nobody"))
    assert isinstance(raised.value.orig, dbapi.ProgrammingError)


def test_what_is_built_in_python(engine: sqlalchemy.Engine):
    table = sa.Table("people", sa.MetaData(), autoload_with=engine)
    assert {c.name: type(c.type).__name__ for c in table.columns} == {
        "age": "Integer", "sex": "String", "income": "Integer",
    }  # fmt: skip
    question = (
        sa.select(table.c.sex, sa.func.count().label("n"))
        .where(table.c.age.between(18, 65), table.c.sex.in_(["F", "M"]))
        .group_by(table.c.sex)
        .order_by(sa.desc("n"))
        .limit(1)
    )
    with engine.connect() as connection:
        assert len(connection.execute(question).all()) == 1
    assert sa.inspect(engine).get_table_names() == ["people"]
    assert not sa.inspect(engine).has_table("nobody")


def test_pandas_and_polars_read_it(engine: sqlalchemy.Engine):
    frame = pd.read_sql(BY_SEX, engine)
    assert list(frame.columns) == COLUMNS and len(frame) == 3
    other = pl.read_database(BY_SEX, engine)
    assert other["n"].to_list() == frame["n"].to_list()  # known by now, and free


def test_addresses(tmp_path: Path):
    from defray.dbapi.dialect import DefrayDialect, HttpDialect, HttpsDialect

    for dialect, text, args in (
        (DefrayDialect(), "defray:///a/b.toml?within=5&dry_run=true", ["a/b.toml"]),
        (DefrayDialect(), "defray:////a/b.toml?within=5&dry_run=true", ["/a/b.toml"]),
        (
            HttpDialect(),
            "defray+http://:dfy_x@127.0.0.1:8310?within=5&dry_run=true",
            ["http://127.0.0.1:8310/", "dfy_x"],
        ),
        (
            HttpsDialect(),
            "defray+https://:dfy_x@[::1]/sub?within=5&dry_run=true",
            ["https://[::1]/sub", "dfy_x"],
        ),
    ):
        made = dialect.create_connect_args(sa.make_url(text))
        assert made == (args, {"within": "5", "dry_run": True})


def test_jupysql_asks_through_it(url: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.connect"):
        monkeypatch.setitem(sys.modules, name, None)  # it looks for a part that wants grpc
    pytest.importorskip("sql", reason="jupysql is not installed")
    shell = pytest.importorskip("IPython").core.interactiveshell.InteractiveShell()
    shell.run_line_magic("load_ext", "sql")
    shell.run_line_magic("sql", url)
    found = shell.run_cell_magic("sql", "", BY_SEX + " ERROR WITHIN 60 AT CONFIDENCE 90%")
    assert list(found.keys) == COLUMNS
    assert len(found.DataFrame()) == 3
