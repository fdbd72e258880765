"""Access to gated repositories is checked before the start; errors name the page to request access."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.run.context import require_access
from llmbx.run.launch import cache_variables


@pytest.fixture
def hub() -> Iterator[str]:
    """A hub on loopback: `meta/open` is readable with the token `good`, `meta/none` is unknown, the rest is gated."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            good = self.headers.get("Authorization") == "Bearer good"
            code = 404 if "/meta/none/" in self.path else 200 if good and "/meta/open/" in self.path else 403
            self.send_response(500 if "/meta/ill/" in self.path else code)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_access_is_checked(hub: str) -> None:
    assert require_access(["meta/open"], {"HF_ENDPOINT": hub, "HF_TOKEN": "good"}) is None


@pytest.mark.parametrize(
    ("repository", "token", "said"),
    [
        (
            "meta/open",
            "",
            r"meta/open is gated and HF_TOKEN is not set: request access on https://huggingface.co/meta/open",
        ),
        ("meta/shut", "good", r"HF_TOKEN has no access to it yet: request access on https://huggingface.co/meta/shut"),
        ("meta/none", "good", r"the hub has no repository meta/none"),
    ],
)
def test_no_access_names_the_page(hub: str, repository: str, token: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        require_access([repository], {"HF_ENDPOINT": hub, "HF_TOKEN": token})


def test_a_failing_or_absent_hub_is_an_infrastructure_error(hub: str) -> None:
    with pytest.raises(InfraError, match="returned HTTP 500"):
        require_access(["meta/ill"], {"HF_ENDPOINT": hub})
    with pytest.raises(InfraError, match="cannot be reached"):
        require_access(["meta/open"], {"HF_ENDPOINT": "http://127.0.0.1:1"})


def test_offline_sends_no_request() -> None:
    assert require_access(["meta/open"], {"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_OFFLINE": "1"}) is None


def test_ranks_find_the_cache_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    mine = {"HF_HOME": str(tmp_path / "mine")}
    assert cache_variables(tmp_path, mine, offline=False) == mine
    assert cache_variables(tmp_path, {"HF_HOME": "/nowhere"}, offline=False) == {}, "nothing that could be mounted"
    assert cache_variables(tmp_path, {}, offline=True) == {"HF_HUB_OFFLINE": "1"}
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    assert cache_variables(tmp_path, {}, offline=False) == {}
    own = str(tmp_path / ".cache/huggingface")
    assert cache_variables(tmp_path, {}, offline=True) == {"HF_HOME": own, "HF_HUB_OFFLINE": "1"}
    assert cache_variables(tmp_path, mine, offline=True) == {**mine, "HF_HUB_OFFLINE": "1"}
