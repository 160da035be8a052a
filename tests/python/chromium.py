"""Chromium without a window, for tests of pages."""

import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def browser():
    """Playwright's browser; a test that has no playwright or no Chromium is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
