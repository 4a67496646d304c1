"""Every key of a contract file, once: what it means and how it is written.

The reader's check for unknown keys, the comments of a drafted contract and the documentation
(``docs/contract.md``) all follow this table.  ``NAME`` stands for a column's name, ``[]`` for a list of
tables.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its dotted ``path``, one line of ``meaning``, and an ``example`` as it is written under
    its table's header."""

    path: str
    meaning: str
    example: str

    @property
    def family(self) -> str:
        """The table the key belongs to (empty for the top of the file)."""
        return self.path.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        return self.path.rpartition(".")[2]


KEYS: Final = (
    Key("version", "the version of this file format; always 1", "version = 1"),
    Key("table", "the name the table has in SQL, after FROM", 'table = "people"'),
    Key("rho", "the whole privacy budget in zCDP; or give epsilon and delta", "rho = 0.5"),
    Key("epsilon", "the whole budget as epsilon; needs delta, excludes rho", "epsilon = 5"),
    Key("delta", "the delta that goes with epsilon, between 0 and 1", "delta = 1e-6"),
    Key("xi", "the share of rho kept for diagnostics: of relative targets, and of weights", "xi = 0.1"),
    Key("horizon", "how many paid questions are expected", "horizon = 1000"),
    Key("support", "how past answers count for new questions: linear or exact", 'support = "linear"'),
    Key("gate", "how a scarce budget is shared out: refuse, greedy, paper, fluid, dual, steady, satisfy, "
        "modest or generous", 'gate = "steady"'),
    Key("forecast", "the prices in rho of typical questions, where some are known beforehand",
        "forecast = [0.01, 0.002]"),
    Key("m_floor", "a relative target is meant of at least this count", "m_floor = 100"),
    Key("n_max", "a public upper bound on the number of rows", "n_max = 1000000"),
    Key("charge_by", "columns whose cells are charged apart, however large the domain",
        'charge_by = ["site"]'),
    Key("surplus", "what an analyst's savings may be used for: none, partial or allornothing",
        'surplus = "allornothing"'),
    Key("sharing", "whether who reuses what others paid for pays them a part of it: none or shapley",
        'sharing = "shapley"'),
    Key("weights.alpha", "how sharply difficult questions are preferred; 0: not at all", "alpha = 1"),
    Key("weights.beta", "how much an answer that moved adds to the difficulty", "beta = 1"),
    Key("weights.g", "how the magnitude lowers the difficulty: identity, sqrt or log",
        'g = "identity"'),
    Key("unit.column", "whose presence is protected: all rows with one value here",
        'column = "person_id"'),
    Key("unit.max_rows", "how many rows of one unit are kept", "max_rows = 5"),
    Key("unit.row_key", "columns that tell a unit's rows apart, for a stable choice of those kept",
        'row_key = ["visit_id"]'),
    Key("source.kind", "where the rows are: csv, parquet, duckdb, postgresql or spark",
        'kind = "parquet"'),
    Key("source.path", "the file, or a glob; relative to the contract file",
        'path = "people/*.parquet"'),
    Key("source.table", "the table or view inside a database; for files, the name in SQL",
        'table = "people"'),
    Key("source.dsn", "the database of a postgresql source; without a password",
        'dsn = "postgresql://defray@db.example/people"'),
    Key("source.data_version", "a label that you change whenever the rows change",
        'data_version = "2024-06"'),
    Key("source.cube", "keep the exact cells once they were counted, for a small domain: memory or disk",
        'cube = "memory"'),
    Key("source.csv.header", "whether the first line holds the column names", "header = true"),
    Key("source.csv.delimiter", "the character between fields", 'delimiter = ";"'),
    Key("source.csv.quote", "the character around fields; empty for none", "quote = '\"'"),
    Key("source.csv.escape", "the character before a quote inside a field", "escape = '\"'"),
    Key("source.csv.null", "the texts that mean NULL", 'null = ["", "?", "NA"]'),
    Key("source.csv.encoding", "utf-8, utf-16 or latin-1", 'encoding = "utf-8"'),
    Key("source.csv.columns", "the column names, where the file has no header",
        'columns = ["age", "sex"]'),
    Key("source.spark.master", "where Spark runs; any other option of Spark's goes here too",
        'master = "local[4]"'),
    Key("ledger.kind", "where the transcript is kept: sqlite or postgresql", 'kind = "sqlite"'),
    Key("ledger.path", "the ledger's file, relative to the contract file", 'path = "people.ledger"'),
    Key("ledger.witness", "the file that knows the ledger's newest entry",
        'witness = "/var/lib/defray/people.witness"'),
    Key("ledger.dsn", "the database of a postgresql ledger; without a password",
        'dsn = "postgresql://defray@db.example/ledgers"'),
    Key("ledger.schema", "the schema of that database that holds this contract's ledger",
        'schema = "people"'),
    Key("columns.NAME.type", "integer, float, decimal, string, boolean, date or timestamp",
        'type = "integer"'),
    Key("columns.NAME.values", "the domain as a list", 'values = ["female", "male"]'),
    Key("columns.NAME.min", "the smallest value of the domain", "min = 0"),
    Key("columns.NAME.max", "the largest value of the domain, included", "max = 120"),
    Key("columns.NAME.step", "the width of the cells of a numeric or time domain", "step = 5"),
    Key("columns.NAME.bins", "or how many equal cells it has", "bins = 20"),
    Key("columns.NAME.edges", "or the edges of its cells, ascending", "edges = [0, 10, 100]"),
    Key("columns.NAME.null", "NULL is a cell of its own, or its rows are left out: cell or drop",
        'null = "cell"'),
    Key("columns.NAME.other",
        "values outside the domain count as NULL, get a cell, are clamped, or their rows left out",
        'other = "null"'),
    Key("columns.NAME.bounds", "every summed value is clamped to these; needed for SUM and AVG",
        "bounds = [0, 120]"),
    Key("columns.NAME.unit_step", "summed values are rounded to multiples of this", "unit_step = 1"),
    Key("promise[].columns", "the columns of the counts that are never refused", 'columns = ["age"]'),
    Key("promise[].kind", "what of each column they may ask for: ranges, subsets or cells",
        'kind = "ranges"'),
    Key("promise[].within", "the error that is promised, in rows", "within = 50"),
    Key("promise[].confidence", "the confidence of that error", 'confidence = "95%"'),
)  # fmt: skip

_BY_PATH: Final = {key.path: key for key in KEYS}


def key_at(path: str) -> Key:
    return _BY_PATH[path]


def names_in(family: str) -> tuple[str, ...]:
    """What may be written directly under a table: its keys and its sub-tables.

    >>> names_in("unit")
    ('column', 'max_rows', 'row_key')
    >>> "csv" in names_in("source"), "columns" in names_in("")
    (True, True)
    """
    prefix = f"{family}." if family else ""
    after = (k.path.removeprefix(prefix) for k in KEYS if k.path.startswith(prefix))
    return tuple(dict.fromkeys(rest.partition(".")[0].removesuffix("[]") for rest in after))


def header_of(family: str) -> str:
    """How a table is called in messages."""
    return f"[{family}]" if family else "the top of the file, above the first [table]"


def cure_for_unknown(family: str, name: str) -> str:
    """What was probably meant by a key that does not exist here: the same key spelled right, or the
    table in which it exists, or the list of keys."""
    here = names_in(family)
    if name.casefold() in here:
        return f"write it in lower case: {name.casefold()}"
    elsewhere = [k.family for k in KEYS if k.leaf == name]
    if elsewhere:
        return f"{name} belongs in {' or '.join(header_of(f) for f in elsewhere)}"
    close = difflib.get_close_matches(name.casefold(), here, 1, 0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"{header_of(family)} knows: {', '.join(here)}"
