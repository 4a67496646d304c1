"""PEP 249, as its text has it and as pandas and polars use it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from defray import dbapi, errors
from defray.core.answer import DRY_RUN
from defray.session import Session
from tests.remote.standin import TOKEN, served
from tests.tables import people, write_contract, write_people

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
COLUMNS = ["sex", "n", "n_half_width", "n_charged_rho"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with people(tmp_path, "rho = 1\nxi = 0.1", 1000) as opened:
        yield opened


@pytest.fixture
def connection(session: Session) -> Iterator[dbapi.Connection]:
    with dbapi.connect(session, within=50) as connected:
        yield connected


def test_the_module_is_what_the_pep_says():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    tree = {
        dbapi.InterfaceError: dbapi.Error,
        dbapi.DatabaseError: dbapi.Error,
        **dict.fromkeys(
            (
                dbapi.DataError, dbapi.OperationalError, dbapi.IntegrityError, dbapi.InternalError,
                dbapi.ProgrammingError, dbapi.NotSupportedError,
            ),
            dbapi.DatabaseError,
        ),
        dbapi.Error: Exception,
        dbapi.Warning: Exception,
    }  # fmt: skip
    assert all(child.__base__ is parent for child, parent in tree.items())
    assert [kind == dbapi.NUMBER for kind in (int, float, str)] == [True, True, False]
    assert dbapi.STRING != dbapi.DATETIME
    assert dbapi.DateFromTicks(0).year in (1969, 1970)
    assert dbapi.Binary(b"x") == b"x"
    for name in ("Error", "OperationalError"):
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)


def test_a_table_is_described_and_fetched(connection: dbapi.Connection):
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.rowcount == -1
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetchone()
    assert cursor.execute(BY_SEX + " ORDER BY sex") is cursor
    assert [column[0] for column in cursor.description or ()] == COLUMNS
    assert all(len(column) == 7 for column in cursor.description or ())
    codes = [column[1] for column in cursor.description or ()]
    assert codes[0] == dbapi.STRING and codes[1] == codes[2] == dbapi.NUMBER
    assert cursor.rowcount == 3
    first = cursor.fetchone()
    assert first is not None and first[0] == "F" and first[2] == pytest.approx(50, rel=1e-3)
    assert len(cursor.fetchmany()) == cursor.arraysize == 1
    assert [row[0] for row in cursor] == [None]
    assert cursor.fetchone() is None and cursor.fetchall() == [] and cursor.fetchmany(9) == []
    assert cursor.answer is not None
    assert [row.value for row in cursor.answer] == [r[1] for r in cursor.execute(BY_SEX).fetchall()]
    cursor.setinputsizes([1])
    cursor.setoutputsize(1, 2)
    connection.commit()
    connection.rollback()


def test_parameters_and_the_accuracy_of_the_text(connection: dbapi.Connection, session: Session):
    cursor = connection.cursor()
    cursor.execute(
        "SELECT COUNT(*) FROM people WHERE sex = ? AND age BETWEEN ? AND ?", ("F", 18, 65)
    )
    named = {"low": 18, "sex": "F", "high": 65}
    cursor.execute(
        "SELECT COUNT(*) AS m FROM people WHERE age BETWEEN :low AND :high AND sex = :sex", named
    )
    assert cursor.fetchone() is not None
    assert cursor.answer is not None and cursor.answer.charged_rho == 0  # the same question
    cursor.execute("SELECT COUNT(*) FROM people ERROR WITHIN ? AT CONFIDENCE 90%", [20])
    assert cursor.answer.confidence == 0.9 and round(cursor.answer.half_width) == 20
    assert len(session.history()) == 2


def test_every_aggregate_has_its_columns_and_no_name_comes_twice(connection: dbapi.Connection):
    cursor = connection.cursor()
    cursor.execute(
        "SELECT COUNT(*) AS n, COUNT(sex) AS n_half_width FROM people GROUP BY age HAVING n < -1e6"
    )
    names = [column[0] for column in cursor.description or ()]
    assert names == [
        "age", "n", "n_half_width_2", "n_charged_rho",
        "n_half_width", "n_half_width_half_width", "n_half_width_charged_rho",
    ]  # fmt: skip
    assert cursor.rowcount == 0 and cursor.fetchall() == []
    cursor.execute("SELECT COUNT(*), COUNT(sex) FROM people GROUP BY age HAVING COUNT(*) < -1e6")
    assert [column[0] for column in cursor.description or ()][:2] == ["age", "count"]


@pytest.mark.parametrize(
    ("sql", "kind", "code"),
    [
        ("SELECT COUNT(*) FROM nobody", dbapi.ProgrammingError, "query-refused"),
        ("SELECT COUNT(DISTINCT sex) FROM people", dbapi.NotSupportedError, "query-refused"),
        ("DROP TABLE people", dbapi.DatabaseError, "query-refused"),
        ("SELECT SUM(income) FROM people", dbapi.OperationalError, "budget-exceeded"),
    ],
)
def test_errors_are_those_of_the_pep_and_keep_what_defray_says(
    connection: dbapi.Connection, sql: str, kind: type[Exception], code: str
):
    with pytest.raises(kind) as raised:
        connection.cursor().execute(sql)
    error: Any = raised.value
    assert isinstance(error, connection.Error)
    assert error.code == code and error.error.to_dict()["code"] == code
    assert str(error) == str(error.error)


def test_an_accuracy_is_needed_from_somewhere(session: Session):
    with pytest.raises(dbapi.ProgrammingError) as raised:
        dbapi.connect(session).cursor().execute(BY_SEX)
    assert raised.value.code == "target-invalid"


def test_every_error_of_defray_has_one_of_the_pep():
    def family(kind: type[errors.DefrayError]) -> list[type[errors.DefrayError]]:
        return [kind, *(k for child in kind.__subclasses__() for k in family(child))]

    from defray.dbapi.exceptions import KINDS

    for kind in family(errors.DefrayError):
        assert any(issubclass(kind, fits) for fits, _ in KINDS)
    exact = dict(KINDS)
    assert exact[errors.InternalError] is dbapi.InternalError
    assert exact[errors.BadInput] is dbapi.ProgrammingError


def test_what_is_closed_is_closed_and_what_was_lent_is_not(session: Session):
    connection = dbapi.connect(session, within=50)
    with connection.cursor() as cursor:
        cursor.execute(BY_SEX)
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute(BY_SEX)
    other = connection.cursor()
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError):
            use()
    with pytest.raises(dbapi.InterfaceError):
        other.execute(BY_SEX)
    assert session.balance()["spent_rho"] > 0
    with pytest.raises(dbapi.NotSupportedError):
        dbapi.connect(session).cursor().executemany(BY_SEX, [[]])
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect(session).cursor().execute(17)  # type: ignore[arg-type]


def test_a_contract_is_named_by_its_file_or_address(tmp_path: Path):
    write_people(tmp_path, 1000)
    path = write_contract(tmp_path)
    with dbapi.connect(path, within=50, max_rho=0.5) as here:
        first = here.cursor().execute(BY_SEX).fetchall()
        with (
            served(here.session) as house,  # type: ignore[arg-type]
            dbapi.connect(house.url, TOKEN, within=50) as afar,
        ):
            again = afar.cursor().execute(BY_SEX).fetchall()
        assert [row[:3] for row in again] == [row[:3] for row in first]
    for mistake in ({"contract": tmp_path / "none.toml"}, {"contract": path, "wihtin": 3}):
        with pytest.raises(dbapi.ProgrammingError):
            dbapi.connect(**mistake)  # type: ignore[arg-type]
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect("https://stats.example")


def test_a_dry_run_warns(session: Session):
    with (
        dbapi.connect(session, within=5, dry_run=True) as connection,
        pytest.warns(UserWarning, match=DRY_RUN),
    ):
        connection.cursor().execute(BY_SEX)
    assert session.history() == []


def test_pandas_reads_it(connection: dbapi.Connection):
    sql = BY_SEX.replace(" GROUP", " WHERE age > ? GROUP")
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql(sql, connection, params=[17])  # type: ignore[call-overload]
    assert list(frame.columns) == COLUMNS
    assert frame["n"].dtype == float and len(frame) == 3


def test_polars_reads_it(connection: dbapi.Connection):
    frame = pl.read_database(
        "SELECT age, sex, COUNT(*) AS n FROM people WHERE age < ? GROUP BY age, sex",
        connection,
        execute_options={"parameters": [3]},
    )
    assert frame.schema["age"] == pl.Int64 and frame.schema["n"] == pl.Float64
    assert frame.columns[2:] == COLUMNS[1:] and len(frame) == 122 * 3
    parts = pl.read_database(BY_SEX, connection, iter_batches=True, batch_size=2)
    assert [len(part) for part in parts] == [2, 1]


def test_the_parameters_have_the_names_of_the_pep():
    assert list(inspect.signature(dbapi.Cursor.execute).parameters)[1:] == [
        "operation",
        "parameters",
    ]
    assert next(iter(inspect.signature(dbapi.connect).parameters)) == "contract"
