"""From a run's specification to what has to be started: the environment it needs, its topology, files and phases.

Without a GPU one process drives all forced host devices of its machine (`--gpus 4`: FSDP over four). On GPUs every rank
drives one: with `hardware=gpu_multiprocess` MaxText leaves it to JAX to find its peers, JAX under Slurm gives each task
one device, and the MaxText Llama 2 recipe starts as many tasks a node as it has GPUs. A lone GPU needs no distributed
runtime (`hardware=gpu`).
"""

from __future__ import annotations

from llmbx.catalog.environments import needed
from llmbx.launchers.payload import CODE, SPEC, carried
from llmbx.model import Capture, Image, ImageRequest, Launch, Mount, Phase, ProfileSpec, RunSpec

from .arguments import Stage, arguments, flags, processes
from .pgle import (
    COLLECT_START,
    COLLECT_STEPS,
    COLLECT_STOP,
    SEED_START,
    SEED_STOP,
    STANDIN,
    USER_FLAGS,
    Profile,
    compilation_cache,
    phase_env,
    phase_flags,
    profile_of,
)
from .releases import Release, release_of

PROGRAMS = ("train.py", "pgle.py")
"""What of this package is started inside the environment or image."""

RANK_ZERO = ("0", "first", "first,mid,last")
"""Selectors of profiled ranks that mean the first alone, as MaxText has it: without pipeline stages there is one."""


def request(spec: RunSpec) -> ImageRequest:
    """The environment (where there is no GPU) or container image of the run."""
    return needed(spec, __package__)


def launch(spec: RunSpec, image: Image) -> Launch:
    """The launch of a run in `image`: one phase, or with PGLE four of which a cached profile makes two unnecessary."""
    release = release_of(spec)
    profile = profile_of(spec, image, release)
    ranks = processes(spec) if spec.gpu_type == "cpu" else spec.gpus // spec.nodes
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=ranks,
        gpus_per_rank=spec.gpus // (spec.nodes * ranks),
        phases=phases(spec, image, release, profile),
        files=files(spec, release, profile),
        mounts=mounts(spec, profile),
    )


def phases(spec: RunSpec, image: Image, release: Release, profile: Profile | None) -> tuple[Phase, ...]:
    """The launch's phases in order."""
    if profile is None:
        return (training(spec, image, release, measured_stage(spec, "train", None), None),)
    collect = training(spec, image, release, collect_stage(profile), profile)
    measure = training(spec, image, release, measured_stage(spec, "measure", profile), profile)
    return (
        _tool(image, "check", profile),
        collect.replace(skip_if=profile.key, makes=(profile.capture,), capture=_collect_capture(profile)),
        _tool(image, "convert", profile).replace(skip_if=profile.key, needs=(profile.capture,), makes=(profile.key,)),
        measure.replace(needs=(profile.key,)),
    )


def training(spec: RunSpec, image: Image, release: Release, stage: Stage, profile: Profile | None) -> Phase:
    """A phase that trains: MaxText's own program behind the entry script, its arguments as they are."""
    capture = _capture(spec, stage)
    return Phase(
        role=stage.role,
        argv=(image.python, f"{CODE}/train.py", stage.role, *arguments(spec, release, stage)),
        env=environment(spec, release, stage, profile),
        capture=capture,
    )


def collect_stage(profile: Profile) -> Stage:
    """The short run whose costs are collected. JAX's own PGLE profiles by itself, and tolerates no other profiler."""
    cache = compilation_cache("collect", profile)
    if profile.road == "jax":
        return Stage(role="collect", steps=COLLECT_STEPS, compilation_cache=cache)
    tool = "xplane" if profile.road == STANDIN else "nsys"
    span = ProfileSpec(start=COLLECT_START, stop=COLLECT_STOP, ranks="first", tool=tool)
    return Stage(role="collect", steps=COLLECT_STEPS, profile=span, compilation_cache=cache)


def measured_stage(spec: RunSpec, role: str, profile: Profile | None) -> Stage:
    """The run that is measured (and profiled, if that was asked for)."""
    span = spec.profile
    if span is None and spec.settings.get("seed_profile"):
        span = ProfileSpec(start=SEED_START, stop=SEED_STOP, ranks="first", tool="nsys")
    if profile is not None:
        cache = compilation_cache(role, profile)
    else:
        cache = f"{spec.install}/cache/jax" if spec.install and spec.gpu_type == "cpu" else ""
    every = span is not None and span.ranks not in RANK_ZERO
    return Stage(role=role, steps=spec.steps, profile=span, profile_all=every, compilation_cache=cache)


def environment(spec: RunSpec, release: Release, stage: Stage, profile: Profile | None) -> dict[str, str]:
    """What a training phase exports beyond the run's own variables; of those only XLA_FLAGS is added to."""
    own = {"LLMBX_SPEC": SPEC, "TF_CPP_MIN_LOG_LEVEL": "1", **phase_env(stage.role, profile)}
    if release.module:
        own |= {"DECOUPLE_GCLOUD": "TRUE", "HF_HUB_OFFLINE": "1"}
    if spec.gpu_type == "cpu":
        own |= {"JAX_PLATFORMS": "cpu"}
    every = [*flags(spec, release), *_dump(spec, stage)]
    if spec.gpu_type != "cpu" or profile:
        every += phase_flags(stage.role, profile)
    kept = {name: value for name, value in own.items() if name not in spec.env}
    return {**kept, USER_FLAGS: " ".join([*every, *spec.env.get(USER_FLAGS, "").split()])}


def files(spec: RunSpec, release: Release, profile: Profile | None) -> dict[str, bytes]:
    """What is written into the run folder: the specification and the code that runs inside."""
    return carried(spec, __package__, PROGRAMS, {"program": release, "pgle": profile})


def mounts(spec: RunSpec, profile: Profile | None) -> tuple[Mount, ...]:
    """The install, where it keeps profiles for later runs: the one folder outside the run's own that is written."""
    return (Mount(source=spec.install),) if profile and spec.install else ()


def _tool(image: Image, role: str, profile: Profile) -> Phase:
    return Phase(role=role, argv=(image.python, f"{CODE}/pgle.py", role), env={"LLMBX_SPEC": SPEC}, ranks="first")


def _collect_capture(profile: Profile) -> Capture | None:
    if profile.road != "nsys":
        return None
    output = profile.capture.removesuffix(".nsys-rep")
    return Capture(start=COLLECT_START, stop=COLLECT_STOP, tool="nsys", required=True, output=output)


def _capture(spec: RunSpec, stage: Stage) -> Capture | None:
    if stage.role == "collect" or spec.profile is not None or stage.profile is None:
        return None
    output = f"nsys_profile/{spec.experiment}-perf"
    return Capture(start=stage.profile.start, stop=stage.profile.stop, tool=stage.profile.tool, output=output)


def _dump(spec: RunSpec, stage: Stage) -> tuple[str, ...]:
    return ("--xla_dump_hlo_as_text", f"--xla_dump_to=hlo/{stage.role}") if spec.settings.get("hlo_dump") else ()
