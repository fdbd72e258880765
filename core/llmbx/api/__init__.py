"""The public API of llmbx for plugins, besides `llmbx.entry` (for programs of a rank) and `llmbx.testing`.

This module has what frameworks, profilers, runtimes and launchers need. `llmbx.api.verbs` has what a plugin needs in
addition if it adds commands or reads the records of runs. Names are imported on first use, so that importing these
modules is fast.

`VERSION` is the version of the API, (major, minor). A plugin states the version that it was made for as
`LLMBX_API = (2, 0)` in the module that its entry point names. The minor version is increased when something is added;
older plugins keep working. The major version is increased when something is removed or changes its meaning; a plugin
that was made for another major version is rejected with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import __version__ as __version__
    from .. import hookimpl as hookimpl
    from ..catalog.derived import cases as workload_cases
    from ..catalog.environments import load_environment as load_environment
    from ..catalog.environments import needed as needed
    from ..catalog.hardware import GpuType as GpuType
    from ..catalog.workloads import dtype_name as dtype_name
    from ..catalog.workloads import load_workload as load_workload
    from ..catalog.workloads import load_workloads as load_workloads
    from ..codec import convert as convert
    from ..codec import decode as decode
    from ..config.plugin_settings import Layer as Layer
    from ..config.plugin_settings import settings_of as settings_of
    from ..errors import InfraError as InfraError
    from ..errors import LlmbxError as LlmbxError
    from ..errors import Unreachable as Unreachable
    from ..errors import UsageError as UsageError
    from ..errors import did_you_mean as did_you_mean
    from ..files import disk_errors as disk_errors
    from ..files import free_bytes as free_bytes
    from ..files import write_atomic as write_atomic
    from ..hookspecs import VERSION as VERSION
    from ..launchers.base import Launcher as Launcher
    from ..launchers.exits import Exit as Exit
    from ..launchers.payload import payload_files as payload_files
    from ..logs.line import Line as Line
    from ..logs.lines import CUT as CUT
    from ..logs.lines import split_label as split_label
    from ..logs.parser import LogFormat as LogFormat
    from ..logs.parser import LogParser as LogParser
    from ..logs.printed import real as read_real
    from ..logs.printed import rounded as rounded_range
    from ..logs.printed import whole as read_whole
    from ..logs.restarts import Attempts as Attempts
    from ..logs.signatures import Signatures as Signatures
    from ..logs.source_reader import SourceReader as SourceReader
    from ..logs.training_log import TrainingLog as TrainingLog
    from ..measure.judge import Judge as Judge
    from ..measure.judge import ReferenceVerdict as ReferenceVerdict
    from ..measure.stats import mean as mean_of
    from ..measure.stats import median as median_of
    from ..measure.stats import summary as summary_of
    from ..measure.training import Training as Training
    from ..measure.window import choose as choose_window
    from ..model import JOB_NAME as JOB_NAME
    from ..model import Answer as Answer
    from ..model import Axis as Axis
    from ..model import Bounds as Bounds
    from ..model import Capture as Capture
    from ..model import Chart as Chart
    from ..model import Check as Check
    from ..model import Column as Column
    from ..model import ConfigurationProgram as ConfigurationProgram
    from ..model import Convention as Convention
    from ..model import Environment as Environment
    from ..model import Event as Event
    from ..model import Evidence as Evidence
    from ..model import Example as Example
    from ..model import Expected as Expected
    from ..model import ExpectedConfiguration as ExpectedConfiguration
    from ..model import Fact as Fact
    from ..model import Failure as Failure
    from ..model import Figure as Figure
    from ..model import Finding as Finding
    from ..model import Flops as Flops
    from ..model import HandlingRequest as HandlingRequest
    from ..model import Image as Image
    from ..model import ImageRequest as ImageRequest
    from ..model import Job as Job
    from ..model import JobStatus as JobStatus
    from ..model import Launch as Launch
    from ..model import Measure as Measure
    from ..model import ModelShape as ModelShape
    from ..model import Mount as Mount
    from ..model import Natural as Natural
    from ..model import Node as Node
    from ..model import NotPossible as NotPossible
    from ..model import Obstacle as Obstacle
    from ..model import Option as Option
    from ..model import Parallelism as Parallelism
    from ..model import Permitted as Permitted
    from ..model import Phase as Phase
    from ..model import Point as Point
    from ..model import Positive as Positive
    from ..model import Prefix as Prefix
    from ..model import Prints as Prints
    from ..model import Profiler as Profiler
    from ..model import ProfileSpec as ProfileSpec
    from ..model import Proposal as Proposal
    from ..model import Recipe as Recipe
    from ..model import Reference as Reference
    from ..model import Result as Result
    from ..model import Row as Row
    from ..model import Rule as Rule
    from ..model import RunGroup as RunGroup
    from ..model import RunSpec as RunSpec
    from ..model import Scalar as Scalar
    from ..model import Section as Section
    from ..model import Series as Series
    from ..model import Settings as Settings
    from ..model import Source as Source
    from ..model import SourceRecord as SourceRecord
    from ..model import Span as Span
    from ..model import Stability as Stability
    from ..model import Step as Step
    from ..model import Table as Table
    from ..model import Value as Value
    from ..model import Workload as Workload
    from ..model import Wrapping as Wrapping
    from ..model.layers import Term as Term
    from ..model.packages import Pin as Pin
    from ..model.section import is_number as is_number
    from ..phrases import format_bytes as format_bytes
    from ..phrases import listed as listed
    from ..phrases import plural as plural
    from ..plugins.lazy_hooks import lazy_hooks as lazy_hooks
    from ..resolve.ranks import numbers as rank_numbers
    from ..resolve.ranks import spell as spell_ranks
    from ..resolve.rules import emulated_bf16 as emulated_bf16
    from ..run_files import RunFile as RunFile
    from ..run_files import RunFolder as RunFolder
    from ..runtimes.base import Offer as Offer
    from ..runtimes.base import Progress as Progress
    from ..runtimes.base import Runtime as Runtime
    from ..runtimes.children import end_leftovers as end_leftovers
    from ..runtimes.children import follow as follow_process
    from ..secrets import known as known_secrets
    from ..toml_file import NOT_JSON as NOT_JSON
    from ..toml_file import convert as convert_toml
    from ..toml_file import read_toml as read_toml

PLACES = {
    "__version__": "",
    "hookimpl": "",
    "load_environment": "catalog.environments",
    "needed": "catalog.environments",
    "GpuType": "catalog.hardware",
    "workload_cases": "catalog.derived:cases",
    "load_workload": "catalog.workloads",
    "load_workloads": "catalog.workloads",
    "convert": "codec",
    "decode": "codec",
    "Layer": "config.plugin_settings",
    "settings_of": "config.plugin_settings",
    "InfraError": "errors",
    "LlmbxError": "errors",
    "UsageError": "errors",
    "did_you_mean": "errors",
    "dtype_name": "catalog.workloads",
    "disk_errors": "files",
    "free_bytes": "files",
    "write_atomic": "files",
    "VERSION": "hookspecs",
    "Launcher": "launchers.base",
    "Unreachable": "errors",
    "Exit": "launchers.exits",
    "payload_files": "launchers.payload",
    "Line": "logs.line",
    "CUT": "logs.lines",
    "split_label": "logs.lines",
    "LogFormat": "logs.parser",
    "LogParser": "logs.parser",
    "read_real": "logs.printed:real",
    "read_whole": "logs.printed:whole",
    "rounded_range": "logs.printed:rounded",
    "Attempts": "logs.restarts",
    "Signatures": "logs.signatures",
    "SourceReader": "logs.source_reader",
    "TrainingLog": "logs.training_log",
    "Judge": "measure.judge",
    "ReferenceVerdict": "measure.judge",
    "mean_of": "measure.stats:mean",
    "median_of": "measure.stats:median",
    "summary_of": "measure.stats:summary",
    "Training": "measure.training",
    "choose_window": "measure.window:choose",
    "Answer": "model",
    "Axis": "model",
    "Bounds": "model",
    "Capture": "model",
    "Chart": "model",
    "Check": "model",
    "Column": "model",
    "ConfigurationProgram": "model",
    "Convention": "model",
    "Environment": "model",
    "Event": "model",
    "Evidence": "model",
    "Example": "model",
    "Expected": "model",
    "ExpectedConfiguration": "model",
    "Fact": "model",
    "Failure": "model",
    "Figure": "model",
    "Finding": "model",
    "Flops": "model",
    "HandlingRequest": "model",
    "Image": "model",
    "ImageRequest": "model",
    "JOB_NAME": "model",
    "Job": "model",
    "JobStatus": "model",
    "Launch": "model",
    "Measure": "model",
    "ModelShape": "model",
    "Mount": "model",
    "Natural": "model",
    "Node": "model",
    "NotPossible": "model",
    "Obstacle": "model",
    "Option": "model",
    "Parallelism": "model",
    "Permitted": "model",
    "Phase": "model",
    "Point": "model",
    "Positive": "model",
    "Prefix": "model",
    "Prints": "model",
    "ProfileSpec": "model",
    "Profiler": "model",
    "Proposal": "model",
    "Recipe": "model",
    "Reference": "model",
    "Result": "model",
    "Row": "model",
    "Rule": "model",
    "RunGroup": "model",
    "RunSpec": "model",
    "Scalar": "model",
    "Section": "model",
    "Series": "model",
    "Settings": "model",
    "Source": "model",
    "SourceRecord": "model",
    "Span": "model",
    "Stability": "model",
    "Step": "model",
    "Table": "model",
    "Value": "model",
    "Workload": "model",
    "Wrapping": "model",
    "Term": "model.layers",
    "Pin": "model.packages",
    "is_number": "model.section",
    "format_bytes": "phrases",
    "listed": "phrases",
    "plural": "phrases",
    "lazy_hooks": "plugins.lazy_hooks",
    "rank_numbers": "resolve.ranks:numbers",
    "spell_ranks": "resolve.ranks:spell",
    "emulated_bf16": "resolve.rules",
    "RunFile": "run_files",
    "RunFolder": "run_files",
    "Offer": "runtimes.base",
    "Progress": "runtimes.base",
    "Runtime": "runtimes.base",
    "end_leftovers": "runtimes.children",
    "follow_process": "runtimes.children:follow",
    "known_secrets": "secrets:known",
    "NOT_JSON": "toml_file",
    "convert_toml": "toml_file:convert",
    "read_toml": "toml_file",
}
"""Name -> its module in llmbx, with its name there if that differs. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
