"""Checks before the start: disk space for a checkpoint, a checkpoint to load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.model import Checkpointing, CheckpointSpec, RunSpec
from llmbx.run.context import site_findings

Make = Callable[..., RunSpec]


def test_a_checkpoint_that_does_not_fit_is_refused(make_spec: Make, tmp_path: Path) -> None:
    install = Install(root=str(tmp_path), origin="test")
    spec = make_spec(checkpoint=CheckpointSpec(save=True))
    huge = Checkpointing(size_gb=5.2e9, save_gpus=(1, 8), load_min_gpus=1)
    (found,) = site_findings(spec.replace(checkpoint_facts=huge), install)
    assert "5.2e+09 GB" in found.problem and "LLMB_INSTALL" in found.fix
    assert site_findings(spec.replace(checkpoint_facts=huge.replace(size_gb=0.001)), install) == []
    assert site_findings(make_spec(checkpoint_facts=huge), install) == []


def test_the_path_is_the_parent_of_weights(make_spec: Make, tmp_path: Path) -> None:
    install = Install(root=str(tmp_path), origin="test")
    weights = tmp_path / "run" / "checkpoints" / "weights"
    weights.mkdir(parents=True)
    (weights / "__0_0.distcp").touch()
    right = make_spec(checkpoint=CheckpointSpec(load=str(weights.parent)))
    assert site_findings(right, install) == []
    (one_too_deep,) = site_findings(make_spec(checkpoint=CheckpointSpec(load=str(weights))), install)
    assert one_too_deep.fix == f"use its parent {weights.parent}"
    (absent,) = site_findings(make_spec(checkpoint=CheckpointSpec(load=str(tmp_path / "no"))), install)
    assert "weights/*.distcp" in absent.fix
    (outside,) = site_findings(right, Install(root=str(tmp_path / "elsewhere"), origin="test"))
    assert "is not under" in outside.problem


def test_more_gpus_than_the_machine_has_are_refused(
    make_spec: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = Install(root=str(tmp_path), origin="test")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n# A stand-in.\necho 'NVIDIA H200, 143771, 570.1, Disabled, 9.0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    spec = make_spec(gpu_type="h200", gpus=8, launcher="local")
    (finding,) = site_findings(spec, install)
    assert finding.problem == "the run needs 8 GPUs, and this machine has 1 x h200"
    assert finding.fix.startswith("use --gpus 1") and not finding.warning
    assert site_findings(spec.replace(launcher="slurm"), install) == []
    assert site_findings(spec.replace(gpus=1), install) == []
    assert site_findings(spec.replace(gpu_type="cpu"), install) == []
