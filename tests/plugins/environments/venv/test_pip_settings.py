"""The settings of the user's pip, compared with what the real pip lists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx_environments.venv.pip_settings import configured_options
from llmbx_environments.venv.wheelhouse import pip_command

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
    env = {**kept, "PIP_CONFIG_FILE": str(file), **variables}
    options = configured_options(env)
    argv = [*pip_command(sys.executable), "config", "list"]
    listed = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    assert all(f".{name}='{value}'" in listed for name, value in options.items()), listed
    assert (options["find-links"], options["index-url"]) == (links, "https://global.example/simple")
