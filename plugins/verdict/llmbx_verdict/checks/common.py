"""Rules and answers that several checks share."""

from __future__ import annotations

from llmbx.api import NotPossible

MOST = 0.8
"""Least share of the steps that must have a value which the format always prints; other lines may be damaged."""

NO_SPEC = NotPossible(reason="the log is not that of a run of llmbx, so the requested configuration is unknown")
