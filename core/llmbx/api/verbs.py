"""The public API for plugins that add commands: options and output, the run pipeline, records, history, catalog.

The version and its policy are those of `llmbx.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..catalog.references import Published as PublishedReferences
    from ..catalog.scales import evaluate as evaluate_scale
    from ..catalog.scales import scales as scales_of
    from ..cli.cases import Case as Case
    from ..cli.cases import print_cases as print_cases
    from ..cli.completion import RUN as RUN_ARGUMENT
    from ..cli.completion import WORKLOAD as WORKLOAD_ARGUMENT
    from ..cli.explicit_options import explicit_options as explicit_options
    from ..cli.extensions import Extension as Extension
    from ..cli.log_reading import LogReading as LogReading
    from ..cli.numbers import Above as NumberAbove
    from ..cli.numbers import fraction as parse_fraction
    from ..cli.options import RUN_OPTIONS as RUN_OPTIONS
    from ..cli.options import output_option as output_option
    from ..cli.options import run_options as run_options
    from ..cli.options import which_workload as which_workload
    from ..cli.output import OutputPath as OutputPath
    from ..cli.output import format_option as format_option
    from ..cli.output import heading as print_heading
    from ..cli.output import print_json as print_json
    from ..cli.output import print_rows as print_rows
    from ..cli.output import to_csv as to_csv
    from ..cli.plugin_options import RunCommand as RunCommand
    from ..cli.plugin_options import pop_settings as pop_settings
    from ..cli.progress import Progress as RunProgress
    from ..cli.run import RunCall as RunCall
    from ..cli.streams import control as control_code
    from ..cli.streams import visible_json as visible_json
    from ..cli.terminal import render as render_terminal
    from ..cli.workspace import Workspace as Workspace
    from ..cli.workspace import load_workspace as load_workspace
    from ..cli.workspace import path_or_run as path_or_run
    from ..config.install import Install as Install
    from ..config.profiles import Config as Config
    from ..config.profiles import load_config as load_config
    from ..config.request import Request as Request
    from ..config.request import check_tags as check_tags
    from ..config.request import parse_pairs as parse_pairs
    from ..measure.window import check as check_window
    from ..optional import imported as imported
    from ..phrases import format_number as format_number
    from ..plugins.manager import Plugins as Plugins
    from ..plugins.manager import load as load_plugins
    from ..record.folder import Record as RunRecord
    from ..record.folder import Recorded as Recorded
    from ..record.folder import Run as Run
    from ..record.folder import SweepMark as SweepMark
    from ..record.history import History as History
    from ..record.history import Selection as Selection
    from ..record.host import current_user as current_user
    from ..record.names import tag_named as tag_named
    from ..resolve import resolve as resolve
    from ..resolve.rules import common_findings as common_findings
    from ..run.configuration import read_final as read_final
    from ..run.pipeline import Runner as Runner
    from ..run.refresh import current_status as current_status
    from ..run.refresh import refresh_result as refresh_result

PLACES = {
    "PublishedReferences": "catalog.references:Published",
    "evaluate_scale": "catalog.scales:evaluate",
    "scales_of": "catalog.scales:scales",
    "Case": "cli.cases",
    "print_cases": "cli.cases",
    "RUN_ARGUMENT": "cli.completion:RUN",
    "WORKLOAD_ARGUMENT": "cli.completion:WORKLOAD",
    "explicit_options": "cli.explicit_options",
    "Extension": "cli.extensions",
    "LogReading": "cli.log_reading",
    "NumberAbove": "cli.numbers:Above",
    "parse_fraction": "cli.numbers:fraction",
    "RUN_OPTIONS": "cli.options",
    "Workspace": "cli.workspace",
    "load_workspace": "cli.workspace",
    "output_option": "cli.options",
    "path_or_run": "cli.workspace",
    "run_options": "cli.options",
    "which_workload": "cli.options",
    "OutputPath": "cli.output",
    "format_option": "cli.output",
    "print_heading": "cli.output:heading",
    "print_json": "cli.output",
    "print_rows": "cli.output",
    "to_csv": "cli.output",
    "RunCommand": "cli.plugin_options",
    "pop_settings": "cli.plugin_options",
    "RunProgress": "cli.progress:Progress",
    "RunCall": "cli.run",
    "control_code": "cli.streams:control",
    "visible_json": "cli.streams",
    "render_terminal": "cli.terminal:render",
    "Install": "config.install",
    "Config": "config.profiles",
    "load_config": "config.profiles",
    "Request": "config.request",
    "parse_pairs": "config.request",
    "tag_named": "record.names",
    "History": "record.history",
    "Selection": "record.history",
    "current_status": "run.refresh",
    "refresh_result": "run.refresh",
    "check_tags": "config.request",
    "check_window": "measure.window:check",
    "imported": "optional",
    "format_number": "phrases",
    "Plugins": "plugins.manager",
    "load_plugins": "plugins.manager:load",
    "Recorded": "record.folder",
    "Run": "record.folder",
    "RunRecord": "record.folder:Record",
    "SweepMark": "record.folder",
    "current_user": "record.host",
    "resolve": "resolve",
    "common_findings": "resolve.rules",
    "read_final": "run.configuration",
    "Runner": "run.pipeline",
}
"""Name -> its module in llmbx, with its name there if that differs. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
