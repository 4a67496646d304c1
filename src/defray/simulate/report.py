"""The report of a comparison: one page, its figures as files, and every number.

A report is a directory::

    report.html           everything on one page, offline
    figure-NAME.svg/.png  each figure alone
    numbers-totals.csv    one row per policy and seed
    numbers-series.csv    one row per policy and place: the mean, and 10-90 % over seeds
    numbers-asks.csv      one row per policy and ask told
    numbers-NAME.csv      what else was given
    report.json           the settings, and which files are the report's

Numbers lie in one file a table, since a table with one kind of row opens anywhere as it is.  Floats are
written with all their digits.  Equal results give equal bytes: nothing holds a date.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from defray import charts
from defray.charts import Figure, shown
from defray.core.brief import brief
from defray.errors import BadInput, MissingExtra
from defray.simulate.figures import figures, schemes
from defray.simulate.results import Results

MANIFEST: Final = "report.json"
FORMAT: Final = "defray-report-1"
OURS: Final = re.compile(r"report\.html|(figure|numbers)-[a-z0-9-]+\.(svg|png|csv)")

Extra = Mapping[str, list[dict[str, Any]]]


def write_report(results: Results, directory: Path, *, extra: Extra | None = None) -> list[Path]:
    """Page, figures and numbers; the files that were written, the page first.

    ``extra`` holds more tables by name (``amortisation`` is drawn, see :mod:`defray.simulate.figures`).  The
    directory must be new, empty or an earlier report, which is replaced.  Without the ``plot`` extra the
    numbers are written, and :class:`MissingExtra` is raised.
    """
    directory = Path(directory)
    check_place(directory)
    numbers = _numbers(results, extra or {})
    try:
        drawn = _drawn(results, extra or {}, sorted(numbers))
    except MissingExtra as missing:
        _replace(directory, results, numbers)
        raise MissingExtra(
            f"{missing.message}  The numbers are in {directory}.", hint=missing.hint
        ) from missing
    return _replace(directory, results, {**drawn, **numbers})


def check_place(directory: Path) -> None:
    """Raises BadInput where no report may be written; nothing is changed."""
    _check(directory, set())


def write_numbers(results: Results, directory: Path, *, extra: Extra | None = None) -> list[Path]:
    """The numbers alone; needs nothing but the base install."""
    return _replace(Path(directory), results, _numbers(results, extra or {}))


# -- what is written ---------------------------------------------------------------------------------


def _drawn(results: Results, extra: Extra, tables: Sequence[str]) -> dict[str, bytes]:
    found = figures(results, extra)
    files = {"report.html": _page(results, found, tables).encode()}
    for figure in found:
        files[f"figure-{figure.name}.svg"] = charts.svg(figure).encode()
        files[f"figure-{figure.name}.png"] = charts.png(figure)
    return files


def _page(results: Results, found: Sequence[Figure], tables: Sequence[str]) -> str:
    names = schemes(results)
    asked = max((row["asked"] for row in results.totals), default=0)
    facts = [
        ("Workload", results.workload),
        ("Asks", f"{asked:,}"),
        ("Budget", f"{shown(results.rho)} rho"),
        ("For diagnostics (xi)", f"{shown(100 * results.xi)} %"),
        ("Horizon declared", "none" if results.horizon is None else f"{results.horizon:,} asks"),
        ("Seeds", f"{results.seeds:,}"),
        ("Policies", str(len(names))),
        *(("Note", note) for note in results.notes),
    ]
    notes = [
        "Rho is privacy budget under zero-concentrated differential privacy (zCDP). The offline optimum "
        "knows all asks in advance; no policy that meets them one by one can count on reaching it.",
        "Beside this page: each figure as figure-NAME.svg and .png, and every number with all its digits in "
        f"{', '.join(tables)}.",
    ]
    return charts.page(
        f"What a budget bought: {brief(results.workload, 60)}",
        facts,
        found,
        notes=notes,
        choose=("scheme", "Policies shown", names),
    )


def _numbers(results: Results, extra: Extra) -> dict[str, bytes]:
    tables = {"totals": results.totals, "series": results.series, "asks": results.asks}
    for name, rows in extra.items():
        if name in tables or not re.fullmatch(r"[a-z0-9-]+", name):
            raise BadInput(
                f"a table of a report cannot be called {brief(name)!r}",
                hint="lower case letters, digits and hyphens; not totals, series or asks",
            )
        tables[name] = rows
    return {f"numbers-{name}.csv": _csv(rows) for name, rows in tables.items() if rows}


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """With a head of every field, in the order in which they appear; nothing for None."""
    fields = list(dict.fromkeys(field for row in rows for field in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([[_cell(row.get(field)) for field in fields] for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> str:
    """
    >>> _cell(0.1 + 0.2), _cell(True), _cell(None), _cell(7)
    ('0.30000000000000004', 'true', '', '7')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return float.__repr__(value) if isinstance(value, float) else str(value)


def _manifest(results: Results, files: Sequence[str]) -> bytes:
    settings = {
        "format": FORMAT,
        "workload": results.workload,
        "rho": results.rho,
        "xi": results.xi,
        "horizon": results.horizon,
        "seeds": results.seeds,
        "notes": list(results.notes),
        "files": sorted(files),
    }
    return (json.dumps(settings, indent=2) + "\n").encode()


# -- where it is written -----------------------------------------------------------------------------


def _check(directory: Path, names: set[str]) -> list[str]:
    """The files of an earlier report there; refuses what is neither new, nor empty, nor a report."""
    if not directory.exists():
        return []
    if not directory.is_dir():
        raise BadInput(f"{directory} is not a directory", hint="name another place for the report")
    present = {path.name for path in directory.iterdir()}
    earlier = _earlier(directory)
    strange = sorted(names & present - set(earlier or ()) - {MANIFEST})
    if earlier is None and present:
        raise BadInput(
            f"{directory} holds other files, and no earlier report",
            hint="name a new or an empty directory for the report",
        )
    if strange:
        raise BadInput(
            f"{directory} holds a {strange[0]} that no report wrote",
            hint="move it away, or name another directory",
        )
    return earlier or []


def _earlier(directory: Path) -> list[str] | None:
    """The files that an earlier report says it wrote; None where there is none."""
    try:
        said = json.loads((directory / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        return None
    files = said.get("files")
    return (
        [f for f in files if isinstance(f, str) and OURS.fullmatch(f)]
        if isinstance(files, list)
        else []
    )


def _replace(directory: Path, results: Results, files: Mapping[str, bytes]) -> list[Path]:
    """All files at once where the directory is new; else one after the other, each at once, and what only the
    earlier report had goes last.  Until then the list on disk names the files of both, so that a report that
    was stopped midway is still known as one."""
    earlier = _check(directory, set(files))
    final = {**files, MANIFEST: _manifest(results, list(files))}
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as beside:
            stage = Path(beside, "report")
            stage.mkdir()
            for name, content in final.items():
                (stage / name).write_bytes(content)
            if not directory.exists():
                stage.rename(directory)
            else:
                both = stage / "both"
                both.write_bytes(_manifest(results, [*files, *earlier]))
                both.replace(directory / MANIFEST)
                for name in files:
                    (stage / name).replace(directory / name)
                for name in set(earlier) - set(files):
                    (directory / name).unlink(missing_ok=True)
                (stage / MANIFEST).replace(directory / MANIFEST)
    except OSError as failed:
        raise BadInput(
            f"the report cannot be written to {directory} ({failed.strerror})",
            hint="name a place that can be written to",
        ) from failed
    return [directory / name for name in final]
