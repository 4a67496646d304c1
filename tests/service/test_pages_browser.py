"""The dashboard in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service import browser
from tests.service.browser import Browser
from tests.tables import write_contract, write_people

pytestmark = pytest.mark.xdist_group("browser")
UNDER = "SELECT COUNT(*) FROM people WHERE age < "


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    made = browser.chromium()
    yield made
    made.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, driver: Any) -> Iterator[Browser]:
    """A browser and a server of its own."""
    with served(tmp_path_factory.mktemp("site"), driver) as site:
        yield site


@contextmanager
def served(folder: Path, driver: Any, **options: Any) -> Iterator[Browser]:
    write_people(folder, 2_000)
    command = [sys.executable, "-m", "tests.service.server", str(write_contract(folder))]
    with subprocess.Popen(
        [*command, json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            told = json.loads(server.stdout.readline())
            yield Browser(driver, told["url"], told["tokens"])
        finally:
            server.kill()


@pytest.fixture
def ana(site: Browser) -> Browser:
    site.sign_in("ana")
    return site


def test_a_question_is_priced_while_it_is_typed_and_answered(ana: Browser):
    ana.write("#sql", "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    ana.write("#within", "50")
    ana.shows("of what remains", "#quote")
    price = ana.text("#quote .big").split()[0]
    ana.press("button[value=ask]")
    ana.shows("The bill".upper())
    assert f"Charged\n{price} rho" in ana.text()
    assert len(ana.driver.find_elements("css selector", "svg.interval")) == 3
    ana.driver.find_element("link text", "Explain").click()
    ana.shows("THE RELEASES IT RESTS ON")
    assert ana.complaints() == []


def test_an_error_is_shown_in_place_while_typing(ana: Browser):
    ana.write("#sql", "SELECT COUNT(*) FROM people WHERE agee < 3")
    ana.shows("the nearest declared column is age", "#quote")
    assert ana.text("#quote mark") == "agee"
    ana.write("#sql", f"{UNDER}3")
    ana.write("#within", "50")
    ana.shows("rho", "#quote .big")
    assert ana.complaints() == []


def test_words_and_values_complete_a_question_by_keyboard(ana: Browser):
    from selenium.webdriver.common.keys import Keys

    area = ana.find("#sql")
    area.clear()
    ana.until(lambda: area.get_attribute("aria-autocomplete") == "list")
    area.send_keys("SEL")
    ana.until(lambda: ana.find("#suggestions").is_displayed())
    assert area.get_attribute("aria-controls") == "suggestions"
    area.send_keys(Keys.ARROW_DOWN)
    active = area.get_attribute("aria-activedescendant")
    assert ana.find(f"#{active}").get_attribute("aria-selected") == "true"
    area.send_keys(Keys.ENTER)
    assert area.get_attribute("value") == "SELECT "
    assert not ana.find("#suggestions").is_displayed()
    area.send_keys("COUNT(*) FROM people WHERE sex = ")
    assert ana.text("#suggestions").split("\n")[::2] == ["'F'", "'M'"]
    area.send_keys(Keys.ARROW_UP, Keys.TAB)
    assert area.get_attribute("value").endswith("sex = 'M' ")
    assert ana.script("return document.activeElement.id") == "sql"
    area.send_keys("AND ag")
    ana.until(lambda: ana.text("#suggestions").startswith("age"))
    area.send_keys(Keys.TAB)  # the only one there is
    assert area.get_attribute("value").endswith("AND age ")
    area.send_keys("err", Keys.ESCAPE)
    assert not ana.find("#suggestions").is_displayed()
    area.send_keys(Keys.TAB)  # and leaves the field
    assert ana.script("return document.activeElement.id") == "within"


def test_by_keyboard_only(site: Browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def keys(*them: str) -> None:
        ActionChains(site.driver).send_keys(*them).perform()

    def tab_to(css: str) -> None:
        for _ in range(40):
            if site.script("return document.activeElement.matches(arguments[0])", css):
                outline = "return getComputedStyle(document.activeElement).outlineStyle"
                assert site.script(outline) != "none", css
                return
            keys(Keys.TAB)
        raise AssertionError(f"{css} is not reached")

    site.driver.delete_all_cookies()
    site.go("/sign-in")
    assert site.script("return document.activeElement.id") == "token"
    keys(site.tokens["ana"], Keys.ENTER)
    site.until(lambda: site.there("#sql"))
    keys(Keys.TAB)
    assert site.script("return document.activeElement.className") == "skip"
    keys(Keys.ENTER)
    tab_to("#sql")
    keys(f"{UNDER}44", Keys.ESCAPE, Keys.TAB, "60")
    tab_to("button[value=ask]")
    keys(Keys.ENTER)
    site.shows("THE BILL")
    tab_to(".who button")
    keys(Keys.ENTER)
    site.until(lambda: site.there("#token"))


def test_control_and_enter_ask(ana: Browser):
    from selenium.webdriver.common.keys import Keys

    ana.write("#within", "95")
    ana.write("#sql", f"{UNDER}17")
    ana.find("#sql").send_keys(Keys.CONTROL, Keys.ENTER)
    ana.shows("THE BILL")


def test_a_double_click_pays_once(ana: Browser):
    from selenium.webdriver.common.action_chains import ActionChains

    ana.write("#sql", f"{UNDER}61")
    ana.write("#within", "70")
    button = ana.find("button[value=ask]")
    ActionChains(ana.driver).double_click(button).perform()
    ana.shows("THE BILL")
    ana.driver.refresh()
    ana.go("/history?search=%3C%3D+60")
    assert len(ana.driver.find_elements("css selector", ".asked > li")) == 1


def test_history_is_searched(ana: Browser):
    for age in (71, 72):
        ana.go("/")
        ana.write("#sql", f"{UNDER}{age}")
        ana.write("#within", "90")
        ana.press("button[value=ask]")
        ana.shows("THE BILL")
    ana.go("/history")
    ana.write("#search", "<= 71")
    ana.press("main form button")
    ana.until(lambda: "search=" in ana.driver.current_url)
    assert len(ana.driver.find_elements("css selector", ".asked > li")) == 1


def test_a_dry_run_is_watermarked(ana: Browser):
    ana.write("#sql", f"{UNDER}9")
    ana.write("#within", "50")
    ana.press("button[value=dry]")
    ana.shows("Dry run: made-up rows, not the data.", ".watermark")


def test_a_curator_lets_somebody_in_who_then_asks(site: Browser):
    site.sign_in("cat")
    site.go("/analysts")
    site.write("#name", "eve")
    site.write("#share", "0.1")
    site.press("section:last-of-type form button")
    site.shows("A TOKEN FOR EVE")
    site.tokens["eve"] = site.find("input.token").get_attribute("value")
    site.driver.refresh()
    assert not site.there("input.token")
    site.sign_in("eve")
    assert site.text(".who .name") == "eve"
    assert site.complaints() == []


def test_reading_and_asking_need_no_script(site: Browser):
    site.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        site.sign_in("ben")
        site.write("#sql", f"{UNDER}30")
        site.write("#within", "80")
        site.press("button[value=price]")
        site.shows("of what remains", "#quote")
        site.press("button[value=ask]")
        site.shows("THE BILL")
        site.go("/balance")
        assert "LEFT AFTER EACH ASK OF YOURS" in site.text()
    finally:
        site.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


PATHS = ("/sign-in", "/", "/history", "/balance", "/schema", "/analysts", "/audit", "/nothing")


def every_page(site: Browser) -> Iterator[str]:
    """Each page in turn, with an answer, what it rests on, an error and a price."""
    site.sign_in("cat")
    site.write("#sql", "SELECT sex, AVG(income) AS mean FROM people GROUP BY sex")
    site.write("#within", "9000")
    site.shows("rho", "#quote")
    yield "price"
    site.press("button[value=ask]")
    site.shows("THE BILL")
    yield "answer"
    site.driver.find_element("link text", "Explain").click()
    site.shows("THE RELEASES IT RESTS ON")
    yield "explanation"
    site.driver.find_element("link text", "The answer").click()
    site.shows("WHAT WAS BOUGHT")
    yield "earlier answer"
    site.go("/")
    site.write("#sql", "SELECT COUNT(*) FROM people WHERE agee < 3 AND s")
    site.shows("the nearest declared column", "#quote")
    yield "error"
    for path in PATHS:
        site.go(path)
        for details in site.driver.find_elements("css selector", "details > summary"):
            details.click()
        yield path


@pytest.mark.long
@pytest.mark.parametrize(
    ("dark", "phone"), [(False, False), (True, True)], ids=["light-desk", "dark-phone"]
)
def test_pages_fit_and_have_no_barriers(
    site: Browser, tmp_path_factory: pytest.TempPathFactory, dark: bool, phone: bool
):
    script = browser.axe(tmp_path_factory.mktemp("axe"))
    found: list[tuple[str, str, str]] = []
    with site.emulating(dark=dark, phone=phone):
        for name in every_page(site):
            wide, window = site.script("return [document.documentElement.scrollWidth, innerWidth]")
            assert wide <= window, f"{name} is wider than the window"
            site.script(script)
            result = site.driver.execute_async_script(
                "const done = arguments[0]; axe.run().then(done, (e) => done(String(e)))"
            )
            assert isinstance(result, dict), result
            found += [
                (name, barrier["id"], node["html"])
                for barrier in result["violations"]
                if barrier["impact"] in ("serious", "critical")
                for node in barrier["nodes"]
            ]
    assert found == []


def test_dark_and_light_are_as_the_system_wants(ana: Browser):
    ground = "return getComputedStyle(document.body).backgroundColor"
    with ana.emulating(dark=True):
        dark = ana.script(ground)
    assert dark != ana.script(ground)


@pytest.mark.long
def test_a_long_scan_shows_its_progress_and_then_the_answer(tmp_path: Path, driver: Any):
    with served(tmp_path, driver, slow=3) as site:
        site.sign_in("ana")
        site.write("#sql", f"{UNDER}30")
        site.write("#within", "80")
        site.press("button[value=ask]")
        site.until(lambda: site.there("progress"))
        site.shows("THE BILL")
        site.go("/")
        site.write("#sql", f"{UNDER}80")
        site.press("button[value=ask]")
        site.until(lambda: site.there("progress"))
        site.press("#follow button")
        site.shows("cancelled")
