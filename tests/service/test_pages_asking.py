"""Asking in a browser: prices, dry runs, answers; one press pays once."""

from __future__ import annotations

import csv
import io
import re
import time

from defray.service.pages.words import rho
from tests.service.browsing import Visitor, hidden, visitor
from tests.service.conftest import COUNT, House

PART = {"X-Part": "quote"}
NO_COLUMN = {"sql": "SELECT COUNT(*) FROM people WHERE agee < 3", "within": "50"}


def spent(house: House) -> float:
    return float(house.get("cat", "/balance").json()["spent_rho"])


def wait(ana: Visitor, at: str) -> None:
    """Until an ask has ended, looking about as often as its page does."""
    while ana.get(f"{at}/progress").json()["state"] == "running":
        time.sleep(0.1)


def main(text: str) -> str:
    return text[text.index("<main") :]


def test_a_price_comes_with_the_page_or_as_a_part_of_it(house: House):
    ana = visitor(house, "ana")
    price = house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 50}).json()["charged_rho"]
    part = ana.post("/quote", {"sql": COUNT, "within": "50"}, headers=PART)
    page = ana.post("/quote", {"sql": COUNT, "within": "50"})
    for got in (part, page):
        assert got.status_code == 200
        assert f"{price:.3g} <span" in got.text
        assert "of what remains" in got.text
    assert "<html" not in part.text
    assert COUNT in page.text and "<html" in page.text
    assert spent(house) == 0


def test_an_error_is_told_beside_the_question_with_its_place_and_its_cure(house: House):
    ana = visitor(house, "ana")
    for got in (
        ana.post("/quote", NO_COLUMN, headers=PART),
        ana.post("/quote", NO_COLUMN),
        ana.post("/ask", {**NO_COLUMN, "do": "ask"}),
    ):
        assert got.status_code == 422
        assert "no column agee is declared" in got.text
        assert "<mark>agee</mark>" in got.text
        assert "the nearest declared column is age" in got.text
    assert 'name="sql"' in got.text and "agee &lt; 3</textarea>" in got.text  # to be corrected
    for wrong in ({"within": "x"}, {"confidence": "7"}, {"max_rho": "much"}, {"validity": "often"}):
        got = ana.post("/ask", {"sql": COUNT, "within": "50", "do": "ask", **wrong})
        assert (got.status_code, "What to do:" in got.text) == (422, True), wrong
    assert ana.post("/ask", {"do": "ask"}).status_code == 422
    assert spent(house) == 0


def test_a_price_beyond_what_remains_says_what_is_needed(house: House):
    needs = house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 0.001}).json()["needs_rho"]
    page = main(visitor(house, "ana").post("/quote", {"sql": COUNT, "within": "0.001"}).text)
    assert f"{rho(needs)} <span" in page
    assert "more than is granted" in page and "Free:" not in page


def test_a_refusal_says_what_still_fits(house: House):
    got = visitor(house, "ana").ask(within="0.001")
    assert got.status_code == 409
    assert "Budget exceeded" in got.text and "The best that still fits" in got.text


def test_an_answer_with_its_interval_as_text_and_as_a_bar(house: House):
    got = visitor(house, "ana").ask("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    assert got.status_code == 200
    text = main(got.text)
    for label in ("F", "M", "NULL"):
        assert f'<th scope="row">{label}</th>' in text
    bars = re.findall(r'<svg class="interval"[^>]*role="img" aria-label="from ([^"]+)"', text)
    assert len(bars) == 3 and all(" to " in bar for bar in bars)
    assert spent(house) > 0
    assert "/explain" in text


def test_one_press_pays_once_however_often_it_is_sent(house: House):
    ana = visitor(house, "ana")
    press = hidden(ana.get("/").text, "press")
    first = ana.ask(press=press)
    paid = spent(house)
    assert paid > 0
    again = ana.ask(press=press)
    assert spent(house) == paid
    value = re.compile(r'class="big">([^<]+)<')
    assert value.findall(first.text) == value.findall(again.text)
    other = ana.ask(
        "SELECT COUNT(*) FROM people WHERE age < 7", press=press
    )  # gone back and changed
    assert other.status_code == 200
    assert spent(house) > paid
    assert hidden(ana.get("/").text, "press") != press


def test_a_dry_run_is_free_and_says_so(house: House):
    got = visitor(house, "ana").post("/ask", {"sql": COUNT, "within": "50", "do": "dry"})
    assert got.status_code == 200
    assert "Dry run: made-up rows, not the data." in got.text
    assert "/explain" not in got.text
    assert spent(house) == 0


def test_a_download_holds_every_digit(house: House):
    ana = visitor(house, "ana")
    page = ana.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    got = ana.get(re.findall(r'href="(/asks/\w+/csv)"', page.text)[0])
    assert got.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in got.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(got.text)))
    assert [row["sex"] for row in rows] == ["F", "M", ""]
    assert all(float(row["low"]) < float(row["value"]) < float(row["high"]) for row in rows)


def test_a_question_is_there_again_as_it_was_sent(house: House):
    ana = visitor(house, "ana")
    ana.ask(COUNT, "60", validity="anytime", simultaneous="yes")
    text = ana.get("/").text
    assert f"{COUNT}</textarea>" in text and 'value="60"' in text
    assert '<option value="anytime" selected>' in text and "checked" in text
    assert COUNT not in visitor(house, "ben").get("/").text.replace(f"{COUNT} ERROR", "")
    assert "GROUP BY sex ERROR WITHIN 100" in ana.get("/?example=1").text
    assert ana.get("/?example=99").status_code == 200
    id = house.get("ana", "/history").json()["asks"][-1]["id"]
    assert "VALIDITY ANYTIME</textarea>" in ana.get(f"/?again={id}").text


def test_a_long_scan_shows_its_progress_and_can_be_cancelled(slow_house: House, monkeypatch):
    monkeypatch.setattr("defray.service.pages.asks.SOON", 0.01)
    ana = visitor(slow_house, "ana")
    got = ana.ask(COUNT)
    at = got.url.path
    assert "<progress" in got.text and 'http-equiv="refresh"' in got.text
    assert ana.get(f"{at}/progress").json()["state"] == "running"
    assert ana.get(f"{at}/csv").status_code == 404
    wait(ana, at)
    assert "between" in ana.get(at).text
    stopped = ana.ask("SELECT COUNT(*) FROM people WHERE age < 50").url.path
    assert ana.post(f"{stopped}/cancel").status_code in (200, 409)
    wait(ana, stopped)
    got = ana.get(stopped)
    assert (got.status_code, "age &lt; 50</textarea>" in got.text) == (409, True)
    ben = visitor(slow_house, "ben")
    for path in (at, f"{at}/progress", f"{at}/csv"):
        assert ben.get(path).status_code == 404
    assert ben.post(f"{at}/cancel").status_code == 404


def test_what_completes_a_question_is_the_contract(house: House):
    known = visitor(house, "ana").get("/words").json()
    texts = {word["text"] for word in known["words"]}
    assert {"age", "people", "COUNT(*)", "SUM(income)", "GROUP BY"} <= texts
    assert "SUM(age)" not in texts  # it has no bounds
    assert known["values"] == {"sex": ["'F'", "'M'"]}


def test_a_form_that_cannot_be_read_is_refused(house: House):
    ana = visitor(house, "ana")
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"\xff", b"sql=%ff", b"&".join(b"a=1" for _ in range(50))):
        assert ana.client.post("/ask", content=body, headers=kind).status_code in (403, 422)
    large = b"sql=" + b"a" * (1 << 20)
    assert ana.client.post("/ask", content=large, headers=kind).status_code == 413
