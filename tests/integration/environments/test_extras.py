"""The extras of the package: what `pip install llmbx[EXTRA]` resolves to, compared with the locks that are tested."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llmbx_environments.lock_file import read_lock, versions_of
from llmbx_environments.venv.resolution import find_resolver, packages

ROOT = Path(__file__).parents[3]
EXTRAS: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NEMO = ROOT / "plugins/nemo/llmbx_nemo/environments/megatron-bridge-0.6-cu13.toml"
MAXTEXT = ROOT / "plugins/maxtext/llmbx_maxtext/environments/maxtext-cu13.toml"


class Case(NamedTuple):
    """Extras that are installed together, with the oldest glibc, and packages that must be those of a lock."""

    extras: tuple[str, ...]
    python: str
    lock: Path
    same: tuple[str, ...]
    glibc: str = "2.28"


BRIDGE = ("megatron-bridge", "megatron-core", "torch", "transformers", "nvtx")
JAX = ("maxtext", "jax", "jaxlib", "jax-cuda13-plugin", "flax", "optax", "nvtx")
SMALL = ("profiling", "pandas", "polars", "wandb", "mlflow", "tensorboard")
CASES = [
    Case(("nemo",), "3.12", NEMO, BRIDGE, "2.39"),
    Case(("maxtext",), "3.13", MAXTEXT, JAX, "2.35"),
    *(Case(SMALL, python, MAXTEXT, ("nvtx",)) for python in ("3.11", "3.12", "3.13")),
]

OTHERWISE = {"transformer-engine": "2.18.0"}
"""Versions of the extra `nemo` that are not those of its lock.

The lock leaves out requirements of Megatron-Core, among them nvidia-cudnn-frontend 1.26.0. The PyTorch part of
Transformer Engine requires 1.25 or newer up to 2.18, and 1.28 after that.
"""

SOURCES = {
    "antlr4-python3-runtime": ("4.9.3", ()),
    "fast-hadamard-transform": ("1.1.0", ("torch", "packaging", "ninja")),
    "transformer-engine-torch": (
        "2.18.0",
        ("torch>=2.1", "einops", "onnxscript", "onnx", "packaging", "pydantic", "nvdlfw-inspect",
         "nvidia-cudnn-frontend>=1.25.0", "transformer_engine_cu13==2.18.0"),
    ),
    "wget": ("3.2", ()),
}  # fmt: skip
"""Packages without a wheel: version and requirements, from the PKG-INFO of the source archive. They are not built."""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A configuration file of uv with the metadata of the packages that have no wheel."""
    tables = (
        f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version}"\nrequires-dist = {list(requires)}\n'
        for name, (version, requires) in SOURCES.items()
    )
    path = tmp_path / "uv.toml"
    path.write_text("\n".join(tables))
    return path


def resolved(case: Case, settings: Path, *options: str | Path) -> dict[str, str]:
    """Version by name of what the package with extras needs on Linux on x86_64."""
    uv, output = find_resolver(os.environ), settings.with_name("pylock.toml")
    argv = [uv.path, "pip", "compile", "--quiet", "--config-file", settings, "--format", "pylock.toml"]
    argv += ["--python-platform", f"x86_64-manylinux_{case.glibc.replace('.', '_')}"]
    argv += ["--python-version", case.python, "--no-python-downloads", "--only-binary", ":all:"]
    argv += [part for name in SOURCES for part in ("--no-binary", name)]
    argv += [part for extra in case.extras for part in ("--extra", extra)]
    argv += ["--generate-hashes", "--output-file", output, ROOT / "pyproject.toml", *options]
    done = subprocess.run(argv, env=uv.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {package.name: package.version for package in packages(tomllib.loads(output.read_text()))}


def test_every_extra_is_resolved_here() -> None:
    assert {extra for case in CASES for extra in case.extras} == set(EXTRAS) - {"test"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.extras[0]}-{case.python}")
def test_the_frameworks_are_those_of_the_lock(case: Case, settings: Path) -> None:
    versions, locked = resolved(case, settings), versions_of(read_lock(case.lock))
    assert {name: versions[name] for name in case.same} == {name: locked[name] for name in case.same}
    if case.lock == NEMO:
        assert {name: versions[name] for name in OTHERWISE} == OTHERWISE


def test_the_extra_of_maxtext_has_every_package_of_the_lock(settings: Path, tmp_path: Path) -> None:
    """MaxText states no requirements, so the extra lists them. With the lock's versions it is complete, and fits."""
    locked = versions_of(read_lock(MAXTEXT))
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in locked.items()))
    versions = resolved(CASES[1]._replace(python="3.12"), settings, "--constraints", constraints)
    assert {name: versions.get(name) for name in locked} == locked
