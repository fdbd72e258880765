"""The public API of llmbx for plugins, besides `llmbx.entry` (for programs of a rank) and `llmbx.testing`.

This module has what frameworks, profilers, runtimes and launchers need. `llmbx.api.verbs` has what a plugin needs in
addition if it adds commands or reads the records of runs. Names are imported on first use, so that importing these
modules is fast. For a module in the list (`stats`, `script` …) all functions without a leading underscore are public.

`VERSION` is the version of the API, (major, minor). A plugin states the version that it was made for as
`LLMBX_API = (1, 0)` in the module that its entry point names. The minor version is increased when something is added;
older plugins keep working. The major version is increased when something is removed or changes its meaning; a plugin
that was made for another major version is rejected with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import __version__ as __version__
    from .. import archives as archives
    from .. import hookimpl as hookimpl
    from .. import secrets as secrets
    from .. import suggestions as suggestions
    from .. import toml_file as toml_file
    from ..catalog import configuration as configuration
    from ..catalog import environments as environments
    from ..catalog import hardware as hardware
    from ..catalog.environments import needed as needed
    from ..catalog.workloads import load_workload as load_workload
    from ..catalog.workloads import load_workloads as load_workloads
    from ..clock import TOLERANCE_S as CLOCK_TOLERANCE_S
    from ..codec import convert as convert
    from ..codec import decode as decode
    from ..codec import decoder as decoder
    from ..config.plugin_settings import Layer as Layer
    from ..config.plugin_settings import settings_of as settings_of
    from ..errors import InfraError as InfraError
    from ..errors import LlmbxError as LlmbxError
    from ..errors import PluginError as PluginError
    from ..errors import UsageError as UsageError
    from ..errors import did_you_mean as did_you_mean
    from ..files import disk_errors as disk_errors
    from ..files import free_bytes as free_bytes
    from ..files import write_atomic as write_atomic
    from ..hookspecs import VERSION as VERSION
    from ..launchers import detached as detached
    from ..launchers import exits as exits
    from ..launchers import nodes as nodes
    from ..launchers import payload as payload
    from ..launchers import processes as processes
    from ..launchers import script as script
    from ..launchers.base import LOCAL as LOCAL
    from ..launchers.base import Launcher as Launcher
    from ..launchers.base import Unreachable as Unreachable
    from ..launchers.shim import phase_ranks as phase_ranks
    from ..logs import printed as printed
    from ..logs.line import Line as Line
    from ..logs.lines import CUT as CUT
    from ..logs.lines import LIMIT as LIMIT
    from ..logs.lines import LineReader as LineReader
    from ..logs.lines import split_label as split_label
    from ..logs.parser import LogFormat as LogFormat
    from ..logs.parser import LogParser as LogParser
    from ..logs.parser import Record as LogRecord
    from ..logs.restarts import FELL_TO as FELL_TO
    from ..logs.restarts import RESTARTED as RESTARTED
    from ..logs.restarts import Attempts as Attempts
    from ..logs.signatures import FINISHED as FINISHED
    from ..logs.signatures import Signatures as Signatures
    from ..measure import formulas as formulas
    from ..measure import stats as stats
    from ..measure.judge import Judge as Judge
    from ..measure.judge import ReferenceVerdict as ReferenceVerdict
    from ..measure.training import all_steps_skipped as all_steps_skipped
    from ..measure.training import finite as finite
    from ..measure.training import last_gradient_not_finite as last_gradient_not_finite
    from ..measure.training import loss_not_finite as loss_not_finite
    from ..measure.window import choose as choose_window
    from ..model import JOB_NAME as JOB_NAME
    from ..model import PREFLIGHT as PREFLIGHT
    from ..model import Answer as Answer
    from ..model import Arrival as Arrival
    from ..model import Axis as Axis
    from ..model import Bounds as Bounds
    from ..model import Capture as Capture
    from ..model import Chart as Chart
    from ..model import Check as Check
    from ..model import CheckpointSpec as CheckpointSpec
    from ..model import Column as Column
    from ..model import ComparisonOutcome as ComparisonOutcome
    from ..model import ConfigurationProgram as ConfigurationProgram
    from ..model import Conflict as Conflict
    from ..model import Convention as Convention
    from ..model import Damage as Damage
    from ..model import Environment as Environment
    from ..model import Event as Event
    from ..model import Evidence as Evidence
    from ..model import Example as Example
    from ..model import Expected as Expected
    from ..model import ExpectedConfiguration as ExpectedConfiguration
    from ..model import Fact as Fact
    from ..model import Figure as Figure
    from ..model import Figures as Figures
    from ..model import Finding as Finding
    from ..model import Flops as Flops
    from ..model import Image as Image
    from ..model import ImageRequest as ImageRequest
    from ..model import ImageSource as ImageSource
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
    from ..model import Peak as Peak
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
    from ..model import Seconds as Seconds
    from ..model import Section as Section
    from ..model import Series as Series
    from ..model import Settings as Settings
    from ..model import SinceBoot as SinceBoot
    from ..model import Size as Size
    from ..model import Source as Source
    from ..model import SourceRecord as SourceRecord
    from ..model import Span as Span
    from ..model import Stability as Stability
    from ..model import Step as Step
    from ..model import Table as Table
    from ..model import TraceSpec as TraceSpec
    from ..model import Value as Value
    from ..model import Workload as Workload
    from ..model import Wrapping as Wrapping
    from ..model import layers as layers
    from ..model import layerwise as layerwise
    from ..model.evidence import MEASURE as MEASURE
    from ..model.flops import Term as Term
    from ..model.flops import transformer as transformer
    from ..model.result import Stable as Stable
    from ..model.section import is_number as is_number
    from ..phrases import format_bytes as format_bytes
    from ..phrases import listed as listed
    from ..phrases import plural as plural
    from ..plugins.lazy_hooks import lazy_hooks as lazy_hooks
    from ..resolve import ranks as ranks
    from ..resolve.rules import emulated_bf16 as emulated_bf16
    from ..run_files import RunFile as RunFile
    from ..run_files import RunFolder as RunFolder
    from ..runtimes import children as children
    from ..runtimes import container_env as container_env
    from ..runtimes import locks as locks
    from ..runtimes.base import Offer as Offer
    from ..runtimes.base import Progress as Progress
    from ..runtimes.base import Runtime as Runtime
    from ..runtimes.select import AUTO as AUTO


__getattr__, __dir__ = lazy(__name__, __file__)
