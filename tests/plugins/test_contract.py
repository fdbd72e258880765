"""Every plugin of this repository meets the contract."""

from __future__ import annotations

import pytest

from llmbx.plugins.manager import load
from llmbx.testing import assert_plugin_ok


@pytest.mark.parametrize("name", [info.name for info in load().infos])
def test_a_plugin_meets_the_contract(name: str) -> None:
    assert_plugin_ok(name)
