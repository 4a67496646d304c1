"""The command line of :mod:`benchmarks.peers`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import adult, apex, covid, marginals, metrics, predicates
from benchmarks.peers.report import Section, finite, show, write_page
from defray.errors import DefrayError

SEEDS: Final = 20
FILES: Final = ("covid", "adult")
"""These can be run from files."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["covid"] and _from_files(given):
            return _one(_covid_options().parse_args(given[1:]), _covid)
        if given[:1] == ["adult"] and _from_files(given):
            return _one(_adult_options().parse_args(given[1:]), _adult)
        return _all(_options().parse_args(given))
    except DefrayError as failed:
        hint = f" ({failed.hint})" if failed.hint else ""
        print(f"error: {failed.code}: {failed.message}{hint}", file=sys.stderr)
        return failed.exit_code


# -- options ------------------------------------------------------------------------------------------


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Defray beside its peers.  DEFRAY_WORKLOADS names the folder of recorded workloads.",
        epilog="With files: python -m benchmarks.peers covid --help, and adult --help.",
    )
    parser.add_argument("parts", nargs="*", choices=[*_parts(), []], help="all, if none is named")
    parser.add_argument("--long", action="store_true", help="also what takes minutes more")
    return _common(parser)


def _common(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--seeds", type=_whole, default=SEEDS, help=f"draws of the noise ({SEEDS})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--html", type=Path, metavar="PATH", help="also write one page, for a browser"
    )
    return parser


def _covid_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers covid",
        description="Predicates over categorical attributes, in an order of arrival (Turbo's Covid files).",
    )
    parser.add_argument(
        "--pool", type=Path, required=True, help="CSV: query_id, query, utility, ..."
    )
    parser.add_argument("--order", type=Path, required=True, help="CSV: query_id")
    parser.add_argument("--blocks", type=Path, help=".npy: block x attributes; made up if left out")
    parser.add_argument(
        "--sizes", type=_sizes, default=(), help="values of each attribute: 2,2,4,8"
    )
    parser.add_argument("--limit", type=_whole, help="only so many arrivals")
    parser.add_argument("--delta", type=_chance, default=covid.DELTA)
    return _common(parser)


def _adult_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers adult",
        description="Range counts on numeric columns under one budget (DProvDB's files).",
    )
    parser.add_argument("--table", type=Path, required=True, help="CSV, with or without a header")
    parser.add_argument("--domains", type=Path, required=True, help="YAML: columns with lb and ub")
    parser.add_argument(
        "--questions", type=Path, required=True, help="CSV: attribute, lb, ub, target_variance"
    )
    parser.add_argument("--epsilon", type=_positive, required=True)
    parser.add_argument("--delta", type=_chance, default=adult.DELTA)
    parser.add_argument("--limit", type=_whole, help="only so many questions")
    return _common(parser)


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


def _chance(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise ValueError
    return value


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(_whole, text.split(",")))


# -- one workload, from files -------------------------------------------------------------------------


def _from_files(given: Sequence[str]) -> bool:
    """Whether an option of the command line is not one of a whole run's."""
    own = ("--long", "--seeds", "--json", "--html")
    return any(word.startswith("-") and not own.count(word.split("=")[0]) for word in given)


def _one(
    options: argparse.Namespace, run: Callable[[argparse.Namespace], tuple[Section, dict[str, Any]]]
) -> int:
    section, found = run(options)
    if options.json:
        print(json.dumps(finite(found), indent=2))
    else:
        show(section)
    if options.html is not None:
        write_page(options.html, [section])
    return 0


def _covid(options: argparse.Namespace) -> tuple[Section, dict[str, Any]]:
    workload = covid.recorded(
        options.pool, options.order, options.blocks, options.limit, options.sizes
    )
    found = covid.measure(workload, options.seeds, options.delta)
    title = f"{len(workload.arrivals):,} arrivals of {options.order.name}"
    return covid.section("covid", title, found), found.to_dict()


def _adult(options: argparse.Namespace) -> tuple[Section, dict[str, Any]]:
    workload = adult.recorded(options.table, options.domains, options.questions, options.limit)
    found = adult.measure(workload, options.epsilon, options.delta, options.seeds)
    title = f"{len(workload.questions):,} ranges of {options.questions.name}"
    return adult.section("adult", title, [found], {}), found.to_dict()


# -- all of them --------------------------------------------------------------------------------------


def _parts() -> Mapping[str, Callable[[Path | None, int, bool], list[Section]]]:
    return {
        "covid": lambda folder, seeds, long: covid.sections(_in(folder, "covid"), seeds),
        "adult": lambda folder, seeds, long: adult.sections(_in(folder, "adult"), seeds),
        "apex": lambda folder, seeds, long: apex.sections(_in(folder, "adult"), seeds),
        "marginals": lambda folder, seeds, long: [
            marginals.ratios(),
            marginals.errors(seeds=seeds),
        ],
        "tried": lambda folder, seeds, long: [metrics.section()],
        "predicates": lambda folder, seeds, long: predicates.sections(seeds, long),
    }


def _in(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / name


def _folder() -> Path | None:
    """Of the recorded workloads, where it is there; says so where it is not."""
    named = os.environ.get("DEFRAY_WORKLOADS")
    if not named:
        print("recorded workloads left out: DEFRAY_WORKLOADS is not set", file=sys.stderr)
        return None
    folder = Path(named)
    if not all((folder / name).is_dir() for name in FILES):
        print(f"recorded workloads left out: no covid/ and adult/ in {folder}", file=sys.stderr)
        return None
    return folder


def _all(options: argparse.Namespace) -> int:
    parts = _parts()
    folder = _folder()
    found: list[Section] = []
    for name in options.parts or parts:
        for section in parts[name](folder, options.seeds, options.long):
            found.append(section)
            if not options.json:
                show(section)
    if options.json:
        print(json.dumps([finite(s.to_dict()) for s in found], indent=2))
    if options.html is not None:
        write_page(options.html, found)
    missed = [goal for s in found for goal in s.goals if not goal.met]
    if not options.json:
        print(f"{sum(len(s.goals) for s in found) - len(missed)} goals met, {len(missed)} missed")
        for goal in missed:
            print(goal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
