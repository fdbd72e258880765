"""Lists of nodes."""

from __future__ import annotations

import pytest

from llmbx.errors import UsageError
from llmbx.launchers.base import Launcher


def test_ranges_keep_their_zeros_and_names_are_taken_once() -> None:
    assert Launcher.node_names("n[08-10,20],gpu-a,n20") == ("n08", "n09", "n10", "n20", "gpu-a")


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a-b]", "n 1", "n[1-9999999]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--nodes"):
        Launcher.node_names(text)
