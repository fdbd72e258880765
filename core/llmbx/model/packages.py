"""Names and versions of Python packages, from requirements and from names of files."""

from __future__ import annotations

import re
from typing import NamedTuple

SUFFIX = re.compile(r"\.(?:whl|tar\.gz|zip)$")
"""The end of the name of a wheel or source archive."""


class Pin(NamedTuple):
    """A Python package by its normalized name and its version."""

    name: str
    """The normalized name (`normal_name`)."""
    version: str
    """The version, as the requirement or the file has it."""

    @staticmethod
    def normal_name(name: str) -> str:
        """Normalized name of a package (PEP 503): lower case, with each run of `-_.` replaced by one dash."""
        return re.sub(r"[-_.]+", "-", name.strip()).lower()

    @classmethod
    def of(cls, requirement: str) -> Pin:
        """The package of an exact requirement such as `torch==2.13.0`."""
        name, version = requirement.split("==", 1)
        return cls(cls.normal_name(name.split("[")[0]), version)

    @classmethod
    def in_file(cls, name: str) -> Pin:
        """The package in a wheel or source archive, from the name of the file (PyPA's formats)."""
        bare = SUFFIX.sub("", name)
        package, _, version = bare.partition("-") if name.endswith(".whl") else bare.rpartition("-")
        return cls(cls.normal_name(package), version.partition("-")[0])
