"""`llmbx env lock` and `env check` with a real uv: what is locked is what is installed, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.catalog.environments import load_environment

from ...patience import PATIENCE_S
from .test_venv import MINOR, run_in
from .test_verified import digest, poison
from .toy import Index, make_wheel, pip_settings, prepare

CODE = "from llmbx.__main__ import main; main()"
HERE = ("--python", MINOR)


def env_verb(env: dict[str, str], *arguments: object, cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `llmbx env …`."""
    argv = [sys.executable, "-c", CODE, "env", *map(str, arguments)]
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheelhouse"
    for name, version in (("alpha", "1.0"), ("alpha", "2.0"), ("beta", "1.0")):
        make_wheel(folder, name, version)
    return folder


@pytest.fixture
def folder_env(tmp_path: Path, wheels: Path) -> dict[str, str]:
    return pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))


@pytest.mark.parametrize("source", ["folder", "index"])
def test_a_lock_has_the_digest_of_every_file_and_is_the_same_each_time(
    tmp_path: Path, wheels: Path, folder_env: dict[str, str], source: str
) -> None:
    index = Index(wheels)
    env = folder_env if source == "folder" else pip_settings(tmp_path, PIP_INDEX_URL=index.url)
    (tmp_path / "needed.txt").write_text("alpha<2\n")
    lock = tmp_path / "toy.toml"
    texts = set()
    for _ in range(2):
        code, out, err = env_verb(env, "lock", "needed.txt", "beta", *HERE, "-o", lock, cwd=tmp_path)
        assert (code, out) == (0, ""), err
        texts.add(lock.read_text())
    made = load_environment(lock, whole=True)
    assert len(texts) == 1
    assert texts.pop().startswith(f"# Made by: llmbx env lock needed.txt beta --python {MINOR} -o toy.toml\n")
    assert made.steps == (("alpha==1.0", "beta==1.0"),) and made.name == "toy"
    assert made.platforms == {"linux-x86_64": (), "linux-aarch64": ()}
    assert made.files == {
        path.name: digest(path) for path in (wheels / f"{name}-1.0-py3-none-any.whl" for name in ("alpha", "beta"))
    }
    assert env_verb(env, "lock", "beta", *HERE, "--name", "other")[1].splitlines()[2] == 'name = "other"'
    assert env_verb(env, "check", lock)[0] == 0
    index.shutdown()


def test_the_versions_of_another_lock_are_kept_unless_one_is_given(
    tmp_path: Path, folder_env: dict[str, str], wheels: Path
) -> None:
    make_wheel(wheels, "gamma", requires=["nowhere-to-be-found"])
    base = tmp_path / "base.toml"
    assert env_verb(folder_env, "lock", "alpha==1.0", "beta", *HERE, "-o", base)[0] == 0
    for given, steps in (
        (["beta"], ("alpha==1.0", "beta==1.0")),
        (["alpha>1"], ("alpha==2.0", "beta==1.0")),
        (["gamma", "--no-deps", "gamma"], ("alpha==1.0", "beta==1.0", "gamma==1.0")),
        (["gamma", "--exclude", "nowhere-to-be-found"], ("alpha==1.0", "beta==1.0", "gamma==1.0")),
    ):
        code, _, err = env_verb(folder_env, "lock", base, *given, *HERE, "--main", "beta", "-o", tmp_path / "new.toml")
        assert code == 0, err
        made = load_environment(tmp_path / "new.toml", whole=True)
        assert (made.steps, made.main) == ((steps,), ("beta",))


def test_another_index_is_written_into_the_lock(tmp_path: Path, wheels: Path) -> None:
    make_wheel(tmp_path / "more", "alpha", "1.0+cu128")
    main, more = Index(wheels), Index(tmp_path / "more")
    env = pip_settings(tmp_path, PIP_INDEX_URL=main.url)
    lock, request = tmp_path / "toy.toml", ("alpha==1.0+cu128", "beta", *HERE, "--index", more.url, "--cuda", "12")
    code, _, err = env_verb(env, "lock", *request, "-o", lock)
    assert code == 0, err
    made = load_environment(lock, whole=True)
    assert made.variants == {"alpha==1.0+cu128": (("alpha==1.0+cu128", None), ("alpha==1.0+cu128", more.url))}
    assert made.cuda == 12 and "beta-1.0-py3-none-any.whl" in made.files
    assert env_verb(env, "check", lock)[0] == 0
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0+cu128"
    more.shutdown()
    more.server_close()
    env["UV_CACHE_DIR"] = str(tmp_path / "empty-cache")
    code, out, err = env_verb(env, "check", lock)
    assert code == 0, out
    assert f"alpha==1.0+cu128 is not compared: {more.url} cannot be reached" in err
    main.shutdown()


@pytest.mark.parametrize(
    ("arguments", "exits", "said"),
    [
        (("gamma",), 2, "linux-x86_64: Because gamma was not found"),
        (("alpha>=3",), 2, "you require alpha>=3"),
        (("alpha=1",), 2, "Couldn't parse requirement"),
        (("missing.txt",), 2, "missing.txt: there is no such requirements file"),
        (("alpha", "--platform", "linux-riscv64"), 2, "unknown platform 'linux-riscv64' (known: linux-aarch64"),
        (("alpha", "--python", "2.7"), 2, "--python 2.7: expected a version such as 3.12"),
        (("alpha", "--glibc", "1"), 2, "--glibc 1: expected one of 2.17"),
        (("alpha", "--cuda", "13"), 2, "no package is for CUDA 13"),
        (("alpha", "--index", "https://user:secret@more.example/simple"), 2, "must not have credentials"),
    ],
)
def test_what_cannot_be_locked_is_one_line_and_leaves_the_file_as_it_was(
    tmp_path: Path, folder_env: dict[str, str], arguments: tuple[str, ...], exits: int, said: str
) -> None:
    lock = tmp_path / "toy.toml"
    lock.write_text("before")
    code, out, err = env_verb(folder_env, "lock", *HERE, "-o", lock, *arguments)
    assert (code, out) == (exits, "") and said in err.splitlines()[-1] and "secret" not in err
    assert lock.read_text() == "before" and sorted(tmp_path.glob("*.toml*")) == [lock]


def test_an_index_that_cannot_be_reached_is_not_a_fault_of_the_requirements(tmp_path: Path, wheels: Path) -> None:
    env = pip_settings(tmp_path, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    code, _, err = env_verb(env, "lock", "alpha", *HERE, "-o", tmp_path / "toy.toml")
    assert code == 4 and "the package index could not be reached" in err.splitlines()[-1]
    assert not (tmp_path / "toy.toml").exists()
    offline = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    assert env_verb(offline, "lock", "alpha", *HERE, "-o", tmp_path / "toy.toml")[0] == 0
    assert env_verb(env, "check", tmp_path / "toy.toml")[0] == 4
    code, out, _ = env_verb(env, "check", tmp_path / "toy.toml", "--offline")
    assert code == 0 and "digests not compared with an index" in out


def test_a_check_finds_a_file_that_the_index_has_changed_or_deleted(
    tmp_path: Path, wheels: Path, folder_env: dict[str, str]
) -> None:
    lock = tmp_path / "toy.toml"
    assert env_verb(folder_env, "lock", "alpha", "beta", *HERE, "-o", lock)[0] == 0
    wheel = wheels / "beta-1.0-py3-none-any.whl"
    before = digest(wheel)
    poison(wheel)
    code, out, _ = env_verb(folder_env, "check", lock)
    assert (code, out) == (1, f"{lock}: {wheel.name}: the lock has {before}, the index has {digest(wheel)}\n")
    wheel.unlink()
    code, out, _ = env_verb(folder_env, "check", lock)
    assert code == 1 and "beta" in out
    lock.write_text(lock.read_text().replace("alpha==2.0", "alpha>=2.0"))
    code, out, _ = env_verb(folder_env, "check", lock)
    assert (code, out) == (1, f"{lock}: 'alpha>=2.0' is not an exact pin (NAME==VERSION)\n")
    assert env_verb(folder_env, "check", tmp_path / "none.toml")[0] == 2


def test_a_lock_of_another_platform_is_not_installed(tmp_path: Path, folder_env: dict[str, str]) -> None:
    other = "linux-aarch64" if os.uname().machine == "x86_64" else "linux-x86_64"
    lock = tmp_path / "toy.toml"
    assert env_verb(folder_env, "lock", "alpha", *HERE, "--platform", other, "-o", lock)[0] == 0
    code, _, err = prepare(lock, tmp_path / "install", folder_env)
    assert code == 4 and f"its lock is for {other}, not for linux-{os.uname().machine}" in err.splitlines()[-1]


SETUP = """\
import os
import setuptools

open("llmbxkernels.py", "w").write(f"how = {os.environ['KERNELS_FORCE_BUILD']!r}")
setuptools.setup(name="llmbxkernels", version="1.0", py_modules=["llmbxkernels"], install_requires=["what-nobody-has"])
"""


def make_archive(folder: Path, tmp_path: Path) -> Path:
    """A source archive whose build tells how it was started; its requirements are known only by running it."""
    import tarfile

    source = tmp_path / "llmbxkernels-1.0"
    source.mkdir()
    (source / "setup.py").write_text(SETUP)
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: llmbxkernels\nVersion: 1.0\n")
    path = folder / "llmbxkernels-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(source, source.name)
    return path


def test_what_has_no_wheel_is_built_after_its_needs_are_found(tmp_path: Path, wheels: Path) -> None:
    """A real setuptools builds it; locking it runs nothing of it."""
    archive = make_archive(wheels, tmp_path)
    env = pip_settings(tmp_path, PIP_FIND_LINKS=str(wheels))
    code, _, err = env_verb(env, "lock", "llmbxkernels", *HERE)
    assert code == 2 and err.endswith("; lock a source archive with --build NAME\n"), err
    lock, build = tmp_path / "toy.toml", ("--build", "llmbxkernels=toolc", "--build-env", "KERNELS_FORCE_BUILD=yes")
    code, _, err = env_verb(env, "lock", "alpha", "llmbxkernels", *HERE, *build, "-o", lock)
    assert code == 0, err
    made = load_environment(lock, whole=True)
    assert made.steps[1] == ("llmbxkernels==1.0",) and made.needs == {"llmbxkernels==1.0": ("toolc",)}
    assert made.files[archive.name] == digest(archive) and any(pin.startswith("setuptools==") for pin in made.steps[0])
    assert env_verb(env, "check", lock)[0] == 0
    code, _, err = prepare(lock, tmp_path / "install", env)
    assert code == 4 and "this machine has no toolc (for llmbxkernels==1.0)" in err.splitlines()[-1]
    assert not list(tmp_path.glob("install/venvs/toy-*/lib")), "nothing was installed"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/toolc").touch(0o755)
    code, out, err = prepare(lock, tmp_path / "install", {**env, "PATH": f"{tmp_path}/bin:{env['PATH']}"})
    assert code == 0, err
    assert "llmbxkernels==1.0 is built from source and needs toolc\n" in err
    assert run_in(out, "import llmbxkernels; print(llmbxkernels.how)") == "yes"


def test_a_real_package_is_locked_and_installed_and_another_file_is_refused(tmp_path: Path) -> None:
    """click, from the index that the tests install from."""
    env = {**os.environ, "PYTHONPATH": pip_settings(tmp_path)["PYTHONPATH"]}
    lock, install = tmp_path / "toy.toml", tmp_path / "install"
    code, _, err = env_verb(env, "lock", "click", *HERE, "--check", "import click", "-o", lock)
    assert code == 0, err
    code, out, err = env_verb(env, "check", lock)
    assert code == 0 and out.startswith(f"{lock}: ok: 1 packages"), out + err
    made = load_environment(lock, whole=True)
    (pin,) = made.steps[0]
    wrong = lock.read_text().replace(next(iter(made.files.values())), f"sha256:{'0' * 64}")
    (tmp_path / "wrong.toml").write_text(wrong)
    code, out, _ = env_verb(env, "check", tmp_path / "wrong.toml")
    assert code == 1 and f"the lock has sha256:{'0' * 64}, the index has" in out
    code, _, err = prepare(tmp_path / "wrong.toml", install, env)
    assert code == 4 and f"the file of {pin} is not the one in the lock" in err.splitlines()[-1], err
    code, out, err = prepare(lock, install, env)
    assert code == 0, err
    assert run_in(out, "from importlib.metadata import version; print(version('click'))") == pin.partition("==")[2]
