"""The archive of an acceptance is verified from its logs: 300 single edits are found.

A hundred of them come with every digest inside the archive renewed. They change what a figure, a verdict or a
specification is made of, as docs/how-to/accept.md says; other texts are protected by the SHA-256 of the whole file.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmbx.api import UsageError
from llmbx.api.verbs import Workspace, load_workspace
from llmbx.testing import Done
from llmbx_accept.archive.check import verify
from llmbx_accept.archive.container import pack, unpack

SUITE = """
title = "Toy"
[[items]]
kind = "doctor"
[[items]]
kind = "workload"
workload = "line"
gpus = "node"
steps = 20
set = { pace = 0.005 }
criteria = { published = "95 %" }
"""

EDITS, RENEWED = 200, 100
Files = dict[str, bytes]


@pytest.fixture
def archive(llmbx_cli: Callable[..., Done], tmp_path: Path) -> Path:
    """The archive of an acceptance with one run of the toy."""
    suite, path = tmp_path / "toy.toml", tmp_path / "toy.tar.gz"
    suite.write_text(SUITE)
    done = llmbx_cli("accept", str(suite), "--archive", str(path), env={"GH_TOKEN": "gho_" + 36 * "s"})
    assert done.exit_code == 5, done.stderr
    return path


def test_300_single_edits_are_found(archive: Path) -> None:
    workspace, files, rng = load_workspace(), unpack(archive), random.Random(41)
    assert not _problems(archive, files, workspace) and not _problems(archive, _renewed(files), workspace)
    unseen = [edit for edit, edited in _edits(files, rng, EDITS) if not _problems(archive, edited, workspace)]
    assert not unseen
    kinds = [_log, _steps, _result, _record, _ranks, _plan, _outcome, _evidence, _structure]
    for number in range(RENEWED):
        edit, edited = kinds[number % len(kinds)](files, rng)
        if not _problems(archive, _renewed(edited), workspace):
            unseen.append(edit)
    assert not unseen


def test_a_secret_in_a_log_is_not_archived(archive: Path) -> None:
    from llmbx_accept.archive.content import without_secrets

    token = b"gho_" + 36 * b"s"
    assert not [name for name, content in unpack(archive).items() if token in content]
    assert without_secrets(b"x " + token + b" y", {}) == b"x " + 40 * b"*" + b" y"
    assert b"hunter2hunter2" not in without_secrets(b"a hunter2hunter2 b", {"DB_PASSWORD": "hunter2hunter2"})


def test_verify_names_the_file_and_ends_with_1(archive: Path, llmbx_cli: Callable[..., Done]) -> None:
    whole = llmbx_cli("verify", str(archive), "--format", "json")
    assert whole.exit_code == 0 and not json.loads(whole.stdout)["problems"], whole.stderr
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert llmbx_cli("verify", str(archive), "--sha256", sha256).exit_code == 0
    _, edited = _log(unpack(archive), random.Random(1))
    with archive.open("wb") as target:
        pack(target, _renewed(edited))
    found = llmbx_cli("verify", str(archive), "--sha256", sha256, "--format", "json")
    files = [problem["file"] for problem in json.loads(found.stdout)["problems"]]
    assert found.exit_code == 1 and "runs/0001" in files and archive.name in files


def test_a_text_that_no_figure_depends_on_is_protected_by_the_sha256_only(archive: Path) -> None:
    files = unpack(archive)
    (name,) = [name for name in files if name.endswith("node-0.txt")]
    edited = {**files, name: files[name].replace(b"cores", b"Cores")}
    assert edited != files and _problems(archive, edited, load_workspace())
    assert not _problems(archive, _renewed(edited), load_workspace()), "docs/how-to/accept.md says so"


def _problems(archive: Path, files: Files, workspace: Workspace) -> tuple[Any, ...]:
    path = archive.with_name("edited.tar.gz")
    with path.open("wb") as target:
        pack(target, files)
    try:
        return verify(path, workspace).problems
    except UsageError as refused:
        return (refused,)


def _renewed(files: Files) -> Files:
    """The files with every digest as it should be for what they have."""
    renewed = dict(files)
    for name in files:
        if name.endswith("/result.json") and files[name]:
            members = msgspec.json.decode(files[name])
            kept = {key: value for key, value in members.items() if key != "digest"}
            members["digest"] = hashlib.sha256(msgspec.json.encode(kept, order="sorted")).hexdigest()
            renewed[name] = _indented(members)
    manifest = msgspec.json.decode(files["manifest.json"])
    manifest["files"] = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in sorted(renewed.items())
        if name != "manifest.json"
    }
    return {**renewed, "manifest.json": _indented(manifest)}


def _indented(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _edits(files: Files, rng: random.Random, count: int) -> Iterator[tuple[str, Files]]:
    """Edits of a byte anywhere: changed, removed or added."""
    names = [name for name in sorted(files) if files[name]]
    for _ in range(count):
        name = rng.choice(names)
        content, at = bytearray(files[name]), rng.randrange(len(files[name]))
        how = rng.choice(("change", "remove", "add"))
        if how == "change":
            content[at] ^= 1 << rng.randrange(7)
        elif how == "remove":
            del content[at]
        else:
            content.insert(at, rng.randrange(32, 127))
        yield f"{how} byte {at} of {name}", {**files, name: bytes(content)}


def _named(files: Files, end: str) -> str:
    return next(name for name in sorted(files) if re.search(end, name))


def _log(files: Files, rng: random.Random) -> tuple[str, Files]:
    """A digit of a step's line, or the whole line."""
    name = _named(files, r"/log-.*\.out$")
    lines = files[name].splitlines(keepends=True)
    at = rng.choice([number for number, line in enumerate(lines) if b"toy step" in line])
    if rng.random() < 0.2:
        del lines[at]
        return f"{name}: line {at} removed", {**files, name: b"".join(lines)}
    digit = rng.choice(list(re.finditer(rb"(?<=[ ./\d])\d", lines[at])))
    new = str((int(digit[0]) + rng.randrange(1, 10)) % 10).encode()
    lines[at] = lines[at][: digit.start()] + new + lines[at][digit.end() :]
    return f"{name}: line {at} is {lines[at]!r}", {**files, name: b"".join(lines)}


def _steps(files: Files, rng: random.Random) -> tuple[str, Files]:
    name = _named(files, r"/steps\.jsonl$")
    lines = [msgspec.json.decode(line) for line in files[name].splitlines()]
    what = _leaf(lines, rng)
    return f"{name}: {what}", {
        **files,
        name: b"".join(msgspec.json.encode(line) + b"\n" for line in lines),
    }


def _result(files: Files, rng: random.Random) -> tuple[str, Files]:
    return _member(files, rng, r"/result\.json$", lambda value: value)


def _record(files: Files, rng: random.Random) -> tuple[str, Files]:
    return _member(files, rng, r"/run\.json$", lambda value: value["spec"])


def _ranks(files: Files, rng: random.Random) -> tuple[str, Files]:
    name = _named(files, r"/spec\.json$")
    value = msgspec.json.decode(files[name])
    what = _leaf(value, rng)
    return f"{name}: {what}", {**files, name: msgspec.json.encode(value)}


def _plan(files: Files, rng: random.Random) -> tuple[str, Files]:
    name = "acceptance.json"
    value = msgspec.json.decode(files[name])
    spec = value["items"][1]["spec"]
    chosen = {key: member for key, member in spec.items() if key not in ("origins", "runtime", "repositories")}
    what = _leaf(chosen, rng)
    spec |= chosen
    return f"{name}: {what}", {**files, name: _indented(value)}


def _outcome(files: Files, rng: random.Random) -> tuple[str, Files]:
    return _member(files, rng, r"^outcomes/0002", lambda value: value)


def _evidence(files: Files, rng: random.Random) -> tuple[str, Files]:
    """What the outcome of the nodes is derived from, or what it says; not both, which only a signature protects."""

    def derived(outcome: Any) -> Any:
        if rng.random() < 0.5:
            return {key: outcome[key] for key in ("judged", "tables", "suspects") if outcome[key]}
        shown = {row[1] for row in outcome["tables"][0]["rows"] if row[2] == "ok" and row[3]}
        facts = outcome["evidence"]["answers"][0]["facts"]
        single = {check["fact"] for check in outcome["evidence"]["checks"] if check["id"] in shown}
        edited = {name: facts[name] for name in sorted(single & facts.keys()) if isinstance(facts[name], int | str)}
        name = rng.choice(sorted(edited))
        facts[name] = _another(facts[name])
        return None

    name = _named(files, r"^outcomes/0001")
    value = msgspec.json.decode(files[name])
    chosen = derived(value)
    what = "a fact of a node" if chosen is None else _leaf(chosen, rng)
    return f"{name}: {what}", {**files, name: _indented(value)}


def _structure(files: Files, rng: random.Random) -> tuple[str, Files]:
    """A file that is missing, too many, or empty."""
    needed = [name for name in sorted(files) if re.search(r"\.(out|jsonl)$|result\.json|run\.json|outcomes/", name)]
    name = rng.choice([name for name in needed if "sbatch" not in name])
    if rng.random() < 0.5:
        return f"{name} removed", {other: content for other, content in files.items() if other != name}
    return f"{name} is empty", {**files, name: b""}


def _member(files: Files, rng: random.Random, end: str, part: Callable[[Any], Any]) -> tuple[str, Files]:
    """A member of a record in another value."""
    name = _named(files, end)
    value = msgspec.json.decode(files[name])
    what = _leaf(part(value), rng)
    return f"{name}: {what}", {**files, name: _indented(value)}


def _leaf(value: Any, rng: random.Random) -> str:
    """Change one leaf of nested values; return which."""
    places = list(_leaves(value))
    path, old = rng.choice([place for place in places if place[0][-1] not in ("digest", "schema_version")])
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = _another(old)
    return f"{'.'.join(map(str, path))} is {_another(old)!r} in place of {old!r}"


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if members is None:
        yield path, value
        return
    for key, member in members:
        yield from _leaves(member, (*path, key))


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else 1
