"""Validation rules and release detection of the MaxText plugin."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx.model import CheckpointSpec, Finding, RunSpec
from llmbx_maxtext.releases import dated, image_day, pgle_mode, release_of, releases
from llmbx_maxtext.rules import findings

Spec = Callable[..., RunSpec]


def rules(found: list[Finding]) -> list[str]:
    return [finding.rule for finding in found]


def test_every_row_of_the_catalog_meets_every_rule(cluster: Spec, spec: Spec) -> None:
    for dtype in ("bf16", "fp8"):
        for gpus in (64, 128, 256, 512, 1024, 2048):
            assert findings(cluster(dtype, gpus)) == []
            if dtype == "bf16":
                assert findings(cluster(dtype, gpus, "a100")) == []
    for name in ("llama2", "mixtral"):
        for gpus in (1, 2, 3, 4, 8):
            assert findings(spec(name, size="mini", gpus=gpus)) == []


def test_fp8_on_a100_is_refused_with_the_reason(cluster: Spec) -> None:
    run = cluster("fp8", 64, "a100")
    (found,) = findings(run)
    assert found.rule == "dtype" and "tensor cores" in found.problem and "--dtype bf16" in found.fix
    assert rules(list(run.findings)) == ["dtype"]


@pytest.mark.parametrize("letter", ["pp", "cp", "vp", "etp", "rl", "ol"])
def test_unsupported_parallelism_settings(spec: Spec, letter: str) -> None:
    assert letter in rules(findings(spec("llama2", size="mini", gpus=4, settings={letter: "2"})))


def test_checkpoints(spec: Spec) -> None:
    run = spec("llama2").replace(checkpoint=CheckpointSpec(save=True))
    assert rules(findings(run)) == ["checkpoint"]


@pytest.mark.parametrize("settings", [{"fsdp": "3"}, {"tp": "2", "fsdp": "4"}, {"fsdp": "8"}])
def test_a_mesh_that_does_not_fit(spec: Spec, settings: dict[str, str]) -> None:
    found = findings(spec("llama2", size="mini", gpus=4, settings=settings))
    assert rules(found) == ["mesh"] and "4 GPUs" in found[0].problem


@pytest.mark.parametrize("settings", [{"tp": "2"}, {"fsdp": "2"}, {"fsdp": "false"}])
def test_meshes_that_fit(spec: Spec, settings: dict[str, str]) -> None:
    assert findings(spec("llama2", size="mini", gpus=4, settings=settings)) == []


@pytest.mark.parametrize(("gpus", "processes"), [(4, "3"), (2, "4")])
def test_processes_share_devices_evenly(spec: Spec, gpus: int, processes: str) -> None:
    found = rules(findings(spec("llama2", size="mini", gpus=gpus, settings={"processes": processes})))
    assert found == ["processes"]


def test_processes_are_for_cpu(cluster: Spec) -> None:
    assert rules(findings(cluster("bf16", 64, settings={"processes": "2"}))) == ["processes"]


@pytest.mark.parametrize("mode", ["nsys", "jax"])
def test_pgle_needs_a_gpu(spec: Spec, mode: str) -> None:
    (found,) = findings(spec("llama2", settings={"pgle": mode}))
    assert found.rule == "pgle" and "cpu-standin" in found.fix


def test_an_install_with_a_space_cannot_be_named_in_xlas_flags(cluster: Spec) -> None:
    run = cluster("bf16", 64).replace(install="/data/my install")
    assert rules(findings(run)) == ["pgle"]
    assert findings(run.replace(settings={**run.settings, "pgle": "off"})) == []


def test_the_stand_in_is_for_cpu(cluster: Spec) -> None:
    found = findings(cluster("bf16", 64, settings={"pgle": "cpu-standin", "maxtext": "0.2"}))
    assert "pgle" in rules([finding for finding in found if not finding.warning])


def test_the_old_image_has_no_automatic_pgle(cluster: Spec) -> None:
    (found,) = findings(cluster("bf16", 64, settings={"pgle": "jax"}))
    assert found.rule == "pgle" and "nsys" in found.fix


def test_the_old_maxtext_does_not_run_without_a_gpu(spec: Spec) -> None:
    assert "maxtext" in rules(findings(spec("llama2", settings={"maxtext": "2024.12"})))


def test_an_image_without_a_date_causes_a_warning(cluster: Spec) -> None:
    (found,) = findings(cluster("bf16", 64, image="registry.example#team/maxtext:latest"))
    assert found.rule == "maxtext" and found.warning and "2024" in found.problem


def test_another_flops_convention_causes_a_warning(cluster: Spec) -> None:
    (found,) = findings(cluster("bf16", 64, settings={"maxtext": "0.2"}))
    assert found.rule == "flops" and found.warning and "causal" in found.problem


def test_profiles(cluster: Spec, spec: Spec) -> None:
    assert findings(spec("llama2", profile_steps="10-15", profile_tool="xplane")) == []
    assert findings(cluster("bf16", 64, profile_steps="10-15", profile_ranks="0-7")) == []
    assert rules(findings(spec("llama2", profile_steps="10-15", profile_tool="torch"))) == ["profile"]
    xplane = cluster("bf16", 64, profile_steps="10-15", profile_tool="xplane", profile_ranks="0-7")
    assert rules(findings(xplane)) == ["profile"]
    twice = cluster("bf16", 64, profile_steps="10-15", settings={"profile_measured": "true"})
    assert rules(findings(twice)) == ["profile"]


METRICS = {"nsys": {"gpu_metrics": True}}
VARIABLE = {"ENABLE_GPU_METRICS": "true"}


def test_gpu_metrics_are_refused_with_the_reason(cluster: Spec) -> None:
    (found,) = findings(cluster("bf16", 64, profile_steps="10-15", plugin_settings=METRICS))
    assert found.rule == "profile" and "sampling" in found.problem
    assert findings(cluster("bf16", 64, profile_steps="10-15", plugin_settings=METRICS, settings={"pgle": "off"})) == []
    (found,) = findings(cluster("bf16", 64, environ=VARIABLE, settings={"profile_measured": "true"}))
    assert found.rule == "profile" and not found.warning and "sampling" in found.problem


def test_gpu_metrics_without_a_profile_cause_a_warning(cluster: Spec) -> None:
    plain = cluster("bf16", 64, environ=VARIABLE)
    assert findings(plain) == []
    (warning,) = plain.findings
    assert warning.warning and "nothing is profiled" in warning.problem


@pytest.mark.parametrize(
    ("reference", "day"),
    [
        ("ghcr.io#nvidia/jax:maxtext-2024-12-09", "2024-12-09"),
        ("nvcr.io#nvidia/jax:25.01-maxtext-py3", "2025-01-01"),
        ("nvcr.io#nvidia/jax:25.13-maxtext-py3", None),
        ("registry.example:5000#team/maxtext:latest", None),
    ],
)
def test_an_images_day(reference: str, day: str | None) -> None:
    assert image_day(reference) == day


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("2024-12-09", "2024.12"),
        ("2025-04-03", "2024.12"),
        ("2025-04-04", None),
        ("2026-02-19", "0.2"),
        ("2027-01-01", "0.2"),
    ],
)
def test_a_day_between_releases_is_none_of_them(tag: str, name: str | None) -> None:
    found = dated(f"ghcr.io#nvidia/jax:maxtext-{tag}")
    assert (found.name if found else None) == name


def test_every_choice_of_the_catalog_is_a_release_or_pgle_mode(spec: Spec) -> None:
    from llmbx_maxtext.workloads import workloads

    for workload in workloads():
        assert set(workload.settings["maxtext"].choices) == {"by-image", *releases()}
        modes = {mode for release in releases().values() for mode in release.modes}
        assert set(workload.settings["pgle"].choices) == {"by-image", "off", *modes}


def test_an_unknown_release_is_a_clear_error(spec: Spec) -> None:
    run = spec("llama2").replace(driver="maxtext-0.3")
    with pytest.raises(UsageError, match=r"no MaxText release named '0.3' .*0.2"):
        release_of(run)


def test_pgle_modes(cluster: Spec, spec: Spec) -> None:
    assert pgle_mode(cluster("bf16", 64)) == "nsys"
    assert pgle_mode(cluster("bf16", 64, settings={"maxtext": "0.2"})) == "jax"
    assert pgle_mode(spec("llama2")) == "off"
