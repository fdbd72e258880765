"""The files that every launch of MaxText brings."""

from __future__ import annotations

from collections.abc import Mapping

from llmbx.model import Image
from llmbx.testing import resolve_spec
from llmbx_maxtext.launch import launch

from ..texts import files

VENV = Image(kind="venv", reference="maxtext-cpu-py312", python="/llmb/venvs/maxtext-cpu/bin/python", digest="def")


def payload() -> Mapping[str, str]:
    """The golden file that lists them, and its text."""
    return {
        "maxtext-files.txt": files(launch(resolve_spec("llama2", plugin="maxtext", install="/llmb", size="mini"), VENV))
    }
