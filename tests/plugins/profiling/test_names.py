"""Names of profile files as in the recipes, and parsing them back to ranks."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.model import RunSpec
from llmbx_profiling.names import FileRank, fill_template, glob_pattern, nsys_output, parse_name

MakeSpec = Callable[..., RunSpec]

LLAMA = "profile_{job}_{node}_{local_rank}"
GROK = "{workload}-{size}-{dtype}_{gpus}g_{job}_{node}_{local_rank}"
MAVERICK = "profile_{job}_{node}_{rank}"
LLAMA_NEMO2 = "profile_{pid}"
MAXTEXT = "maxtext_{workload}_{size}_{dtype}_{gpus}g_{job}-perf"


@pytest.mark.parametrize(
    ("name", "nodes", "ranks", "expected"),
    [
        (LLAMA, 32, 256, "profile_%q{SLURM_JOB_ID}_%q{LLMBX_NODE_RANK}_%q{LLMBX_LOCAL_RANK}"),
        (GROK, 32, 256, "grok1-314b-fp8_256g_%q{SLURM_JOB_ID}_%q{LLMBX_NODE_RANK}_%q{LLMBX_LOCAL_RANK}"),
        (MAVERICK, 32, 9, "profile_%q{SLURM_JOB_ID}_%q{LLMBX_NODE_RANK}_%q{LLMBX_RANK}"),
        (LLAMA_NEMO2, 1, 8, "profile_%p"),
        (LLAMA_NEMO2, 32, 8, "profile_%p_rank%q{LLMBX_RANK}"),
        (MAXTEXT, 32, 1, "maxtext_grok1_314b_fp8_256g_%q{SLURM_JOB_ID}-perf"),
        (MAXTEXT, 32, 2, "maxtext_grok1_314b_fp8_256g_%q{SLURM_JOB_ID}-perf_rank%q{LLMBX_RANK}"),
    ],
)
def test_names_are_the_recipes_and_no_rank_overwrites_another(
    name: str, nodes: int, ranks: int, expected: str, make_spec: MakeSpec
) -> None:
    spec = make_spec(workload="grok1", size="314b", dtype="fp8", gpus=256)
    assert nsys_output(fill_template(name, spec, nodes, ranks), "%q{SLURM_JOB_ID}") == expected


@settings(deadline=None)
@given(
    st.sampled_from([LLAMA, GROK, MAVERICK, LLAMA_NEMO2, MAXTEXT]),
    st.integers(0, 40),
    st.integers(0, 7),
    st.integers(1, 9**9),
)
def test_a_file_name_is_parsed_to_its_rank(name: str, node: int, local: int, job: int) -> None:
    spec = RunSpecs.grok
    filled = fill_template(name, spec, 41, 328)
    values = {"job": job, "node": node, "local_rank": local, "rank": 8 * node + local, "pid": 4711}
    stem = re.sub(r"\{(\w+)\}", lambda m: str(values[m[1]]), filled)
    found = parse_name(filled, stem, 8)
    assert found is not None and found.rank == 8 * node + local
    for ending in (".nsys-rep", ".qdstrm"):
        assert fnmatch(stem + ending, glob_pattern(filled))
    assert not fnmatch("expected.json", glob_pattern(filled)) and not fnmatch("secrets.sh", glob_pattern(filled))


class RunSpecs:
    grok: RunSpec


@pytest.fixture(autouse=True, scope="module")
def _grok(request: pytest.FixtureRequest) -> None:
    from llmbx.model import ModelShape, Parallelism

    shape = ModelShape(
        layers=1, hidden_size=8, ffn_hidden_size=8, heads=1, query_groups=1, vocab_size=8, sequence_length=8
    )
    RunSpecs.grok = RunSpec(
        plugin="p", workload="grok1", folder="f", size="314b", dtype="fp8", gpu_type="h100", gpus=328, gpus_per_node=8,
        recipe="r", driver="d", model=shape, parallelism=Parallelism(), micro_batch_size=1, global_batch_size=1,
        gradient_accumulation=1, steps=50, window="auto", runtime="venv", launcher="slurm",
    )  # fmt: skip


def test_other_files_do_not_match() -> None:
    assert parse_name(LLAMA, "profile_77_3", 8) is None
    assert parse_name(LLAMA, "other_77_3_1", 8) is None
    assert parse_name(LLAMA_NEMO2, "profile_4711", 8) == FileRank()
