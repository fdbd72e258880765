"""What `llmbx nodes bisect` refuses, in one line and before anything is started."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmbx.errors import UsageError
from llmbx_accept.cli import command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grok1", "--nodes", "n1"), "at least two nodes"),
        (("grok1", "--nodes", "n[1-4]", "--gpus", "8"), "--gpus cannot be combined"),
        (("grok1", "--nodes", "n[1-4]", "--detect", "0%"), "more than 0 %"),
        (("--nodes", "n[1-4]"), "no workload"),
        (("grok1", "--size", "mini", "--launcher", "local", "--nodes", "n[1-4]"), "cannot choose nodes"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(command, ["bisect", *arguments], catch_exceptions=False, standalone_mode=False)
