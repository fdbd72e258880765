"""Look up the digest and download size of an image in a registry, without downloading it.

The protocol is that of the OCI distribution specification: `GET /v2/<name>/manifests/<reference>`,
with a bearer token from the service that a 401 response names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from llmbx.api import InfraError, UsageError, Value

from ..naming import ARCHITECTURES, Reference
from ..settings import ContainerSettings
from .credentials import login_for
from .transient import TransientError

_ACCEPTED = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_LARGEST_MANIFEST = 1 << 24

_UNPACKED = 2.5
"""Ratio of unpacked to compressed layers (measured: 2.8 for Python and its standard library)."""


class RemoteImage(Value, frozen=True):
    """An image in a registry.

    `digest` is the current digest of the tag (of an index, if there are several platforms),
    `config` the digest of this platform's configuration (Docker's image id), `layer_bytes` the size
    of its compressed layers; None if unknown.
    """

    digest: str
    config: str | None = None
    layer_bytes: int | None = None

    def disk_bytes(self, packed_again: bool) -> int:
        """Peak disk usage of an import; 0 if unknown.

        A tool that packs the image again (squashfs, SIF) stores the layers, the unpacked tree and
        the new file at once.
        """
        copies = 1 + _UNPACKED + (1 if packed_again else 0)
        return int((self.layer_bytes or 0) * copies)


def look_up(reference: Reference, settings: ContainerSettings) -> RemoteImage:
    """Look up `reference` in its registry.

    Raises `UsageError` if the image does not exist, `TransientError` for failures worth a retry,
    and `InfraError` for others, such as a missing login.
    """
    session = _Session(reference, settings)
    body, digest = session.manifest(reference.digest or reference.tag)
    if reference.digest and digest != reference.digest:
        raise InfraError(
            f"{reference.registry} returned the wrong image for {reference.docker}: got {digest}"
        )
    manifest = _json(body)
    if "manifests" in manifest:
        chosen = _of_machine(manifest["manifests"], reference.machine or platform.machine())
        manifest = _json(session.manifest(chosen)[0]) if chosen else {}
    config = manifest.get("config", {}).get("digest")
    return RemoteImage(digest=digest, config=config, layer_bytes=_layer_bytes(manifest))


def look_up_pinned(
    reference: Reference, pinned: str | None, settings: ContainerSettings
) -> RemoteImage:
    """Look up the image with the digest `pinned`, also if the tag has another one by now.

    If the registry does not have it any more, or nothing is pinned, the tag is looked up.
    """
    if pinned and reference.digest is None:
        with suppress(UsageError):  # 404: the caller compares the tag's digest with the pinned one
            return look_up(reference.replace(digest=pinned), settings)
    return look_up(reference, settings)


class _Session:
    """Requests to one repository of one registry; keeps the authorization."""

    def __init__(self, reference: Reference, settings: ContainerSettings) -> None:
        self.name, self.registry = reference.docker, reference.registry
        self.timeout_s = settings.registry_timeout_s
        host = "registry-1.docker.io" if self.registry == "docker.io" else self.registry
        scheme = "http" if settings.plain_http(self.registry) else "https"
        self.base = f"{scheme}://{host}/v2/{reference.repository}/manifests/"
        self.authorization = ""

    def manifest(self, version: str) -> tuple[bytes, str]:
        """The manifest of a tag or digest, and its digest, computed from the content."""
        try:
            body = self._get(self.base + version, self.authorization)
        except urllib.error.HTTPError as error:
            if error.code != 401 or self.authorization:
                raise self._refusal(error) from None
            self._log_in(error.headers.get("WWW-Authenticate") or "")
            body = self._get_or_refuse(self.base + version, self.authorization)
        return body, f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _get_or_refuse(self, url: str, authorization: str) -> bytes:
        try:
            return self._get(url, authorization)
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None

    def _get(self, url: str, authorization: str) -> bytes:
        request = urllib.request.Request(url, headers={"Accept": _ACCEPTED})
        if authorization:
            request.add_unredirected_header("Authorization", authorization)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                body: bytes = response.read(_LARGEST_MANIFEST)
                return body
        except urllib.error.HTTPError:
            raise
        except (OSError, HTTPException) as error:
            raise self._unreachable(getattr(error, "reason", error)) from None

    def _log_in(self, challenge: str) -> None:
        """Use the login directly, or get a token from the service in the challenge."""
        login = login_for(self.registry)
        basic = ""
        if login:
            pair = f"{login.user}:{login.password}".encode()
            basic = f"Basic {base64.b64encode(pair).decode()}"
        fields = dict(re.findall(r'\b(\w+)="([^"]*)"', challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in fields:
            self.authorization = basic
            return
        query = {key: fields[key] for key in ("service", "scope") if key in fields}
        url = f"{fields['realm']}?{urllib.parse.urlencode(query)}"
        answer = _json(self._get_or_refuse(url, basic))
        self.authorization = f"Bearer {answer.get('token') or answer.get('access_token')}"

    def _unreachable(self, reason: object) -> InfraError:
        """The error for a registry that gave no answer, so that nothing is known of the image."""
        if isinstance(reason, ssl.SSLCertVerificationError):
            return InfraError(
                f"the certificate of the registry {self.registry} is not trusted: "
                f"{reason.verify_message}; set SSL_CERT_FILE to your site's certificates"
            )
        text = str(reason)
        if isinstance(reason, socket.gaierror):
            text = f"its name cannot be resolved ({reason.strerror})"
        elif isinstance(reason, TimeoutError):
            text = f"no answer within {self.timeout_s:g} s"
        elif isinstance(reason, OSError) and reason.strerror:
            text = reason.strerror
        return TransientError(
            f"the registry {self.registry} cannot be reached: {text}; whether it has {self.name} "
            f"is not known: check the network and HTTPS_PROXY"
        )

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        """The error for an answer of the registry that is not 200."""
        registry, code = f"the registry {self.registry}", error.code
        if code in (401, 403):
            return InfraError(
                f"{registry} denied access to {self.name} ({code}): log in with `docker login "
                f"{self.registry}`, or add its credentials to enroot's .credentials file; some "
                f"registries answer this also for an image that does not exist"
            )
        if code == 404:
            return UsageError(f"{registry} has no image {self.name} (404): check the name and tag")
        if code == 429 or code >= 500:
            text = "too many requests (429)" if code == 429 else f"{error.reason} ({code})"
            after = error.headers.get("Retry-After") or ""
            after_s = float(after) if after.isdigit() else None
            return TransientError(f"{registry} returned: {text}", after_s)
        return InfraError(f"{registry} returned {code} {error.reason} for {self.name}")


def _json(body: bytes) -> dict[str, Any]:
    value = None
    with suppress(ValueError):
        value = json.loads(body)
    if not isinstance(value, dict):
        raise InfraError("the registry did not return a valid manifest")
    return value


def _layer_bytes(manifest: dict[str, Any]) -> int | None:
    """The size of the compressed layers; None if the manifest does not say."""
    sizes = [layer.get("size") for layer in manifest.get("layers", ())]
    return sum(sizes) if sizes and all(isinstance(size, int) for size in sizes) else None


def _of_machine(manifests: list[dict[str, Any]], machine: str) -> str | None:
    """The digest of the manifest for a processor."""
    architecture = ARCHITECTURES.get(machine, machine)
    for entry in manifests:
        target = entry.get("platform", {})
        if target.get("os") == "linux" and target.get("architecture") == architecture:
            return str(entry["digest"])
    return None
