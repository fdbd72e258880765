"""The wheels of a built environment: just its versions, from where each is to be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from llmbx.catalog.environments import load_environment
from llmbx.errors import InfraError
from llmbx_environments.venv.wheelhouse import gather

from .toy import Index, make_wheel, pip_settings, prepare

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_an_extra_index_is_asked_for_its_own_package_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that cannot be reached would be tried again and again for every other package."""
    usual, extra, install = tmp_path / "usual", tmp_path / "extra", tmp_path / "install"
    make_wheel(usual, "alpha")
    make_wheel(usual, "alpha", "2.0")
    make_wheel(extra, "beta", "1.0+fast")
    index, lock = Index(extra), tmp_path / "lock.toml"
    variants = f'[variants]\n"beta==1.0" = [["beta==1.0+fast", ""], ["beta==1.0+fast", "{index.url}"]]\n'
    steps = json.dumps([["alpha==1.0", "beta==1.0"]])
    lock.write_text(f'name = "toy"\npythons = ["{MINOR}"]\nsteps = {steps}\n{variants}')
    # No index of the user's own: what there is lies in a folder, beside the extra index.
    (tmp_path / "none").mkdir()
    nothing = Index(tmp_path / "none")
    env = pip_settings(tmp_path, PIP_INDEX_URL=nothing.url, PIP_FIND_LINKS=str(usual))
    code, _, err = prepare(lock, install, env)
    assert code == 0, err
    for name in [name for name in ("PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL") if name not in env]:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    index.asked.clear()
    environment = load_environment(lock)
    found = gather(environment, install, tmp_path / "wheels", lambda line: None)
    assert [path.name for path in found] == ["alpha-1.0-py3-none-any.whl", "beta-1.0+fast-py3-none-any.whl"]
    assert index.asked and not any("alpha" in path for path in index.asked)

    (usual / "alpha-1.0-py3-none-any.whl").unlink()
    with pytest.raises(InfraError, match=r"alpha==1\.0 was not found"):
        gather(environment, install, tmp_path / "again", lambda line: None)
    with pytest.raises(InfraError, match="environment toy is not built in"):
        gather(environment, tmp_path / "elsewhere", tmp_path / "never", lambda line: None)
    index.shutdown()
    nothing.shutdown()
