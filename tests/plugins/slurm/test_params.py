"""Parsing and checking of sbatch and srun options."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx_slurm.params import OPTIONS, VARIABLES, check_nodelist, check_params, check_srun, from_environ, parse_params


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("nodelist=node001,node002", {"nodelist": "node001,node002"}),
        ("constraint=gpu&memory;exclusive", {"constraint": "gpu&memory", "exclusive": ""}),
        ("reservation=my_reservation", {"reservation": "my_reservation"}),
        ("nodelist=node001,node002;constraint=gpu&memory;exclusive",
         {"nodelist": "node001,node002", "constraint": "gpu&memory", "exclusive": ""}),
        (" --gpus_per_node = 8 ; ; --exclusive ;", {"gpus-per-node": "8", "exclusive": ""}),
        ("comment=\"a;b = 'c'\";qos=x", {"comment": "a;b = 'c'", "qos": "x"}),
        ("gres=gpu:h100:8;export=A=1,B=2", {"gres": "gpu:h100:8", "export": "A=1,B=2"}),
        ("qos=a;qos=a", {"qos": "a"}),
        ("", {}),
    ],
)  # fmt: skip
def test_the_recipes_grammar(text: str, options: dict[str, str]) -> None:
    assert parse_params(text) == options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("=8", "'=8' has no option name"),
        ("qos=a;qos=b", "qos has two values: 'a' and 'b'"),
        ('comment="open', 'missing closing quote (")'),
    ],
)
def test_what_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"ADDITIONAL_SLURM_PARAMS: {says}")):
        parse_params(text)


plain = st.text(st.characters(exclude_characters="\"';\0\n\r", codec="utf-8")).map(str.strip)


@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)), plain))
def test_whatever_is_written_is_read_back(options: dict[str, str]) -> None:
    assert parse_params(";".join(f"{key}={value}" for key, value in options.items())) == options


def test_sbatchs_own_variables() -> None:
    environ = {"SBATCH_GPUS_PER_NODE": "8", "SBATCH_NO_REQUEUE": "1", "SBATCH_TIMELIMIT": "10", "PATH": "/bin",
               "SBATCH_DISTRIBUTION": "block:cyclic", "SBATCH_OUTPUT": "x"}  # fmt: skip
    assert from_environ(environ) == {
        "gpus-per-node": ("8", "SBATCH_GPUS_PER_NODE"),
        "no-requeue": ("", "SBATCH_NO_REQUEUE"),
        "time": ("10", "SBATCH_TIMELIMIT"),
        "distribution": ("block:cyclic", "SBATCH_DISTRIBUTION"),
    }
    assert set(VARIABLES.values()) <= {*OPTIONS, "array"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"nodes": "4"}, "nodes=4 (--slurm-arg): llmbx sets it; the number of nodes is derived from --gpus"),
        ({"array": "0-5"}, "array=0-5 (--slurm-arg): llmbx sets it; use llmbx sweep for many runs"),
        ({"nodelsit": "n1"}, "nodelsit=n1 (--slurm-arg): did you mean 'nodelist'?"),
        ({"comment": "a\nb"}, "a value must be a single line"),
        ({"gres": "gpu:8", "gpus-per-node": "4"},
         "gres=gpu:8 (--slurm-arg) and gpus-per-node=4 (--slurm-arg) conflict: remove one"),
        ({"nodelist": "n1,n2", "exclude": "n2,n3"}, "(n2 is in both)"),
        ({"requeue": "", "no-requeue": ""}, "requeue (--slurm-arg) and no-requeue (--slurm-arg) conflict: remove one"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        check_params(options, {f"slurm.sbatch.{key}": "--slurm-arg" for key in options})


def test_options_that_are_fine() -> None:
    check_params({"gres": "craynetwork:1", "gpus-per-node": "8"}, {})
    check_params({"container-image": "x", "site-plugin": "y"}, {})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"a b": "3"}, "a b=3 (--slurm-arg): a name has only letters, digits and dashes; separate options by ';'"),
        ({"account": ""}, "account (--slurm-arg): a value is required"),
        ({"time": ""}, "time (--slurm-arg): a value is required"),
    ],
)
def test_options_that_no_directive_can_carry(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"sbatch option {says}")):
        check_params(options, {f"slurm.sbatch.{key}": "--slurm-arg" for key in options})


def test_a_variable_that_is_set_to_nothing_asks_for_nothing() -> None:
    assert from_environ({"SBATCH_ACCOUNT": "", "SBATCH_EXCLUSIVE": ""}) == {"exclusive": ("", "SBATCH_EXCLUSIVE")}


@pytest.mark.parametrize("name", ["nodes", "ntasks_per_node", "output"])
def test_sruns_options_that_are_llmbxs_own_are_refused_as_sbatchs_are(name: str) -> None:
    with pytest.raises(UsageError, match=rf"srun option {name}=7 \(cluster 'c'\): llmbx sets it; "):
        check_srun({name: "7"}, "cluster 'c'")
    check_srun({"mpi": "pmix", "cpu-bind": "none", "kill-on-bad-exit": "0"}, "cluster 'c'")


def test_a_nodelist_that_is_longer_than_the_run_is_refused_with_both_numbers() -> None:
    message = r"nodelist=n\[1-4\] \(--slurm-nodelist\) names 4 nodes, but the run has 2: name 2, or use --gpus 32"
    with pytest.raises(UsageError, match=message):
        check_nodelist({"nodelist": "n[1-4]"}, {"slurm.sbatch.nodelist": "--slurm-nodelist"}, 2, 8)
    for fine in ("n[1-2]", "n1", "/home/me/nodes", "n[1-2]x[1-9]"):
        check_nodelist({"nodelist": fine}, {}, 2, 8)
    check_nodelist({}, {}, 2, 8)
