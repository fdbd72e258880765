"""Choose and configure the pip that installs into an environment, and explain its failures."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from llmbx.api import InfraError

from .uv_tool import uv_command

_UNWANTED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN", "VIRTUAL_ENV")
_REASONS = re.compile(
    r"Connection refused|Name or service not known|Temporary failure in name resolution|Network is unreachable"
    r"|No route to host|timed out|Connection reset|certificate verify failed|[45]\d\d (?:Client|Server) Error",
    re.IGNORECASE,
)
_NO_NETWORK = re.compile(r"Retrying \(Retry|ProxyError|SSLError|ConnectionError|HTTP error", re.IGNORECASE)
_OLDEST: dict[tuple[int, ...], tuple[int, ...]] = {(): (22, 3), (3, 12): (23, 2), (3, 13): (24, 1)}
"""Minimum version of pip by Python version: `--python` was added in 22.3; 3.12 and 3.13 are from pip's changelog."""

_BUNDLED = """
import ensurepip, pathlib
folders = pathlib.Path(ensurepip.__file__).parent / "_bundled", pathlib.Path("/usr/share/python-wheels")
print(*(wheel for folder in folders for wheel in folder.glob("pip-*.whl")), sep="\\n")
"""
"""Program that prints the wheels of pip of an interpreter, which run without being installed. Debian moves them."""

_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
_CONNECTION = ("cert", "trusted-host", "proxy")


NOT_FROM_HERE = ("-P",)
"""Option of Python 3.11 and newer: nothing is imported from the working folder, which may be a stranger's."""


def pip_command(venv_python: str) -> list[str]:
    """The argv prefix of a pip that installs into the environment of `venv_python`, which contains no pip itself.

    In order of preference: llmbx's own pip, the pip of the interpreter that the environment was created with, the wheel
    that its ensurepip has, a pip that uv downloads. Raises `InfraError` if none is available.
    """
    needed = _oldest_pip(venv_python)
    if importlib.util.find_spec("pip") and _numbers(importlib.metadata.version("pip")) >= needed:
        return [sys.executable, *NOT_FROM_HERE, "-m", "pip", "--python", venv_python]
    base = str(Path(venv_python).resolve())
    uv = uv_command({"PATH": os.environ.get("PATH", "")}) or "uv"
    wheels = [[base, f"{wheel}/pip"] for wheel in _output([base, *NOT_FROM_HERE, "-c", _BUNDLED]).splitlines()]
    for pip in ([base, *NOT_FROM_HERE, "-m", "pip"], *wheels, [uv, "tool", "run", "--python", base, "pip"]):
        output = _output([*pip, "--version"]).split()
        if len(output) > 1 and _numbers(output[1]) >= needed:
            return [*pip, "--python", venv_python]
    raise InfraError(
        f"no pip >= {'.'.join(map(str, needed))} was found for {base}: install one into llmbx's environment "
        "(`python -m ensurepip`, or `uv pip install pip`)"
    )


def pip_environment(environ: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment variables for pip: the user's, without those that would install packages elsewhere."""
    inherited = {name: value for name, value in environ.items() if name not in _UNWANTED}
    fixed = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off"}
    return {**inherited, **fixed, "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)}


def without_network(env: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """`env` changed so that pip does not use the network: no index, and only the local find-links."""
    local = [link for link in configured.get("find-links", "").split() if "://" not in link or link.startswith("file:")]
    return {**env, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": " ".join(local)}


def configured_options(pip: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The user's pip options for package sources and connections, by option name.

    Values may contain credentials and must not be printed.
    """
    found: dict[str, str] = {}
    for line in _output([*pip, "config", "list"], env).splitlines():
        key, _, value = line.partition("=")
        option = key.strip().rpartition(".")[2]
        if option in (*_SOURCES, *_CONNECTION):
            found[option] = value.strip().strip("'\"").replace("\\n", " ")
    return found


def explain_failure(lines: Iterable[str], configured: Mapping[str, str], wheels: Path, offline: bool) -> str:
    """Explain a failure of pip in one line: the package, the package sources (without URLs), and what to do."""
    text = "\n".join(lines)
    if "No space left on device" in text or "Errno 28" in text:
        return "the disk is full (No space left on device): free some space and retry; the build resumes"
    missing = re.search(r"No matching distribution found for (\S+)", text)
    network = network_problem(text)
    if not missing and not network:
        errors = re.findall(r"^ERROR: (.+)$", text, re.MULTILINE)
        return f"pip failed: {errors[-1] if errors else 'no error output'}"
    what = missing[1] if missing else "a package"
    if offline:
        return f"{what} is not in {wheels} or another local find-links folder, and --offline disables the network"
    names = [name for name in _SOURCES if name in configured and name != "no-index"]
    if "index-url" not in names and "no-index" not in configured:
        names.insert(0, "the default index")
    searched = f"searched: {', '.join(names) or 'no package source'}, according to pip's configuration"
    if network:
        return (
            f"{what} could not be downloaded: {network} ({searched}); check the network and retry, or put the "
            f"wheels into {wheels} and use --offline"
        )
    return (
        f"{what} was not found ({searched}); put its wheel into {wheels}, or set PIP_INDEX_URL to an index that has it"
    )


def network_problem(text: str) -> str | None:
    """Why the network failed, in the words of the installer's output; None if it says nothing about the network."""
    found = _REASONS.search(text) or _NO_NETWORK.search(text)
    return found[0] if found else None


def _oldest_pip(python: str) -> tuple[int, ...]:
    """The minimum version of pip for this interpreter. With `--python`, pip's code runs in that interpreter."""
    version = _numbers(_output([python, *NOT_FROM_HERE, "-c", "import platform; print(platform.python_version())"]))
    return max((pip for minor, pip in _OLDEST.items() if version >= minor), default=_OLDEST[()])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _output(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """The standard output of `argv`; empty if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", env=env, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
