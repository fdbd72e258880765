"""The public API of llmbx for plugins, besides `llmbx.entry` (for programs of a rank) and `llmbx.testing`.

This module has what frameworks, profilers, runtimes and launchers need. `llmbx.api.verbs` has what a plugin needs in
addition if it adds commands or reads the records of runs. Names are imported on first use, so that importing these
modules is fast.

`VERSION` is the version of the API, (major, minor). A plugin states the version that it was made for as
`LLMBX_API = (3, 0)` in the module that its entry point names. The minor version is increased when something is added;
older plugins keep working. The major version is increased when something is removed or changes its meaning; a plugin
that was made for another major version is rejected with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import __version__, hookimpl
    from ..catalog.derived import cases as workload_cases
    from ..catalog.environments import load_environment, needed
    from ..catalog.hardware import GpuType
    from ..catalog.workloads import dtype_name, load_workload, load_workloads
    from ..codec import convert, decode
    from ..config.plugin_settings import settings_of
    from ..errors import InfraError, LlmbxError, Unreachable, UsageError
    from ..files import disk_errors, free_bytes, write_atomic
    from ..hookspecs import VERSION
    from ..launchers.base import Launcher
    from ..launchers.exits import Exit
    from ..logs.lines import CUT, Line, split_label
    from ..logs.parser import LogFormat, LogParser
    from ..logs.printed import real as read_real
    from ..logs.printed import rounded as rounded_range
    from ..logs.printed import whole as read_whole
    from ..logs.restarts import Attempts
    from ..logs.signatures import Signatures
    from ..logs.source_reader import SourceReader
    from ..logs.training_log import TrainingLog
    from ..measure.judge import Judge, ReferenceVerdict
    from ..measure.stats import mean as mean_of
    from ..measure.stats import median as median_of
    from ..measure.stats import summary as summary_of
    from ..measure.training import Training
    from ..measure.window import choose as choose_window
    from ..model import (
        JOB_NAME,
        Answer,
        Axis,
        Bounds,
        Capture,
        Chart,
        Check,
        Column,
        ConfigurationProgram,
        Convention,
        Environment,
        Event,
        Evidence,
        Example,
        Expected,
        ExpectedConfiguration,
        Fact,
        Failure,
        Figure,
        Finding,
        Flops,
        HandlingRequest,
        Image,
        ImageRequest,
        Job,
        JobStatus,
        Launch,
        Measure,
        ModelShape,
        Mount,
        Natural,
        Node,
        NotPossible,
        Obstacle,
        Option,
        Parallelism,
        Permitted,
        Phase,
        Point,
        Positive,
        Prefix,
        Prints,
        Profiler,
        ProfileSpec,
        Proposal,
        Recipe,
        Reference,
        Result,
        Row,
        Rule,
        RunGroup,
        RunSpec,
        Scalar,
        Section,
        Series,
        Settings,
        Source,
        SourceRecord,
        Span,
        Stability,
        Step,
        Table,
        Value,
        Workload,
        Wrapping,
    )
    from ..model.layers import Term
    from ..model.section import is_number
    from ..model.settings import Layer
    from ..phrases import did_you_mean, format_bytes, listed, plural
    from ..plugins.lazy_hooks import lazy_hooks
    from ..plugins.payload import payload_files
    from ..resolve.ranks import numbers as rank_numbers
    from ..resolve.ranks import spell as spell_ranks
    from ..resolve.rules import emulated_bf16
    from ..run_files import RunFile, RunFolder
    from ..runtimes.base import Offer, Progress, Runtime
    from ..runtimes.children import end_leftovers
    from ..runtimes.children import follow as follow_process
    from ..secrets import known as known_secrets
    from ..toml_file import NOT_JSON, read_toml
    from ..toml_file import convert as convert_toml

PLACES = {
    "": "__version__ hookimpl",
    "catalog.derived": "workload_cases:cases",
    "catalog.environments": "load_environment needed",
    "catalog.hardware": "GpuType",
    "catalog.workloads": "dtype_name load_workload load_workloads",
    "codec": "convert decode",
    "config.plugin_settings": "settings_of",
    "errors": "InfraError LlmbxError Unreachable UsageError",
    "files": "disk_errors free_bytes write_atomic",
    "hookspecs": "VERSION",
    "launchers.base": "Launcher",
    "launchers.exits": "Exit",
    "plugins.payload": "payload_files",
    "logs.lines": "CUT Line split_label",
    "logs.parser": "LogFormat LogParser",
    "logs.printed": "read_real:real read_whole:whole rounded_range:rounded",
    "logs.restarts": "Attempts",
    "logs.signatures": "Signatures",
    "logs.source_reader": "SourceReader",
    "logs.training_log": "TrainingLog",
    "measure.judge": "Judge ReferenceVerdict",
    "measure.stats": "mean_of:mean median_of:median summary_of:summary",
    "measure.training": "Training",
    "measure.window": "choose_window:choose",
    "model": (
        "Answer Axis Bounds Capture Chart Check Column ConfigurationProgram Convention "
        "Environment Event Evidence Example Expected ExpectedConfiguration Fact Failure Figure "
        "Finding Flops HandlingRequest Image ImageRequest JOB_NAME Job JobStatus Launch Measure "
        "ModelShape Mount Natural Node NotPossible Obstacle Option Parallelism Permitted Phase "
        "Point Positive Prefix Prints ProfileSpec Profiler Proposal Recipe Reference Result Row "
        "Rule RunGroup RunSpec Scalar Section Series Settings Source SourceRecord Span Stability "
        "Step Table Value Workload Wrapping"
    ),
    "model.layers": "Term",
    "model.section": "is_number",
    "model.settings": "Layer",
    "phrases": "did_you_mean format_bytes listed plural",
    "plugins.lazy_hooks": "lazy_hooks",
    "resolve.ranks": "rank_numbers:numbers spell_ranks:spell",
    "resolve.rules": "emulated_bf16",
    "run_files": "RunFile RunFolder",
    "runtimes.base": "Offer Progress Runtime",
    "runtimes.children": "end_leftovers follow_process:follow",
    "secrets": "known_secrets:known",
    "toml_file": "NOT_JSON convert_toml:convert read_toml",
}
"""The names by their module in llmbx, as `name:name_there` if they differ. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
