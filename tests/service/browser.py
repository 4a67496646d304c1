"""A real browser without a screen: Chromium, driven by selenium."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

AXE = "axe-core@4.14.1"
"""What finds barriers on a page: fetched from npm's registry where npm is there."""

WAIT = 20
"""Seconds until something that should come is given up."""


def chromium() -> Any:
    """A browser; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.add_argument("--window-size=1100,900")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )


def axe(folder: Path) -> str:
    """The script of axe-core; the test is skipped where it cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    got = subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"npm cannot fetch {AXE}")
    shutil.unpack_archive(folder / got.stdout.strip().splitlines()[-1], folder, "gztar")
    return (folder / "package" / "axe.min.js").read_text("utf-8")


class Browser:
    """What tests do with a page, in short words."""

    def __init__(self, driver: Any, url: str, tokens: dict[str, str]) -> None:
        self.driver, self.url, self.tokens = driver, url, tokens

    def go(self, path: str) -> None:
        self.driver.get(self.url + path)

    def sign_in(self, who: str) -> None:
        self.driver.delete_all_cookies()
        self.go("/sign-in")
        self.find("#token").send_keys(self.tokens[who])
        self.press("main button")
        self.until(lambda: self.there("#sql"))

    def find(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def there(self, css: str) -> bool:
        return bool(self.driver.find_elements("css selector", css))

    def press(self, css: str) -> None:
        self.find(css).click()

    def write(self, css: str, text: str) -> None:
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def text(self, css: str = "main") -> str:
        return str(self.find(css).text)

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def until(self, holds: Any) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(
            self.driver, WAIT, 0.05, ignored_exceptions=[StaleElementReferenceException]
        )
        return wait.until(lambda _: holds())

    def shows(self, text: str, css: str = "main") -> None:
        """Waits until the text is there, which is read in one step: a page may go while it is looked at."""
        seen = "return document.querySelector(arguments[0])?.innerText ?? ''"
        self.until(lambda: text in self.script(seen, css))

    @contextmanager
    def emulating(self, *, dark: bool = False, phone: bool = False) -> Any:
        def scheme(value: str) -> None:
            feature = {"name": "prefers-color-scheme", "value": value}
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

        scheme("dark" if dark else "light")
        if phone:
            size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            scheme("light")
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def complaints(self) -> list[str]:
        """What the browser logged, such as what the page's policy held back, but for refusals of the API."""
        logged = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in logged if "Failed to load resource" not in message]
