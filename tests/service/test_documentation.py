"""docs/http.md tells what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from defray.service.limits import Limits
from defray.service.problems import HTTP_CODES, STATUS
from tests.service.browsing import PAGES
from tests.service.routes import ROUTES

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")


def test_every_route_is_told_with_its_scope():
    told = re.findall(r"^\| `([A-Z]+) (/v1/\S+)` \| `?(\w+)`? \|", PAGE, re.M)
    scopes = {"": "none", None: "any"}
    assert told == [(r.method, r.template, scopes.get(r.scope, r.scope)) for r in ROUTES]


def test_every_limit_is_told_with_its_default():
    told: dict[str, str] = {}
    for names, values in re.findall(r"^\| (`[a-z_`, ]+`) \| ([0-9., ]+) \|", PAGE, re.M):
        told |= dict(zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True))
    assert told == {
        field.name: f"{field.default:g}" if field.type == "float" else str(field.default)
        for field in fields(Limits)
    }


def test_every_status_and_code_of_http_is_told():
    told = {
        int(status): words for status, words in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.M)
    }
    assert {*HTTP_CODES, *(status for _, status in STATUS), 500} == set(told)
    assert all(f"`{code}`" in told[status] for status, code in HTTP_CODES.items())


def test_every_page_is_told_with_a_scope_and_every_picture_is_there():
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "dashboard.md").read_text("utf-8")
    told = dict(re.findall(r"^\| ([A-Z]\w+) \| `(\w+)`", text, re.M))
    names = {"/": "Ask", "/schema": "Columns"}
    menu = [p for p in PAGES if p.method == "GET" and p.scope and re.fullmatch(r"/\w*", p.template)]
    assert told == {
        names.get(page.template, page.template[1:].capitalize()): page.scope
        for page in menu
        if page.template != "/words"
    }
    pictures = re.findall(r"img/\w+\.png", text)
    assert {docs / picture for picture in pictures} == {*(docs / "img").glob("*.png")}
