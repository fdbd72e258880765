"""The settings of the user's pip, read with the real pip."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llmbx_environments.venv.pip_tool import configured_options, pip_command

FILE = "[global]\nfind-links = /global\nindex-url = https://global.example/simple\n"


@pytest.mark.parametrize(
    ("more", "variables", "links"),
    [
        ("", {}, "/global"),
        ("[install]\nfind-links = /install\n", {}, "/install"),
        ("[install]\nfind-links = /install\n", {"PIP_FIND_LINKS": "/variable"}, "/variable"),
    ],
)
def test_variables_precede_the_commands_section_and_that_the_global_one(
    tmp_path: Path, more: str, variables: dict[str, str], links: str
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(FILE + more)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    options = configured_options(pip_command(sys.executable), {**kept, "PIP_CONFIG_FILE": str(file), **variables})
    assert (options["find-links"], options["index-url"]) == (links, "https://global.example/simple")
