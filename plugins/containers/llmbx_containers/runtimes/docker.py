"""The runtime `docker`: one container per rank, which shares the host's network, IPC and process namespaces."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from llmbx.errors import InfraError, UsageError
from llmbx.model import Finding, Image, ImageRequest, Launch, Phase, RunSpec, Wrapping
from llmbx.runtimes import container_env
from llmbx.runtimes.base import Progress

from ..naming import is_file, parse_reference
from .container import ARCHIVE, PYTHON, Container, archive, wanted_reference
from .docker_store import daemon_host, listens

RUN_LABEL = "org.llmbx.run"
"""Label of every container: the run's folder, by which leftovers are found."""

_KEEPER = """\
name=llmbx-$$-${LLMBX_RANK:-${SLURM_PROCID:-0}}
setsid sh -c 'tail --pid="$1" -s 0.2 -f /dev/null
gone=0 tries=0
while [ $gone -lt 2 ] && [ $tries -lt 20 ]; do
  docker rm --force "$2"; tries=$((tries + 1)); sleep 2
  left=$(docker ps --all --quiet --filter "name=^/$2\\$") && [ -z "$left" ] && gone=$((gone + 1)) || gone=0
done' keep $$ "$name" < /dev/null > /dev/null 2>&1 &
shift 2
{lend}LLMBX_UMASK=$(umask) exec docker run --name "$name" --env LLMBX_UMASK "$@"\
"""
"""POSIX sh that becomes `docker run`. The container belongs to the daemon: when its client is killed, whoever watches
from outside of the client's process group must remove it: until the daemon has said twice that there is none, for one
that is only being made. No answer is not taken for that; a daemon that never answers again is given up."""

_INSIDE = 'umask "$LLMBX_UMASK"; unset LLMBX_UMASK; exec "$@" 2>&1'
"""POSIX sh that begins every container. The daemon starts them with an umask of its own, and carries stdout and stderr
apart, so that a log would have their lines in another order than they were written."""

_GPU = ("--gpus", "all", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864")


class DockerRuntime(Container):
    """Programs run in containers that the Docker daemon starts."""

    name = "docker"
    start_failure = r"docker: (?:Error response from daemon(?!.*executable file not found)|Cannot connect)"
    summary = "containers of the Docker daemon, one per rank"

    def available(self) -> str | None:
        """Why Docker cannot be used here, or None: there must be a client, and a daemon that answers."""
        if not shutil.which("docker"):
            return "docker is not on PATH"
        host = daemon_host()
        if host.startswith("unix://") and not listens(host.removeprefix("unix://")):
            return f"the Docker daemon is not running (nothing answers at {host})"
        return None

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image as the daemon will have it."""
        reference = wanted_reference(request, self.name)
        if is_file(reference) and archive(request) is None:
            raise UsageError(f"docker cannot start {reference}: it needs a Docker archive ({ARCHIVE}) or a reference")
        name = reference if is_file(reference) else parse_reference(reference).docker
        return Image(kind="docker", reference=name, python=PYTHON, digest=request.digest)

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """The image in the daemon's store: found, pulled, or loaded from a Docker archive."""
        from .docker_images import ensure_stored

        if reason := self.available():
            raise InfraError(f"runtime docker: {reason}")
        return ensure_stored(self.plan(request, install), request, install, progress, offline)

    def look_inside(self, image: Image, install: Path) -> Image:
        """The image with the version of its Python, for which it is started once."""
        from .docker_images import look_into_stored

        return look_into_stored(image, install)

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """`docker run` for one rank: variables by name, mounts at the host's paths, the user's own uid and gid."""
        names = container_env.forwarded(spec, phase)
        argv = ["docker", "run", "--rm", "--pull", "never", "--network", "host", "--ipc", "host", "--pid", "host"]
        argv += _GPU if container_env.needs_gpus(spec, launch) else ()
        argv += ["--user", f"{os.getuid()}:{os.getgid()}", "--label", f"{RUN_LABEL}={run_dir}", "--entrypoint", ""]
        argv += [] if "HOME" in names else ["--env", "HOME=/tmp"]
        argv += [part for name in names for part in ("--env", name)]
        mounts = container_env.mounts(spec, launch, phase, run_dir, ":")
        lend = container_env.if_there(mounts, lambda joined: f'set -- --volume {joined} "$@"')
        for mount in (mount for mount in mounts if not mount.optional):
            argv += ["--volume", container_env.joined(mount)]
        argv += ["--workdir", str(run_dir), image.reference, "/bin/sh", "-c", _INSIDE, "inside"]
        return Wrapping(argv=("/bin/sh", "-c", _KEEPER.replace("{lend}", lend), "keep", *argv))

    def check(self, install: Path) -> Finding | None:
        """Start a container from an image made of the host's own shell."""
        from .tiny_root import check_with, tiny_archive

        if reason := self.available():
            absent = shutil.which("docker") is None
            fix = "install Docker, or choose --runtime" if absent else "start the Docker daemon, or set DOCKER_HOST"
            return Finding(rule="runtime docker", problem=reason, fix=fix, warning=absent)
        with tiny_archive() as archive:
            tag = "llmbx-doctor:check"
            commands = (
                ["docker", "import", str(archive), tag],
                ["docker", "run", "--rm", "--network", "none", tag, "/bin/sh", "-c", "exit 0"],
            )
            try:
                return check_with("docker", commands)
            finally:
                check_with("docker", (["docker", "image", "rm", "--force", tag],))
