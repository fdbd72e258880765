"""One real Chromium for the tests of this folder, and pages as users write them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import apt

PROGRAM = "chromium"
Open = Callable[..., Any]


def install() -> str | None:
    """Install Chromium where that is possible; why there is none, or None when there is one."""
    if shutil.which(PROGRAM):
        return None
    why = apt.install([PROGRAM, "fonts-dejavu-core"])
    return f"Chromium could not be installed: {why}" if shutil.which(PROGRAM) is None else None


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A running Chromium without a window."""
    from playwright.sync_api import sync_playwright

    why = install()
    if why:
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must look at the report in a browser")
        pytest.skip(why)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(PROGRAM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(chromium: Any) -> Iterator[Open]:
    """`show(path, color_scheme="dark")`: the page in a fresh tab.

    When the test is over, nothing but the file itself may have been asked for, and nothing said to the console.
    """
    contexts, asked, said = [], [], []

    def begin(path: Path, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri())
        return tab

    yield begin
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file://", "blob:"))] == []
    assert len([url for url in asked if url.startswith("file://")]) == len(contexts)
    assert said == []
