"""Profile-guided latency estimation (PGLE): its phases, modes, and the identity of its profile.

XLA's latency-hiding scheduler overlaps communication with computation; how well depends on its estimate of how long
each operation takes. PGLE measures these times: a short run is profiled (`collect`), the profile is converted to a
table of costs (`convert`), and the measured run is compiled with it (`measure`). Before that, `check` looks for the
cached profile of an earlier run: a valid profile makes `collect` and `convert` unnecessary, a damaged one is moved
away. Between phases all ranks wait for each other.

Modes: `nsys` profiles with Nsight Systems and converts with JAX's
`pgo_nsys_converter` (MaxText Llama 2 recipe); with `jax`, JAX profiles and recompiles by itself, and the compiled
programs are cached; `cpu-standin` works like `nsys`, but with JAX's own profiler and a converter of llmbx's own, to
test the phases without a GPU.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from llmbx.api import Image, RunSpec, Value

from .arguments import Stage, arguments, flags
from .mesh import mesh_of
from .releases import Release, pgle_mode

OFF = "off"
CPU_STANDIN = "cpu-standin"

COLLECT_STEPS = 15
COLLECT_START = 9
COLLECT_STOP = 12
"""The collect phase has 15 steps and profiles steps 9 to 11 (MaxText Llama 2 recipe). With the setting
`profile_measured` the measured phase profiles them, too."""

WARM = 3
"""Number of first steps whose times are not valid: MaxText prints a step when the next one has been dispatched."""

JAX_RUNS = 3
"""Number of runs that JAX's automatic PGLE profiles before it recompiles a program (JAX's default)."""

SCHEDULER = "--xla_gpu_enable_latency_hiding_scheduler="
NO_ASYNC = "--xla_gpu_disable_async_collectives=allreduce,allgather,reducescatter"
PROFILE = "--xla_gpu_pgle_profile_file_or_directory_path="
USER_FLAGS = "XLA_FLAGS"

EXECUTABLES = "executables"
COSTS = "costs.pbtxt"
KEY = "key.json"
"""Contents of a profile's folder: compiled programs or the table of costs, and a file that identifies the profile."""


class Profile(Value, frozen=True):
    """Location and identity of the PGLE profile of a run.

    `mode` is the PGLE mode. `folder` is in the install folder, where later runs find it, or in the run folder if there
    is no install folder. `content` is the file or folder in it. `digest` is the hash of `facts`: image, model, mesh,
    arguments and XLA flags. `capture` is what the collect phase writes, relative to the run folder. `timed` are the
    steps [first, last) of the collect phase whose time is stored with the profile: after the warm-up, before the
    profiled steps.
    """

    mode: str
    folder: str
    content: str
    digest: str
    facts: dict[str, Any]
    capture: str
    converter: str
    timed: tuple[int, int] = (WARM, COLLECT_START)

    @property
    def key(self) -> str:
        """The file that exists if the profile is complete."""
        return f"{self.folder}/{KEY}"

    @property
    def path(self) -> str:
        """The table of costs, or the folder of compiled programs."""
        return f"{self.folder}/{self.content}"


def profile_of(spec: RunSpec, image: Image, release: Release) -> Profile | None:
    """Return the profile that the run needs; None if it runs without PGLE."""
    mode = pgle_mode(spec)
    if mode == OFF:
        return None
    facts = profile_facts(spec, image, release, mode)
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    traces = f"maxtext/{spec.experiment}-collect/tensorboard/plugins/profile"
    captures = {"jax": f"pgle/{EXECUTABLES}", CPU_STANDIN: traces}
    return Profile(
        mode=mode,
        folder=f"{spec.install}/pgle/{digest}" if spec.install else f"pgle/{digest}",
        content=EXECUTABLES if mode == "jax" else COSTS,
        digest=digest,
        facts=facts,
        capture=captures.get(mode, f"nsys_profile/{spec.experiment}-prof.nsys-rep"),
        converter=release.converter,
    )


def profile_facts(spec: RunSpec, image: Image, release: Release, mode: str) -> dict[str, Any]:
    """Return what identifies a profile: if any of it changes, the compiled program or its timing changes, too."""
    stage = Stage(role="", steps=0)
    return {
        "mode": mode,
        "image": image.digest or image.reference,
        "release": release.name,
        "gpus": f"{spec.gpus} x {spec.gpu_type}",
        "model": msgspec.to_builtins(spec.model),
        "mesh": msgspec.to_builtins(mesh_of(spec)),
        "dtype": spec.dtype,
        "arguments": [text for text in arguments(spec, release, stage) if not text.startswith(("run_name=", "steps="))],
        "xla_flags": [*flags(spec, release), *spec.env.get(USER_FLAGS, "").split()],
    }


def phase_flags(role: str, profile: Profile | None) -> tuple[str, ...]:
    """Return the XLA flags of a phase that differ between phases.

    The latency-hiding scheduler is off while costs are collected, because it would hide them. JAX's automatic PGLE
    finds compiled programs by their flags, so both phases have the same flags in this mode.
    """
    if role == "collect" and profile and profile.mode != "jax":
        return (f"{SCHEDULER}false", NO_ASYNC)
    if role == "measure" and profile and profile.mode != "jax":
        return (f"{SCHEDULER}true", f"{PROFILE}{profile.path}")
    return (f"{SCHEDULER}true",)


def phase_env(role: str, profile: Profile | None) -> dict[str, str]:
    """Return the JAX variables of a phase that differ between phases."""
    if profile is None or profile.mode != "jax":
        return {}
    if role == "collect":
        return {"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": str(JAX_RUNS)}
    return {"JAX_COMPILATION_CACHE_EXPECT_PGLE": "true"}


def compilation_cache(role: str, profile: Profile) -> str:
    """Return the folder in which JAX caches compiled programs.

    It is empty (no cache) except in mode `jax`: in the other modes JAX's cache key does not depend on the profile.
    """
    if profile.mode != "jax":
        return ""
    return profile.capture if role == "collect" else profile.path
