"""What the names of a text mean: the columns of the domain."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.literals import LiteralRefused
from defray.query.reader import Name, Reader, Span, identifier

MAX_COLUMNS_TOLD = 8


@dataclass(slots=True)
class Scope:
    """The one table of a text: its columns, and the names that may qualify them."""

    reader: Reader
    domain: Domain
    qualifiers: tuple[Name, ...] = ()

    def column(self, name: Name) -> int:
        """The position of the column that a name means; QueryError if none is declared so."""
        if name.qualifier is not None and not any(
            q.text == name.qualifier or q.text.casefold() == name.qualifier.casefold()
            for q in self.qualifiers
        ):
            told = self.qualifiers[-1].text if self.qualifiers else "the table"
            raise self.reader.refuse(
                "unknown-table",
                f"{name.qualifier} is not the table that is asked",
                name,
                f"write {told}.{name.text}, or {name.text} alone",
            )
        at = self.domain.find(name.text, quoted=name.quoted)
        if at is None:
            raise self.unknown(name)
        return at

    def unknown(self, name: Name) -> Exception:
        """Refuses a name.  The text is the same for a column that the table has but the contract does
        not declare as for one that does not exist."""
        return self.reader.refuse(
            "unknown-column", f"no column {name.text} is declared", name, self._nearest(name)
        )

    def _nearest(self, name: Name) -> str:
        folded = name.text.casefold()
        same = [n for n in self.domain.names if n.casefold() == folded]
        if same:
            return "the declared name is " + " or ".join(f'"{n}"' for n in same[:3])
        by_fold = {n.casefold(): n for n in self.domain.names}
        near = [
            identifier(by_fold[n]) for n in difflib.get_close_matches(folded, list(by_fold), 3, 0.7)
        ]
        if len(near) == 1:
            return f"the nearest declared column is {near[0]}"
        if near:
            return "the nearest declared columns are " + ", ".join(near)
        told = map(identifier, self.domain.names[:MAX_COLUMNS_TOLD])
        more = ", ..." if len(self.domain.names) > MAX_COLUMNS_TOLD else ""
        return "the declared columns are " + ", ".join(told) + more

    def at(self, position: int) -> Column:
        return self.domain.columns[position]

    @contextmanager
    def literal_at(self, where: Span) -> Iterator[None]:
        """Turns a literal that the domain refuses into a QueryError at its place."""
        try:
            yield
        except LiteralRefused as refused:
            raise self.reader.refuse(refused.kind, refused.message, where, refused.hint) from None
