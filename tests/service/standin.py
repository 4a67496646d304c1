"""A contract shared by several principals: whose an ask was, and answers under keys, kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from defray.access import Access
from defray.errors import BadInput
from defray.session import Session


class Shared:
    def __init__(self, session: Session, access: Access) -> None:
        self.session, self.access = session, access
        self.owner: dict[str, str] = {}
        self.kept: dict[tuple[str, str], tuple[str, Any]] = {}
        self.lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def on_behalf_of(self, name: str) -> Bound:
        return Bound(self, name)


@dataclass
class Bound:
    shared: Shared
    name: str

    def quote(self, sql: str, **arguments: Any) -> Any:
        return self.shared.session.quote(sql, **arguments)

    def quote_all(self, questions: Sequence[str], **arguments: Any) -> Any:
        return self.shared.session.quote_all(questions, **arguments)

    def balance(self, **arguments: Any) -> Any:
        return self.shared.session.balance(**arguments)

    def explain(self, id: str) -> Any:
        return self.shared.session.explain(id)

    def ask(self, sql: str, *, key: Any = None, request: Any = None, **arguments: Any) -> Any:
        shared = self.shared
        kept = shared.kept.get((self.name, key))
        if kept is not None:
            if kept[0] != request:
                raise BadInput("this Idempotency-Key was used for another request")
            return kept[1]
        answer = shared.session.ask(sql, **arguments)
        if answer.charged_rho:
            with shared.lock:
                for row in answer.rows:
                    shared.owner.setdefault(row.id.partition(".")[0], self.name)
                if key is not None:
                    shared.kept[self.name, key] = request, answer
        return answer

    def history(self, *, refresh: bool = False) -> Any:
        asks = self.shared.session.history(refresh=refresh)
        roles = {p.name: p.role for p in self.shared.access.analysts()}
        if roles[self.name] == "curator":
            return asks
        owner = self.shared.owner
        return [a for a in asks if any(owner.get(r["id"]) == self.name for r in a["releases"])]
