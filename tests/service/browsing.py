"""Every page with a request that has its form, and somebody who visits them with a browser's manners."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from tests.service.conftest import COUNT, House

HOME = "http://127.0.0.1:8310"
NOBODY = "0" * 24


@dataclass(frozen=True)
class Page:
    """``scope`` is None where it takes to be signed in, and "" where it takes nothing."""

    method: str
    template: str
    scope: str | None
    path: str = ""
    form: dict[str, str] = field(default_factory=dict)

    @property
    def at(self) -> str:
        return self.path or self.template


QUESTION = {"sql": COUNT, "within": "50"}
PAGES = (
    Page("GET", "/static/{version}/{name}", "", "/static/none/none.css"),
    Page("GET", "/sign-in", ""),
    Page("POST", "/sign-in", "", form={"token": "dfy_none"}),
    Page("POST", "/sign-out", None),
    Page("GET", "/", "read"),
    Page("GET", "/words", "read"),
    Page("POST", "/quote", "quote", form=QUESTION),
    Page("POST", "/ask", "ask", form={**QUESTION, "do": "dry"}),
    Page("GET", "/asks/{id}", "ask", f"/asks/{NOBODY}"),
    Page("GET", "/asks/{id}/progress", "ask", f"/asks/{NOBODY}/progress"),
    Page("POST", "/asks/{id}/cancel", "ask", f"/asks/{NOBODY}/cancel"),
    Page("GET", "/asks/{id}/csv", "ask", f"/asks/{NOBODY}/csv"),
    Page("GET", "/history", "read"),
    Page("GET", "/answers/{id}", "read", "/answers/6"),
    Page("GET", "/answers/{id}/csv", "read", "/answers/6/csv"),
    Page("GET", "/answers/{id}/explain", "read", "/answers/6/explain"),
    Page("GET", "/balance", "read"),
    Page("GET", "/schema", "read"),
    Page("GET", "/analysts", "curate"),
    Page("POST", "/analysts", "curate", form={"name": "ana"}),
    Page("POST", "/analysts/{name}", "curate", "/analysts/nobody", {"active": "yes"}),
    Page("POST", "/analysts/{name}/tokens", "curate", "/analysts/nobody/tokens"),
    Page("POST", "/tokens/{id}/revoke", "curate", "/tokens/0000000000/revoke"),
    Page("GET", "/audit", "curate"),
)
SIGNED_IN = [page for page in PAGES if page.scope != ""]


class Visitor:
    """A browser without scripts."""

    def __init__(self, house: House, home: str = HOME) -> None:
        self.client = TestClient(house.app, base_url=home, headers={"Accept": "text/html"})
        self.csrf = ""

    def sign_in(self, token: str) -> Any:
        door = hidden(self.get("/sign-in").text, "door")
        got = self.client.post(
            "/sign-in", data={"door": door, "token": token}, follow_redirects=False
        )
        if got.status_code == 303:
            self.csrf = hidden(self.get("/").text, "csrf")
        return got

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def post(self, path: str, form: dict[str, str] | None = None, **more: Any) -> Any:
        return self.client.post(path, data={"csrf": self.csrf, **(form or {})}, **more)

    def visit(self, page: Page) -> Any:
        if page.method == "GET":
            return self.get(page.at)
        return self.post(page.at, page.form, follow_redirects=False)

    def ask(self, sql: str = COUNT, within: str = "50", **more: str) -> Any:
        return self.post("/ask", {"sql": sql, "within": within, "do": "ask", **more})


def visitor(house: House, who: str) -> Visitor:
    """Somebody who is signed in."""
    made = Visitor(house)
    assert made.sign_in(house.tokens[who]).status_code == 303
    return made


def hidden(text: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', text)
    return found[1] if found else ""
