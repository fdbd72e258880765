"""Drive a runtime: a program in an image uses variables and mounts, fails, and is cancelled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from llmbx.api import (
    Environment,
    Image,
    ImageRequest,
    Launch,
    Launcher,
    LlmbxError,
    Mount,
    RunSpec,
    Runtime,
    Wrapping,
)

from .driven import CODE, Driven, Fault, Place, read
from .outcome import Found, judged

NO_IMAGE = "it starts container images, and no image was named: --image IMAGE"


def drive_runtime(
    runtime: Runtime, launcher: Launcher, spec: RunSpec, request: ImageRequest, place: Place
) -> list[Found]:
    """Return what the drive found. `request` names the image of a runtime that uses images."""
    if why_not := runtime.available():
        return [("not checked", [f"it cannot be used here: {why_not}"])]
    if runtime.uses_image and not request.reference:
        return [("not checked", [NO_IMAGE])]
    drive = Drive(runtime, launcher, spec, request, place)
    scenarios = [drive.prepare, drive.run, drive.cancel]
    passed = "a program runs with its variables and mounts, fails with its exit code, is cancelled"
    if runtime.uses_image:
        scenarios.append(drive.missing)
        passed += ", a missing image is refused"
    return [judged([*place.drive(*scenarios)], passed)]


def check_request(reference: str | None) -> ImageRequest:
    """Return what the driven program needs: this Python's version without packages, or an image."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = Environment(name="llmbx-check", pythons=(version,), steps=())
    return ImageRequest(environment=environment, reference=reference)


class Drive:
    """The parts of a drive; the image is prepared once."""

    def __init__(
        self,
        runtime: Runtime,
        launcher: Launcher,
        spec: RunSpec,
        request: ImageRequest,
        place: Place,
    ) -> None:
        self.runtime, self.launcher, self.request, self.place = runtime, launcher, request, place
        self.spec: RunSpec = spec.replace(runtime=runtime.name)
        self.install = place.root / "install"
        self.image: Image | None = None

    def prepare(self) -> Iterator[str]:
        """Fetch the image, and find it again without the network."""
        self.install.mkdir(parents=True, exist_ok=True)
        planned = self.runtime.plan(self.request, self.install)
        prepared = self.runtime.prepare(self.request, self.install, _quiet)
        image = self.image = self.runtime.look_inside(prepared, self.install)
        if planned.reference != image.reference:
            yield f"plan names the image {planned.reference}, prepare {image.reference}"
        again = self.runtime.prepare(self.request, self.install, _quiet, offline=True)
        if (again.reference, again.path) != (image.reference, image.path):
            yield "a second prepare, without the network, returns another image"

    def run(self) -> Iterator[str]:
        """A program that reads two mounts, writes into the run folder, and fails."""
        image = self._prepared()
        data, fixed = self.place.root / "data", self.place.root / "fixed"
        for folder in (data, fixed):
            folder.mkdir()
            (folder / "file").write_text("mounted\n", encoding="utf-8")
        mounts = (Mount(source=str(data)), Mount(source=str(fixed), read_only=True))
        program = (
            f"cat '{data}/file' '{fixed}/file' > mounted; "
            f"echo > '{data}/made'; "
            f"'{image.python}' -c 'print(6 * 7)' > python; "
            f"echo > '{fixed}/made'"
        )
        driven = self._start("run", "end", str(CODE), program, mounts=mounts)
        end = driven.ended("the job has not ended")
        if not driven.has("started"):
            printed = " ".join(driven.log().split()[-40:]) or "nothing was printed"
            raise Fault(f"the program did not start: {printed}")
        if end.exit_code != CODE:
            code = end.exit_code
            yield f"the job ended with exit code {code}, expected that of the program, {CODE}"
        yield from driven.problems()
        if any(driven.token in word for word in _words(driven.wrapping)):
            yield "the value of a secret is in the wrapping: pass its name, never its value"
        if read(driven.folder / "mounted") != "mounted\nmounted\n":
            yield "a folder of launch.mounts cannot be read at its path"
        elif not (data / "made").exists():
            yield "a folder of launch.mounts cannot be written"
        if (fixed / "made").exists() and not self.runtime.shares_host_files:
            hint = "a runtime without mounts sets shares_host_files"
            yield f"a read-only folder of launch.mounts can be written ({hint})"
        if read(driven.folder / "python") != "42\n":
            yield f"the image's Python, {image.python}, does not run"

    def cancel(self) -> Iterator[str]:
        """A program that works until its job is cancelled."""
        driven = self._start("cancel", "beat", "0")
        driven.wait("the program has not started", lambda: driven.has("beat"))
        self.launcher.cancel(driven.job, driven.folder)
        driven.ended("the job has not ended, although it was cancelled,")
        if driven.goes_on():
            yield "the program still works after its job was cancelled"

    def missing(self) -> Iterator[str]:
        """An image file that does not exist is refused before the start."""
        reference = str(self.place.root / "no-such-image.tar")
        request = self.request.replace(reference=reference, digest=None)
        try:
            self.runtime.prepare(request, self.install, _quiet, offline=True)
        except LlmbxError:
            return
        yield "prepare returns an image for a file that does not exist"

    def _prepared(self) -> Image:
        if self.image is None:
            raise Fault("no program can run, because no image was prepared")
        return self.image

    def _start(self, name: str, *does: str, mounts: tuple[Mount, ...] = ()) -> Driven:
        image = self._prepared()

        def wrap(spec: RunSpec, launch: Launch, folder: Path) -> Wrapping:
            return self.runtime.wrap(spec, launch, launch.phases[0], image, folder)

        name = f"{self.runtime.name}-{name}"
        launcher, spec = self.launcher, self.spec
        return self.place.start(launcher, name, *does, spec=spec, ranks=1, mounts=mounts, wrap=wrap)


def _words(wrapping: Wrapping) -> tuple[str, ...]:
    flags = (*wrapping.argv, *wrapping.launcher_flags, *wrapping.cleanup)
    return (*flags, *wrapping.host_env.values())


def _quiet(line: str) -> None:
    """Ignore a line of progress."""
