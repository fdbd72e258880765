"""Check access to gated repositories of the model hub before a run starts, once instead of in every rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import InfraError, UsageError

ENDPOINT = "https://huggingface.co"
PROBE = "config.json"
TIMEOUT_S = 20


def require_access(repositories: Iterable[str], environ: Mapping[str, str]) -> None:
    """Check that each repository can be read with `HF_TOKEN`. `HF_ENDPOINT` is respected.

    Raises `UsageError` with the page on which access is requested, `InfraError` if the hub cannot be reached.
    Does nothing with HF_HUB_OFFLINE=1, where the ranks read their cache.
    """
    if environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        return
    for repository in repositories:
        _require(repository, environ)


def _require(repository: str, environ: Mapping[str, str]) -> None:
    import urllib.error
    import urllib.request

    base = environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    page = f"{ENDPOINT}/{repository}"
    request = urllib.request.Request(f"{base}/{repository}/resolve/main/{PROBE}", method="HEAD")
    if environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {environ['HF_TOKEN']}")
    try:
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            what = "HF_TOKEN has no access to it yet" if environ.get("HF_TOKEN") else "HF_TOKEN is not set"
            raise UsageError(f"{repository} is gated and {what}: request access on {page}") from None
        if error.code == 404:
            raise UsageError(f"the hub has no repository {repository} ({page})") from None
        raise InfraError(f"the hub returned HTTP {error.code} for {repository}; try again later") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise InfraError(
            f"the hub cannot be reached for {repository}: {reason}; HF_HUB_OFFLINE=1 uses the cache"
        ) from None


def cache_variables(install: Path, environ: Mapping[str, str], offline: bool) -> dict[str, str]:
    """Return the variables with which the ranks find the hub's cache; if `offline`, also HF_HUB_OFFLINE=1.

    The cache is the user's (HF_HOME); if `offline` and HF_HOME is not set, the install's, which bundles put tokenizers
    into.
    """
    own = install / ".cache/huggingface"
    home = environ.get("HF_HOME") or (str(own) if offline else "")
    variables = {"HF_HOME": home} if home and Path(home).is_dir() else {}
    return {**variables, "HF_HUB_OFFLINE": "1"} if offline else variables
