"""A job that is driven to find out whether a launcher, runtime or profiler does what it has to."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import LlmbxError
from ..launchers.base import Launcher
from ..launchers.script import SCRIPT
from ..model import Image, Job, JobStatus, Launch, Mount, Phase, RunSpec, Wrapping
from ..model.run_folder import batch_name, log_name
from ..run.launch import Rendered, write_files
from .sample import sample_spec

PROGRAM = "drive.sh"

SOURCE = b"""\
# What a driven rank does: wait for the file `go`, exit with a code, or write on and on until the file `stop` exists.
for name in LLMBX_RANK LLMBX_WORLD_SIZE DRIVEN_RUN DRIVEN_PHASE DRIVEN_TOKEN DRIVEN_UNSET; do
  eval "[ -z \\"\\${$name+set}\\" ] || printf '%s=%s\\n' $name \\"\\$$name\\"" >> "seen-$LLMBX_RANK"
done
echo "driven rank $LLMBX_RANK"
: > "started-$LLMBX_RANK"
n=0
case $1 in
  wait) while [ -e drive.sh ] && [ ! -e go ] && [ $n -lt 600 ]; do sleep 0.2; n=$((n + 1)); done ;;
  beat)
    while [ -e drive.sh ] && [ ! -e stop ] && [ $n -lt 600 ]; do
      echo $n >> "beat-$LLMBX_RANK"; sleep 0.2; n=$((n + 1))
    done ;;
esac
shift
[ $# -lt 2 ] || sh -c "$2"
echo "ended rank $LLMBX_RANK" >> "ended-$LLMBX_RANK"
[ "$LLMBX_RANK" -eq $((LLMBX_WORLD_SIZE - 1)) ] || exit 0
n=0 # the last rank ends after the first, which a failure would stop
while [ ! -e ended-0 ] && [ $n -lt 150 ]; do sleep 0.2; n=$((n + 1)); done
exit "$1"
"""

RUN, PHASE = "two words, $HOME 'and' \"quotes\" *", "of the phase: \\n %s"
"""Values of variables that a careless shell would change."""

SECRET = "DRIVEN_TOKEN"

CODE = 7
"""Exit code of a job that fails on purpose: no shell and no scheduler has it for a reason of its own."""


class Fault(Exception):
    """The tool does not do what it has to; the message says what it does instead."""


class Place:
    """Where jobs are driven: a folder with a run folder for each, and how long a state may take to come."""

    def __init__(self, root: Path, patience_s: float) -> None:
        self.root, self.patience_s = root, patience_s
        self._jobs: list[Driven] = []

    def start(self, launcher: Launcher, name: str, *does: str, spec: RunSpec | None = None, **more: Any) -> Driven:
        """Submit a job whose ranks do what `does` says (see `SOURCE`)."""
        driven = Driven(self, launcher, self.root / name, does, spec or sample_spec(), **more)
        self._jobs.append(driven)
        driven.submit()
        return driven

    def close(self) -> None:
        """Let every program end, and cancel what the launcher still has."""
        for driven in self._jobs:
            driven.let_go()
            with contextlib.suppress(Exception):
                if driven.job is not None and driven.status().state in ("pending", "running"):
                    driven.launcher.cancel(driven.job, driven.folder)


class Driven:
    """One job in a run folder of its own."""

    def __init__(
        self, place: Place, launcher: Launcher, folder: Path, does: tuple[str, ...], spec: RunSpec, *, ranks: int = 2,
        mounts: tuple[Mount, ...] = (), wrap: Callable[[RunSpec, Launch, Path], Wrapping] | None = None,
        profile: Callable[[RunSpec, Launch], Launch] | None = None,
    ) -> None:  # fmt: skip
        self.place, self.launcher, self.folder = place, launcher, folder
        self.token = f"obviously-fake-{os.urandom(8).hex()}"
        self.spec: RunSpec = spec.replace(
            gpu_type="cpu", gpus=ranks, gpus_per_node=ranks, env={"DRIVEN_RUN": RUN}, secrets=(SECRET,)
        )
        phase = Phase(
            role="drive", argv=("/bin/sh", PROGRAM, *does), env={"DRIVEN_PHASE": PHASE},
            forward=(SECRET, "DRIVEN_UNSET"),
        )  # fmt: skip
        launch = Launch(
            nodes=1, ranks_per_node=ranks, gpus_per_rank=0, phases=(phase,), files={PROGRAM: SOURCE}, mounts=mounts
        )
        self.job: Job | None = None
        with self._environment():
            self.launch = profile(self.spec, launch) if profile else launch
            self.wrapping = wrap(self.spec, self.launch, folder) if wrap else Wrapping()
            self.script = launcher.render(self.spec, self.launch, (self.wrapping,), folder)

    def submit(self) -> None:
        """Write the files, and submit the script with the secret in the environment."""
        self.folder.mkdir(parents=True)
        write_files(self.folder, Rendered(self.launch, (self.wrapping,), self.script))
        with self._environment():
            self.job = self.launcher.submit(self.folder / SCRIPT, self.spec, self.folder)

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        """Set the secret in this process, as it is when a run starts."""
        before = os.environ.get(SECRET)
        os.environ[SECRET] = self.token
        try:
            yield
        finally:
            del os.environ[SECRET]
            os.environ.update({} if before is None else {SECRET: before})

    def status(self) -> JobStatus:
        """Return the job's status."""
        assert self.job is not None
        self.launcher.watch([self.job])
        return self.launcher.status(self.job, self.folder)

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds. Raises `Fault` with `what` and the job's status if it does not."""
        began = time.monotonic()
        if not self.comes(condition):
            waited = max(0.0, time.monotonic() - began)
            raise Fault(f"{what} after {waited:.0f} s; its status is {shown(self.status())}{self.last_line()}")

    def comes(self, condition: Callable[[], object]) -> bool:
        """Wait until `condition` holds; whether it does before the end of the job."""
        deadline = time.monotonic() + self.place.patience_s
        while not condition():
            over = self.status().state in ("ended", "lost") and not condition()
            if over or time.monotonic() > deadline:
                return False
            time.sleep(min(self.launcher.poll_s, 0.2))
        return True

    def has(self, name: str, ranks: int | None = None) -> bool:
        """Whether every rank has written the file `name`-RANK."""
        count = self.launch.world_size if ranks is None else ranks
        return all((self.folder / f"{name}-{rank}").is_file() for rank in range(count))

    def ended(self, what: str) -> JobStatus:
        """Wait until the job has ended; return its status."""
        seen: list[JobStatus] = []

        def over() -> bool:
            seen.append(self.status())
            return seen[-1].state in ("ended", "lost")

        self.wait(what, over)
        if seen[-1].state == "lost":
            raise Fault(f"status says {shown(seen[-1])}{self.last_line()}")
        return seen[-1]

    def last_line(self) -> str:
        """The last line that the script printed, for a message."""
        path = self.folder / batch_name(self.spec)
        text = path.read_text(errors="replace", encoding="utf-8") if path.is_file() else ""
        return f"; the last line of {path.name}: {text.splitlines()[-1][:200]}" if text.strip() else ""

    def log(self) -> str:
        """The output of the ranks."""
        path = self.folder / log_name(self.spec)
        return path.read_text(errors="replace", encoding="utf-8") if path.is_file() else ""

    def let_go(self) -> None:
        """Let the program end."""
        for name in ("go", "stop"):
            with contextlib.suppress(OSError):
                (self.folder / name).touch()

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the variables that the ranks got, and with their output."""
        for rank in range(self.launch.world_size):
            seen = dict(line.split("=", 1) for line in self._seen(rank).splitlines() if "=" in line)
            expected = {"LLMBX_RANK": str(rank), "LLMBX_WORLD_SIZE": str(self.launch.world_size),
                        "DRIVEN_RUN": RUN, "DRIVEN_PHASE": PHASE, SECRET: self.token}  # fmt: skip
            for name, value in expected.items():
                if seen.get(name) != value:
                    shows = "another value" if name == SECRET and name in seen else repr(seen.get(name))
                    wanted = "its value" if name == SECRET else repr(value)
                    yield f"rank {rank} gets {shows} in {name}, expected {wanted}"
            if "DRIVEN_UNSET" in seen:
                yield f"rank {rank} gets a variable that is not set where llmbx runs: it must stay unset"
            if f"driven rank {rank}\n" not in self.log():
                yield f"what rank {rank} prints is not in {log_name(self.spec)}"
        if self.token in self.script:
            yield "the value of a secret is in the script: pass its name, never its value"

    def _seen(self, rank: int) -> str:
        path = self.folder / f"seen-{rank}"
        return path.read_text(errors="replace", encoding="utf-8") if path.is_file() else ""

    def goes_on(self) -> bool:
        """Whether a rank of a job that writes on and on still writes."""
        beats = [self.folder / f"beat-{rank}" for rank in range(self.launch.world_size)]
        before = [beat.stat().st_size for beat in beats if beat.is_file()]
        time.sleep(0.8)  # four times as long as a rank waits between two lines
        return before != [beat.stat().st_size for beat in beats if beat.is_file()]


def shown(status: JobStatus) -> str:
    """A status in a message."""
    code = "" if status.exit_code is None else f" with exit code {status.exit_code}"
    return f"'{status.state}{code}'" + (f" ({status.reason})" if status.reason else "")


def parts(scenarios: Mapping[str, Callable[[], Iterator[str]]]) -> Iterator[tuple[str, str]]:
    """Do each scenario; yield its name and what is wrong."""
    for name, scenario in scenarios.items():
        try:
            for problem in scenario():
                yield name, problem
        except (Fault, LlmbxError) as fault:
            yield name, str(fault)


def interpreter(image: Image) -> str:
    """A line of shell that shows that the image's Python runs."""
    return f"'{image.python}' -c 'print(6 * 7)' > python"
