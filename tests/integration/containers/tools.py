"""The real container tools for the tests: a Docker daemon, a registry and Apptainer, private to the test session.

Debian has the first two. Apptainer is taken from Debian unstable and unpacked into a folder of its own; its two
programs get that release's C library beside them, so that nothing of the machine is replaced. Everything listens on
loopback or on Unix sockets and is stopped by its process id.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from ...patience import PATIENCE_S
from .. import apt

PACKAGES = {
    "dockerd": "docker.io",
    "docker-registry": "docker-registry",
    "busybox": "busybox-static",
    "patchelf": "patchelf",
    "mksquashfs": "squashfs-tools",
    "newuidmap": "uidmap",
    "mmdebstrap": "mmdebstrap",
}
TOOLS = ("docker", "apptainer", *(["enroot"] if shutil.which("enroot") else []))
"""The container tools that are tested: enroot, which Debian does not have, wherever it is installed."""

SEARCH = "/usr/bin:/usr/sbin:/bin:/sbin"
PYTHON = Path("/usr/bin/python3")
NOT_NEEDED = ("test", "idlelib", "tkinter", "lib2to3", "ensurepip", "distutils", "pydoc_data", "unittest", "asyncio",
              "sqlite3", "xml", "email", "multiprocessing", "dist-packages", "__pycache__")  # fmt: skip
"""Parts of Python's library that no program in the tests imports."""


def trainers(install: Path) -> list[psutil.Process]:
    """Ranks of the toy framework in a run folder of this install, inside containers or not."""
    found = [p for p in psutil.process_iter(["cmdline", "cwd"]) if (p.info["cmdline"] or [])[-1:] == ["train.py"]]
    return [process for process in found if (process.info["cwd"] or "").startswith(str(install))]


def why_not() -> str | None:
    """Why the tools cannot be had on this machine, or None."""
    if platform.machine() != "x86_64" or not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return "the container tests need Debian on x86_64"
    return None if os.getuid() == 0 else "the container tests need root: they start a Docker daemon"


def install(prefix: Path) -> None:
    """Install what is missing; Apptainer goes to `prefix` and stays there."""
    install_packages(PACKAGES)
    if not (prefix / "usr/bin/apptainer").exists():
        with apt.alone():
            _unpack_apptainer(prefix, {**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def install_packages(packages: Mapping[str, str]) -> None:
    """Install the Debian packages whose program is missing, by program; busybox has to be the static one."""
    missing = [package for program, package in packages.items() if not shutil.which(program, path=SEARCH)]
    if not shutil.which("busybox", path="/bin") or _dynamic(Path("/bin/busybox")):
        missing.append("busybox-static")
    if missing and (why := apt.install([*dict.fromkeys(missing)])):
        raise RuntimeError(f"the container tools could not be installed: {why}")


class Daemons:
    """A Docker daemon and a registry in one folder; `environment` is what commands need to use them and Apptainer."""

    def __init__(self, folder: Path, apptainer: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.port = free_port()
        self.apptainer = apptainer
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def registry(self) -> str:
        """The registry as references name it."""
        return f"127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the tools are found."""
        path = f"{self.apptainer / 'usr/bin'}:{SEARCH}:{os.environ['PATH']}"
        return {"DOCKER_HOST": f"unix://{self.socket}", "PATH": path}

    def start(self) -> None:
        """Start both and wait until they answer."""
        self.start_registry()
        self.start_docker()

    def start_docker(self) -> None:
        """The daemon, without a bridge and without touching the firewall."""
        self._spawn(
            "docker", "dockerd", "--host", f"unix://{self.socket}", "--data-root", f"{self.folder}/docker",
            "--exec-root", f"{self.folder}/exec", "--pidfile", f"{self.folder}/docker.pid", "--iptables=false",
            "--ip-masq=false", "--bridge=none", "--max-download-attempts", "1",
        )  # fmt: skip
        self._wait("docker", lambda: self.docker("version", check=False).returncode == 0)

    def start_registry(self) -> None:
        """The registry, with its data in a folder: it comes back with everything after a stop."""
        config = self.folder / "registry.yml"
        store = f"{{filesystem: {{rootdirectory: {self.folder}/registry}}, delete: {{enabled: true}}}}"
        config.write_text(f"version: 0.1\nstorage: {store}\nhttp: {{addr: '{self.registry}'}}\n")
        self._spawn("registry", "docker-registry", "serve", str(config))
        self._wait("registry", lambda: _listens(self.port))

    def stop(self, name: str, hard: bool = False) -> None:
        """Stop one of them, by its process id."""
        process = self._started.pop(name)
        process.kill() if hard else process.terminate()
        process.wait(PATIENCE_S)
        for mount in (self.folder / "exec/netns").glob("*") if name == "docker" else ():
            run("umount", str(mount), check=False)

    def stop_all(self) -> None:
        """Stop what still runs."""
        for name in list(self._started):
            self.stop(name)

    def docker(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One docker command against this daemon."""
        return run("docker", *arguments, env={**os.environ, **self.environment}, check=check)

    def push(self, root: Path, name: str, *changes: str) -> str:
        """Make an image of the folder `root`, push it as `name`, and drop it from the daemon; its digest."""
        reference = f"{self.registry}/{name}"
        archive = make_archive(root, self.folder / "root.tar")
        options = [part for change in changes for part in ("--change", change)]
        self.docker("import", *options, str(archive), reference)
        pushed = self.docker("push", reference).stdout
        self.docker("image", "rm", "--force", reference)
        found = re.search(r"digest: (sha256:[0-9a-f]{64})", pushed)
        assert found, pushed
        return found[1]

    def forget_images(self) -> None:
        """Drop every image of the registry from the daemon, so that the next pull has to fetch its layers."""
        listed = self.docker("image", "ls", "--no-trunc", "--digests", "--format", "{{.ID}} {{.Repository}}").stdout
        ids = {line.split()[0] for line in listed.splitlines() if "/ci/" in line}
        if ids:
            self.docker("image", "rm", "--force", *ids)

    def _spawn(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            environ = {**os.environ, "PATH": f"{SEARCH}:{os.environ['PATH']}"}
            self._started[name] = subprocess.Popen(
                argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self, name: str, ready: object) -> None:
        assert callable(ready)
        end = time.monotonic() + PATIENCE_S
        while not ready():
            dead = self._started[name].poll() is not None
            if dead or time.monotonic() > end:
                raise RuntimeError(f"{name} did not start:\n{(self.folder / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.1)


def make_root(root: Path, python: bool = True) -> Path:
    """A root file system of busybox and, with `python`, this machine's own Debian Python."""
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "root", "run", "usr/bin", "usr/lib", "var/tmp", "lib64"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for applet in run("/bin/busybox", "--list").stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for name in ("hosts", "resolv.conf", "localtime"):
        (root / "etc" / name).touch()
    if python:
        _add_python(root)
    return root


def make_archive(root: Path, archive: Path) -> Path:
    """The folder `root` as a tar file in which everything belongs to root."""
    with tarfile.open(archive, "w") as tar:
        tar.add(root, ".", filter=_roots)
    return archive


DEBIAN = ("base-files", "base-passwd", "coreutils", "dash", "grep", "libc-bin", "sed", "python3-minimal",
          "libpython3-stdlib", "libstdc++6", "libgomp1")  # fmt: skip
"""What an image of a real framework needs of Debian: a shell with its tools, Python, the C++ and OpenMP libraries."""


def make_debian(root: Path, suite: str) -> Path:
    """A root file system of Debian's packages, unpacked from the mirror that this machine uses."""
    program = shutil.which("mmdebstrap", path=SEARCH) or "mmdebstrap"
    run(program, "--quiet", "--variant=extract", f"--include={','.join(DEBIAN)}", suite, str(root), _mirror())
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    for rest in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(root / rest, ignore_errors=True)
    return root


def _mirror() -> str:
    lists = [*Path("/etc/apt").glob("sources.list.d/*.sources"), *Path("/etc/apt").glob("sources.list")]
    return next(m[1] for path in lists if (m := re.search(r"(https?://\S+/debian)/?(?=\s)", path.read_text())))


def run(
    *argv: str, env: Mapping[str, str] | None = None, check: bool = True, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it said; a failure shows it."""
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
        )
    return done


def free_port() -> int:
    """A TCP port of loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _add_python(root: Path) -> None:
    program = PYTHON.resolve()
    library = Path("/usr/lib") / program.name
    shutil.copy(program, root / "usr/bin/python3")
    modules = ("_codecs_*", "_ssl*", "_hashlib*", "_sqlite3*", "_dbm*", "_curses*", "readline*", "nis*", "_decimal*")
    ignore = shutil.ignore_patterns(*NOT_NEEDED, *modules, "config-*", "*.pyc")
    shutil.copytree(
        library, root / library.relative_to("/"), ignore=ignore, symlinks=False, ignore_dangling_symlinks=True
    )
    add_libraries(root, program, *(root / library.relative_to("/") / "lib-dynload").glob("*.so"))


def add_libraries(root: Path, *programs: Path) -> None:
    """Copy the shared libraries that programs of this machine need into `root`."""
    for needed in {path for program in programs for path in _needs(program)}:
        target = root / needed.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed.resolve(), target)


def _needs(program: Path) -> list[Path]:
    said = run("ldd", str(program), check=False).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", said)]


def _roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _dynamic(program: Path) -> bool:
    return "not a dynamic executable" not in run("ldd", str(program), check=False).stderr


def _unpack_apptainer(prefix: Path, environ: Mapping[str, str]) -> None:
    """Apptainer and its C library from unstable, into a folder that gets its name only when it is whole."""
    fresh = prefix.with_name(prefix.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("lists/partial", "cache", "debs/partial", "libc"):
            (work / name).mkdir(parents=True)
        debs = _download(work, ("apptainer", "libc6"), environ)
        run("dpkg", "-x", str(debs["apptainer"]), str(fresh))
        run("dpkg", "-x", str(debs["libc6"]), str(work / "libc"))
        (fresh / "libc").mkdir()
        for library in (work / "libc/usr/lib/x86_64-linux-gnu").glob("*.so*"):
            shutil.copy(library, fresh / "libc", follow_symlinks=True)
    final = prefix / "libc"
    for program in ("usr/bin/apptainer", "usr/lib/x86_64-linux-gnu/apptainer/bin/starter"):
        loader = ("--set-interpreter", str(final / "ld-linux-x86-64.so.2"))
        run("patchelf", *loader, "--force-rpath", "--set-rpath", str(final), str(fresh / program))
    (fresh / "var/lib/apptainer/mnt/session").mkdir(parents=True, exist_ok=True)
    # The programs look for their configuration and state beside themselves.
    for link, target in (
        ("usr/etc", "../etc"),
        ("usr/var", "../var"),
        ("usr/lib/etc", "../../etc"),
        ("usr/lib/var", "../../var"),
    ):
        (fresh / link).symlink_to(target)
    config = fresh / "etc/apptainer/apptainer.conf"
    # Root in a container of this machine may lack a capability that "full" asks for.
    config.write_text(config.read_text().replace("root default capabilities = full", "root default capabilities = no"))
    shutil.rmtree(prefix, ignore_errors=True)
    fresh.rename(prefix)


def _download(work: Path, names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, Path]:
    """The packages `names` of Debian unstable, from the mirror that this machine uses anyway."""
    source = work / "unstable.sources"
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    source.write_text(f"Types: deb\nURIs: {_mirror()}\nSuites: sid\nComponents: main\nSigned-By: {key}\n")
    settings = {
        "Dir::Etc::sourcelist": source, "Dir::Etc::sourceparts": "/dev/null", "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache", "APT::Sandbox::User": "root",
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *options, "update", "-qq", env=environ)
    run("apt-get", *options, "download", "-qq", *names, env=environ, cwd=work / "debs")
    return {name: next((work / "debs").glob(f"{name}_*.deb")) for name in names}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
