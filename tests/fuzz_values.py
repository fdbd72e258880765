"""Change single values of valid files, and give each changed file to the commands that read it.

usage: python -m tests.fuzz_values [--count N] [--seed N] [KIND...]

A changed file passes the first check of its format, so that what is behind that check is reached. A command must
succeed or refuse the file in one line; a traceback, invalid JSON where JSON was asked for, or a changed input is a
failure. The seed and the number of the change repeat a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.testing import CliRunner, Result

from llmbx.cli.main import cli, message
from llmbx.errors import LlmbxError
from llmbx.plugins import manager
from llmbx.record.folder import digest, read_run

ROOT = Path(__file__).parents[1]
ESCAPE = "\x1b]0;owned\x07"
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30,
    0.0, -0.0, 0.5, 1e-308, 1e308, -1e300,
    "", " ", "x" * 5000, "nan", "-5", "1e400", "٣", "a\nb", ESCAPE, "\x00", "-", "--help",
    "../../../etc/passwd", "/etc/passwd", "/dev/zero",
    "[bold]x[/bold]", "<script>alert(1)</script>", "{{ 7*7 }}", "%s%n",
    [], {}, [None], [[]], [1, "a"], {"a": 1}, {"": None}, [0] * 1000,
    "1970-01-01", "h100", "bf16", "completed", "failed", "11-10", "0-99999999999",
)  # fmt: skip
"""Values that readers forget: wrong types, extremes, empty ones, markup, paths, and words that other members have."""


ENDINGS = (LlmbxError, SystemExit, click.ClickException, click.exceptions.Exit)
"""Exceptions that the command line prints as a line, or that are its exit code."""


class Failure(NamedTuple):
    """A verb that did not end well, and why."""

    command: str
    reason: str


class Sample(NamedTuple):
    """A valid file: how to change one value of it, and the commands that read it."""

    path: Path
    change: Callable[[random.Random], str]
    commands: Callable[[random.Random], Sequence[str]]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all members and items of a value of JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


def changed(value: Any, rng: random.Random) -> tuple[Any, str]:
    """A copy of `value` in which one member is replaced or removed, and what was changed."""
    value = copy.deepcopy(value)
    place = rng.choice(list(places(value)))
    parent = value
    for key in place[:-1]:
        parent = parent[key]
    before = parent[place[-1]]
    if rng.random() < 0.1:
        del parent[place[-1]]
        return value, f"{'.'.join(map(str, place))}: {before!r:.60} removed"
    parent[place[-1]] = after = replacement(before, rng)
    return value, f"{'.'.join(map(str, place))}: {before!r:.60} -> {after!r:.60}"


def replacement(before: Any, rng: random.Random) -> Any:
    """Another value: mostly of the same type, and a number near the old one, since others rarely pass the schema."""
    if rng.random() < 0.3:
        return rng.choice(VALUES)
    if isinstance(before, bool):
        return not before
    if isinstance(before, int):
        return rng.choice([before * 1000, -before, before // 3, before + 1, before * 10**12, 0, 1])
    if isinstance(before, float):
        return rng.choice([before * 1000, -before, before / 3, 0.0, 1e300, 1e-300])
    if isinstance(before, list) and before:
        return rng.choice([before[1:], before * 2, before[::-1], []])
    return rng.choice([value for value in VALUES if type(value) is type(before)])


def json_file(path: Path) -> Callable[[random.Random], str]:
    """Change a file of JSON."""
    valid = json.loads(path.read_text())

    def change(rng: random.Random) -> str:
        value, what = changed(valid, rng)
        if "digest" in valid:  # llmbx sets a result aside that is not its own
            value["run_id"] = valid["run_id"]
            value["digest"] = digest(value)
        path.write_text(json.dumps(value))
        return what

    return change


def jsonl_file(path: Path) -> Callable[[random.Random], str]:
    """Change a value in one line of a file of JSON lines."""
    valid = [json.loads(line) for line in path.read_text().splitlines()]

    def change(rng: random.Random) -> str:
        number = rng.randrange(len(valid))
        row, what = changed(valid[number], rng)
        path.write_text("".join(json.dumps(line) + "\n" for line in [*valid[:number], row, *valid[number + 1 :]]))
        return f"line {number + 1}: {what}"

    return change


def toml_file(path: Path, sources: Sequence[Path]) -> Callable[[random.Random], str]:
    """Write one of `sources` with a changed value to `path`."""
    valid = [tomllib.loads(source.read_text()) for source in sources]

    def change(rng: random.Random) -> str:
        number = rng.randrange(len(valid))
        value, what = changed(valid[number], rng)
        path.write_text(as_toml(value))
        return f"{sources[number].name}: {what}"

    return change


def as_toml(table: dict[str, Any]) -> str:
    """`table` as TOML: one line a member, nested tables inline."""
    return "".join(f"{json.dumps(key)} = {toml_value(value)}\n" for key, value in table.items())


def toml_value(value: Any) -> str:
    """A value of TOML; what TOML does not have becomes the nearest that it has."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if value is None:
        return "nan"
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    return json.dumps(str(value)).replace("\x7f", "\\u007F")


def database(path: Path, sources: Sequence[Path]) -> Callable[[random.Random], str]:
    """Write one of `sources`, exports of nsys, with a changed cell, or without a column or table, to `path`."""

    def change(rng: random.Random) -> str:
        source = rng.choice(sources)
        shutil.copyfile(source, path)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            column = rng.choice(columns)
            if rng.random() < 0.08:
                connection.execute(f'DROP TABLE "{table}"')
                return f"{source.name}: table {table} removed"
            if rng.random() < 0.08 and len(columns) > 1:
                connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
                return f"{source.name}: column {table}.{column} renamed"
            (count,) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
            (row, before) = connection.execute(
                f'SELECT rowid, "{column}" FROM "{table}" LIMIT 1 OFFSET ?', (rng.randrange(max(1, count)),)
            ).fetchone() or (0, None)
            after = replacement(before, rng)
            if isinstance(after, list | dict):
                after = os.urandom(5) if not after else json.dumps(after)
            if isinstance(after, int) and not -(2**63) <= after < 2**63:
                after = float(after)
            everywhere = rng.random() < 0.2
            with contextlib.suppress(sqlite3.IntegrityError):
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = ?' + ("" if everywhere else f" WHERE rowid = {row}"), (after,)
                )
            return (
                f"{source.name}: {table}.{column} row {'all' if everywhere else row}: {before!r:.40} -> {after!r:.60}"
            )

    return change


def failures(path: Path, commands: Sequence[str]) -> Iterator[Failure]:
    """Call commands in this process, and yield those that did not end well."""
    content = path.read_bytes()
    manager.load.cache_clear()  # a process reads plugins and their catalogs once
    for command in commands:
        done = CliRunner().invoke(cli, command.split(), standalone_mode=False)
        reason = fault(done, wants_json="--format json" in command)
        if reason:
            yield Failure(command, reason)
        if path.read_bytes() != content:
            yield Failure(command, "the file was changed")
            path.write_bytes(content)


def fault(done: Result, wants_json: bool) -> str | None:
    """What is wrong with the end of a verb; None if it succeeded or refused the file in one line."""
    error = done.exception
    if error is not None and not isinstance(
        error, LlmbxError | SystemExit | click.ClickException | click.exceptions.Exit
    ):
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error!s:.200} ({Path(last.filename).name}:{last.lineno})"
    if isinstance(error, LlmbxError) and not is_message(message(error)):
        return f"an error of several lines or none: {str(error)!r:.200}"
    if error is None and done.exit_code == 0 and wants_json:
        try:
            json.loads(done.stdout, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(f"{word} in JSON")))
        except ValueError as problem:
            return f"not valid JSON: {problem} in {done.stdout!r:.100}"
    return None


def is_message(text: str) -> bool:
    """Whether an error is one line, or a line that ends with a colon before a list of problems, one a line."""
    first, _, rest = text.partition("\n")
    return bool(first.strip()) and (
        not rest or (first.endswith(":") and all(line.startswith("  ") for line in rest.split("\n")))
    )


def make_runs(install: Path) -> list[Path]:
    """Two real runs of the tests' toy workload; their folders, oldest first."""
    for _ in range(2):
        subprocess.run([sys.executable, "-m", "llmbx", "run", "line"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)  # fmt: skip
    return sorted(path.parent for path in install.glob("workloads/*/experiments/*/*/*/result.json"))


def run_verbs(folder: Path, other: Path, scratch: Path) -> Callable[[random.Random], Sequence[str]]:
    """Commands that read a run: a listing, and one of the others."""
    name, first = read_run(folder).record.id, read_run(other).record.id
    always = ("jobs --format json", "jobs", f"status {name} --format json")
    sometimes = (
        f"status {name}",
        f"report {name}",
        f"report {name} --format json",
        f"report {name} --html {scratch}/report.html",
        f"compare {first} {name} --format json",
        f"compare {name} {first}",
        f"export csv {name}",
        f"export prometheus {name}",
        f"export openmetrics {name}",
        f"logs {name}",
        f"parse {folder} --format json",
        f"cancel {name}",
        f"run --from {name} --dry-run",
        "jobs --format csv",
        "jobs --sort -step_time_s",
    )
    return lambda rng: [rng.choice(always), rng.choice(sometimes)]


def samples(kinds: Sequence[str], scratch: Path) -> Iterator[tuple[str, Sample]]:
    """The valid files by kind."""
    install = Path(os.environ["LLMB_INSTALL"])
    if {"result", "run", "steps"} & set(kinds):
        other, folder = make_runs(install)
        verbs = run_verbs(folder, other, scratch)
        for kind, name in (("result", "result.json"), ("run", "run.json"), ("steps", "steps.jsonl")):
            if kind in kinds:
                path = folder / name
                valid = path.read_bytes()
                yield kind, Sample(path, jsonl_file(path) if kind == "steps" else json_file(path), verbs)
                path.write_bytes(valid)
    if "profile" in kinds:
        yield "profile", profile_sample(scratch)
    if "catalog" in kinds:
        yield "catalog", catalog_sample(scratch)
    if "nsys" in kinds:
        yield "nsys", nsys_sample(scratch)


def profile_sample(scratch: Path) -> Sample:
    """A profile of two clusters with every kind of table."""
    path, valid = scratch / "llmbx.toml", scratch / "valid.toml"
    valid.write_text(PROFILE)
    os.environ["LLMBX_CONFIG"] = str(path)
    commands = (
        "list --format json",
        "list --here",
        "jobs --format json",
        "plugins --format json",
        "doctor --format json",
        "show grok1 --gpu-type h100 --gpus 512 --format json",
        "show llama3.1 --size 70b --gpu-type big --gpus 64 --dtype bf16",
        "run grok1 --gpu-type h100 --gpus 512 --dtype bf16 --launcher slurm --dry-run",
        "predict llama3.1 --size 70b --gpu-type h100 --gpus 64 --dtype bf16 --format json",
    )
    return Sample(path, toml_file(path, [valid]), lambda rng: [rng.choice(commands)])


def catalog_sample(scratch: Path) -> Sample:
    """The catalog of the nemo plugin, read from a copy, in which one workload at a time has a changed value."""
    import llmbx_nemo.workloads
    from llmbx.api import load_workloads
    from llmbx_nemo.settings import NemoSettings

    shipped = Path(llmbx_nemo.workloads.__file__).parent
    for name in ("catalog", "references"):
        shutil.copytree(shipped / name, scratch / "nemo" / name)
    files = [shipped / "catalog" / f"{name}.toml" for name in llmbx_nemo.workloads.NAMES]
    path = scratch / "nemo/catalog/changed.toml"
    rewrite = toml_file(path, files)
    chosen: list[str] = []

    def change(rng: random.Random) -> str:
        what = rewrite(rng)
        chosen[:] = [what.partition(".toml: ")[0]]
        shutil.copyfile(path, scratch / "nemo/catalog" / f"{chosen[0]}.toml")
        return what

    llmbx_nemo.workloads.workloads = lambda: load_workloads(scratch / "nemo", tuple(chosen), NemoSettings)

    def commands(rng: random.Random) -> Sequence[str]:
        workload = chosen[0]
        cell = f"{workload} {rng.choice(CELLS[workload])}"
        verbs = (
            f"show {cell} --format json",
            "list --format json",
            f"list {workload}",
            f"show {cell}",
            f"show {cell} --flops",
            f"show {workload}",
            f"predict {cell} --format json",
            f"run {cell} --launcher slurm --dry-run",
            f"run {workload} --dry-run",
            f"atlas {workload} --format json",
            f"catalog diff {workload}",
            "image list --format json",
        )
        return [rng.choice(verbs)]

    return Sample(path, change, commands)


CELLS = {
    name: [
        f"--size {size} --dtype {dtype} --gpu-type {gpu_type} --gpus {gpus}" for size, dtype, gpu_type, gpus in cells
    ]
    for name, cells in {
        "llama3.1": [("70b", "fp8", "h100", 64), ("405b", "bf16", "gb200", 256), ("8b", "fp8", "gb300", 8)],
        "llama4": [("400b", "bf16", "gb200", 128), ("400b", "fp8", "h100", 512)],
        "grok1": [("314b", "bf16", "gb200", 256), ("314b", "fp8", "h100", 512)],
        "deepseek-v3": [("671b", "mxfp8", "gb200", 256), ("671b", "fp8", "h100", 1024)],
        "qwen3": [("30b-a3b", "mxfp8", "gb200", 8), ("235b-a22b", "fp8", "h100", 256)],
        "gpt-oss": [("120b", "bf16", "gb200", 64), ("120b", "bf16", "h100", 64)],
        "kimi-k2": [("1t", "mxfp8", "gb300", 256), ("1t", "fp8", "h100", 1024)],
        "mlperf-llama3.1": [("8b", "nvfp4", "gb200", 8)],
        "nemotron-h": [("56b", "fp8", "gb300", 64), ("56b", "fp8", "h100", 64)],
        "nemotron3": [("30b-a3b", "mxfp8", "gb200", 8), ("120b-a12b", "mxfp8", "gb200", 64)],
    }.items()
}
"""Options of some cells of each workload."""


def nsys_sample(scratch: Path) -> Sample:
    """Exports with the tables of four versions of nsys: two lanes, steps, ranges, copies, calls and a graph."""
    from tests.plugins.profiling.exports import VERSIONS, Export

    sources = []
    for version in VERSIONS:
        made = Export()
        made.domain(1, "llmbx")
        for step in (45, 46, 47):
            t = 1_000_000 * step
            for pid, device in ((1, 0), (2, 1)):
                made.range(t, t + 1_000_000, "step", domain=1, payload=step, pid=pid)
                made.range(t + 5_000, t + 400_000, "forward", pid=pid)
                made.call(t + 1_000, step * 10 + pid, pid)
                made.kernel(t, t + 300_000, "void gemm_bf16<128>(int)", device, pid, step * 10 + pid)
                made.kernel(t + 250_000, t + 500_000, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", device, pid)
                made.copy(t + 900_000, t + 910_000, 1, device, pid)
        made.graph(47_950_000, 47_960_000)
        sources.append(made.write(scratch / f"{version}.sqlite", version))
    path = scratch / "changed" / "profile_rank0.sqlite"
    path.parent.mkdir()
    sometimes = (f"nsys {path}", f"nsys {path} --format csv", f"nsys {path.parent} --html {scratch}/page.html")
    change = database(path, sources)
    return Sample(path, change, lambda rng: [f"nsys {path} --format json", rng.choice(sometimes)])


PROFILE = """
default_cluster = "eos"
[clusters.eos]
gpu_type = "h100"
gpus_per_node = 8
account = "bench"
partition = "batch"
launcher = "slurm"
runtime = "enroot"
walltime_minutes = { default = 60, grok1 = 35 }
mounts = ["/a:/b:ro"]
sbatch = { exclude = "n1", nice = 3 }
env = { NCCL_DEBUG = "WARN" }
[clusters.small]
gpu_type = "big"
gpus_per_node = 4
[gpus.big]
memory_gb = 80
[gpus.big.peaks]
bf16 = 1307
"""


def main() -> int:
    """Change files and print every failure once per place; 1 if there was one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="changes of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("kinds", nargs="*", default=["result", "run", "steps", "catalog", "profile", "nsys"])
    chosen = parser.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        os.environ.update(LLMB_INSTALL=str(scratch / "install"), LLMBX_CONFIG="/dev/null")
        for kind, sample in samples(chosen.kinds, scratch):
            worst = max(worst, fuzz(kind, sample, chosen.count, chosen.seed))
    return worst


def fuzz(kind: str, sample: Sample, count: int, seed: int) -> int:
    """Change one sample `count` times; 1 if a verb failed."""
    seen: set[str] = set()
    for number in range(count):
        rng = random.Random(f"{seed}/{kind}/{number}")
        what = sample.change(rng)
        for failure in failures(sample.path, sample.commands(rng)):
            if failure.reason not in seen:
                seen.add(failure.reason)
                print(f"{kind} {number}: {what}\n    llmbx {failure.command}\n    {failure.reason}", flush=True)
    print(f"{kind}: {count} changes, {len(seen)} different failures", flush=True)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
