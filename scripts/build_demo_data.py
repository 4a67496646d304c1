"""Rebuild the demo table from the copy of the data that the statsmodels package carries.

    python scripts/build_demo_data.py            # writes src/defray/example/randhie.parquet
    python scripts/build_demo_data.py --check    # compares instead; exit code 1 where they differ

Needs pyarrow and statsmodels (the `dev` extra). What each column means and how it is derived is
told in src/defray/example/PROVENANCE.md. The same input gives the same table; the bytes of the file
may differ between versions of pyarrow, so the comparison is of schema and content.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

TARGET = Path(__file__).parents[1] / "src" / "defray" / "example" / "randhie.parquet"


def source_path() -> Path:
    """The original CSV inside the installed statsmodels; the package is not imported for it."""
    spec = find_spec("statsmodels")
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "datasets" / "randhie" / "src" / "randhie.csv"
        if path.exists():
            return path
    raise FileNotFoundError("needs statsmodels 0.15 or newer: pip install -e '.[dev]'")


def build(source: Path | None = None) -> pa.Table:
    """The demo table: one row per person and study year, in the order of the source."""
    raw = pyarrow.csv.read_csv(source or source_path())

    def whole(name: str, kind: pa.DataType) -> pa.ChunkedArray:
        return raw[name].cast(kind)  # a cast that would lose a fraction raises

    def cents(name: str) -> pa.ChunkedArray:
        return pc.round(raw[name].cast(pa.float64()), 2).cast(pa.decimal128(9, 2))

    def is_one(name: str) -> pa.ChunkedArray:
        return pc.equal(raw[name], 1)

    plan = pc.case_when(
        pc.make_struct(
            is_one("idp"),
            pc.equal(raw["coins"], 0),
            pc.equal(raw["coins"], 25),
            pc.equal(raw["coins"], 50),
            pc.equal(raw["coins"], 95),
        ),
        *map(pa.scalar, ("deductible", "free", "25%", "50%", "95%")),
    )
    health = pc.case_when(
        pc.make_struct(is_one("hlthg"), is_one("hlthf"), is_one("hlthp")),
        *map(pa.scalar, ("good", "fair", "poor", "excellent")),
    )
    limited = pc.if_else(
        pc.is_in(raw["physlm"], value_set=pa.array([0.0, 1.0])), is_one("physlm"), None
    )
    columns = {
        "zper": whole("zper", pa.int32()),
        "year": whole("year", pa.int8()),
        "site": whole("site", pa.int8()),
        "plan": plan,
        "age": pc.floor(raw["xage"]).cast(pa.int8()),
        "sex": pc.if_else(is_one("female"), "female", "male"),
        "educdec": raw["educdec"].cast(pa.float64()),
        "income": pc.round(raw["income"], 0).cast(pa.int32()),
        "num": whole("num", pa.int8()),
        "health": health,
        "ghindx": raw["ghindx"],
        "mhi": pc.round(raw["mhi"], 1),
        "physlm": limited,
        "mdvis": whole("mdvis", pa.int16()),
        "totadm": whole("totadm", pa.int8()),
        "outpdol": cents("outpdol"),
        "meddol": cents("meddol"),
    }
    return pa.table(columns)


def write(table: pa.Table, target: Path = TARGET) -> None:
    """One Parquet file, compressed with zstd."""
    pq.write_table(table, target, compression="zstd", compression_level=19)


def main(arguments: list[str]) -> int:
    try:
        table = build()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments == ["--check"]:
        same = pq.read_table(TARGET).equals(table)
        print(f"{TARGET.name}: {'as rebuilt' if same else 'differs from what is rebuilt'}")
        return 0 if same else 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    write(table)
    print(f"{TARGET.name}: {table.num_rows} rows, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
