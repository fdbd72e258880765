"""Rules of MaxText that hold beyond those of every framework."""

from __future__ import annotations

from collections.abc import Iterator

from llmbx.model import Finding, RunSpec
from llmbx.resolve.rules import emulated_bf16

from .arguments import processes
from .launch import RANK_ZERO
from .mesh import fsdp_degree, mesh_of
from .pgle import OFF, STANDIN
from .releases import BY_IMAGE, Release, dated, release_of, road_of

EMULATED_BF16 = "1.2 to 1.4"
"""The minis of Llama 2 and Mixtral (JAX 0.10 on AVX2): benchmarks/first_run.py."""

NO_GPU_METRICS = "the recipe has no GPU metrics: its profiles time operations for PGLE, and sampling disturbs them"


def findings(spec: RunSpec) -> list[Finding]:
    """Every rule that the run breaks."""
    release = release_of(spec)
    checks = (_dtype(spec), _letters(spec), _mesh(spec), _release(spec, release), _pgle(spec, release), _profile(spec))
    return [*(finding for check in checks for finding in check), *emulated_bf16(spec, EMULATED_BF16)]


def _dtype(spec: RunSpec) -> Iterator[Finding]:
    if spec.dtype == "fp8" and spec.gpu_type == "a100":
        yield Finding(
            rule="dtype",
            problem="A100 has no FP8: its tensor cores compute in FP16, BF16 and TF32, FP8 came with H100",
            fix="use --dtype bf16, or --gpu-type h100",
        )
    elif spec.dtype == "fp8" and spec.gpu_type == "cpu":
        yield Finding(rule="dtype", problem="MaxText's FP8 needs a GPU", fix="use --dtype bf16")


def _letters(spec: RunSpec) -> Iterator[Finding]:
    p = spec.parallelism
    absent = {"pp": p.pp > 1, "cp": p.cp > 1, "vp": (p.vp or 1) > 1, "etp": (p.etp or 1) > 1, "cg": spec.cuda_graphs}
    absent |= {"rl": bool(spec.recompute_layers), "ol": bool(spec.offload_layers)}
    for letter, given in absent.items():
        if given:
            fix = f"leave --set {letter} out; MaxText runs here with fsdp, tp and ep, and remat_policy for recompute"
            yield Finding(rule=letter, problem=f"the MaxText plugin does not set {letter.upper()}", fix=fix)
    if spec.checkpoint.save or spec.checkpoint.load:
        problem = "the MaxText recipe neither saves nor loads checkpoints"
        yield Finding(rule="checkpoint", problem=problem, fix="unset ENABLE_CHECKPOINT and LOAD_CHECKPOINT_PATH")


def _mesh(spec: RunSpec) -> Iterator[Finding]:
    mesh, p = mesh_of(spec), spec.parallelism
    if mesh.devices != spec.gpus:
        letters = f"TP {p.tp} x EP {p.ep or 1} x FSDP {fsdp_degree(spec)}"
        problem = f"{letters} does not divide {spec.gpus} GPUs into {mesh.nodes} nodes of {mesh.local}"
        fix = "choose degrees whose product divides the GPUs, and TP x EP a node"
        yield Finding(rule="mesh", problem=problem, fix=fix)
    count = processes(spec)
    if count < 1 or spec.gpus % (spec.nodes * count):
        where = f"{spec.nodes} machines of {count}" if spec.nodes > 1 else str(count)
        problem = f"{spec.gpus} devices cannot be shared by {where} processes"
        yield Finding(rule="processes", problem=problem, fix="use a divisor of a machine's devices for --set processes")
    elif count > 1 and spec.gpu_type != "cpu":
        problem = "processes is for machines without a GPU: on GPUs every rank drives one"
        yield Finding(rule="processes", problem=problem, fix="leave --set processes out")


def _release(spec: RunSpec, release: Release) -> Iterator[Finding]:
    if spec.gpu_type == "cpu" and not release.cpu:
        problem = f"{release.title} does not run without a GPU"
        yield Finding(rule="maxtext", problem=problem, fix="use --set maxtext=0.2")
    if spec.image and spec.settings.get("maxtext", BY_IMAGE) == BY_IMAGE and dated(spec.image.reference) is None:
        problem = f"the name of {spec.image.reference} does not tell which MaxText it has; taken for {release.title}"
        yield Finding(rule="maxtext", problem=problem, fix="say it with --set maxtext=0.2 or 2024.12", warning=True)
    if release.flops_convention != spec.flops_convention:
        ours, theirs = spec.flops_convention, release.flops_convention
        problem = f"{release.title} counts attention FLOPs by the {theirs} convention, the recipe by the {ours} one"
        fix = "compare step times; the TFLOP/s in the log follow MaxText"
        yield Finding(rule="flops", problem=problem, fix=fix, warning=True)


def _pgle(spec: RunSpec, release: Release) -> Iterator[Finding]:
    road = road_of(spec)
    if road == OFF:
        return
    if road not in release.roads:
        problem = f"{release.title} has no PGLE by '{road}'"
        yield Finding(rule="pgle", problem=problem, fix=f"use --set pgle={' or '.join(release.roads)}")
    if road != "jax" and any(character.isspace() for character in spec.install or ""):
        problem = f"XLA takes its flags apart at spaces, and the profile's path would have one: {spec.install}"
        yield Finding(
            rule="pgle", problem=problem, fix="use an install (LLMB_INSTALL) without spaces, or --set pgle=off"
        )
    if road == STANDIN and spec.gpu_type != "cpu":
        problem = "the stand-in converter makes costs of CPU operations, which mean nothing on a GPU"
        yield Finding(rule="pgle", problem=problem, fix=f"use --set pgle={BY_IMAGE}")
    if road != STANDIN and spec.gpu_type == "cpu":
        problem = "PGLE profiles a GPU's operations, and this run has no GPU"
        fix = f"leave pgle off, or rehearse its phases with --set pgle={STANDIN}"
        yield Finding(rule="pgle", problem=problem, fix=fix)


def _profile(spec: RunSpec) -> Iterator[Finding]:
    profile, seed = spec.profile, bool(spec.settings.get("seed_profile"))
    if profile is None:
        if seed and any(doubt.rule == "gpu_metrics" for doubt in spec.doubts):
            yield Finding(
                rule="profile", problem=NO_GPU_METRICS, fix="unset ENABLE_GPU_METRICS, or profile with pgle=off"
            )
        return
    if profile.tool not in ("nsys", "xplane"):
        problem = f"MaxText cannot be profiled with {profile.tool}"
        yield Finding(rule="profile", problem=problem, fix="use --tool xplane (JAX's own profiler) or nsys")
    if profile.tool == "xplane" and profile.ranks not in (*RANK_ZERO, "all"):
        problem = f"JAX's profiler runs in the first process or in all, not in ranks {profile.ranks}"
        yield Finding(rule="profile", problem=problem, fix="use --ranks first or all, or --tool nsys")
    if seed:
        problem = "seed_profile already profiles this run, as the recipe does"
        yield Finding(rule="profile", problem=problem, fix="leave --set seed_profile out to choose the steps")
    if profile.gpu_metrics and (seed or road_of(spec) == "nsys"):
        fix = "leave --gpu-metrics out, or profile with --set pgle=off"
        yield Finding(rule="profile", problem=NO_GPU_METRICS, fix=fix)
    elif profile.gpu_metrics and profile.tool == "xplane":
        problem = "GPU metrics are sampled by nsys, not by JAX's profiler"
        yield Finding(rule="profile", problem=problem, fix="use --tool nsys, or leave --gpu-metrics out")
