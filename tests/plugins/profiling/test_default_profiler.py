"""The profiler of a run whose user names none: nsys where it is or may be, else the framework's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmbx.api import RunSpec
from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.plugins.manager import load
from llmbx.run.context import RunContext, admit, findings
from llmbx.testing import resolve_spec

MINIS = [
    ("llama3.1", "mini", "torch"), ("llama3.1", "bridge-0.6-mini", "torch"), ("llama3.1", "nemo2-mini", "torch"),
    ("grok1", "mini", "torch"), ("llama2", None, "xplane"), ("mixtral", None, "xplane"),
]  # fmt: skip
ON_GPUS = {"size": "8b", "gpu_type": "h100", "gpus": 8, "gpus_per_node": 8, "plugin": "nemo"}


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho NVIDIA Nsight Systems version 2024.1.1\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without nsys, containers and a scheduler."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.delenv("LLMBX_NSYS", raising=False)


def entered(workload: str, folder: Path, **options: Any) -> RunSpec:
    spec = resolve_spec(workload, profile=True, **options)
    return RunContext.enter(spec, load(), Install(root=str(folder), origin="test"), preview=True)[0]


@pytest.mark.parametrize(("workload", "recipe", "tool"), MINIS)
def test_without_nsys_the_frameworks_own_profiler_is_used_and_one_line_says_so(
    workload: str, recipe: str | None, tool: str, tmp_path: Path
) -> None:
    spec = entered(workload, tmp_path, recipe=recipe)
    assert spec.profile is not None and (spec.profile.tool, spec.profilers) == (tool, (tool,))
    found = findings(spec, load().framework(spec.plugin))
    assert admit(spec, found, force=False) == spec, "the framework supports it"
    (note,) = (finding for finding in found if finding.rule == "profiler")
    assert note.warning and note.problem == f"nsys is not on PATH (nsys), so {tool} profiles the steps"
    assert note.fix.startswith("nsys would add ") and "install Nsight Systems, or set LLMBX_NSYS" in note.fix
    assert "\n" not in note.problem + note.fix


@pytest.mark.parametrize(("workload", "recipe", "tool"), MINIS)
def test_nsys_is_used_where_it_is_and_refused_where_it_is_not(
    workload: str, recipe: str | None, tool: str, tmp_path: Path, nsys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = entered(workload, tmp_path, recipe=recipe, profile_tool="nsys")
    with pytest.raises(UsageError, match=r"nsys is not on PATH \(nsys\); install Nsight Systems, or set LLMBX_NSYS"):
        admit(spec, findings(spec, load().framework(spec.plugin)), force=False)
    monkeypatch.setenv("PATH", str(nsys.parent))
    spec = entered(workload, tmp_path, recipe=recipe)
    assert spec.profile is not None and spec.profile.tool == "nsys"
    assert "profiler" not in {finding.rule for finding in findings(spec, load().framework(spec.plugin))}


@pytest.mark.parametrize(
    "place", [{"launcher": "slurm"}, {"runtime": "docker"}, {"runtime": "apptainer"}, {"launcher": "slurm", "gpus": 64}]
)
def test_an_image_or_a_compute_node_may_have_nsys(place: dict[str, Any], tmp_path: Path) -> None:
    spec = entered("llama3.1", tmp_path, **{**ON_GPUS, **place})
    assert spec.profile is not None and spec.profile.tool == "nsys"
    assert not [finding for finding in findings(spec, load().framework("nemo")) if finding.rule == "profiler"]


def test_on_gpus_of_this_machine_it_says_what_nsys_adds_there(tmp_path: Path) -> None:
    spec = entered("llama3.1", tmp_path, **{**ON_GPUS, "size": "mini"}, runtime="host")
    found = findings(spec, load().framework("nemo"))
    (note,) = (finding for finding in found if finding.rule == "profiler")
    assert "computation, communication and idle" in note.fix and "GPU counters" in note.fix


def test_the_variable_of_the_recipes_requests_the_same(tmp_path: Path) -> None:
    spec = resolve_spec("llama3.1", environ={"ENABLE_PROFILE": "true", "ENABLE_GPU_METRICS": "true"})
    spec = RunContext.enter(spec, load(), Install(root=str(tmp_path), origin="test"), preview=True)[0]
    assert spec.profile is not None and spec.profile.tool == "torch"
    assert [finding.rule for finding in spec.findings] == ["gpu_metrics"]
