"""From an analyst's text to a canonical question.

The text is lexed once (:mod:`tokens`), read clause by clause by a grammar that knows only what Defray
answers, and matched with the declared domain on the way; whatever else it holds is refused by name, at
the character where it begins.  The text itself goes no further than this module: what reaches a database
is rendered anew from the question.

::

    SELECT   outputs
    FROM     table
    WHERE    predicate          -> region
    GROUP BY columns            -> axes
    HAVING   condition          \\
    ORDER BY outputs             > post-processing of noisy values
    LIMIT    n OFFSET n         /
    ERROR WITHIN 50 AT CONFIDENCE 95%      (after any clause from FROM on)
"""

from __future__ import annotations

from dataclasses import dataclass

from defray.core.brief import brief
from defray.core.domain import Domain
from defray.query import accuracy, predicate, refusals
from defray.query.descriptor import Accuracy, Having, Order, Question
from defray.query.groups import check_selected, read_group_by
from defray.query.having import HavingClause
from defray.query.names import Scope
from defray.query.order import read_limit, read_order_by
from defray.query.outputs import Item, aggregates, read_items
from defray.query.reader import Name, Reader
from defray.query.region import EVERYWHERE, Region, Regions, TooComplex
from defray.query.selected import Outputs
from defray.query.tokens import MAX_SHOWN
from defray.query.where import Where

MAX_STEPS = 100_000
"""How many intervals of atoms may be looked at to bring one predicate into its canonical form."""
MAX_COLUMNS = 100
"""How many columns one predicate may name."""


def parse(
    text: str, domain: Domain, regions: Regions, *, table: str, snap: bool = False
) -> Question:
    """The question that ``text`` asks of ``table``; QueryError, and no other error, if it asks none.

    With ``snap``, thresholds inside a bin are widened to whole cells (``Question.snapped`` tells).
    """
    return _Statement(text, domain, regions, table, snap).read()


@dataclass(slots=True)
class _Clauses:
    region: Region = EVERYWHERE
    snapped: bool = False
    having: Having | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    accuracy: accuracy.Clause | None = None


class _Statement:
    def __init__(self, text: str, domain: Domain, regions: Regions, table: str, snap: bool) -> None:
        self._reader = Reader(text)
        self._scope = Scope(self._reader, domain)
        self._regions = regions
        self._table = table
        self._snap = snap
        self._clauses = _Clauses()

    def read(self) -> Question:
        reader, clauses = self._reader, self._clauses
        self._select()
        items = read_items(reader)
        self._from(items)
        self._accuracy()
        if reader.take_word("WHERE"):
            self._where()
            self._accuracy()
        grouped = self._by("GROUP")
        axes, labels = read_group_by(self._scope, items) if grouped else ([], [])
        check_selected(self._scope, items, axes)
        found = aggregates(self._scope, items, labels)
        outputs = Outputs(self._scope, items, found, tuple(axes), tuple(labels))
        self._accuracy()
        if reader.take_word("HAVING"):
            clauses.having = HavingClause(outputs).read()
            self._accuracy()
        if self._by("ORDER"):
            clauses.order = read_order_by(outputs)
            self._accuracy()
        clauses.limit, clauses.offset = read_limit(reader)
        self._accuracy()
        self._end()
        clause = clauses.accuracy
        return Question(
            aggregates=found,
            region=clauses.region,
            axes=outputs.axes,
            labels=outputs.labels,
            order=clauses.order,
            having=clauses.having,
            limit=clauses.limit,
            offset=clauses.offset,
            accuracy=Accuracy() if clause is None else accuracy.resolve(reader, clause, found),
            snapped=clauses.snapped,
        )

    def _select(self) -> None:
        reader = self._reader
        token = reader.now
        if reader.take_word("SELECT"):
            return
        if token.kind == "end":
            raise reader.refuse(
                "empty", "the text is empty", token, "write SELECT COUNT(*) FROM ..."
            )
        if token.word in refusals.STATEMENTS:
            raise reader.refuse(
                "unsupported",
                f"{token.word} statements are not supported",
                token,
                f"ask a question: SELECT COUNT(*) FROM {self._table}",
            )
        if token.word == "WITH" or reader.at_sign("("):
            raise reader.unexpected("a question starts with SELECT")
        raise reader.refuse(
            "syntax",
            "a question starts with SELECT",
            token,
            f"write SELECT COUNT(*) FROM {self._table}",
        )

    def _from(self, items: list[Item]) -> None:
        reader = self._reader
        if reader.now.word != "FROM":
            raise reader.unexpected(f"FROM {self._table} is expected here")
        reader.next()
        token = reader.now
        if reader.at_sign("(") or token.word in ("SELECT", "VALUES"):
            raise reader.unsupported(refusals.SUBQUERIES, token)
        if token.kind == "string":
            raise reader.unsupported(("reading files is", f"write FROM {self._table}"), token)
        name = reader.name("a table")
        if reader.at_sign("("):
            shown = brief(name.text, MAX_SHOWN)
            raise reader.unsupported(
                (f"the table function {shown} is", f"write FROM {self._table}"), name
            )
        if reader.at_sign("."):
            raise reader.unsupported(
                ("a schema or database name is", f"write FROM {self._table}"), name
            )
        if name.text != self._table and name.text.casefold() != self._table.casefold():
            raise reader.refuse(
                "unknown-table",
                f"no table {name.text} is declared",
                name,
                f"write FROM {self._table}",
            )
        self._scope.qualifiers = (name, *self._table_alias())
        if reader.at_sign(","):
            raise reader.unsupported(refusals.JOINS, reader.now)
        if reader.at_sign("("):
            raise reader.unsupported(
                ("naming columns in FROM is", "use their own names"), reader.now
            )

    def _table_alias(self) -> tuple[Name, ...]:
        reader = self._reader
        if reader.take_word("AS"):
            return (reader.name("a name for the table", reserved=False),)
        if accuracy.starts_here(reader):
            return ()
        if reader.now.word == "SAMPLE":
            raise reader.unexpected("")
        bare = reader.now.kind == "word" and reader.now.word not in refusals.RESERVED
        return (reader.name("a name for the table"),) if bare or reader.now.kind == "quoted" else ()

    def _where(self) -> None:
        reader, start = self._reader, self._reader.now.start
        condition = Where(self._scope, snap=self._snap).read()
        span = (start, reader.last_end)
        hint = "ask with fewer conditions, or with IN and BETWEEN in place of many ORs"
        if len(predicate.columns(condition)) > MAX_COLUMNS:
            raise reader.refuse(
                "too-complex", f"the condition names more than {MAX_COLUMNS} columns", span, hint
            )
        try:
            limited = self._regions.limited(MAX_STEPS)
            self._clauses.region = predicate.cells(condition, predicate.TRUE, limited)
        except TooComplex:
            raise reader.refuse(
                "too-complex", "the condition is too complex to describe", span, hint
            ) from None
        self._clauses.snapped = self._snap and predicate.snapped(condition)

    def _by(self, word: str) -> bool:
        """Reads ``GROUP BY`` or ``ORDER BY`` if it comes now."""
        if not self._reader.take_word(word):
            return False
        self._reader.need_word("BY")
        return True

    def _accuracy(self) -> None:
        """Reads an accuracy clause if it comes now; a text has at most one."""
        reader = self._reader
        if not accuracy.starts_here(reader):
            return
        token = reader.now
        if self._clauses.accuracy is not None:
            raise reader.refuse(
                "bad-accuracy", "the accuracy is written twice", token, accuracy.EXAMPLE
            )
        self._clauses.accuracy = accuracy.read(reader)

    def _end(self) -> None:
        reader = self._reader
        semicolon = reader.take_sign(";")
        while reader.take_sign(";"):
            pass
        if reader.now.kind == "end":
            return
        if semicolon is not None:
            raise reader.unsupported(
                ("several statements are", "ask one question at a time"), reader.now
            )
        if reader.now.word in ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"):
            raise reader.refuse(
                "syntax",
                f"{reader.now.word} is out of place",
                reader.now,
                "the order is WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, ERROR WITHIN",
            )
        if reader.now.word in ("ERROR", "WITHIN", "AT", "SIMULTANEOUS", "PER", "VALIDITY"):
            raise reader.refuse(
                "bad-accuracy",
                f"{reader.now.text} is not expected here",
                reader.now,
                accuracy.EXAMPLE,
            )
        raise reader.unexpected("the question should end here")
