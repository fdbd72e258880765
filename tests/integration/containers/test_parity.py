"""One launch in every runtime: the program must see the same, and end the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.launchers.exits import read_exit
from llmbx.launchers.local import LocalLauncher
from llmbx.model import ImageRequest, Launch, Mount, Phase, RunSpec
from llmbx.runtimes.base import Runtime
from llmbx.runtimes.host import HostRuntime
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.enroot import EnrootRuntime

from ...patience import PATIENCE_S
from .tools import TOOLS, Daemons

RUNTIMES: dict[str, Callable[[], Runtime]] = {
    "docker": DockerRuntime,
    "apptainer": ApptainerRuntime,
    "enroot": EnrootRuntime,
}
CONTAINERS = {name: RUNTIMES[name] for name in TOOLS}
AWKWARD = ("", "a b", "it's", '"quoted"', "$HOME `x` \\", "*", "line\nbreak", "ümlaut", "--flag=x y", "-")
ENV = {
    "PLAIN": "1", "ODD": "a 'b' \"c\" $HOME `x` \\ * ;", "EMPTY": "", "LINES": "one\nPLAIN=2 50% \\n #\n",
    "QUOTED": '"it"', "SPACES": "  a  ", "HF_HOME": "/CACHE",
}  # fmt: skip
NAMES = (*ENV, "HF_TOKEN", "NOT_SET", "LLMBX_RANK", "LLMBX_WORLD_SIZE", "LLMBX_LOCAL_RANK", "CUDA_VISIBLE_DEVICES")
Make = Callable[..., RunSpec]


class Probe:
    """The probe in one runtime: starts it as the local launcher does, and reads what it saw."""

    def __init__(self, runtime: Runtime, install: Path, reference: str, make_spec: Make, folder: Path) -> None:
        self.runtime, self.folder, self.make_spec = runtime, folder, make_spec
        request = ImageRequest(reference=reference)
        self.image = runtime.prepare(request, install, lambda line: None)
        self.run_dir = folder / "run"
        self.run_dir.mkdir(parents=True)
        for name in ("rw", "ro", "cache"):
            (folder / name).mkdir()
            (folder / name / "here").write_text(f"{name} is here")

    def script(self, ending: str) -> Path:
        """The script of a run whose one rank is the probe."""
        env = {**ENV, "HF_HOME": str(self.folder / "cache")}
        read_only = Mount(source=str(self.folder / "ro"), read_only=True)
        paths = {name: str(self.folder / name) for name in ("rw", "ro", "cache")}
        argv = (self.image.python, "probe.py", ending, ",".join(NAMES), json.dumps(paths), *AWKWARD)
        code = Path(__file__).with_name("probe.py").read_bytes()
        launch = Launch(
            nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(Phase(role="probe", argv=argv, env=env),),
            files={"probe.py": code}, mounts=(read_only,),
        )  # fmt: skip
        spec = self.make_spec(
            gpus=1, runtime=self.runtime.name, secrets=("HF_TOKEN",), mounts=(str(self.folder / "rw"),)
        )
        wrapping = self.runtime.wrap(spec, launch, launch.phases[0], self.image, self.run_dir)
        path = self.run_dir / "run.sh"
        path.write_text(LocalLauncher().render(spec, launch, (wrapping,), self.run_dir))
        return path

    def start(self, ending: str, umask: int = 0o027) -> subprocess.Popen[bytes]:
        """Start the script with a secret in its environment."""
        environ = {**os.environ, "HF_TOKEN": "hf_secret_of_the_test", "LLMBX_STOP_GRACE_S": "2"}
        return subprocess.Popen(["bash", self.script(ending)], env=environ, umask=umask, start_new_session=True)

    def wait_for(self, text: str, name: str) -> None:
        """Wait until the rank has printed `text`."""
        limit = time.monotonic() + PATIENCE_S
        while not any(text in log.read_text() for log in self.run_dir.glob("log-*.out")):
            assert time.monotonic() < limit, name
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """What the rank printed."""
        (log,) = self.run_dir.glob("log-*.out")
        return log.read_text()

    @property
    def seen(self) -> dict[str, Any]:
        """What the rank saw, with the runtime's own folder replaced."""
        text = (self.run_dir / "made").read_text().replace(str(self.folder), "FOLDER")
        found: dict[str, Any] = json.loads(text)
        return found


@pytest.fixture
def probes(
    tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path, tmp_path: Path, make_spec: Make
) -> dict[str, Probe]:
    """The probe on the host, and in every container runtime that is here."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    reference = f"{daemons.registry}/ci/tiny:1"
    made = {"host": HostRuntime(), **{name: make() for name, make in CONTAINERS.items()}}
    return {name: Probe(made[name], install, reference, make_spec, tmp_path / name) for name in made}


def test_a_program_sees_the_same_and_ends_the_same_everywhere(probes: dict[str, Probe], daemons: Daemons) -> None:
    for probe in probes.values():
        assert probe.start("0").wait(60) == 0, probe.log
    expected = probes["host"].seen
    assert expected["argv"][3:] == list(AWKWARD)
    assert expected["env"]["ODD"] == ENV["ODD"] and expected["env"]["HF_TOKEN"] == "hf_secret_of_the_test"
    assert expected["env"]["NOT_SET"] is None and expected["env"]["CUDA_VISIBLE_DEVICES"] is None
    assert expected["umask"] == "0o27" and expected["made"][0] == "0o640"
    # Root may write anything on the host: what is read-only is so inside containers alone.
    expected["write"]["ro"] = "read-only"
    limits = expected.pop("limits")
    for name in CONTAINERS:
        seen = probes[name].seen
        assert_no_less(seen.pop("limits"), limits)
        assert seen == expected, name
        lines = [line for line in probes[name].log.splitlines() if line.startswith(("out ", "err "))]
        assert lines == [f"{word} {number}" for number in range(4) for word in ("out", "err")]
        assert "hf_secret_of_the_test" not in (probes[name].run_dir / "run.sh").read_text()
    assert daemons.docker("ps", "--all", "--quiet").stdout == ""


def assert_no_less(seen: dict[str, int], limits: dict[str, int]) -> None:
    """A container may allow more than its user's shell does, but not less; -1 is no limit."""
    for name, value in limits.items():
        assert seen[name] == -1 or -1 < value <= seen[name], (name, seen[name], value)


@pytest.mark.parametrize(("ending", "code"), [("1", 1), ("kill", 137)])
def test_an_exit_code_comes_through(ending: str, code: int, probes: dict[str, Probe]) -> None:
    for name, probe in probes.items():
        assert probe.start(ending).wait(60) == code, name
        end = read_exit(probe.run_dir)
        assert end is not None and (end.exit_code, end.rank) == (code, 0), name


def test_a_signal_comes_through(probes: dict[str, Probe]) -> None:
    """The request for stack dumps leaves the program alive, the one to stop ends it."""
    for name, probe in probes.items():
        process = probe.start("term")
        probe.wait_for("waiting", name)
        process.send_signal(signal.SIGUSR1)
        probe.wait_for("noted SIGUSR1", name)
        assert process.poll() is None
        process.terminate()
        process.wait(PATIENCE_S)
        assert "got SIGTERM" in probe.log, name


def test_the_probe_runs_in_an_environment_too(probes: dict[str, Probe], tmp_path: Path) -> None:
    """A virtual environment adds nothing in front of the program: it sees what it sees on the host."""
    host = probes["host"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    assert host.start("0").wait(60) == 0
    expected = host.seen
    host.image = host.image.replace(kind="venv", python=str(tmp_path / "venv/bin/python"))
    assert host.start("0").wait(60) == 0
    assert host.seen == expected
