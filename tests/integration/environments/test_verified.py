"""A lock with digests: exactly its files are installed, whatever an index or a folder has under their names."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from llmbx.catalog.environments import load_environment
from llmbx.errors import InfraError
from llmbx_environments.venv.wheelhouse import gather

from .test_venv import LABEL, MINOR, finished, of, run_in
from .toy import Index, make_wheel, pip_settings, prepare


def digest(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def lock_of(tmp_path: Path, steps: list[list[str]], files: dict[str, str]) -> Path:
    path = tmp_path / "lock.toml"
    table = "".join(f'"{name}" = "{value}"\n' for name, value in files.items())
    path.write_text(f'name = "toy"\npythons = ["{MINOR}"]\nsteps = {json.dumps(steps)}\n[files]\n{table}')
    return path


def poison(wheel: Path) -> None:
    """Change what the wheel's module does; name, version and the record inside stay plausible to an installer."""
    with zipfile.ZipFile(wheel) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(wheel, "w") as new:
        for name, content in members.items():
            new.writestr(name, b"version = 'poisoned'\n" if name.endswith(".py") else content)


@pytest.mark.parametrize("source", ["index", "folder"])
def test_a_poisoned_wheel_is_refused_and_leaves_nothing(tmp_path: Path, source: str) -> None:
    wheels, install = tmp_path / "wheelhouse", tmp_path / "install"
    files = {path.name: digest(path) for path in (make_wheel(wheels, "alpha"), make_wheel(wheels, "beta"))}
    lock = lock_of(tmp_path, [["alpha==1.0"], ["beta==1.0"]], files)
    whole = (wheels / "beta-1.0-py3-none-any.whl").read_bytes()
    poison(wheels / "beta-1.0-py3-none-any.whl")
    index = Index(wheels)
    where = {"PIP_INDEX_URL": index.url} if source == "index" else {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    env = pip_settings(tmp_path, **where)
    code, _, err = prepare(lock, install, env)
    last = err.splitlines()[-1]
    assert code == 4 and "Traceback" not in err
    got = digest(wheels / "beta-1.0-py3-none-any.whl")
    assert f"the file of beta==1.0 is not the one in the lock: its digest is {got}" in last
    assert files["beta-1.0-py3-none-any.whl"] in last and "nothing was installed" in last
    assert finished(install) == [] and [path.name for path in install.rglob("alpha*")] == []
    assert not (install / "venvs" / LABEL).exists()

    (wheels / "beta-1.0-py3-none-any.whl").write_bytes(whole)
    code, out, err = prepare(lock, install, env)
    assert code == 0, err
    assert run_in(out, "import alpha, beta; print(alpha.version, beta.version)") == "1.0 1.0"
    index.shutdown()


@pytest.mark.parametrize("partial", ["PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"])
def test_an_index_with_another_file_of_the_version_is_passed_over(tmp_path: Path, partial: str) -> None:
    """A mirror may have one of a package's many files, and uv prefers some indexes to others."""
    whole, mirror = tmp_path / "whole", tmp_path / "mirror"
    good, other = make_wheel(whole, "alpha"), make_wheel(mirror, "alpha", padding=9)
    lock = lock_of(tmp_path, [["alpha==1.0"]], {good.name: digest(good)})
    indexes = {partial: Index(mirror), ({"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"} - {partial}).pop(): Index(whole)}
    env = pip_settings(tmp_path, **{name: index.url for name, index in indexes.items()})
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0"
    assert not list((tmp_path / "install").rglob("alpha.bin")), f"that of {other} was installed"
    for index in indexes.values():
        index.shutdown()


def test_another_build_of_the_same_version_is_not_taken(tmp_path: Path) -> None:
    """To uv and pip, `alpha==1.0` may be `1.0+evil`, and they prefer it."""
    wheels = tmp_path / "wheelhouse"
    good = make_wheel(wheels, "alpha")
    make_wheel(wheels, "alpha", "1.0+evil")
    env = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    lock = lock_of(tmp_path, [["alpha==1.0"]], {good.name: digest(good)})
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0"
    assert "not verified" not in err
    frozen = f"alpha==1.0 {digest(good)}\n".encode()
    assert of(lock, tmp_path / "install").digest == f"sha256:{hashlib.sha256(frozen).hexdigest()}"


def test_a_lock_without_digests_says_so_and_one_without_a_file_for_this_machine_is_refused(tmp_path: Path) -> None:
    wheels = tmp_path / "wheelhouse"
    make_wheel(wheels, "alpha")
    env = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    plain = tmp_path / "plain.toml"
    plain.write_text(f'name = "plain"\npythons = ["{MINOR}"]\nsteps = [["alpha==1.0"]]\n')
    code, _, err = prepare(plain, tmp_path / "install", env)
    assert code == 0 and "its lock has no digests, so packages are not verified" in err
    lock = lock_of(tmp_path, [["alpha==1.0"]], {"alpha-1.0-cp39-cp39-linux_riscv64.whl": f"sha256:{'0' * 64}"})
    code, _, err = prepare(lock, tmp_path / "install", env)
    assert code == 4 and f"its lock has no file of alpha==1.0 for Python {MINOR} on" in err.splitlines()[-1]
    assert not (tmp_path / "install/venvs" / LABEL).exists()


def test_a_wheelhouse_has_the_files_of_the_lock_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, install = tmp_path / "wheelhouse", tmp_path / "install"
    good = make_wheel(wheels, "alpha")
    env = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    lock = lock_of(tmp_path, [["alpha==1.0"]], {good.name: digest(good)})
    code, _, err = prepare(lock, install, env)
    assert code == 0, err
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    environment = load_environment(lock)
    (found,) = gather(environment, install, tmp_path / "first", lambda line: None)
    assert (found.name, digest(found)) == (good.name, digest(good))
    poison(good)
    with pytest.raises(InfraError, match=r"the file of alpha==1\.0 is not the one in the lock"):
        gather(environment, install, tmp_path / "second", lambda line: None)


def test_a_hostile_wheel_in_the_wheelhouse_is_refused_without_a_digest_too(tmp_path: Path) -> None:
    install = tmp_path / "install"
    wheel = make_wheel(install / "wheels", "alpha")
    make_wheel(install / "wheels", "other")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("../../../outside.py", "")
    (install / "wheels/other-1.0-py3-none-any.whl").write_text("not asked for, so not looked at")
    env = pip_settings(tmp_path, PIP_NO_INDEX="1")
    plain = tmp_path / "plain.toml"
    plain.write_text(f'name = "toy"\npythons = ["{MINOR}"]\nsteps = [["alpha==1.0"]]\n')
    code, _, err = prepare(plain, install, env)
    assert code == 2 and f"{wheel} must not be installed: the path '../../../outside.py' leaves" in err.splitlines()[-1]
    assert not (install / "venvs" / LABEL).exists() and finished(install) == []
