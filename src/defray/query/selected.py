"""What a question has selected, as its later clauses name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from defray.query.accuracy import find_alias
from defray.query.descriptor import Aggregate, Axis
from defray.query.names import Scope
from defray.query.outputs import Call, Item, check_call, read_call
from defray.query.reader import Name


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one question: what HAVING and ORDER BY may name."""

    scope: Scope
    items: Sequence[Item]
    aggregates: tuple[Aggregate, ...]
    axes: tuple[Axis, ...]
    labels: tuple[str, ...]

    def alias(self, name: Name) -> str | None:
        """The alias of an aggregate that a name means, if it means one."""
        return find_alias(name, self.aggregates)

    def call(self) -> str | None:
        """Reads an aggregate, if one comes now, and gives the alias it was selected under."""
        call = read_call(self.scope.reader)
        return None if call is None else self._selected(call)

    def _selected(self, call: Call) -> str:
        reader, column = self.scope.reader, check_call(self.scope, call)
        for aggregate in self.aggregates:
            if (aggregate.function, aggregate.column) == (call.function, column):
                return aggregate.alias
        shown = reader.text[call.start : call.end]
        raise reader.refuse(
            "not-selected",
            f"{shown} is not selected",
            (call.start, call.end),
            f"add it to SELECT: {shown}",
        )
