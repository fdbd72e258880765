"""Readers of files that anybody may have written, cut or damaged: no crash, no hang, nothing written anywhere.

Real files (logs of every format, what a run leaves, catalogs, references, configuration) are changed at random: bytes
flipped, parts cut, doubled and swapped, values replaced by ones that break readers. What a reader cannot read it must
refuse with an error of llmbx, which a user sees as one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.catalog.references import Published
from llmbx.catalog.workloads import load_workload
from llmbx.config.install import Install
from llmbx.config.profiles import load_config
from llmbx.errors import LlmbxError
from llmbx.launchers.exits import read_exit
from llmbx.launchers.nodes import read_nodes
from llmbx.plugins.manager import Plugins, load
from llmbx.record.folder import RESULT, STEPS, Run, read_result, read_run, read_steps
from llmbx.record.history import Selection
from llmbx.record.names import find_run
from llmbx.run.collect import collect_file
from llmbx.run.finalize import finalize
from llmbx_analysis.nodes import shared_facts
from llmbx_environments.containers.images.store import ImageStore
from llmbx_history import scan
from llmbx_history.runs import list_runs
from llmbx_history.tags import FILE as TAGS
from llmbx_history.tags import read_tags, tags_of
from llmbx_parse.find import find_logs
from llmbx_parse.rows import parse_logs
from llmbx_parse.table import table
from llmbx_parse.verb import command as parse

from ..plugins.history.conftest import plugins, toy
from ..run_factory import RunFactory, install, noise, run_factory, spec

__all__ = ["install", "plugins", "run_factory", "spec", "toy"]

ROOT = Path(__file__).parents[2]
LOGS = [*sorted((ROOT / "tests/fixtures/logs").rglob("*.out")), *sorted(ROOT.glob("tests/plugins/*/fixtures/**/*.out"))]
TOML = sorted(path for path in ROOT.glob("plugins/*/llmbx_*/**/*.toml") if "references" not in path.parts)
REFERENCES = sorted(ROOT.glob("plugins/*/llmbx_*/references/*.toml"))

SLOWEST_S = 20.0
"""A reader that takes longer for one of these small files hangs."""

several = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

BREAKERS = [
    b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"9" * 400, b"18446744073709551616", b"null", b"true", b'""', b"[]",
    b"{}", b"[" * 3000, b'{"a":' * 3000, b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b'"\\ud800"', b"\r", b"\n", b"\n\n\n",
    b" " * 5000, b"|" * 3000, b"\x1b[31m", "٣".encode(), "\N{BOM}".encode(), b"../../../etc/passwd", b"'", b'"', b"=",
    b"1e308", b"-0.0", b"1_0", b"0x1F", b"iteration 1/50", b"inf", b"a" * 70000, b"(a+)+$", b"%s%n{0}",
]  # fmt: skip


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of a file's content: up to four of these, one after the other."""
    kinds = draw(st.lists(st.sampled_from(["flip", "cut", "end", "put", "value", "double", "swap", "many"]),
                          min_size=1, max_size=4))  # fmt: skip
    places = [(draw(st.floats(0, 1)), draw(st.floats(0, 0.2))) for _ in kinds]
    breakers = [draw(st.sampled_from(BREAKERS)) for _ in kinds]
    byte = draw(st.integers(0, 255))

    def change(content: bytes) -> bytes:
        for kind, (where, length), breaker in zip(kinds, places, breakers, strict=True):
            content = _one(content, kind, int(where * len(content)), int(length * len(content)) + 1, breaker, byte)
        return content[: 1 << 20]

    return change


def _one(content: bytes, kind: str, at: int, length: int, breaker: bytes, byte: int) -> bytes:
    before, part, after = content[:at], content[at : at + length], content[at + length :]
    if kind == "flip":
        return before + bytes([byte]) + content[at + 1 :]
    if kind == "cut":
        return before + after
    if kind == "end":
        return before
    if kind == "put":
        return before + breaker + content[at:]
    if kind == "double":
        return before + part + part + after
    if kind == "many":
        return before + part[:40] * 500 + after
    if kind == "swap":
        return after + part + before
    return before + _value(content[at:], breaker)


def _value(content: bytes, breaker: bytes) -> bytes:
    """Another value in place of the next one: what stands between `:` or `=` and the next separator."""
    starts = [place for sign in (b": ", b"= ", b":") if (place := content.find(sign)) >= 0]
    if not starts:
        return content
    start = min(starts) + 1
    ends = [place for sign in (b",", b"\n", b"|", b"}") if (place := content.find(sign, start)) >= 0]
    return content[:start] + breaker + content[min(ends, default=len(content)) :]


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Nothing but an error of llmbx comes out, and soon."""
    began = time.process_time()  # of the processor: what else runs on the machine does not count
    try:
        yield
    except LlmbxError as error:
        assert str(error).strip()
    assert time.process_time() - began < SLOWEST_S


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def real() -> Plugins:
    """The plugins of this installation."""
    return load()


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.parent.name[:40] + "/" + path.name[:30])
def test_logs(log: Path, real: Plugins, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = log.read_bytes()[: 1 << 19]
    formats = real.log_formats()
    folder = tmp_path_factory.mktemp("log")

    @settings(several, max_examples=25)
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        path = folder / log.name
        path.write_bytes(change(content))
        before = snapshot(folder)
        with refused():
            for window in (None, "auto", "3-9"):
                rows = parse_logs(find_logs([path]), formats, real, window, intervals=True)
                table(rows, full_names=True)
        with refused():
            for format_ in formats:
                collect_file(format_.parser(), path)
        assert snapshot(folder) == before

    check()


@given(st.binary(max_size=4000))
@several
def test_bytes_that_are_no_log(real: Plugins, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "log-x.out"
    path.write_bytes(content)
    with refused():
        table(parse_logs(find_logs([path]), real.log_formats(), real))
    assert path.read_bytes() == content, "a log is only read"


@pytest.fixture
def run(run_factory: RunFactory, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A whole run with everything that it leaves, beside a second one that stays whole."""
    monkeypatch.setattr(scan, "GRACE_S", -1.0)
    made = run_factory.put(noise(1, 1.0), tags=("accepted",))
    end = {"exit_code": 0, "started": 1.0, "ended": 2.0, "job_id": "1", "host": "n1", "phases": []}
    (made.path / "exit.json").write_text(json.dumps(end))
    (made.path / "node-0.txt").write_text("host n1\ncores 64\ngpu H100, 550.1, 700.0, 1980, 2619, 1980\n")
    (made.path / TAGS).write_text('["accepted"]\n')
    run_factory.put(noise(2, 1.0), dtype="fp8")
    return made


@pytest.mark.parametrize("name", ["run.json", RESULT, STEPS, "exit.json", "node-0.txt", TAGS])
def test_what_a_run_leaves(
    run: Run, name: str, run_factory: RunFactory, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = run.path / name
    content = target.read_bytes()
    monkeypatch.setattr("llmbx.plugins.manager.load", lambda: plugins)
    whole = "fp8"

    @several
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        target.write_bytes(change(content))
        os.utime(run.path.parents[1])
        before = snapshot(run_factory.install.path)
        for read in (read_run, read_result, read_steps, read_exit, read_nodes, read_tags):
            with refused():
                read(run.path)
        shared_facts(read_nodes(run.path))
        tags_of(run)
        with refused():
            rows = list_runs(run_factory.install, lambda: plugins, Selection(sort="-mfu"), None).documents
            assert whole in {json.loads(row)["dtype"] for row in rows}
        with refused():
            find_run(run_factory.install, run.record.run_id)
        done = CliRunner().invoke(parse, [run.folder, "--window", "auto", "--format", "json"])
        assert isinstance(done.exception, LlmbxError | SystemExit | None), done.exception
        if name != RESULT:  # what looks unfinished is finalised
            assert snapshot(run_factory.install.path) == before

    check()


def test_a_damaged_run_is_finalised_or_refused(run: Run, plugins: Plugins) -> None:
    content = (run.path / "run.json").read_bytes()

    @several
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        (run.path / "run.json").write_bytes(change(content))
        (run.path / RESULT).unlink(missing_ok=True)
        with refused():
            finalize(read_run(run.path), plugins)
        assert (run.path / RESULT).is_file() == (read_result(run.path) is not None), "no result is half-written"

    check()


def test_the_lock_of_images(tmp_path: Path) -> None:
    path = ImageStore(tmp_path).lock_path
    path.parent.mkdir()
    content = json.dumps({"images": {"a:1": {"digest": "sha256:aa", "files": {"a.sqsh": "bb"}, "first_seen": "2026"}}})

    @several
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        path.write_bytes(damaged := change(content.encode()))
        with refused():
            ImageStore(tmp_path).lock()
        assert path.read_bytes() == damaged, "a damaged lock is left for its owner"

    check()


@pytest.mark.parametrize("file", TOML, ids=lambda path: path.name)
def test_catalogs(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()

    @settings(several, max_examples=20)
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        (tmp_path / file.name).write_bytes(damaged := change(content))
        with refused():
            load_workload(tmp_path / file.name)
        assert (tmp_path / file.name).read_bytes() == damaged

    check()


@pytest.mark.parametrize("file", REFERENCES, ids=lambda path: path.name)
def test_references(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()

    @settings(several, max_examples=20)
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        (tmp_path / file.name).write_bytes(change(content))
        with refused():
            found = Published.read(tmp_path / file.name)
            assert all(row.gpus > 0 and (row.step_time_s is None or row.step_time_s > 0) for row in found.references)

    check()


def test_configuration(tmp_path: Path) -> None:
    content = b"""default_cluster = "eos"
[clusters.eos]
gpu_type = "h100"
gpus_per_node = 8
walltime_minutes = { default = 60, grok1 = 35 }
mounts = ["/a:/b:ro"]
sbatch = { exclude = "n1", nice = 3 }
[gpus.mi300x.peaks]
bf16 = 1307
"""

    @several
    @given(damage())
    def check(change: Callable[[bytes], bytes]) -> None:
        (tmp_path / "llmbx.toml").write_bytes(damaged := change(content))
        with refused():
            load_config({"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}, tmp_path)
        assert (tmp_path / "llmbx.toml").read_bytes() == damaged

    check()


def test_names_that_are_no_text_hide_nothing(run: Run, run_factory: RunFactory, plugins: Plugins) -> None:
    """Folders in all places of an install whose names are bytes without meaning, or are no folders at all."""
    base = run_factory.install.path / "workloads"
    for place in (base, base / "fit_line/experiments", run.path.parents[1], run.path.parents[0]):
        (Path(os.fsdecode(os.fsencode(place) + b"/\xff\xfe"))).mkdir()
        (place / "file").touch()
        (place / "loop").symlink_to(place)
        (place / "nowhere").symlink_to("/does/not/exist")
    shutil.copytree(run.path, Path(os.fsdecode(os.fsencode(run.path.parents[0]) + b"/\xfe")))
    found = list_runs(Install(root=run_factory.install.root, origin="test"), lambda: plugins, Selection(), ["run_id"])
    assert run.record.run_id in {row[0] for row in found.rows}
