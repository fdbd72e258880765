"""The framework's final configuration: read it from a run, build it without training, and use it as evidence."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ..catalog.configuration import compare_configurations, not_permitted
from ..errors import InfraError, LlmbxError, PluginError, UsageError
from ..files import write_atomic
from ..model import FINAL, ConfigurationProgram, ExpectedConfiguration, Image, ImageRequest, RunSpec, Value
from ..model.configuration import REFUSED
from ..phrases import listed
from ..plugins.manager import Plugins
from ..record.folder import Run
from ..run_files import RunFolder
from ..runtimes.base import Progress
from ..secrets import is_secret
from .context import runtime_settings

UNVERIFIED = "configuration not verified"
"""Begins the warning about a run whose final configuration is not known."""

NAMED = 3
"""Number of fields that are named if a configuration differs from upstream's."""


LARGEST = 1 << 53
"""Largest number that a fact may have; the file is the job's, and may contain anything."""

NO_IMAGE = Image(kind="none", reference="none", python="python3")
"""Image of a launch that is not started."""


class FinalConfiguration(Value, frozen=True):
    """A final configuration by flat key, and the versions of the packages that made it."""

    final: dict[str, Any]
    versions: dict[str, str] = {}


def read_final(folder: Path) -> FinalConfiguration | None:
    """Read the final configuration in a folder; None if there is none. Raises `LlmbxError` for a damaged file."""
    file = RunFolder(path=folder).file(FINAL)
    try:
        data = json.loads(file.read())
        if not isinstance(data["final"], dict):
            raise TypeError("'final' is not an object")
        return FinalConfiguration(final=data["final"], versions=dict(data.get("versions") or {}))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LlmbxError(f"{file}: not a final configuration: {type(error).__name__}: {error}") from None


def stated(run: Run, plugins: Plugins) -> dict[str, int]:
    """Return the facts that the final configuration of an ended run states, by name; empty if it is not known.

    A fact whose keys are missing, or are not whole numbers up to `LARGEST`, is left out.
    """
    try:
        expected = plugins.framework(run.record.spec.plugin).expect_configuration(run.record.spec, run.path)
        final = read_final(run.path) if expected and expected.facts else None
    except LlmbxError:
        return {}  # `configuration_doubts` reports it
    return _facts(final, expected) if expected is not None and final is not None else {}


def _facts(final: FinalConfiguration, expected: ExpectedConfiguration) -> dict[str, int]:
    values: dict[str, list[Any]] = {
        name: [final.final.get(key) for key in keys] for name, keys in expected.facts.items()
    }
    return {name: math.prod(factors) for name, factors in values.items() if factors and all(map(_counts, factors))}


def _counts(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _unstated(final: FinalConfiguration, expected: ExpectedConfiguration) -> str | None:
    """Return why a final configuration does not show which job ran, or None. A version may lack some fields."""
    keys = [key for names in expected.facts.values() for key in names]
    odd = [key for key in keys if final.final.get(key) is not None and not _counts(final.final[key])]
    if odd:
        return f"states no number in {listed(odd, NAMED)}"
    if expected.facts and not _facts(final, expected):
        return f"states nothing of {listed([*expected.facts], NAMED)}"
    return None


def build_final(spec: RunSpec, plugins: Plugins, install: Path, progress: Progress) -> FinalConfiguration:
    """Build the final configuration of a run on this machine's CPU, without training.

    Raises `UsageError` if the framework cannot do this, `InfraError` if the environment cannot be built or the program
    fails.
    """
    program = plugins.framework(spec.plugin).configuration_program(spec)
    if program is None:
        raise UsageError(
            f"plugin '{spec.plugin}' cannot build a configuration without training: use --run with a run's id"
        )
    image = _environment(program, spec, plugins, install, progress)
    with tempfile.TemporaryDirectory(prefix="llmbx-configuration-") as folder:
        for name, content in program.files.items():
            write_atomic(Path(folder, name), content, durable=False)
        _start(program, image, Path(folder))
        final = read_final(Path(folder))
    if final is None:
        raise PluginError(f"plugin '{spec.plugin}': its configuration program wrote no {FINAL}")
    both = {**final.final, **launch_values(spec, plugins)}
    return FinalConfiguration(final=dict(sorted(both.items())), versions=final.versions)


def launch_values(spec: RunSpec, plugins: Plugins) -> dict[str, Any]:
    """Return what the framework's launch sets, as flat keys beside the configuration's: nodes, ranks and environment.

    Secrets and llmbx's own variables are left out.
    """
    launch = plugins.framework(spec.plugin).build_command(spec, NO_IMAGE)
    environment = {name: value for phase in launch.phases for name, value in phase.env.items()}
    variables = {
        name: value for name, value in environment.items() if not name.startswith("LLMBX_") and not is_secret(name)
    }
    return {
        "launch.nodes": launch.nodes,
        "launch.ntasks_per_node": launch.ranks_per_node,
        **{f"launch.env.{name}": value for name, value in variables.items()},
    }


def _environment(
    program: ConfigurationProgram, spec: RunSpec, plugins: Plugins, install: Path, progress: Progress
) -> Image:
    """Prepare the program's environment. Raises `UsageError` if no installed runtime builds environments."""
    for runtime in plugins.runtimes().values():
        if runtime.builds_environments:
            settings = runtime_settings(spec, runtime, plugins)
            request = ImageRequest(environment=program.environment, plugin_settings=settings)
            return runtime.prepare(request, install, progress)
    raise UsageError("no runtime that builds environments is installed: enable one, or use --run with a run's id")


def _start(program: ConfigurationProgram, image: Image, folder: Path) -> None:
    """Run the program. Raises an error with the last line of its stderr: `UsageError` if the framework refuses the
    specification, else `InfraError`.
    """
    env = {**os.environ, **program.env}
    done = subprocess.run(
        [image.python, *program.argv], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no error message"]
        kind = UsageError if done.returncode == REFUSED else InfraError
        raise kind(f"the configuration cannot be built in {image.reference}: {lines[-1].strip()}")


class Doubts(Value, frozen=True):
    """What the final configuration of a completed run says against comparing it."""

    reasons: tuple[str, ...] = ()
    """Why the run is not comparable."""
    warnings: tuple[str, ...] = ()
    """Those of the reasons that are also warnings."""
    versions: dict[str, str] = {}
    """Versions that the framework itself found: on the host, nothing else knows them."""


def configuration_doubts(run: Run, plugins: Plugins) -> Doubts:
    """Return what the final configuration of a completed run says.

    The run is not comparable if its framework writes its final configuration and this one did not, or if the
    configuration differs from upstream's in a field in which it may not. Profilers change the configuration, so that of
    a run with one is not compared.
    """
    spec = run.record.spec
    try:
        expected = plugins.framework(spec.plugin).expect_configuration(spec, run.path)
        final = read_final(run.path) if expected else None
    except LlmbxError as error:
        return _unverified(f": {error}")
    if expected is None:
        return Doubts()
    if final is None:
        return _unverified(f": the run wrote no {FINAL}")
    why = _unstated(final, expected)
    doubts = _unverified(f": {FINAL} {why}") if why else Doubts()
    differing = () if spec.profile or spec.trace else _differing(final, expected)
    return doubts.replace(reasons=(*doubts.reasons, *differing), versions=final.versions)


def _unverified(why: str) -> Doubts:
    warning = f"{UNVERIFIED}{why}"
    return Doubts(reasons=(warning,), warnings=(warning,))


def _differing(final: FinalConfiguration, expected: ExpectedConfiguration) -> tuple[str, ...]:
    """The line about fields that differ from upstream's and may not; empty if there is none."""
    keys = [difference.key for difference in not_permitted(compare_configurations(final.final, expected))]
    return (f"the configuration differs from upstream's in {listed(keys, NAMED)}",) if keys else ()
