"""A job that is driven to find out whether a launcher, runtime or profiler does what it has to."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmbx.api import (
    Job,
    JobStatus,
    Launch,
    Launcher,
    LlmbxError,
    Mount,
    Phase,
    RunSpec,
    Wrapping,
)
from llmbx.api.contract import RenderedRun

PROGRAM = "drive.sh"

SOURCE = b"""\
# What a driven rank does: wait for the file `go`, exit with a code, or write until `stop` exists.
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
"""Exit code of a job that fails on purpose; no shell or scheduler has it for another reason."""

Profile = Callable[[RunSpec, Launch], Launch]
Wrap = Callable[[RunSpec, Launch, Path], Wrapping]


class Fault(Exception):
    """The tool does not do what it has to; the message says what it does instead."""


class Place:
    """Where jobs are driven: a folder with a run folder for each.

    `patience_s` is how long a state may take to come.
    """

    def __init__(self, root: Path, patience_s: float) -> None:
        self.root, self.patience_s = root, patience_s
        self._jobs: list[Driven] = []

    def start(self, launcher: Launcher, name: str, *does: str, **more: Any) -> Driven:
        """Submit a job whose ranks do what `does` says (see `SOURCE`)."""
        driven = Driven(launcher, self.root / name, self.patience_s, does, **more)
        self._jobs.append(driven)
        return driven

    def drive(self, *scenarios: Callable[[], Iterator[str]]) -> Iterator[str]:
        """Do each scenario, and yield what is wrong; end what still runs."""
        try:
            for scenario in scenarios:
                try:
                    yield from scenario()
                except (Fault, LlmbxError) as fault:
                    yield str(fault)
        finally:
            self.close()

    def close(self) -> None:
        """Let every program end, and cancel what the launcher still has."""
        for driven in self._jobs:
            driven.let_go()
            with contextlib.suppress(Exception):
                if driven.status().state in ("pending", "running"):
                    driven.launcher.cancel(driven.job, driven.folder)


def driven_launch(does: tuple[str, ...], ranks: int, mounts: tuple[Mount, ...] = ()) -> Launch:
    """The launch of the driven program."""
    phase = Phase(
        role="drive",
        argv=("/bin/sh", PROGRAM, *does),
        env={"DRIVEN_PHASE": PHASE},
        forward=(SECRET, "DRIVEN_UNSET"),
    )
    return Launch(
        nodes=1,
        ranks_per_node=ranks,
        gpus_per_rank=0,
        phases=(phase,),
        files={PROGRAM: SOURCE},
        mounts=mounts,
    )


class Driven:
    """One job, submitted from a run folder of its own with a secret in the environment."""

    def __init__(
        self,
        launcher: Launcher,
        folder: Path,
        patience_s: float,
        does: tuple[str, ...],
        *,
        spec: RunSpec,
        ranks: int = 2,
        mounts: tuple[Mount, ...] = (),
        wrap: Wrap | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.launcher, self.folder, self.patience_s = launcher, folder, patience_s
        self.token = f"obviously-fake-{os.urandom(8).hex()}"
        self.spec: RunSpec = spec.replace(
            gpu_type="cpu",
            gpus=ranks,
            gpus_per_node=ranks,
            env={"DRIVEN_RUN": RUN},
            secrets=(SECRET,),
        )
        launch = driven_launch(does, ranks, mounts)
        os.environ[SECRET] = self.token
        try:
            self.launch = profile(self.spec, launch) if profile else launch
            self.wrapping = wrap(self.spec, self.launch, folder) if wrap else Wrapping()
            self.script = launcher.render(self.spec, self.launch, (self.wrapping,), folder)
            folder.mkdir(parents=True)
            script = RenderedRun(self.launch, (self.wrapping,), self.script).write(folder)
            self.job: Job = launcher.submit(script, self.spec, folder)
        finally:
            del os.environ[SECRET]

    def status(self) -> JobStatus:
        """Return the job's status."""
        self.launcher.watch([self.job])
        return self.launcher.status(self.job, self.folder)

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds. Raises `Fault` with `what` and the job's status if not."""
        began = time.monotonic()
        if not self.comes(condition):
            waited = max(0.0, time.monotonic() - began)
            status = shown(self.status())
            raise Fault(f"{what} after {waited:.0f} s; its status is {status}{self.last_line()}")

    def comes(self, condition: Callable[[], object]) -> bool:
        """Wait until `condition` holds; whether it does before the end of the job."""
        deadline = time.monotonic() + self.patience_s
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

    def settled(self, what: str, *states: str) -> JobStatus:
        """Wait until the job's state is none of `states`; return its status."""
        status = self.status()

        def settled() -> bool:
            nonlocal status
            status = self.status()
            return status.state not in states

        self.wait(what, settled)
        return status

    def ended(self, what: str) -> JobStatus:
        """Wait until the job has ended; return its status."""
        status = self.settled(what, "pending", "running")
        if status.state == "lost":
            raise Fault(f"status says {shown(status)}{self.last_line()}")
        return status

    def last_line(self) -> str:
        """The last line that the script printed, for a message."""
        name = Launcher.batch_name(self.spec)
        lines = read(self.folder / name).strip().splitlines()
        return f"; the last line of {name}: {lines[-1][:200]}" if lines else ""

    def log(self) -> str:
        """The output of the ranks."""
        return read(self.folder / Launcher.log_name(self.spec))

    def let_go(self) -> None:
        """Let the program end."""
        for name in ("go", "stop"):
            with contextlib.suppress(OSError):
                (self.folder / name).touch()

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the variables that the ranks got, and with their output."""
        log = self.log()
        for rank in range(self.launch.world_size):
            yield from (f"rank {rank} {text}" for text in self._problems_of_variables(rank))
            if f"driven rank {rank}\n" not in log:
                yield f"what rank {rank} prints is not in {Launcher.log_name(self.spec)}"
        if self.token in self.script:
            yield "the value of a secret is in the script: pass its name, never its value"

    def _problems_of_variables(self, rank: int) -> Iterator[str]:
        lines = read(self.folder / f"seen-{rank}").splitlines()
        seen = dict(line.split("=", 1) for line in lines if "=" in line)
        expected = {
            "LLMBX_RANK": str(rank),
            "LLMBX_WORLD_SIZE": str(self.launch.world_size),
            "DRIVEN_RUN": RUN,
            "DRIVEN_PHASE": PHASE,
        }
        for name, value in expected.items():
            if seen.get(name) != value:
                yield f"gets {seen.get(name)!r} in {name}, expected {value!r}"
        if seen.get(SECRET) != self.token:
            value = "another value" if SECRET in seen else "None"
            yield f"gets {value} in {SECRET}, expected its value"
        if "DRIVEN_UNSET" in seen:
            yield "gets a variable that is not set where llmbx runs: it must stay unset"

    def goes_on(self) -> bool:
        """Whether a rank of a job that writes on and on still writes."""
        before = self._sizes()
        time.sleep(0.8)  # four times as long as a rank waits between two lines
        return before != self._sizes()

    def _sizes(self) -> list[int]:
        return [beat.stat().st_size for beat in sorted(self.folder.glob("beat-*"))]


def read(path: Path) -> str:
    """The text of a file; empty if there is none."""
    return path.read_text(errors="replace", encoding="utf-8") if path.is_file() else ""


def shown(status: JobStatus) -> str:
    """A status in a message."""
    code = "" if status.exit_code is None else f" with exit code {status.exit_code}"
    return f"'{status.state}{code}'" + (f" ({status.reason})" if status.reason else "")
