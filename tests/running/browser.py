"""A report in a real browser, for tests: without a browser and what drives it they are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
NEEDED = [
    pytest.mark.thorough,
    pytest.mark.skipif(not find_spec("selenium"), reason="selenium drives the browser: pip install selenium"),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no Chromium with its chromedriver on the path"),
]
FINDINGS = ("ranking", "trees", "accepted", "times", "calibration", "session")
TABS = (*FINDINGS, "machine", "runs", "definitions", "commands")


class Page:
    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        self.wide(1280)
        browser.get(path.as_uri())
        self.wait("return document.querySelector('.tree li') !== null")

    def __call__(self, script: str, *arguments: object) -> Any:
        return self.browser.execute_script(script, *arguments)

    def wait(self, script: str) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, 60).until(lambda _: self(script))

    def wide(self, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def show(self, tab: str) -> None:
        self("document.getElementById(arguments[0]).click()", f"tab-{tab}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def choose(self, select: str, value: str) -> None:
        self(
            "const s = document.getElementById(arguments[0]);"
            "s.value = [...s.options].find((one) => one.textContent.includes(arguments[1])).value;"
            "s.dispatchEvent(new Event('change'))",
            select,
            value,
        )

    def see(self, question: str, method: str) -> None:
        self.choose("question", question)
        self.wait(
            f"return document.querySelector('#pane-first h3')?.textContent.startsWith('{method}') && "
            "document.querySelector('#pane-first .tree li') !== null"
        )

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )
        return found


@contextmanager
def started() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()
