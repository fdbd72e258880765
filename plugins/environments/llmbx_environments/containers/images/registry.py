"""Look up the digest and download size of an image in a registry, without downloading it.

The protocol is that of the OCI distribution specification: `GET /v2/<name>/manifests/<reference>`, with a bearer token
from the service that a 401 response names.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any

from llmbx.api import InfraError, UsageError, Value

from ..naming import Reference
from ..settings import ContainerSettings
from .credentials import Login, login_for
from .transient import TransientError

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_LARGEST_MANIFEST = 1 << 24


class RemoteImage(Value, frozen=True):
    """An image in a registry.

    `digest` is the current digest of the tag (of an index, if there are several platforms), `config` the digest of this
    platform's configuration (Docker's image id), `layer_bytes` the size of its compressed layers; None if unknown.
    """

    digest: str
    config: str | None = None
    layer_bytes: int | None = None


def look_up(reference: Reference, settings: ContainerSettings) -> RemoteImage:
    """Look up `reference` in its registry.

    Raises `UsageError` if the image does not exist, `TransientError` for failures worth a retry, and `InfraError` for
    others, such as a missing login.
    """
    session = _Session(reference, settings)
    body, digest = session.manifest(reference.digest or reference.tag)
    if reference.digest and digest != reference.digest:
        raise InfraError(
            f"{reference.registry} returned the wrong image for {reference.docker}: got {digest}"
        )
    document = _json(body)
    if "manifests" in document:
        chosen = _this_platform(document["manifests"])
        document = _json(session.manifest(chosen)[0]) if chosen else {}
    layers = [layer.get("size") for layer in document.get("layers", ())]
    total = sum(layers) if layers and all(isinstance(count, int) for count in layers) else None
    return RemoteImage(
        digest=digest, config=document.get("config", {}).get("digest"), layer_bytes=total
    )


def look_up_pinned(
    reference: Reference, pinned: str | None, settings: ContainerSettings
) -> RemoteImage:
    """Look up the image with the digest `pinned`, also if the tag has another one by now.

    If the registry does not have it any more, or nothing is pinned, the tag is looked up. Raises as `look_up` does.
    """
    if pinned and reference.digest is None:
        try:
            return look_up(reference.replace(digest=pinned), settings)
        except UsageError:  # 404: the caller compares the tag's digest with the pinned one
            pass
    return look_up(reference, settings)


class _Session:
    """Requests to one repository of one registry; keeps the authorization."""

    def __init__(self, reference: Reference, settings: ContainerSettings) -> None:
        self.reference, self.settings = reference, settings
        host = "registry-1.docker.io" if reference.registry == "docker.io" else reference.registry
        scheme = "http" if settings.plain_http(reference.registry) else "https"
        self.base = f"{scheme}://{host}/v2/{reference.repository}/manifests/"
        self.authorization: str | None = None

    def manifest(self, which: str) -> tuple[bytes, str]:
        """The manifest of a tag or digest, and its digest, computed from the content."""
        url = self.base + which
        try:
            body = self._get(url)
        except urllib.error.HTTPError as error:
            if error.code != 401 or self.authorization:
                raise self._explain(error) from None
            self._log_in(error.headers.get("WWW-Authenticate") or "")
            try:
                body = self._get(url)
            except urllib.error.HTTPError as again:
                raise self._explain(again) from None
        return body, f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _get(self, url: str, authorization: str | None = None) -> bytes:
        request = urllib.request.Request(
            url, headers={"Accept": ", ".join((*_INDEXES, *_MANIFESTS))}
        )
        if authorization or self.authorization:
            request.add_unredirected_header(
                "Authorization", authorization or self.authorization or ""
            )
        try:
            with urllib.request.urlopen(
                request, timeout=self.settings.registry_timeout_s
            ) as response:
                body: bytes = response.read(_LARGEST_MANIFEST)
                return body
        except urllib.error.HTTPError:
            raise
        except (OSError, HTTPException) as error:
            raise self._unreachable(getattr(error, "reason", error)) from None

    def _unreachable(self, reason: object) -> InfraError:
        """The error for a registry that gave no answer: nothing is known about the image."""
        registry = self.reference.registry
        if isinstance(reason, ssl.SSLCertVerificationError):
            return InfraError(
                f"the certificate of the registry {registry} is not trusted: {reason.verify_message}; "
                f"set SSL_CERT_FILE to your site's certificates"
            )
        text = str(reason)
        if isinstance(reason, socket.gaierror):
            text = f"its name cannot be resolved ({reason.strerror})"
        elif isinstance(reason, TimeoutError):
            text = f"no answer within {self.settings.registry_timeout_s:g} s"
        elif isinstance(reason, OSError) and reason.strerror:
            text = reason.strerror
        return TransientError(
            f"the registry {registry} cannot be reached: {text}; whether it has {self.reference.docker} is not known: "
            f"check the network and HTTPS_PROXY"
        )

    def _log_in(self, challenge: str) -> None:
        """Handle a 401 response: use the login directly, or get a token from the service in the challenge."""
        login = login_for(self.reference.registry)
        basic = _basic(login) if login else None
        fields = dict(re.findall(r'\b(\w+)="([^"]*)"', challenge))
        if challenge.lower().startswith("bearer") and "realm" in fields:
            query = {key: fields[key] for key in ("service", "scope") if key in fields}
            try:
                body = _json(self._get(f"{fields['realm']}?{urllib.parse.urlencode(query)}", basic))
            except urllib.error.HTTPError as error:
                raise self._explain(error) from None
            token = body.get("token") or body.get("access_token")
            self.authorization = f"Bearer {token}"
        else:
            self.authorization = basic

    def _explain(self, error: urllib.error.HTTPError) -> Exception:
        name, registry = self.reference.docker, self.reference.registry
        if error.code in (401, 403):
            return InfraError(
                f"the registry {registry} denied access to {name} ({error.code}): log in with `docker login "
                f"{registry}`, or add its credentials to enroot's .credentials file; some registries answer this also "
                f"for an image that does not exist"
            )
        if error.code == 404:
            return UsageError(
                f"the registry {registry} has no image {name} (404): check the name and tag"
            )
        if error.code == 429 or error.code >= 500:
            after = error.headers.get("Retry-After") or ""
            text = (
                "too many requests (429)" if error.code == 429 else f"{error.reason} ({error.code})"
            )
            return TransientError(
                f"the registry {registry} returned: {text}",
                float(after) if after.isdigit() else None,
            )
        return InfraError(
            f"the registry {registry} returned {error.code} {error.reason} for {name}"
        )


def _basic(login: Login) -> str:
    import base64

    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InfraError("the registry did not return a valid manifest")
    return value


def _this_platform(manifests: list[dict[str, Any]]) -> str | None:
    wanted = _MACHINES.get(platform.machine(), platform.machine())
    for entry in manifests:
        where = entry.get("platform", {})
        if where.get("os") == "linux" and where.get("architecture") == wanted:
            return str(entry["digest"])
    return None
