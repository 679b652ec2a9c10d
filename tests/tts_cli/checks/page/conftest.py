"""A headless Chromium for the page; its tests are skipped where there is none."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tts_cli.checks.page.content import write_page

CHROMIUM = os.environ.get("TTS_TESTS_CHROMIUM") or shutil.which("chromium")
FLAGS = [
    "--autoplay-policy=no-user-gesture-required",
    "--disable-dev-shm-usage",
    "--mute-audio",
]
if sys.platform == "linux" and os.geteuid() == 0:
    FLAGS.append("--no-sandbox")  # Chromium refuses to run as root with it
PATIENCE_MS = 10_000


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


Open = Callable[..., Opened]


@pytest.fixture
def open_report(chromium: Any) -> Iterator[Open]:
    """Make a folder's report and open it from disk; no error may be left when the test ends."""
    contexts, windows = [], []

    def opened(out: Path, *, is_made: bool = False, **settings: Any) -> Opened:
        if not is_made:
            write_page(out)
        settings = {"viewport": {"width": 1360, "height": 2400}, **settings}
        context = chromium.new_context(**settings)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        window = Opened(context.new_page())
        windows.append(window)
        page = window.page
        page.on("request", lambda request: window.requests.append(request.url))
        page.on("pageerror", lambda error: window.problems.append(str(error)))
        page.on("dialog", lambda dialog: (window.problems.append(dialog.message), dialog.dismiss()))
        page.on(
            "console",
            lambda message: message.type == "error" and window.problems.append(message.text),
        )
        page.goto((out / "report.html").resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return window

    yield opened
    for context in contexts:
        context.close()
    for window in windows:
        assert window.problems == []
