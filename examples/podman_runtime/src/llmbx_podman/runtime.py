"""The runtime `podman`: one container per rank, with the host's network, IPC and process namespaces.

Podman has no daemon: `podman run` is the parent of the container, and root in a rootless container is the user, who
therefore owns the files that a rank writes.
"""

import shutil
from pathlib import Path

from llmbx.api import (
    Finding,
    Image,
    ImageRequest,
    InfraError,
    Launch,
    Offer,
    Phase,
    Progress,
    RunSpec,
    Runtime,
    UsageError,
    Wrapping,
    settings_of,
)

from . import store
from .settings import PodmanSettings

LABEL = "org.llmbx.run"
"""Label of every container with the run's folder."""

OTHER_FORMATS = (".sqsh", ".sif")
"""Suffixes of image files that Podman cannot load."""

_CLIENT = """\
name=llmbx-$$-${LLMBX_RANK:-${SLURM_PROCID:-0}}
LLMBX_OUTLIVES_RUN=1 setsid sh -c '
  tail --pid="$1" -s 0.2 -f /dev/null
  for try in 1 2 3 4 5 6 7 8 9 10; do podman rm --force --ignore --time 0 "$2" && break; sleep 2; done
' remove $$ "$name" < /dev/null > /dev/null 2>&1 &
shift 2
{optional_mounts}exec podman run --name "$name" --umask "$(umask)" "$@"\
"""
"""POSIX sh that executes `podman run`, and removes the container after the client's end.

The container survives if its client is killed. A removal that fails is tried again: on a busy machine, Podman may be
cleaning the container up itself. `LLMBX_OUTLIVES_RUN` keeps llmbx from ending the process that removes it together with
the run.
"""

_INSIDE = 'exec "$@" 2>&1'
"""POSIX sh that every container starts with: two pipes would change the order of the lines in the log."""


class PodmanRuntime(Runtime):
    """Runs programs in containers of Podman."""

    name = "podman"
    summary = "containers of Podman, one per rank"
    uses_image = True
    start_failure = r"^Error: (?!.*executable file not found).*(?:runc|crun|OCI runtime)"

    def available(self) -> str | None:
        """None if Podman is installed, else the reason."""
        return None if shutil.which("podman") else "podman is not on PATH"

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """An offer after all container tools of llmbx, if the run has an image that Podman can start."""
        if request.reference is None or request.reference.endswith(OTHER_FORMATS):
            return None
        return Offer(rank=29, reason="podman is the first available container tool")

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image by its name in Podman's store, or by the path of its archive."""
        reference = request.reference
        if reference is None:
            raise UsageError("the recipe has no container image for the runtime podman: pass one with --image")
        if reference.endswith(OTHER_FORMATS):
            raise UsageError(f"podman cannot start {reference}: expected a reference or a Docker archive (.tar)")
        archive = store.archive(reference)
        name = str(archive) if archive else store.full_name(reference)
        return Image(kind="podman", reference=name, python="python3", digest=request.digest)

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        """Find the image in Podman's store, load it from its archive, or pull it; check its digest."""
        if why_not := self.available():
            raise InfraError(f"runtime podman: {why_not}")
        image = self.plan(request, install)
        archive = store.archive(image.reference)
        found = store.load(archive, progress) if archive else store.find(image.reference, progress, offline)
        if request.digest and not request.accept_change and request.digest not in found.digests:
            raise InfraError(
                f"image {image.reference}: the recipe is pinned to {request.digest}, but it is {found.digest}; to use "
                f"it anyway, pass --accept-image-change"
            )
        digest = request.digest if request.digest in found.digests else found.digest
        return image.replace(reference=found.id if archive else image.reference, digest=digest)

    def look_inside(self, image: Image, install: Path) -> Image:
        """Return the image with the version of its Python. Raises `UsageError` if it has none."""
        return image.replace(versions={"python": store.python_version(image.reference)})

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        """Wrap one rank with `podman run`: variables by name, mounts at the host's paths."""
        argv = ["podman", "run", "--rm", "--pull", "never", "--log-driver", "none", "--label", f"{LABEL}={run_dir}"]
        argv += ["--network", "host", "--ipc", "host", "--pid", "host", "--security-opt", "label=disable"]
        argv += ["--device", "nvidia.com/gpu=all"] if self.needs_gpus(spec, launch) else []
        argv += [part for name in self.forwarded_variables(spec, phase) for part in ("--env", name)]
        mounts = self.container_mounts(spec, launch, phase, run_dir, ":")
        argv += [part for m in mounts if not m.optional for part in ("--volume", m.joined())]
        optional = self.for_optional_mounts(mounts, lambda joined: f'set -- --volume {joined} "$@"')
        argv += [*settings_of(spec, PodmanSettings).words(), "--entrypoint", "", "--workdir", str(run_dir)]
        argv += [image.reference, "/bin/sh", "-c", _INSIDE, "inside"]
        return Wrapping(argv=("/bin/sh", "-c", _CLIENT.replace("{optional_mounts}", optional), *argv))

    def check(self, install: Path) -> Finding | None:
        """Start a container on a copy-on-write view of the host's root file system."""
        if why_not := self.available():
            return Finding(rule="runtime podman", problem=why_not, fix="install Podman 4 or newer", warning=True)
        try:
            store.podman("run", "--rm", "--network", "none", "--rootfs", "/:O", "/bin/true")
        except InfraError as error:
            return Finding(rule="runtime podman", problem=str(error), fix="run the command and repair Podman")
        return None
