"""An install that an earlier version made: what it notes of environments and images is used as it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from llmbx.model import Environment, ImageRequest
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.lock_file import lock_digest
from llmbx_environments.venv.runtime import VenvRuntime

DIGEST, SHA256 = f"sha256:{'d' * 64}", f"sha256:{'5' * 64}"
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"


def silent(line: str) -> None:
    raise AssertionError(f"nothing is done again: {line}")


def write(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def test_an_environment_with_its_marker_is_complete(tmp_path: Path) -> None:
    environment = Environment(name="toy", pythons=(MINOR,), steps=(("alpha==1.0",),))
    label, lock = f"toy-py{MINOR.replace('.', '')}", lock_digest(environment)
    folder = tmp_path / "venvs" / f"{label}.{lock[:12]}"
    marker = {"name": "toy", "lock": lock, "python": f"{MINOR}.9", "packages": {"alpha": "1.0"}, "digest": DIGEST}
    write(folder / ".llmbx-environment.json", {**marker, "builds": [], "schema_version": 1})
    (folder / "bin").mkdir()
    (folder / "bin/python").touch()
    image = VenvRuntime().prepare(ImageRequest(environment=environment), tmp_path, silent)
    assert (image.path, image.digest) == (str(tmp_path / "venvs" / label), DIGEST)
    assert image.versions == {"python": f"{MINOR}.9", "alpha": "1.0"}
    assert Path(image.path or "").readlink() == Path(folder.name)


def test_an_image_with_its_stamp_and_lock_is_not_read_again(tmp_path: Path) -> None:
    reference, file = "registry.example/team/app:1", tmp_path / "images/team+app+1.sif"
    file.parent.mkdir()
    file.write_text("not looked into")
    status = file.stat()
    identity = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
    stamp = {"path": str(file), "reference": reference, "sha256": SHA256, "digest": DIGEST, "config": None, **identity}
    origin = {"versions": {"python": "3.12.1"}, "imported": "2026-01-02T03:04:05+0000", "tool": "apptainer"}
    write(file.parent / ".stamps/team+app+1.sif.json", {**stamp, **origin})
    locked = {"digest": DIGEST, "files": {file.name: SHA256}, "first_seen": "2026-01-02"}
    write(file.parent / "images.lock", {"images": {reference: locked}, "schema_version": 1})
    image = ApptainerRuntime("apptainer").prepare(ImageRequest(reference=reference), tmp_path, silent)
    assert (image.path, image.digest, image.versions) == (str(file), DIGEST, {"python": "3.12.1"})
