"""Reports in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Opened, browser, chromium

from tts_cli.checks.page.content import write_page

__all__ = ["browser", "chromium"]

Open = Callable[..., Opened]


@pytest.fixture
def open_report(browser: Browser) -> Open:
    """Make a folder's report and open it from disk."""

    def opened(out: Path, *, is_made: bool = False, **settings: Any) -> Opened:
        if not is_made:
            write_page(out)
        return browser.open((out / "report.html").resolve().as_uri(), **settings)

    return opened
