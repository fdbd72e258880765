"""XLA's flags of both phases of PGLE, parsed by real XLAs: that of the image of MaxText 2024.12, and the newest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from llmbx.model import Image
from llmbx.testing import resolve_spec
from llmbx_environments.venv.uv_tool import require_program
from llmbx_maxtext.entry.xla_flags import problem
from llmbx_maxtext.launch import launch

from .test_maxtext_entry import maxtext_python  # noqa: F401

JAXLIB = "0.4.38"
"""The jaxlib on the package index that is nearest to that of the image (2024-12-09)."""

NEWER = "--xla_gpu_enable_triton_softmax_fusion=false"
"""A flag of the recipe that jaxlib 0.5.1 and newer do not have."""


@pytest.fixture(scope="session")
def image_python(shared_install: Path) -> str:
    """A Python that finds the jaxlib of the image, and nothing else."""
    place = shared_install.parent / f"jaxlib-{JAXLIB.replace('.', '-')}"
    with FileLock(f"{place}.lock"):
        if not place.is_dir():
            uv = require_program(os.environ)
            python = ("--python", "3.11", "--python-preference", "system")
            fresh = place.with_suffix(".part")
            pin = f"jaxlib=={JAXLIB}"
            subprocess.run([uv, "pip", "install", *python, "--quiet", "--no-deps", "--target", fresh, pin], check=True)
            fresh.rename(place)
    started = place.with_suffix(".python")
    started.write_text(f'#!/bin/sh\nPYTHONPATH={place} exec python3.11 -S "$@"\n')
    started.chmod(0o755)
    return str(started)


def flags(dtype: str, gpus: int) -> dict[str, str]:
    """XLA_FLAGS of each training phase of the recipe on the image of December 2024."""
    spec = resolve_spec("llama2", dtype=dtype, gpus=gpus, gpu_type="h100", launcher="slurm")
    phases = launch(spec, Image(kind="container", reference="test", python="python3")).phases
    found = {phase.role: phase.env["XLA_FLAGS"] for phase in phases if "XLA_FLAGS" in phase.env}
    assert set(found) == {"collect", "measure"} and all(NEWER in text for text in found.values())
    return found


@pytest.mark.parametrize(("dtype", "gpus"), [("fp8", 512), ("bf16", 64)])
def test_the_xla_of_the_image_knows_every_flag_of_both_phases(image_python: str, dtype: str, gpus: int) -> None:
    for text in flags(dtype, gpus).values():
        assert problem({**os.environ, "XLA_FLAGS": text}, image_python) is None


def test_a_flag_that_it_does_not_know_is_named(image_python: str) -> None:
    known = flags("fp8", 512)["measure"]
    refused = problem({**os.environ, "XLA_FLAGS": f"{known} --xla_gpu_nonsense=3"}, image_python)
    assert refused and "does not accept the value of) --xla_gpu_nonsense=3: remove" in refused
    refused = problem({**os.environ, "XLA_FLAGS": "--xla_gpu_graph_level=high"}, image_python)
    assert refused and "xla_gpu_graph_level" in refused
    refused = problem({**os.environ, "XLA_FLAGS": f"--xla_a=1 {known} --xla_b=2"}, image_python)
    assert refused and "the value of) --xla_a=1 --xla_b=2: remove" in refused
    assert problem({"XLA_FLAGS": " "}, image_python) is None
    assert problem({"XLA_FLAGS": known}, "/no/such/python") is None


def test_a_newer_xla_refuses_the_flags_of_an_older_release(maxtext_python: str) -> None:  # noqa: F811
    for text in flags("fp8", 512).values():
        refused = problem({**os.environ, "XLA_FLAGS": text}, maxtext_python)
        assert refused and NEWER in refused and "--xla_gpu_enable_pipelined_all_gather" not in refused
