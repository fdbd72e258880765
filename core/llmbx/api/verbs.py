"""The public API for plugins that add commands: options and output, the run pipeline, records, history, catalog.

The version and its policy are those of `llmbx.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .. import history as history
    from ..catalog import matching as matching
    from ..catalog import references as references
    from ..catalog import scales as scales
    from ..catalog import workloads as workloads
    from ..cli import completion as completion
    from ..cli import flow as flow
    from ..cli import formatting as formatting
    from ..cli import junit as junit
    from ..cli import numbers as numbers
    from ..cli import options as options
    from ..cli import output as output
    from ..cli import plugin_options as plugin_options
    from ..cli import terminal as terminal
    from ..cli.explicit_options import explicit_options as explicit_options
    from ..cli.options import Workspace as Workspace
    from ..cli.options import load_workspace as load_workspace
    from ..cli.options import run_options as run_options
    from ..cli.plugin_options import RunCommand as RunCommand
    from ..cli.progress import Progress as RunProgress
    from ..config import profiles as profiles
    from ..config.install import RECORD as RECORD
    from ..config.install import Install as Install
    from ..config.profiles import Config as Config
    from ..config.profiles import Profile as Profile
    from ..config.request import Request as Request
    from ..config.request import from_environ as request_from_environ
    from ..config.request import parse_pairs as parse_pairs
    from ..history import loaded as loaded_runs
    from ..history import refresh as refresh
    from ..history import remeasure as remeasure
    from ..history import tags as tags
    from ..measure import measures as measures
    from ..measure import window as window
    from ..optional import imported as imported
    from ..plugins.manager import Plugins as Plugins
    from ..plugins.manager import load as load_plugins
    from ..record import folder as records
    from ..record.folder import PairMark as PairMark
    from ..record.folder import Record as RunRecord
    from ..record.folder import Run as Run
    from ..record.folder import SweepMark as SweepMark
    from ..resolve import resolve as resolve
    from ..resolve.rules import common_findings as common_findings
    from ..run import context as context
    from ..run import launch as launching
    from ..run import pipeline as pipeline
    from ..run import recovery as recovery
    from ..run import retry as retry
    from ..run.configuration import read_final as read_final
    from ..run.context import RunContext as RunContext
    from ..run.finalize import conclude as conclude
    from ..run.follow import STACK_GRACE_S as STACK_GRACE_S
    from ..run.preconditions import site_findings as site_findings


__getattr__, __dir__ = lazy(__name__, __file__)
