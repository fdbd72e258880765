"""Drive a runtime: prepare an image, run a program in it that uses variables and mounts and fails, cancel one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import LlmbxError
from ..launchers.base import Launcher
from ..model import Environment, Image, ImageRequest, Launch, Mount, RunSpec, Wrapping
from ..runtimes.base import Runtime
from .driven import CODE, Driven, Fault, Place, interpreter, parts
from .outcome import Found
from .typed import ill_typed

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
    scenarios = {"prepare": drive.prepare, "run": drive.run, "cancel": drive.cancel}
    if runtime.uses_image:
        scenarios["missing"] = drive.missing
    try:
        problems = [text for _, text in parts(scenarios)]
    finally:
        place.close()
    missing = ", a missing image is refused" if runtime.uses_image else ""
    passed = f"a program runs with its variables and mounts, fails with its exit code, is cancelled{missing}"
    return [("failed", problems)] if problems else [("ok", [passed])]


def check_request(reference: str | None) -> ImageRequest:
    """Return what the driven program needs: this Python's version without packages, or an image."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ImageRequest(environment=Environment(name="llmbx-check", pythons=(version,), steps=()), reference=reference)


class Drive:
    """The parts of a drive; the image is prepared once."""

    def __init__(
        self, runtime: Runtime, launcher: Launcher, spec: RunSpec, request: ImageRequest, place: Place
    ) -> None:  # fmt: skip
        self.runtime, self.launcher, self.request, self.place = runtime, launcher, request, place
        self.spec: RunSpec = spec.replace(runtime=runtime.name)
        self.install = place.root / "install"
        self.image: Image | None = None

    def prepare(self) -> Iterator[str]:
        """Fetch the image, and find it again without the network."""
        self.install.mkdir(parents=True, exist_ok=True)
        planned = self.runtime.plan(self.request, self.install)
        image = self.runtime.prepare(self.request, self.install, _quiet)
        broken = [*ill_typed(image, Image, "prepare")]
        yield from broken
        if broken:
            return
        self.image = image = self.runtime.look_inside(image, self.install)
        if planned.reference != image.reference:
            yield f"plan names the image {planned.reference}, prepare {image.reference}"
        again = self.runtime.prepare(self.request, self.install, _quiet, offline=True)
        if (again.reference, again.path) != (image.reference, image.path):
            yield "a second prepare, without the network, returns another image"

    def run(self) -> Iterator[str]:
        """A program that reads two mounts, writes into the run folder, and fails."""
        data, fixed = self.place.root / "data", self.place.root / "fixed"
        for folder in (data, fixed):
            folder.mkdir()
            (folder / "file").write_text("mounted\n", encoding="utf-8")
        mounts = (Mount(source=str(data)), Mount(source=str(fixed), read_only=True))
        program = f"cat '{data}/file' '{fixed}/file' > mounted; echo > '{data}/made'; {interpreter(self._prepared())}"
        driven = self._start("run", "end", str(CODE), f"{program}; echo > '{fixed}/made'", mounts=mounts)
        end = driven.ended("the job has not ended")
        if not driven.has("started"):
            raise Fault(f"the program did not start: {' '.join(driven.log().split()[-40:]) or 'nothing was printed'}")
        if end.exit_code != CODE:
            yield f"the job ended with exit code {end.exit_code}, expected that of the program, {CODE}"
        yield from driven.problems()
        if any(driven.token in word for word in _words(driven.wrapping)):
            yield "the value of a secret is in the wrapping: pass its name, never its value"
        if _read(driven.folder / "mounted") != "mounted\nmounted\n":
            yield "a folder of launch.mounts cannot be read at its path"
        elif not (data / "made").exists():
            yield "a folder of launch.mounts cannot be written"
        if (fixed / "made").exists() and not self.runtime.shares_host_files:
            yield "a read-only folder of launch.mounts can be written (a runtime without mounts sets shares_host_files)"
        if _read(driven.folder / "python") != "42\n":
            yield f"the image's Python, {self._prepared().python}, does not run"

    def cancel(self) -> Iterator[str]:
        """A program that works until its job is cancelled."""
        driven = self._start("cancel", "beat", "0")
        driven.wait("the program has not started", lambda: driven.has("beat"))
        assert driven.job is not None
        self.launcher.cancel(driven.job, driven.folder)
        driven.ended("the job has not ended, although it was cancelled,")
        if driven.goes_on():
            yield "the program still works after its job was cancelled"

    def missing(self) -> Iterator[str]:
        """An image file that does not exist is refused before the start."""
        absent = self.request.replace(reference=str(self.place.root / "no-such-image.tar"), digest=None)
        try:
            self.runtime.prepare(absent, self.install, _quiet, offline=True)
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

        return self.place.start(
            self.launcher, f"{self.runtime.name}-{name}", *does, spec=self.spec, ranks=1, mounts=mounts, wrap=wrap
        )


def _words(wrapping: Wrapping) -> tuple[str, ...]:
    return (*wrapping.argv, *wrapping.launcher_flags, *wrapping.cleanup, *wrapping.host_env.values())


def _read(path: Path) -> str:
    return path.read_text(errors="replace", encoding="utf-8") if path.is_file() else ""


def _quiet(line: str) -> None:
    """Ignore a line of progress."""
