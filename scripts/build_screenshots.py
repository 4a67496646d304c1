"""Take the pictures of the dashboard anew: docs/img/*.png, of the demonstration table.

``python scripts/build_screenshots.py`` needs Chromium and its driver (Debian: chromium, chromium-driver) and
selenium; noise is drawn anew, so numbers differ from run to run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

import defray
from defray.access import Access

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
WIDE, WAIT = 1040, 30
ASKED = (
    ("ana", "SELECT COUNT(*) FROM randhie WHERE age < 18", 40),
    ("ana", "SELECT sex, COUNT(*) FROM randhie WHERE age >= 40 GROUP BY sex", 60),
    ("ben", "SELECT health, COUNT(*) FROM randhie GROUP BY health", 50),
    ("ana", "SELECT COUNT(*) FROM randhie WHERE age BETWEEN 30 AND 50 AND physlm", 30),
    ("ana", "SELECT plan, AVG(mdvis) FROM randhie WHERE year = 1 GROUP BY plan", 0.6),
)
LAST = "SELECT health, COUNT(*) AS people FROM randhie GROUP BY health"


def prepared(folder: Path) -> dict[str, str]:
    """A contract that three people share and have asked under; their tokens."""
    for name in ("contract.toml", "randhie.parquet"):
        source = resources.files("defray.example") / name
        (folder / name).write_bytes(source.read_bytes())
    with defray.open(folder / "contract.toml") as session:
        access = Access(session._engine.ledger)
        access.add("ana", share="1/2")
        access.add("ben", share="1/4")
        access.add("cleo", "curator")
        for name, sql, within in ASKED:
            session.on_behalf_of(name).ask(sql, within=within)
        return {name: access.issue(name)[0] for name in ("ana", "ben", "cleo")}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "defray", "serve", str(folder / "contract.toml")]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
        finally:
            server.kill()


@contextmanager
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


class Photographer:
    def __init__(self, driver: Any, url: str, tokens: dict[str, str]) -> None:
        self.driver, self.url, self.tokens = driver, url, tokens

    def look(self, width: int, *, dark: bool = False, scale: float = 1) -> None:
        size = {"width": width, "height": 700, "deviceScaleFactor": scale, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def go(self, path: str) -> None:
        self.driver.get(self.url + path)

    def find(self, css: str) -> Any:
        return WebDriverWait(self.driver, WAIT).until(
            lambda driver: next(iter(driver.find_elements("css selector", css)), None)
        )

    def sign_in(self, who: str) -> None:
        self.driver.delete_all_cookies()
        self.go("/sign-in")
        self.find("#token").send_keys(self.tokens[who])
        self.find("main button").click()
        self.find("#sql")

    def type(self, sql: str, within: str) -> None:
        self.find("#sql").clear()
        self.find("#sql").send_keys(sql)
        self.find("#within").clear()
        self.find("#within").send_keys(within)
        self.find("#quote .big")

    def take(self, name: str, most: int = 1100) -> None:
        """The page from its top, as far as there is something on it."""
        width, height = self.driver.execute_script(
            "const end = document.querySelector('main').lastElementChild.getBoundingClientRect().bottom;"
            "return [innerWidth, Math.ceil(end + scrollY) + 24]"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, most), "scale": 1}
        shot = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
        )
        (IMAGES / f"{name}.png").write_bytes(b64decode(shot["data"]))
        print(f"{name}.png")


def take_all(camera: Photographer) -> None:
    camera.look(WIDE)
    camera.sign_in("ana")
    camera.type(LAST, "30")
    camera.take("ask")
    camera.find("button[value=ask]").click()
    camera.find("svg.interval")
    camera.take("answer")
    camera.go("/balance")
    camera.take("balance")
    camera.sign_in("cleo")
    camera.go("/analysts")
    camera.take("analysts")
    camera.look(390, dark=True, scale=1.5)
    camera.sign_in("ana")
    camera.type("SELECT COUNT(*) FROM randhie WHERE age < 21", "40")
    camera.take("phone", 1000)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tokens = prepared(Path(scratch))
        with served(Path(scratch)) as url, browser() as driver:
            take_all(Photographer(driver, url, tokens))


if __name__ == "__main__":
    main()
