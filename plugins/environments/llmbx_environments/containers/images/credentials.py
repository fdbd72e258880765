"""Read registry credentials from the configuration of Docker and enroot. They are never passed in argv."""

from __future__ import annotations

import netrc
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from llmbx.api import Value

_ALIASES = {"nvcr.io": ("authn.nvidia.com",), "docker.io": ("auth.docker.io", "index.docker.io")}
"""Other host names of a registry in enroot's credentials file: those of its token service."""


class Login(Value, frozen=True):
    """A user name and a password (or token)."""

    user: str
    password: str


def login_for(registry: str, environ: Mapping[str, str] | None = None) -> Login | None:
    """The login for `registry` from `docker login`, else from enroot's credentials file; None for anonymous access."""
    variables = os.environ if environ is None else environ
    return _docker_login(registry) or _enroot_login(registry, variables)


def _docker_login(registry: str) -> Login | None:
    """The login in Docker's configuration, including its credential helpers."""
    import docker.auth
    import docker.errors

    found: dict[str, Any] | None = None
    with suppress(docker.errors.DockerException, OSError, ValueError):
        host = None if registry == "docker.io" else registry
        found = docker.auth.load_config().resolve_authconfig(host)
    user, password = (
        (found or {}).get(key) or (found or {}).get(key.title()) for key in ("username", "password")
    )
    return Login(user=user, password=password) if user and password else None


def _enroot_login(registry: str, variables: Mapping[str, str]) -> Login | None:
    config = variables.get("ENROOT_CONFIG_PATH")
    base = (
        Path(config)
        if config
        else Path(variables.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "enroot"
    )
    with suppress(OSError, netrc.NetrcParseError):
        hosts = netrc.netrc(str(base / ".credentials")).hosts
        for host in (registry, *_ALIASES.get(registry, ())):
            if host in hosts:
                user, _, password = hosts[host]
                return Login(user=user, password=os.path.expandvars(password or ""))
    return None
