"""Names and versions of Python packages, from requirements and from names of files."""

from __future__ import annotations

import re

SUFFIX = re.compile(r"\.(?:whl|tar\.gz|zip)$")
"""The end of the name of a wheel or source archive."""


def normal_name(name: str) -> str:
    """Normalized name of a package (PEP 503): lower case, with each run of `-_.` replaced by one dash."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def split_pin(requirement: str) -> tuple[str, str]:
    """Normalized name and version of an exact requirement such as `torch==2.13.0`."""
    name, version = requirement.split("==", 1)
    return normal_name(name.split("[")[0]), version


def split_file(name: str) -> tuple[str, str]:
    """Normalized name and version of a package, from the name of its wheel or source archive (PyPA's formats)."""
    bare = SUFFIX.sub("", name)
    package, _, version = bare.partition("-") if name.endswith(".whl") else bare.rpartition("-")
    return normal_name(package), version.partition("-")[0]
