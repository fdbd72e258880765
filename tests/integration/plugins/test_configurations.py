"""`llmbx catalog diff`, and final configurations as evidence, with a third party's framework."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import ExpectedConfiguration

from .conftest import Llmbx, Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"

CODE = """
from llmbx import hookimpl
from llmbx.api import ConfigurationProgram, ExpectedConfiguration, Permitted, UsageError
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import check_spec, compute_flops, parse_log, register_workloads
from llmbx_toy.plugin import build_command, prepare_image

BUILD = b'''
import json, os, pathlib, sys
rate = json.load(open("spec.json"))["rate"]
if rate == 9:
    raise SystemExit("toy: no rate of 9")
if rate == 8:
    print("toy: a rate of 8 does not fit", file=sys.stderr)
    raise SystemExit(2)
pathlib.Path("configs").mkdir()
final = {"rate": rate, "points": 64, "log": os.environ["TOY_LOG"], **({"tree": sys.argv[1]} if sys.argv[1:] else {})}
pathlib.Path("configs/final.json").write_text(json.dumps({"final": final, "versions": {"toy": "1"}}))
'''

@hookimpl
def expect_configuration(spec, run_dir):
    log = Permitted(keys=("log", "tree"), reason="another folder")
    values = {"rate": 0.1, "points": 64, "log": "/upstream"}
    facts = {"sequence_length": ("points",), "layers": ("depth",)}
    return ExpectedConfiguration(upstream=values, permitted=(log,), other=("launch.",), facts=facts)
"""

BUILDS = """
@hookimpl
def configuration_program(spec):
    environment = prepare_image(spec).environment
    files = {"spec.json": json.dumps(spec.settings).encode(), "build.py": BUILD}
    return ConfigurationProgram(environment=environment, argv=("build.py",), files=files, env={"TOY_LOG": "/here"})
"""

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One install for all tests: the environment is built once."""
    return tmp_path_factory.mktemp("install")


@pytest.fixture
def command(llmbx: Llmbx, site: Path, install: Path) -> Command:
    """`command("catalog", "diff", "line")`, with this machine's Python as the framework's environment."""
    environ = {"PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable, "LLMB_INSTALL": str(install)}
    return lambda *arguments: llmbx(*arguments, **environ)


@pytest.fixture
def diff(package: Package, command: Command) -> Command:
    """`diff("--format", "json")`: the verb, with a framework that builds its configuration."""
    package("odd", "import json\n" + CODE + BUILDS)
    return lambda *arguments: command("catalog", "diff", "--plugin", "odd", "line", *arguments)


def test_the_final_configuration_is_built_and_compared(diff: Command) -> None:
    done = diff("--format", "json")
    assert done.returncode == 0, done.stderr
    launch = {"launch.nodes": 1, "launch.ntasks_per_node": 1, "launch.env.TOY_SEED": "0"}
    assert json.loads(done.stdout) == {
        "configuration": "mini/fp32/cpu/1",
        "final": {"rate": 0.1, "points": 64, "log": "/here", **launch},
        "upstream": {"rate": 0.1, "points": 64, "log": "/upstream"},
        "differences": [],
        "permitted": [{"key": "log", "upstream": "/upstream", "final": "/here", "reason": "another folder"}],
    }
    assert "line mini/fp32/cpu/1: 3 fields compared: 0 differ, 1 more differ as permitted" in done.stderr


def test_a_difference_that_is_not_permitted_is_exit_code_1(diff: Command) -> None:
    done = diff("--set", "rate=0.5", "--format", "csv")
    assert done.returncode == 1, done.stderr
    rate, log = csv.DictReader(io.StringIO(done.stdout))
    assert rate == {"key": "rate", "upstream": "0.1", "final": "0.5", "permitted_because": ""}
    assert log["permitted_because"] == "another folder"
    assert diff("--set", "rate=0.5").stdout.splitlines()[1].split() == ["rate", "0.1", "0.5", "-"]


def test_a_program_that_fails_is_one_line_and_exit_code_4(diff: Command) -> None:
    done = diff("--set", "rate=9")
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "llmbx: the configuration cannot be built in toy: toy: no rate of 9"


def test_a_source_tree_is_executed_by_a_framework_that_can(package: Package, command: Command, tmp_path: Path) -> None:
    package("odd", "import json\n" + CODE + BUILDS.replace("argv=", 'checkout=("build.py", "{source}"), argv='))
    asked = ("catalog", "diff", "--plugin", "odd", "line", "--source", str(tmp_path))
    done = command(*asked, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["final"]["tree"] == str(tmp_path)
    assert command(*asked, "--run", "last").returncode == 2


def test_another_framework_refuses_a_source_tree(diff: Command, tmp_path: Path) -> None:
    done = diff("--source", str(tmp_path))
    assert done.returncode == 2 and "is not built from a source tree" in done.stderr


def test_what_the_framework_refuses_is_a_usage_error(diff: Command) -> None:
    done = diff("--set", "rate=8")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert (
        done.stderr.splitlines()[-1] == "llmbx: the configuration cannot be built in toy: toy: a rate of 8 does not fit"
    )


def test_a_framework_that_builds_none_says_so(package: Package, command: Command) -> None:
    package("odd", CODE)
    done = command("catalog", "diff", "--plugin", "odd", "line")
    assert done.returncode == 2 and "plugin 'odd' cannot build a configuration without training" in done.stderr
    assert command("catalog", "diff").returncode == 2


WRITES = """
@hookimpl
def build_command(spec, image):
    launch = toy.build_command(spec, image)
    train = launch.files["train.py"].replace(b"import faulthandler", b'''import faulthandler, json, os, pathlib
if os.environ["LLMBX_RANK"] == "0":
    settings = json.loads(pathlib.Path("spec.json").read_text())["settings"]
    final = {"rate": settings["rate"], "points": 64, "log": "/run"} if settings["fault"] != "chatty" else []
    pathlib.Path("configs").mkdir()
    pathlib.Path("configs/final.json").write_text(json.dumps({"final": final, "versions": {"odd": "2.5"}}))
''', 1)
    return launch.replace(files={**launch.files, "train.py": train})
"""
MINI = ["a mini is a small proxy of the workload, not the workload", "measured on CPU"]


@pytest.fixture
def result(command: Command) -> Callable[..., dict[str, Any]]:
    """`result("--set", …)`: the result of a completed run of the framework `odd`."""

    def run(*arguments: str) -> dict[str, Any]:
        done = command("run", "--plugin", "odd", "line", *arguments, "--format", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert (found["status"], found["data_valid"], found["comparable"]) == ("completed", True, False)
        return found

    return run


Run = Callable[..., dict[str, Any]]


def doubts(result: dict[str, Any]) -> list[str]:
    """The warnings about the configuration; the machine's noise gives others."""
    return [warning for warning in result["warnings"] if "configuration" in warning]


def test_a_run_whose_configuration_is_upstreams_is_evidence(package: Package, result: Run, command: Command) -> None:
    package("odd", CODE + WRITES)
    found = result()
    assert found["not_comparable_because"] == MINI and doubts(found) == []
    assert found["versions"]["odd"] == "2.5", "the version that the framework itself found"
    done = command("catalog", "diff", "--run", found["run_id"], "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["permitted"][0]["final"] == "/run"
    done = command("catalog", "diff", "line", "--size", "mini", "--gpus", "4", "--run", found["run_id"])
    assert done.returncode == 2 and "the gpus of this run is 1, not 4" in done.stderr


def test_a_run_with_another_configuration_is_not_comparable(package: Package, result: Run, command: Command) -> None:
    package("odd", CODE + WRITES)
    found = result("--set", "rate=0.2")
    assert found["not_comparable_because"] == [*MINI, "the configuration differs from upstream's in rate"]
    assert command("catalog", "diff", "--run", found["run_id"]).returncode == 1


def test_a_run_without_the_declared_configuration_is_not_verified(
    package: Package, result: Run, command: Command
) -> None:
    package("odd", CODE)
    found = result()
    warning = "configuration not verified: the run wrote no configs/final.json"
    assert doubts(found) == [warning] and found["not_comparable_because"] == [*MINI, warning]
    done = command("catalog", "diff", "--run", found["run_id"])
    assert done.returncode == 2 and f"{found['run_id']} has no configs/final.json" in done.stderr


def test_a_damaged_configuration_is_not_verified(package: Package, result: Run) -> None:
    package("odd", CODE + WRITES)
    (warning,) = doubts(result("--set", "fault=chatty"))
    assert warning.startswith("configuration not verified: ") and "not a final configuration" in warning


def test_a_framework_that_declares_nothing_is_not_judged(package: Package, result: Run) -> None:
    package("odd", CODE.partition("@hookimpl")[0])
    found = result()
    assert doubts(found) == [] and found["not_comparable_because"] == MINI


def test_a_run_whose_configuration_states_another_job_is_invalid(package: Package, command: Command) -> None:
    """The log does not print the length of a sample. The depth is not in the configuration: nothing is said of it."""
    package("odd", CODE + WRITES.replace('"points": 64', '"points": 32'))
    done = command("run", "--plugin", "odd", "line", "--format", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["data_valid"], found["exit_code"]) == ("failed", False, 0)
    assert found["cause"] == "the framework states 32 tokens per sample, not the 64 asked for (check sequence)"
    outcomes = {each["check"]: each["outcome"] for each in found["checks"]}
    assert (outcomes["sequence"], outcomes["layers"]) == ("invalid", "not possible")
    (row,) = json.loads(command("parse", "last", "--format", "json").stdout)
    assert "32 tokens per sample" in row["status"]


@pytest.mark.parametrize("points", ["True", "64.5", "-64", "None", "'64'", "[64]", "10**4000"])
def test_a_fact_that_is_no_number_is_not_compared(package: Package, result: Run, points: str) -> None:
    package("odd", CODE + WRITES.replace('"points": 64', f'"points": {points}'))
    found = result()
    assert "sequence" in [each["check"] for each in found["checks"] if each["outcome"] == "not possible"]
    assert "the configuration differs from upstream's in points" in found["not_comparable_because"]
    unverified = [line for line in found["not_comparable_because"] if line.startswith("configuration not verified")]
    assert len(unverified) == 1 and ("states no number in" in unverified[0]) is (points != "None")


def test_a_configuration_that_states_nothing_is_no_evidence(package: Package, result: Run) -> None:
    package("odd", CODE + WRITES.replace('"points": 64', '"other": 64'))
    reasons = result()["not_comparable_because"]
    assert any("configuration not verified: configs/final.json states nothing of" in reason for reason in reasons)


def test_a_fact_that_no_check_reads_is_refused() -> None:
    """A misspelt name would switch the check off in silence."""
    with pytest.raises(ValueError, match=r"facts: unknown name 'layer' \(known: world_size, .*layers"):
        ExpectedConfiguration(facts={"layer": ("model.num_layers",)})
