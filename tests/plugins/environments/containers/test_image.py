"""`llmbx image build --print`: the definition for each recipe; `llmbx image export`: bundles that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.errors import InfraError, UsageError
from llmbx_environments.containers import verbs as cli


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf", "soon"])
def test_a_time_limit_is_finite_and_above_0(value: str) -> None:
    done = CliRunner().invoke(cli.prepare, ["line", "--timeout", value])
    assert done.exit_code == 2 and "Invalid value for '--timeout'" in done.output


def test_a_bundle_needs_a_folder_that_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    missing = CliRunner().invoke(cli.export, [str(tmp_path / "x" / "y.bundle")])
    assert isinstance(missing.exception, UsageError)
    assert f"y.bundle: folder {tmp_path}/x does not exist: create it" in str(missing.exception)

    refused = CliRunner().invoke(cli.export, ["/proc/y.bundle"])
    assert isinstance(refused.exception, InfraError)
    assert str(refused.exception).startswith("/proc/y.bundle could not be written: ")


@pytest.mark.parametrize(
    ("arguments", "base"),
    [
        (("llama3.1", "--recipe", "mbridge", "--gpu-type", "gb200", "--gpus", "128"), "nvcr.io/nvidia/nemo:25.09.00"),
        (("llama3.1", "--recipe", "bridge-0.6", "--gpu-type", "gb300", "--gpus", "128"), "nvcr.io/nvidia/nemo:26.08"),
        (("grok1", "--gpu-type", "h100", "--gpus", "512"), "nvcr.io/nvidia/nemo:25.04.00"),
        (("llama2", "--gpu-type", "h100", "--gpus", "512", "--dtype", "fp8"), "ghcr.io/nvidia/jax:maxtext-2024-12-09"),
        (("grok1",), "docker.io/library/python:3.11-slim-bookworm"),
        (("grok1", "--base", "a.b/c:1"), "a.b/c:1"),
    ],
)
def test_the_definition_of_an_image_has_the_base_of_the_recipe(
    arguments: tuple[str, ...], base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    for runtime, line in (("docker", f"FROM {base}"), ("apptainer", f"From: {base}")):
        done = CliRunner().invoke(cli.build, [*arguments, "--runtime", runtime, "--print"], catch_exceptions=False)
        assert done.exit_code == 0 and line in done.output.splitlines()
    assert not (tmp_path / "install").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("grok1", "--runtime", "enroot"), "only for docker and apptainer"),
        (
            ("grok1", "--runtime", "docker", "--base", "/nowhere/x.tar"),
            "--base /nowhere/x.tar: the file does not exist",
        ),
        (("grok1", "--runtime", "apptainer", "--base", "/x.sqsh"), "a file that ends in .tar or .sif"),
        (("grok1", "--runtime", "docker", "--base", "/x.sif"), "a file that ends in .tar"),
        (("grok1", "--runtime", "docker", "--base", "A b"), "'A b' is not an image reference"),
        (
            ("grok1", "--gpu-type", "h100", "--gpus", "512", "--runtime", "docker", "--python", "3.11"),
            "--python and --offline",
        ),
        (
            ("llama2", "--size", "70b-1gpu", "--dtype", "fp8", "--gpu-type", "h200", "--runtime", "docker"),
            "has no container image",
        ),
    ],
)
def test_an_image_that_cannot_be_built_is_refused(
    arguments: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    refused = CliRunner().invoke(cli.build, [*arguments, "--print"])
    assert isinstance(refused.exception, UsageError) and reason in str(refused.exception)
