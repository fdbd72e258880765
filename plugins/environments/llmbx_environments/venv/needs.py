"""Programs and headers that the machine must have for packages that are built from source."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from llmbx.api import Environment, InfraError

COMPILERS = {"c++": ("CXX", ("c++", "g++", "clang++")), "cc": ("CC", ("cc", "gcc", "clang"))}
"""Compilers that go by several names: the variable that selects one, and the names."""

_INCLUDES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_ROOTS = ("CUDA_HOME", "CUDA_PATH", "CUDNN_HOME", "CUDNN_PATH")
_ADVICE = "install them, or set PATH, CUDA_HOME, CUDNN_PATH or CPATH to where they are"


def require(
    environment: Environment, label: str, python: str, environ: Mapping[str, str]
) -> list[str]:
    """One line for each package that is built from source, with what its build needs.

    `python` is the interpreter of the environment. Raises `InfraError` with all that is missing.
    """
    lines, missing = [], []
    for package, needs in environment.needs.items():
        listed = ", ".join(needs)
        lines.append(f"environment {label}: {package} is built from source and needs {listed}")
        missing += [
            f"{need} (for {package})" for need in needs if find(need, python, environ) is None
        ]
    if missing:
        reason = f"this machine has no {', '.join(missing)}: {_ADVICE}"
        raise InfraError(f"environment {label} is not built, because {reason}")
    return lines


def find(need: str, python: str, environ: Mapping[str, str]) -> Path | None:
    """The path of a program (`nvcc`) or of a header (`cudnn.h`); None if it is not found."""
    if need.endswith((".h", ".hpp")):
        headers = (folder / need for folder in _includes(python, environ))
        return next((path for path in headers if path.is_file()), None)
    variable, names = COMPILERS.get(need, ("", (need,)))
    folders = [environ.get("PATH", os.defpath), *(str(root / "bin") for root in _roots(environ))]
    for name in environ.get(variable, "").split()[:1] or names:
        if path := shutil.which(name, path=os.pathsep.join(folders)):
            return Path(path)
    return None


def _includes(python: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Folders with headers: of the variables, of CUDA, of the interpreter and of the system."""
    for variable in _INCLUDES:
        folders = environ.get(variable, "").split(os.pathsep)
        yield from (Path(folder) for folder in folders if folder)
    yield from (root / "include" for root in _roots(environ))
    yield from sorted((Path(python).resolve().parents[1] / "include").glob("python3*"))
    system = Path("/usr/include")
    yield from (system, system / str(sysconfig.get_config_var("MULTIARCH") or ""))


def _roots(environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ[name]) for name in _ROOTS if environ.get(name)] + [Path("/usr/local/cuda")]
