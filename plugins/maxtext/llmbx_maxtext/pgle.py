"""Profile-guided latency estimation (PGLE): which phases it takes, and what its profile belongs to.

XLA's latency-hiding scheduler moves communication behind computation; how well depends on how long it believes each
operation takes. PGLE tells it: a short run is profiled (`collect`), the profile becomes a table of costs (`convert`),
and the measured run is compiled with it (`measure`). Before them `check` looks at what an earlier run left: a valid
profile makes `collect` and `convert` unnecessary, a damaged one is put aside. Between phases all ranks wait for each
other.

Roads: `nsys` profiles with Nsight Systems and converts with JAX's `pgo_nsys_converter` (MaxText Llama 2 recipe);
`jax` has JAX profile and recompile by itself and keeps the compiled programs; `cpu-standin` does what `nsys` does with
JAX's own profiler and a stand-in for the converter, so that the phases can be rehearsed without a GPU.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from llmbx.model import Image, RunSpec, Value

from .arguments import Stage, arguments, flags
from .mesh import mesh_of
from .releases import Release, road_of

OFF = "off"
STANDIN = "cpu-standin"

COLLECT_STEPS = 15
COLLECT_START = 9
COLLECT_STOP = 12
"""The collect phase: 15 steps, of which it profiles 9 to 11 (MaxText Llama 2 recipe)."""

WARM = 3
"""The first steps' times are artefacts: MaxText prints each step when the next has been dispatched."""

SEED_START = 10
SEED_STOP = 15
"""The steps of the measured phase that the recipe profiles (half-open)."""

JAX_RUNS = 3
"""How often JAX's automatic PGLE profiles a program before it compiles it anew (JAX's own default)."""

SCHEDULER = "--xla_gpu_enable_latency_hiding_scheduler="
NO_ASYNC = "--xla_gpu_disable_async_collectives=allreduce,allgather,reducescatter"
PROFILE = "--xla_gpu_pgle_profile_file_or_directory_path="
USER_FLAGS = "XLA_FLAGS"

EXECUTABLES = "executables"
COSTS = "costs.pbtxt"
KEY = "key.json"
"""What a profile's folder holds: compiled programs or the table of costs, and what they belong to."""


class Profile(Value, frozen=True):
    """Where a run's profile is kept and what it belongs to.

    `folder` is absolute when the install is known (then later runs find it), else inside the run folder. `content` is
    the file or folder in it, `facts` decide `digest`: image, model, mesh, arguments and XLA flags. `timed` are the
    steps [first, last) of the collect phase whose time is kept with the profile: warm, and not yet profiled.
    """

    road: str
    folder: str
    content: str
    digest: str
    facts: dict[str, Any]
    capture: str
    converter: str
    timed: tuple[int, int] = (WARM, COLLECT_START)

    @property
    def key(self) -> str:
        """The file that is there when the profile is complete."""
        return f"{self.folder}/{KEY}"

    @property
    def path(self) -> str:
        """The table of costs, or the folder of compiled programs."""
        return f"{self.folder}/{self.content}"


def profile_of(spec: RunSpec, image: Image, release: Release) -> Profile | None:
    """The profile that the run needs; None when it runs without PGLE."""
    road = road_of(spec)
    if road == OFF:
        return None
    facts = profile_facts(spec, image, release, road)
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    captures = {"jax": f"pgle/{EXECUTABLES}", STANDIN: f"maxtext/{spec.experiment}-collect/tensorboard/plugins/profile"}
    return Profile(
        road=road,
        folder=f"{spec.install}/pgle/{digest}" if spec.install else f"pgle/{digest}",
        content=EXECUTABLES if road == "jax" else COSTS,
        digest=digest,
        facts=facts,
        capture=captures.get(road, f"nsys_profile/{spec.experiment}-prof.nsys-rep"),
        converter=release.converter,
    )


def profile_facts(spec: RunSpec, image: Image, release: Release, road: str) -> dict[str, Any]:
    """What a profile belongs to: change any of it and the compiled program, or its timing, is another one."""
    stage = Stage(role="", steps=0)
    return {
        "road": road,
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
    """The XLA flags that set the phases apart. The scheduler sleeps while costs are collected, else it would hide them.

    JAX's automatic PGLE looks a compiled program up by its flags, so there both phases have the same.
    """
    if role == "collect" and profile and profile.road != "jax":
        return (f"{SCHEDULER}false", NO_ASYNC)
    if role == "measure" and profile and profile.road != "jax":
        return (f"{SCHEDULER}true", f"{PROFILE}{profile.path}")
    return (f"{SCHEDULER}true",)


def phase_env(role: str, profile: Profile | None) -> dict[str, str]:
    """The variables of JAX that set the phases apart."""
    if profile is None or profile.road != "jax":
        return {}
    if role == "collect":
        return {"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": str(JAX_RUNS)}
    return {"JAX_COMPILATION_CACHE_EXPECT_PGLE": "true"}


def compilation_cache(role: str, profile: Profile) -> str:
    """Where JAX keeps compiled programs: nowhere on the roads where a profile's content is not part of their key."""
    if profile.road != "jax":
        return ""
    return profile.capture if role == "collect" else profile.path
