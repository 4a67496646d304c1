"""Answers and quotes as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rich.table import Table
from rich.text import Text

from defray.cli import numbers, screen
from defray.cli.numbers import percent, rho
from defray.cli.screen import say
from defray.core.answer import DRY_RUN, Answer, Item, Quote, Row
from defray.core.grouping import Label
from defray.core.zcdp import epsilon_for

CHART = 28
"""Characters of a table's chart where there is room; below LEAST_CHART there is none."""

LEAST_CHART = 10

TO_OTHERS = "to those who had paid for what was used, no privacy is spent on it"


def show_answer(answer: Answer, *, footer: bool = True) -> None:
    """One row as a line, more as a table; then what it cost and what was answered."""
    if answer.dry_run:
        say(DRY_RUN, "bold yellow")
    if len(answer.rows) == 1 and not answer.rows[0].group:
        say(_line(answer.rows[0]))
    elif answer.rows:
        say(_table(answer.rows))
    else:
        say("no group is left: HAVING and LIMIT chose by the noisy values")
    if footer:
        _footer(answer)


def label(value: Label) -> str:
    """A group's label.

    >>> label(None), label(True), label(3)
    ('NULL', 'TRUE', '3')
    """
    if value is None:
        return "NULL"
    return str(value).upper() if isinstance(value, bool) else screen.safe(str(value))


def plus_minus() -> str:
    return "+/-" if screen.plain() else "±"


def _line(row: Row) -> Text:
    n = numbers.shown(row.value, row.low, row.high, row.half_width)
    line = Text(style="")
    if row.value is None:
        line.append(f"unknown (between {n.low} and {n.high})", "bold")
    else:
        line.append(f"{n.value} {plus_minus()} {n.half}", "bold")
        line.append(f" ({percent(row.confidence)}: {n.low} .. {n.high})")
    line.append("   ")
    missed = "target not met" + (f" ({row.note})" if row.note else "")
    line.append(*(("target met", "green") if row.met else (missed, "yellow")))
    line.append(f"   charged {rho(row.charged_rho)} rho, reused {rho(row.reused_rho)}")
    return line


def _table(rows: Sequence[Row]) -> Table:
    """The rows, with a chart as wide as there is room for, where there is something to compare."""
    table = _rows(rows, 0)
    if len({row.aggregate for row in rows}) == len(rows):
        return table
    console = screen.out()
    room = console.width - console.measure(table).maximum - 3
    return table if room < LEAST_CHART else _rows(rows, min(CHART, room))


def _rows(rows: Sequence[Row], chart: int) -> Table:
    several = len({row.aggregate for row in rows}) > 1
    table = new_table()
    for name in rows[0].group:
        table.add_column(screen.safe(name))
    if several:
        table.add_column("of")
    table.add_column("value", justify="right", style="bold", no_wrap=True)
    table.add_column(plus_minus(), justify="right", no_wrap=True)
    table.add_column(f"{percent(rows[0].confidence)} interval", justify="right")
    if chart:
        table.add_column("", no_wrap=True)
    table.add_column("met")
    for name in ("charged", "reused"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        n = numbers.shown(row.value, row.low, row.high, row.half_width)
        if row.value is None:
            texts = ["unknown", "", f"between {n.low} and {n.high}"]
        else:
            texts = [n.value, n.half, f"{n.low} .. {n.high}"]
        cells = [Text(label(v)) for v in row.group.values()]
        cells += [Text(row.aggregate)] if several else []
        cells += [Text(t) for t in texts]
        cells += [Text(_bar(row, rows, chart))] if chart else []
        met = Text("yes", "green") if row.met else Text(row.note or "no", "yellow")
        table.add_row(*cells, met, rho(row.charged_rho), rho(row.reused_rho))
    return table


def new_table() -> Table:
    from rich import box

    plain = screen.plain()
    return Table(box=box.ASCII2 if plain else box.SIMPLE_HEAD, show_edge=False, header_style="dim")


def _bar(row: Row, rows: Sequence[Row], width: int) -> str:
    axis = numbers.axis_of([(r.low, r.high) for r in rows if r.aggregate == row.aggregate])
    return numbers.bar(row.low, row.value, row.high, axis, width, ascii_only=screen.plain())


def _footer(answer: Answer) -> None:
    money = (
        f"nothing was charged; {rho(answer.remaining_rho)} rho remain"
        if answer.dry_run
        else f"charged {rho(answer.charged_rho)} rho, credited {rho(answer.reused_rho)} from "
        f"earlier releases; {rho(answer.remaining_rho)} rho remain"
    )
    say(money)
    if answer.to_others_rho:
        say(f"the account gave {rho(answer.to_others_rho)} rho {TO_OTHERS}")
    if len(answer.items) > 1:
        say(bill(answer.items))
    if answer.simultaneous:
        say("the intervals hold together at the confidence asked", "dim")
    for text in answer.notes:
        say(f"note: {text}", "dim")
    say(f"answered: {answer.question}", "dim")
    say(f"{answer.relation}; {answer.validity}; asks so far: {answer.asks_so_far}", "dim")
    say(numbers.ROUNDED, "dim")


def bill(items: Sequence[Item]) -> str:
    """What was measured, and for how much; measuring one thing in several steps is one line."""
    lines: dict[tuple[str, str], list[float]] = {}
    for item in items:
        lines.setdefault((item.measure, item.purse), []).append(item.charged_rho)
    return "bill: " + ", ".join(
        f"{_measure(measure)} {rho(sum(charges))} rho"
        + (f" in {len(charges)} steps" if len(charges) > 1 else "")
        + (f" from the {purse} purse" if purse != "answer" else "")
        for (measure, purse), charges in lines.items()
    )


def _measure(measure: str) -> str:
    """
    >>> _measure("count"), _measure("sum:age"), _measure("centred:age")
    ('rows', 'sum of age', 'sum of age around its middle')
    """
    kind, _, column = measure.partition(":")
    if kind == "count":
        return f"rows with {column}" if column else "rows"
    return f"sum of {screen.safe(column)}" + (" around its middle" if kind == "centred" else "")


# -- quotes ------------------------------------------------------------------------------------------


def show_quote(quote: Quote, delta: float | None) -> None:
    """What one question would cost."""
    if quote.hopeless:
        say(f"needs {rho(quote.needs_rho)} rho, more than is granted", "bold")
    elif quote.exact:
        say(f"costs {rho(quote.charged_rho)} rho{_epsilon(quote.charged_rho, delta)}", "bold")
    else:
        say(
            f"costs {rho(quote.low_rho)} to {rho(quote.high_rho)} rho"
            f"{_epsilon(quote.high_rho, delta, 'at most ')}, of which "
            f"{rho(quote.first_rho)} come first",
            "bold",
        )
    say(
        f"credited {rho(quote.reused_rho)} rho from earlier releases; "
        f"{rho(quote.remaining_rho)} rho remain; " + _fits(quote, certain=quote.exact)
    )
    if quote.to_others_rho:
        say(f"the account gives {rho(quote.to_others_rho)} rho {TO_OTHERS}")
    if len(quote.items) > 1:
        say(bill(quote.items))
    for text in quote.notes:
        say(f"note: {text}", "dim")
    say(f"asked: {quote.question}", "dim")
    say(quote.validity, "dim")
    say("nothing was spent", "dim")


def _fits(quote: Quote, *, certain: bool) -> str:
    """``certain``: this price, and those of the questions before it, are exact."""
    if quote.fits:
        return "it fits"
    if quote.achieves is not None and quote.high_rho:
        reached = ", ".join(f"within {rho(half)} for {a}" for a, half in quote.achieves.items())
        return f"it needs {rho(quote.needs_rho)} rho; what is granted reaches {reached}"
    if not certain and not _too_dear(quote):
        return "it may not fit: that depends on counts that are not known yet"
    if quote.best:
        best = ", ".join(f"within {goal} for {alias}" for alias, goal in quote.best.items())
        return f"it does not fit; what does: {best}"
    return "it does not fit"


def _too_dear(quote: Quote) -> bool:
    """Whether even the least that is needed is more than there is."""
    diagnosed = sum(item.charged_rho for item in quote.items if item.purse == "diagnostic")
    return quote.needs_rho - diagnosed > quote.remaining_rho * (1 + 1e-12)


def _epsilon(charge: float, delta: float | None, prefix: str = "") -> str:
    if delta is None:
        return ""
    return f" ({prefix}epsilon {epsilon_for(Fraction(charge), delta):.3g} at delta {delta:g} alone)"


def total_of(quotes: Sequence[Quote], delta: float | None) -> dict[str, object]:
    """The prices of a list together, in rho and, where delta is known, in epsilon."""
    low = sum((Fraction(q.low_rho) for q in quotes), Fraction(0))
    high = sum((Fraction(q.high_rho) for q in quotes), Fraction(0))
    total: dict[str, object] = {
        "exact": all(q.exact for q in quotes),
        "charged_rho": float(low),
        "low_rho": float(low),
        "high_rho": float(high),
        "fits": all(q.fits for q in quotes),
    }
    if delta is not None:
        total["epsilon"] = {"delta": delta, "low": epsilon_for(low, delta),
                            "high": epsilon_for(high, delta)}  # fmt: skip
    return total


def show_quotes(quotes: Sequence[Quote], delta: float | None) -> None:
    """The prices of a file of questions, and one total."""
    table = new_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("question", overflow="fold")
    for name in ("charge in rho", "credited"):
        table.add_column(name, justify="right")
    table.add_column("fits")
    certain = True
    doubtful: list[str] = []
    for i, q in enumerate(quotes, 1):
        certain = certain and q.exact
        if not q.fits:
            doubtful.append(f"question {i}: {_fits(q, certain=certain)}")
        charge = rho(q.low_rho) if q.exact else f"{rho(q.low_rho)} .. {rho(q.high_rho)}"
        no = "no" if certain or _too_dear(q) else "maybe"
        fits = Text("yes", "green") if q.fits else Text(no, "yellow")
        question = Text(screen.safe(q.question))
        table.add_row(str(i), question, charge, rho(q.reused_rho), fits)
    say(table)
    low, high = sum(q.low_rho for q in quotes), sum(q.high_rho for q in quotes)
    exact = all(q.exact for q in quotes)
    amount = rho(low) if exact else f"{rho(low)} to {rho(high)}"
    say(f"total {amount} rho{_epsilon(high, delta, '' if exact else 'at most ')}", "bold")
    for text in doubtful:
        say(text)
    for text in dict.fromkeys(text for q in quotes for text in q.notes):
        say(f"note: {text}", "dim")
    for text in dict.fromkeys(q.validity for q in quotes):
        say(text, "dim")
    say("asked in this order, each crediting those before it; nothing was spent", "dim")
