"""The supervisor of a container removes it if the Docker client is killed, even if the daemon is busy."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.model import ImageRequest, Launch, RunSpec
from llmbx_environments.containers.runtimes.docker import DockerRuntime

from ....patience import wait_until

BUSY_DOCKER = """\
#!/bin/sh
echo "$*" >> "$CALLS"
case $1 in
run) exec /bin/sleep 60 ;;
ps)
  asked=$(grep -c '^ps' "$CALLS")
  [ "$asked" -gt 2 ] || exit 1
  [ "$asked" -gt 3 ] || echo 0123456789ab ;;
*) exit 1 ;;
esac
"""
"""A docker client: two queries fail, the next one reports the container, and later ones do not."""


def test_a_failed_query_does_not_count_as_a_removed_container(
    tmp_path: Path, make_spec: Callable[..., RunSpec], make_launch: Callable[..., Launch]
) -> None:
    calls = tmp_path / "calls"
    for name, text in (("docker", BUSY_DOCKER), ("sleep", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    runtime, launch = DockerRuntime(), make_launch(0)
    image = runtime.plan(ImageRequest(reference="ci/tiny:1"), tmp_path)
    wrapping = runtime.wrap(make_spec(), launch, launch.phases[0], image, tmp_path / "run")
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}
    client = subprocess.Popen([*wrapping.argv, "true"], env=environ, start_new_session=True)
    wait_until(lambda: calls.exists() and calls.read_text().startswith("run --name llmbx-"))
    name = calls.read_text().split()[2]
    client.kill()
    client.wait()
    wait_until(lambda: calls.read_text().count("\nps ") == 5)
    time.sleep(0.5)
    said = [line.split()[0] for line in calls.read_text().splitlines()]
    assert said == ["run", *["rm", "ps"] * 5], (
        "it stops after the daemon has reported twice that the container does not exist"
    )
    assert calls.read_text().count(f"rm --force {name}\n") == 5
