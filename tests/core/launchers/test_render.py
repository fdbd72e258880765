"""Rendering of the local launcher's scripts: golden files, and quoting of values."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.launchers.shim import rank_condition, render_shim
from llmbx.model import Phase, Prefix, Wrapping

from ...golden import Golden
from .conftest import make_launch
from .scripts import AWKWARD, INVALID, OTHERS, WHOLES, local, wholes

CASES = {**WHOLES, **OTHERS}


@pytest.mark.parametrize("name", CASES)
def test_golden(golden: Golden, name: str) -> None:
    golden(name, CASES[name](), like={} if name in WHOLES else wholes())


@pytest.mark.parametrize("name", CASES)
def test_rendered_scripts_are_valid_bash(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text(CASES[name]())
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


ANY = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@settings(max_examples=50, deadline=None)
@given(ANY, ANY)
def test_no_value_breaks_out_of_a_script(argument: str, value: str) -> None:
    phase = Phase(role="train", argv=("python3", argument), env={"NAME": value})
    text = local(make_launch(phase))
    assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


def test_the_shim_is_portable_shell(tmp_path: Path) -> None:
    launch = make_launch(AWKWARD, ranks=8, ranks_per_numa_node=4)
    shim = tmp_path / "rank.sh"
    shim.write_text(render_shim(launch.phases[0], launch))
    for shell in ("sh", "bash"):
        checked = subprocess.run([shell, "-n", shim], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def ranks_of(selector: str, world: int) -> list[int]:
    """The ranks of a selector, as the shell evaluates its condition."""
    condition = rank_condition(selector, world) or "true"
    loop = f'LLMBX_RANK=0; while [ "$LLMBX_RANK" -lt {world} ]; do if {condition}; then echo "$LLMBX_RANK"; fi; '
    text = loop + "LLMBX_RANK=$((LLMBX_RANK + 1)); done"
    return [int(line) for line in subprocess.run(["sh", "-c", text], capture_output=True, check=True).stdout.split()]


@pytest.mark.parametrize(
    ("selector", "ranks"),
    [
        ("all", list(range(16))),
        ("first", [0]),
        ("last", [15]),
        ("first,mid,last", [0, 8, 15]),
        ("0,8,15", [0, 8, 15]),
        ("0-7", list(range(8))),
        ("3, 5-6 ,3", [3, 5, 6]),
        ("0-15", list(range(16))),
    ],
)
def test_rank_selectors(selector: str, ranks: list[int]) -> None:
    assert ranks_of(selector, 16) == ranks


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("16", "there is no rank 16"),
        ("7-3", "ends before it starts"),
        ("middle", "got 'middle'"),
        ("", "got ''"),
        ("1,", "got ''"),
    ],
)
def test_invalid_rank_selectors(selector: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        rank_condition(selector, 16)


def test_prefixes_have_the_order_of_the_command_line() -> None:
    prefixes = (Prefix(argv=("outer",)), Prefix(argv=("inner",), local_first=True))
    phase = Phase(role="train", argv=("program",), prefixes=prefixes)
    text = render_shim(phase, make_launch(phase, ranks=2))
    assert text.index("set -- program") < text.index("set -- inner") < text.index("set -- outer")
    assert 'if [ "$LLMBX_LOCAL_RANK" -eq 0 ]; then set -- inner' in text


@pytest.mark.parametrize(("phases", "says"), INVALID)
def test_invalid_launches_are_rejected(phases: tuple[Phase, ...], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        local(make_launch(*phases))


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b"])
def test_files_stay_in_the_run_folder(name: str) -> None:
    with pytest.raises(UsageError, match="inside the run folder"):
        local(make_launch("true", files={name: b"x\n"}))


def test_the_local_launcher_rejects_what_needs_slurm() -> None:
    with pytest.raises(UsageError, match="the run needs 2 nodes, but the launcher local has only this machine"):
        local(make_launch("true", nodes=2))
    with pytest.raises(UsageError, match="needs flags that the launcher local does not support"):
        local(make_launch("true"), None, Wrapping(launcher_flags=("--mpi=pmix",)))
