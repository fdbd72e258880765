"""The first screen of `--dry-run`, and the path of a run in one line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from llmbx.cli.summary import LINES, summary
from llmbx.cli.terminal import WIDTH, short_path
from llmbx.launchers.script import rank_function
from llmbx.model import Finding, Image, Launch, Mount, Phase, Prefix, RunSpec, Wrapping
from llmbx.run.launch import Rendered

MakeSpec = Callable[..., RunSpec]

FOLDER = Path("/data/experiments/x/x_TIMESTAMP/x")
PHASE = Phase(role="train", argv=("python3", "a script.py"), env={"LLMBX_SPEC": "s", "LEVEL": "2"})
START = ("launch-all", "--ranks=8", f"--share={FOLDER}")
MINE = {"env": {"A": "1", "MINE": "2", "MY_TOKEN": "word"}, "origins": {"env.MINE": "--env"}}


def shown(spec: RunSpec, *phases: Phase, findings: tuple[Finding, ...] = ()) -> list[str]:
    mounts = (Mount(source="/cache", read_only=True),)
    launch = Launch(nodes=2, ranks_per_node=4, gpus_per_rank=1, phases=phases, mounts=mounts)
    wrappings = tuple(Wrapping() for _ in phases)
    script = "\n".join(rank_function(spec, phase, Wrapping(), START) for phase in phases)
    rendered = Rendered(launch, wrappings, f"#!/bin/bash\n{script}\n")
    image = Image(reference="image:1", kind="file", python="python3")
    text = summary(["line on 8 x h100"], spec, image, FOLDER, rendered, findings, {})
    return text.splitlines()


def test_it_says_what_where_and_how(make_spec: MakeSpec) -> None:
    memory = Finding(rule="memory", problem="it needs 99 GB", fix="shard more")
    wrapped = PHASE.replace(prefixes=(Prefix(argv=("trace", "-o", "out"), ranks="0-7"),))
    lines = shown(make_spec(**MINE), wrapped, findings=(memory, memory.replace(warning=True)))
    assert lines[0] == "line on 8 x h100"
    for line in (
        "  nodes            2 x 4 ranks",
        "  image            image:1 (file)",
        "  folder           /data/experiments/x/x_TIMESTAMP/x",
        "  started by       launch-all --ranks=8 --share=$run_dir",
        "  wrapped in       trace -o out (ranks: 0-7)",
        "  a rank runs      python3 'a script.py'",
        "  mounts           /cache:/cache:ro",
        "  variables        MINE=2 A=1 MY_TOKEN=*** LEVEL=2",
        "  problem          it needs 99 GB; shard more",
        "  note             it needs 99 GB; shard more",
    ):
        assert line in lines, "\n".join(lines)
    assert "--emit-script" in lines[-1] and "--verbose" in lines[-1]


def test_what_starts_all_ranks_is_shown_once(make_spec: MakeSpec) -> None:
    phases = [PHASE.replace(role=role) for role in ("collect", "measure")]
    lines = shown(make_spec(), PHASE.replace(role="check", ranks="first"), *phases)
    assert sum("launch-all" in line for line in lines) == 1
    assert [line.split("  ")[1] for line in lines if "python3" in line] == ["check, rank 0", "collect", "measure"]


def test_it_never_has_more_lines_than_a_screen(make_spec: MakeSpec) -> None:
    words = tuple(f"--argument-{number}={'x' * number}" for number in range(200))
    long = PHASE.replace(argv=words, env={f"VARIABLE_{number}": "y" * 300 for number in range(60)})
    trouble = Finding(rule="a", problem="word " * 300, fix="change it")
    lines = shown(make_spec(), *(long.replace(role=f"r{n}") for n in range(4)), findings=(trouble,) * 4)
    assert len(lines) == LINES and max(map(len, lines)) <= WIDTH
    assert lines[-1].startswith("nothing was started")
    assert sum(line.endswith(" …") for line in lines) == 9


def test_a_long_path_becomes_a_pattern_that_the_shell_expands(tmp_path: Path) -> None:
    name = "pretrain_workload_8b_bf16_128_tp4_pp1_cp1"
    folder = tmp_path / "my installation" / "experiments" / name / f"{name}_1795704083" / name
    folder.mkdir(parents=True)
    (folder.parents[1] / f"{name}_1795704084" / name).mkdir(parents=True)
    for home in (str(tmp_path), "/nowhere", "/", ""):
        text = short_path(str(folder), home)
        assert text.startswith("~/") == (home == str(tmp_path)) and name not in text
        echo = subprocess.run(
            ["bash", "-c", f"printf '%s\\n' {text}"],
            env={"HOME": home or "/"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert echo.stdout == f"{folder}\n"


def test_a_path_that_has_room_is_whole() -> None:
    assert short_path("/data/x/x_1/x", "/data") == "/data/x/x_1/x"
