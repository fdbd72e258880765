"""Validation rules of MaxText, in addition to those of all frameworks."""

from __future__ import annotations

from collections.abc import Iterator

from llmbx.api import Finding, RunSpec, emulated_bf16

from .arguments import processes
from .launch import RANK_ZERO
from .mesh import fsdp_degree, mesh_of
from .pgle import CPU_STANDIN, OFF
from .releases import BY_IMAGE, Release, dated, pgle_mode, release_of
from .settings import settings

EMULATED_BF16 = "1.2 to 1.4"
"""Step time with emulated BF16 over that with FP32, for the minis of Llama 2 and Mixtral (JAX 0.10 on AVX2, measured
with benchmarks/first_run.py)."""

NO_GPU_METRICS = "GPU metrics cannot be sampled while PGLE profiles operations: sampling changes the measured times"


def findings(spec: RunSpec) -> list[Finding]:
    """Return a finding for every rule that the run violates."""
    release = release_of(spec)
    checks = (
        _dtype(spec),
        _unsupported(spec),
        _mesh(spec),
        _release(spec, release),
        _pgle(spec, release),
        _profile(spec),
    )
    return [*(finding for check in checks for finding in check), *emulated_bf16(spec, EMULATED_BF16)]


def _dtype(spec: RunSpec) -> Iterator[Finding]:
    if spec.dtype == "fp8" and spec.gpu_type == "a100":
        yield Finding(
            rule="dtype",
            problem="A100 does not support FP8: its tensor cores support FP16, BF16 and TF32; FP8 needs H100 or newer",
            fix="use --dtype bf16, or --gpu-type h100",
        )
    elif spec.dtype == "fp8" and spec.gpu_type == "cpu":
        yield Finding(rule="dtype", problem="FP8 in MaxText requires a GPU", fix="use --dtype bf16")


def _unsupported(spec: RunSpec) -> Iterator[Finding]:
    p = spec.parallelism
    used = {"pp": p.pp > 1, "cp": p.cp > 1, "vp": (p.vp or 1) > 1, "etp": (p.etp or 1) > 1, "cg": spec.cuda_graphs}
    used |= {"rl": bool(spec.recompute_layers), "ol": bool(spec.offload_layers)}
    for key, is_set in used.items():
        if is_set:
            fix = f"leave --set {key} out; use fsdp, tp and ep for parallelism, and remat_policy for recomputation"
            yield Finding(rule=key, problem=f"the MaxText plugin does not support {key.upper()}", fix=fix)
    if spec.checkpoint.save or spec.checkpoint.load:
        problem = "the MaxText recipe does not support saving or loading checkpoints"
        yield Finding(rule="checkpoint", problem=problem, fix="unset ENABLE_CHECKPOINT and LOAD_CHECKPOINT_PATH")


def _mesh(spec: RunSpec) -> Iterator[Finding]:
    mesh, p = mesh_of(spec), spec.parallelism
    if mesh.devices != spec.gpus:
        degrees = f"TP {p.tp} x EP {p.ep or 1} x FSDP {fsdp_degree(spec)}"
        problem = f"{degrees} does not divide {spec.gpus} GPUs on {mesh.nodes} nodes with {mesh.local} each"
        fix = "use degrees whose product divides the number of GPUs, and TP x EP that divides the GPUs of a node"
        yield Finding(rule="mesh", problem=problem, fix=fix)
    count = processes(spec)
    if count < 1 or spec.gpus % (spec.nodes * count):
        where = f" on each of {spec.nodes} machines" if spec.nodes > 1 else ""
        problem = f"{spec.gpus} devices cannot be divided evenly among {count} processes{where}"
        fix = "use --set processes=N with a divisor N of the devices of a machine"
        yield Finding(rule="processes", problem=problem, fix=fix)
    elif spec.gpu_type != "cpu" and count not in (1, spec.gpus // spec.nodes):
        problem = f"MaxText has one process for each GPU or for each node, not {count} on a node"
        yield Finding(rule="processes", problem=problem, fix="use --set processes=1, or leave it out")


def _release(spec: RunSpec, release: Release) -> Iterator[Finding]:
    if spec.gpu_type == "cpu" and not release.cpu:
        problem = f"{release.title} requires a GPU"
        yield Finding(rule="maxtext", problem=problem, fix="use --set maxtext=0.2")
    if spec.image and settings(spec).maxtext == BY_IMAGE and dated(spec.image.reference) is None:
        problem = f"cannot detect the MaxText release from the tag of {spec.image.reference}; assuming {release.title}"
        yield Finding(rule="maxtext", problem=problem, fix="use --set maxtext=0.2 or 2024.12", warning=True)
    if release.flops_convention != spec.flops_convention:
        ours, theirs = spec.flops_convention, release.flops_convention
        problem = f"{release.title} counts attention FLOPs with the {theirs} convention, the recipe with the {ours} one"
        fix = "compare step times; the TFLOP/s in the log use MaxText's convention"
        yield Finding(rule="flops", problem=problem, fix=fix, warning=True)


def _pgle(spec: RunSpec, release: Release) -> Iterator[Finding]:
    mode = pgle_mode(spec)
    if mode == OFF:
        return
    if mode not in release.modes:
        problem = f"{release.title} does not support PGLE mode '{mode}'"
        yield Finding(rule="pgle", problem=problem, fix=f"use --set pgle={' or '.join(release.modes)}")
    if mode != "jax" and any(character.isspace() for character in spec.install or ""):
        problem = f"the install path contains a space, and XLA splits its flags at spaces: {spec.install}"
        fix = "use an install folder (LLMB_INSTALL) without spaces, or --set pgle=off"
        yield Finding(rule="pgle", problem=problem, fix=fix)
    if mode == CPU_STANDIN and spec.gpu_type != "cpu":
        problem = f"PGLE mode {CPU_STANDIN} measures CPU operations and cannot be used on a GPU"
        yield Finding(rule="pgle", problem=problem, fix=f"use --set pgle={BY_IMAGE}")
    if mode != CPU_STANDIN and spec.gpu_type == "cpu":
        problem = f"PGLE mode '{mode}' requires a GPU"
        fix = f"use --set pgle=off, or --set pgle={CPU_STANDIN} to test the phases of PGLE on a CPU"
        yield Finding(rule="pgle", problem=problem, fix=fix)


def _profile(spec: RunSpec) -> Iterator[Finding]:
    profile, seed = spec.profile, bool(spec.settings.get("profile_measured"))
    if profile is None:
        if seed and _samples_gpus(spec):
            yield Finding(
                rule="profile", problem=NO_GPU_METRICS, fix="unset ENABLE_GPU_METRICS, or profile with pgle=off"
            )
        return
    if profile.tool not in ("nsys", "xplane"):
        problem = f"profiling MaxText with {profile.tool} is not supported"
        yield Finding(rule="profile", problem=problem, fix="use --tool xplane (JAX's own profiler) or nsys")
    if profile.tool == "xplane" and profile.ranks not in (*RANK_ZERO, "all"):
        problem = f"JAX's profiler supports only the first rank or all ranks, not ranks {profile.ranks}"
        yield Finding(rule="profile", problem=problem, fix="use --ranks first or all, or --tool nsys")
    if seed:
        problem = "a profile cannot be combined with --set profile_measured, which profiles the run as the recipe does"
        yield Finding(rule="profile", problem=problem, fix="leave --set profile_measured out")
    if profile.tool == "nsys" and _samples_gpus(spec) and (seed or pgle_mode(spec) == "nsys"):
        fix = "leave --gpu-metrics out, or profile with --set pgle=off"
        yield Finding(rule="profile", problem=NO_GPU_METRICS, fix=fix)


def _samples_gpus(spec: RunSpec) -> bool:
    """Whether the settings of the profiler nsys request GPU counters."""
    return bool(spec.plugin_settings.get("nsys", {}).get("gpu_metrics"))
