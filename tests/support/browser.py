"""Chromium for tests of pages. It is the system's: nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "needs Chromium: apt-get install chromium (or brew, dnf ...), or name one in STOWPLAN_CHROMIUM"


def chromium() -> str:
    """The path of the browser. Skips, unless STOWPLAN_REQUIRE_BROWSER=1, where there is none."""
    found = os.environ.get("STOWPLAN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("STOWPLAN_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{HOW}; STOWPLAN_REQUIRE_BROWSER=1 forbids skipping")
        pytest.skip(HOW)
    return found


@contextmanager
def launched() -> Generator[Browser]:
    """The browser, without a window."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    # Without a sandbox, since root may have none; the pages are ours.
    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()
