"""From fused estimates to rows: intervals, what was met, and HAVING / ORDER BY / LIMIT on noisy values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.controller.linear import Linear
from defray.controller.plan import Step
from defray.controller.purchase import Purchase, charged
from defray.controller.rule import Estimate, Rule
from defray.controller.rules import rules_of
from defray.core.amounts import rho_of, support_of
from defray.core.answer import Answer, Item, Row
from defray.core.contract import RELATION, Unit
from defray.core.target import Relative, Within
from defray.core.validity import COMPLETED
from defray.query.descriptor import Having

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


NO_ROWS = "no row can be here: the question excludes this group"
TOO_FEW = "too few rows for the asked error"
FLOORED = "the percentage is of the floor: the value may be smaller"

MOVED = "met when it was asked: what was released since has moved the interval"

CLAMPED = (
    "values are clamped to the declared bounds; the interval does not cover what the bounds cut off"
)


@dataclass(frozen=True)
class Bought:
    """Everything one ask bought, and what was known before."""

    before: Held
    after: Held
    purchases: Sequence[Purchase] = ()

    def with_step(self, step: Step, after: Held) -> Bought:
        """And one step more, once it was measured."""
        return Bought(self.before, after, (*self.purchases, *step.purchases))

    @property
    def charged(self) -> int:
        """Quanta in all."""
        return charged(self.purchases)

    @property
    def spent(self) -> int:
        """Quanta of the answer purse."""
        return charged(self.purchases, "answer")

    def charge(self, blocks: Sequence[int], cell: int) -> int:
        return sum(p.charges[cell] for p in self.purchases if p.block in blocks)


def answer_of(
    ask: Ask,
    bought: Bought,
    funds: Funds,
    version: int,
    unit: Unit,
    stopped: str = "",
    shortfall: Fraction = Fraction(0),
) -> Answer:
    """The answer from one state of the transcript; ``stopped`` says why targets were left unmet, and
    ``shortfall`` how much rho was not granted for them."""
    question = ask.compiled.question
    rows, met = rows_of(ask, bought, funds)
    paid = rho_of(bought.charged, funds.total)
    scratch = Fraction(0)
    for aggregate in question.aggregates:
        own = [r.charged_rho + r.reused_rho for r in rows if r.aggregate == aggregate.alias]
        scratch += Fraction(max(own, default=0.0))
    credited = scratch - paid
    notes = list(version_notes(version))
    if question.snapped:
        notes.append(f"thresholds were snapped outward; answered: {ask.text}")
    if stopped and not met:
        notes.append(f"stopped before the target was met: {stopped}")
    if unit.column is not None:
        notes.append(
            f"at most {unit.max_rows} rows of one {unit.column} are counted; the interval does not cover "
            "the rows left out"
        )
    if any(a.function != "COUNT" for a in question.aggregates):
        notes.append(CLAMPED)
    return Answer(
        question=ask.text,
        rows=rows,
        confidence=float(ask.confidence),
        simultaneous=ask.simultaneous,
        charged_rho=float(paid),
        reused_rho=float(credited) if credited > scratch / 10**12 else 0.0,
        met=met,
        shortfall_rho=0.0 if met else float(shortfall),
        remaining_rho=float(funds.answer),
        items=items_of(ask, bought.purchases, funds),
        data_version=version,
        validity=COMPLETED if ask.tag and any(row.asks > 1 for row in rows) else ask.validity.label,
        notes=tuple(notes),
        relation=RELATION,
    )


def items_of(ask: Ask, purchases: Sequence[Purchase], funds: Funds) -> tuple[Item, ...]:
    """The bill: one line a measurement."""
    return tuple(
        Item(
            measure=str(ask.compiled.blocks[p.block].measure),
            purse=p.purse,
            charged_rho=float(rho_of(p.charge, funds.total)),
            cells=p.cells,
        )
        for p in purchases
    )


def version_notes(version: int) -> tuple[str, ...]:
    """The notice that goes with every data version but the first (L12)."""
    if version <= 1:
        return ()
    return (
        f"data version {version}: answers about earlier versions are not credited; "
        "what they cost stays spent",
    )


def rows_of(ask: Ask, bought: Bought, funds: Funds) -> tuple[tuple[Row, ...], bool]:
    """The answer's rows, selected and ordered as the question says, and whether every cell's target was
    met: those that are not shown decided what is."""
    compiled = ask.compiled
    rules = rules_of(ask)
    estimates = [
        [_estimate(rule, i, bought.after) for i in range(len(compiled.cells))] for rule in rules
    ]
    chosen = _select(ask, estimates)
    owned = _owned_blocks(ask)
    rows: list[Row] = []
    for i in chosen:
        group = dict(zip(compiled.question.labels, compiled.cells[i].labels, strict=True))
        for j, rule in enumerate(rules):
            rows.append(_row(ask, rule, j, i, group, estimates[j][i], bought, owned[j], funds))
    shown = set(chosen)
    met = all(row.met for row in rows) and all(
        _met(ask, rule, j, i, bought, funds)[0]
        for j, rule in enumerate(rules)
        for i in range(len(compiled.cells))
        if i not in shown
    )
    return tuple(rows), met


def _met(ask: Ask, rule: Rule, j: int, i: int, bought: Bought, funds: Funds) -> tuple[bool, str]:
    """Whether a cell's target is met, and what should be said about it."""
    if _empty(rule, i):
        return True, "" if isinstance(rule, Linear) else NO_ROWS
    note = FLOORED if rule.floored(i, bought.after, funds) else ""
    if ask.promised(bought.after, j, i):
        wider = isinstance(rule.goal, Within) and (
            _estimate(rule, i, bought.after).half_width > rule.goal.amount
        )
        return True, MOVED if wider else note
    need = rule.want(i, bought.after, funds)
    if need.hopeless:
        return False, TOO_FEW
    return not need.wants, note


def settled(ask: Ask, bought: Bought, funds: Funds) -> tuple[tuple[bytes, Fraction, Fraction], ...]:
    """Absolute targets of averages that are met now, and were not remembered: others' releases may move
    what is known of them later."""
    return tuple(
        (ask.mark(j, i), share, ask.miss)
        for j, rule in enumerate(rules_of(ask))
        if isinstance(rule.goal, Within) and (share := ask.share(j)) is not None
        for i in range(len(ask.compiled.cells))
        if not _empty(rule, i)
        and not ask.promised(bought.after, j, i)
        and _met(ask, rule, j, i, bought, funds)[0]
    )


def _estimate(rule: Rule, cell: int, held: Held) -> Estimate:
    if _empty(rule, cell) and isinstance(rule, Linear):
        return Estimate(0.0, 0.0, 0.0)
    return rule.estimate(cell, held)


def _empty(rule: Rule, cell: int) -> bool:
    return rule.block("count").empty[cell]


def _owned_blocks(ask: Ask) -> list[list[int]]:
    """Which aggregate a shared block's charge is shown at: the first that counts, else the first."""
    order = sorted(
        range(len(ask.goals)),
        key=lambda j: ask.compiled.question.aggregates[j].function != "COUNT",
    )
    seen: set[int] = set()
    owned: list[list[int]] = [[] for _ in ask.goals]
    for j in order:
        owned[j] = [b for b in ask.compiled.parts[j].values() if b not in seen]
        seen.update(owned[j])
    return owned


def _row(
    ask: Ask,
    rule: Rule,
    j: int,
    i: int,
    group: Mapping[str, str | int | float | bool | None],
    estimate: Estimate,
    bought: Bought,
    owned: Sequence[int],
    funds: Funds,
) -> Row:
    known = [bought.after.known[b][i] for b in rule.behind(i, bought.after)]
    newest = max(known, key=lambda k: k.last)
    met, note = _met(ask, rule, j, i, bought, funds)
    return Row(
        group=group,
        aggregate=ask.compiled.question.aggregates[j].alias,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        half_width=estimate.half_width,
        confidence=float(ask.confidence),
        met=met,
        charged_rho=float(rho_of(bought.charge(owned, i), funds.total)),
        reused_rho=float(reused(rule, i, bought.before, bought.purchases, funds.total)),
        releases=sum(k.releases for k in known),
        id=f"{newest.last}.{newest.index}" if newest.last else "0",
        note=note,
        asks=len(newest.asks if len(known) == 1 else {name for k in known for name in k.asks}),
    )


def reused(
    rule: Rule, cell: int, before: Held, purchases: Sequence[Purchase], total: Fraction
) -> Fraction:
    """The support, in rho, that the transcript already held for this cell, up to what is asked.  Where what
    others' releases leave open was bought in its place: what that saved."""
    have = _supported(rule, cell, before)
    if not (isinstance(rule, Linear) and isinstance(rule.goal, Within)):
        return have
    own = [p for p in purchases if p.block == rule.parts[rule.role]]
    paid = sum(p.charges[cell] for p in own)
    if not paid or not any(p.draws and not p.smaller for p in own):
        return have
    asked = support_of(rule.absolute_precision(rule.goal, cell, before), rule.reach)
    return max(have, asked - rho_of(paid, total))


def _supported(rule: Rule, cell: int, before: Held) -> Fraction:
    if _empty(rule, cell):
        return Fraction(0)
    if not isinstance(rule, Linear):
        parts = {rule.parts["centred"], rule.parts["count"]}
        return sum(
            (support_of(before.known[b][cell].precision, rule.blocks[b].reach) for b in parts),
            Fraction(0),
        )
    have = rule.precision(cell, before)
    if not have:
        return have
    if isinstance(rule.goal, Within):
        have = min(have, rule.absolute_precision(rule.goal, cell, before))
    elif not isinstance(rule.goal, Relative):
        return min(support_of(have, rule.reach), rule.goal.rho)
    return support_of(have, rule.reach)


def _select(ask: Ask, estimates: Sequence[Sequence[Estimate]]) -> list[int]:
    """The cells that are shown, in order."""
    question = ask.compiled.question
    index = {a.alias: j for j, a in enumerate(question.aggregates)}
    cells = list(range(len(ask.compiled.cells)))
    if question.having is not None:
        having = question.having
        cells = [
            i for i in cells if _holds(having, {a: estimates[j][i].value for a, j in index.items()})
        ]
    for order in reversed(question.order):
        if order.alias is not None:
            column = estimates[index[order.alias]]
            values: list[float | None] = [e.value for e in column]
        else:
            # Groups stand in ascending order of the declared domain already.
            assert order.axis is not None
            values = _axis_positions(ask, order.axis)
        nulls_first = order.nulls_first if order.nulls_first is not None else False
        present = [i for i in cells if values[i] is not None]
        absent = [i for i in cells if values[i] is None]
        present.sort(key=lambda i: values[i] or 0.0, reverse=order.descending)
        cells = absent + present if nulls_first else present + absent
    start = question.offset
    return cells[start : None if question.limit is None else start + question.limit]


def _axis_positions(ask: Ask, axis: int) -> list[float | None]:
    """Each cell's position along one grouping column; None for its NULL group."""
    compiled = ask.compiled
    seen: dict[object, int] = {}
    out: list[float | None] = []
    for cell in compiled.cells:
        label, atoms = cell.labels[axis], cell.sides[axis][1]
        position = seen.setdefault(atoms, len(seen))
        out.append(None if label is None else float(position))
    return out


def _holds(having: Having, values: Mapping[str, float | None]) -> bool:
    match having.op:
        case "AND":
            return all(_holds(p, values) for p in having.parts)
        case "OR":
            return any(_holds(p, values) for p in having.parts)
        case "NOT":
            return not _holds(having.parts[0], values)
    assert having.alias is not None
    assert having.number is not None
    value = values[having.alias]
    return value is not None and COMPARE[having.op](value, float(having.number))
