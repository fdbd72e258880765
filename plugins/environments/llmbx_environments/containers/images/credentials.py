"""Read registry credentials from the configuration of Docker and enroot; they never enter argv."""

from __future__ import annotations

import netrc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from llmbx.api import Value

_ALIASES = {
    "nvcr.io": ("authn.nvidia.com",),
    "docker.io": ("auth.docker.io", "index.docker.io"),
}
"""Other host names of a registry in enroot's credentials: those of its token service."""


class Login(Value, frozen=True):
    """A user name and a password (or token)."""

    user: str
    password: str


def login_for(registry: str) -> Login | None:
    """The login of `docker login`, else that of enroot's credentials file; None without."""
    return _docker_login(registry) or _enroot_login(registry)


def _docker_login(registry: str) -> Login | None:
    """The login in Docker's configuration, including its credential helpers."""
    import docker.auth
    import docker.errors

    entry: dict[str, Any] = {}
    with suppress(docker.errors.DockerException, OSError, ValueError):
        host = None if registry == "docker.io" else registry
        entry = docker.auth.load_config().resolve_authconfig(host) or {}
    user = entry.get("username") or entry.get("Username")
    password = entry.get("password") or entry.get("Password")
    return Login(user=user, password=password) if user and password else None


def _enroot_login(registry: str) -> Login | None:
    with suppress(OSError, netrc.NetrcParseError):
        hosts = netrc.netrc(str(_enroot_folder() / ".credentials")).hosts
        for host in (registry, *_ALIASES.get(registry, ())):
            if host in hosts:
                user, _, password = hosts[host]
                return Login(user=user, password=os.path.expandvars(password or ""))
    return None


def _enroot_folder() -> Path:
    if folder := os.environ.get("ENROOT_CONFIG_PATH"):
        return Path(folder)
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "enroot"
