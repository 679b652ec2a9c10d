"""A headless Chromium for pages; tests of them are skipped where there is none."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = os.environ.get("TTS_TESTS_CHROMIUM") or shutil.which("chromium")
FLAGS = ["--autoplay-policy=no-user-gesture-required", "--disable-dev-shm-usage", "--mute-audio"]
if sys.platform == "linux" and os.geteuid() == 0:
    FLAGS.append("--no-sandbox")  # Chromium refuses to run as root with it
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, started once a file: its event loop would be in the way of other tests."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (the browser extra)")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium on the path, or its path in TTS_TESTS_CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Opened:
    """A report in a window of its own, and what went on in it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # errors, violations of the policy, dialogs

    def ids(self) -> list[str]:
        """Of the rows that are elements, in the list's order."""
        found: list[str] = self.page.eval_on_selector_all(
            "#list .row", "nodes => nodes.map(node => node.dataset.id)"
        )
        return found

    def row(self, row_id: str) -> Any:
        """A row of the list."""
        return self.page.locator(f"#list .row[data-id={json.dumps(row_id)}]")

    def current(self) -> str:
        """The id of the current row."""
        row_id: str = self.page.get_attribute("#list .row.current", "data-id")
        return row_id

    def wait_for(self, expression: str) -> None:
        """Wait until a script's expression is true; the page's policy forbids playwright's way."""
        for _ in range(PATIENCE_MS // 50):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came true: {expression}")

    def copied(self) -> str:
        """What is in the clipboard."""
        text: str = self.page.evaluate("navigator.clipboard.readText()")
        return text


class Browser:
    """Opens windows, each in a browser of its own, as far as it remembers anything.

    Args:
        chromium: see the fixture.
    """

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self._contexts: list[Any] = []
        self.windows: list[Opened] = []

    def open(self, address: str, **settings: Any) -> Opened:
        """Open a page, and wait until it has started."""
        settings = {"viewport": {"width": 1360, "height": 2400}, **settings}
        context = self._chromium.new_context(**settings)
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        window = Opened(context.new_page())
        self.windows.append(window)
        page = window.page
        page.on("request", lambda request: window.requests.append(request.url))
        page.on("pageerror", lambda error: window.problems.append(str(error)))
        page.on("dialog", lambda dialog: (window.problems.append(dialog.message), dialog.dismiss()))
        page.on(
            "console",
            lambda message: message.type == "error" and window.problems.append(message.text),
        )
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached")
        return window

    def close(self) -> None:
        """Close all windows; no error may be left in one."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()
        for window in self.windows:
            assert not window.problems, window.problems


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """Windows of one test."""
    found = Browser(chromium)
    yield found
    found.close()
