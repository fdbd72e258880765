"""Build hook of the wheel: compile what reads large logs, if the machine has a C compiler.

The shared objects do not use Python's C interface, so one wheel serves all versions of Python, and a build needs no
Python headers. No flag depends on the CPU model, so the wheel runs on every CPU of its platform.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

FLAGS = ("-O3", "-shared", "-fPIC")
LIBRARIES = {
    "core/llmbx/logs/skim.c": "libskim.so",
    "plugins/ncclTrace/llmbx_nccltrace/scan.c": "libscan.so",  # not scan.so: Python would import it in place of scan.py
}
"""The shared object of each source, beside it."""


class NativeHook(BuildHookInterface[BuilderConfig]):
    """Adds the shared objects to the wheel; without them, the wheel is pure Python, and its tag says so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile: into the source tree for an editable installation, else into the wheel."""
        self._folder = tempfile.TemporaryDirectory(prefix="llmbx-build-")
        for name, library in LIBRARIES.items():
            source = Path(self.root, name)
            if version == "editable":
                self._compile(source, source.with_name(library))
            elif self._compile(source, built := Path(self._folder.name, library)):
                package = name.split("/", 2)[2] if name.startswith("plugins/") else name.split("/", 1)[1]
                build_data["force_include"][str(built)] = str(Path(package).with_name(library))
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{_platform()}"

    def _compile(self, source: Path, target: Path) -> bool:
        target.unlink(missing_ok=True)  # no library of an older source remains, and none that is in use is changed
        compiler = _find_compiler()
        if compiler is None:
            problem = "no C compiler found (CC, cc, gcc, clang)"
        else:
            command = [*compiler, *FLAGS, str(source), "-o", str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return True
            problem = f"{shlex.join(command)} failed: {done.stderr.strip()}"
        self.app.display_warning(f"llmbx will read large logs more slowly, without {target.name}: {problem}")
        return False


def _find_compiler() -> list[str] | None:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        words = shlex.split(name or "")
        if words and shutil.which(words[0]):
            return words
    return None


def _platform() -> str:
    """The platform of this machine, without a promise about other distributions of Linux."""
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
