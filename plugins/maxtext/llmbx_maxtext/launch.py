"""Turn a run specification into an image request and a launch: topology, files, mounts and phases.

Without a GPU, one process uses all forced host devices of its machine (`--gpus 4`: FSDP over four). On GPUs every rank
uses one device, as in the MaxText Llama 2 recipe, which starts one task per GPU: with `hardware=gpu_multiprocess`
MaxText lets JAX find the other ranks, and under Slurm JAX assigns one device to each task. With `--set processes=1` one
rank has all GPUs of its node (`hardware=gpu`), as in gpu-recipes; a single GPU needs no distributed runtime.
"""

from __future__ import annotations

from llmbx.api import (
    Capture,
    Image,
    ImageRequest,
    Launch,
    Mount,
    Phase,
    ProfileSpec,
    RunSpec,
    needed,
    payload_files,
)

from .arguments import Stage, arguments, flags, processes
from .pgle import (
    COLLECT_START,
    COLLECT_STEPS,
    COLLECT_STOP,
    CPU_STANDIN,
    USER_FLAGS,
    Profile,
    compilation_cache,
    phase_env,
    phase_flags,
    profile_of,
)
from .releases import Release, release_of
from .settings import settings

PROGRAMS = ("train.py", "pgle.py", "configure.py")
"""The programs of this package that are started inside the environment or image."""

RANK_ZERO = ("0", "first", "first,mid,last")
"""Values of `--ranks` that select only the first rank. With one pipeline stage, mid and last are the same rank."""


def request(spec: RunSpec) -> ImageRequest:
    """Return the environment (without a GPU) or the container image of the run."""
    return needed(spec, __package__)


def launch(spec: RunSpec, image: Image) -> Launch:
    """Return the launch of a run in `image`: one phase, or four with PGLE, two of which a cached profile skips."""
    release = release_of(spec)
    profile = profile_of(spec, image, release)
    ranks = processes(spec)
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=ranks,
        gpus_per_rank=spec.gpus // (spec.nodes * ranks),
        phases=phases(spec, image, release, profile),
        files=files(spec, release, profile),
        mounts=mounts(spec, profile),
    )


def phases(spec: RunSpec, image: Image, release: Release, profile: Profile | None) -> tuple[Phase, ...]:
    """Return the phases of the launch in order."""
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
    """Return a training phase: the entry script, which runs MaxText's own program with these arguments."""
    capture = _capture(spec, stage)
    return Phase(
        role=stage.role,
        argv=(image.python, "code/train.py", stage.role, *arguments(spec, release, stage)),
        env=environment(spec, release, stage, profile),
        capture=capture,
    )


def collect_stage(profile: Profile) -> Stage:
    """Return the stage of the short run that collects the costs.

    JAX's automatic PGLE profiles by itself and does not support another profiler at the same time.
    """
    cache = compilation_cache("collect", profile)
    if profile.mode == "jax":
        return Stage(role="collect", steps=COLLECT_STEPS, compilation_cache=cache)
    tool = "xplane" if profile.mode == CPU_STANDIN else "nsys"
    span = ProfileSpec(start=COLLECT_START, stop=COLLECT_STOP, ranks="first", tool=tool)
    return Stage(role="collect", steps=COLLECT_STEPS, profile=span, compilation_cache=cache)


def measured_stage(spec: RunSpec, role: str, profile: Profile | None) -> Stage:
    """Return the stage of the measured run, with the user's profile or that of the setting `profile_measured`."""
    span = spec.profile
    if span is None and spec.settings.get("profile_measured"):
        span = ProfileSpec(start=COLLECT_START, stop=COLLECT_STOP, ranks="first", tool="nsys")
    if profile is not None:
        cache = compilation_cache(role, profile)
    else:
        cache = f"{spec.install}/cache/jax" if spec.install and spec.gpu_type == "cpu" else ""
    every = span is not None and span.ranks not in RANK_ZERO
    return Stage(role=role, steps=spec.steps, profile=span, profile_all=every, compilation_cache=cache)


def environment(spec: RunSpec, release: Release, stage: Stage, profile: Profile | None) -> dict[str, str]:
    """Return the variables of a training phase, in addition to those of the run.

    Variables of the run are not overridden, except XLA_FLAGS: its flags are appended to those of the phase.
    """
    own = {"LLMBX_SPEC": "spec.json", "TF_CPP_MIN_LOG_LEVEL": "1", **phase_env(stage.role, profile)}
    if release.module:
        own |= {"DECOUPLE_GCLOUD": "TRUE", "HF_HUB_OFFLINE": "1"}
    if spec.gpu_type == "cpu":
        own |= {"JAX_PLATFORMS": "cpu"}
    every = [*flags(spec, release), *_dump(spec, stage)]
    if spec.gpu_type != "cpu" or profile:
        every += phase_flags(stage.role, profile)
    unset = {name: value for name, value in own.items() if name not in spec.env}
    return {**unset, USER_FLAGS: " ".join([*every, *spec.env.get(USER_FLAGS, "").split()])}


def files(spec: RunSpec, release: Release, profile: Profile | None) -> dict[str, bytes]:
    """Return the files for the run folder: the specification, and the code that runs inside the image."""
    return payload_files(spec, __package__, PROGRAMS, {"program": release, "pgle": profile})


def mounts(spec: RunSpec, profile: Profile | None) -> tuple[Mount, ...]:
    """Return the install folder as a mount if profiles are cached there.

    It is the only folder outside the run folder that is written to.
    """
    return (Mount(source=spec.install),) if profile and spec.install else ()


def _tool(image: Image, role: str, profile: Profile) -> Phase:
    return Phase(role=role, argv=(image.python, "code/pgle.py", role), env={"LLMBX_SPEC": "spec.json"}, ranks="first")


def _collect_capture(profile: Profile) -> Capture | None:
    if profile.mode != "nsys":
        return None
    output = profile.capture.removesuffix(".nsys-rep")
    return Capture(start=COLLECT_START, stop=COLLECT_STOP, tool="nsys", required=True, output=output)


def _capture(spec: RunSpec, stage: Stage) -> Capture | None:
    if stage.role == "collect" or spec.profile is not None or stage.profile is None:
        return None
    output = f"nsys_profile/{spec.experiment}-perf"
    return Capture(start=stage.profile.start, stop=stage.profile.stop, tool=stage.profile.tool, output=output)


def _dump(spec: RunSpec, stage: Stage) -> tuple[str, ...]:
    return ("--xla_dump_hlo_as_text", f"--xla_dump_to=hlo/{stage.role}") if settings(spec).hlo_dump else ()
