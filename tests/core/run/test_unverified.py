"""A run whose packages cannot be verified says so; one that verifies them, or installs none, does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx.model import Environment, ImageRequest, RunSpec
from llmbx.run.context import admit, findings

PLAIN = Environment(name="plain", pythons=("3.11",), steps=(("alpha==1.0",),))
WHOLE = PLAIN.replace(name="whole", files={"alpha-1.0-py3-none-any.whl": f"sha256:{'a' * 64}"})


class Asks:
    """A framework that needs this environment."""

    plugins = None  # a run without a profile asks none

    def __init__(self, environment: Environment | None) -> None:
        self.environment = environment

    def check_spec(self, spec: RunSpec) -> list[object]:
        return []

    def check_profilers(self, spec: RunSpec) -> list[object]:
        return []

    def prepare_image(self, spec: RunSpec) -> ImageRequest:
        if self.environment is None:
            raise UsageError("no environment for these GPUs")
        return ImageRequest(environment=self.environment)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (PLAIN, "plain"),
        (WHOLE, None),
        (PLAIN.replace(steps=()), None),
        (WHOLE.replace(name="overlay", base=PLAIN), "plain"),
        (None, None),
    ],
)
def test_packages_without_digests_are_a_note_and_no_obstacle(
    make_spec: Callable[..., RunSpec], environment: Environment | None, named: str | None
) -> None:
    spec = make_spec()
    found = [finding for finding in findings(spec, Asks(environment)) if finding.rule == "digests"]  # type: ignore[arg-type]
    assert [finding.problem.split()[5] for finding in found] == ([named] if named else [])
    assert admit(spec, found, force=False) == spec
