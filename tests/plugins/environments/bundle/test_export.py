"""Export and import of bundles; tokens are never included."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx_environments.bundle.export import export
from llmbx_environments.bundle.manifest import NAME
from llmbx_environments.bundle.unpack import import_bundle

from ....integration.environments.toy import make_wheel

HUB = ".cache/huggingface/hub"
BLOB, SNAPSHOT = f"{HUB}/models--a--b/blobs/1f", f"{HUB}/models--a--b/snapshots/9/tokenizer.json"


def quiet(line: str) -> None:
    """Ignore progress messages."""


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """An install with a wheel, a tokenizer in the hub's cache, and files of a login."""
    root = tmp_path / "install"
    make_wheel(root / "wheels", "a")
    files = {"wheels/pip.conf": "hf_planted", BLOB: "{}"}
    logins = ("token", "stored_tokens", "datasets/x/cached")
    for name, text in {**files, **{f".cache/huggingface/{name}": "hf_planted" for name in logins}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    snapshot = root / SNAPSHOT
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to("../../blobs/1f")
    (snapshot.parent / "token").symlink_to("../../../../token")
    return root


def pack(bundle: Path, members: dict[str, bytes]) -> None:
    """Write a bundle with these files, as earlier versions of llmbx may have written it."""
    facts = [
        {"path": path, "sha256": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
        for path, content in members.items()
    ]
    with tarfile.open(bundle, "w") as archive:
        for name, content in {NAME: json.dumps({"members": facts}).encode(), **members}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_a_bundle_holds_tokenizers_and_wheels_and_no_token(install: Path, tmp_path: Path) -> None:
    manifest = export(tmp_path / "a.bundle", [], install, quiet)
    assert {member.path for member in manifest.members} == {"wheels/a-1.0-py3-none-any.whl", BLOB, SNAPSHOT}
    assert b"hf_planted" not in (tmp_path / "a.bundle").read_bytes()
    import_bundle(tmp_path / "a.bundle", tmp_path / "other", False, quiet)
    assert (tmp_path / "other" / SNAPSHOT).read_text() == "{}"


def test_files_that_are_links_are_exported_as_files(install: Path, tmp_path: Path) -> None:
    """uv and the hub's cache link files; an import accepts no links."""
    os.link(install / BLOB, install / f"{HUB}/models--a--b/blobs/2f")
    wheel = install / "wheels/a-1.0-py3-none-any.whl"
    wheel.rename(tmp_path / wheel.name)
    wheel.symlink_to(tmp_path / wheel.name)
    export(tmp_path / "a.bundle", [], install, quiet)
    import_bundle(tmp_path / "a.bundle", tmp_path / "other", False, quiet)
    assert (tmp_path / "other" / f"{HUB}/models--a--b/blobs/2f").read_text() == "{}"
    assert (tmp_path / "other/wheels/a-1.0-py3-none-any.whl").read_bytes() == wheel.read_bytes()


def test_the_token_in_an_earlier_bundle_is_left_there(tmp_path: Path) -> None:
    said: list[str] = []
    pack(tmp_path / "old.bundle", {".cache/huggingface/token": b"hf_planted", BLOB: b"{}"})
    import_bundle(tmp_path / "old.bundle", tmp_path / "other", False, said.append)
    assert [path.name for path in (tmp_path / "other").rglob("*") if path.is_file()] == ["1f"]
    assert any("skipping .cache/huggingface/token" in line for line in said)


def test_a_wheel_that_no_import_accepts_is_not_exported(install: Path, tmp_path: Path) -> None:
    (install / "wheels/b-1.0-py3-none-any.whl").write_text("not a wheel")
    with pytest.raises(UsageError, match=r"b-1\.0-py3-none-any\.whl cannot be exported: it is damaged"):
        export(tmp_path / "a.bundle", [], install, quiet)
    assert not (tmp_path / "a.bundle").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "images/../x", "home/x", ""])
def test_a_file_elsewhere_is_refused(path: str, tmp_path: Path) -> None:
    pack(tmp_path / "bad.bundle", {path: b""})
    with pytest.raises(UsageError, match=r"not an allowed path in an install|leaves the archive"):
        import_bundle(tmp_path / "bad.bundle", tmp_path / "other", False, quiet)
