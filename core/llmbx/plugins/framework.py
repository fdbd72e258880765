"""The hooks of one framework."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PluginError
from ..model import (
    ConfigurationProgram,
    ExpectedConfiguration,
    Finding,
    Image,
    ImageRequest,
    Launch,
    RunSpec,
)
from ..model.flops import Flops
from .descriptions import with_article

if TYPE_CHECKING:
    from .log_parser import CheckedParser
    from .manager import Plugins


class Framework:
    """The hooks of one framework plugin; its name is in every error."""

    def __init__(self, plugins: Plugins, name: str) -> None:
        self.name = name
        self.plugins = plugins

    def check_spec(self, spec: RunSpec) -> list[Finding]:
        """Return the framework's own findings (see `hookspecs.check_spec`)."""
        return [f for answer in self.plugins.ask(self.name, "check_spec", spec=spec) or [] for f in answer]

    def check_profilers(self, spec: RunSpec) -> list[Finding]:
        """Return the findings of the run's profilers. Raises `UsageError` for an unknown profiler."""
        findings = []
        for name in spec.profilers:
            self.plugins.profiler(name)
            findings += [f for answer in self.plugins.ask(name, "check_spec", spec=spec) or [] for f in answer]
            if obstacle := self.plugins.obstacle(name, spec):
                findings.append(Finding(rule="profiler", problem=obstacle.problem, fix=obstacle.fix))
        return findings

    def prepare_image(self, spec: RunSpec) -> ImageRequest:
        """Return the image or environment that the run needs (see `hookspecs.prepare_image`)."""
        request: ImageRequest = self._call("prepare_image", ImageRequest, spec=spec)
        if request.environment is not None and request.environment.base is not None:
            raise PluginError(
                f"plugin '{self.name}': prepare_image: an environment with a base cannot be used for runs"
            )
        return request

    def build_command(self, spec: RunSpec, image: Image) -> Launch:
        """Return the launch (see `hookspecs.build_command`)."""
        launch: Launch = self._call("build_command", Launch, spec=spec, image=image)
        return launch

    def parse_log(self, spec: RunSpec | None) -> CheckedParser:
        """Return a new parser for the run's log (see `hookspecs.parse_log`)."""
        formats = [format_ for answer in self.plugins.ask(self.name, "parse_log", spec=spec) for format_ in answer]
        if not formats:
            raise PluginError(f"plugin '{self.name}': parse_log returned no LogFormat, expected at least one")
        return self.plugins.parser(formats[0], self.name)

    def compute_flops(self, spec: RunSpec) -> Flops | None:
        """Return the FLOPs of one sample, or None if the plugin has no formula (see `hookspecs.compute_flops`)."""
        answer: Flops | None = self.plugins.ask(self.name, "compute_flops", spec=spec)
        return answer

    def expect_configuration(self, spec: RunSpec, run_dir: Path | None = None) -> ExpectedConfiguration | None:
        """Return upstream's final configuration, or None (see `hookspecs.expect_configuration`)."""
        expected: ExpectedConfiguration | None = self.plugins.ask(
            self.name, "expect_configuration", spec=spec, run_dir=run_dir
        )
        return expected

    def configuration_program(self, spec: RunSpec) -> ConfigurationProgram | None:
        """Return the program that builds the final configuration (see `hookspecs.configuration_program`)."""
        program: ConfigurationProgram | None = self.plugins.ask(self.name, "configuration_program", spec=spec)
        return program

    def _call(self, hook: str, kind: type, **arguments: Any) -> Any:
        answer = self.plugins.ask(self.name, hook, **arguments)
        if answer is None:
            raise PluginError(f"plugin '{self.name}': {hook} returned nothing, expected {with_article(kind.__name__)}")
        return answer
