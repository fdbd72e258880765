"""An environment on a base: a few packages of its own in front of another environment's packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.environments import load_environment
from llmbx.model import Environment, Image, ImageRequest
from llmbx_environments.lock_file import lock_digest
from llmbx_environments.venv.runtime import VenvRuntime

from .test_venv import env, run_in, wheels, write_lock
from .toy import make_wheel

__all__ = ["env", "wheels"]


@pytest.fixture
def base(tmp_path: Path, wheels: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The base with alpha 1.0 and beta 1.0; alpha 2.0 can be had, too."""
    make_wheel(wheels, "alpha", "2.0")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return load_environment(write_lock(tmp_path, [["alpha==1.0", "beta==1.0"]]))


def test_own_packages_replace_those_of_the_base(tmp_path: Path, base: Environment) -> None:
    newer = base.replace(name="newer", steps=(("alpha==2.0",),), base=base, check="import alpha, beta")
    assert len({lock_digest(newer), lock_digest(newer.replace(base=None)), lock_digest(base)}) == 3

    def prepare(environment: Environment) -> Image:
        return VenvRuntime().prepare(ImageRequest(environment=environment), tmp_path / "install", print)

    def seen(image: Image) -> str:
        return run_in(image.python, "import alpha, beta; print(alpha.version, beta.version)")

    first = prepare(newer)
    assert seen(first) == "2.0 1.0"
    assert first.versions.items() >= {"alpha": "2.0"}.items()
    assert not list(Path(first.path or "").glob("lib/*/site-packages/beta*")), "the base's packages are not copied"
    assert seen(prepare(base)) == "1.0 1.0"
