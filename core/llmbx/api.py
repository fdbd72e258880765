"""The public API of llmbx for plugins, besides `llmbx.entry` (for programs of a rank) and `llmbx.testing`.

Names are imported on first use, so that importing this module is fast. For a module in the list (`stats`, `script` …)
all functions without a leading underscore are public.

`VERSION` is the version of the API, (major, minor). A plugin states the version that it was made for as
`LLMBX_API = (1, 0)` in the module that its entry point names. The minor version is increased when something is added;
older plugins keep working. The major version is increased when something is removed or changes its meaning; a plugin
that was made for another major version is rejected with an error.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import __version__ as __version__
    from . import history as history
    from . import hookimpl as hookimpl
    from . import secrets as secrets
    from . import suggestions as suggestions
    from . import toml_file as toml_file
    from .catalog import configuration as configuration
    from .catalog import environments as environments
    from .catalog import hardware as hardware
    from .catalog import matching as matching
    from .catalog import references as references
    from .catalog import scales as scales
    from .catalog import workloads as workloads
    from .catalog.environments import needed as needed
    from .catalog.workloads import load_workload as load_workload
    from .catalog.workloads import load_workloads as load_workloads
    from .cli import flow as flow
    from .cli import numbers as numbers
    from .cli import options as options
    from .cli import output as output
    from .cli import plugin_options as plugin_options
    from .cli import terminal as terminal
    from .cli import words as words
    from .cli.explicit_options import explicit_options as explicit_options
    from .cli.options import World as World
    from .cli.options import run_options as run_options
    from .cli.options import world as world
    from .cli.plugin_options import RunCommand as RunCommand
    from .cli.progress import Progress as RunProgress
    from .codec import decode as decode
    from .codec import decoder as decoder
    from .config import profiles as profiles
    from .config.install import RECORD as RECORD
    from .config.install import Install as Install
    from .config.plugin_settings import Layer as Layer
    from .config.plugin_settings import settings_of as settings_of
    from .config.profiles import Config as Config
    from .config.profiles import Profile as Profile
    from .config.request import Request as Request
    from .config.request import parse_pairs as parse_pairs
    from .errors import InfraError as InfraError
    from .errors import LlmbxError as LlmbxError
    from .errors import PluginError as PluginError
    from .errors import UsageError as UsageError
    from .errors import did_you_mean as did_you_mean
    from .files import disk_errors as disk_errors
    from .files import write_atomic as write_atomic
    from .history import refresh as refresh
    from .history import remeasure as remeasure
    from .history import tags as tags
    from .hookspecs import VERSION as VERSION
    from .launchers import detached as detached
    from .launchers import exits as exits
    from .launchers import nodes as nodes
    from .launchers import payload as payload
    from .launchers import processes as processes
    from .launchers import script as script
    from .launchers.base import Launcher as Launcher
    from .launchers.base import LauncherExtras as LauncherExtras
    from .launchers.base import Unreachable as Unreachable
    from .launchers.shim import phase_ranks as phase_ranks
    from .logs.lines import CUT as CUT
    from .logs.lines import LineReader as LineReader
    from .logs.lines import split_label as split_label
    from .logs.parser import LogFormat as LogFormat
    from .logs.parser import LogParser as LogParser
    from .logs.parser import Record as LogRecord
    from .logs.restarts import RESTARTED as RESTARTED
    from .logs.restarts import Attempts as Attempts
    from .logs.signatures import Signatures as Signatures
    from .measure import formulas as formulas
    from .measure import intervals as intervals
    from .measure import series as series
    from .measure import stats as stats
    from .measure import window as window
    from .model import JOB_NAME as JOB_NAME
    from .model import PREFLIGHT as PREFLIGHT
    from .model import Axis as Axis
    from .model import Capture as Capture
    from .model import Chart as Chart
    from .model import CheckpointSpec as CheckpointSpec
    from .model import Column as Column
    from .model import ConfigurationProgram as ConfigurationProgram
    from .model import Convention as Convention
    from .model import Environment as Environment
    from .model import Event as Event
    from .model import Example as Example
    from .model import ExpectedConfiguration as ExpectedConfiguration
    from .model import Fact as Fact
    from .model import Figure as Figure
    from .model import Finding as Finding
    from .model import Flops as Flops
    from .model import Image as Image
    from .model import ImageRequest as ImageRequest
    from .model import ImageSource as ImageSource
    from .model import Job as Job
    from .model import JobStatus as JobStatus
    from .model import Launch as Launch
    from .model import ModelShape as ModelShape
    from .model import Mount as Mount
    from .model import Natural as Natural
    from .model import Option as Option
    from .model import Parallelism as Parallelism
    from .model import Peak as Peak
    from .model import Permitted as Permitted
    from .model import Phase as Phase
    from .model import Point as Point
    from .model import Positive as Positive
    from .model import Prefix as Prefix
    from .model import Prints as Prints
    from .model import Profiler as Profiler
    from .model import ProfileSpec as ProfileSpec
    from .model import Recipe as Recipe
    from .model import Reference as Reference
    from .model import Result as Result
    from .model import Row as Row
    from .model import Rule as Rule
    from .model import RunGroup as RunGroup
    from .model import RunSpec as RunSpec
    from .model import Scalar as Scalar
    from .model import Seconds as Seconds
    from .model import Section as Section
    from .model import Series as Series
    from .model import Settings as Settings
    from .model import Size as Size
    from .model import Span as Span
    from .model import Step as Step
    from .model import Table as Table
    from .model import TraceSpec as TraceSpec
    from .model import Value as Value
    from .model import Workload as Workload
    from .model import Wrapping as Wrapping
    from .model.flops import transformer as transformer
    from .model.section import is_number as is_number
    from .plugins.manager import Plugins as Plugins
    from .plugins.manager import load as load_plugins
    from .record import folder as records
    from .record.folder import Record as RunRecord
    from .record.folder import Run as Run
    from .record.folder import SweepMark as SweepMark
    from .resolve import ranks as ranks
    from .resolve import resolve as resolve
    from .resolve.rules import common_findings as common_findings
    from .resolve.rules import emulated_bf16 as emulated_bf16
    from .run import context as context
    from .run import launch as launching
    from .run import pipeline as pipeline
    from .run import recovery as recovery
    from .run import retry as retry
    from .run.context import RunContext as RunContext
    from .run.finalize import conclude as conclude
    from .run.follow import STACK_GRACE_S as STACK_GRACE_S
    from .run.preconditions import site_findings as site_findings
    from .runtimes import children as children
    from .runtimes import container_env as container_env
    from .runtimes import locks as locks
    from .runtimes.base import Offer as Offer
    from .runtimes.base import Progress as Progress
    from .runtimes.base import Runtime as Runtime
    from .runtimes.base import RuntimeExtras as RuntimeExtras
    from .runtimes.select import AUTO as AUTO


def __getattr__(name: str) -> Any:
    """The object of this name, imported now. Raises `AttributeError` for a name that is not public."""
    place = _places().get(name)
    if place is None:
        raise AttributeError(f"llmbx.api has no name {name!r}")
    package, original = place
    module = importlib.import_module(package, __package__)
    found = getattr(module, original, None)
    if found is None:
        found = importlib.import_module(f"{package}.{original}" if package != "." else f".{original}", __package__)
    return found


def __dir__() -> list[str]:
    """Every public name."""
    return sorted(_places())


def _places() -> dict[str, tuple[str, str]]:
    """Public name -> (module, name there), as the imports above state them for type checkers: they are written once."""
    if not _PLACES:
        source = __loader__.get_source(__name__)  # type: ignore[name-defined]
        tree = compile(source, __file__, "exec", _ONLY_AST)
        imports = next(block.body for block in tree.body if type(block).__name__ == "If")
        _PLACES.update(
            {alias.asname: (f".{node.module or ''}", alias.name) for node in imports for alias in node.names}
        )
    return _PLACES


_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast
_PLACES: dict[str, tuple[str, str]] = {}
