"""Registry queries and retries, tested with a small registry on loopback that requires a login."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmbx.config.plugin_settings import join
from llmbx.errors import InfraError, UsageError
from llmbx_environments.containers.images.registry import RemoteImage, look_up, look_up_pinned
from llmbx_environments.containers.images.transient import Attempts, TransientError, is_transient
from llmbx_environments.containers.naming import parse_reference
from llmbx_environments.containers.settings import ContainerSettings

from .loopback_registry import CONFIG, IMAGE, INDEX, Registry, digest

QUICK = ContainerSettings(image_retries=3, image_backoff_s=0.01, registry_timeout_s=5)


def docker_login(tmp_path: Path, registry: str, login: bytes) -> None:
    (tmp_path / "docker").mkdir()
    auths = {registry: {"auth": base64.b64encode(login).decode()}}
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": auths}))


@pytest.mark.parametrize("tool", ["docker", "enroot"])
def test_a_login_is_found_where_the_tools_keep_it(tool: str, registry: Registry, tmp_path: Path) -> None:
    if tool == "docker":
        docker_login(tmp_path, registry.name, b"me:secret word")
    else:
        (tmp_path / "enroot").mkdir()
        line = f'machine {registry.name} login me password "secret word"\n'
        (tmp_path / "enroot/.credentials").write_text(line)
        (tmp_path / "enroot/.credentials").chmod(0o600)
    found = look_up(parse_reference(f"{registry.name}/team/app:1"), QUICK)
    assert found == RemoteImage(digest=digest(INDEX), config=CONFIG, layer_bytes=123)


def test_without_a_login_the_line_says_how_to_log_in(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"denied access to .* \(401\): log in with `docker login"):
        look_up(parse_reference(f"{registry.name}/team/app:1"), QUICK)
    docker_login(tmp_path, registry.name, b"me:wrong word")
    with pytest.raises(InfraError, match="log in with") as refused:
        look_up(parse_reference(f"{registry.name}/team/app:1"), QUICK)
    assert "wrong word" not in str(refused.value)


def test_what_is_not_there_and_what_is_no_manifest(registry: Registry) -> None:
    registry.login = False
    with pytest.raises(UsageError, match=r"has no image .*:2 \(404\)"):
        look_up(parse_reference(f"{registry.name}/team/app:2"), QUICK)
    with pytest.raises(InfraError, match="did not return a valid manifest"):
        look_up(parse_reference(f"{registry.name}/team/app:text"), QUICK)
    by_digest = look_up(parse_reference(f"{registry.name}/team/app@{digest(INDEX)}"), QUICK)
    assert by_digest.digest == digest(INDEX)


def test_a_registry_that_returns_another_image_than_the_digest_names_is_refused(registry: Registry) -> None:
    """The digest of an answer is computed from its content, whatever the registry claims."""
    registry.login = False
    registry.answers[digest(INDEX)] = IMAGE
    name = f"{registry.name}/team/app"
    with pytest.raises(InfraError) as refused:
        look_up(parse_reference(f"{name}@{digest(INDEX)}"), QUICK)
    problem = f"{registry.name} returned the wrong image for {name}@{digest(INDEX)}: got {digest(IMAGE)}"
    assert str(refused.value) == problem
    with pytest.raises(InfraError, match="returned the wrong image"):
        look_up_pinned(parse_reference(f"{name}:1"), digest(INDEX), QUICK)


def test_a_pinned_digest_is_found_though_the_tag_has_moved(registry: Registry) -> None:
    registry.login = False
    name = f"{registry.name}/team/app"
    assert look_up_pinned(parse_reference(f"{name}:text"), digest(INDEX), QUICK).digest == digest(INDEX)
    gone = "sha256:" + "9" * 64
    assert look_up_pinned(parse_reference(f"{name}:1"), gone, QUICK).digest == digest(INDEX), "the caller compares"
    assert look_up_pinned(parse_reference(f"{name}:1"), None, QUICK).digest == digest(INDEX)


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_no_network_is_not_a_missing_image(registry: Registry) -> None:
    """A missing image is a usage error (exit code 2); no answer is the infrastructure's (4), and worth a retry."""
    with silent_server() as silent, pytest.raises(TransientError) as mute:
        look_up(parse_reference(f"{silent}/team/app:1"), ContainerSettings(registry_timeout_s=0.2))
    with pytest.raises(TransientError) as refused:
        look_up(parse_reference("127.0.0.1:1/team/app:1"), QUICK)
    with pytest.raises(TransientError) as unknown:
        look_up(parse_reference("registry.invalid/team/app:1"), QUICK)
    said = [str(found.value) for found in (mute, refused, unknown)]
    reasons = ("no answer within 0.2 s", "Connection refused", "its name cannot be resolved (")
    assert all(reason in line and "is not known" in line for reason, line in zip(reasons, said, strict=True)), said
    assert all(found.value.exit_code == 4 for found in (mute, refused, unknown))
    registry.login = False
    with pytest.raises(UsageError, match=r"has no image .* \(404\)") as missing:
        look_up(parse_reference(f"{registry.name}/team/app:2"), QUICK)
    assert missing.value.exit_code == 2 and "cannot be reached" not in str(missing.value)


def test_a_passing_failure_is_tried_again_with_growing_pauses() -> None:
    tried: list[float] = []
    said: list[str] = []

    def flaky() -> str:
        tried.append(time.monotonic())
        if len(tried) < 4:
            raise TransientError("connection reset")
        return "done"

    assert Attempts("image x", QUICK, said.append).retry(flaky) == "done"
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses[0] >= 0.01 and pauses[1] >= 0.02 and pauses[2] >= 0.04
    assert said[0] == "image x: connection reset; retrying in 0.01 s (attempt 2 of 4)"


def test_a_lasting_failure_is_not_tried_again_and_no_pause_passes_the_deadline() -> None:
    calls: list[int] = []

    def fail(error: Exception) -> None:
        calls.append(1)
        raise error

    with pytest.raises(InfraError, match=r"^no such thing$"):
        Attempts("x", QUICK, print).retry(lambda: fail(InfraError("no such thing")))
    assert len(calls) == 1
    with pytest.raises(InfraError, match=r"busy \(after 1 attempt\)"):
        brief = Attempts("x", QUICK.replace(image_timeout_s=5.0), print)
        brief.retry(lambda: fail(TransientError("busy", after_s=30)))
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("text", "transient"),
    [
        ("pinging container registry 127.0.0.1:1: dial tcp: connect: connection refused", True),
        ("unexpected EOF", True),
        ("toomanyrequests: too many requests", True),
        ("received unexpected HTTP status: 502 Bad Gateway", True),
        ("net/http: TLS handshake timeout", True),
        ("manifest unknown: manifest unknown", False),
        ("unauthorized: authentication required", False),
        ("no space left on device", False),
        ("sha256:5002 is not a digest of 4290 bytes", False),
    ],
)
def test_transient_failures_are_recognized(text: str, transient: bool) -> None:
    assert is_transient(text) is transient


def test_limits_are_the_users() -> None:
    given = {"LLMBX_IMAGE_TIMEOUT_S": "10", "LLMBX_IMAGE_RETRIES": "0"}
    assert join(ContainerSettings, None, given, {}).values == {"image_timeout_s": 10.0, "image_retries": 0}
    for bad in ("x", "-1", "nan"):
        with pytest.raises(UsageError, match=f"^LLMBX_IMAGE_BACKOFF_S='{bad}': "):
            join(ContainerSettings, None, {"LLMBX_IMAGE_BACKOFF_S": bad}, {})


@pytest.mark.parametrize(
    ("registry", "plain"),
    [
        ("127.0.0.1:5000", True),
        ("localhost:5000", True),
        ("localhost", True),
        ("nvcr.io", False),
        ("in.house:5000", True),
    ],
)
def test_only_loopback_and_named_registries_are_spoken_to_without_tls(registry: str, plain: bool) -> None:
    assert ContainerSettings(http_registries="other:1, in.house:5000").plain_http(registry) is plain
