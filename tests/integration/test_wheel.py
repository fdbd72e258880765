"""The wheel alone, as `pip install llmbx` leaves it: every verb does a task in an environment that has nothing else.

`make release` runs these tests with the wheel in LLMBX_WHEEL.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
import textwrap
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx_environments.venv.resolution import find_resolver
from llmbx_environments.venv.uv_tool import Uv

from ..plugins.nccltrace import lines as nccl
from ..plugins.profiling.exports import Export
from .wheels import build_wheel, python_of

ROOT = Path(__file__).parents[2]
MINORS = ("3.11", "3.12", "3.13")

TASKS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (("run other --plugin ./other --steps 8", "completed, valid"),),
    "profile": (("profile lm --tool timer --steps 2-4 --max-steps 8", "profiled"),),
    "sweep": (("sweep lm --set lr=0.1 --steps 8", "lr=0.1  1/1"),),
    "init": (("init here --output -", "[clusters.here]"),),
    "list": (("list", "grok1"), ("list --here", "lm")),
    "show": (("show grok1 --gpu-type gb200 --gpus 256 --dtype bf16", "nvcr.io"),),
    "catalog": (("catalog diff other --plugin ./other --size mini --format json", '"final"'),),
    "catalog.import": (("catalog import nowhere", "nowhere"),),
    "jobs": (("jobs", "completed"),),
    "nodes": (("nodes", ""),),
    "accept": (("accept smoke --plan", "llama3.1 mini"),),
    "verify": (("accept own.toml --archive own.tar.gz", "pass"), ("verify own.tar.gz --format json", "[]")),
    "status": (("status {first}", "completed"),),
    "logs": (("logs {first}", "lm: step 8/8"),),
    "cancel": (("run lm --steps 100000 --detach", "lm_mini"), ("cancel last", "cancelled")),
    "image": (
        ("image prepare lm", "venvs/lm-py"),
        ("image list", ""),
        ("image build lm --runtime docker --print", "FROM"),
    ),
    "env": (
        ("env lock packaging==25.0 --platform linux-x86_64 -o lock.toml", ""),
        ("env check lock.toml --offline", "ok: 1 packages"),
    ),
    "doctor": (("doctor", "plugin"), ("doctor --nodes", "cpu.count")),
    "parse": (("parse bridge.out", "bridge"),),
    "report": (("report {first} --html report.html", "step time"),),
    "compare": (("compare {first} {second}", "step time"),),
    "audit": (("audit -w grok1", "Cells"),),
    "explain": (("explain bridge.out", "no failure found"),),
    "nsys": (("nsys profile.sqlite", "45"),),
    "nccl": (("nccl nccl.log", "AllReduce"),),
    "atlas": (("atlas", "grok1"),),
    "predict": (("predict grok1 --gpu-type h100 --gpus 512", "step time"),),
    "export": (
        ("export csv", "run_id"),
        ("export prometheus", "llmbx_run_info"),
        ("export openmetrics", "# EOF"),
        ("export wandb --output wandb", "pip install 'llmbx[wandb]'"),
        ("export mlflow --output mlruns", "pip install 'llmbx[mlflow]'"),
    ),
    "plugins": (("plugins", "lm"),),
    "plugins.new": (("plugins new third", "third/pyproject.toml"),),
    "plugins.check": (("plugins check ./lm", "mini     ok"), ("plugins check timer", "profiler ok")),
}
"""Of each verb, command lines and what each prints."""

CODES = {"compare": (5,), "export wandb": (2,), "export mlflow": (2,), "catalog import": (2,), "doctor": (0, 4)}
"""Exit codes other than 0: eight steps are too few for a verdict, a plain install has no extras, and the doctor may
find that a tool of this machine does not work.
"""

CONFIGURATION = '''

@hookimpl
def expect_configuration(spec, run_dir):
    """Upstream's configuration."""
    from llmbx.api import ExpectedConfiguration

    return ExpectedConfiguration(upstream={"rate": 0.1}, other=("launch.",))


@hookimpl
def configuration_program(spec):
    """Write the final configuration."""
    from llmbx.api import ConfigurationProgram

    code = "import os; os.mkdir('configs'); open('configs/final.json', 'w').write('{\\"final\\": {\\"rate\\": 0.1}}')"
    return ConfigurationProgram(environment=prepare_image(spec).environment, argv=("-c", code))
'''


class Stranger:
    """An environment with the wheel and its dependencies, a home and a folder that are empty, and the wheel's verbs."""

    def __init__(self, folder: Path, python: str, wheel: Path, uv: Uv) -> None:
        self.bin, self.work, self.home = folder / "venv/bin", folder / "work", folder / "home"
        subprocess.run([uv.path, "venv", "--quiet", "--python", python, folder / "venv"], env=uv.env, check=True)
        install = [uv.path, "pip", "install", "--quiet", "--python", self.bin / "python", wheel]
        subprocess.run(install, env=uv.env, check=True)
        for path in (self.work, self.home):
            path.mkdir()
        # Where packages come from is the only thing that the tests' environment and this one have in common.
        sources = {
            name: value for name, value in uv.env.items() if name.startswith(("UV_", "PIP_", "SSL_", "ALL_PROXY"))
        }
        self.env = {
            **sources, "PATH": "/usr/bin:/bin", "HOME": str(self.home), "LLMB_INSTALL": str(folder / "install"),
        }  # fmt: skip
        self.names: Mapping[str, str] = {}

    def __call__(self, line: str, codes: tuple[int, ...] = (0,)) -> str:
        """What `llmbx LINE` prints; it must end with one of `codes`."""
        argv = [self.bin / "llmbx", *(part.format_map(self.names) for part in shlex.split(line))]
        done = subprocess.run(argv, env=self.env, cwd=self.work, capture_output=True, text=True, check=False)
        assert done.returncode in codes and "Traceback" not in done.stderr, (line, done.returncode, done.stderr)
        return done.stderr if done.returncode == 2 else done.stdout

    def python(self, code: str) -> str:
        """What a program prints in this environment."""
        argv = [self.bin / "python", "-c", textwrap.dedent(code)]
        done = subprocess.run(argv, env=self.env, cwd=self.work, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, or the one to release."""
    given = os.environ.get("LLMBX_WHEEL")
    return Path(given).absolute() if given else build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=MINORS)
def stranger(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """The wheel's environment with three new plugins, two runs, and files to read."""
    python = python_of(request.param)
    if python is None:
        pytest.skip(f"this machine has no Python {request.param}")
    made = Stranger(tmp_path_factory.mktemp("stranger"), python, wheel, find_resolver(os.environ))
    for line in ("plugins new lm", "plugins new other", "plugins new timer --profiler", "plugins enable lm",
                 "plugins enable timer"):  # fmt: skip
        made(line)
    with (made.work / "other/src/llmbx_other/plugin.py").open("a") as file:
        file.write(CONFIGURATION)
    (made.work / "own.toml").write_text('title = "Own"\n[[items]]\nkind = "workload"\nworkload = "lm"\n')
    (made.work / "bridge.out").write_bytes((ROOT / "tests/fixtures/logs/bridge-cpu-grok1.out").read_bytes())
    opened = [nccl.opened(rank, 2, dev=rank) for rank in (0, 1)]
    calls = [nccl.coll(dev=rank, nranks=2, number=number) for rank in (0, 1) for number in (1, 2)]
    (made.work / "nccl.log").write_text("\n".join([*opened, *calls, ""]))
    profile = Export()
    profile.domain(3, "llmbx")
    profile.range(4500, 4580, "step", domain=3, payload=45)
    profile.write(made.work / "profile.sqlite")
    first, second = json.loads(made("run lm --steps 8 --repeat 2 --format json"))
    made.names = {"first": first["run_id"], "second": second["run_id"]}
    return made


def test_this_machine_has_the_pythons_to_test_with() -> None:
    pythons = [minor for minor in MINORS if python_of(minor)]
    assert len(pythons) > 1 or not os.environ.get("CI"), f"of Python {', '.join(MINORS)} only {pythons} work here"


def test_these_are_the_pythons_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [text.rpartition(" ")[2] for text in project["classifiers"] if "Language :: Python :: 3." in text]
    assert (tuple(named), project["requires-python"]) == (MINORS, f">={MINORS[0]}")


def test_every_verb_has_a_task(wheel: Path) -> None:
    """The verbs are those of the wheel, so that a new one needs a task."""
    points = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        points.read_string(archive.read(name).decode())
    assert set(points["llmbx.commands"]) == set(TASKS)


@pytest.mark.parametrize("verb", TASKS)
def test_a_verb_needs_nothing_but_the_wheel(verb: str, stranger: Stranger) -> None:
    for line, prints in TASKS[verb]:
        codes = CODES.get(" ".join(line.split()[:2]), CODES.get(verb, (0,)))
        assert prints.format_map(stranger.names) in stranger(line, codes), line


def test_every_entry_point_loads(stranger: Stranger) -> None:
    printed: dict[str, Any] = json.loads(
        stranger.python("""
        import importlib.metadata as metadata, json
        from importlib import resources
        from llmbx_nccltrace import native_engine
        dist = metadata.distribution("llmbx")
        packages = sorted({point.load() and point.module.partition(".")[0] for point in dist.entry_points})
        typed = [package for package in packages if (resources.files(package) / "py.typed").is_file()]
        tag = next(line for line in dist.read_text("WHEEL").splitlines() if line.startswith("Tag: "))
        print(json.dumps({"packages": packages, "typed": typed, "tag": tag, "scanner": bool(native_engine.load()),
                          "files": [str(path) for path in dist.files]}))
    """)
    )
    assert printed["packages"] == printed["typed"] and len(printed["packages"]) == 19
    assert not printed["tag"].endswith("-any") and printed["scanner"], "the wheel has no C scanner"
    assert any(path.endswith("licenses/LICENSE") for path in printed["files"])


def test_the_wheel_has_every_file_of_its_packages(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = [ROOT / folder for folder in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    ours = {
        path.relative_to(folder.parent).as_posix()
        for folder in folders for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".c", ".so", ".pyc")
    }  # fmt: skip
    with zipfile.ZipFile(wheel) as archive:
        assert ours - set(archive.namelist()) == set()
