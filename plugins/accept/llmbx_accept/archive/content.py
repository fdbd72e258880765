"""What an archive has: the acceptance, and for each run its log, configuration, facts and result."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import PurePosixPath

from llmbx.api import RunFolder, format_bytes, known_secrets
from llmbx.api.verbs import Recorded, Run
from llmbx.entry import find_secrets

MANIFEST, ACCEPTANCE, RUNS, OUTCOMES = "manifest.json", "acceptance.json", "runs", "outcomes"
RESULT, STEPS = "result.json", "steps.jsonl"

PROFILES = ("-rep", ".qdrep", ".qdstrm", ".sqlite", ".pb", ".pt", ".distcp", ".safetensors")
"""Ends of the names of profiles and checkpoints, which are left out."""

PROFILE_FOLDERS = ("nsys_profile", "checkpoints", "checkpoint")
LARGEST = 1 << 28
"""Larger files are left out."""

SHORTEST = 8
"""Shorter values are not taken for secrets."""


class Manifest(Recorded, frozen=True):
    """`manifest.json`: the SHA-256 of every other file, the folders of the runs by their ids, and what was left out."""

    llmbx_version: str
    acceptance_id: str
    files: dict[str, str]
    runs: dict[str, str]
    left_out: tuple[str, ...] = ()
    schema_version: int = 1


def digest(content: bytes) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def run_files(run: Run) -> tuple[dict[str, bytes], list[str]]:
    """The files of a run without secrets, and what was left out with the reason."""
    files: dict[str, bytes] = {}
    left_out = []
    for file in RunFolder(path=run.path).all_files():
        name = file.file
        status = file.status()
        if is_profile(name):
            left_out.append(f"{name}: a profile or a checkpoint")
        elif status is not None and status.st_size > LARGEST:
            left_out.append(f"{name}: {format_bytes(status.st_size)}")
        else:
            with file.open() as opened:
                files[name] = without_secrets(opened.read(), os.environ)
    return files, sorted(left_out)


def is_profile(name: str) -> bool:
    """Whether a file is a profile or a checkpoint, by its name."""
    path = PurePosixPath(name)
    return path.name.lower().endswith(PROFILES) or any(part in PROFILE_FOLDERS for part in path.parts[:-1])


def without_secrets(content: bytes, environ: Mapping[str, str]) -> bytes:
    """The content with `*` in place of each secret that this environment has, and of tokens of known shapes."""
    for secret in known_secrets(environ).values():
        data = secret.encode("utf-8", "surrogateescape")
        if len(data) >= SHORTEST and not data.isdigit():
            content = content.replace(data, b"*" * len(data))
    masked = bytearray(content)
    for start, end in find_secrets.spans(content):
        if content[start:end].strip(b"*"):
            masked[start:end] = b"*" * (end - start)
    return bytes(masked)
