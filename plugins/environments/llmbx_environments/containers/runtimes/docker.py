"""The runtime `docker`: one container per rank, with the host's network, IPC and processes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from llmbx.api import (
    Finding,
    Image,
    ImageRequest,
    InfraError,
    Launch,
    Phase,
    Progress,
    RunSpec,
    UsageError,
    Wrapping,
)

from ..naming import is_file, parse_reference
from .container import ARCHIVE, PYTHON, Container, archive
from .docker_store import daemon_host, refusal

RUN_LABEL = "org.llmbx.run"
"""Label of every container with the run's folder, to find leftover containers."""

_SUPERVISOR = """\
name=llmbx-$$-${LLMBX_RANK:-${SLURM_PROCID:-0}}
LLMBX_OUTLIVES_RUN=1 setsid sh -c 'tail --pid="$1" -s 0.2 -f /dev/null
gone=0 tries=0
while [ $gone -lt 2 ] && [ $tries -lt 20 ]; do
  docker rm --force "$2"; tries=$((tries + 1)); sleep 2
  left=$(docker ps --all --quiet --filter "name=^/$2\\$") \
&& [ -z "$left" ] && gone=$((gone + 1)) || gone=0
done' supervisor $$ "$name" < /dev/null > /dev/null 2>&1 &
shift 2
{optional_mounts}LLMBX_UMASK=$(umask) exec docker run --name "$name" --env LLMBX_UMASK "$@"\
"""
"""POSIX sh that starts a supervisor and then executes `docker run`.

The container is a child of the daemon, so it survives if its client is killed. The supervisor runs
in a session of its own, waits for the client to end, and removes the container until the daemon has
reported twice that it does not exist, because the container may still be in creation. A failed
query does not count as such a report; the supervisor gives up after 20 attempts. With
LLMBX_OUTLIVES_RUN it is not ended with the run, whose containers it removes."""

_INSIDE = 'umask "$LLMBX_UMASK"; unset LLMBX_UMASK; exec "$@" 2>&1'
"""POSIX sh that every container starts with. It restores the user's umask, because the daemon sets
its own, and joins stderr and stdout, because the daemon transports them separately and would change
the order of lines in the log."""

_ISOLATION = ("--network", "host", "--ipc", "host", "--pid", "host")
_GPU = ("--gpus", "all", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864")


class DockerRuntime(Container):
    """Runs programs in containers of the Docker daemon."""

    name = "docker"
    start_failure = (
        r"docker: (?:Error response from daemon(?!.*executable file not found)|Cannot connect)"
    )
    summary = "containers of the Docker daemon, one per rank"

    def available(self) -> str | None:
        """None if the Docker client is installed and the daemon is reachable, else the reason."""
        if not shutil.which("docker"):
            return "docker is not on PATH"
        host = daemon_host()
        refused = refusal(host.removeprefix("unix://")) if host.startswith("unix://") else None
        if isinstance(refused, PermissionError):
            advice = "ask for membership in the group of its socket"
            return f"no permission to use the Docker daemon at {host}: {advice}"
        return f"the Docker daemon is not running (cannot connect to {host})" if refused else None

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image with the reference that the daemon uses."""
        reference = self.image_reference(request)
        if not is_file(reference):
            reference = parse_reference(reference).docker
        elif archive(request) is None:
            expected = f"expected a Docker archive ({ARCHIVE}) or a reference"
            raise UsageError(f"docker cannot start {reference}: {expected}")
        return Image(kind="docker", reference=reference, python=PYTHON, digest=request.digest)

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Find the image in the daemon, pull it, or load it from a Docker archive."""
        from ..images.store import ImageStore
        from .docker_images import StoredImage, ensure_stored, load_archive

        if reason := self.available():
            raise InfraError(f"runtime docker: {reason}")
        need = StoredImage(
            image=self.plan(request, install),
            request=request,
            store=ImageStore(install),
            progress=progress,
            offline=offline,
        )
        source = archive(request)
        return load_archive(need, source) if source else ensure_stored(need)

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with its Python version; starts each image once."""
        from .docker_images import inspect_stored

        return inspect_stored(image, install)

    def wrap(
        self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path
    ) -> Wrapping:
        """Wrap one rank with `docker run`, with the host's paths and the user's ids.

        Variables are passed by name.
        """
        names = self.forwarded_variables(spec, phase)
        mounts = self.container_mounts(spec, launch, phase, run_dir, ":")

        argv = ["docker", "run", "--rm", "--pull", "never", *_ISOLATION]
        if self.needs_gpus(spec, launch):
            argv += _GPU
        argv += ["--user", f"{os.getuid()}:{os.getgid()}", "--label", f"{RUN_LABEL}={run_dir}"]
        argv += ["--entrypoint", ""]
        if "HOME" not in names:
            argv += ["--env", "HOME=/tmp"]
        for name in names:
            argv += ["--env", name]
        for mount in mounts:
            if not mount.optional:
                argv += ["--volume", mount.joined()]
        argv += ["--workdir", str(run_dir), image.reference, "/bin/sh", "-c", _INSIDE, "inside"]

        optional = self.for_optional_mounts(mounts, lambda joined: f'set -- --volume {joined} "$@"')
        script = _SUPERVISOR.replace("{optional_mounts}", optional)
        return Wrapping(argv=("/bin/sh", "-c", script, "docker-run", *argv))

    def check(self, install: Path) -> Finding | None:
        """Start a container from a minimal image with the host's shell."""
        from .tiny_root import check_with, tiny_archive

        if reason := self.available():
            if shutil.which("docker") is None:
                return self.not_here(reason, "install Docker, or choose --runtime")
            fix = "start the Docker daemon, or set DOCKER_HOST"
            return Finding(rule="runtime docker", problem=reason, fix=fix)
        tag = "llmbx-doctor:check"
        with tiny_archive() as file:
            load = ["docker", "import", str(file), tag]
            start = ["docker", "run", "--rm", "--network", "none", tag, "/bin/sh", "-c", "exit 0"]
            try:
                return check_with("docker", (load, start))
            finally:
                check_with("docker", (["docker", "image", "rm", "--force", tag],))
