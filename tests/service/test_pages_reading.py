"""Pages to read: history, explanations, the balance, the columns; and that text stays text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.browsing import visitor
from tests.service.conftest import COUNT, House
from tests.tables import COLUMNS, open_session, write_contract, write_people

SCRIPT = "<script>alert(1)</script>"
MARKUP = re.compile(r"<script>|<img(?! src=\"/static/)|<b>|onerror=\"|javascript:")


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[House]:
    """A house whose columns and values are markup."""
    write_people(tmp_path, 100)
    columns = COLUMNS.replace('["F", "M"]', f'["F", "M", "{SCRIPT}", "\'><img src=x>"]')
    with open_session(write_contract(tmp_path, "rho = 1", columns=columns)) as session:
        house = House(session)
        with house.client:
            yield house


def test_text_stays_text(odd: House):
    ana, cat = visitor(odd, "ana"), visitor(odd, "cat")
    alias = '"<img src=x onerror=alert(1)>"'
    sql = f"SELECT sex, COUNT(*) AS {alias} FROM people WHERE sex = '{SCRIPT}' GROUP BY sex"
    answer = ana.ask(sql)
    assert answer.status_code == 200
    id = odd.get("ana", "/history").json()["asks"][0]["id"]
    pages = [
        answer,
        ana.post("/quote", {"sql": sql, "within": "50"}),
        ana.post("/quote", {"sql": sql.replace("sex", "sxe"), "within": "50"}),
        ana.post("/ask", {"sql": SCRIPT, "within": SCRIPT, "do": "ask", "press": SCRIPT}),
        ana.post("/ask", {"sql": COUNT, "validity": SCRIPT, "do": "ask"}),
        cat.post("/analysts", {"name": SCRIPT, "share": SCRIPT}),
        *(ana.get(path) for path in ("/", "/history", "/balance", "/schema")),
        ana.get("/history", params={"search": SCRIPT}),
        ana.get("/answers/" + "%3Cscript%3E"),
        *(ana.get(f"/answers/{id}{more}") for more in ("", "/explain")),
    ]
    for page in pages:
        assert not MARKUP.search(page.text), page.url
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "&lt;script&gt;" in pages[5].text  # what was typed, to be corrected
    assert ana.get("/words").headers["content-type"] == "application/json"


def test_history_is_searched_and_paged(house: House):
    ana = visitor(house, "ana")
    for age in range(23):
        house.ask("ana", f"SELECT COUNT(*) FROM people WHERE age <= {10 + age}", within=200 - age)
    ids = re.compile(r'href="/answers/(\d+)"')
    first = ana.get("/history").text
    older = re.findall(r'href="(/history\?[^"]*cursor=[^"]+)"', first)
    second = ana.get(older[0].replace("&amp;", "&")).text
    asked = [ask["id"] for ask in house.get("ana", "/history").json()["asks"]]
    assert [*ids.findall(first), *ids.findall(second)] == asked
    assert "cursor=" not in second
    found = ana.get("/history", params={"search": "AGE <= 3"}).text
    assert len(ids.findall(found)) == 3  # 30, 31, 32
    assert "No question holds" in ana.get("/history?search=nothing").text
    assert ana.get("/history?cursor=none").status_code == 422
    assert "Nothing was paid for yet" in visitor(house, "ben").get("/history").text


def test_an_answer_as_it_is_known_now_and_what_it_rests_on(house: House):
    ana = visitor(house, "ana")
    house.ask("ana", "SELECT sex, COUNT(*) FROM people GROUP BY sex", within=60)
    house.ask("ana", "SELECT sex, COUNT(*) FROM people GROUP BY sex", within=30)
    new, old = (ask["id"] for ask in house.get("ana", "/history").json()["asks"])
    page = ana.get(f"/answers/{old}")
    assert "told then" in page.text and "± 60.0" in page.text
    rows = list(csv.DictReader(io.StringIO(ana.get(f"/answers/{old}/csv").text)))
    assert [row["group_sex"] for row in rows] == ["F", "M", ""]
    assert all(float(r["half_width_now"]) < float(r["half_width_then"]) for r in rows)
    told = ana.get(f"/answers/{new}/explain")
    assert "The releases it rests on" in told.text
    before = house.get("ana", f"/answers/{new}/explain").json()["paid_before"]
    assert before > 0.2 and f"{100 * before:.3g} %" in told.text
    ben, cat = visitor(house, "ben"), visitor(house, "cat")
    for path in (
        f"/answers/{old}",
        f"/answers/{old}/csv",
        f"/answers/{old}/explain",
        f"/?again={old}",
    ):
        assert ben.get(path).status_code == 404
        assert cat.get(path).status_code == 200


def test_the_balance_is_drawn_and_told(house: House):
    ana = visitor(house, "ana")
    assert "You have paid for nothing yet" in ana.get("/balance").text
    house.ask("ana", "SELECT COUNT(*) FROM people WHERE age < 20", within=20)
    house.ask("ben", "SELECT COUNT(*) FROM people WHERE age < 50", within=20)
    text = ana.get("/balance").text
    left = house.get("ana", "/balance").json()["account"]["remaining_rho"]
    assert f"{left:.3g} <span" in text
    assert "after 1 ask;" in text
    assert "after 2 asks;" in visitor(house, "cat").get("/balance").text
    for name in ("age", "sex"):
        assert f'aria-label="{name}: ' in text
        assert f"What the values of {name} have paid" in text
    heat = [float(x) for x in re.findall(r'fill-opacity="([^"]+)"', text)]
    assert max(heat) == 1 and min(heat) < 1


def test_the_columns_have_examples_to_begin_with(house: House):
    text = visitor(house, "ana").get("/schema").text
    assert "Every integer from 0 to 120." in text
    assert text.count('href="/?example=') == len(house.get("ana", "/schema").json()["examples"])
    assert "zCDP with rho = 1" in text
