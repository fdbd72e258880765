"""Options shared by the verbs that take a workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command as run
from llmbx.errors import UsageError


@pytest.mark.parametrize(("key", "near"), [("launcher", "slrum"), ("runtime", "dokcer")])
def test_a_launcher_or_runtime_that_is_not_there_is_refused_before_a_preview(
    key: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "llmbx.toml"
    file.write_text(f'default_cluster = "c"\n[clusters.c]\n{key} = "{near}"\n')
    monkeypatch.setenv("LLMBX_CONFIG", str(file))
    right = {"slrum": "slurm", "dokcer": "docker"}[near]
    with pytest.raises(UsageError, match=rf"cluster 'c' in .*: no {key} named '{near}' \(did you mean '{right}'\?\)"):
        CliRunner().invoke(run, ["line", "--dry-run"], catch_exceptions=False)
    said = rf"--{key}: no {key} named 'nope'"
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(run, ["line", f"--{key}", "nope", "--dry-run"], catch_exceptions=False)


def test_the_path_of_an_output_file_is_not_empty() -> None:
    with pytest.raises(UsageError, match="--emit-script '': expected a path"):
        CliRunner().invoke(run, ["line", "--emit-script", ""], catch_exceptions=False)
