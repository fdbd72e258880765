"""Explain failures of uv and pip in one line, without the addresses of package sources."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from .pip_settings import SOURCES

_REASONS = re.compile(
    r"Connection refused|Name or service not known|Temporary failure in name resolution"
    r"|Network is unreachable|No route to host|timed out|Connection reset"
    r"|certificate verify failed|invalid peer certificate"
    r"|[45]\d\d (?:Client|Server) Error|HTTP status \w+ error \([^)]{0,200}\)",
    re.IGNORECASE,
)
_DENIED = re.compile(r"401 Unauthorized|403 Forbidden")
"""uv goes on without an index that denies access, and says so in a hint."""

_NO_NETWORK = re.compile(
    r"Retrying \(Retry|ProxyError|SSLError|ConnectionError|HTTP error"  # pip
    r"|dns error|Could not connect|error sending request|Failed to fetch"  # uv
    r"|network was disabled|Network connectivity is disabled",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"No matching distribution found for (\S+)"  # pip
    r"|(?:was not found in|there is no version of) \S[^,]{0,200} and you require ([^\s,]{1,200})"
)
_FETCHED = re.compile(r"Failed to fetch: `?\S{0,2000}?([^/\s`]{1,200})/?`?(?:\s|$)")
_CREDENTIALS = re.compile(r"\b(\w+://)[^/\s`]*@")
_MARKS = re.compile(r"^[\s×╰─▶├│]*(?:error:|cause:|Caused by:|hint:)?\s*")


def explain(
    tool: str,
    lines: Iterable[str],
    configured: Collection[str],
    wheels: Path,
    offline: bool = False,
) -> str:
    """Why `tool` (uv or pip) failed: the package, the package sources, and what to do.

    `lines` are the tool's output, and `configured` the options in pip's settings.
    """
    text = "\n".join(lines)
    if re.search("No space left on device|Errno 28", text):
        advice = "free some space and retry; the build resumes"
        return f"the disk is full (No space left on device): {advice}"
    package, problem = _package(text), source_problem(text)
    if not package and not problem:
        return f"{tool} failed: {_error(text)}"
    package = package or "a package"
    if offline:
        place = f"{wheels} or another local find-links folder"
        return f"{package} is not in {place}, and --offline disables the network"
    searched = f"searched: {_searched(configured)}, according to pip's configuration"
    if problem:
        advice = f"check the network and retry, or put the wheels into {wheels} and use --offline"
        return f"{package} could not be downloaded: {problem} ({searched}); {advice}"
    advice = f"put its wheel into {wheels}, or set PIP_INDEX_URL to an index that has it"
    return f"{package} was not found ({searched}); {advice}"


def network_problem(text: str) -> str | None:
    """Why the network failed, in the words of a tool's output; None if it does not say."""
    reason = _REASONS.search(text) or _NO_NETWORK.search(text)
    return reason[0] if reason else None


def source_problem(text: str) -> str | None:
    """Why a package source could not be used: the network failed, or it denied access."""
    denied = _DENIED.search(text)
    return network_problem(text) or (denied[0] if denied else None)


def one_line(text: str) -> str:
    """The error of uv as one line, without hints and credentials; empty if there is none."""
    plain = _CREDENTIALS.sub(r"\1", text).partition("\nhint:")[0]
    lines = [_MARKS.sub("", line).strip() for line in plain.splitlines()]
    dropped = ("warning:", "No solution found")
    return " ".join(line for line in lines if line and not line.startswith(dropped))


def _package(text: str) -> str | None:
    """The package that is missing, or whose page or file could not be fetched."""
    if missing := _MISSING.search(" ".join(text.split())):  # uv wraps lines
        return missing[1] or missing[2]
    fetched = _FETCHED.search(text)
    return fetched[1] if fetched else None


def _searched(configured: Collection[str]) -> str:
    names = [name for name in SOURCES if name in configured and name != "no-index"]
    if "index-url" not in names and "no-index" not in configured:
        names.insert(0, "the default index")
    return ", ".join(names) or "no package source"


def _error(text: str) -> str:
    """The last error of pip, or the error of uv, which is the end of its output."""
    if errors := re.findall(r"^ERROR: (.+)$", text, re.MULTILINE):
        return str(errors[-1])
    start = re.search(r"^(?:error:|\s{0,100}×)", text, re.MULTILINE)
    return one_line(text[start.start() :]) if start else "no error output"
