"""Every kind of mistake, with its line, key and cure; all of them at once; and nothing but
ContractError whatever the file holds."""

import os
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from defray.config.bounds import default_unit_step
from defray.config.reader import parse_contract, read_contract
from defray.core.contract import LedgerSpec, SourceSpec, Unit
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.core.zcdp import epsilon_for, rho_for
from defray.errors import ContractError

TOP = {"version": "1", "rho": "0.5", "unit": '"row"'}
SOURCE = {"kind": '"csv"', "path": '"people.csv"'}
AGE = {"type": '"integer"', "min": "0", "max": "120"}


def table(keys):
    return "".join(f"{key} = {value}\n" for key, value in keys.items())


def contract_text(top=None, source=None, age=None, extra="", **more):
    """A valid contract with some keys changed (None takes a key out)."""

    def changed(base, changes):
        merged = {**base, **(changes or {})}
        return table({key: value for key, value in merged.items() if value is not None})

    text = changed(TOP, {**(top or {}), **more})
    text += "[source]\n" + changed(SOURCE, source)
    return text + "[columns.age]\n" + changed(AGE, age) + extra


def parse(text, name="people.toml"):
    return parse_contract(text, Path(name))


def problems(text):
    with pytest.raises(ContractError) as caught:
        parse(text)
    return caught.value.problems


def only(text):
    (problem,) = problems(text)
    assert problem.cure
    assert problem.line is not None
    return problem


def column(lines, name="x"):
    """The column of a contract with these lines under [columns.x]."""
    return parse(contract_text(extra=f"[columns.{name}]\n{lines}\n")).domain[name]


def column_problem(lines):
    return only(contract_text(extra=f"[columns.x]\n{lines}\n"))


# -- what is right ----------------------------------------------------------------------------------


def test_the_least_contract():
    contract = parse(contract_text())
    assert contract.table == "people"
    assert contract.rho == Fraction(1, 2)
    assert contract.unit == Unit()
    assert contract.source == SourceSpec("csv", "people.csv")
    assert contract.ledger == LedgerSpec("sqlite", "people.ledger")
    assert contract.domain["age"].shape == Whole(0, 120)
    assert contract.xi == 0
    assert contract.directory == Path.cwd()


def test_a_full_contract():
    text = """
    version = 1
    table = "visits"
    epsilon = 3
    delta = 1e-6
    xi = 0.1
    horizon = 1e3
    support = "exact"
    gate = "greedy"
    m_floor = 10
    n_max = 1_000_000
    unit = {column = "zper", max_rows = 5, row_key = "visit"}
    source = {kind = "duckdb", path = "db/x.duckdb", table = "s.visits", data_version = "v2"}
    ledger.path = "v.ledger"
    [columns]
    a = {type = "float", min = -1.5, max = 1.5, bins = 3, null = "drop", other = "cell"}
    b = {type = "float", bounds = [0, 0.5]}
    c = {type = "decimal", edges = [0, 0.1, 100], other = "clamp"}
    d = {type = "date", min = 2020-01-01, max = "2020-12-31", other = "clamp"}
    e = {type = "timestamp", min = 1970-01-01, max = "1970-01-02T00:00:00Z", step = "15 minutes"}
    f = {type = "boolean"}
    "g h" = {type = "integer", values = [3, 1, 2], bounds = [-5, 5], unit_step = 5}
    i = {type = "string", values = ["", "é", "O'Neil"]}
    j = {type = "decimal", values = [0.1, "1/3"]}
    k = {type = "float", min = 0, max = 1, step = 0.1}
    """
    contract = parse(text, "deep/visits.toml")
    assert contract.rho == rho_for(Fraction(3), Fraction(1, 10**6))
    assert (contract.epsilon, contract.delta) == (3.0, 1e-6)
    assert epsilon_for(contract.rho, 1e-6) <= 3
    assert (contract.horizon, contract.n_max, contract.m_floor) == (1000, 10**6, 10)
    assert contract.unit == Unit("zper", 5, ("visit",))
    assert contract.source == SourceSpec("duckdb", "db/x.duckdb", "s.visits", None, "v2")
    assert contract.ledger.path == "v.ledger"
    assert contract.directory == Path.cwd() / "deep"
    shapes = {c.name: c.shape for c in contract.domain.columns}
    assert list(shapes) == ["a", "b", "c", "d", "e", "f", "g h", "i", "j", "k"]
    assert shapes["a"] == Grid(Fraction(-3, 2), Fraction(1), 3)
    assert shapes["b"] == Anything()
    assert shapes["c"] == Cuts((Fraction(0), Fraction(1, 10), Fraction(100)))
    assert shapes["d"] == Whole(18262, 18627)
    assert shapes["e"] == Grid(Fraction(0), Fraction(15 * 60 * 10**6), 96)
    assert shapes["f"] == Values((False, True))
    assert shapes["g h"] == Values((Fraction(3), Fraction(1), Fraction(2)))
    assert shapes["j"] == Values((Fraction(1, 10), Fraction(1, 3)))
    assert shapes["k"] == Grid(Fraction(0), Fraction(1, 10), 10)
    assert contract.domain["a"].null_atom is None
    assert contract.domain["b"].unit_step == Fraction(1, 10**7)
    assert contract.domain["g h"].low_units == -1


def test_csv_options_come_as_plain_values():
    options = """[source.csv]
    header = false
    columns = ["age", "a b"]
    delimiter = "\\t"
    quote = ""
    null = "?"
    encoding = "latin-1"
    """
    assert parse(contract_text(extra=options)).source.options == {
        "header": False,
        "columns": ["age", "a b"],
        "delimiter": "\t",
        "quote": "",
        "null": ["?"],
        "encoding": "latin-1",
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("people.csv", "people"),
        ("2024 people.csv.gz", "t_2024_people"),
        ("data/visits/*.parquet", "visits"),
        ("data/part-[0-9]*.parquet", "part"),
        ("/*.csv", "data"),
        ("été.csv", "été"),
    ],
)
def test_the_default_table_name(path, name):
    assert parse(contract_text(source={"path": f'"{path}"'})).table == name


def test_a_seventh_is_exact_and_names_may_differ_by_case():
    text = contract_text(rho='"1/7"', extra='[columns.Age]\ntype = "boolean"\n')
    contract = parse(text)
    assert contract.rho == Fraction(1, 7)
    assert contract.domain.names == ("Age", "age")


def test_the_order_of_a_file_does_not_matter():
    extra = '[columns.B]\ntype = "boolean"\n'
    a = parse(contract_text(extra=extra))
    b = parse(contract_text().replace("[columns.age]", extra + "[columns.age]"))
    assert a.domain == b.domain


def test_the_default_unit_step():
    assert default_unit_step(Fraction(0), Fraction(1)) == Fraction(1, 10**6)
    assert default_unit_step(Fraction(0), Fraction(10**9)) == 1000
    assert default_unit_step(Fraction(1), Fraction(10**9)) == 1
    assert default_unit_step(Fraction(-1, 8), Fraction(1, 8)) == Fraction(1, 10**7)
    assert default_unit_step(Fraction(1, 3), Fraction(2, 3)) is None


# -- budgets -----------------------------------------------------------------------------------------

NO_BUDGETS = ["-1", "0", "0.0", "nan", "-nan", "inf", "-inf", "1e400", "1e401", "1e-400", "true",
              "false", '"much"', '""', '"1/0"', "[]", "{}", "2020-01-01", '"nan"', '"1/7/9"',
              "1e10", "1e-19", "1" + "0" * 200]  # fmt: skip


@pytest.mark.parametrize("value", NO_BUDGETS)
@pytest.mark.parametrize("key", ["rho", "epsilon", "delta"])
def test_a_bad_budget_is_refused_with_its_field(key, value):
    if key == "rho":
        text = contract_text(rho=value)
    elif key == "epsilon":
        text = contract_text(rho=None, epsilon=value, delta="1e-6")
    else:
        text = contract_text(rho=None, epsilon="1", delta=value)
    if key != "rho" and value == "1e-19":  # small, but with its partner a budget
        assert parse(text).rho > 0
        return
    problem = only(text)
    assert problem.key == key
    if value != "{}":
        assert problem.message.split(" ")[0].casefold() in text.casefold()


@pytest.mark.parametrize("value", ["1e999999999999999999999999", "9" * 5000])
def test_numbers_beyond_any_type_are_one_mistake(value):
    problem = only(contract_text(rho=value))
    assert problem.line == 2


@pytest.mark.parametrize("key", ["m_floor", "n_max", "horizon"])
@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf", "true", '"x"', "[1]", "1e400"])
def test_other_sizes_must_be_above_zero(key, value):
    assert only(contract_text(**{key: value})).key == key


@pytest.mark.parametrize("value", ["1", "-0.1", "nan", "2"])
def test_xi_is_a_share(value):
    assert only(contract_text(xi=value)).key == "xi"


# -- one mistake at a time -----------------------------------------------------------------------------

TOP_MISTAKES = [
    ({"version": None}, 1, "version", "version is missing", "version = 1"),
    ({"version": "2"}, 1, "version", "2 is not a version", "version = 1"),
    ({"version": "true"}, 1, "version", "true is not a number", "version = 1"),
    ({"rho": None}, 1, "rho", "budget is missing", "rho = 0.5, or epsilon"),
    ({"epsilon": "1"}, 2, "rho", "rho = 0.5 and epsilon = 1 are both", "keep rho"),
    ({"delta": "1e-6"}, 2, "rho", "rho = 0.5 and delta = 0.000001 are both", "keep rho"),
    ({"rho": None, "epsilon": "1"}, 1, "delta", "next to epsilon = 1", "add delta"),
    ({"rho": None, "delta": "1e-6"}, 1, "epsilon", "next to delta", "add epsilon"),
    ({"rho": None, "epsilon": "1", "delta": "1"}, 4, "delta", "1 is not between", "delta = 1e-6"),
    ({"rhoo": "1"}, 4, "rhoo", "no key rhoo", "did you mean rho?"),
    ({"max_rows": "1"}, 4, "max_rows", "no key", "max_rows belongs in [unit]"),
    ({"support": '"exakt"'}, 4, "support", "no support", '"exact"'),
    ({"support": "3"}, 4, "support", "3 is no support", "exact"),
    ({"gate": '"dual"'}, 4, "gate", 'gate = "dual" needs a horizon', "horizon = 1000"),
    ({"gate": '"duel"'}, 4, "gate", 'there is no gate "duel"', 'did you mean "dual"'),
    ({"gate": "7"}, 4, "gate", "7 is no gate that Defray knows", "refuse, greedy"),
    ({"forecast": "[0.1]"}, 4, "forecast", "makes no use of a forecast", "remove forecast"),
    ({"gate": '"dual"', "horizon": "9", "forecast": "0.1"}, 6, "forecast", "is not a list of 1 to 1000",
     "forecast = [0.01"),
    ({"gate": '"dual"', "horizon": "9", "forecast": "[0.1, -1]"}, 6, "forecast", "-1 is no price",
     "forecast ="),
    ({"weights": "{alpha = 2}"}, 4, "weights", "gives every question the same weight", "dual"),
    ({"gate": '"paper"', "weights": "{alpha = 2}"}, 5, "weights", "xi is 0", "xi = 0.05"),
    ({"gate": '"paper"', "xi": "0.1", "weights": "{alpha = 11}"}, 6, "weights.alpha", "11 is not",
     "alpha = 1"),
    ({"gate": '"paper"', "xi": "0.1", "weights": '{g = "cube"}'}, 6, "weights.g", "no g", "sqrt"),
    ({"charge_by": "3"}, 4, "charge_by", "3 is not a list of names", "charge_by ="),
    ({"charge_by": '["who"]'}, 4, "charge_by", 'no column "who"', "the columns are"),
    ({"sharing": '"shapley"'}, 4, "sharing", "cannot tell whose part", 'support = "exact"'),
    ({"sharing": '"all"'}, 4, "sharing", '"all"', "none"),
    ({"charge_by": '["age"]', "support": '"exact"'}, 4, "charge_by", "charges no cells", "remove"),
    ({"promise": "3"}, 4, "promise", "3 is not a list of tables", "[[promise]]"),
    ({"table": '""'}, 4, "table", "empty", "table ="),
    ({"table": '"a\\nb"'}, 4, "table", "control", "table ="),
    ({"table": "7"}, 4, "table", "7 is not a string", "table ="),
    ({"unit": '"person"'}, 3, "unit", '"person" is no privacy unit', "[unit]"),
    ({"unit": "3"}, 3, "unit", "3 is not a table", "[unit]"),
    ({"unit": "{}"}, 3, "unit.column", "missing", "column ="),
    ({"unit": "{max_rows = 2}"}, 3, "unit.column", "missing", "column ="),
    ({"unit": '{column = "p"}'}, 3, "unit.max_rows", "missing", "max_rows = 5"),
    ({"unit": '{column = "p", max_rows = 0}'}, 3, "unit.max_rows", "0 is not", "max_rows = 5"),
    ({"unit": '{column = "p", max_rows = 1.5}'}, 3, "unit.max_rows", "1.5", "max_rows = 5"),
    ({"unit": '{column = "p", max_rows = 1000001}'}, 3, "unit.max_rows", "1000001", "max_rows"),
    ({"unit": '{column = "", max_rows = 1}'}, 3, "unit.column", "empty", "column ="),
    ({"unit": '{column = "p", max_row = 1, max_rows = 1}'}, 3, "unit.max_row", "no key", "max_rows"),
    ({"unit": '{column = "p", max_rows = 1, row_key = []}'}, 3, "unit.row_key", "list", "row_key"),
    ({"unit": '{column = "p", max_rows = 1, row_key = ["a", "a"]}'}, 3, "unit.row_key", "twice",
     "once"),
    ({"ledger": "3"}, 4, "ledger", "3 is not a table", "[ledger]"),
    ({"ledger": '{path = "people.csv"}'}, 4, "ledger.path", "is the data", "people.ledger"),
    ({"ledger": '{path = "people.toml"}'}, 4, "ledger.path", "is the contract", "people.ledger"),
    ({"ledger": '{kind = "postgres", dsn = "x"}'}, 4, "ledger.kind", "no kind", '"postgresql"'),
    ({"ledger": '{dsn = "x"}'}, 4, "ledger.dsn", "does not apply", "path"),
    ({"ledger": '{schema = "x"}'}, 4, "ledger.schema", "does not apply", "path"),
    ({"ledger": '{kind = "postgresql"}'}, 4, "ledger.schema", "missing", "schema ="),
    ({"ledger": '{kind = "postgresql", schema = "Upper"}'}, 4, "ledger.schema", "Upper", "lower"),
    ({"ledger": '{kind = "postgresql", schema = "pg_x"}'}, 4, "ledger.schema", "pg_x", "pg_"),
    ({"ledger": '{kind = "postgresql", schema = "x", path = "p"}'}, 4, "ledger.path", "apply",
     "remove"),
    ({"ledger": '{kind = "postgresql", schema = "x", witness = "people.toml"}'}, 4,
     "ledger.witness", "contract", "people.witness"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "line", "key", "message", "cure"), TOP_MISTAKES)
def test_a_mistake_at_the_top(changes, line, key, message, cure):
    problem = only(contract_text(**changes))
    assert (problem.line, problem.key) == (line, key)
    assert message in problem.message
    assert cure in problem.cure


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hunter2@db/x",
        "postgres://:hunter2@/x",
        "host=db password=hunter2",
        "postgresql://me:hunter2/x@db/x",
        "postgresql://me:hunter2@x@db/x",
        "dbname=postgresql://me:hunter2@db/x",
        "password = 'hunter2' host=db",
        "postgresql://db/x?password=hunter2",
        "postgresql://db/x?a=b&sslpassword=hunter2",
    ],
)
def test_a_password_in_a_contract_is_refused_and_not_repeated(dsn):
    text = contract_text(ledger=f'{{kind = "postgresql", schema = "x", dsn = "{dsn}"}}')
    problem = only(text)
    assert (problem.key, "PGPASSWORD" in problem.cure) == ("ledger.dsn", True)
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://me@db:5432/x", "host=db user=me", "postgresql:///x?host=/run", "service=x"],
)
def test_a_ledger_on_a_server(dsn):
    text = contract_text(ledger=f'{{kind = "postgresql", schema = "x", dsn = "{dsn}"}}')
    assert parse(text).ledger == LedgerSpec("postgresql", None, dsn, None, "x")


SOURCE_MISTAKES = [
    ({"kind": None}, "source.kind", "missing", 'kind = "csv"'),
    ({"kind": '"parket"'}, "source.kind", "no kind", '"parquet"'),
    ({"kind": '"excel"'}, "source.kind", "no kind", "csv, parquet, duckdb"),
    ({"kind": '"postgres"'}, "source.kind", "no kind", '"postgresql"'),
    ({"kind": '"postgresql"', "path": None, "data_version": '"1"'}, "source.table", "missing", "table ="),
    ({"kind": '"postgresql"', "path": None, "table": '"x"'}, "source.data_version", "missing", "change it"),
    ({"kind": '"postgresql"', "table": '"x"', "data_version": '"1"'}, "source.path", "apply", "remove"),
    ({"kind": '"postgresql"', "path": None, "table": '"a.b.c"', "data_version": '"1"'}, "source.table",
     "cannot be read", "double quotes"),
    ({"kind": '"postgresql"', "path": None, "table": '"x"', "data_version": '"1"', "csv": "{}"},
     "source.csv", "does not apply", "remove"),
    ({"kind": '"postgresql"', "path": None, "table": '"x"', "data_version": '"1"',
      "dsn": '"postgresql://me:hunter2@db/x"'}, "source.dsn", "password", "DEFRAY_SOURCE_DSN"),
    ({"path": None}, "source.path", "missing", "path ="),
    ({"path": '""'}, "source.path", "empty", "path ="),
    ({"path": "1"}, "source.path", "1 is not a string", "path ="),
    ({"kind": '"duckdb"'}, "source.table", "missing", "table ="),
    ({"dsn": '"x"'}, "source.dsn", "does not apply", "path"),
    ({"pth": '"x"'}, "source.pth", "no key", "path"),
    ({"data_version": "2"}, "source.data_version", "2 is not a string", "data_version ="),
    ({"csv": "3"}, "source.csv", "3 is not a table", "[source.csv]"),
    ({"kind": '"parquet"', "csv": "{}"}, "source.csv", "does not apply", "remove"),
    ({"csv": "{header = 1}"}, "source.csv.header", "1 is not true", "true or false"),
    ({"csv": "{header = false}"}, "source.csv.columns", "no names", "columns ="),
    ({"csv": '{columns = ["a"]}'}, "source.csv.columns", "has a header", "header = false"),
    ({"csv": '{header = false, columns = ["a", "a"]}'}, "source.csv.columns", "twice", "once"),
    ({"csv": '{header = false, columns = ["a", ""]}'}, "source.csv.columns", "not a name", "columns"),
    ({"csv": '{delimiter = "ab"}'}, "source.csv.delimiter", "one character", "delimiter"),
    ({"csv": '{delimiter = ""}'}, "source.csv.delimiter", "one character", "delimiter"),
    ({"csv": '{quote = "\\n"}'}, "source.csv.quote", "one character", "quote"),
    ({"csv": "{null = 3}"}, "source.csv.null", "3 is not a list", "null ="),
    ({"csv": "{null = [3]}"}, "source.csv.null", "[3] is not a list", "null ="),
    ({"csv": '{encoding = "utf8"}'}, "source.csv.encoding", "no encoding", '"utf-8"'),
    ({"csv": '{encoding = "ebcdic"}'}, "source.csv.encoding", "no encoding", "latin-1"),
    ({"csv": '{delimeter = ","}'}, "source.csv.delimeter", "no key", "delimiter"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key", "message", "cure"), SOURCE_MISTAKES)
def test_a_mistake_of_the_source(changes, key, message, cure):
    problem = only(contract_text(source=changes))
    assert problem.key == key
    assert problem.line >= 4
    assert message in problem.message
    assert cure in problem.cure


def test_a_table_on_a_server():
    changes = {"kind": '"postgresql"', "path": None, "table": '"Data.\\"My.Table\\""',
               "data_version": '"7"', "dsn": '"service=x"'}  # fmt: skip
    contract = parse(contract_text(source=changes))
    expected = SourceSpec("postgresql", None, 'Data."My.Table"', "service=x", "7")
    assert contract.source == expected


COLUMN_MISTAKES = [
    ("", "type", "type is missing", 'type = "integer"'),
    ("type = 3", "type", "3 is no type", "integer, float"),
    ('type = "varchar"', "type", '"varchar"', '"string"'),
    ('type = "intger"', "type", '"intger"', '"integer"'),
    ('type = "integer"', "", "no domain", "min = 0 and max = 120"),
    ('type = "float"', "", "no domain", "bounds"),
    ('type = "string"', "", "no domain", "values ="),
    ('type = "date"', "", "no domain", "min = 2020-01-01"),
    ('type = "integer"\nmin = 0', "max", "missing next to min", "add max"),
    ('type = "integer"\nmin = 9\nmax = 5', "min", "min = 9 and max = 5", "exchange"),
    ('type = "integer"\nmin = 0.5\nmax = 5', "min", "0.5 is not an integer", "float"),
    ('type = "integer"\nmin = 0\nmax = 9223372036854775808', "max", "64 bits", "float"),
    ('type = "integer"\nmin = 0\nmax = 4611686018427387904', "", "2**62", "smaller range"),
    ('type = "integer"\nmin = 0\nmax = nan', "max", "nan is not a finite number", "max = 120"),
    ('type = "integer"\nmin = 0\nmax = 5\nstep = 5', "step", "does not apply", "every integer"),
    ('type = "integer"\nedges = [1, 2]', "edges", "does not apply", "remove"),
    ('type = "integer"\nvalues = [1, 2]\nmin = 0', "values", "two domains", "keep values"),
    ('type = "integer"\nvalues = [1, 2.5]', "values", "2.5 is not an integer", "float"),
    ('type = "integer"\nvalues = [1, true]', "values", "true is not a number", "values"),
    ('type = "integer"\nvalues = [1, 1.0]', "values", "1.0 is listed twice", "once"),
    ('type = "integer"\nvalues = []', "values", "0 values", "list of 1 to 4096"),
    ('type = "integer"\nvalues = 3', "values", "3: not a list", "list of 1 to 4096"),
    ('type = "string"\nvalues = ["a", "a"]', "values", '"a" is listed twice', "once"),
    ('type = "string"\nvalues = ["a", 1]', "values", "1 is not a string", "quotes"),
    ('type = "string"\nmin = "a"\nmax = "b"', "", None, None),
    ('type = "boolean"\nvalues = ["true"]', "values", "is not a boolean", "without quotes"),
    ('type = "boolean"\nmin = 0', "min", "does not apply", "remove"),
    ('type = "float"\nmin = 0\nmax = 1', "step", "need step or bins", "step = 5, or bins"),
    ('type = "float"\nmin = 0\nmax = 1\nstep = 0.5\nbins = 2', "bins", "step = 0.5, bins = 2", "one"),
    ('type = "float"\nmin = 0\nmax = 1\nstep = 0.3', "step", "step = 0.3, min = 0, max = 1",
     "max = 0.9 or 1.2"),
    ('type = "float"\nmin = 0\nmax = 1\nstep = 0', "step", "0 is not above 0", "step = 5"),
    ('type = "float"\nmin = 0\nmax = 1\nbins = 0', "bins", "0 is not a whole number", "bins = 20"),
    ('type = "float"\nmin = 1\nmax = 1\nbins = 2', "max", "no range", "max above min"),
    ('type = "float"\nmin = 0\nmax = 1\nstep = 1e-20', "", "2**62", "coarser"),
    ('type = "float"\nmin = 0\nmax = 1e301\nbins = 2', "max", "out of range", "1e300"),
    ('type = "float"\nedges = [0]', "edges", "1 edges", "n + 1 edges"),
    ('type = "float"\nedges = [0, 2, 2]', "edges", "2, 2: the edges do not ascend", "sort"),
    ('type = "float"\nedges = [0, 5, 3]', "edges", "5, 3: the edges do not ascend", "sort"),
    ('type = "float"\nedges = [0, inf]', "edges", "inf is not a finite number", "edges"),
    ('type = "date"\nmin = 2020-01-01\nmax = 2019-01-01', "min", "2020-01-01 and max = 2019", "exch"),
    ('type = "date"\nmin = 3\nmax = 2019-01-01', "min", "3 is not a date", "2020-01-31"),
    ('type = "date"\nmin = "2020-13-01"\nmax = 2021-01-01', "min", "2020-13-01", "2020-01-31"),
    ('type = "date"\nmin = 10:00:00\nmax = 2021-01-01', "min", "10:00:00 is not", "2020-01-31"),
    ('type = "date"\nvalues = [2020-01-01]', "values", "does not apply", "min, max"),
    ('type = "timestamp"\nmin = 2020-01-01\nmax = 2021-01-01', "step", "missing", "1 hour"),
    ('type = "timestamp"\nmin = 2020-01-01\nmax = 2021-01-01\nstep = 5', "step", "5 is not a", "day"),
    ('type = "timestamp"\nmin = 2020-01-01\nmax = 2021-01-01\nstep = "1 month"', "step",
     "not a length of time", "group days by month"),
    ('type = "timestamp"\nmin = 2020-01-01\nmax = 2020-01-09\nstep = "1 week"', "step",
     "does not divide", "2020-01-08T00:00:00 or 2020-01-15T00:00:00"),
    ('type = "timestamp"\nmin = 0001-01-01T00:00:00+23:00\nmax = 2020-01-09\nstep = "1 day"', "min",
     "is not a date", "2020-01-31"),
    ('type = "string"\nvalues = ["a"]\nother = "clamp"', "other", "no nearest value", '"cell"'),
    ('type = "integer"\nvalues = [1]\nother = "clamp"', "other", "only a range", "min and max"),
    ('type = "float"\nbounds = [0, 1]\nother = "cell"', "other", "without a domain", "remove other"),
    ('type = "boolean"\nother = "NULL"', "other", '"NULL"', '"null"'),
    ('type = "boolean"\nnull = "keep"', "null", '"keep"', "cell, drop"),
    ('type = "boolean"\nnull = true', "null", "true is no null", "cell, drop"),
    ('type = "boolean"\nbounds = [0, 1]', "bounds", "does not apply", "remove"),
    ('type = "boolean"\nunit_step = 1', "unit_step", "does not apply", "remove"),
    ('type = "boolean"\nvals = [true]', "vals", "no key vals", "did you mean values?"),
    ('type = "float"\nbounds = [5, 5]', "bounds", "(5, 5) leave no range", "different"),
    ('type = "float"\nbounds = [9, 5]', "bounds", "(9, 5) are the wrong way round", "exchange"),
    ('type = "float"\nbounds = [0, 0]', "bounds", "(0, 0) leave no range", "different"),
    ('type = "float"\nbounds = [nan, 1]', "bounds", "(nan, 1): nan is not a finite", "bounds ="),
    ('type = "float"\nbounds = [-inf, 3]', "bounds", "(-inf, 3): -inf is not a", "bounds ="),
    ('type = "float"\nbounds = [true, 3]', "bounds", "(true, 3): true is not a", "bounds ="),
    ('type = "float"\nbounds = [1]', "bounds", "[1] is not a pair", "bounds ="),
    ('type = "float"\nbounds = 1', "bounds", "1 is not a pair", "bounds ="),
    ('type = "float"\nbounds = [0, "1/3"]', "bounds", "no whole multiples", 'unit_step = "1/3"'),
    ('type = "float"\nbounds = [0, 1]\nunit_step = 0.3', "unit_step", "(0, 1) are no whole multiples"
     " of unit_step = 0.3", 'unit_step = "1"'),
    ('type = "integer"\nmin = 0\nmax = 9\nbounds = [0.5, 1]', "bounds", "unit_step = 1", '"0.5"'),
    ('type = "float"\nbounds = [0, 1]\nunit_step = 0', "unit_step", "0 is not above 0", "unit_step"),
    ('type = "float"\nbounds = [0, 1]\nunit_step = 1e-19', "bounds", "2**40", "larger unit_step"),
    ('type = "float"\nbounds = [-1e31, 1e31]\nunit_step = 1e20', "bounds", "beyond 1e30", "larger units"),
    ('type = "float"\nbounds = [0, 1e-30]\nunit_step = 1e-36', "unit_step", "below 1e-30", "smaller units"),
    ('type = "boolean"\nunit_step = nan', "unit_step", "does not apply", "remove"),
    ('type = "float"\nmin = 0\nmax = 1\nbins = 2\nunit_step = 1', "unit_step", "needs bounds", "add"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "key", "message", "cure"), COLUMN_MISTAKES)
def test_a_mistake_of_a_column(lines, key, message, cure):
    if message is None:  # min and max of a string: one mistake each
        found = problems(contract_text(extra=f"[columns.x]\n{lines}\n"))
        assert [p.key for p in found] == ["columns.x.min", "columns.x.max"]
        return
    problem = column_problem(lines)
    assert problem.key == (f"columns.x.{key}" if key else "columns.x")
    assert message in problem.message
    assert cure in problem.cure
    at = [i for i, line in enumerate(lines.split("\n")) if line.partition(" ")[0] == key]
    assert problem.line == 12 + (at[0] if at else -1)


def test_bounds_too_many_units_from_zero_need_a_larger_step():
    extra = '[columns.x]\ntype = "integer"\nbounds = [0, 1000000000000000000]\n'
    problem = only(contract_text(extra=extra))
    assert problem.key == "columns.x.bounds"
    assert "2**40 units" in problem.message
    assert parse(contract_text(extra=extra + "unit_step = 1000000000\n"))


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("columns = 3\n", "columns", 4),
        ("columns = {}\n", "columns", 4),
        ("columns.x = 3\n", "columns.x", 4),
        ('columns."" = {type = "boolean"}\n', 'columns.""', 4),
        ('columns."a\\u0000" = {type = "boolean"}\n', 'columns."a\\u0000"', 4),
        ("source = []\n", "source", 4),
        ("[[unit]]\n", "unit", 5),
    ],
)
def test_tables_that_are_none(text, key, line):
    parts = {**TOP}
    source, columns = "[source]\n" + table(SOURCE), "[columns.age]\n" + table(AGE)
    if key == "unit":
        del parts["unit"]
        source, text = "", f"source = {{kind = 'csv', path = 'x'}}\n\n{text}"
    elif key == "source":
        source = ""
    if key.startswith("columns"):
        columns = ""
    problem = only(table(parts) + text + source + columns)
    assert (problem.key, problem.line) == (key, line)


def test_no_columns_and_no_source():
    assert [p.key for p in problems(table(TOP))] == ["source", "columns"]


def test_an_empty_file_lists_everything_that_is_needed():
    found = problems("")
    assert [p.key for p in found] == ["version", "rho", "source", "columns"]
    assert all(p.line == 1 for p in found)


# -- all at once -------------------------------------------------------------------------------------


def test_fifteen_mistakes_are_fifteen_problems_in_file_order():
    text = """\
version = 3
table = ""
rho = -1
xi = 1
suport = "exact"
gate = "fluid"
n_max = 0

[unit]
column = "p"
max_rows = 0

[source]
kind = "cvs"
path = ""

[columns."my age"]
type = "integer"
min = 9
max = 5
bounds = [5, 5]

[columns.sex]
type = "string"
values = ["f",
          "m",
          "f"]

[columns.z]
type = "float"
min = 0
max = 1
step = 0.3
"""
    with pytest.raises(ContractError) as caught:
        parse(text)
    error = caught.value
    expected = [
        (1, "version"), (2, "table"), (3, "rho"), (4, "xi"), (5, "suport"), (6, "gate"),
        (7, "n_max"), (11, "unit.max_rows"), (14, "source.kind"), (15, "source.path"),
        (19, 'columns."my age".min'), (21, 'columns."my age".bounds'), (27, "columns.sex.values"),
        (33, "columns.z.step"),
    ]  # fmt: skip
    expected.insert(14, (34, "columns.z.oter"))
    with pytest.raises(ContractError) as caught:
        parse(text + 'oter = "cell"\n')
    error = caught.value
    assert [(p.line, p.key) for p in error.problems] == expected
    assert len(expected) == 15
    assert all(p.message and p.cure for p in error.problems)
    assert "has 15 mistakes" in str(error)
    assert len(error.to_dict()["problems"]) == 15


# -- the file itself -----------------------------------------------------------------------------------


def file_problem(path):
    with pytest.raises(ContractError) as caught:
        read_contract(path)
    (problem,) = caught.value.problems
    assert problem.cure
    return problem


def test_files_that_cannot_be_read(tmp_path):
    assert "no such file" in file_problem(tmp_path / "none.toml").message
    assert "directory" in file_problem(tmp_path).message
    assert "name of a file" in file_problem(Path("a\0b")).message
    assert "no such file" in file_problem(Path("") / "none.toml").message
    path = tmp_path / "c.toml"
    path.write_bytes(b"version = 1\n# caf\xe9\n")
    assert (file_problem(path).line, "UTF-8" in file_problem(path).message) == (2, True)
    path.write_bytes(b"#" * (5 * 2**20))
    assert "larger than 4 MiB" in file_problem(path).message
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "regular" in file_problem(fifo).message
    if os.geteuid() != 0:
        path.chmod(0)
        assert "cannot be read" in file_problem(path).message


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    path = tmp_path / "people.toml"
    path.write_bytes(b"\xef\xbb\xbf" + contract_text().replace("\n", "\r\n").encode())
    contract = read_contract(path)
    assert (contract.path, contract.directory) == (path, tmp_path)
    path.write_bytes(contract_text(age={"min": "200"}).replace("\n", "\r\n").encode())
    assert file_problem(path).line == 9


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("version = 1\nrho = \n", 2, "Invalid value"),
        ("version = 1\nrho = .5\n", 2, "Invalid value"),
        ("version = 1\nversion = 1\n", 2, "Cannot overwrite"),
        ("[a]\n[a]\n", 2, "Cannot declare"),
        ("rho 1\n", 1, "Expected '='"),
        ("a = 1\n\n= 2\n", 3, "Invalid statement"),
        ('a = "x\n', 1, "Illegal character"),
        ("a = [1,\n2\n", 2, "Unclosed array"),
        ('a = """\n\n', 1, ""),
        ("a = 2020-02-30\n", 1, ""),
        ("a = 1 b = 2\n", 1, "Expected newline"),
        ("a = " + "[" * 5000, None, "nested too deeply"),
    ],
)
def test_a_syntax_error_is_one_problem_with_its_line(text, line, message):
    with pytest.raises(ContractError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.cure
    assert problem.line == line


def test_deep_nesting_that_toml_allows_is_a_mistake_like_another():
    for depth in range(50, 1000, 50):
        assert problems(contract_text(rho="[" * depth + "]" * depth))


# -- anything at all ------------------------------------------------------------------------------------

LINES = (
    contract_text(
        xi="0.1", n_max="1000", m_floor="3",
        source={"csv": '{delimiter = ",", null = ["?"]}'},
        age={"bounds": "[0, 120]", "other": '"clamp"'},
        extra='[columns.t]\ntype = "timestamp"\nmin = 2020-01-01\nmax = 2021-01-01\n'
        'step = "1 day"\n[columns.s]\ntype = "string"\nvalues = ["a", "b"]\n'
        '[columns.f]\ntype = "float"\nmin = 0\nmax = 1\nbins = 4\nbounds = [0, 1]\n'
        '[columns.g]\ntype = "decimal"\nedges = [0, 1, 2]\n',
    ).splitlines()
)  # fmt: skip
STRANGE = st.sampled_from(
    ["-1", "0", "nan", "inf", "1e400", "true", '"x"', "[]", "{}", "2020-01-01", "[[1]]", "[nan, 1]",
     '["a", 1]', "{a = {b = 1}}", '""', "12:00:00", "1979-05-27T07:32:00-23:59", '"1/0"', "1e-300",
     "[1, 2]", "9223372036854775808", "1e300", '"integer"', '"float"', '"date"', '"timestamp"',
     '"string"', '"boolean"', '"decimal"', '"clamp"', '"cell"', '"duckdb"', '"1 week"', "["]
)  # fmt: skip


def survives(text):
    """Read the text: a contract, or a ContractError with complete problems in file order."""
    contract, found = None, ()
    try:
        contract = parse(text)
    except ContractError as error:
        found = error.problems
    if contract is None:
        lines = [p.line or 0 for p in found]
        assert lines == sorted(lines)
        assert 0 <= max(lines) <= text.count("\n") + 1
        assert all(p.key and p.message and p.cure for p in found)
        return None
    for column in contract.domain.columns:
        assert 1 <= column.width <= 2**62
        if column.bounds is not None:
            assert column.low_units < column.high_units
        assert type(column).from_json(column.to_json()) == column
    return contract


def test_the_contract_to_corrupt_is_valid():
    assert survives("\n".join(LINES)) is not None


@example({6: '""'})
@given(
    st.dictionaries(
        st.integers(0, len(LINES) - 1),
        st.one_of(STRANGE, st.just("drop"), st.just("rename"), st.just("header")),
        max_size=8,
    )
)
def test_no_corruption_raises_anything_else(changes):
    lines = list(LINES)
    for i, change in changes.items():
        key, equals, _ = lines[i].partition(" = ")
        if change == "drop":
            lines[i] = ""
        elif change == "rename":
            lines[i] = "x" + lines[i]
        elif change == "header":
            lines[i] = "[unit]"
        else:
            lines[i] = f"{key} = {change}" if equals else f"{change} = 1"
    contract = survives("\n".join(lines))
    if not changes:
        assert contract is not None


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_no_text_raises_anything_else(text):
    survives(text)


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("c") / "c.toml"
    path.write_bytes(raw)
    with pytest.raises(ContractError):
        read_contract(path)


PROMISE = {"columns": '["age"]', "kind": '"ranges"', "within": "50"}
SEX = '[columns.sex]\ntype = "string"\nvalues = ["f", "m"]\n'


def promising(extra=SEX, top=None, **changes):
    keys = {key: value for key, value in {**PROMISE, **changes}.items() if value is not None}
    return contract_text(top, extra=extra + "[[promise]]\n" + table(keys))


def test_promises_are_read():
    (one,) = parse(promising()).promises
    assert (one.columns, one.kinds, one.within) == (("age",), ("ranges",), 50)
    assert one.confidence == Fraction(95, 100)
    changes = {"columns": '["sex", "age"]', "kind": '["subsets", "ranges"]', "confidence": '"99%"'}
    (two,) = parse(promising(within="5", **changes)).promises
    assert (two.columns, two.kinds) == (("age", "sex"), ("ranges", "subsets"))
    assert two.confidence == Fraction(99, 100)
    assert str(two) == "ranges of age x subsets of sex"
    assert parse(contract_text()).promises == ()


@pytest.mark.parametrize(
    ("changes", "key", "message", "cure"),
    [
        ({"columns": None}, "columns", "missing", "columns ="),
        ({"kind": None}, "kind", "missing", "kind ="),
        ({"within": None}, "within", "missing", "within = 50"),
        ({"within": "0"}, "within", "0 is not above 0", "within = 50"),
        ({"within": '"2%"'}, "within", "is not a number", "within = 50"),
        ({"columns": '["Age"]'}, "columns", "there is no column Age", "age, sex"),
        ({"columns": '["age", "age"]', "kind": '"cells"'}, "columns", "listed twice", "once"),
        ({"kind": '"range"'}, "kind", '"range" is not a kind', '"ranges"'),
        ({"kind": '["ranges", "cells"]'}, "kind", "2 kinds for 1 columns", "without brackets"),
        ({"columns": '["sex"]'}, "kind", "sex has no ranges", "subsets"),
        ({"confidence": "1.5"}, "confidence", "between 1% and 100%", "95%"),
        ({"confidence": '"10%"'}, "confidence", "too little", "25%"),
        ({"share": "1"}, "share", "no key share", "[promise[]] knows: columns, kind"),
        ({"top": {"support": '"exact"'}}, "promise", "overlapping", "linear"),
    ],
)
def test_a_mistake_of_a_promise(changes, key, message, cure):
    problem = only(promising(**changes))
    assert problem.key == f"promise.{key}" if key != "promise" else "promise"
    assert message in problem.message
    assert cure in problem.cure


def test_a_promise_of_too_many_cells():
    many = '[columns.id]\ntype = "integer"\nmin = 1\nmax = 20\n'
    problem = only(promising(extra=many, columns='["age", "id"]'))
    assert "122 x 21 = 2,562 cells" in problem.message
    assert "at most 1,024" in problem.cure


def test_columns_that_are_promised_twice():
    again = promising() + '[[promise]]\ncolumns = "age"\nkind = "cells"\nwithin = 5\n'
    problem = only(again)
    assert "age is promised twice" in problem.message


def test_reuse_is_shared_where_support_is_exact_unless_it_is_said_otherwise():
    assert parse(contract_text()).sharing == "none"
    assert parse(contract_text(support='"exact"')).sharing == "shapley"
    assert parse(contract_text(support='"exact"', sharing='"none"')).sharing == "none"
