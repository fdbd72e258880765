"""Launches without a GPU and on clusters, with every argument."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from llmbx.model import Image, Launch, Phase, RunSpec
from llmbx_maxtext.launch import launch

from ...golden import Golden
from ..texts import files
from .payload import VENV, payload

Spec = Callable[..., RunSpec]
Compare = Callable[[str, Launch], None]

ENROOT = Image(kind="enroot", reference="ghcr.io#nvidia/jax:maxtext-2024-12-09", python="python3", digest="sha256:abc")


def text(found: Launch) -> str:
    """A launch as text, with one argument, flag or variable per line."""
    lines = [f"{found.nodes} nodes x {found.ranks_per_node} ranks x {found.gpus_per_rank} GPUs"]
    lines += [f"mount {mount.source}" for mount in found.mounts] + files(found).splitlines()
    for phase in found.phases:
        lines += ["", f"phase {phase.role}, ranks {phase.ranks}"]
        lines += [f"  {part}" for part in phase.argv]
        for name, value in phase.env.items():
            lines += [f"  {name}:", *(f"    {part}" for part in value.split())]
        lines += [f"  needs {path}" for path in phase.needs] + [f"  makes {path}" for path in phase.makes]
        lines += [f"  skip if {phase.skip_if}"] if phase.skip_if else []
        lines += [f"  capture {phase.capture}"] if phase.capture else []
    return "\n".join(lines) + "\n"


def phase(found: Launch, role: str) -> Phase:
    return next(phase for phase in found.phases if phase.role == role)


def arguments(found: Phase) -> dict[str, str]:
    """MaxText's arguments; each may occur only once."""
    pairs = [part.split("=", 1) for part in found.argv[3:]]
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


def flags(found: Phase) -> list[str]:
    return found.env["XLA_FLAGS"].split()


@pytest.fixture
def compare(golden: Golden, cluster: Spec, spec: Spec) -> Compare:
    """`compare(name, launch)`: a launch equals its golden file, which folds what the first of its kind has, too."""

    def check(name: str, found: Launch) -> None:
        if name.startswith("llama2_70b"):
            first, whole = "llama2_70b_bf16_64_h100.txt", launch(cluster("bf16", 64), ENROOT)
        else:
            first, whole = "llama2_mini_4.txt", launch(spec("llama2", size="mini", gpus=4), VENV)
        golden(name, text(found), like={**payload(), first: text(whole)})

    return check


def test_the_files_of_every_launch(golden: Golden) -> None:
    for name, listed in payload().items():
        golden(name, listed)


@pytest.mark.parametrize(
    ("dtype", "gpus", "gpu_type"),
    [(dtype, gpus, "h100") for dtype in ("bf16", "fp8") for gpus in (64, 512, 2048)] + [("bf16", 64, "a100")],
)
def test_clusters(cluster: Spec, compare: Compare, dtype: str, gpus: int, gpu_type: str) -> None:
    compare(f"llama2_70b_{dtype}_{gpus}_{gpu_type}.txt", launch(cluster(dtype, gpus, gpu_type), ENROOT))


@pytest.mark.parametrize(("name", "gpus"), [("llama2", 1), ("llama2", 4), ("mixtral", 4)])
def test_minis(spec: Spec, compare: Compare, name: str, gpus: int) -> None:
    compare(f"{name}_mini_{gpus}.txt", launch(spec(name, size="mini", gpus=gpus), VENV))


def test_the_cpu_standin(spec: Spec, compare: Compare) -> None:
    run = spec("llama2", size="mini", gpus=4, settings={"pgle": "cpu-standin", "processes": "2"})
    compare("llama2_mini_pgle.txt", launch(run, VENV))


def test_the_newer_maxtext_uses_jaxs_automatic_pgle(cluster: Spec, compare: Compare) -> None:
    found = launch(cluster("fp8", 64, settings={"maxtext": "0.2"}), ENROOT)
    compare("llama2_70b_fp8_64_maxtext02.txt", found)


# From the recipe's scripts: nodes cross FSDP up to 32, from 64 on 16 of them with the rest data parallel.
@pytest.mark.parametrize(
    ("gpus", "dcn_fsdp", "dcn_data"),
    [(64, 8, 1), (128, 16, 1), (256, 32, 1), (512, 16, 4), (1024, 16, 8), (2048, 16, 16)],
)
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_the_split_over_nodes(cluster: Spec, dtype: str, gpus: int, dcn_fsdp: int, dcn_data: int) -> None:
    found = launch(cluster(dtype, gpus), ENROOT)
    assert (found.nodes, found.ranks_per_node, found.gpus_per_rank) == (gpus // 8, 8, 1)
    for role in ("collect", "measure"):
        given = arguments(phase(found, role))
        assert given["ici_fsdp_parallelism"] == "8"
        assert given["dcn_fsdp_parallelism"] == str(dcn_fsdp) and given["dcn_data_parallelism"] == str(dcn_data)


# The recipe's MaxText arguments (both dtypes), then those that set BF16 and FP8 apart.
BOTH = """
use_iota_embed=true scan_layers=true per_device_batch_size=2 model_name=llama2-70b remat_policy=custom
enable_checkpointing=false logits_dot_in_fp32=false dataset_path=local dataset_type=synthetic attention=cudnn_flash_te
max_target_length=4096 hardware=gpu_multiprocess tokenizer_path=/opt/maxtext/assets/tokenizer.llama2
monitor_goodput=False enable_goodput_recording=False query_proj=device key_proj=device value_proj=device
qkv_proj=device out_proj=device
"""


@pytest.mark.parametrize(("dtype", "quantization", "mlpwo"), [("bf16", "", "device"), ("fp8", "fp8", None)])
def test_the_recipes_arguments(cluster: Spec, dtype: str, quantization: str, mlpwo: str | None) -> None:
    given = arguments(phase(launch(cluster(dtype, 64), ENROOT), "measure"))
    for pair in BOTH.split():
        key, value = pair.split("=")
        assert given[key] == value
    assert given["quantization"] == quantization and given.get("mlpwo") == mlpwo and given["steps"] == "50"


BASE = """
--xla_gpu_enable_triton_gemm=false --xla_gpu_graph_level=0 --xla_gpu_enable_highest_priority_async_stream=true
--xla_gpu_enable_pipelined_all_gather=true --xla_gpu_enable_pipelined_reduce_scatter=true
--xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_while_loop_double_buffering=true
--xla_gpu_enable_triton_softmax_fusion=false --xla_gpu_enable_all_gather_combine_by_dim=false
--xla_gpu_enable_reduce_scatter_combine_by_dim=false --xla_disable_hlo_passes=rematerialization --xla_dump_hlo_as_text
"""
GIB = 1 << 30


def test_the_recipes_flags_in_both_phases(cluster: Spec) -> None:
    found = launch(cluster("fp8", 512), ENROOT)
    collect, measure = flags(phase(found, "collect")), flags(phase(found, "measure"))
    thresholds = {"all_reduce": GIB, "all_gather": GIB // 2, "reduce_scatter": GIB // 256}
    for given in (collect, measure):
        assert set(BASE.split()) <= set(given)
        for name, size in thresholds.items():
            assert f"--xla_gpu_{name}_combine_threshold_bytes={size}" in given
    (profile,) = [flag.split("=")[1] for flag in measure if "pgle_profile" in flag]
    assert set(collect) - set(measure) == {
        "--xla_gpu_enable_latency_hiding_scheduler=false",
        "--xla_gpu_disable_async_collectives=allreduce,allgather,reducescatter",
        "--xla_dump_to=hlo/collect",
    }
    assert set(measure) - set(collect) == {
        "--xla_gpu_enable_latency_hiding_scheduler=true",
        f"--xla_gpu_pgle_profile_file_or_directory_path={profile}",
        "--xla_dump_to=hlo/measure",
    }
    assert profile.startswith("/llmb/pgle/") and profile.endswith(".pbtxt")


def test_the_measured_phase_is_not_verbose(cluster: Spec) -> None:
    measure = phase(launch(cluster("bf16", 64), ENROOT), "measure")
    assert "TF_CPP_VMODULE" not in measure.env and measure.env["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_collect_is_the_short_profiled_run(cluster: Spec) -> None:
    collect = phase(launch(cluster("bf16", 64), ENROOT), "collect")
    given = arguments(collect)
    assert (given["steps"], given["profiler"]) == ("15", "nsys")
    assert (given["skip_first_n_steps_for_profiler"], given["profiler_steps"]) == ("9", "3")
    assert collect.capture is not None and collect.capture.required and collect.capture.ranks == "first"
    assert (collect.capture.start, collect.capture.stop, collect.capture.tool) == (9, 12, "nsys")
    assert collect.makes == (collect.capture.output + ".nsys-rep",)
    assert collect.capture.output.startswith("nsys_profile/") and collect.capture.output.endswith("-prof")


def test_phases_wait_for_what_they_need(cluster: Spec) -> None:
    found = launch(cluster("bf16", 64), ENROOT)
    check, collect, convert, measure = found.phases
    assert [p.role for p in found.phases] == ["check", "collect", "convert", "measure"]
    assert [p.ranks for p in found.phases] == ["first", "all", "first", "all"]
    (key,) = convert.makes
    assert collect.skip_if == convert.skip_if == key and measure.needs == (key,)
    assert convert.needs == collect.makes and check.skip_if is None and measure.skip_if is None
    assert [mount.source for mount in found.mounts] == ["/llmb"]


def test_without_pgle_there_is_one_phase(cluster: Spec) -> None:
    found = launch(cluster("bf16", 64, settings={"pgle": "off"}), ENROOT)
    assert [p.role for p in found.phases] == ["train"] and found.mounts == ()
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in flags(found.phases[0])
    assert not any("pgle" in flag for flag in flags(found.phases[0]))


def profile_key(spec: RunSpec, image: Image = ENROOT) -> str:
    (key,) = phase(launch(spec, image), "convert").makes
    return key


def test_a_profile_belongs_to_image_model_mesh_and_flags(cluster: Spec) -> None:
    mine = profile_key(cluster("bf16", 64))
    assert profile_key(cluster("bf16", 64, steps=20)) == mine
    assert profile_key(cluster("bf16", 64, profile_steps="10-15")) == mine
    others = [
        profile_key(cluster("bf16", 64), ENROOT.replace(digest="sha256:abd")),
        profile_key(cluster("bf16", 128)),
        profile_key(cluster("bf16", 64, "a100")),
        profile_key(cluster("fp8", 64)),
        profile_key(cluster("bf16", 64, gpus_per_node=4)),
        profile_key(cluster("bf16", 64, settings={"layers": "40"})),
        profile_key(cluster("bf16", 64, settings={"all_gather_divisor": "8"})),
        profile_key(cluster("bf16", 64, settings={"remat_policy": "full"})),
        profile_key(cluster("bf16", 64, env={"XLA_FLAGS": "--xla_gpu_graph_level=1"})),
        profile_key(cluster("bf16", 64, settings={"pgle": "jax"})),
    ]
    assert len({mine, *others}) == 11


def test_an_image_without_a_digest_is_known_by_its_name(cluster: Spec) -> None:
    named = ENROOT.replace(digest=None)
    assert profile_key(cluster("bf16", 64), named) != profile_key(cluster("bf16", 64), named.replace(reference="other"))


def test_without_an_install_the_profile_stays_in_the_run_folder(cluster: Spec) -> None:
    found = launch(cluster("bf16", 64).replace(install=None), ENROOT)
    assert phase(found, "convert").makes[0].startswith("pgle/") and found.mounts == ()


def test_automatic_pgle_uses_the_same_flags_in_both_phases(cluster: Spec) -> None:
    """JAX finds compiled programs by their flags: the measured program must be the profiled one."""
    found = launch(cluster("fp8", 64, settings={"maxtext": "0.2", "hlo_dump": "false"}), ENROOT)
    collect, measure = phase(found, "collect"), phase(found, "measure")
    assert flags(collect) == flags(measure) and collect.capture is None
    assert collect.env["JAX_ENABLE_PGLE"] == "true" and collect.env["JAX_PGLE_PROFILING_RUNS"] == "3"
    assert measure.env["JAX_COMPILATION_CACHE_EXPECT_PGLE"] == "true" and "JAX_ENABLE_PGLE" not in measure.env
    assert arguments(collect)["jax_cache_dir"] == "pgle/executables" == collect.makes[0]
    assert arguments(measure)["jax_cache_dir"] == measure.needs[0].replace("key.json", "executables")


@pytest.mark.parametrize(
    ("reference", "mode"),
    [
        ("ghcr.io#nvidia/jax:maxtext-2024-12-09", "nsys"),
        ("nvcr.io#nvidia/jax:25.01-maxtext-py3", "nsys"),
        ("ghcr.io#nvidia/jax:maxtext-2026-03-01", "jax"),
    ],
)
def test_the_images_date_selects_the_pgle_mode(cluster: Spec, reference: str, mode: str) -> None:
    found = launch(cluster("bf16", 64, image=reference), ENROOT.replace(reference=reference))
    job = json.loads(found.files["spec.json"])
    assert job["pgle"]["mode"] == mode and job["program"]["name"] == {"nsys": "2024.12", "jax": "0.2"}[mode]


def test_names_that_only_the_newer_maxtext_has(cluster: Spec) -> None:
    new = arguments(phase(launch(cluster("bf16", 64, settings={"maxtext": "0.2"}), ENROOT), "measure"))
    old = arguments(phase(launch(cluster("bf16", 64), ENROOT), "measure"))
    assert {"max_segments_per_seq", "enable_tensorboard"} <= set(new) - set(old)
    assert "--xla_gpu_graph_level=0" not in flags(
        phase(launch(cluster("bf16", 64, settings={"maxtext": "0.2"}), ENROOT), "measure")
    )


def test_neither_maxtext_runs_cuda_graphs(cluster: Spec) -> None:
    """They would hide their operations from the profile; the flag that disables them was renamed."""
    for release, flag in (("2024.12", "--xla_gpu_graph_level=0"), ("0.2", "--xla_gpu_enable_command_buffer=")):
        found = launch(cluster("bf16", 64, settings={"maxtext": release}), ENROOT)
        assert all(flag in flags(phase(found, role)) for role in ("collect", "measure"))


def test_a_changed_shape_is_passed_in_full(cluster: Spec) -> None:
    given = arguments(phase(launch(cluster("bf16", 64, settings={"layers": "40"}), ENROOT), "measure"))
    assert "model_name" not in given and given["base_num_decoder_layers"] == "40"
    assert (given["base_emb_dim"], given["head_dim"], given["base_num_kv_heads"]) == ("8192", "128", "8")


def test_tensor_and_expert_parallelism_stay_inside_the_node(spec: Spec) -> None:
    given = arguments(launch(spec("mixtral", size="mini", gpus=8, settings={"tp": "2", "ep": "2"}), VENV).phases[0])
    shape = {axis: given[f"ici_{axis}_parallelism"] for axis in ("data", "fsdp", "tensor", "expert")}
    assert shape == {"data": "1", "fsdp": "2", "tensor": "2", "expert": "2"}
    assert given["per_device_batch_size"] == "1"  # two samples for each of four ranks that share by two


def test_fsdp_takes_what_tensor_parallelism_leaves_of_a_node(cluster: Spec) -> None:
    given = arguments(phase(launch(cluster("bf16", 64, settings={"tp": "2", "fsdp": "32"}), ENROOT), "measure"))
    assert (given["ici_tensor_parallelism"], given["ici_fsdp_parallelism"]) == ("2", "4")
    assert (given["dcn_fsdp_parallelism"], given["dcn_data_parallelism"]) == ("8", "1")


@pytest.mark.parametrize(("processes", "devices"), [("1", 4), ("2", 2)])
def test_machines_without_gpus_have_processes_with_their_own_devices(spec: Spec, processes: str, devices: int) -> None:
    """For MaxText all of them are one node: it rejects dcn axes without GPUs."""
    found = launch(spec("llama2", size="mini", gpus=8, gpus_per_node=4, settings={"processes": processes}), VENV)
    assert (found.nodes, found.ranks_per_node, found.gpus_per_rank) == (2, int(processes), devices)
    assert flags(found.phases[0]) == [f"--xla_force_host_platform_device_count={devices}"]
    given = arguments(found.phases[0])
    assert given["ici_fsdp_parallelism"] == "8" and given["dcn_fsdp_parallelism"] == "1"


def test_one_process_drives_all_forced_devices(spec: Spec) -> None:
    found = launch(spec("llama2", size="mini", gpus=4), VENV)
    assert (found.nodes, found.ranks_per_node, found.gpus_per_rank) == (1, 1, 4)
    assert flags(found.phases[0]) == ["--xla_force_host_platform_device_count=4"]
    assert arguments(found.phases[0])["ici_fsdp_parallelism"] == "4"


def test_several_processes_share_the_devices(spec: Spec) -> None:
    found = launch(spec("llama2", size="mini", gpus=4, settings={"processes": "2"}), VENV)
    assert (found.ranks_per_node, found.gpus_per_rank) == (2, 2)
    assert flags(found.phases[0]) == ["--xla_force_host_platform_device_count=2"]
    assert arguments(found.phases[0])["ici_fsdp_parallelism"] == "4"


def test_one_gpu_needs_no_distributed_runtime(spec: Spec) -> None:
    found = launch(spec("llama2", size="mini", gpu_type="h100", gpus=1), ENROOT)
    assert arguments(found.phases[0])["hardware"] == "gpu" and "JAX_PLATFORMS" not in found.phases[0].env


@pytest.mark.parametrize(("tool", "name"), [("nsys", "nsys"), ("xplane", "xplane")])
def test_a_profile_uses_maxtexts_own_profiler(spec: Spec, tool: str, name: str) -> None:
    given = arguments(launch(spec("llama2", profile_steps="45-50", profile_tool=tool), VENV).phases[0])
    assert (given["profiler"], given["skip_first_n_steps_for_profiler"], given["profiler_steps"]) == (name, "45", "5")


def test_rank_zero_alone_profiles_unless_others_are_asked_for(cluster: Spec) -> None:
    def every(**options: str) -> str:
        return arguments(phase(launch(cluster("bf16", 64, profile_steps="10-15", **options), ENROOT), "measure"))[
            "upload_all_profiler_results"
        ]

    assert every() == "false" and every(profile_ranks="0-7") == "true" and every(profile_ranks="all") == "true"


def test_profile_measured_profiles_both_phases_and_the_result_stays_valid(cluster: Spec) -> None:
    run = cluster("bf16", 64, settings={"profile_measured": "true"})
    found = launch(run, ENROOT)
    collect, measure = phase(found, "collect").capture, phase(found, "measure").capture
    assert collect is not None and collect.output.endswith("-prof") and measure is not None
    assert measure.output.endswith("-perf") and (measure.start, measure.stop) == (9, 12)
    assert not measure.required and measure.ranks == "first" and run.profile is None
    given = arguments(phase(found, "measure"))
    assert (given["profiler"], given["skip_first_n_steps_for_profiler"], given["profiler_steps"]) == ("nsys", "9", "3")


def test_one_process_for_each_node_has_all_its_gpus(cluster: Spec) -> None:
    found = launch(cluster("bf16", 64, settings={"processes": "1"}), ENROOT)
    assert (found.nodes, found.ranks_per_node, found.gpus_per_rank) == (8, 1, 8)
    assert arguments(phase(found, "measure"))["hardware"] == "gpu"


# The flags of values.yaml in training/*/llama3-1-*/maxtext-pretraining-gke, without those that XLA has as defaults.
PIPELINED = """
--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_enable_triton_gemm=false
--xla_gpu_enable_pipelined_all_gather=true --xla_gpu_enable_pipelined_reduce_scatter=true
--xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_while_loop_double_buffering=true
--xla_gpu_enable_all_gather_combine_by_dim=false --xla_gpu_enable_reduce_scatter_combine_by_dim=false
--xla_disable_hlo_passes=rematerialization
"""
SMALL = (2147483648, 2147483648, 16777216)


@pytest.mark.parametrize(
    ("size", "gpu_type", "sizes", "more"),
    [
        ("70b", "h200", SMALL, "--xla_gpu_graph_level=0"),
        (
            "405b", "h200", (2147483648,) * 3,
            "--xla_gpu_graph_level=0 --xla_gpu_enable_highest_priority_async_stream=true "
            "--xla_gpu_enable_triton_softmax_fusion=false",
        ),
        ("70b", "b200", SMALL, "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL"),
        ("405b", "b200", (17179869184,) * 3, "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL"),
    ],
)  # fmt: skip
def test_the_flags_of_gpu_recipes(spec: Spec, size: str, gpu_type: str, sizes: tuple[int, ...], more: str) -> None:
    run = spec("maxtext-llama3.1", size=size, dtype="fp8", gpu_type=gpu_type, gpus=256)
    names = ("all_reduce", "all_gather", "reduce_scatter")
    combined = [f"--xla_gpu_{name}_combine_threshold_bytes={size}" for name, size in zip(names, sizes, strict=True)]
    (train,) = launch(run, ENROOT).phases
    assert sorted(flags(train)) == sorted([*PIPELINED.split(), *combined, *more.split()])
    assert (run.nodes, launch(run, ENROOT).ranks_per_node) == (32, 1)


def test_the_users_flags_and_arguments_come_last(cluster: Spec) -> None:
    run = cluster(
        "bf16",
        64,
        env={"XLA_FLAGS": "--xla_gpu_graph_level=1"},
        settings={"extra": "shardy=false enable_dropout=false"},
    )
    measure = phase(launch(run, ENROOT), "measure")
    assert flags(measure)[-1] == "--xla_gpu_graph_level=1"
    assert measure.argv[-2:] == ("shardy=false", "enable_dropout=false")


def test_the_users_variables_win(spec: Spec) -> None:
    found = launch(spec("llama2", env={"TF_CPP_MIN_LOG_LEVEL": "0"}), VENV).phases[0]
    assert "TF_CPP_MIN_LOG_LEVEL" not in found.env


def test_secrets_are_neither_forwarded_nor_written(cluster: Spec) -> None:
    found = launch(cluster("bf16", 64).replace(secrets=("HF_TOKEN",)), ENROOT)
    assert all(p.forward == () for p in found.phases)


def test_the_same_run_renders_the_same(cluster: Spec) -> None:
    assert launch(cluster("bf16", 64), ENROOT) == launch(cluster("bf16", 64), ENROOT)
