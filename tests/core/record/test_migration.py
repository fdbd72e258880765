"""Records of older versions are converted to the current format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from llmbx.errors import LlmbxError
from llmbx.model import RunSpec, TraceSpec
from llmbx.record.folder import Record, decode_any, read_run


def old(spec: RunSpec, **members: object) -> dict[str, object]:
    """A record as version 1 wrote it: scheduler options among the members of the specification."""
    record = Record(run_id="r", spec=spec, created=1.0, llmbx_version="0.1", command=("run",))
    data = json.loads(msgspec.json.encode(record))
    del data["schema_version"], data["spec"]["plugin_settings"]
    data["spec"] |= members
    return dict(data)


def test_scheduler_options_of_version_1_are_slurms_settings(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    origins = {"scheduler.partition": "SBATCH_PARTITION", "steps": "--steps"}
    data = old(make_spec(origins=origins), scheduler={"partition": "batch", "exclusive": ""}, srun={"wait": "60"})
    (tmp_path / "run.json").write_text(json.dumps(data))
    spec = read_run(tmp_path).record.spec
    options = {"sbatch": {"partition": "batch", "exclusive": ""}, "srun": {"wait": "60"}}
    assert spec.plugin_settings == {"slurm": options}
    assert spec.origins == {"slurm.sbatch.partition": "SBATCH_PARTITION", "steps": "--steps"}


def test_what_a_trace_recorded_is_a_setting_of_its_plugin(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    trace = {"tool": "nccltrace", "subsystems": ["INIT", "NET"], "file_per_rank": True}
    (tmp_path / "run.json").write_text(json.dumps(old(make_spec(), scheduler={}, srun={}, trace=trace)))
    spec = read_run(tmp_path).record.spec
    assert spec.trace == TraceSpec(tool="nccltrace") and spec.experiment.endswith("_nccltrace")
    given = {"trace_subsystems": "INIT,NET", "trace_file_per_rank": True}
    assert spec.plugin_settings == {"nccltrace": given}


def test_switches_of_tools_are_settings_of_their_plugins(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    """In earlier records the node check and the GPU metrics are members of the specification."""
    profile = {"start": 1, "stop": 2, "tool": "nsys", "gpu_metrics": True}
    own = {"slurm": {"sbatch": {"account": "a"}}}
    spec = make_spec(origins={"preflight": "--preflight", "gpu_metrics": "ENABLE_GPU_METRICS"})
    data = old(spec, profile=profile, preflight={"repositories": ["team/model"]}, plugin_settings=own)
    (tmp_path / "run.json").write_text(json.dumps(data))
    spec = read_run(tmp_path).record.spec
    assert spec.plugin_settings == {
        "slurm": {"sbatch": {"account": "a"}, "preflight": True}, "nsys": {"gpu_metrics": True}
    }  # fmt: skip
    assert spec.origins == {"slurm.preflight": "--preflight", "nsys.gpu_metrics": "ENABLE_GPU_METRICS"}
    own = {"nccltrace": {"trace_subsystems": "INIT"}}
    traced = old(make_spec(), trace={"tool": "nccltrace"}, preflight=None, plugin_settings=own)
    (tmp_path / "run.json").write_text(json.dumps(traced))
    assert read_run(tmp_path).record.spec.plugin_settings == own, "settings of the trace are kept"
    assert spec.repositories == ("team/model",) and spec.profile is not None and spec.profile.start == 1


def test_runs_without_these_switches_have_no_such_settings(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    profile = {"start": 1, "stop": 2, "tool": "nsys", "gpu_metrics": False}
    (tmp_path / "run.json").write_text(json.dumps(old(make_spec(), profile=profile, preflight=None)))
    spec = read_run(tmp_path).record.spec
    assert spec.plugin_settings == {} and spec.repositories == ()


def test_what_version_1_called_doubts_are_findings(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    found = {"rule": "scale", "problem": "no such scale", "fix": "use --gpus 1024", "warning": True}
    data = old(make_spec(), scheduler={}, doubts=[found])
    del data["spec"]["findings"]  # type: ignore[attr-defined]
    (tmp_path / "run.json").write_text(json.dumps(data))
    (finding,) = read_run(tmp_path).record.spec.findings
    assert (finding.rule, finding.problem, finding.warning) == ("scale", "no such scale", True)


def test_a_record_that_is_wrong_in_another_way_says_how(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(old(make_spec(), scheduler={}, surprise=1)))
    with pytest.raises(LlmbxError, match="not a record that this version of llmbx can read"):
        read_run(tmp_path)
    with pytest.raises(msgspec.DecodeError):
        decode_any(b"{", Record)
