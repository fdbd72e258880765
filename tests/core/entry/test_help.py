"""The help of a public module does not print the environment, which may have secrets."""

from __future__ import annotations

import importlib
import pkgutil
import pydoc

import pytest

import llmbx.api
import llmbx.entry

PACKAGES = (llmbx.api, llmbx.entry)
MODULES = [info.name for package in PACKAGES for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]


@pytest.mark.parametrize("name", ["llmbx.testing", *MODULES, *(package.__name__ for package in PACKAGES)])
def test_the_environment_is_not_in_the_help(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVATE_VALUE", "not-for-others")
    text = pydoc.render_doc(importlib.import_module(name), renderer=pydoc.plaintext)
    assert "not-for-others" not in text
