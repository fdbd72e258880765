"""The files that every launch of NeMo brings."""

from __future__ import annotations

from collections.abc import Mapping

from llmbx.model import Image
from llmbx.testing import resolve_spec
from llmbx_nemo.launch import launch

from ..texts import files

VENV = Image(kind="venv", reference="megatron-bridge-cpu-py311", python="/llmb/venvs/x/bin/python", digest="abc")


def payload() -> Mapping[str, str]:
    """The golden file that lists them, and its text."""
    return {"nemo-files.txt": files(launch(resolve_spec("grok1", install=None), VENV))}
