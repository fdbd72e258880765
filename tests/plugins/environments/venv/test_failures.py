"""Failures of uv and pip in one line, from what they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx_environments.venv.failures import explain

WHEELS = Path("/install/wheels")
MISSING = "ERROR: No matching distribution found for torch==2.13.0"
RETRY = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"[Errno 111] {}\")'"
NOWHERE = """\
Using Python 3.11.7 environment at: v
error: No solution found when resolving dependencies
  cause: Because torch was not found in the package registry and you require torch==2.13.0, we can conclude that …
"""
WRAPPED = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of torch==2.13.0 and you require torch==2.13.0, we
      can conclude that your requirements are unsatisfiable.
"""
DENIED = (
    NOWHERE + "\nhint: An index (https://u:p@x/) returned a 403 Forbidden error. Check that the index URL is correct.\n"
)
REFUSED = """\
error: Request failed after 1 retry in 1.3s
  cause: Failed to fetch: https://u:p@x/simple/torch/
  cause: Connection refused (os error 111)
"""
SERVER = """\
error: Request failed after 1 retries
  Caused by: Failed to fetch: `https://u:p@x/simple/torch/`
  Caused by: HTTP status server error (500 Internal Server Error) for url (https://u:p@x/simple/torch/)
"""
DEPENDENCY = """\
warning: `VIRTUAL_ENV=/x` is ignored
error: No solution found when resolving dependencies
  cause: Because a was not found in https://u:p@x/ and all versions of b depend on a>2, we can conclude that b fails.
         And because you require b==1.0, we can conclude that your requirements are unsatisfiable.

hint: https://u:p@x/ is a hint
"""


@pytest.mark.parametrize(
    ("text", "configured", "offline", "said"),
    [
        (f"{RETRY.format('Connection refused')}\n{MISSING}", {}, False, "torch==2.13.0 could not be downloaded: Conn"),
        (f"{RETRY.format('Network is unreachable')}\n{MISSING}", {}, False, "(searched: the default index, according"),
        (MISSING, {"index-url": "https://u:p@x/", "find-links": "/w"}, False, "searched: index-url, find-links, acc"),
        (MISSING, {"no-index": "1", "find-links": "/w"}, False, "was not found (searched: find-links,"),
        (MISSING, {}, True, "torch==2.13.0 is not in /install/wheels or another local find-links folder"),
        ("ERROR: [Errno 28] No space left on device", {}, False, "the disk is full"),
        ("ERROR: 403 Client Error: Forbidden for url: https://u:p@x/", {}, False, "downloaded: 403 Client Error"),
        ("Collecting x\nERROR: Cannot install a and b", {}, False, "uv failed: Cannot install a and b"),
        ("", {}, False, "uv failed: no error output"),
        (NOWHERE, {"no-index": "1"}, False, "torch==2.13.0 was not found (searched: no package source,"),
        (WRAPPED, {}, False, "torch==2.13.0 was not found (searched: the default index,"),
        (WRAPPED, {}, True, "torch==2.13.0 is not in /install/wheels or another local find-links folder"),
        (DENIED, {}, False, "torch==2.13.0 could not be downloaded: 403 Forbidden (searched: the default index,"),
        (REFUSED, {}, False, "torch could not be downloaded: Connection refused (searched: the default index,"),
        (SERVER, {}, False, "torch could not be downloaded: HTTP status server error (500 Internal Server Error) ("),
        (DEPENDENCY, {}, False, "uv failed: Because a was not found in https://x/ and all versions of b depend on a>2"),
        ("error: Failed to install\n  cause: No space left on device (os error 28)", {}, False, "the disk is full"),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_without_credentials(
    text: str, configured: dict[str, str], offline: bool, said: str
) -> None:
    line = explain("uv", text.splitlines(), configured, WHEELS, offline)
    assert said in line
    assert "\n" not in line
    assert "u:p@" not in line and "hint" not in line and "VIRTUAL_ENV" not in line
