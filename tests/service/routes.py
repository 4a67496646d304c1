"""Every route with a request that has its form, and the scope that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COUNT = "SELECT COUNT(*) FROM people"


@dataclass(frozen=True)
class Route:
    """``scope`` is None where any token will do, and "" where none is needed."""

    method: str
    template: str
    scope: str | None
    path: str = ""
    json: Any = None

    @property
    def at(self) -> str:
        return self.path or self.template


ROUTES = (
    Route("GET", "/v1/health", ""),
    Route("GET", "/v1/me", None),
    Route("GET", "/v1/contract", "read"),
    Route("GET", "/v1/schema", "read"),
    Route("POST", "/v1/quote", "quote", json={"sql": COUNT, "within": 50}),
    Route("POST", "/v1/quotes", "quote", json={"questions": [COUNT], "within": 50}),
    Route("POST", "/v1/ask", "ask", json={"sql": COUNT, "within": 50}),
    Route("GET", "/v1/jobs/{id}", "ask", "/v1/jobs/" + "0" * 24),
    Route("DELETE", "/v1/jobs/{id}", "ask", "/v1/jobs/" + "0" * 24),
    Route("GET", "/v1/history", "read"),
    Route("GET", "/v1/answers/{id}", "read", "/v1/answers/3"),
    Route("GET", "/v1/answers/{id}/explain", "read", "/v1/answers/3/explain"),
    Route("GET", "/v1/balance", "read"),
    Route("GET", "/v1/analysts", "curate"),
    Route("POST", "/v1/analysts", "curate", json={"name": "ana"}),
    Route("PATCH", "/v1/analysts/{name}", "curate", "/v1/analysts/nobody", {"active": True}),
    Route("POST", "/v1/analysts/{name}/tokens", "curate", "/v1/analysts/nobody/tokens", {}),
    Route("DELETE", "/v1/tokens/{id}", "curate", "/v1/tokens/0000000000"),
    Route("GET", "/v1/audit", "curate"),
    Route("GET", "/v1/metrics", "curate"),
)
